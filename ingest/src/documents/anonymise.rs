//! Anonymises the fields of a document, before any of them becomes a column or goes to the rest.

use bson::Bson;

use super::row::{DocumentRow, Value};
use crate::anonymise::Anonymiser;

impl DocumentRow {
    /// Replaces the values of the named fields.
    pub(super) fn anonymise(&mut self, anonymiser: &Anonymiser) {
        for rank in 0..self.fields.len() {
            let name = self.str(&self.fields[rank].name);
            let value = &self.fields[rank].value;
            let is_other = matches!(value, Value::Other(_));
            let above = || anonymiser.rule_above(name).filter(|_| is_other);
            let Some(rule) = anonymiser.rule(name).or_else(above) else {
                continue;
            };
            let hidden = match value {
                Value::Null => continue,
                Value::Text(place) => rule.apply(self.str(place)),
                Value::Bool(value) => rule.apply(&value.to_string()),
                Value::Int(value) => rule.apply(&value.to_string()),
                Value::Float(value) => rule.apply(&value.to_string()),
                Value::Other(Bson::String(text)) => rule.apply(text),
                Value::Other(value) => {
                    rule.apply(&value.clone().into_canonical_extjson().to_string())
                }
            };
            self.fields[rank].value = Value::Text(self.store(&hidden));
        }
    }
}
