//! Settings in a start message.

use std::collections::BTreeMap;

use crate::postgres::error::{Result, SqlError};
use crate::postgres::settings::Settings;

/// Returns the settings of a session as its start message asks for them.
pub(super) fn settings(user: &str, parameters: BTreeMap<String, String>) -> Result<Settings> {
    let mut settings = Settings::new(user);
    for (name, value) in parameters {
        match &*name {
            "options" => {
                for (name, value) in options(&value) {
                    settings.set(&name, &value)?;
                }
            }
            // Only replication connections say otherwise.
            "replication" => match &*value {
                "false" | "off" | "no" | "0" => {}
                _ => return Err(SqlError::unsupported("replication")),
            },
            // A client that knows no UTF-8 could not read the answers; one that asks for its
            // locale's encoding mostly reads them.
            "client_encoding" if settings.set(&name, &value).is_err() => {}
            _ => settings.set(&name, &value)?,
        }
    }
    settings.begin();
    Ok(settings)
}

/// Returns the settings in options of a command line: `-c name=value` and `--name=value`.
fn options(text: &str) -> Vec<(String, String)> {
    let mut words = vec![String::new()];
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        let last = words.last_mut().expect("BUG: there is one");
        match c {
            '\\' => last.extend(chars.next()),
            c if c.is_whitespace() => words.push(String::new()),
            c => last.push(c),
        }
    }
    let assigned = words.iter().filter_map(|word| {
        let word = word
            .strip_prefix("--")
            .or_else(|| word.strip_prefix("-c"))
            .unwrap_or(word);
        let (name, value) = word.split_once('=')?;
        Some((name.replace('-', "_"), value.to_owned()))
    });
    assigned.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_a_command_line_are_settings() {
        let set = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(
            options("-c statement_timeout=5s --search-path=stats -cmy.a=b\\ c"),
            [
                set("statement_timeout", "5s"),
                set("search_path", "stats"),
                set("my.a", "b c")
            ]
        );
        assert_eq!(options(""), []);
    }
}
