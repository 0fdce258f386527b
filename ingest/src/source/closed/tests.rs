use super::*;

const COMBINED: &str =
    r#"h - - [10/Oct/2000:13:55:36 -0700] "GET /a HTTP/1.0" 200 2326 "http://r/" "Moz \"4\" (X)""#;

fn closed(piece: &str, before: Option<&str>, format: &Format) -> bool {
    is_closed(piece.as_bytes(), before.map(str::as_bytes), format)
}

/// Every beginning of a line but the last lacks something, and no beginning may pass for the line.
#[test]
fn no_beginning_of_a_combined_line_is_closed() {
    for format in &[Format::Auto, Format::Combined, Format::Common] {
        for end in 0..COMBINED.len() {
            let piece = &COMBINED[..end];
            assert!(!closed(piece, None, format), "{format}: {piece}");
            assert!(!closed(piece, Some(COMBINED), format), "{format}: {piece}");
        }
        assert!(closed(COMBINED, None, format), "{format}");
        assert!(closed(&format!("{COMBINED}\r"), None, format), "{format}");
    }
    let site = format!("shop.example:443 {COMBINED}");
    assert!(closed(&site, None, &Format::VhostCombined));
}

#[test]
fn a_combined_line_is_open_where_the_line_before_it_goes_on() {
    let longer = format!("{COMBINED} 0.003");
    assert!(!closed(COMBINED, Some(&longer), &Format::Combined));
    assert!(!closed(&longer, Some(&longer), &Format::Combined));
    assert!(closed(COMBINED, Some("no access line"), &Format::Combined));
}

#[test]
fn a_common_line_and_a_plain_one_are_never_closed() {
    let common = r#"h - - [10/Oct/2000:13:55:36 -0700] "GET /a HTTP/1.0" 200 23"#;
    assert!(!closed(common, Some(common), &Format::Common));
    assert!(!closed(common, None, &Format::Auto));
    assert!(!closed(COMBINED, None, &Format::Plain));
    assert!(!closed("", None, &Format::Auto));
}

#[test]
fn no_beginning_of_an_object_is_closed() {
    let object = r#"{"a":{"b":"}"},"c":[1,2]}"#;
    for end in 0..object.len() {
        assert!(
            !closed(&object[..end], None, &Format::Json),
            "{}",
            &object[..end]
        );
    }
    for format in [Format::Json, Format::Auto] {
        assert!(closed(object, Some(r#"{"a":1}"#), &format), "{format}");
    }
}
