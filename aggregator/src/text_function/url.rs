//! Parts of URLs, cut as RFC 3986 (appendix B) cuts a reference, so that what is no valid URL has
//! parts too: logs keep what a client sent.

use std::borrow::Cow;

/// A part of a URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum UrlPart {
    /// `https`, in lower case.
    Protocol,
    /// The host without user and port, in lower case; an IPv6 address in its brackets.
    Host,
    /// The path; null if it is empty.
    Path,
    /// The text after `?`.
    Query,
    /// The text after `#`.
    Fragment,
}

/// A reference, cut into its parts.
struct Parts<'a> {
    protocol: Option<&'a str>,
    authority: Option<&'a str>,
    path: &'a str,
    query: Option<&'a str>,
    fragment: Option<&'a str>,
}

impl<'a> Parts<'a> {
    fn of(url: &'a str) -> Self {
        let (rest, fragment) = split_at_first(url, '#');
        let (rest, query) = split_at_first(rest, '?');
        let (protocol, rest) = match rest.split_once(':') {
            Some((scheme, rest)) if is_scheme(scheme) => (Some(scheme), rest),
            _ => (None, rest),
        };
        let (authority, path) = match rest.strip_prefix("//") {
            Some(rest) => {
                let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
                (Some(authority), path)
            }
            None => (None, rest),
        };
        Self {
            protocol,
            authority,
            path,
            query,
            fragment,
        }
    }
}

/// Returns the text before a mark, and the text after it if there is one.
fn split_at_first(text: &str, mark: char) -> (&str, Option<&str>) {
    match text.split_once(mark) {
        Some((before, after)) => (before, Some(after)),
        None => (text, None),
    }
}

/// `scheme = ALPHA *( ALPHA / DIGIT / "+" / "-" / "." )` (RFC 3986, section 3.1).
fn is_scheme(text: &str) -> bool {
    let is_inner = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.');
    text.starts_with(|c: char| c.is_ascii_alphabetic()) && text.bytes().all(is_inner)
}

/// `authority = [ userinfo "@" ] host [ ":" port ]` (RFC 3986, section 3.2).
fn host(authority: &str) -> &str {
    let host = authority.rsplit_once('@').map_or(authority, |(_, h)| h);
    let address_end = host.starts_with('[').then(|| host.find(']')).flatten();
    let from = address_end.unwrap_or(0);
    match host[from..].find(':') {
        Some(port) => &host[..from + port],
        None => host,
    }
}

/// Returns a part of a URL or of a reference such as `/a?b`.
pub(super) fn part(url: &str, part: UrlPart) -> Option<Cow<'_, str>> {
    let parts = Parts::of(url);
    let found = match part {
        UrlPart::Protocol => return Some(lower(parts.protocol?)),
        UrlPart::Host => return Some(lower(host(parts.authority?))).filter(|h| !h.is_empty()),
        UrlPart::Path => Some(parts.path).filter(|path| !path.is_empty()),
        UrlPart::Query => parts.query,
        UrlPart::Fragment => parts.fragment,
    };
    found.map(Cow::from)
}

fn lower(text: &str) -> Cow<'_, str> {
    if text.bytes().any(|b| b.is_ascii_uppercase()) {
        return text.to_ascii_lowercase().into();
    }
    text.into()
}

/// Returns the text without percent-encoding, `+` as a space. What is no UTF-8 becomes U+FFFD.
pub(super) fn decode(text: &str) -> Cow<'_, str> {
    if !text.contains(['%', '+']) {
        return text.into();
    }
    let spaced = text.replace('+', " ");
    let decoded = percent_encoding::percent_decode_str(&spaced).decode_utf8_lossy();
    decoded.into_owned().into()
}

/// Returns the decoded value of the first parameter of this name. A text without `?` is read as
/// a query, so that a log's column `query` can be asked too.
pub fn parameter<'a>(url: &'a str, name: &str) -> Option<Cow<'a, str>> {
    let (url, _) = split_at_first(url, '#');
    let (before, query) = split_at_first(url, '?');
    let query = query.unwrap_or(before);
    let mut pairs = query.split('&').map(|pair| match pair.split_once('=') {
        Some((name, value)) => (name, value),
        None => (pair, ""),
    });
    let (_, value) = pairs.find(|(key, _)| decode(key) == name)?;
    Some(decode(value))
}
