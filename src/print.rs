//! The only way to standard output.
//!
//! The macros `println` and `print` of the standard library panic if their reader has closed the
//! pipe (`logmill check | head`). The macros here have the same names, so that no command can use
//! the others by mistake. After a failed write they drop all further output. The command finishes
//! its work, and [`checked`] decides at the end whether it failed.

use std::fmt;
use std::io::{ErrorKind, Write};
use std::sync::OnceLock;

use crate::failure::{DISK, Failure, Result};

/// The reason of the first failed write.
static FAILURE: OnceLock<(ErrorKind, String)> = OnceLock::new();

/// Writes a line to standard output.
macro_rules! println {
    () => { $crate::print::write(format_args!("\n")) };
    ($($text:tt)*) => { $crate::print::write(format_args!("{}\n", format_args!($($text)*))) };
}

/// Writes to standard output.
macro_rules! print {
    ($($text:tt)*) => { $crate::print::write(format_args!($($text)*)) };
}

/// Implementation of the macros.
pub(crate) fn write(text: fmt::Arguments<'_>) {
    if FAILURE.get().is_some() {
        return;
    }
    if let Err(error) = std::io::stdout().lock().write_fmt(text) {
        // Only the first failure is reported.
        let _ignored = FAILURE.set((error.kind(), error.to_string()));
    }
}

/// Flushes standard output at the end of a command. A closed pipe is no failure, lost output is
/// one.
///
/// # Errors
/// If standard output did not take everything, for another reason than a closed pipe.
pub(crate) fn checked<T>(done: T) -> Result<T> {
    if FAILURE.get().is_none()
        && let Err(error) = std::io::stdout().lock().flush()
    {
        let _ignored = FAILURE.set((error.kind(), error.to_string()));
    }
    match FAILURE.get() {
        None | Some((ErrorKind::BrokenPipe, _)) => Ok(done),
        Some((_, why)) => Err(Failure::new(
            DISK,
            format!("standard output cannot be written: {why}"),
        )),
    }
}

/// Returns the width of the terminal that standard output is; `None` if it is no terminal.
pub(crate) fn width() -> Option<usize> {
    let (width, _) = terminal_size::terminal_size_of(std::io::stdout())?;
    Some(width.0.into())
}
