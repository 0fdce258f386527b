//! The one way to standard output.
//!
//! The macros `println` and `print` of the standard library end the program in a panic when their
//! reader has gone (`logmill check | head`). Those here have the same names, so that no command can
//! use the others by mistake: what cannot be written any more is dropped, the command goes on with
//! its work, and [`checked`] decides at its end what that means.

use std::fmt;
use std::io::{ErrorKind, Write};
use std::sync::OnceLock;

use crate::failure::{DISK, Failure, Result};

/// Why a write failed, once one has.
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
        // The first failure is the one that is told.
        let _ignored = FAILURE.set((error.kind(), error.to_string()));
    }
}

/// Exit of a command that has written all: a reader that has gone is no failure, an
/// answer that is lost is one.
///
/// # Errors
/// When standard output took not all that was written, and not because its reader had gone.
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

/// Width of the terminal that reads the output; `None` where none does.
pub(crate) fn width() -> Option<usize> {
    let (width, _) = terminal_size::terminal_size_of(std::io::stdout())?;
    Some(width.0.into())
}
