//! Changes of a document at a dotted path, which lead through documents alone.

use bson::{Bson, Document};

fn parent<'a>(document: &'a mut Document, names: &[String]) -> Option<&'a mut Document> {
    let mut current = document;
    for name in names {
        match current.get_mut(name) {
            Some(Bson::Document(inside)) => current = inside,
            _ => return None,
        }
    }
    Some(current)
}

/// Puts a value in the place of another and returns that one; `None` if there is none.
pub(super) fn replace(document: &mut Document, names: &[String], value: Bson) -> Option<Bson> {
    let (last, above) = names.split_last()?;
    let place = parent(document, above)?.get_mut(last)?;
    Some(std::mem::replace(place, value))
}

/// Removes a field.
pub(super) fn remove(document: &mut Document, names: &[String]) {
    if let Some((last, above)) = names.split_last()
        && let Some(parent) = parent(document, above)
    {
        parent.remove(last);
    }
}

/// Sets a field, after making documents of whatever is above it.
pub(super) fn set(document: &mut Document, names: &[String], value: Bson) {
    let Some((last, above)) = names.split_last() else {
        return;
    };
    let mut current = document;
    for name in above {
        if !matches!(current.get(name), Some(Bson::Document(_))) {
            current.insert(name, Document::new());
        }
        match current.get_mut(name) {
            Some(Bson::Document(inside)) => current = inside,
            _ => return,
        }
    }
    current.insert(last, value);
}
