//! Statements of a file or of standard input, run in order up to the first error.

use std::io::{Read, Write};
use std::path::Path;

use query::statements::{self, StatementText};

use super::asker::Asker;
use super::caret;
use super::printing::{Printing, show};
use crate::failure::{Failure, Result};

/// Maximum bytes of a file of statements: all of them are held in memory.
const BYTES_MAX: u64 = 64 << 20;

/// Returns the statements' text, and the name of their file in messages.
pub(super) fn read(file: &Path) -> Result<(String, String)> {
    if file.as_os_str() == "-" {
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
    String::from_utf8(bytes).map_err(|e| {
        let at = e.utf8_error().valid_up_to();
        Failure::usage(format!("{name} is not UTF-8 at byte {at}"))
    })
}

/// Runs the statements of a text.
pub(super) fn run(
    asker: &Asker<'_>,
    printing: &Printing,
    explain: bool,
    (text, name): (&str, &str),
    out: &mut dyn Write,
) -> Result<()> {
    let pieces = statements::split(text).map_err(|e| Failure::from(e).about(name))?;
    for statement in pieces {
        let done = match explain {
            true => asker
                .figures(&statement.text)
                .and_then(|figures| show(&figures, printing.form)),
            false => asker.print(&statement.text, printing, out),
        };
        done.map_err(|failure| match failure.is_broken_pipe() {
            true => failure,
            false => located(&failure, name, text, &statement),
        })?;
    }
    Ok(())
}

/// Adds the file, the line and the statement to an error.
fn located(failure: &Failure, name: &str, text: &str, statement: &StatementText) -> Failure {
    let message = failure.to_string();
    let line = match caret::place(&message) {
        Some((line, _)) => text[..statement.start].matches('\n').count() + line,
        None => usize::try_from(statement.line).unwrap_or(usize::MAX),
    };
    let shown = caret::marked(&statement.text, &message);
    let shown = shown.unwrap_or_else(|| {
        let lines = statement.text.lines().map(query::output::printable);
        lines.collect::<Vec<_>>().join("\n")
    });
    Failure::new(
        failure.code,
        format!("{name}, line {line}: {message}\n{shown}"),
    )
}
