//! The mark of the overflow column: metadata that a column keeps under an alias and through a
//! subquery.

use std::collections::HashMap;

use arrow::datatypes::Field;
use storage::REST;

const DOCUMENT: &str = "logmill.document";

/// Returns the metadata of the overflow column.
pub(crate) fn document_mark() -> HashMap<String, String> {
    HashMap::from([(DOCUMENT.to_owned(), "bson".to_owned())])
}

/// Returns whether a column holds the BSON documents of the overflow column, whatever its name.
pub(crate) fn holds_documents(field: &Field) -> bool {
    let is_marked = field.name() == REST || field.metadata().contains_key(DOCUMENT);
    is_marked && field.data_type().is_binary()
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::DataType;

    use super::*;

    #[test]
    fn documents_are_bytes_with_the_name_or_the_mark() {
        let bytes = |name: &str| Field::new(name, DataType::Binary, true);
        assert!(holds_documents(&bytes(REST)));
        assert!(!holds_documents(&bytes("raw")));
        assert!(holds_documents(&bytes("r").with_metadata(document_mark())));
        let text = Field::new("r", DataType::Utf8, true).with_metadata(document_mark());
        assert!(!holds_documents(&text));
    }
}
