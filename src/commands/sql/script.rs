//! Statements and commands of a file or of standard input, run in order up to the first error.

use std::io::Read;
use std::path::Path;

use query::statements;

use super::caret::{self, FaultPlace};
use super::shell::{Next, Shell};
use crate::failure::{Failure, Result};

/// Maximum bytes of a file of statements: all of them are held in memory.
const BYTES_MAX: u64 = 64 << 20;

/// Returns the statements' text, and the name of their file in messages.
pub(super) fn read(file: &Path) -> Result<(String, String)> {
    if file.as_os_str() == super::STDIN {
        let name = "standard input".to_owned();
        return Ok((text(std::io::stdin().lock(), &name)?, name));
    }
    let name = file.display().to_string();
    let opened = std::fs::File::open(file).map_err(|e| Failure::from(e).about(&name))?;
    Ok((text(opened, &name)?, name))
}

fn text(from: impl Read, name: &str) -> Result<String> {
    let mut bytes = Vec::new();
    let mut from = from.take(BYTES_MAX + 1);
    from.read_to_end(&mut bytes)
        .map_err(|e| Failure::from(e).about(name))?;
    if bytes.len() as u64 > BYTES_MAX {
        return Err(Failure::usage(format!(
            "{name} has more than {BYTES_MAX} bytes of statements; split it"
        )));
    }
    let text = String::from_utf8(bytes).map_err(|e| {
        let at = e.utf8_error().valid_up_to();
        Failure::usage(format!("{name} is not UTF-8 at byte {at}"))
    })?;
    // Editors of Windows begin a file with this mark.
    Ok(match text.strip_prefix('\u{feff}') {
        Some(text) => text.to_owned(),
        None => text,
    })
}

/// A statement or a command of a text.
#[derive(Debug, PartialEq, Eq)]
struct ScriptStep {
    text: String,
    is_command: bool,
    /// Lines of the whole text before the first line of `text`.
    lines_before: usize,
    /// Line in `text` that an error without a place is about, from 1.
    first_line: usize,
}

/// Runs the statements and commands of a text. Returns [`Next::Quit`] if a command ended it.
pub(super) fn run(shell: &mut Shell<'_>, text: &str, name: &str) -> Result<Next> {
    for step in steps(text, name)? {
        let done = match step.is_command {
            true => shell.command(&step.text),
            false => shell.statement(&step.text).map(|()| Next::GoOn),
        };
        let done = done.map_err(|failure| match failure.is_broken_pipe() {
            true => failure,
            false => located(&failure, name, &step),
        });
        if done? == Next::Quit {
            return Ok(Next::Quit);
        }
    }
    Ok(Next::GoOn)
}

/// Cuts a text into its statements and the commands between them: a command is a line that begins
/// with a backslash behind a whole statement.
fn steps(text: &str, name: &str) -> Result<Vec<ScriptStep>> {
    let mut steps = Vec::new();
    let (mut from, mut at, mut lines) = (0, 0, 0);
    // The line of `from`.
    let mut from_line = 0;
    for line in text.split_inclusive('\n') {
        let end = at + line.len();
        if line.trim_start().starts_with('\\') && statements::is_complete(&text[from..at]) {
            statements_of(&text[from..at], from_line, name, &mut steps)?;
            steps.push(ScriptStep {
                text: line.trim().to_owned(),
                is_command: true,
                lines_before: lines,
                first_line: 1,
            });
            (from, from_line) = (end, lines + 1);
        }
        (at, lines) = (end, lines + 1);
    }
    statements_of(&text[from..], from_line, name, &mut steps)?;
    Ok(steps)
}

/// Appends the statements of a piece of the text that begins behind so many lines.
fn statements_of(
    piece: &str,
    lines_before: usize,
    name: &str,
    steps: &mut Vec<ScriptStep>,
) -> Result<()> {
    let found = statements::split(piece).map_err(|error| {
        let whole = ScriptStep {
            text: piece.to_owned(),
            is_command: false,
            lines_before,
            first_line: 1,
        };
        located(&error.into(), name, &whole)
    })?;
    let (mut at, mut lines) = (0, lines_before);
    for statement in found {
        lines += piece[at..statement.start].matches('\n').count();
        at = statement.start;
        let first_line = usize::try_from(statement.line).unwrap_or(usize::MAX);
        steps.push(ScriptStep {
            text: statement.text,
            is_command: false,
            lines_before: lines,
            first_line: (lines_before + first_line).saturating_sub(lines),
        });
    }
    Ok(())
}

/// Adds the file, the line and the statement to an error.
fn located(failure: &Failure, name: &str, step: &ScriptStep) -> Failure {
    let message = failure.to_string();
    let fault = FaultPlace::of(&message);
    let marked = caret::marked(&step.text, &message);
    let (place, message, shown) = match (fault, marked) {
        (Some(fault), Some(marked)) => {
            let line = step.lines_before + fault.line;
            let place = format!("line {line}, column {}", fault.column);
            (place, fault.without_place(&message), marked)
        }
        _ => {
            let line = step.lines_before + step.first_line;
            (format!("line {line}"), message, caret::excerpt(&step.text))
        }
    };
    let message = caret::printable_lines(&message);
    Failure::new(failure.code, format!("{name}, {place}: {message}\n{shown}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the steps of a text, each with the line that an error of it is about.
    fn of(text: &str) -> Vec<(String, usize)> {
        let steps = steps(text, "a.sql").expect("whole statements");
        let told = |step: ScriptStep| (step.text, step.lines_before + step.first_line);
        steps.into_iter().map(told).collect()
    }

    #[track_caller]
    fn check(text: &str, expected: &[(&str, usize)]) {
        let expected: Vec<_> = expected
            .iter()
            .map(|(t, l)| ((*t).to_owned(), *l))
            .collect();
        assert_eq!(of(text), expected, "{text:?}");
    }

    #[test]
    fn statements_and_commands_know_their_lines() {
        check("", &[]);
        check("-- a\n/* b */\n", &[]);
        check(
            "SELECT 1;\n\\x\n\n-- c\nSELECT 2",
            &[("SELECT 1", 1), ("\\x", 2), ("-- c\nSELECT 2", 5)],
        );
        check(
            "  \\timing on \nSELECT 1; SELECT\n2;\n\\q",
            &[
                ("\\timing on", 1),
                ("SELECT 1", 2),
                ("SELECT\n2", 2),
                ("\\q", 4),
            ],
        );
    }

    #[test]
    fn a_backslash_within_a_statement_begins_no_command() {
        check("SELECT '\n\\q'", &[("SELECT '\n\\q'", 1)]);
        check("SELECT 1\n\\q", &[("SELECT 1\n\\q", 1)]);
    }

    #[test]
    fn a_text_without_its_end_is_told_with_its_line() {
        let error = steps("SELECT 1;\n\\x\nSELECT 'a", "a.sql").expect_err("no end");
        let shown = error.to_string();
        assert!(shown.starts_with("a.sql, line 3, column 8: "), "{shown}");
        assert!(shown.ends_with("\nSELECT 'a\n       ^"), "{shown}");
    }
}
