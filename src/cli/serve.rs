//! `logmill serve`.

use std::path::PathBuf;

use clap::Args;

use super::shippers::ShipperArgs;

#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// The store's directory.
    pub(crate) data_dir: Option<PathBuf>,
    /// The address to serve HTTP at.
    #[arg(long, value_name = "ADDR")]
    pub(crate) http: Option<String>,
    /// The address for PostgreSQL clients, or off.
    #[arg(long, value_name = "ADDR")]
    pub(crate) postgres: Option<String>,
    /// The address for Arrow Flight SQL clients, or off.
    #[arg(long, value_name = "ADDR")]
    pub(crate) flight: Option<String>,
    /// The address for MongoDB clients, or off.
    #[arg(long, value_name = "ADDR", num_args = 0..=1, default_missing_value = "127.0.0.1:27017")]
    pub(crate) mongo: Option<String>,
    #[command(flatten)]
    pub(crate) shippers: ShipperArgs,
    /// The shard to serve, as a part of the node whose directory this is; a node starts it.
    #[arg(long, value_name = "NUMBER", hide = true, conflicts_with_all = ["read_only", "reader"])]
    pub(crate) shard: Option<u16>,
    /// A server whose store takes part in the questions of this one, instead of those in
    /// cluster.peers; may be repeated.
    #[arg(long = "peer", value_name = "URL")]
    pub(crate) peers: Vec<String>,
    /// Listen beyond this machine without TLS: passwords and tokens can be read on the way.
    #[arg(long)]
    pub(crate) insecure_plaintext: bool,
    /// Answer queries about the store as it is now and write nothing: on a full disk, on read-only
    /// media, or in another user's store.
    #[arg(long)]
    pub(crate) read_only: bool,
    /// Answer queries about what is sealed in the object store, objects of [storage], and follow
    /// its writer; the data directory holds nothing but a cache.
    #[arg(long, conflicts_with_all = ["read_only", "take_over"])]
    pub(crate) reader: bool,
    /// Take over a store in the object store whose writer has gone, from an empty data directory.
    /// The events that it had not sealed stay behind, in the journal of its own.
    #[arg(long, conflicts_with = "read_only")]
    pub(crate) take_over: bool,
}
