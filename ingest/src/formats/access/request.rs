//! The request line: cut into method, path, query and protocol, and put together again.
//!
//! The text itself is stored only where it cannot be put together: without a method, and where the
//! protocol is all that follows the method (`GET HTTP/1.0`: no space before an absent target).

use crate::text::ByteSpan;

/// A request with a method; the spans are places in the request text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cut {
    pub(crate) method: ByteSpan,
    pub(crate) path: Option<ByteSpan>,
    pub(crate) query: Option<ByteSpan>,
    pub(crate) protocol: Option<ByteSpan>,
    /// [`rebuild_request`] returns the text.
    pub(crate) rebuilds: bool,
}

/// Cuts at the first space, then the protocol off the end, then the target at its first `?`.
/// `None` without a space, or when the method is not `[A-Z][A-Z_-]*`.
#[inline]
pub(crate) fn cut(request: &[u8]) -> Option<Cut> {
    // Methods are short and their bytes few, so this loop finds the space sooner than a search.
    let mut space = 0;
    loop {
        match request.get(space)? {
            b'A'..=b'Z' => {}
            b'_' | b'-' if space > 0 => {}
            b' ' if space > 0 => break,
            _ => return None,
        }
        space += 1;
    }
    let begin = space + 1;
    let rest = &request[begin..];
    let last_word = memchr::memrchr(b' ', rest).map_or(0, |at| at + 1);
    let (target_len, protocol, rebuilds) = if is_protocol(&rest[last_word..]) {
        (
            last_word.saturating_sub(1),
            Some((begin + last_word, request.len())),
            last_word > 0,
        )
    } else {
        (rest.len(), None, true)
    };
    let question = memchr::memchr(b'?', &rest[..target_len]);
    let path_len = question.unwrap_or(target_len);
    Some(Cut {
        method: (0, space),
        path: (path_len > 0).then_some((begin, begin + path_len)),
        query: question.map(|at| (begin + at + 1, begin + target_len)),
        protocol,
        rebuilds,
    })
}

/// Matches `HTTP/n[.n]`, each `n` one or more digits.
#[inline]
fn is_protocol(word: &[u8]) -> bool {
    let Some(version) = word.strip_prefix(b"HTTP/") else {
        return false;
    };
    let digits = |text: &[u8]| !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    match memchr::memchr(b'.', version) {
        Some(dot) => digits(&version[..dot]) && digits(&version[dot + 1..]),
        None => digits(version),
    }
}

/// Returns the request text of an event that has a method and no stored `request`.
pub fn rebuild_request(
    method: &str,
    path: Option<&str>,
    query: Option<&str>,
    protocol: Option<&str>,
) -> String {
    let mut text = String::with_capacity(
        method.len()
            + path.map_or(0, str::len)
            + query.map_or(0, str::len)
            + protocol.map_or(0, str::len)
            + 3,
    );
    text.push_str(method);
    text.push(' ');
    text.push_str(path.unwrap_or_default());
    if let Some(query) = query {
        text.push('?');
        text.push_str(query);
    }
    if let Some(protocol) = protocol {
        text.push(' ');
        text.push_str(protocol);
    }
    text
}

#[cfg(test)]
mod tests;
