//! Errors of the object store's client, as errors of input and output.
//!
//! The body of an error from S3 may repeat the request, and with it the token of the session: only
//! its code and its message are passed on.

use std::error::Error as StdError;
use std::io;

use object_store::Error;
use object_store::client::{HttpError, HttpErrorKind};

/// Characters of a reason.
const REASON_CHARS: usize = 400;

/// Returns the error of an object, with its address and the reason.
pub(super) fn io_error(address: &str, error: &Error) -> io::Error {
    io::Error::new(kind(error), format!("{address}: {}", reason(error)))
}

/// Returns true if the object does not exist, in a bucket that does.
pub(super) fn is_missing(error: &Error) -> bool {
    kind(error) == io::ErrorKind::NotFound
}

/// Returns true if the bucket does not exist. Its answer has the same status as a missing object's,
/// and would be taken for an empty store.
pub(super) fn bucket_is_missing(error: &Error) -> bool {
    error.to_string().contains("NoSuchBucket")
}

fn kind(error: &Error) -> io::ErrorKind {
    let text = error.to_string();
    let is_late = causes(error).any(|cause| {
        let http = cause.downcast_ref::<HttpError>();
        let io = cause.downcast_ref::<io::Error>();
        http.is_some_and(|e| e.kind() == HttpErrorKind::Timeout)
            || io.is_some_and(|e| e.kind() == io::ErrorKind::TimedOut)
    });
    match error {
        _ if text.contains("NoSuchBucket") => io::ErrorKind::Other,
        Error::NotFound { .. } => io::ErrorKind::NotFound,
        Error::PermissionDenied { .. } | Error::Unauthenticated { .. } => {
            io::ErrorKind::PermissionDenied
        }
        // One object of a deletion of several.
        _ if text.contains("(code: NoSuchKey)") => io::ErrorKind::NotFound,
        // The range begins behind the object's end: by S3's answer, and by a store in memory.
        _ if text.contains("status code: 416") || text.contains("Wanted range starting at") => {
            io::ErrorKind::UnexpectedEof
        }
        _ if is_late => io::ErrorKind::TimedOut,
        // A connection that breaks off is an early end of an answer, not of an object.
        _ => io::ErrorKind::Other,
    }
}

fn causes(error: &Error) -> impl Iterator<Item = &(dyn StdError + 'static)> {
    let mut next = error.source();
    std::iter::from_fn(move || {
        let cause = next?;
        next = cause.source();
        Some(cause)
    })
}

fn reason(error: &Error) -> String {
    let text = error.to_string();
    let mut reason = match text.split_once('<') {
        Some((head, body)) => {
            let fields = [field(body, "Code"), field(body, "Message")];
            let fields: Vec<&str> = fields.into_iter().flatten().collect();
            format!("{}{}", head, fields.join(": "))
        }
        None => {
            let root = causes(error).last().map(ToString::to_string);
            let root = root.filter(|root| !root.contains('<') && !text.contains(root));
            root.map_or(text.clone(), |root| format!("{text}: {root}"))
        }
    };
    reason = reason.split_whitespace().collect::<Vec<_>>().join(" ");
    if let Some((end, _)) = reason.char_indices().nth(REASON_CHARS) {
        reason.truncate(end);
        reason.push('…');
    }
    reason
}

/// Returns the text of an element of XML.
fn field<'a>(body: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = body.split_once(&format!("{name}>"))?;
    rest.split_once("</").map(|(text, _)| text)
}
