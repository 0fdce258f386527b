//! Arguments of `logmill sql`.

use std::path::PathBuf;

use clap::Args;

#[derive(Debug, Args)]
pub(crate) struct SqlArgs {
    /// The query. Without one and without -f, statements are read from standard input; a terminal
    /// gets an interactive session, in which \? lists the commands.
    pub(crate) query: Option<String>,
    /// Run the statements of this file in order, or with - those of standard input, and stop at
    /// the first error.
    #[arg(
        short = 'f',
        long = "file",
        value_name = "FILE",
        conflicts_with = "query"
    )]
    pub(crate) file: Option<PathBuf>,
    /// Print what answered the query and how much was read, instead of the rows.
    #[arg(long)]
    pub(crate) explain: bool,
    /// The zone in which times without one are read, and in which all times are printed.
    #[arg(long, value_name = "ZONE")]
    pub(crate) tz: Option<String>,
}
