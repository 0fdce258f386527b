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
    #[arg(long, required_unless_present = "kafka")]
    pub(crate) stream: Option<String>,
    /// Send to a topic of Kafka instead of a server: some brokers of the cluster.
    #[arg(long, value_name = "HOST:PORT,…", requires = "topic", conflicts_with_all = ["stream", "format", "tz", "w", "journal"])]
    pub(crate) kafka: Option<String>,
    /// The topic to send to. Each line is a record, with the headers `source` and `line`.
    #[arg(long, requires = "kafka")]
    pub(crate) topic: Option<String>,
    /// A compacted topic that keeps how far each file was sent; by default TOPIC.positions. It is
    /// created if it does not exist.
    #[arg(long, value_name = "TOPIC", requires = "kafka")]
    pub(crate) positions: Option<String>,
    /// A file of options of librdkafka, one NAME=VALUE to a line, as for TLS and SASL.
    #[arg(long, value_name = "FILE", requires = "kafka")]
    pub(crate) kafka_options: Option<PathBuf>,
    /// The format, as of `import`; by default the one that the server has configured for the
    /// stream.
    #[arg(long)]
    pub(crate) format: Option<String>,
    /// Lines that are one record, as of stack traces: `indent` (a line that begins with a blank
    /// belongs to the record before it) or `start:EXPRESSION` (a record begins where it matches).
    #[arg(long, value_name = "RULE")]
    pub(crate) multiline: Option<String>,
    /// The value of column `site` for events whose format has no site; distinguishes files of equal
    /// content. With --kafka the name of this shipper, by default that of the machine: no two
    /// shippers of a topic may have the same.
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
