//! `[kafka.NAME.options]`: options of librdkafka, and the places of its secrets.
//!
//! # Invariants
//! * A secret is never part of the configuration: it is the content of a file or of a variable of
//!   the environment, which only a server reads. So no command can show it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Deserializer};

/// Parts of the names of options whose values are secret.
const SECRET: [&str; 6] = [
    "password",
    "secret",
    "passphrase",
    "key.pem",
    "token",
    "sasl.oauthbearer.config",
];

/// KafkaOptions that decide what is stored, with the reason why they cannot be set.
const OWN: [(&str, &str); 13] = [
    ("bootstrap.servers", "write brokers instead"),
    ("metadata.broker.list", "write brokers instead"),
    ("group.id", "write group instead"),
    ("client.id", "it is \"logmill\""),
    ("enable.auto.commit", "positions are kept in the store"),
    (
        "enable.auto.offset.store",
        "positions are kept in the store",
    ),
    ("auto.offset.reset", "write start and when_gone instead"),
    ("isolation.level", "aborted records are never stored"),
    ("check.crcs", "damaged records are never stored"),
    ("statistics.interval.ms", "the lag is measured with it"),
    ("log.queue", "the log of the server has its messages"),
    ("enable.partition.eof", "it changes nothing"),
    ("plugin.library.paths", "the server loads no other code"),
];

/// The options of a source by their names.
#[derive(Debug, Clone, Default)]
pub(crate) struct KafkaOptions(BTreeMap<String, Result<Setting, &'static str>>);

/// The value of an option, or its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Setting {
    Value(String),
    /// The content of a file, without the end of its line.
    File(PathBuf),
    /// A variable of the environment.
    Variable(String),
}

/// Returns whether an option's value is secret.
pub(crate) fn is_secret(name: &str) -> bool {
    SECRET.iter().any(|part| name.contains(part))
}

impl KafkaOptions {
    /// Returns the options whose form is right, which are all of a valid configuration.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &Setting)> {
        let options = self.0.iter();
        options.filter_map(|(name, setting)| Some((name.as_str(), setting.as_ref().ok()?)))
    }

    /// Returns what is wrong. No message has a value in it, which may be a secret.
    pub(super) fn problems(&self) -> impl Iterator<Item = String> {
        self.0.iter().filter_map(|(name, setting)| {
            let own = OWN.iter().find(|(own, _)| own == name);
            match (own, setting) {
                (Some((_, why)), _) => Some(format!("{name} cannot be set: {why}")),
                (None, Err(why)) => Some(format!("{name} {why}")),
                (None, Ok(Setting::Value(_))) if is_secret(name) => Some(format!(
                    "{name} is a secret, which the configuration must not contain; write \"{name}\" = {{ file = \"PATH\" }} or {{ env = \"VARIABLE\" }}"
                )),
                (None, Ok(_)) => None,
            }
        })
    }

    /// Adds a table; its names stand behind those of the tables around it, since TOML makes tables
    /// of dotted names.
    fn add(&mut self, before: &str, table: toml::Table) {
        for (key, value) in table {
            let name = match before {
                "" => key,
                before => format!("{before}.{key}"),
            };
            let setting = match value {
                toml::Value::String(text) => Ok(Setting::Value(text)),
                toml::Value::Integer(number) => Ok(Setting::Value(number.to_string())),
                toml::Value::Float(number) => Ok(Setting::Value(number.to_string())),
                toml::Value::Boolean(flag) => Ok(Setting::Value(flag.to_string())),
                toml::Value::Table(inner) => match place(&inner) {
                    Some(place) => Ok(place),
                    None => {
                        self.add(&name, inner);
                        continue;
                    }
                },
                toml::Value::Array(_) | toml::Value::Datetime(_) => {
                    Err("needs a text, a number, true or false")
                }
            };
            self.0.insert(name, setting);
        }
    }
}

/// Returns the place of a value that a table names.
fn place(table: &toml::Table) -> Option<Setting> {
    let (key, value) = table.iter().next().filter(|_| table.len() == 1)?;
    let named = value.as_str()?;
    match key.as_str() {
        "file" => Some(Setting::File(named.into())),
        "env" => Some(Setting::Variable(named.to_owned())),
        _ => None,
    }
}

impl<'de> Deserialize<'de> for KafkaOptions {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut options = Self::default();
        options.add("", toml::Table::deserialize(deserializer)?);
        Ok(options)
    }
}
