//! Fields that are stored without the person behind them: `anonymise` of a stream.
//!
//! # Invariants
//! * No value of a named field, or of a field below it, leaves the parser as it came: not as a
//!   column, and not in the rest of a document.
//! * Equal values stay equal, so that counts by a field keep their meaning, as far as the method
//!   tells values apart.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, RecordBatch, StringArray};
use ring::hmac;

use crate::error::{Error, Result};

/// Stands for a value that is no address and so cannot be truncated.
const ANONYMOUS: &str = "anonymous";
/// Minimum bytes of a key.
const KEY_BYTES_MIN: usize = 32;
/// Bytes of a hash that are stored. Two of 2^32 values share 16 bytes with a chance of 2^-65.
const HASH_BYTES: usize = 16;

/// The method by which a value loses its person.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// Of an IP address its network: /24 of IPv4, /48 of IPv6. Any other value becomes
    /// `anonymous`.
    Truncate,
    /// HMAC-SHA-256 (RFC 2104) under the key, its first 16 bytes in hexadecimal.
    Hash,
}

impl Method {
    /// Returns the method of a name in the configuration.
    pub fn of_name(name: &str) -> Option<Self> {
        Some(match name {
            "truncate" => Self::Truncate,
            "hash" => Self::Hash,
            _ => return None,
        })
    }
}

/// The key of [`Method::Hash`]. Its owner can find out whether a known value was stored.
#[derive(Clone)]
pub struct HashKey(Arc<hmac::Key>);

impl HashKey {
    /// Makes a key; `None` for fewer than 32 bytes.
    pub fn new(bytes: &[u8]) -> Option<Self> {
        let key = hmac::Key::new(hmac::HMAC_SHA256, bytes);
        (bytes.len() >= KEY_BYTES_MIN).then(|| Self(Arc::new(key)))
    }

    fn hash(&self, value: &[u8]) -> String {
        let tag = hmac::sign(&self.0, value);
        let bytes = &tag.as_ref()[..HASH_BYTES];
        bytes.iter().map(|b| format!("{b:02x}")).collect()
    }
}

impl fmt::Debug for HashKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HashKey(…)")
    }
}

/// The fields of a stream that are anonymised. The default is none.
#[derive(Debug, Clone, Default)]
pub struct Anonymiser {
    fields: Vec<(String, Rule)>,
}

/// A method with its key.
#[derive(Debug, Clone)]
pub(crate) enum Rule {
    Truncate,
    Hash(HashKey),
}

impl Rule {
    /// Returns the value that is stored.
    pub(crate) fn apply(&self, value: &str) -> String {
        match self {
            Self::Truncate => {
                network(value).map_or_else(|| ANONYMOUS.to_owned(), |ip| ip.to_string())
            }
            Self::Hash(key) => key.hash(value.as_bytes()),
        }
    }
}

impl Anonymiser {
    /// Adds a field.
    ///
    /// # Errors
    /// [`Error::NoHashKey`] for a hash without a key.
    pub fn with(mut self, field: &str, method: Method, key: Option<&HashKey>) -> Result<Self> {
        let rule = match (method, key) {
            (Method::Truncate, _) => Rule::Truncate,
            (Method::Hash, Some(key)) => Rule::Hash(key.clone()),
            (Method::Hash, None) => return Err(Error::NoHashKey),
        };
        self.fields.push((field.to_owned(), rule));
        Ok(self)
    }

    /// Returns the names of the fields.
    pub fn fields(&self) -> impl Iterator<Item = &str> {
        self.fields.iter().map(|(name, _)| name.as_str())
    }

    /// Returns whether no field is anonymised.
    pub(crate) fn is_none(&self) -> bool {
        self.fields.is_empty()
    }

    /// Returns the rule of a field by its dotted name. A rule stands for the field and all below
    /// it.
    pub(crate) fn rule(&self, name: &str) -> Option<&Rule> {
        let covers = |field: &str| is_at_or_below(name, field);
        let mut rules = self.fields.iter();
        rules.find(|(field, _)| covers(field)).map(|(_, rule)| rule)
    }

    /// Returns the rule of a value with fields of its own that are not told apart: an array may
    /// hold objects with a named field.
    pub(crate) fn rule_above(&self, name: &str) -> Option<&Rule> {
        let mut rules = self.fields.iter();
        let found = rules.find(|(field, _)| is_at_or_below(field, name));
        found.map(|(_, rule)| rule)
    }

    /// Anonymises the columns of access events.
    ///
    /// # Errors
    /// [`Error::NotAnonymised`] for a name that is no column of text, or one whose value can be
    /// read in another column.
    pub(crate) fn apply_to_columns(
        &self,
        events: RecordBatch,
        related: &[&str],
    ) -> Result<RecordBatch> {
        if self.is_none() {
            return Ok(events);
        }
        let mut columns = events.columns().to_vec();
        let schema = events.schema();
        for (name, rule) in &self.fields {
            let found = schema.index_of(name).ok();
            let at = found.filter(|_| !related.contains(&name.as_str()));
            let texts = at.and_then(|at| Some((at, columns[at].as_string_opt::<i32>()?)));
            let (at, texts) = texts.ok_or_else(|| Error::NotAnonymised { name: name.clone() })?;
            let hidden = texts.iter().map(|text| Some(rule.apply(text?)));
            let hidden: StringArray = hidden.collect();
            columns[at] = Arc::new(hidden) as ArrayRef;
        }
        Ok(RecordBatch::try_new(schema, columns)?)
    }
}

fn is_at_or_below(name: &str, field: &str) -> bool {
    let below = name.strip_prefix(field);
    below.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// Returns the network of an address, with or without a port; `None` for any other text.
fn network(text: &str) -> Option<IpAddr> {
    let text = text.trim();
    let bare = text.trim_start_matches('[').trim_end_matches(']');
    // A link-local address may name its interface.
    let bare = bare.split('%').next().unwrap_or(bare);
    let with_port = || text.parse::<SocketAddr>().ok().map(|socket| socket.ip());
    let address = bare.parse::<IpAddr>().ok().or_else(with_port)?;
    Some(match address.to_canonical() {
        IpAddr::V4(v4) => IpAddr::V4(Ipv4Addr::from(u32::from(v4) & (u32::MAX << 8))),
        IpAddr::V6(v6) => IpAddr::V6(Ipv6Addr::from(u128::from(v6) & (u128::MAX << 80))),
    })
}

#[cfg(test)]
mod tests;
