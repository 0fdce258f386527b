//! The place of a fault in a statement, shown by a caret under its line.

use std::ops::Range;

use query::output::{display_width, printable};

/// Maximum characters of a line that are shown on each side of a fault.
const SIDE_MAX: usize = 60;
/// Maximum lines of a statement that are shown for an error without a place.
const LINES_MAX: usize = 4;

/// The place that an error message names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FaultPlace {
    /// Line in the statement, from 1.
    pub(super) line: usize,
    /// Character of the line, from 1.
    pub(super) column: usize,
    /// The words of the message that name the place.
    words: Range<usize>,
}

impl FaultPlace {
    /// Finds the place in the engine's message: `at Line: 2, Column: 7` or `at line 2, column 7`.
    pub(super) fn of(message: &str) -> Option<Self> {
        // Of the same length, so that positions are those of the message.
        let lower = message.to_ascii_lowercase();
        lower.rmatch_indices("at line").find_map(|(at, word)| {
            let (line, rest) = number(&lower[at + word.len()..])?;
            let rest = rest
                .strip_prefix(',')?
                .trim_start()
                .strip_prefix("column")?;
            let (column, rest) = number(rest)?;
            (line > 0 && column > 0).then_some(Self {
                line,
                column,
                words: at..message.len() - rest.len(),
            })
        })
    }

    /// Returns the message without the words for the place.
    pub(super) fn without_place(&self, message: &str) -> String {
        let (before, after) = (&message[..self.words.start], &message[self.words.end..]);
        format!("{}{after}", before.trim_end())
    }
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
    let fault = FaultPlace::of(message)?;
    let text = statement.lines().nth(fault.line - 1)?;
    let length = text.chars().count();
    let column = fault.column - 1;
    if length < column {
        return None;
    }
    let from = column.saturating_sub(SIDE_MAX);
    let before: String = text.chars().skip(from).take(column - from).collect();
    let after: String = text.chars().skip(column).take(SIDE_MAX).collect();
    let cut = |is_cut: bool| if is_cut { "…" } else { "" };
    let before = format!("{}{}", cut(from > 0), shown(&before));
    let end = cut(length > column + SIDE_MAX);
    let blank = " ".repeat(display_width(&before));
    Some(format!("{before}{}{end}\n{blank}^", shown(&after)))
}

/// Returns the first lines of a statement.
pub(super) fn excerpt(statement: &str) -> String {
    let line = |line: &str| {
        let text: String = line.chars().take(2 * SIDE_MAX).collect();
        let end = if text.len() < line.len() { "…" } else { "" };
        format!("{}{end}", shown(&text))
    };
    let mut lines = statement.lines();
    let mut excerpt: Vec<String> = lines.by_ref().take(LINES_MAX).map(line).collect();
    if lines.next().is_some() {
        excerpt.push("…".to_owned());
    }
    excerpt.join("\n")
}

/// Returns a text as a terminal can show it, with its line ends.
pub(super) fn printable_lines(text: &str) -> String {
    let lines: Vec<String> = text.split('\n').map(shown).collect();
    lines.join("\n")
}

/// Returns a text as a terminal can show it: a tab as one blank, control characters as escapes.
fn shown(text: &str) -> String {
    printable(&text.replace('\t', " "))
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
        let at_2 = "no at Line: 1, Column: 2";
        check("\tSELEC", at_2, Some(" SELEC\n ^"));
        check("日x", at_2, Some("日x\n  ^"));
        check("\u{1b}x", at_2, Some("\\u{1b}x\n      ^"));
    }

    #[test]
    fn a_long_line_is_cut_on_both_sides() {
        let line = format!("{}!{}", "a".repeat(500), "b".repeat(500));
        let shown = marked(&line, "no at Line: 1, Column: 501").expect("a place");
        let (text, caret) = shown.split_once('\n').expect("two lines");
        assert_eq!(text.chars().count(), 2 * SIDE_MAX + 2);
        assert_eq!(text.chars().nth(caret.len() - 1), Some('!'), "{shown}");
    }

    #[test]
    fn a_message_without_a_place_has_no_caret() {
        check("SELECT 1", "there is no column x", None);
        check("SELECT 1", "at Line: 7, Column: 1", None);
        check("SELECT 1", "at Line: 1, Column: 70", None);
        check("SELECT 1", "at Line: 0, Column: 0", None);
        check("SELECT 1", "at line 99999999999999999999, column 1", None);
    }

    #[test]
    fn the_words_for_a_place_can_be_left_out() {
        let message = "Expected: x, found: y at Line: 2, Column: 6; see the manual";
        let fault = FaultPlace::of(message).expect("a place");
        assert_eq!(
            fault.without_place(message),
            "Expected: x, found: y; see the manual"
        );
    }

    #[test]
    fn an_excerpt_has_few_lines() {
        assert_eq!(excerpt("a\nb"), "a\nb");
        assert_eq!(excerpt("1\n2\n3\n4\n5\n6"), "1\n2\n3\n4\n…");
        assert_eq!(excerpt(&"x".repeat(500)).chars().count(), 2 * SIDE_MAX + 1);
    }
}
