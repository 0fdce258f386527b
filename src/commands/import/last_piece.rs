//! The last piece of a file, when it has no line end: a line, or the beginning of one.
//!
//! Events are immutable, so a piece that may still grow must not become one: `… 200 23` is the
//! beginning of `… 200 2326`. The piece is taken when
//! * the source is complete: standard input, a compressed file, `--complete`, or a file that was
//!   not written to for a day;
//! * or nothing that follows could change its values: a JSON object that is closed, or a Combined
//!   line up to its last quote, when the line before it ended there too;
//! * or no format fits the file, so that it goes to quarantine as it is.
//!
//! Otherwise it stays in the file, the import says so, and the next one takes the whole line.

use std::fs::Metadata;
use std::time::{Duration, SystemTime};

/// A file that was not written to for this long is complete.
const AT_REST: Duration = Duration::from_secs(24 * 3600);

/// Returns whether a file is taken for complete.
pub(super) fn is_at_rest(file: &Metadata) -> bool {
    let age = file
        .modified()
        .ok()
        .and_then(|at| SystemTime::now().duration_since(at).ok());
    age.is_some_and(|age| age >= AT_REST)
}
