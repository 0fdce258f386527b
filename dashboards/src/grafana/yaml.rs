//! JSON values as YAML in block style. Scalars are written as JSON writes them, which YAML reads.

use std::fmt::Write;

use serde_json::Value;

/// Returns a document.
pub(super) fn document(value: &Value) -> String {
    let mut text = String::new();
    block(&mut text, value, 0);
    text
}

/// Writes the lines of an object or an array; the first one is indented already.
fn block(text: &mut String, value: &Value, indent: usize) {
    let pad = " ".repeat(indent);
    match value {
        Value::Object(members) if !members.is_empty() => {
            for (n, (key, member)) in members.iter().enumerate() {
                if n > 0 {
                    text.push_str(&pad);
                }
                // Writing to a string does not fail.
                let _ignored = write!(text, "{key}:");
                match is_block(member) {
                    true => {
                        let _ignored = write!(text, "\n{pad}  ");
                        block(text, member, indent + 2);
                    }
                    false => scalar(text, member, indent + 2),
                }
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for (n, item) in items.iter().enumerate() {
                if n > 0 {
                    text.push_str(&pad);
                }
                text.push('-');
                match is_block(item) {
                    true => {
                        text.push(' ');
                        block(text, item, indent + 2);
                    }
                    false => scalar(text, item, indent + 2),
                }
            }
        }
        other => scalar(text, other, indent),
    }
}

fn is_block(value: &Value) -> bool {
    match value {
        Value::Object(members) => !members.is_empty(),
        Value::Array(items) => !items.is_empty(),
        _ => false,
    }
}

/// Writes a scalar, and a text of several lines as a literal block, so that queries can be read.
fn scalar(text: &mut String, value: &Value, indent: usize) {
    let lines = value
        .as_str()
        .filter(|s| s.contains('\n') && !s.starts_with([' ', '\n']));
    let _ignored = match lines {
        Some(lines) => {
            let pad = " ".repeat(indent);
            let lines = lines.trim_end().replace('\n', &format!("\n{pad}"));
            writeln!(text, " |-\n{pad}{lines}")
        }
        None => writeln!(text, " {value}"),
    };
}
