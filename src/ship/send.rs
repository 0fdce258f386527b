//! Sending: batches, their outcome, and the pauses between attempts.

mod backoff;
mod counts;
mod link;
mod step;

pub(crate) use counts::ShipCounts;
pub(crate) use link::{BatchOutcome, Ended, Link, RangeBatch, Receiver, Trouble};
pub(crate) use step::{FileEnd, NextCut, NextLines, cut, hash_into, line_end};
