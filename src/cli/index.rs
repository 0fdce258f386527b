//! Arguments of `logmill index`.

use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub(crate) enum IndexCommand {
    /// List indexes with their cost in memory and on disk, and their last use.
    List {
        /// The stream; by default all of them.
        name: Option<String>,
    },
    /// Index columns, so that the events of one path or one user are found without a scan; a
    /// running server builds indexes in the background.
    Create {
        /// The stream.
        name: String,
        /// Text or integer columns; each gets its own index.
        #[arg(required = true, value_name = "FIELD")]
        fields: Vec<String>,
        /// Store the rows themselves in the order of the column: the index is as large as the
        /// parts, and thousands of rows of a value are read as quickly as a few.
        #[arg(long)]
        covering: bool,
    },
    /// Drop indexes; events are not affected.
    Drop {
        /// The stream.
        name: String,
        /// The columns whose indexes are dropped.
        #[arg(required = true, value_name = "FIELD")]
        fields: Vec<String>,
    },
}
