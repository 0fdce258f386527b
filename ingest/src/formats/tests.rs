use super::*;

const ALL: [Format; 18] = [
    Format::Auto,
    Format::Common,
    Format::Combined,
    Format::VhostCombined,
    Format::Json,
    Format::Plain,
    Format::Logfmt,
    Format::Syslog,
    Format::NginxError,
    Format::ApacheError,
    Format::Alb,
    Format::S3Access,
    Format::Haproxy,
    Format::W3c,
    Format::Csv,
    Format::Tsv,
    Format::Bson,
    Format::Counters,
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
    for name in ["", "Combined", "combined ", "cvs"] {
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
    let error = "logmill".parse::<Format>().unwrap_err();
    assert!(matches!(error, Error::FormatNotYet { .. }));
    assert!(error.to_string().contains("not supported yet"), "{error}");
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
    for format in &ALL[4..17] {
        assert_eq!(format.kind(), StreamKind::Documents);
    }
    assert_eq!(Format::Counters.kind(), StreamKind::Counters);
}

#[test]
fn the_table_has_every_format_once() {
    assert_eq!(Format::ALL, ALL);
    assert_eq!(
        Format::names(),
        "auto, common, combined, vhost_combined, json, plain, logfmt, syslog, nginx_error, \
         apache_error, alb, s3_access, haproxy, w3c, csv, tsv, bson and counters"
    );
}

#[test]
fn a_line_counts_for_the_last_format_that_recognises_it() {
    let common = r#"h - u [10/Oct/2000:13:55:36 -0700] "GET / HTTP/1.0" 200 2326"#;
    let combined = format!("{common} \"r\" \"a\"");
    for (line, expected) in [
        (common.to_owned(), Some((Format::Common, Fit::Whole))),
        (
            format!("{common} x"),
            Some((Format::Common, Fit::Beginning)),
        ),
        (combined.clone(), Some((Format::Combined, Fit::Whole))),
        (
            format!("{combined} x"),
            Some((Format::Combined, Fit::Beginning)),
        ),
        (
            format!("{combined}x"),
            Some((Format::Common, Fit::Beginning)),
        ),
        (
            format!("v:80 {combined}"),
            Some((Format::VhostCombined, Fit::Whole)),
        ),
        (format!("v:80 {common}"), None),
        (" {".to_owned(), Some((Format::Json, Fit::Whole))),
        ("text".to_owned(), None),
    ] {
        assert_eq!(recognise(line.as_bytes()), expected, "{line}");
    }
}
