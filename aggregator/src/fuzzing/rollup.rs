//! Definitions of rollups: tables of the configuration and of requests, and the stored form.

use serde_json::Value;
use storage::{Name, StreamKind};

use crate::definition::Definition;
use crate::table::RollupTable;

/// Reads JSON as the table of a rollup, and as the stored form of a definition. A definition that
/// is accepted is stored in a form that is read as the same definition.
pub fn rollup(bytes: &[u8]) {
    let [name, stream] = ["rollup", "events"].map(|name| Name::new(name).expect("a name"));
    if let Ok(table) = serde_json::from_slice::<RollupTable>(bytes) {
        for kind in [StreamKind::Access, StreamKind::Documents] {
            if let Ok(definition) = table.resolve(&name, kind) {
                check(&definition);
            }
        }
    }
    if let Ok(form) = serde_json::from_slice::<Value>(bytes)
        && let Ok(definition) = Definition::from_value(&name, &stream, &form)
    {
        check(&definition);
    }
}

fn check(definition: &Definition) {
    let (name, stream) = (definition.name(), definition.stream());
    let form = definition.to_value();
    let again = Definition::from_value(name, stream, &form).expect("the stored form is read");
    assert_eq!(&again, definition);
    assert_eq!(again.to_value(), form);
    assert_eq!(again.fingerprint(), definition.fingerprint());
    let fields = definition.fields();
    assert!(fields.is_sorted_by(|a, b| a < b));
    let levels = definition.levels();
    assert!(!levels.is_empty() && levels.is_sorted_by(|a, b| a < b));
}
