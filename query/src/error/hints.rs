//! Hints of errors about unknown names and local times.

use datafusion::common::SchemaError;
use datafusion::error::DataFusionError;

use super::nearest;

/// Words of arrow 59 for a local time that its zone has twice or not at all.
const NO_OFFSET: [&str; 2] = [
    "error computing timezone offset",
    "Cannot cast timezone to different timezone",
];

/// Returns a similar name that exists, or else the names that do.
pub(super) fn hint(error: &DataFusionError, tables: &[String]) -> Option<String> {
    match error {
        DataFusionError::SchemaError(schema, _) => match &**schema {
            SchemaError::FieldNotFound {
                field,
                valid_fields,
            } => {
                let names: Vec<String> = valid_fields.iter().map(|f| f.name.clone()).collect();
                match nearest(&field.name, names.iter().map(String::as_str)) {
                    Some(name) => Some(format!("did you mean {name}?")),
                    None if names.is_empty() => None,
                    None => Some(format!("columns: {}", first(&names, 12))),
                }
            }
            _ => None,
        },
        DataFusionError::ArrowError(error, _) => {
            let text = error.to_string();
            let is_of_clocks = NO_OFFSET.iter().any(|words| text.contains(words));
            is_of_clocks.then(|| {
                "the clocks of the time zone show this time twice or never: write it with its \
                 offset, as in '2026-10-25 02:30:00+02:00'"
                    .to_owned()
            })
        }
        DataFusionError::Plan(message) => {
            let name = message.strip_prefix("table '")?.split('\'').next()?;
            let name = name
                .trim_start_matches("logmill.")
                .trim_start_matches("public.");
            match nearest(name, tables.iter().map(String::as_str)) {
                Some(near) => Some(format!("did you mean {near}?")),
                None if tables.is_empty() => {
                    Some("the store holds no stream yet: import something first".into())
                }
                None => Some(format!("tables: {}", first(tables, 12))),
            }
        }
        _ => None,
    }
}

fn first(names: &[String], most: usize) -> String {
    let mut shown = names
        .iter()
        .take(most)
        .cloned()
        .collect::<Vec<_>>()
        .join(", ");
    if names.len() > most {
        shown.push_str(&format!(" and {} more", names.len() - most));
    }
    shown
}
