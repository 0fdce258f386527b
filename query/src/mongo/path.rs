//! Dotted paths, as filters read them: through the elements of arrays.
//!
//! # Invariants
//! * The values of a path are visited in the order of the document. An array at the end of a path
//!   is visited as a whole, and then each of its elements.
//! * A path that leads nowhere is visited as missing, but for one that ends in an array without
//!   documents: such an array has no value that could be missing.

use bson::{Bson, Document};

/// The names of a dotted path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FieldPath {
    text: String,
    names: Vec<String>,
}

impl FieldPath {
    pub(super) fn new(text: &str) -> Self {
        Self {
            text: text.to_owned(),
            names: text.split('.').map(str::to_owned).collect(),
        }
    }

    pub(super) fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns whether `test` is true for a value of the path. It gets the value, `None` for a
    /// missing one, and whether it is an element of the array at the end.
    pub(super) fn any(&self, document: &Document, test: &mut ValueTest<'_>) -> bool {
        in_document(document, &self.names, test)
    }
}

/// A test of a value of a path.
pub(super) type ValueTest<'t> = dyn FnMut(Option<&Bson>, bool) -> bool + 't;

fn in_document(document: &Document, names: &[String], test: &mut ValueTest<'_>) -> bool {
    let Some((name, below)) = names.split_first() else {
        return false;
    };
    match document.get(name) {
        None => test(None, false),
        Some(value) => in_value(value, below, test),
    }
}

fn in_value(value: &Bson, names: &[String], test: &mut ValueTest<'_>) -> bool {
    let Some(name) = names.first() else {
        return test(Some(value), false) || elements(value).iter().any(|e| test(Some(e), true));
    };
    match value {
        Bson::Document(inside) => in_document(inside, names, test),
        Bson::Array(items) => {
            let nth = name.parse::<usize>().ok().and_then(|nth| items.get(nth));
            if nth.is_some_and(|item| in_value(item, &names[1..], test)) {
                return true;
            }
            let mut documents = items.iter().filter_map(Bson::as_document);
            documents.any(|inside| in_document(inside, names, test))
        }
        _ => test(None, false),
    }
}

fn elements(value: &Bson) -> &[Bson] {
    match value {
        Bson::Array(items) => items,
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use bson::doc;

    use super::*;

    fn values(path: &str, document: &Document) -> Vec<Option<Bson>> {
        let mut seen = Vec::new();
        FieldPath::new(path).any(document, &mut |value, _| {
            seen.push(value.cloned());
            false
        });
        seen
    }

    #[test]
    fn a_path_leads_through_documents_and_arrays() {
        let int = |n: i32| Some(Bson::from(n));
        let array = |items: &[i32]| Some(Bson::Array(items.iter().map(|n| (*n).into()).collect()));
        for (path, document, expected) in [
            ("a", doc! { "a": 1 }, vec![int(1)]),
            ("a", doc! {}, vec![None]),
            ("a.b", doc! { "a": { "b": 1 } }, vec![int(1)]),
            ("a.b", doc! { "a": 1 }, vec![None]),
            ("a.b", doc! { "a": {} }, vec![None]),
            (
                "a",
                doc! { "a": [1, 2] },
                vec![array(&[1, 2]), int(1), int(2)],
            ),
            (
                "a.b",
                doc! { "a": [{ "b": 1 }, { "b": 2 }] },
                vec![int(1), int(2)],
            ),
            ("a.b", doc! { "a": [{ "b": 1 }, {}] }, vec![int(1), None]),
            ("a.b", doc! { "a": [] }, vec![]),
            ("a.b", doc! { "a": [1] }, vec![]),
            ("a.0", doc! { "a": [5, 6] }, vec![int(5)]),
            ("a.0", doc! { "a": { "0": 5 } }, vec![int(5)]),
            ("a.1.b", doc! { "a": [1, { "b": 7 }] }, vec![int(7), None]),
            (
                "a.0",
                doc! { "a": [[1, 2]] },
                vec![array(&[1, 2]), int(1), int(2)],
            ),
            (
                "a.b",
                doc! { "a": [{ "b": [3] }] },
                vec![array(&[3]), int(3)],
            ),
        ] {
            assert_eq!(values(path, &document), expected, "{path} in {document}");
        }
    }
}
