//! Arguments of `logmill ship`.

use std::path::PathBuf;

use clap::Args;

#[derive(Debug, Args)]
pub(crate) struct ShipArgs {
    /// Files, folders, and patterns with * and ? in quotes. A file stands for its rotated files,
    /// too (access.log.1, access.log-20261126.gz), a folder for the files in it. New files are
    /// found; known ones are recognised by their content, compressed ones too.
    #[arg(required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// The stream to send to.
    #[arg(long)]
    pub(crate) stream: String,
    /// The format, as of `import`; by default the one that the server has configured for the
    /// stream.
    #[arg(long)]
    pub(crate) format: Option<String>,
    /// Lines that are one record, as of stack traces: `indent` (a line that begins with a blank
    /// belongs to the record before it) or `start:EXPRESSION` (a record begins where it matches).
    #[arg(long, value_name = "RULE")]
    pub(crate) multiline: Option<String>,
    /// The value of column `site` for events whose format has no site; distinguishes files of equal
    /// content.
    #[arg(long)]
    pub(crate) site: Option<String>,
    /// The write concern: 1 or majority.
    #[arg(long)]
    pub(crate) w: Option<String>,
    /// Wait until each batch is synced in the server's journal: then not even a power failure loses
    /// lines of files that are deleted.
    #[arg(long)]
    pub(crate) journal: bool,
    /// The time zone of timestamps without one.
    #[arg(long, value_name = "ZONE")]
    pub(crate) tz: Option<String>,
    /// Send files from their beginnings; this is the default.
    #[arg(long, conflicts_with = "from_end")]
    pub(crate) from_beginning: bool,
    /// At the first start, pass over the lines that are there. Files that come later are sent from
    /// their beginnings.
    #[arg(long)]
    pub(crate) from_end: bool,
    /// Send the lines that are there, then end.
    #[arg(long)]
    pub(crate) once: bool,
    /// Print a unit file by which systemd runs this command, and do nothing else.
    #[arg(long)]
    pub(crate) print_unit: bool,
}
