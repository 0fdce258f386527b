//! Write concerns: what a client asks an acknowledgement to mean, and what a store gives.

use std::fmt;

use crate::error::{Error, Result};

/// The number of copies of a batch that an acknowledgement waits for, as a client asks for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Copies {
    /// `w=0`: no acknowledgement.
    None,
    /// `w=1`, `w=2`, …
    AtLeast(u32),
    /// `w=majority`: more than half of the nodes that hold the journal.
    Majority,
}

impl fmt::Display for Copies {
    /// Writes the number or word of `w`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("0"),
            Self::AtLeast(copies) => write!(f, "{copies}"),
            Self::Majority => f.write_str("majority"),
        }
    }
}

/// The durability that a client asks for. The store decides what it gives: [`Store::gives`].
///
/// [`Store::gives`]: crate::Store::gives
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct WriteConcern {
    /// Number of copies.
    pub w: Copies,
    /// True when each copy must be synced to disk.
    pub j: bool,
}

impl WriteConcern {
    /// No acknowledgement.
    pub const UNACKNOWLEDGED: Self = Self {
        w: Copies::None,
        j: false,
    };
    /// One copy.
    pub const ACKNOWLEDGED: Self = Self {
        w: Copies::AtLeast(1),
        j: false,
    };
    /// One copy that is synced.
    pub const JOURNALED: Self = Self {
        w: Copies::AtLeast(1),
        j: true,
    };

    /// Parses `w` and `j` as a client spells them.
    ///
    /// # Errors
    /// [`Error::Invalid`] when `w` is neither a number nor `majority`.
    pub fn parse(w: Option<&str>, j: Option<bool>) -> Result<Self> {
        let w = match w.unwrap_or("1") {
            "0" => Copies::None,
            "majority" => Copies::Majority,
            number => Copies::AtLeast(number.parse().map_err(|_| {
                Error::invalid(format!(
                    "w={number:?} is not a write concern; use 0, 1 or majority"
                ))
            })?),
        };
        Ok(Self {
            w,
            j: j.unwrap_or(false),
        })
    }
}

/// The durability that a store gives: the meaning of an acknowledgement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Durability {
    /// Not acknowledged: writes in flight may be lost.
    Unacknowledged,
    /// The batch is in the journal file and visible; it survives `kill -9`. After a power failure
    /// at most the writes since the last finished sync are missing, always a suffix.
    Written,
    /// The batch is in the synced journal; it survives a power failure.
    Synced,
}

impl Durability {
    /// Returns what a store on one node gives for a concern. A majority of one is one copy, and
    /// synced; `w=0` with `j=true` counts as `w=1, j=true`, as in MongoDB.
    ///
    /// # Errors
    /// [`Error::Invalid`] when the client asks for more copies than one: a write concern is never
    /// downgraded.
    pub fn of_one_node(concern: WriteConcern) -> Result<Self> {
        match concern.w {
            Copies::Majority => Ok(Self::Synced),
            Copies::AtLeast(n) if n > 1 => Err(Error::invalid(format!(
                "w={n} needs {n} nodes and this store has one; ask for w=1 or w=majority"
            ))),
            _ if concern.j => Ok(Self::Synced),
            Copies::None | Copies::AtLeast(0) => Ok(Self::Unacknowledged),
            Copies::AtLeast(_) => Ok(Self::Written),
        }
    }
}

impl Default for WriteConcern {
    fn default() -> Self {
        Self::ACKNOWLEDGED
    }
}
