//! The grammar of access-log lines: Common, Combined, and Combined behind a virtual host.
//!
//! [`read`] finds the fields of one line as spans of its bytes; it copies nothing and allocates
//! nothing. With single spaces between the fields:
//!
//! ```text
//! common   = host SP logname SP user SP [stamp] SP "request" SP status SP size
//! combined = common SP "referrer" SP "user agent"
//! vhost    = site[:port] SP combined
//! stamp    = dd/Mon/yyyy:HH:MM:SS ±hhmm
//! ```
//!
//! `host`, `logname`, `user` and `site` are text without spaces and `"`. A quoted field ends at the
//! first `"` behind an even number of backslashes. `status` is three digits, `size` digits or `-`.

use crate::bad::Bad;
use crate::stamp::AccessStamps;
use crate::text::ByteSpan;

/// The shapes of line that are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Accept {
    /// Combined.
    pub(crate) combined: bool,
    /// Common.
    pub(crate) common: bool,
    /// A virtual host before Combined. Tried first.
    pub(crate) vhost: bool,
    /// Also as the beginning of a line; the rest after one space is `extra`.
    pub(crate) prefix: bool,
    /// The quarantine's reason for lines that have no such shape.
    pub(crate) reason: &'static str,
}

impl Accept {
    pub(crate) const COMMON: Self = Self {
        combined: false,
        common: true,
        vhost: false,
        prefix: false,
        reason: "not_common",
    };
    pub(crate) const COMBINED: Self = Self {
        combined: true,
        common: false,
        vhost: false,
        prefix: false,
        reason: "not_combined",
    };
    pub(crate) const VHOST: Self = Self {
        combined: false,
        common: false,
        vhost: true,
        prefix: false,
        reason: "not_vhost_combined",
    };

    /// Returns the shapes that `auto` takes once it has decided for the format of `self`.
    pub(crate) fn lenient(self, strict: bool) -> Self {
        Self {
            combined: true,
            common: true,
            prefix: !strict,
            ..self
        }
    }
}

/// The fields of one line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AccessLine {
    /// The virtual host without its port, where the format has one.
    pub(crate) site: Option<ByteSpan>,
    pub(crate) host: ByteSpan,
    pub(crate) logname: ByteSpan,
    pub(crate) user: ByteSpan,
    /// Microseconds since 1970, UTC.
    pub(crate) time_us: i64,
    /// Where the stamp begins, for messages about it.
    pub(crate) time_at: usize,
    pub(crate) request: ByteSpan,
    pub(crate) status: i16,
    /// Bytes; `None` for `-`.
    pub(crate) size: Option<i64>,
    /// Combined has both, Common neither.
    pub(crate) referrer: Option<ByteSpan>,
    pub(crate) user_agent: Option<ByteSpan>,
    /// The rest of a line of which the format is only the beginning.
    pub(crate) extra: Option<ByteSpan>,
}

/// Reads a line in the first of the accepted shapes that fits it.
#[inline]
pub(crate) fn read(
    line: &[u8],
    accept: Accept,
    stamps: &mut AccessStamps,
) -> Result<AccessLine, Bad> {
    if accept.vhost {
        let vhost = read_vhost(line, accept, stamps);
        if vhost.is_ok() || !(accept.combined || accept.common) {
            return vhost;
        }
        // Of two explanations the one that understood more of the line is the useful one.
        return read_at(line, 0, accept, stamps).map_err(|bad| match vhost {
            Err(other) if other.at > bad.at => other,
            _ => bad,
        });
    }
    read_at(line, 0, accept, stamps)
}

fn read_vhost(line: &[u8], accept: Accept, stamps: &mut AccessStamps) -> Result<AccessLine, Bad> {
    let mut at = 0;
    let site = token(
        line,
        &mut at,
        accept.reason,
        "the virtual host, then a space",
    )?;
    let behind = Accept {
        combined: true,
        common: false,
        ..accept
    };
    let mut record = read_at(line, at, behind, stamps)?;
    record.site = Some((site.0, site.0 + without_port(&line[site.0..site.1])));
    Ok(record)
}

/// Returns the length of a host without its `:port`. A bare IPv6 address is no host with a port.
fn without_port(site: &[u8]) -> usize {
    let digits = site.iter().rev().take_while(|b| b.is_ascii_digit()).count();
    let Some(colon) = (site.len() - digits).checked_sub(1) else {
        return site.len();
    };
    let host = &site[..colon];
    let is_port =
        digits > 0 && site[colon] == b':' && (!host.contains(&b':') || host.ends_with(b"]"));
    if is_port { colon } else { site.len() }
}

#[inline]
fn read_at(
    line: &[u8],
    mut at: usize,
    accept: Accept,
    stamps: &mut AccessStamps,
) -> Result<AccessLine, Bad> {
    let reason = accept.reason;
    let host = token(line, &mut at, reason, "the host, then a space")?;
    let logname = token(
        line,
        &mut at,
        reason,
        "the remote logname or -, then a space",
    )?;
    let user = token(line, &mut at, reason, "the user or -, then a space")?;

    if line.get(at) != Some(&b'[') {
        return Err(Bad::expected(reason, at, "[ and the time"));
    }
    let time_at = at + 1;
    let Some(stamp) = line
        .get(time_at..)
        .and_then(|rest| rest.first_chunk::<{ AccessStamps::LEN }>())
    else {
        return Err(Bad::expected(
            "bad_time",
            time_at,
            "a time as 10/Oct/2000:13:55:36 -0700",
        ));
    };
    let time_us = stamps
        .read(stamp)
        .map_err(|(offset, what)| Bad::expected("bad_time", time_at + offset, what))?;
    at = time_at + AccessStamps::LEN;
    if line.get(at) != Some(&b']') {
        return Err(Bad::expected("bad_time", at, "] after the time"));
    }
    at += 1;

    let request =
        quoted(line, &mut at).map_err(|at| Bad::expected(reason, at, "the quoted request"))?;
    at = space(line, at).ok_or_else(|| Bad::expected(reason, at, "a space and the status"))?;
    let status = read_status(line, at)
        .ok_or_else(|| Bad::expected("bad_status", at, "a status of three digits, then a space"))?;
    at += 4;
    let (size, end) = read_size(line, at)?;

    let mut record = AccessLine {
        site: None,
        host,
        logname,
        user,
        time_us,
        time_at,
        request,
        status,
        size,
        referrer: None,
        user_agent: None,
        extra: None,
    };
    tail(line, end, accept, &mut record)?;
    Ok(record)
}

/// Reads the end of a line behind the size: nothing, the two fields of Combined, or something else.
#[inline]
fn tail(line: &[u8], end: usize, accept: Accept, record: &mut AccessLine) -> Result<(), Bad> {
    let reason = accept.reason;
    if end == line.len() {
        return if accept.common {
            Ok(())
        } else {
            Err(Bad::expected(
                reason,
                end,
                "a space and the quoted referrer",
            ))
        };
    }
    if line[end] != b' ' {
        return Err(Bad::expected(
            "bad_size",
            end,
            "a size of digits or -, then a space or the end of the line",
        ));
    }
    let misfit = if accept.combined {
        match combined_tail(line, end, accept.prefix, record) {
            Ok(()) => return Ok(()),
            Err(bad) => bad,
        }
    } else {
        (end, "the end of the line")
    };
    if accept.common && accept.prefix {
        record.extra = Some((end + 1, line.len()));
        return Ok(());
    }
    Err(Bad::expected(reason, misfit.0, misfit.1))
}

#[inline]
fn combined_tail(
    line: &[u8],
    mut at: usize,
    prefix: bool,
    record: &mut AccessLine,
) -> Result<(), (usize, &'static str)> {
    let referrer = quoted(line, &mut at).map_err(|at| (at, "the quoted referrer"))?;
    let user_agent = quoted(line, &mut at).map_err(|at| (at, "the quoted user agent"))?;
    if at != line.len() {
        if !prefix || line[at] != b' ' {
            return Err((at, "the end of the line"));
        }
        record.extra = Some((at + 1, line.len()));
    }
    record.referrer = Some(referrer);
    record.user_agent = Some(user_agent);
    Ok(())
}

/// Reads text up to the next space and moves behind that.
#[inline]
fn token(
    line: &[u8],
    at: &mut usize,
    reason: &'static str,
    what: &'static str,
) -> Result<ByteSpan, Bad> {
    let begin = *at;
    let mut end = begin;
    while let Some(&byte) = line.get(end) {
        if byte == b' ' && end > begin {
            *at = end + 1;
            return Ok((begin, end));
        }
        if byte == b' ' || byte == b'"' {
            break;
        }
        end += 1;
    }
    Err(Bad::expected(reason, end, what))
}

#[inline]
fn space(line: &[u8], at: usize) -> Option<usize> {
    (line.get(at) == Some(&b' ')).then_some(at + 1)
}

/// Reads a space and a quoted field; `at` moves behind its closing quote. Fails with the byte at
/// which something else stands; a missing closing quote is missing at the end of the line.
#[inline]
fn quoted(line: &[u8], at: &mut usize) -> Result<ByteSpan, usize> {
    let open = space(line, *at).ok_or(*at)?;
    if line.get(open) != Some(&b'"') {
        return Err(open);
    }
    let begin = open + 1;
    let mut from = begin;
    loop {
        let quote = from + memchr::memchr(b'"', &line[from..]).ok_or(line.len())?;
        let backslashes = line[from..quote]
            .iter()
            .rev()
            .take_while(|&&b| b == b'\\')
            .count();
        if backslashes % 2 == 0 {
            *at = quote + 1;
            return Ok((begin, quote));
        }
        from = quote + 1;
    }
}

#[inline]
fn read_status(line: &[u8], at: usize) -> Option<i16> {
    let &[a, b, c, b' '] = line.get(at..)?.first_chunk::<4>()? else {
        return None;
    };
    let digit = |byte: u8| byte.is_ascii_digit().then(|| i16::from(byte - b'0'));
    Some(digit(a)? * 100 + digit(b)? * 10 + digit(c)?)
}

/// Reads digits or `-` and returns where they end.
#[inline]
fn read_size(line: &[u8], at: usize) -> Result<(Option<i64>, usize), Bad> {
    let bad = |what| Bad::expected("bad_size", at, what);
    if line.get(at) == Some(&b'-') {
        return Ok((None, at + 1));
    }
    let mut end = at;
    let mut size = 0_i64;
    while let Some(digit) = line
        .get(end)
        .map(|b| b.wrapping_sub(b'0'))
        .filter(|&d| d <= 9)
    {
        size = size
            .checked_mul(10)
            .and_then(|s| s.checked_add(i64::from(digit)))
            .ok_or_else(|| bad("a size below 2^63"))?;
        end += 1;
    }
    if end == at {
        return Err(bad("a size of digits or -"));
    }
    Ok((Some(size), end))
}

#[cfg(test)]
mod tests;
