//! The comparison of a configured definition with the one that the store has.

use serde_json::Value;
use storage::RollupMeta;

use crate::definition::Definition;
use crate::error::{Error, Result};

/// Compares a configured definition with the stored one, member by member.
pub(super) fn require_equal(configured: &Definition, stored: &RollupMeta) -> Result<()> {
    let new = configured.to_value();
    let mut differences = Vec::new();
    if stored.stream != *configured.stream() {
        differences.push(format!(
            "stream is {} in the store and {} in the configuration",
            stored.stream,
            configured.stream()
        ));
    }
    if new != stored.definition {
        for member in [
            "by", "levels", "timezone", "week", "max_keys", "measures", "version",
        ] {
            let (here, there) = (
                new.get(member).unwrap_or(&Value::Null),
                stored.definition.get(member).unwrap_or(&Value::Null),
            );
            if here != there {
                differences.push(format!(
                    "{member} is {there} in the store and {here} in the configuration"
                ));
            }
        }
    }
    if differences.is_empty() {
        return Ok(());
    }
    Err(Error::Differs {
        rollup: configured.name().to_string(),
        what: differences.join("; "),
    })
}
