//! Compares the content of a file with that of one that is followed: a copy is not sent.

use std::fs::File;
use std::io::Read;
use std::sync::Arc;

use crate::source_id::ReadAt;

const BUFFER_BYTES: usize = 128 << 10;

/// The relation of a content to a followed file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Relation {
    /// All of it is the beginning of the file: a copy, or the first part of one.
    Copy,
    /// It goes on otherwise, or goes on where the file ends.
    Other,
}

/// Compares a content with the present bytes of a file.
///
/// # Errors
/// Errors of reading either.
pub(crate) fn compare(mut content: impl Read, file: &Arc<File>) -> std::io::Result<Relation> {
    let mut file = ReadAt::new(Arc::clone(file), 0);
    let mut buffer = vec![0; BUFFER_BYTES];
    let mut same = vec![0; BUFFER_BYTES];
    loop {
        let read = content.read(&mut buffer)?;
        if read == 0 {
            return Ok(Relation::Copy);
        }
        match file.read_exact(&mut same[..read]) {
            Err(e) if e.kind() == std::io::ErrorKind::UnexpectedEof => return Ok(Relation::Other),
            outcome => outcome?,
        }
        if buffer[..read] != same[..read] {
            return Ok(Relation::Other);
        }
    }
}
