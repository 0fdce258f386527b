//! Shard keys: the rule by which the events of a stream are divided among stores, and its spelling:
//! `batch`, `time`, `site, path`, `path + hash`, or `path + hash if hot`.
//!
//! # Invariants
//! * The shard of an event is a function of the key, the number of shards, the key or the producer
//!   of its batch, and its own values. So a batch that is sent again is divided as it was before,
//!   and each shard recognises its part; and an event of an ordered source goes to one shard,
//!   however the source cuts its ranges.
//! * The function does not depend on the type in which a column has a number, because a column of
//!   integers may become one of floats between two attempts; nor on whether a value has a column or
//!   is in `_rest`, which the columns that are known when a batch is parsed decide.

mod division;
mod hash;
mod places;
mod values;

pub use division::Division;
pub use hash::{shard_hash, shard_mix};
pub use places::HotValues;

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The events of one value that a salt sends to different shards.
pub const SALTS: u64 = 8;
/// The most fields of a key.
const FIELDS_MAX: usize = 8;
const SALTED: &str = " + hash";
const SALTED_IF_HOT: &str = " + hash if hot";

/// Decides to which shard an event goes.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum ShardKey {
    /// All events of a request go to one shard, by the request's identity.
    Batch,
    /// All events of an hour go to one shard.
    Time,
    /// Events with equal values of these fields go to one shard, or with a salt to a few.
    Fields {
        /// The fields, one at least.
        fields: Vec<String>,
        /// The values whose events are divided further.
        salt: Salt,
    },
}

/// The values whose events a hash of their number divides further, by 8.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Salt {
    /// None.
    None,
    /// All values.
    All,
    /// Values of more than a quarter of the events that a shard has in the mean.
    Hot,
}

impl ShardKey {
    /// Returns the fields of the key.
    pub fn fields(&self) -> impl Iterator<Item = &str> {
        let fields: &[String] = match self {
            Self::Batch | Self::Time => &[],
            Self::Fields { fields, .. } => fields,
        };
        fields.iter().map(String::as_str)
    }

    /// Checks that the key has a few fields, each once.
    ///
    /// # Errors
    /// The reason why it is no key.
    pub fn check(&self) -> Result<(), String> {
        let fields: Vec<&str> = self.fields().collect();
        if fields.len() > FIELDS_MAX {
            let number = fields.len();
            return Err(format!(
                "a key of {number} fields; give at most {FIELDS_MAX}"
            ));
        }
        let is_repeated = |n: &usize| fields[..*n].contains(&fields[*n]);
        match (0..fields.len()).find(is_repeated) {
            Some(n) => Err(format!("the key {self} has {} twice", fields[n])),
            None => Ok(()),
        }
    }
}

impl fmt::Display for ShardKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Batch => f.write_str("batch"),
            Self::Time => f.write_str("time"),
            Self::Fields { fields, salt } => {
                f.write_str(&fields.join(", "))?;
                f.write_str(match salt {
                    Salt::None => "",
                    Salt::All => SALTED,
                    Salt::Hot => SALTED_IF_HOT,
                })
            }
        }
    }
}

impl From<ShardKey> for String {
    fn from(key: ShardKey) -> Self {
        key.to_string()
    }
}

impl FromStr for ShardKey {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (names, salt) = if let Some(names) = text.strip_suffix(SALTED_IF_HOT) {
            (names, Salt::Hot)
        } else if let Some(names) = text.strip_suffix(SALTED) {
            (names, Salt::All)
        } else {
            (text, Salt::None)
        };
        let fields: Vec<String> = names.split(',').map(|f| f.trim().to_owned()).collect();
        match names {
            "batch" if salt == Salt::None => Ok(Self::Batch),
            "time" if salt == Salt::None => Ok(Self::Time),
            _ if fields.iter().any(String::is_empty) => Err(format!(
                "{text:?} is no shard key; write batch, time, fields as site,path, or fields with a salt as \"path + hash\""
            )),
            _ => Ok(Self::Fields { fields, salt }),
        }
    }
}

impl TryFrom<String> for ShardKey {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}
