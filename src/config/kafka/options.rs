//! `[kafka.NAME.options]` and `[cluster.kafka_options]`: options of librdkafka, and the places of
//! its secrets.
//!
//! # Invariants
//! * A secret is never part of the configuration: it is the content of a file or of a variable of
//!   the environment, which only a server reads. So no command can show it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Parts of the names of options whose values are secret.
const SECRET: [&str; 6] = [
    "password",
    "secret",
    "passphrase",
    "key.pem",
    "token",
    "sasl.oauthbearer.config",
];

/// An option that a section sets by itself, with the reason why it cannot be set.
pub(in crate::config) type OwnOption = (&'static str, &'static str);

/// The options of a section by their names.
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

    /// Returns what is wrong; `own` cannot be set. No message has a value in it, which may be a
    /// secret.
    pub(in crate::config) fn problems(&self, own: &[OwnOption]) -> impl Iterator<Item = String> {
        self.0.iter().filter_map(|(name, setting)| {
            let own = own.iter().find(|(own, _)| own == name);
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

/// Shows the options as they can be written. A secret is no value of a valid configuration.
impl Serialize for KafkaOptions {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (name, setting) in self.iter() {
            match setting {
                Setting::Value(_) if is_secret(name) => {}
                Setting::Value(value) => map.serialize_entry(name, value)?,
                Setting::File(path) => {
                    map.serialize_entry(name, &BTreeMap::from([("file", path)]))?;
                }
                Setting::Variable(variable) => {
                    map.serialize_entry(name, &BTreeMap::from([("env", variable)]))?;
                }
            }
        }
        map.end()
    }
}
