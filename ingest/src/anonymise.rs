//! Fields that are stored without the person behind them: `anonymise` of a stream.
//!
//! # Invariants
//! * No value of a named field, and neither name nor value of a field below it, leaves the parser
//!   as it came: not as a column, not in the rest of a document, and not in a quarantined line.
//! * Equal values stay equal, so that counts by a field keep their meaning, as far as the method
//!   tells values apart. Forms of one address are equal: `203.0.113.7`, `::ffff:203.0.113.7` and
//!   `203.0.113.7:5140`.

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
    /// Of an IP address its network: /24 of IPv4, /48 of IPv6, /40 of 6to4 (which is /24 of the
    /// IPv4 address in it). Any other value becomes `anonymous`.
    Truncate,
    /// HMAC-SHA-256 (RFC 2104) under the key, its first 16 bytes in hexadecimal. Of an IP address,
    /// with or without a port, its canonical form is hashed: RFC 5952 for IPv6, and IPv4 for an
    /// address that IPv6 maps. Of any other value its bytes.
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
    keeps_quarantined: bool,
    /// The reason for which nothing can be stored, see [`Anonymiser::refusing`].
    refusal: Option<Arc<str>>,
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
        match (self, address(value)) {
            (Self::Truncate, Some(address)) => network(address).to_string(),
            (Self::Truncate, None) => ANONYMOUS.to_owned(),
            (Self::Hash(key), Some(address)) => key.hash(address.to_string().as_bytes()),
            (Self::Hash(key), None) => key.hash(value.as_bytes()),
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

    /// Keeps the lines of quarantined items, as they came.
    pub fn keeping_quarantined(self) -> Self {
        let keeps_quarantined = true;
        Self {
            keeps_quarantined,
            ..self
        }
    }

    /// Refuses every batch for this reason: nothing is stored that could not be anonymised.
    pub fn refusing(self, why: &str) -> Self {
        let refusal = Some(Arc::from(why));
        Self { refusal, ..self }
    }

    /// Returns the reason for which every batch is refused.
    pub fn refusal(&self) -> Option<&str> {
        self.refusal.as_deref()
    }

    /// Returns whether no field is anonymised.
    pub fn is_empty(&self) -> bool {
        self.fields.is_empty() && self.refusal.is_none()
    }

    /// Returns whether quarantined items lose their lines, which have every value as it came.
    pub fn hides_lines(&self) -> bool {
        !self.is_empty() && !self.keeps_quarantined
    }

    /// Returns the names of the fields.
    pub(crate) fn fields(&self) -> impl Iterator<Item = &str> {
        self.fields.iter().map(|(name, _)| name.as_str())
    }

    /// Checks whether the anonymiser can work.
    ///
    /// # Errors
    /// [`Error::CannotAnonymise`] with the reason of [`Anonymiser::refusing`].
    pub(crate) fn check_usable(&self) -> Result<()> {
        match &self.refusal {
            None => Ok(()),
            Some(why) => Err(Error::CannotAnonymise {
                why: Arc::clone(why),
            }),
        }
    }

    /// Returns the rule that covers a field by its dotted name: the one with the longest name, with
    /// that name. A rule stands for the field and all below it.
    pub(crate) fn rule(&self, name: &str) -> Option<(&str, &Rule)> {
        let rules = self.fields.iter().map(|(field, rule)| (&**field, rule));
        let covering = rules.filter(|(field, _)| is_at_or_below(name, field));
        covering.max_by_key(|(field, _)| field.len())
    }

    /// Returns the rule of a value with fields of its own that are not told apart: an array may
    /// hold objects with a named field.
    pub(crate) fn rule_above(&self, name: &str) -> Option<&Rule> {
        let mut rules = self.fields.iter();
        let found = rules.find(|(field, _)| is_at_or_below(field, name));
        found.map(|(_, rule)| rule)
    }

    /// Anonymises columns of text.
    ///
    /// # Errors
    /// [`Error::NotAnonymised`] for a name that is no column of text.
    pub(crate) fn apply_to_columns(&self, events: RecordBatch) -> Result<RecordBatch> {
        let mut columns = events.columns().to_vec();
        let schema = events.schema();
        for (name, rule) in &self.fields {
            let at = schema.index_of(name).ok();
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

/// Returns the address that a text is, with or without a port, in its canonical form.
fn address(text: &str) -> Option<IpAddr> {
    let text = text.trim();
    let bare = text.trim_start_matches('[').trim_end_matches(']');
    // A link-local address may name its interface.
    let bare = bare.split('%').next().unwrap_or(bare);
    let with_port = || text.parse::<SocketAddr>().ok().map(|socket| socket.ip());
    let address = bare.parse::<IpAddr>().ok().or_else(with_port)?;
    Some(address.to_canonical())
}

/// Returns the network of an address.
///
/// IPv6 addresses that hold one of IPv4 keep at most its /24 too. 6to4 (RFC 3056) has it in the
/// bits 16 to 47, so that a /48 would keep it whole. NAT64 (RFC 6052, its prefix of 96 bits),
/// Teredo (RFC 4380, the client), ISATAP and IPv4-compatible addresses have it behind bit 48.
fn network(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(v4) => IpAddr::V4(Ipv4Addr::from(u32::from(v4) & (u32::MAX << 8))),
        IpAddr::V6(v6) => {
            let kept_bits = if v6.segments()[0] == 0x2002 { 40 } else { 48 };
            let mask = u128::MAX << (128 - kept_bits);
            IpAddr::V6(Ipv6Addr::from(u128::from(v6) & mask))
        }
    }
}

#[cfg(test)]
mod tests;
