//! Arguments of `logmill stream`.

use clap::Subcommand;
use storage::ShardKey;

#[derive(Debug, Subcommand)]
pub(crate) enum StreamCommand {
    /// Streams with their events and bytes.
    List,
    /// The fields of a stream: types, share of events that have them, when each was first seen, and
    /// values of other types under the same name.
    Schema {
        /// The stream.
        name: String,
    },
    /// The keys by which a cluster could divide a stream, each with its effects on the stream's
    /// newest day, and the one that is advised.
    SuggestShardKey {
        /// The stream.
        name: String,
        /// The number of shards.
        #[arg(long, value_name = "N")]
        shards: u16,
        /// One more key to measure: `batch`, `time`, fields as `site,path`, or with a salt
        /// "path + hash" or "path + hash if hot"; may be repeated.
        #[arg(long = "key", value_name = "KEY")]
        keys: Vec<ShardKey>,
    },
}
