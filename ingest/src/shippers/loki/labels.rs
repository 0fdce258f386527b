//! PushedLabels as Prometheus writes them: `{app="web", host="a\"b"}`.
//!
//! Source: `labels.String` of Prometheus, which quotes values as Go's `strconv.Quote` does.

/// The labels of a stream, by name.
pub(super) type PushedLabels = Vec<(String, String)>;

/// Reads labels in braces.
///
/// # Errors
/// The text at which they end to be labels.
pub(super) fn read_labels(text: &str) -> Result<PushedLabels, String> {
    let mut labels = PushedLabels::new();
    let mut rest = text.trim();
    let wrong = |rest: &str, expected: &str| {
        let found: String = rest.chars().take(20).collect();
        format!("the labels {text:?} have {found:?} where {expected} belongs")
    };
    rest = rest
        .strip_prefix('{')
        .ok_or_else(|| wrong(rest, "{"))?
        .trim_start();
    loop {
        if let Some(behind) = rest.strip_prefix('}') {
            return match behind.is_empty() {
                true => Ok(labels),
                false => Err(wrong(behind, "the end")),
            };
        }
        let name;
        // A name that is no identifier is quoted as a value is.
        (name, rest) = match rest.starts_with('"') {
            true => quoted(rest).ok_or_else(|| wrong(rest, "a quoted name"))?,
            false => {
                let end = rest.find(['=', ' ', ',', '}', '"']).unwrap_or(rest.len());
                (rest[..end].to_owned(), &rest[end..])
            }
        };
        rest = rest.trim_start();
        rest = rest
            .strip_prefix('=')
            .filter(|_| !name.is_empty())
            .ok_or_else(|| wrong(rest, "NAME=\"VALUE\""))?
            .trim_start();
        let value;
        (value, rest) = quoted(rest).ok_or_else(|| wrong(rest, "a quoted value"))?;
        labels.push((name, value));
        rest = rest.trim_start();
        rest = match rest.strip_prefix(',') {
            Some(behind) => behind.trim_start(),
            None if rest.starts_with('}') => rest,
            None => return Err(wrong(rest, "a comma or }")),
        };
    }
}

/// Reads a text in double quotes or, unescaped, in back quotes. Returns it and the text behind.
fn quoted(text: &str) -> Option<(String, &str)> {
    if let Some(raw) = text.strip_prefix('`') {
        let (value, rest) = raw.split_once('`')?;
        return Some((value.to_owned(), rest));
    }
    let mut bytes = Vec::new();
    let mut rest = text.strip_prefix('"')?;
    loop {
        let at = rest.find(['"', '\\'])?;
        bytes.extend_from_slice(&rest.as_bytes()[..at]);
        let (found, behind) = rest[at..].split_at(1);
        if found == "\"" {
            return Some((String::from_utf8_lossy(&bytes).into_owned(), behind));
        }
        rest = unescape(behind, &mut bytes)?;
    }
}

/// Appends the character of an escape. Returns the text behind it.
fn unescape<'a>(text: &'a str, bytes: &mut Vec<u8>) -> Option<&'a str> {
    let kind = text.chars().next()?;
    let rest = &text[kind.len_utf8()..];
    let digits = match kind {
        'x' => 2,
        'u' => 4,
        'U' => 8,
        _ => 0,
    };
    if digits > 0 {
        let number = u32::from_str_radix(rest.get(..digits)?, 16).ok()?;
        match kind {
            'x' => bytes.push(u8::try_from(number).ok()?),
            _ => {
                let mut held = [0; 4];
                let encoded = char::from_u32(number)?.encode_utf8(&mut held);
                bytes.extend_from_slice(encoded.as_bytes());
            }
        }
        return Some(&rest[digits..]);
    }
    if kind.is_digit(8) {
        let number = u32::from_str_radix(text.get(..3)?, 8).ok()?;
        bytes.push(u8::try_from(number).ok()?);
        return Some(&text[3..]);
    }
    bytes.push(match kind {
        'a' => 0x07,
        'b' => 0x08,
        'f' => 0x0c,
        'n' => b'\n',
        'r' => b'\r',
        't' => b'\t',
        'v' => 0x0b,
        '\\' | '"' | '\'' => kind as u8,
        _ => return None,
    });
    Some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_read_as_prometheus_writes_them() {
        let labels = |text: &str| read_labels(text).unwrap();
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(labels("{}"), []);
        assert_eq!(labels("{a=\"b\"}"), [pair("a", "b")]);
        assert_eq!(
            labels(r#"{ app="we\"b\\", host = "ä\u00e4\xc3\xa4\303\244\n",}"#),
            [pair("app", "we\"b\\"), pair("host", "ääää\n")]
        );
        assert_eq!(
            labels(r#"{"a.b"="c", d=`\`}"#),
            [pair("a.b", "c"), pair("d", "\\")]
        );
        // A byte that is no UTF-8 becomes U+FFFD, as in any text.
        assert_eq!(labels(r#"{a="\xff"}"#), [pair("a", "\u{fffd}")]);
    }

    #[test]
    fn other_texts_are_refused_where_they_differ() {
        for (text, expected) in [
            ("", "\"\" where {"),
            ("app=\"a\"", "where {"),
            ("{app}", "\"}\" where NAME=\"VALUE\""),
            ("{app=a}", "\"a}\" where a quoted value"),
            ("{app=\"a", "where a quoted value"),
            ("{app=\"\\q\"}", "where a quoted value"),
            ("{app=\"\\ué\"}", "where a quoted value"),
            ("{app=\"a\" b=\"c\"}", "where a comma or }"),
            ("{app=\"a\"} ", "{app"),
            ("{app=\"a\"}b", "\"b\" where the end"),
            ("{=\"a\"}", "where NAME"),
        ] {
            match read_labels(text) {
                Ok(labels) => assert_eq!(text, "{app=\"a\"} ", "{labels:?}"),
                Err(wrong) => assert!(wrong.contains(expected), "{text}: {wrong}"),
            }
        }
        proptest::proptest!(|(text in "[{}a=\"\\\\xu0-9, `é]{0,24}")| {
            let _panics = read_labels(&text);
        });
    }
}
