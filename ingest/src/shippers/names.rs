//! Names of streams, from names that other systems give.

use xxhash_rust::xxh3::xxh3_64;

/// The longest name of a stream, in bytes.
const NAME_BYTES_MAX: usize = 63;
/// Bytes that an abridged name keeps of the long one; a hash of it follows.
const KEPT_BYTES: usize = 46;

/// Returns the stream of an index, a service or a label of another system; `None` if its name has
/// no letter or digit.
///
/// Letters are lower case, anything but `a-z`, `0-9` and `_` is `_`, and a name that begins with
/// anything but a letter gets `s_` before it. A date at the end (`logs-2026.11.26`, `logs-2026.11`)
/// is left out, since partitions have it. A name of more than 63 bytes is abridged with a hash of
/// the whole.
pub fn stream_name(named: &str) -> Option<String> {
    let lower = named.to_lowercase();
    let undated = without_date(&lower);
    let spelled: String = undated.chars().map(spell).collect();
    let trimmed = spelled.trim_end_matches('_');
    if !trimmed.bytes().any(|b| b != b'_') {
        return None;
    }
    let name = match trimmed.starts_with(|c: char| c.is_ascii_lowercase()) {
        true => trimmed.to_owned(),
        false => format!("s_{}", trimmed.trim_start_matches('_')),
    };
    Some(match name.len() > NAME_BYTES_MAX {
        true => format!("{}_{:016x}", &name[..KEPT_BYTES], xxh3_64(lower.as_bytes())),
        false => name,
    })
}

fn spell(c: char) -> char {
    match c.is_ascii_lowercase() || c.is_ascii_digit() {
        true => c,
        false => '_',
    }
}

/// Cuts off a date at the end, behind `-` or `_`: a year, a month and perhaps a day, with `.` or
/// `-` between them.
fn without_date(name: &str) -> &str {
    let is_digits =
        |text: &str, count: usize| text.len() == count && text.bytes().all(|b| b.is_ascii_digit());
    for separator in ['.', '-'] {
        for parts in [3, 2] {
            let mut pieces = name.rsplitn(parts, separator);
            let day_or_month = pieces.next().unwrap_or_default();
            let month = (parts == 3).then(|| pieces.next().unwrap_or_default());
            let Some((rest, year)) = pieces.next().and_then(|rest| rest.rsplit_once(['-', '_']))
            else {
                continue;
            };
            let is_date = is_digits(year, 4)
                && is_digits(day_or_month, 2)
                && month.is_none_or(|month| is_digits(month, 2));
            if is_date && !rest.is_empty() {
                return rest;
            }
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_other_systems_are_spelled_as_streams() {
        for (named, spelled) in [
            ("logs", Some("logs")),
            ("logs-app-default", Some("logs_app_default")),
            ("Checkout.Service", Some("checkout_service")),
            ("filebeat-9.5.1-2026.11.26", Some("filebeat_9_5_1")),
            ("logs-2026.11", Some("logs")),
            ("logs_2026-11-26", Some("logs")),
            ("2026.11.26", Some("s_2026_11_26")),
            ("-2026.11.26", Some("s_2026_11_26")),
            ("_internal", Some("s_internal")),
            ("9lives", Some("s_9lives")),
            ("unknown_service:python", Some("unknown_service_python")),
            ("größe", Some("gr__e")),
            ("--", None),
            ("", None),
        ] {
            assert_eq!(stream_name(named).as_deref(), spelled, "{named}");
        }
    }

    #[test]
    fn every_name_is_one_that_a_store_takes_and_long_ones_stay_apart() {
        let long = |last: &str| stream_name(&format!("{}{last}", "x".repeat(80))).unwrap();
        assert_ne!(long("a"), long("b"));
        proptest::proptest!(|(named in "\\PC{0,90}")| {
            if let Some(name) = stream_name(&named) {
                assert!(storage::Name::new(&name).is_ok() && !name.starts_with('_'), "{name}");
                assert_eq!(stream_name(&name), Some(name));
            }
        });
    }
}
