//! Anonymises the fields of a document, before any of them becomes a column or goes to the rest.

use std::collections::BTreeMap;

use bson::{Bson, Document};

use super::row::{DocumentRow, Value};
use crate::anonymise::{Anonymiser, Rule};

impl DocumentRow {
    /// Replaces the values of the named fields. All that lies below a named field becomes one value
    /// of that field, for the names in it may be values: `{"client":{"203.0.113.7":1}}`. It counts
    /// as the last value of its name.
    pub(super) fn anonymise(&mut self, anonymiser: &Anonymiser) {
        let mut objects: BTreeMap<&str, (&Rule, Document)> = BTreeMap::new();
        let mut fields = std::mem::take(&mut self.fields);
        fields.retain_mut(|field| {
            let name = self.str(&field.name);
            let is_other = matches!(field.value, Value::Other(_));
            let rule = match anonymiser.rule(name) {
                Some((covered, rule)) if covered.len() < name.len() => {
                    if field.value != Value::Null {
                        let (_, object) = objects.entry(covered).or_insert((rule, Document::new()));
                        object.insert(&name[covered.len() + 1..], self.to_bson(&field.value));
                    }
                    return false;
                }
                Some((_, rule)) => Some(rule),
                None => anonymiser.rule_above(name).filter(|_| is_other),
            };
            if let Some(hidden) = rule.and_then(|rule| self.hidden(rule, &field.value)) {
                field.value = Value::Text(self.store(&hidden));
            }
            true
        });
        self.fields = fields;
        for (name, (rule, object)) in objects {
            let hidden = rule.apply(&object.to_string());
            // The same path, or the values would count as those of two fields.
            let same = self
                .fields
                .iter()
                .find(|field| self.str(&field.name) == name);
            let path = same.map_or(0, |field| field.path);
            self.push_text(name, &hidden);
            self.fields.last_mut().expect("BUG: it was pushed").path = path;
        }
    }

    /// Returns the value to store instead; null stays null.
    fn hidden(&self, rule: &Rule, value: &Value) -> Option<String> {
        Some(match value {
            Value::Null => return None,
            Value::Text(place) => rule.apply(self.str(place)),
            Value::Bool(value) => rule.apply(&value.to_string()),
            Value::Int(value) => rule.apply(&value.to_string()),
            Value::Float(value) => rule.apply(&value.to_string()),
            Value::Other(Bson::Null) => return None,
            Value::Other(Bson::String(text)) => rule.apply(text),
            Value::Time(_) => rule.apply(&self.to_bson(value).to_string()),
            Value::Other(value) => rule.apply(&value.to_string()),
        })
    }
}
