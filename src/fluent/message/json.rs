//! A time and a record as a line of JSON.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use chrono::{DateTime, SecondsFormat};

use crate::fluent::msgpack::{MsgToken, Tokens, Unreadable};

/// Levels of maps and arrays in one another, as events have them.
const DEPTH_MAX: usize = 100;
/// Members that the entry itself has. A record's own members of these names move below `record`.
const OWN: [&[u8]; 2] = [b"time", b"tag"];
/// The extension `EventTime`.
const EVENT_TIME: u8 = 0;

/// Appends an event: its time, its tag, and the members of its record.
///
/// # Errors
/// If the tokens are not a time and a map, with nothing behind them.
pub(super) fn put_event(
    out: &mut String,
    tag: &str,
    mut pair: Tokens<'_>,
) -> Result<(), Unreadable> {
    out.push('{');
    if let Some(time) = time(pair.next()?)? {
        let time = time.to_rfc3339_opts(SecondsFormat::AutoSi, true);
        // Writing to a string does not fail.
        let _ignored = write!(out, "\"time\":\"{time}\",");
    }
    out.push_str("\"tag\":");
    put_text(out, tag);
    let MsgToken::Map(members) = pair.next()? else {
        return Err(Unreadable::Malformed);
    };
    for _ in 0..members {
        out.push(',');
        let name = pair.skip()?;
        match Tokens::new(name).next()? {
            MsgToken::Text(name) if OWN.contains(&name) => {
                put_text(out, &format!("record.{}", String::from_utf8_lossy(name)));
            }
            _ => put_name(out, name)?,
        }
        out.push(':');
        put_value(out, &mut pair, 1)?;
    }
    out.push('}');
    match pair.is_empty() {
        true => Ok(()),
        false => Err(Unreadable::Malformed),
    }
}

/// Reads a time; `None` for nil, which some clients send when they know none.
fn time(token: MsgToken<'_>) -> Result<Option<DateTime<chrono::Utc>>, Unreadable> {
    let (seconds, nanos) = match token {
        MsgToken::Nil => return Ok(None),
        MsgToken::Unsigned(seconds) => (i64::try_from(seconds).ok(), 0),
        MsgToken::Int(seconds) => (Some(seconds), 0),
        MsgToken::Double(seconds) => {
            let whole = seconds.floor();
            (Some(whole as i64), ((seconds - whole) * 1e9) as u32)
        }
        MsgToken::Single(seconds) => return time(MsgToken::Double(seconds.into())),
        MsgToken::Extension(EVENT_TIME, bytes) => {
            let bytes: &[u8; 8] = bytes.try_into().map_err(|_| Unreadable::Malformed)?;
            let [a, b, c, d, nanos @ ..] = *bytes;
            let seconds = u32::from_be_bytes([a, b, c, d]);
            (Some(seconds.into()), u32::from_be_bytes(nanos))
        }
        _ => return Err(Unreadable::Malformed),
    };
    let nanos = Some(nanos).filter(|nanos| *nanos < 1_000_000_000);
    let time = seconds.zip(nanos);
    let time = time.and_then(|(seconds, nanos)| DateTime::from_timestamp(seconds, nanos));
    time.map(Some).ok_or(Unreadable::Malformed)
}

/// Appends the name of a member. One that is no text is spelled as JSON.
fn put_name(out: &mut String, name: &[u8]) -> Result<(), Unreadable> {
    match Tokens::new(name).next()? {
        MsgToken::Text(name) => put_text(out, &String::from_utf8_lossy(name)),
        _ => {
            let mut spelled = String::new();
            put_value(&mut spelled, &mut Tokens::new(name), 1)?;
            put_text(out, &spelled);
        }
    }
    Ok(())
}

fn put_value(out: &mut String, tokens: &mut Tokens<'_>, depth: usize) -> Result<(), Unreadable> {
    let deeper = || match depth < DEPTH_MAX {
        true => Ok(depth + 1),
        false => Err(Unreadable::TooLong),
    };
    let _ignored = match tokens.next()? {
        MsgToken::Nil => write!(out, "null"),
        MsgToken::Bool(value) => write!(out, "{value}"),
        MsgToken::Int(number) => write!(out, "{number}"),
        MsgToken::Unsigned(number) => write!(out, "{number}"),
        MsgToken::Single(number) if number.is_finite() => write!(out, "{number:?}"),
        MsgToken::Double(number) if number.is_finite() => write!(out, "{number:?}"),
        // JSON has no words for these.
        MsgToken::Single(number) => write!(out, "\"{number}\""),
        MsgToken::Double(number) => write!(out, "\"{number}\""),
        MsgToken::Text(text) => {
            put_text(out, &String::from_utf8_lossy(text));
            Ok(())
        }
        MsgToken::Bytes(bytes) => {
            match std::str::from_utf8(bytes) {
                Ok(text) => put_text(out, text),
                Err(_) => put_text(out, &BASE64_STANDARD.encode(bytes)),
            }
            Ok(())
        }
        MsgToken::Extension(EVENT_TIME, bytes) if bytes.len() == 8 => {
            match time(MsgToken::Extension(EVENT_TIME, bytes))? {
                Some(time) => {
                    put_text(out, &time.to_rfc3339_opts(SecondsFormat::AutoSi, true));
                }
                None => out.push_str("null"),
            }
            Ok(())
        }
        MsgToken::Extension(_, bytes) => {
            put_text(out, &BASE64_STANDARD.encode(bytes));
            Ok(())
        }
        MsgToken::Array(elements) => {
            let depth = deeper()?;
            out.push('[');
            for element in 0..elements {
                if element > 0 {
                    out.push(',');
                }
                put_value(out, tokens, depth)?;
            }
            out.push(']');
            Ok(())
        }
        MsgToken::Map(members) => {
            let depth = deeper()?;
            out.push('{');
            for member in 0..members {
                if member > 0 {
                    out.push(',');
                }
                put_name(out, tokens.skip()?)?;
                out.push(':');
                put_value(out, tokens, depth)?;
            }
            out.push('}');
            Ok(())
        }
    };
    Ok(())
}

/// Appends a text in quotes.
fn put_text(out: &mut String, text: &str) {
    let quoted = serde_json::to_string(text);
    out.push_str(&quoted.expect("BUG: every text is one of JSON"));
}
