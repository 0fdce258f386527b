//! The place of a fault in a statement, shown by a caret under its line.

/// Returns the line and the column of a fault, both from 1, as the last words of the engine's
/// message give them: `at Line: 2, Column: 7` or `at line 2, column 7`.
pub(super) fn place(message: &str) -> Option<(usize, usize)> {
    let lower = message.to_ascii_lowercase();
    lower.rmatch_indices("line").find_map(|(at, _)| {
        let (line, rest) = number(&lower[at + "line".len()..])?;
        let rest = rest
            .strip_prefix(',')?
            .trim_start()
            .strip_prefix("column")?;
        let (column, _) = number(rest)?;
        (line > 0 && column > 0).then_some((line, column))
    })
}

/// Reads `: 12` or ` 12`.
fn number(text: &str) -> Option<(usize, &str)> {
    let text = text.strip_prefix(':').unwrap_or(text).trim_start();
    let end = text.find(|c: char| !c.is_ascii_digit());
    let (digits, rest) = text.split_at(end.unwrap_or(text.len()));
    Some((digits.parse().ok()?, rest))
}

/// Returns the line of a statement at which a fault is, and a caret below its column. `None` where
/// the message names no place, or one that the statement does not have.
pub(super) fn marked(statement: &str, message: &str) -> Option<String> {
    let (line, column) = place(message)?;
    let text = statement.lines().nth(line - 1)?;
    let before = text.chars().take(column - 1);
    // A tab stays one, so that the caret is under its character whatever the terminal makes of it.
    let blank: String = before.map(|c| if c == '\t' { '\t' } else { ' ' }).collect();
    if text.chars().count() + 1 < column {
        return None;
    }
    let shown = text.split('\t').map(query::output::printable);
    let shown: Vec<String> = shown.collect();
    Some(format!("{}\n{blank}^", shown.join("\t")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(statement: &str, message: &str, expected: Option<&str>) {
        assert_eq!(marked(statement, message).as_deref(), expected);
    }

    #[test]
    fn a_caret_is_under_the_fault() {
        let message = "SQL: Expected: end of statement, found: x at Line: 2, Column: 6";
        check("SELECT 1\nFROM x", message, Some("FROM x\n     ^"));
        let message = "Unterminated string literal at line 1, column 8; close it";
        check("SELECT 'a", message, Some("SELECT 'a\n       ^"));
        check("\tSELEC", "no at Line: 1, Column: 2", Some("\tSELEC\n\t^"));
    }

    #[test]
    fn a_message_without_a_place_has_no_caret() {
        check("SELECT 1", "there is no column x", None);
        check("SELECT 1", "at Line: 7, Column: 1", None);
        check("SELECT 1", "at Line: 1, Column: 70", None);
        check("SELECT 1", "at Line: 0, Column: 0", None);
        check("SELECT 1", "line 99999999999999999999, column 1", None);
    }
}
