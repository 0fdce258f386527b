use std::time::{Duration, Instant};

use super::{StatementText, is_complete, split};

fn texts(text: &str) -> Vec<String> {
    let pieces = split(text).expect("the text can be split");
    for StatementText {
        text: piece, start, ..
    } in &pieces
    {
        assert_eq!(&text[*start..][..piece.len()], piece);
    }
    pieces.into_iter().map(|piece| piece.text).collect()
}

#[test]
fn statements_end_at_semicolons_and_empty_ones_are_left_out() {
    assert_eq!(texts("SELECT 1; SELECT 2"), ["SELECT 1", "SELECT 2"]);
    assert_eq!(texts(" ;; SELECT 1 ;;\n ; "), ["SELECT 1"]);
    assert_eq!(texts("-- nothing\n; /* ; */ ;"), [""; 0]);
    assert_eq!(texts(""), [""; 0]);
}

#[test]
fn semicolons_in_quotes_and_comments_end_nothing() {
    for one in [
        "SELECT ';', \"a;b\", `c;d`, 'it''s;'",
        r"SELECT E'a\';b', 1",
        "SELECT $$a;b$$, $tag$ ; $$ ; $other$ ; $tag$",
        "SELECT 1 /* ; /* ; */ ; */ + 1",
        "SELECT 1 -- ; and no end of line",
        "SELECT 1 /*! ; 50110 ;;;; */",
        "SELECT U&'\\0041;', X'3b', $1",
        "-- first; a comment\nSELECT 1",
    ] {
        assert_eq!(texts(one), [one]);
        assert_eq!(texts(&format!("{one}\n;SELECT 2")), [one, "SELECT 2"]);
    }
}

#[test]
fn a_piece_knows_its_place_behind_wide_characters_and_comments() {
    let pieces = split("SELECT 'äöü€';\r\n\t-- why\n  SELECT '😀\n' ;\nSELECT 3").expect("pieces");
    let places: Vec<_> = pieces.iter().map(|p| (p.start, p.line)).collect();
    assert_eq!(places, [(0, 1), (22, 3), (48, 5)]);
    assert_eq!(pieces[1].text, "-- why\n  SELECT '😀\n'");
}

#[test]
fn a_text_without_its_end_is_an_error_with_its_place() {
    for (text, place) in [
        ("SELECT 1;\nSELECT 'abc; SELECT 2", "line 2, column 8"),
        ("SELECT \"abc;", "line 1, column 8"),
        ("SELECT E'abc\\';", "line 1, column 8"),
        ("SELECT $a$ ; $b$", "line 1, column 17"),
        ("SELECT /* /* */ ;", "line 1, column 18"),
    ] {
        let error = split(text).expect_err("it has no end").to_string();
        assert!(error.contains(place), "{text}: {error}");
        assert!(!is_complete(text), "{text}");
    }
}

#[test]
fn an_interactive_text_is_complete_with_its_semicolon() {
    for text in [
        "SELECT 1;",
        "SELECT 1; -- done",
        "SELECT ';';\n",
        "",
        "-- only this",
        ";",
    ] {
        assert!(is_complete(text), "{text}");
    }
    for text in ["SELECT 1", "SELECT 1 -- ;", "SELECT 1; SELECT", "SELECT ';"] {
        assert!(!is_complete(text), "{text}");
    }
    // No further line can mend an escape that is none.
    assert!(is_complete("SELECT U&'\\zzzz"));
}

#[test]
fn megabytes_are_split_in_a_moment() {
    let size = 2 << 20;
    for unit in [
        ";",
        "'",
        "''",
        "\"",
        "$",
        "$a$",
        "/*",
        "*/",
        "/*!",
        "-",
        "--\n",
        "\n",
        "(",
        "E'\\",
        "U&'",
        "ä;",
        "SELECT 1;",
        ".",
        "a",
        "0",
        "@",
        "|",
    ] {
        let text = unit.repeat(size / unit.len());
        let begun = Instant::now();
        let _either = (split(&text).is_ok(), is_complete(&text));
        let took = begun.elapsed();
        assert!(took < Duration::from_secs(20), "{unit:?} took {took:?}");
    }
    let long_tag = format!(
        "${0}$ {1}",
        "a".repeat(size / 2),
        "$aaaaaaaa".repeat(size / 18)
    );
    let begun = Instant::now();
    assert!(split(&long_tag).is_err());
    assert!(begun.elapsed() < Duration::from_secs(20));
}
