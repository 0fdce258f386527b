//! Arguments of `logmill cluster`.

use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub(crate) enum ClusterCommand {
    /// The shards with their servers, as one server sees them. Exit status 1: a shard has no
    /// server, or one that cannot store.
    Status,
}
