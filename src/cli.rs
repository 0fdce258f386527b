//! The command line, as `--help` prints it.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

/// Logs in, boards out: log lines become typed events, exact rollups and SQL.
#[derive(Debug, Parser)]
#[command(name = "logmill", version, max_term_width = 100)]
pub(crate) struct Cli {
    /// The configuration; ./logmill.toml when it is there.
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// The store's directory.
    #[arg(long, global = true, value_name = "DIR", conflicts_with = "server")]
    pub(crate) data: Option<PathBuf>,
    /// A running server instead of a directory.
    #[arg(long, global = true, value_name = "URL")]
    pub(crate) server: Option<String>,
    /// Format of answers.
    #[arg(long, global = true, value_enum, value_name = "FORM")]
    pub(crate) output: Option<Output>,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    Table,
    Json,
    Ndjson,
    Csv,
    /// Arrow IPC stream: only `sql` writes it, and its help says so.
    #[value(hide = true)]
    Arrow,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Live sample traffic into a temporary store; prints the page's address.
    Demo(DemoArgs),
    /// Serve a store: the page, SQL and ingest over HTTP.
    Serve(ServeArgs),
    /// Import log files; resumes after a crash and adds nothing twice.
    Import(ImportArgs),
    /// Show how the parser reads a file.
    Parse(ParseArgs),
    /// Ask in SQL; `--output arrow` writes an Arrow IPC stream.
    Sql(SqlArgs),
    /// The events of one host on one date.
    Slice(SliceArgs),
    /// Events as they come.
    Tail(TailArgs),
    /// Rollups: status, run, verify.
    #[command(subcommand)]
    Rollup(RollupCommand),
    /// Streams and their columns.
    #[command(subcommand)]
    Stream(StreamCommand),
    /// Time partitions.
    #[command(subcommand)]
    Partition(PartitionCommand),
    /// Indexes of columns, and the order of streams.
    #[command(subcommand)]
    Index(IndexCommand),
    /// Lines that could not be parsed.
    #[command(subcommand)]
    Quarantine(QuarantineCommand),
    /// Read everything; verify every checksum and invariant, and the rollups.
    Check(CheckArgs),
    /// Give up what is damaged, say what that was and keep the evidence.
    Repair(RepairArgs),
    /// A second store with everything acknowledged so far, of a running one too; open it to
    /// restore.
    Backup(BackupArgs),
    /// The configuration.
    #[command(subcommand)]
    Config(ConfigCommand),
}

#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// Where to answer HTTP.
    #[arg(long, value_name = "ADDR")]
    pub(crate) http: Option<String>,
    /// Events per second, on average over the day.
    #[arg(long, default_value_t = 4)]
    pub(crate) rate: u32,
    /// Stop after this many seconds.
    #[arg(long, value_name = "SECONDS")]
    pub(crate) seconds: Option<u64>,
    /// Write generated lines of fixed days to this file (or -) instead of serving.
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// Lines to write.
    #[arg(long, requires = "out", default_value_t = 1_000_000)]
    pub(crate) lines: u64,
    /// Days that they cover, from Monday 2026-11-02.
    #[arg(long, requires = "out", default_value_t = 14)]
    pub(crate) days: u32,
    /// Clients among which they are drawn.
    #[arg(long, requires = "out", default_value_t = 100_000)]
    pub(crate) hosts: u32,
    /// Pages among which they are drawn.
    #[arg(long, requires = "out", default_value_t = 50_000)]
    pub(crate) paths: u32,
    /// Share of lines that are late by up to two hours.
    #[arg(long, requires = "out", default_value_t = 0.0005)]
    pub(crate) late: f64,
    /// The same seed gives the same bytes.
    #[arg(long, requires = "out", default_value_t = 42)]
    pub(crate) seed: u64,
    /// First day, seconds since 1970.
    #[arg(long, requires = "out", value_name = "SECONDS")]
    pub(crate) start: Option<i64>,
}

#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// The store's directory.
    pub(crate) data_dir: Option<PathBuf>,
    /// Where to answer HTTP.
    #[arg(long, value_name = "ADDR")]
    pub(crate) http: Option<String>,
    /// Answer queries about the store as it is now and write nothing: on a full disk, on read-only
    /// media, or in another user's store.
    #[arg(long)]
    pub(crate) read_only: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ImportArgs {
    /// Files, or - for standard input; .gz .zst .bz2 .xz are decompressed, standard input too. A
    /// file is known by its content, whatever its name. With --format logmill the folders of
    /// partitions that another store has detached.
    #[arg(required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// The stream that gets the events.
    #[arg(long)]
    pub(crate) stream: String,
    /// auto, common, combined, vhost_combined, json, plain or logmill.
    #[arg(long)]
    pub(crate) format: Option<String>,
    /// The column `site` of events whose format has none.
    #[arg(long)]
    pub(crate) site: Option<String>,
    /// 0, 1 or majority.
    #[arg(long)]
    pub(crate) w: Option<String>,
    /// Wait until each batch is synced in the journal.
    #[arg(long)]
    pub(crate) journal: bool,
    /// The zone of stamps without one.
    #[arg(long, value_name = "ZONE")]
    pub(crate) tz: Option<String>,
    /// The year of stamps without one (for formats that have none; those here all do).
    #[arg(long, hide = true)]
    pub(crate) year: Option<i32>,
    /// Whole lines only; ends with 3 when something was quarantined.
    #[arg(long)]
    pub(crate) strict: bool,
    /// Import anew what was imported before.
    #[arg(long)]
    pub(crate) again: bool,
    /// Gives standard input an identity, so that the same input again adds nothing and one that has
    /// grown adds its new lines.
    #[arg(long, value_name = "NAME")]
    pub(crate) source: Option<String>,
    /// The files are not written any more: take a last line that has no line end, whatever it is.
    #[arg(long)]
    pub(crate) complete: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ParseArgs {
    /// The file, or - for standard input.
    pub(crate) file: PathBuf,
    /// Say which format was found and why, fields and types, and the first bad line.
    #[arg(long)]
    pub(crate) explain: bool,
    /// auto, common, combined, vhost_combined, json or plain.
    #[arg(long, default_value = "auto")]
    pub(crate) format: String,
    /// The zone of stamps without one.
    #[arg(long, value_name = "ZONE")]
    pub(crate) tz: Option<String>,
    /// Whole lines only.
    #[arg(long)]
    pub(crate) strict: bool,
}

#[derive(Debug, Args)]
pub(crate) struct SqlArgs {
    /// The query.
    pub(crate) query: String,
    /// Say what answered it and what was looked at instead of the rows.
    #[arg(long)]
    pub(crate) explain: bool,
}

#[derive(Debug, Args)]
pub(crate) struct SliceArgs {
    /// The host as logged.
    #[arg(long)]
    pub(crate) host: String,
    /// The day, as 2000-10-10.
    #[arg(long)]
    pub(crate) date: String,
    /// The path as logged.
    #[arg(long)]
    pub(crate) path: Option<String>,
    /// 404, 5xx or 500..599.
    #[arg(long)]
    pub(crate) status: Option<String>,
    /// The stream; not needed while there is one access log.
    #[arg(long)]
    pub(crate) stream: Option<String>,
    /// The zone of the day, and of the times in a table.
    #[arg(long, value_name = "ZONE")]
    pub(crate) tz: Option<String>,
    /// So many of the newest events; a table shows 50 when this is not given, other forms all.
    #[arg(long, value_name = "ROWS")]
    pub(crate) limit: Option<u64>,
}

#[derive(Debug, Args)]
pub(crate) struct TailArgs {
    /// The stream; not needed while there is one.
    #[arg(long)]
    pub(crate) stream: Option<String>,
    /// Only events for which this holds, as in `status >= 500`.
    #[arg(long = "where", value_name = "CONDITION")]
    pub(crate) condition: Option<String>,
    /// Show so many of the last events first, up to 1000.
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub(crate) last: usize,
}

#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// The store's directory.
    pub(crate) data_dir: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct RepairArgs {
    /// The store's directory.
    pub(crate) data_dir: Option<PathBuf>,
    /// Discard damaged data for good.
    #[arg(long)]
    pub(crate) accept_loss: bool,
}

#[derive(Debug, Args)]
pub(crate) struct BackupArgs {
    /// Where it is made: a directory that is empty or not there yet, best on the store's disk,
    /// where
    /// files are linked instead of copied. What is detached comes along where its folder is there.
    #[arg(value_name = "DIR")]
    pub(crate) dir: PathBuf,
}

#[derive(Debug, Subcommand)]
pub(crate) enum RollupCommand {
    /// `last_run`, events waiting, rows and bytes of every level.
    Status,
    /// Seal now, which feeds every rollup, and apply the retention of their levels.
    Run,
    /// Recompute from the raw events and compare; ask random questions with rollups and without.
    Verify {
        /// The rollup; all of them without it.
        name: Option<String>,
        /// Only this share of the days, chosen at random: 0.1.
        #[arg(long, value_name = "SHARE")]
        sample: Option<f64>,
        /// Number of random questions to ask.
        #[arg(long, value_name = "N", default_value_t = crate::verification::QUESTIONS)]
        questions: u64,
    },
    /// Make a range again from the raw events, where all of them are there.
    Rebuild {
        /// The rollup.
        name: String,
        /// From this date on: 2000-10, 2000-10-10 or 2000-10-10T13.
        #[arg(long, value_name = "DATE")]
        from: String,
        /// To before this date. Whole partitions of each level are made again.
        #[arg(long, value_name = "DATE")]
        to: String,
    },
    /// Merge tiles until nothing is left to merge; a running store does so little by little.
    Compact,
    /// Give up a rollup that the configuration does not have any more, with all that it has
    /// counted.
    Drop {
        /// The rollup.
        name: String,
    },
    /// Count a rollup anew by the definition that the configuration has now.
    Redefine {
        /// The rollup.
        name: String,
        /// Also where raw events were dropped or are detached: what only the present definition has
        /// counted of them is forgotten.
        #[arg(long)]
        accept_loss: bool,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum StreamCommand {
    /// Streams with their events and bytes.
    List,
    /// The fields of a stream: types, how many events have them, when they came, what else is under
    /// their names.
    Schema {
        /// The stream.
        name: String,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum PartitionCommand {
    /// The partitions of a stream, or of all.
    List {
        /// The stream.
        name: Option<String>,
    },
    /// Drop the raw events of partitions; the rollups keep counting them.
    Drop {
        /// The stream.
        name: String,
        /// 2000-10-10, 2000-10, 2000-10-10T13, or FROM..TO without TO itself.
        #[arg(value_name = "DATE|FROM..TO")]
        date: String,
        /// Only say what would go.
        #[arg(long)]
        dry_run: bool,
    },
    /// Move the raw events of partitions into DIR/detached; the rollups keep counting them.
    Detach {
        /// The stream.
        name: String,
        /// 2000-10-10, 2000-10, 2000-10-10T13, or FROM..TO without TO itself.
        #[arg(value_name = "DATE|FROM..TO")]
        date: String,
        /// Only say what would go.
        #[arg(long)]
        dry_run: bool,
    },
    /// Bring back partitions that were detached.
    Attach {
        /// The stream.
        name: String,
        /// 2000-10-10, 2000-10, 2000-10-10T13, or FROM..TO without TO itself.
        #[arg(value_name = "DATE|FROM..TO")]
        date: String,
    },
    /// Drop what is beyond the retention of a stream, or of all; a running store does so by itself.
    Retain {
        /// The stream.
        name: Option<String>,
        /// Only say what would go, and why.
        #[arg(long)]
        dry_run: bool,
    },
    /// Merge parts until nothing is left to merge; a running store does so little by little.
    Compact {
        /// The stream; all of them without it.
        name: Option<String>,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum IndexCommand {
    /// List indexes with their cost in memory and on disk, and their last use.
    List {
        /// The stream; all of them without it.
        name: Option<String>,
    },
    /// Index columns, so that the events of one path or one user are found without a scan; a
    /// running
    /// server makes indexes in the background.
    Create {
        /// The stream.
        name: String,
        /// Columns of texts or integers, an index for each.
        #[arg(required = true, value_name = "FIELD")]
        fields: Vec<String>,
        /// With the rows themselves, in the order of the column: as much again as the parts take,
        /// and the
        /// thousands of rows of a value are read as quickly as a few.
        #[arg(long)]
        covering: bool,
    },
    /// Give up indexes; no event is touched.
    Drop {
        /// The stream.
        name: String,
        /// Their columns.
        #[arg(required = true, value_name = "FIELD")]
        fields: Vec<String>,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum QuarantineCommand {
    /// Counts by stream and reason, with the newest example.
    List {
        #[command(flatten)]
        which: QuarantineChoice,
    },
    /// One item: where reading stopped, and what its format makes of it today.
    Explain {
        /// Its sequence number; the newest that waits without it.
        #[arg(conflicts_with_all = ["stream", "reason"])]
        seq: Option<u64>,
        #[command(flatten)]
        which: QuarantineChoice,
        #[command(flatten)]
        reading: QuarantineReading,
    },
    /// Parse what waits again; what parses becomes events, once and for ever.
    Replay {
        #[command(flatten)]
        which: QuarantineChoice,
        #[command(flatten)]
        reading: QuarantineReading,
        /// Only say what would become of it.
        #[arg(long)]
        dry_run: bool,
    },
    /// Give up what waits.
    Drop {
        #[command(flatten)]
        which: QuarantineChoice,
        /// Only what came before this date: 2000-10, 2000-10-10 or 2000-10-10T13.
        #[arg(long, value_name = "DATE")]
        before: Option<String>,
        /// Only say how much would go.
        #[arg(long)]
        dry_run: bool,
    },
}

/// Which items of the quarantine.
#[derive(Debug, Args)]
pub(crate) struct QuarantineChoice {
    /// Only those of this stream.
    #[arg(long)]
    pub(crate) stream: Option<String>,
    /// Only those of this reason, as `quarantine list` spells it.
    #[arg(long)]
    pub(crate) reason: Option<String>,
}

/// Reading of the items; by default as their stream is configured today.
#[derive(Debug, Args)]
pub(crate) struct QuarantineReading {
    /// auto, common, combined, vhost_combined, json or plain.
    #[arg(long)]
    pub(crate) format: Option<String>,
    /// The zone of stamps without one.
    #[arg(long, value_name = "ZONE")]
    pub(crate) tz: Option<String>,
    /// The column `site` of events whose format has none.
    #[arg(long)]
    pub(crate) site: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Show the values in force.
    Show {
        /// Say where each value came from.
        #[arg(long)]
        origin: bool,
    },
}
