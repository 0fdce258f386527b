use super::*;

const ALL: [Format; 6] = [
    Format::Auto,
    Format::Common,
    Format::Combined,
    Format::VhostCombined,
    Format::Json,
    Format::Plain,
];

#[test]
fn every_format_is_read_back_from_its_name() {
    for format in ALL {
        assert_eq!(format.to_string().parse::<Format>().unwrap(), format);
        assert_eq!(
            serde_json::to_string(&format).unwrap(),
            format!("\"{format}\"")
        );
    }
}

#[test]
fn an_unknown_name_is_answered_with_the_known_ones() {
    for name in ["", "Combined", "combined ", "csv"] {
        let error = name.parse::<Format>().unwrap_err();
        assert!(matches!(error, Error::UnknownFormat { .. }), "{name}");
        for format in ALL {
            assert!(error.to_string().contains(format.as_str()), "{error}");
        }
        assert_eq!(error.kind(), storage::Kind::Invalid);
    }
}

#[test]
fn a_format_of_a_later_version_says_not_yet() {
    for name in [
        "nginx_error",
        "apache_error",
        "logfmt",
        "syslog",
        "w3c",
        "regex:'a'",
        "grok:x",
        "apache:%h",
        "nginx:$a",
    ] {
        let error = name.parse::<Format>().unwrap_err();
        assert!(matches!(error, Error::FormatNotYet { .. }), "{name}");
        assert!(error.to_string().contains("not yet"), "{error}");
    }
}

#[test]
fn kinds_follow_from_formats() {
    for format in [
        Format::Auto,
        Format::Common,
        Format::Combined,
        Format::VhostCombined,
    ] {
        assert_eq!(format.kind(), StreamKind::Access);
    }
    for format in [Format::Json, Format::Plain] {
        assert_eq!(format.kind(), StreamKind::Documents);
    }
}
