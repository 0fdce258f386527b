//! Arguments of `logmill sql`.

use std::path::PathBuf;

use clap::Args;

#[derive(Debug, Args)]
pub(crate) struct SqlArgs {
    /// The query, or - for statements on standard input. Without a query and without -f, a terminal
    /// gets an interactive session, in which \? lists the commands; otherwise statements are read
    /// from standard input.
    pub(crate) query: Option<String>,
    /// Run the statements of this file in order, or with - those of standard input, and stop at
    /// the first error. A line that begins with a backslash is a command of the session, as \x.
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
    /// The zone in which all times are printed, and in which a TIMESTAMPTZ without one is read. A
    /// TIMESTAMP and a text that are compared with a time are UTC.
    #[arg(long, value_name = "ZONE")]
    pub(crate) tz: Option<String>,
}
