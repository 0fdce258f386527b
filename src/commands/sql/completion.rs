//! Completion of names: keywords, schemas, tables, columns and functions.

use std::collections::{BTreeMap, BTreeSet};

use query::output::printable;
use serde_json::Value;

use super::meta;

/// Keywords of the statements that the engine runs.
const KEYWORDS: [&str; 52] = [
    "ALL",
    "AND",
    "AS",
    "ASC",
    "AT TIME ZONE",
    "BETWEEN",
    "BY",
    "CASE",
    "CAST",
    "CROSS JOIN",
    "DESC",
    "DISTINCT",
    "ELSE",
    "END",
    "EXCEPT",
    "EXISTS",
    "EXPLAIN",
    "EXPLAIN ANALYZE",
    "FALSE",
    "FILTER",
    "FROM",
    "FULL JOIN",
    "GROUP BY",
    "HAVING",
    "ILIKE",
    "IN",
    "INNER JOIN",
    "INTERSECT",
    "INTERVAL",
    "IS",
    "JOIN",
    "LEFT JOIN",
    "LIKE",
    "LIMIT",
    "NOT",
    "NULL",
    "OFFSET",
    "ON",
    "OR",
    "ORDER BY",
    "OVER",
    "PARTITION BY",
    "SELECT",
    "THEN",
    "TIMESTAMP",
    "TRUE",
    "UNION",
    "USING",
    "VALUES",
    "WHEN",
    "WHERE",
    "WITH",
];
/// Words after which a table is named.
const BEFORE_TABLES: [&str; 3] = ["from", "join", "table"];
/// The schema of tables that are named without one.
const PUBLIC: &str = "public";

/// Statement that reads all columns.
pub(super) const COLUMNS: &str =
    "SELECT table_schema, table_name, column_name FROM information_schema.columns";
/// Statement that reads all functions.
pub(super) const FUNCTIONS: &str = "SELECT DISTINCT routine_name FROM information_schema.routines";

/// The names of a store.
#[derive(Debug, Clone, Default)]
pub(super) struct Words {
    /// Columns of each table by schema and name.
    tables: BTreeMap<(String, String), BTreeSet<String>>,
    functions: BTreeSet<String>,
}

impl Words {
    /// Collects the names from the rows of [`COLUMNS`] and [`FUNCTIONS`].
    pub(super) fn of(columns: &[Value], functions: &[Value]) -> Self {
        let text = |row: &Value, name: &str| row[name].as_str().unwrap_or_default().to_owned();
        let mut words = Self::default();
        for row in columns {
            let table = (text(row, "table_schema"), text(row, "table_name"));
            let known = words.tables.entry(table).or_default();
            // Senders of documents choose the names of columns. The line editor writes candidates
            // as they are, so that one could move the cursor.
            let column = text(row, "column_name");
            if printable(&column) == column {
                known.insert(column);
            }
        }
        let names = functions.iter().map(|row| text(row, "routine_name"));
        words.functions = names.filter(|name| is_plain(name)).collect();
        words
    }

    /// Returns the number of tables.
    pub(super) fn tables(&self) -> usize {
        self.tables.len()
    }

    /// Returns the tables as statements name them, and the schemas with their point.
    fn table_names(&self) -> Vec<String> {
        let mut names = BTreeSet::new();
        for (schema, table) in self.tables.keys() {
            names.insert(match schema.as_str() {
                PUBLIC => quoted(table),
                schema => format!("{}.", quoted(schema)),
            });
        }
        names.into_iter().collect()
    }

    /// Returns the tables of a statement, with the other names that it gives them.
    fn named<'a>(&'a self, statement: &str) -> Vec<(String, &'a BTreeSet<String>)> {
        let words: Vec<&str> = statement
            .split(|c: char| c.is_whitespace() || matches!(c, ',' | '(' | ')' | ';'))
            .filter(|word| !word.is_empty())
            .collect();
        let mut named = Vec::new();
        for (at, word) in words.iter().enumerate() {
            let (schema, table) = match word.split_once('.') {
                Some((schema, table)) => (unquoted(schema), unquoted(table)),
                None => (PUBLIC.to_owned(), unquoted(word)),
            };
            let Some(columns) = self.tables.get(&(schema, table.clone())) else {
                continue;
            };
            named.push((table, columns));
            let mut after = words[at + 1..].iter();
            let alias = match after.next() {
                Some(word) if word.eq_ignore_ascii_case("as") => after.next(),
                other => other,
            };
            named.extend(alias.map(|alias| (unquoted(alias), columns)));
        }
        named
    }
}

/// Returns the beginning of the word before the cursor, in bytes, and its possible continuations.
/// `statement` is all of the statement that is known: behind the cursor too.
pub(super) fn complete(words: &Words, before: &str, statement: &str) -> (usize, Vec<String>) {
    if before.starts_with('\\') && !before.contains(char::is_whitespace) {
        return (0, beginning(meta::NAMES.map(str::to_owned), before));
    }
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '"' | '$');
    let start = before.trim_end_matches(is_part).len();
    let word = &before[start..];
    let describes = ["\\d ", "\\dt "].iter().any(|d| before.starts_with(d));
    if let Some(before) = before[..start].strip_suffix('.') {
        let owner = &before[before.trim_end_matches(is_part).len()..];
        return (start, beginning(within(words, owner, statement), word));
    }
    let last = before[..start].split_whitespace().next_back();
    let names_table = last.is_some_and(|last| {
        BEFORE_TABLES
            .iter()
            .any(|word| last.eq_ignore_ascii_case(word))
    });
    if names_table || describes {
        return (start, beginning(words.table_names(), word));
    }
    let mut found = Vec::new();
    let named = words.named(statement);
    let columns = named.iter().flat_map(|(_, columns)| columns.iter());
    found.extend(beginning(columns.map(|c| quoted(c)), word));
    found.extend(beginning(named.iter().map(|(name, _)| quoted(name)), word));
    // Without a letter, the columns are a list that helps; all words are none.
    if !word.is_empty() {
        let functions = words.functions.iter().map(|name| format!("{name}("));
        found.extend(beginning(functions, word));
        let lower = word.chars().all(|c| !c.is_uppercase());
        let keywords = KEYWORDS.iter().map(|keyword| match lower {
            true => keyword.to_lowercase(),
            false => (*keyword).to_owned(),
        });
        found.extend(beginning(keywords, word));
    }
    found.sort_unstable();
    found.dedup();
    (start, found)
}

/// Returns the names behind `owner.`: tables of a schema, or columns of a table.
fn within(words: &Words, owner: &str, statement: &str) -> Vec<String> {
    let owner = unquoted(owner);
    let of_schema = words.tables.keys().filter(|(schema, _)| *schema == owner);
    let mut names: Vec<String> = of_schema.map(|(_, table)| quoted(table)).collect();
    let mut named = words.named(statement).into_iter();
    if let Some((_, columns)) = named.find(|(name, _)| *name == owner) {
        names.extend(columns.iter().map(|column| quoted(column)));
    }
    names
}

/// Returns the texts that begin with a word, whatever the case of its letters.
fn beginning(texts: impl IntoIterator<Item = String>, word: &str) -> Vec<String> {
    let word = word.to_lowercase();
    let mut found = Vec::new();
    for text in texts {
        if text.to_lowercase().starts_with(&word) {
            found.push(text);
        }
    }
    found
}

/// Returns whether SQL reads a name as it is without quotes.
fn is_plain(name: &str) -> bool {
    let mut characters = name.chars();
    let first = characters.next();
    first.is_some_and(|c| c.is_ascii_lowercase() || c == '_')
        && characters.all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
}

fn quoted(name: &str) -> String {
    match is_plain(name) {
        true => name.to_owned(),
        false => format!("\"{}\"", name.replace('"', "\"\"")),
    }
}

fn unquoted(name: &str) -> String {
    match name.strip_prefix('"') {
        Some(inner) => inner.trim_end_matches('"').replace("\"\"", "\""),
        None => name.to_lowercase(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn words() -> Words {
        let column = |schema: &str, table: &str, column: &str| json!({ "table_schema": schema, "table_name": table, "column_name": column });
        let columns = [
            column("public", "access", "host"),
            column("public", "access", "user.name"),
            column("public", "errors", "level"),
            column("public", "errors", "le\u{1b}[2J"),
            column("stats", "daily", "hits"),
            column("stats", "hourly", "hits"),
        ];
        let functions = [
            json!({ "routine_name": "hist_merge" }),
            json!({ "routine_name": "<=" }),
        ];
        Words::of(&columns, &functions)
    }

    /// Completes at `|` in a text.
    #[track_caller]
    fn check(text: &str, expected: &[&str]) {
        let (before, after) = text.split_once('|').expect("a cursor");
        let (start, found) = complete(&words(), before, &format!("{before}{after}"));
        assert!(before.is_char_boundary(start));
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn tables_follow_from_and_join() {
        check("SELECT * FROM a|", &["access"]);
        check("SELECT * from |", &["access", "errors", "stats."]);
        check("SELECT * FROM stats.d|", &["daily"]);
        check("SELECT * FROM access JOIN e|", &["errors"]);
    }

    #[test]
    fn columns_are_those_of_the_named_tables() {
        check("SELECT ho| FROM access", &["host"]);
        check("SELECT ho| FROM errors", &[]);
        check("SELECT lev| FROM errors", &["level"]);
        check("SELECT d.h| FROM stats.daily AS d", &["hits"]);
        check("SELECT a.| FROM access a", &["host", "\"user.name\""]);
    }

    #[test]
    fn keywords_and_functions_keep_the_case_of_the_user() {
        check("sel|", &["select"]);
        check("SEL|", &["SELECT"]);
        check("SELECT hist|", &["hist_merge("]);
    }

    #[test]
    fn commands_and_their_names_are_completed() {
        check("\\ti|", &["\\timing"]);
        check("\\d acc|", &["access"]);
        check("\\d stats.h|", &["hourly"]);
    }

    #[test]
    fn characters_of_several_bytes_are_no_trouble() {
        check("SELECT 'größe', sel|", &["select"]);
        check("größ|", &[]);
    }
}
