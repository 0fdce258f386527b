//! Tests of paths against MongoDB's manual ("Query an Array of Embedded Documents", "Query for Null
//! or Missing Fields").

use bson::doc;

use super::*;

/// Returns the visited values, each with a star if it is an element of the array at the end.
fn visited(path: &str, document: &Document) -> Vec<String> {
    let mut seen = Vec::new();
    let path = DottedPath::new(path);
    path.any(PathRoot::Document(document), &mut |value, is_element| {
        let text = value.map_or("missing".to_owned(), ToString::to_string);
        seen.push(if is_element { format!("{text}*") } else { text });
        false
    });
    seen
}

#[test]
fn a_path_leads_through_documents_and_arrays() {
    for (path, document, expected) in [
        ("a", doc! { "a": 1 }, &["1"][..]),
        ("a", doc! {}, &["missing"]),
        ("a.b", doc! { "a": { "b": 1 } }, &["1"]),
        ("a.b", doc! { "a": 1 }, &["missing"]),
        ("a.b", doc! { "a": {} }, &["missing"]),
        ("a", doc! { "a": [1, 2] }, &["[1, 2]", "1*", "2*"]),
        ("a.b", doc! { "a": [{ "b": 1 }, { "b": 2 }] }, &["1", "2"]),
        ("a.b", doc! { "a": [{ "b": 1 }, {}] }, &["1", "missing"]),
        ("a.b", doc! { "a": [] }, &[]),
        ("a.b", doc! { "a": [1] }, &[]),
        ("a.0", doc! { "a": [5, 6] }, &["5"]),
        ("a.01", doc! { "a": [5, 6] }, &[]),
        ("a.0", doc! { "a": { "0": 5 } }, &["5"]),
        ("a.0", doc! { "a": [[1, 2]] }, &["[1, 2]"]),
        ("a.0.b", doc! { "a": [5] }, &[]),
        ("a.1.b", doc! { "a": [1, { "b": 7 }] }, &["missing", "7"]),
        ("a.b", doc! { "a": [{ "b": [3] }] }, &["[3]", "3*"]),
    ] {
        assert_eq!(visited(path, &document), expected, "{path} in {document}");
    }
}

#[test]
fn a_path_of_a_filter_has_few_indexes() {
    let path = |indexes: usize| format!("a{}", ".0".repeat(indexes));
    assert!(DottedPath::of_filter(&path(INDEXES_MAX)).is_ok());
    assert!(DottedPath::of_filter(&path(INDEXES_MAX + 1)).is_err());
}
