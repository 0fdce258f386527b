//! The interactive session: statements and commands from a terminal, one after another.

use query::statements;

use super::caret;
use super::editor::{LineEditor, LineEnd};
use super::shell::{Next, Shell};
use crate::failure::{Failure, Result, tell};

const PROMPT: &str = "logmill=> ";
/// The prompt of further lines of a statement.
const PROMPT_MORE: &str = "logmill-> ";
/// Maximum bytes of a statement: the engine refuses longer ones, too.
const STATEMENT_BYTES_MAX: usize = 2 << 20;

/// An interactive session.
pub(super) struct Repl<'a> {
    shell: Shell<'a>,
    editor: LineEditor<'a>,
    /// The lines of a statement that is not complete.
    statement: String,
}

impl<'a> Repl<'a> {
    /// Begins a session. Fails if the store or the server does not answer.
    pub(super) fn start(shell: Shell<'a>) -> Result<Self> {
        shell.asker.rows("SELECT 1")?;
        let editor = LineEditor::new(shell.asker)?;
        println!(
            "logmill {}, {}; \\? lists the commands",
            env!("CARGO_PKG_VERSION"),
            shell.asker.place_name()
        );
        Ok(Self {
            shell,
            editor,
            statement: String::new(),
        })
    }

    /// Reads and runs statements until the user ends the session.
    pub(super) fn run(mut self) -> Result<()> {
        loop {
            let prompt = match self.statement.is_empty() {
                true => PROMPT,
                false => PROMPT_MORE,
            };
            match self.editor.read(prompt, &self.statement)? {
                LineEnd::Line(line) => {
                    if self.line(&line) == Next::Quit {
                        return Ok(());
                    }
                }
                LineEnd::Discarded => self.statement.clear(),
                LineEnd::Ended => {
                    // The prompt of the caller begins a line.
                    println!();
                    return Ok(());
                }
            }
        }
    }

    /// Takes a line.
    fn line(&mut self, line: &str) -> Next {
        let is_first = self.statement.is_empty();
        if is_first && line.trim().is_empty() {
            return Next::GoOn;
        }
        if let Some(command) = command_in(&self.statement, line.trim()) {
            self.editor.remember(line.trim_end());
            return self.command(command);
        }
        self.statement.push_str(line);
        if self.statement.len() > STATEMENT_BYTES_MAX {
            tell(format_args!(
                "a statement may have {STATEMENT_BYTES_MAX} bytes; use \\i FILE for several"
            ));
            self.statement.clear();
            return Next::GoOn;
        }
        // Only these can complete a statement, so a long one is not cut into tokens anew for every
        // line of it.
        let may_end = is_first || line.contains(';') || line.contains("*/");
        if may_end && statements::is_complete(&self.statement) {
            self.editor.remember(self.statement.trim_end());
            let text = std::mem::take(&mut self.statement);
            self.statements(&text);
        } else {
            self.statement.push('\n');
        }
        Next::GoOn
    }

    /// Runs a command, and tells its error.
    fn command(&mut self, command: &str) -> Next {
        let done = match self.shell.command(command) {
            Ok(Next::Refresh) => self.editor.refresh().map(|tables| {
                println!("{tables} tables");
                Next::Refresh
            }),
            done => done,
        };
        done.unwrap_or_else(|failure| {
            tell(caret::printable_lines(&failure.to_string()));
            Next::GoOn
        })
    }

    /// Runs a text of whole statements up to the first error.
    fn statements(&mut self, text: &str) {
        let pieces = match statements::split(text) {
            Ok(pieces) => pieces,
            Err(error) => return told(&error.into(), text),
        };
        for piece in pieces {
            if let Err(failure) = self.shell.statement(&piece.text) {
                told(&failure, &piece.text);
                // The names may have changed: a stream is new, or was dropped.
                self.editor.forget();
                return;
            }
        }
    }
}

/// Returns the command in a line behind the lines of `statement`. Between the lines of a statement
/// there are commands too, but not within a quoted text or a comment.
fn command_in<'l>(statement: &str, line: &'l str) -> Option<&'l str> {
    if line.starts_with('\\') {
        let is_open = !statement.is_empty() && statements::split(statement).is_err();
        return (!is_open).then_some(line);
    }
    if !statement.is_empty() {
        return None;
    }
    // As in other shells.
    match line.trim_end_matches(';').to_ascii_lowercase().as_str() {
        "exit" | "quit" => Some("\\q"),
        "help" => Some("\\?"),
        _ => None,
    }
}

/// Tells an error, with a caret where its place is known.
fn told(failure: &Failure, statement: &str) {
    let message = failure.to_string();
    let shown = caret::printable_lines(&message);
    match caret::marked(statement, &message) {
        Some(marked) => tell(format_args!("{shown}\n{marked}")),
        None => tell(shown),
    }
}

#[cfg(test)]
mod tests {
    use super::command_in;

    #[test]
    fn commands_are_found_outside_of_quotes_and_comments() {
        for (statement, line, expected) in [
            ("", "\\d", Some("\\d")),
            ("", "exit", Some("\\q")),
            ("", "QUIT;", Some("\\q")),
            ("", "help", Some("\\?")),
            ("", "SELECT 1;", None),
            ("SELECT 1\n", "\\q", Some("\\q")),
            ("SELECT 'a\n", "\\q", None),
            ("SELECT /* a\n", "\\q", None),
            ("SELECT 1\n", "exit", None),
        ] {
            assert_eq!(command_in(statement, line), expected, "{statement}{line}");
        }
    }
}
