//! `logmill ship`: follows files and sends their lines to a server, or to a topic of Kafka, each
//! line once.
//!
//! # Invariant
//! The lines of a producer in the store are those of the first `to` bytes of one content, each
//! once, and the store remembers `to` and the hash of these bytes with them, in one journal record.
//! The shipper keeps nothing on its disk. It holds to two rules:
//!
//! 1. It sends bytes from `to` on, and only of a file whose bytes before `to` have this hash. The
//!    server refuses a batch that begins elsewhere, and does not store a repeated one again.
//! 2. A file that begins with the bytes of no producer is sent from its beginning under a new one,
//!    unless it is a copy of a file that is being sent.
//!
//! So neither end may stop at a moment at which a line is lost or doubled: the next shipper reads
//! the files, asks the server, and goes on. An outcome that is not known is found out by sending
//! the same range again. Two shippers of one file are as safe where no two files begin with the
//! same line: one of them is refused, and recognises the file anew. A topic that positions are kept
//! beside is as good as a server (`kafka`), but takes from one shipper alone.
//!
//! # Limits
//! A file is its content. Two files of which one is the whole beginning of the other, on one
//! machine or on several, count as copies until they differ; `--site` distinguishes them. A file
//! that is deleted before it was read is lost with its lines.
//!
//! # Threads
//! One looks at the files, one recognises contents and sends compressed files, and a few send plain
//! ones. Each of these holds one batch at a time, read only when the batch before is taken: a slow
//! server delays reading, and memory is bounded.

mod follow;
mod identify;
#[cfg(feature = "kafka")]
mod kafka;
mod run;
mod seeded;
mod send;
mod sender;
mod server;
mod unit;

use ingest::{Format, Multiline};
use storage::WriteConcern;

pub(crate) use follow::ShipTarget;
#[cfg(feature = "kafka")]
pub(crate) use kafka::KafkaTopic;
pub(crate) use run::run;
pub(crate) use send::Receiver;
pub(crate) use server::Server;
pub(crate) use unit::unit;

/// The options of a shipper.
#[derive(Debug, Clone)]
pub(crate) struct ShipOptions {
    pub(crate) targets: Vec<ShipTarget>,
    pub(crate) stream: String,
    /// Without one, the server uses the format that it has configured for the stream.
    pub(crate) format: Option<Format>,
    /// The rule by which lines are records.
    pub(crate) multiline: Option<Multiline>,
    pub(crate) site: Option<String>,
    /// Name of a time zone.
    pub(crate) tz: Option<String>,
    pub(crate) concern: WriteConcern,
    /// Files that are there at the first start begin at their ends.
    pub(crate) from_end: bool,
    /// Send what is there and end.
    pub(crate) once: bool,
}

/// A topic to ship to, as the command line names it.
#[derive(Debug, Clone)]
#[cfg_attr(not(feature = "kafka"), allow(dead_code, reason = "it is refused"))]
pub(crate) struct KafkaTarget {
    /// Some brokers of the cluster, `HOST:PORT` each, with commas between them.
    pub(crate) brokers: String,
    pub(crate) topic: String,
    /// The compacted topic of the positions.
    pub(crate) positions: String,
    /// The name of the shipper: of all that ship to the topic, it is the only one with it.
    pub(crate) shipper: String,
    /// Options of librdkafka, one to a line.
    pub(crate) options: String,
}

#[cfg(test)]
mod tests;
