//! The settings of a session: `SET`, `SHOW`, `RESET`, and their values at its start.
//!
//! # Invariants
//! * A value is one that this server acts on, or that changes nothing. Any other is refused, so
//!   that no client reads an answer in a form that it did not ask for.

use std::collections::BTreeMap;
use std::str::FromStr;
use std::time::Duration;

use chrono_tz::Tz;
use query::SETTINGS;

use super::error::{Result, SqlError, state};

/// A setting: its name as PostgreSQL prints it, and its kind.
struct Known {
    name: &'static str,
    kind: SettingKind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum SettingKind {
    /// Any text.
    Free,
    /// A fixed value.
    Fixed,
    /// One of these, in lower case. Only the first is acted on differently from none.
    OneOf(&'static [&'static str]),
    /// `on` or `off`.
    Switch,
    /// A number.
    Number,
    /// Milliseconds, or a number with a unit.
    Time,
    Zone,
    DateStyle,
    Encoding,
}

/// Returns what a setting may be set to, by its name in lower case.
fn kind(lower: &str) -> SettingKind {
    match lower {
        "application_name"
        | "default_transaction_isolation"
        | "lc_monetary"
        | "search_path"
        | "synchronous_commit"
        | "transaction_isolation"
        | "xmloption" => SettingKind::Free,
        "bytea_output" => SettingKind::OneOf(&["hex"]),
        "client_encoding" => SettingKind::Encoding,
        "client_min_messages" => SettingKind::OneOf(&[
            "notice", "warning", "error", "log", "debug", "debug1", "debug2", "debug3", "debug4",
            "debug5", "info", "fatal", "panic",
        ]),
        "datestyle" => SettingKind::DateStyle,
        "default_transaction_read_only"
        | "jit"
        | "row_security"
        | "synchronize_seqscans"
        | "transaction_read_only" => SettingKind::Switch,
        "extra_float_digits" => SettingKind::Number,
        "idle_in_transaction_session_timeout" | "lock_timeout" | "statement_timeout" => {
            SettingKind::Time
        }
        "intervalstyle" => SettingKind::OneOf(&["postgres"]),
        "standard_conforming_strings" => SettingKind::OneOf(&["on"]),
        "timezone" => SettingKind::Zone,
        _ => SettingKind::Fixed,
    }
}

/// Settings whose values the client is told, at the start and at each change.
const REPORTED: [&str; 15] = [
    "application_name",
    "client_encoding",
    "datestyle",
    "default_transaction_read_only",
    "in_hot_standby",
    "integer_datetimes",
    "intervalstyle",
    "is_superuser",
    "search_path",
    "server_encoding",
    "server_version",
    "session_authorization",
    "standard_conforming_strings",
    "timezone",
    "server_version_num",
];
/// Maximum settings of clients' own, `name.setting`, and bytes of a value.
const OWN_MAX: usize = 64;
const VALUE_BYTES_MAX: usize = 4096;

/// The settings of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Settings {
    /// Values by names in lower case.
    values: BTreeMap<String, String>,
    /// Values that `RESET` returns to.
    initial: BTreeMap<String, String>,
    pub(super) zone: Tz,
    /// `None` without a limit of the session's own.
    pub(super) timeout: Option<Duration>,
}

impl Settings {
    /// Creates the settings of a user's session.
    pub(super) fn new(user: &str) -> Self {
        let mut values: BTreeMap<String, String> = SETTINGS
            .iter()
            .map(|(name, value)| (name.to_ascii_lowercase(), (*value).to_owned()))
            .collect();
        values.insert("session_authorization".to_owned(), user.to_owned());
        Self {
            initial: values.clone(),
            values,
            zone: Tz::UTC,
            timeout: None,
        }
    }

    /// Makes the present values those that `RESET` returns to.
    pub(super) fn begin(&mut self) {
        self.initial.clone_from(&self.values);
    }

    /// Returns the values by names in lower case.
    pub(super) fn values(&self) -> &BTreeMap<String, String> {
        &self.values
    }

    /// Returns the reported settings, with their printed names.
    pub(super) fn reported(&self) -> impl Iterator<Item = (&'static str, &str)> {
        REPORTED.into_iter().filter_map(|name| {
            let known = find(name)?;
            Some((known.name, self.values.get(name)?.as_str()))
        })
    }

    /// Returns a value with its printed name.
    ///
    /// # Errors
    /// If there is no such setting.
    pub(super) fn show(&self, name: &str) -> Result<(String, String)> {
        let lower = name.to_ascii_lowercase();
        let value = self.values.get(&lower).ok_or_else(|| undefined(name))?;
        let printed = find(&lower).map_or(lower.clone(), |known| known.name.to_owned());
        Ok((printed, value.clone()))
    }

    /// Returns the schema of tables that a statement names without one: the first of
    /// `search_path` that is not the user's or the catalog.
    pub(super) fn schema(&self) -> Option<String> {
        let path = self.values.get("search_path")?;
        let mut schemas = path.split(',').map(|schema| {
            let schema = schema.trim();
            match schema.strip_prefix('"').and_then(|s| s.strip_suffix('"')) {
                Some(quoted) => quoted.replace("\"\"", "\""),
                None => schema.to_ascii_lowercase(),
            }
        });
        schemas.find(|schema| !matches!(&**schema, "$user" | "pg_catalog" | ""))
    }

    /// Sets a value.
    ///
    /// # Errors
    /// If there is no such setting, or the value is not supported.
    pub(super) fn set(&mut self, name: &str, value: &str) -> Result<()> {
        let lower = name.to_ascii_lowercase();
        if value.len() > VALUE_BYTES_MAX {
            return Err(refused(name, "a text that long", "a shorter one"));
        }
        let value = match find(&lower) {
            Some(known) => self.checked(&known, value)?,
            None if lower.contains('.') => {
                let own = self.values.keys().filter(|name| name.contains('.')).count();
                if own >= OWN_MAX && !self.values.contains_key(&lower) {
                    let message = format!("a session has at most {OWN_MAX} settings of its own");
                    return Err(SqlError::new(state::BAD_PARAMETER, message));
                }
                value.to_owned()
            }
            None => return Err(undefined(name)),
        };
        self.values.insert(lower, value);
        Ok(())
    }

    /// Returns a setting to its value at the start of the session.
    ///
    /// # Errors
    /// If there is no such setting.
    pub(super) fn reset(&mut self, name: &str) -> Result<()> {
        let lower = name.to_ascii_lowercase();
        match self.initial.get(&lower).cloned() {
            Some(value) if self.values.get(&lower) == Some(&value) => Ok(()),
            Some(value) => self.set(&lower, &value),
            None if self.values.remove(&lower).is_some() => Ok(()),
            None => Err(undefined(name)),
        }
    }

    /// Returns all settings to their values at the start of the session.
    pub(super) fn reset_all(&mut self) {
        for name in self.values.keys().cloned().collect::<Vec<_>>() {
            // A value that was taken once is taken again.
            let _ignored = self.reset(&name);
        }
    }

    /// Returns a value as it is kept, and acts on it.
    fn checked(&mut self, known: &Known, value: &str) -> Result<String> {
        let lower = value.trim().to_ascii_lowercase();
        let name = known.name;
        Ok(match known.kind {
            SettingKind::Free => value.to_owned(),
            SettingKind::Fixed if self.values.get(&name.to_ascii_lowercase()) == Some(&lower) => {
                lower
            }
            SettingKind::Fixed => {
                let message = format!("parameter \"{name}\" cannot be changed");
                return Err(SqlError::new("55P02", message));
            }
            SettingKind::OneOf(taken) if taken.contains(&&*lower) => lower,
            SettingKind::OneOf(taken) => return Err(refused(name, value, &taken.join(", "))),
            SettingKind::Switch => match &*lower {
                "on" | "true" | "yes" | "1" => "on".to_owned(),
                "off" | "false" | "no" | "0" => "off".to_owned(),
                _ => return Err(refused(name, value, "on or off")),
            },
            SettingKind::Number => match lower.parse::<i32>() {
                Ok(number) => number.to_string(),
                Err(_) => return Err(refused(name, value, "a number")),
            },
            SettingKind::Time => {
                let time = time(&lower).ok_or_else(|| refused(name, value, "5s or 5000"))?;
                if name == "statement_timeout" {
                    self.timeout = (!time.is_zero()).then_some(time);
                }
                printed(time)
            }
            SettingKind::Zone => {
                self.zone = zone(value).ok_or_else(|| refused(name, value, "Europe/Berlin"))?;
                self.zone.name().to_owned()
            }
            SettingKind::DateStyle => {
                let mut words = lower.split(',').map(str::trim);
                if !words.all(|word| matches!(word, "iso" | "mdy" | "dmy" | "ymd" | "default")) {
                    return Err(refused(name, value, "ISO"));
                }
                "ISO, MDY".to_owned()
            }
            SettingKind::Encoding => match lower.replace(['-', '_'], "").as_str() {
                "utf8" | "unicode" | "default" => "UTF8".to_owned(),
                _ => return Err(refused(name, value, "UTF8")),
            },
        })
    }
}

fn find(lower: &str) -> Option<Known> {
    let mut all = SETTINGS.iter();
    let (name, _) = all.find(|(name, _)| name.eq_ignore_ascii_case(lower))?;
    let kind = kind(lower);
    Some(Known { name, kind })
}

fn undefined(name: &str) -> SqlError {
    let message = format!("unrecognized configuration parameter \"{name}\"");
    SqlError::new(state::UNDEFINED_SETTING, message)
}

fn refused(name: &str, value: &str, instead: &str) -> SqlError {
    let message = format!("invalid value for parameter \"{name}\": \"{value}\"");
    SqlError::new(state::BAD_PARAMETER, message).hint(format!("write {instead}"))
}

/// Parses milliseconds, or a number with one of PostgreSQL's units.
fn time(text: &str) -> Option<Duration> {
    let digits = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let number: u64 = text[..digits].parse().ok()?;
    let unit_us = match text[digits..].trim() {
        "us" => 1,
        "" | "ms" => 1_000,
        "s" => 1_000_000,
        "min" => 60_000_000,
        "h" => 3_600_000_000,
        "d" => 86_400_000_000,
        _ => return None,
    };
    number.checked_mul(unit_us).map(Duration::from_micros)
}

/// Writes a time as PostgreSQL does: in the largest unit that divides it.
fn printed(time: Duration) -> String {
    let ms = time.as_millis();
    let units = [
        (86_400_000, "d"),
        (3_600_000, "h"),
        (60_000, "min"),
        (1_000, "s"),
    ];
    match units
        .iter()
        .find(|(unit, _)| ms > 0 && ms.is_multiple_of(*unit))
    {
        Some((unit, name)) => format!("{}{name}", ms / unit),
        None if ms == 0 => "0".to_owned(),
        None => format!("{ms}ms"),
    }
}

/// Finds a time zone by its name in any case, or whole hours east of Greenwich.
fn zone(text: &str) -> Option<Tz> {
    let text = text.trim();
    if let Ok(hours) = text.parse::<i8>() {
        // The signs of these names are those of POSIX: west is positive.
        return Tz::from_str(&format!("Etc/GMT{:+}", -hours)).ok();
    }
    if ["default", "local", "utc", "z"].contains(&&*text.to_ascii_lowercase()) {
        return Some(Tz::UTC);
    }
    let is_named = |zone: &Tz| zone.name().eq_ignore_ascii_case(text);
    let exact = Tz::from_str(text).ok();
    exact.or_else(|| chrono_tz::zones().find(is_named))
}

#[cfg(test)]
mod tests;
