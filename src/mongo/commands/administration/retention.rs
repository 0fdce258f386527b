//! Retention that a command asks for. A command sets it where the configuration does not.

use std::sync::Arc;

use storage::{Config, Manifest, Name, Retention};

use super::on_disk;
use crate::mongo::error::{CommandError, Result, code};
use crate::serve::Serving;

/// Units of an age in `logmill.toml` with their seconds, the longest first.
const AGES: [(&str, i64); 4] = [("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1)];
/// Units of bytes there, the largest first.
const SIZES: [(&str, u64); 4] = [
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
];
const SECOND_US: i64 = 1_000_000;

/// One limit of a retention that a command asks for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum AskedLimit {
    /// The command says nothing of it.
    #[default]
    AsItIs,
    /// There must be none.
    Unlimited,
    /// Seconds, or bytes.
    Most(i64),
}

/// The retention that a command asks for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct AskedRetention {
    pub(super) age_s: AskedLimit,
    pub(super) bytes: AskedLimit,
}

/// Returns the present retention of a stream.
pub(super) fn retention_of(serving: &Serving, stream: &Name) -> Retention {
    let snapshot = serving.store.snapshot();
    serving
        .config
        .store()
        .retention(snapshot.manifest(), stream)
}

/// Returns an age in whole seconds.
pub(super) fn seconds(age_us: i64) -> i64 {
    age_us / SECOND_US
}

impl AskedLimit {
    /// Returns the limit that a number asks for.
    ///
    /// # Errors
    /// If it would keep nothing.
    pub(super) fn most(name: &str, number: i64) -> Result<Self> {
        match number > 0 {
            true => Ok(Self::Most(number)),
            false => Err(CommandError::new(
                code::INVALID_OPTIONS,
                format!("'{name}' is {number}: such a retention would keep nothing"),
            )),
        }
    }

    /// Returns the limit that there is then, of the one that there is now.
    fn over(self, now: Option<i64>) -> Option<i64> {
        match self {
            Self::AsItIs => now,
            Self::Unlimited => None,
            Self::Most(most) => Some(most),
        }
    }
}

impl AskedRetention {
    /// Returns a retention by age alone.
    pub(super) fn of_age(age_s: AskedLimit) -> Self {
        Self {
            age_s,
            bytes: AskedLimit::AsItIs,
        }
    }

    /// Gives a stream this retention, if it has another one.
    ///
    /// # Errors
    /// As [`AskedRetention::apply`].
    pub(super) async fn set(self, serving: &Arc<Serving>, stream: &Name) -> Result<()> {
        let (serving, stream) = (Arc::clone(serving), stream.clone());
        on_disk(move || self.apply(&serving, &stream)).await
    }

    /// Gives a stream this retention, if it has another one. It waits for the disk.
    ///
    /// # Errors
    /// As [`AskedRetention::changes`], or the error of the store.
    pub(super) fn apply(self, serving: &Serving, stream: &Name) -> Result<()> {
        let snapshot = serving.store.snapshot();
        if self.changes(&serving.config.store(), snapshot.manifest(), stream)? {
            serving.store.set_retention(stream, |now| self.over(now))?;
        }
        Ok(())
    }

    /// Returns whether a stream has another retention.
    ///
    /// # Errors
    /// If the configuration sets that, with the lines that set this one.
    pub(super) fn changes(
        self,
        config: &Config,
        manifest: &Manifest,
        stream: &Name,
    ) -> Result<bool> {
        let now = config.retention(manifest, stream);
        let then = self.over(now);
        if then == now {
            return Ok(false);
        }
        if !config.sets_retention(stream) {
            return Ok(true);
        }
        let lines = match table(then) {
            Some(table) => format!("write\n[stream.{stream}]\nretention = {table}\n"),
            None => format!("remove retention from [stream.{stream}] "),
        };
        let has = table(now).unwrap_or_else(|| "none".to_owned());
        let message = format!(
            "the retention of the stream {stream} is {has}, as logmill.toml sets it: {lines}there, and start the server again"
        );
        Err(CommandError::new(code::COMMAND_NOT_SUPPORTED, message))
    }

    fn over(self, now: Retention) -> Retention {
        let signed = |bytes: u64| i64::try_from(bytes).unwrap_or(i64::MAX);
        // An age below one second that stays as it is must not be rounded.
        let age_us = match self.age_s {
            AskedLimit::AsItIs => now.age_us,
            asked => asked.over(None).map(|s| s.saturating_mul(SECOND_US)),
        };
        let bytes = self.bytes.over(now.bytes.map(signed));
        Retention {
            age_us,
            bytes: bytes.map(i64::unsigned_abs),
        }
    }
}

/// Returns a retention as `logmill.toml` spells it; `None` for none.
fn table(retention: Retention) -> Option<String> {
    let age = retention.age_us.map(|us| format!("age = \"{}\"", age(us)));
    let bytes = retention.bytes.map(|b| format!("bytes = \"{}\"", size(b)));
    let limits: Vec<String> = age.into_iter().chain(bytes).collect();
    (!limits.is_empty()).then(|| format!("{{ {} }}", limits.join(", ")))
}

fn age(us: i64) -> String {
    let mut units = AGES.into_iter();
    let whole = units.find(|(_, seconds)| us % (seconds * SECOND_US) == 0);
    match whole {
        Some((unit, seconds)) => format!("{}{unit}", us / (seconds * SECOND_US)),
        None => format!("{us}us"),
    }
}

fn size(bytes: u64) -> String {
    let mut units = SIZES.into_iter();
    match units.find(|(_, size)| bytes.is_multiple_of(*size)) {
        Some((unit, size)) => format!("{}{unit}", bytes / size),
        None => bytes.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use storage::StreamConfig;

    use super::*;

    fn config(retention: Retention) -> Config {
        let stream = StreamConfig {
            retention,
            ..StreamConfig::default()
        };
        Config {
            streams: BTreeMap::from([(Name::new("events").expect("a name"), stream)]),
            ..Config::default()
        }
    }

    /// The manifest of a store in which no command has set anything.
    fn manifest() -> Arc<Manifest> {
        let dir = tempfile::tempdir().expect("a directory");
        let store = storage::Store::open(dir.path(), storage::Options::default());
        let snapshot = store.expect("a store").snapshot();
        Arc::clone(snapshot.manifest())
    }

    #[test]
    fn a_retention_is_spelled_as_the_configuration_reads_it() {
        for (age_us, bytes, spelled) in [
            (None, None, None),
            (
                Some(90 * 86_400 * SECOND_US),
                None,
                Some("{ age = \"90d\" }"),
            ),
            (Some(5_400 * SECOND_US), None, Some("{ age = \"90m\" }")),
            (None, Some(1 << 30), Some("{ bytes = \"1GiB\" }")),
            (
                Some(3_601 * SECOND_US),
                Some(5_242_881),
                Some("{ age = \"3601s\", bytes = \"5242881\" }"),
            ),
        ] {
            let found = table(Retention { age_us, bytes });
            assert_eq!(found.as_deref(), spelled);
        }
    }

    #[test]
    fn a_retention_is_changed_unless_it_is_configured() {
        let events = Name::new("events").expect("a name");
        let config = config(Retention {
            age_us: Some(86_400 * SECOND_US),
            bytes: Some(1 << 20),
        });
        let manifest = manifest();
        let changes = |age_s, bytes| {
            let asked = AskedRetention { age_s, bytes };
            asked.changes(&config, &manifest, &events)
        };
        use AskedLimit::{AsItIs, Most, Unlimited};
        assert_eq!(changes(AsItIs, AsItIs), Ok(false));
        assert_eq!(changes(Most(86_400), AsItIs), Ok(false));
        assert_eq!(changes(AsItIs, Most(1 << 20)), Ok(false));
        let refused = changes(Most(7_200), AsItIs).expect_err("another age");
        let lines = "[stream.events]\nretention = { age = \"2h\", bytes = \"1MiB\" }\n";
        assert!(refused.message.contains(lines), "{}", refused.message);
        let refused = changes(Unlimited, Unlimited).expect_err("no retention");
        assert!(refused.message.contains("remove retention"));
        let other = Name::new("other").expect("a name");
        for (age_s, is_changed) in [(Unlimited, false), (Most(60), true)] {
            let asked = AskedRetention::of_age(age_s);
            assert_eq!(asked.changes(&config, &manifest, &other), Ok(is_changed));
        }
    }
}
