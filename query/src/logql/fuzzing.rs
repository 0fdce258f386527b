//! Target of the fuzzer: the text of a query, as a stranger may write it.

use super::parse;

/// Parses any bytes. A query that parses prints as text that parses to the same tree.
pub(super) fn logql(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    let Ok(query) = parse(text) else { return };
    let printed = query.to_string();
    match parse(&printed) {
        Ok(again) => assert_eq!(again, query, "{printed}"),
        // Brackets that the text did not have may nest too deeply.
        Err(error) => assert!(
            error.to_string().contains("limit") || error.to_string().contains("nests"),
            "{printed}: {error}"
        ),
    }
}
