//! The command line, as `--help` prints it.

mod accounts;
mod cluster;
mod grafana;
mod index;
mod serve;
mod ship;
mod shippers;
mod sql;
mod stream;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

pub(crate) use accounts::{GrantArgs, PasswordArgs, TlsCommand, TokenCommand, UserCommand};
pub(crate) use cluster::ClusterCommand;
pub(crate) use grafana::{GrafanaArgs, LatencyUnit};
pub(crate) use index::IndexCommand;
pub(crate) use serve::ServeArgs;
pub(crate) use ship::ShipArgs;
pub(crate) use sql::SqlArgs;
pub(crate) use stream::StreamCommand;

/// Logs in, boards out: log lines become typed events, exact rollups and SQL.
#[derive(Debug, Parser)]
#[command(name = "logmill", version, max_term_width = 100)]
pub(crate) struct Cli {
    /// The configuration file; by default ./logmill.toml if it exists.
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// The store's directory.
    #[arg(long, global = true, value_name = "DIR", conflicts_with = "server")]
    pub(crate) data: Option<PathBuf>,
    /// The URL of a running server, instead of a directory.
    #[arg(long, global = true, value_name = "URL")]
    pub(crate) server: Option<String>,
    /// A file with the token for the server; or set LOGMILL_TOKEN.
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// A certificate in PEM that an https server is trusted by, instead of the public authorities.
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) ca_file: Option<PathBuf>,
    /// Output format.
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
    /// Serve a temporary store with live sample traffic; prints the page's address.
    Demo(DemoArgs),
    /// Serve a store: the page, SQL and ingest over HTTP.
    Serve(ServeArgs),
    /// Import log files; resumes after a crash and adds nothing twice.
    Import(ImportArgs),
    /// Follow log files and send their lines to a server, each once.
    Ship(ShipArgs),
    /// Show how the parser reads a file.
    Parse(ParseArgs),
    /// Run SQL: one statement, a file of them, or an interactive session; `--output arrow` writes
    /// an Arrow IPC stream.
    Sql(SqlArgs),
    /// Show the events of one host on one date.
    Slice(SliceArgs),
    /// Follow the new events of a stream.
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
    /// Erase the events that pass a condition, from raw events and rollups alike.
    Erase(EraseArgs),
    /// Indexes of columns, and the order of streams.
    #[command(subcommand)]
    Index(IndexCommand),
    /// Quarantined items: lines that could not be parsed.
    #[command(subcommand)]
    Quarantine(QuarantineCommand),
    /// Read everything; verify every checksum and invariant, and the rollups.
    Check(CheckArgs),
    /// Discard damaged data, report the loss and keep copies of the damaged files.
    Repair(RepairArgs),
    /// Make a second store with everything acknowledged so far, even of a running store; open it to
    /// restore.
    Backup(BackupArgs),
    /// Write the files by which Grafana shows a store: data sources, dashboards, alert rules.
    Grafana(GrafanaArgs),
    /// Users, who log in with a password. A store with users or tokens asks every client for one.
    #[command(subcommand)]
    User(UserCommand),
    /// Tokens, with which programs log in.
    #[command(subcommand)]
    Token(TokenCommand),
    /// Certificates.
    #[command(subcommand)]
    Tls(TlsCommand),
    /// The shards of a cluster and their servers.
    #[command(subcommand)]
    Cluster(ClusterCommand),
    /// The configuration.
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Write the script by which a shell completes this command line.
    Completions(CompletionsArgs),
}

#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// The address to serve HTTP at.
    #[arg(long, value_name = "ADDR")]
    pub(crate) http: Option<String>,
    /// The address for PostgreSQL clients, or off.
    #[arg(long, value_name = "ADDR")]
    pub(crate) postgres: Option<String>,
    /// Events per second, on average over the day.
    #[arg(long, default_value_t = 4)]
    pub(crate) rate: u32,
    /// Stop after this many seconds.
    #[arg(long, value_name = "SECONDS")]
    pub(crate) seconds: Option<u64>,
    /// Write generated lines of fixed days to this file (or -) instead of serving.
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// Number of lines to write.
    #[arg(long, requires = "out", default_value_t = 1_000_000)]
    pub(crate) lines: u64,
    /// Number of days that the lines cover, from Monday 2026-11-02.
    #[arg(long, requires = "out", default_value_t = 14)]
    pub(crate) days: u32,
    /// Number of clients that the lines are drawn from.
    #[arg(long, requires = "out", default_value_t = 100_000)]
    pub(crate) hosts: u32,
    /// Number of pages that the lines are drawn from.
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
pub(crate) struct ImportArgs {
    /// Files, folders, patterns in quotes, or - for standard input; .gz .zst .bz2 .xz are
    /// decompressed, standard input too. A file is identified by its content, not by its name. With
    /// --format logmill: the folders of partitions that another store has detached.
    #[arg(required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// The stream to import into.
    #[arg(long)]
    pub(crate) stream: String,
    /// auto, common, combined, vhost_combined, json, plain, logfmt, syslog, nginx_error,
    /// apache_error, apache:LOGFORMAT, nginx:LOG_FORMAT, regex:EXPRESSION or logmill.
    #[arg(long)]
    pub(crate) format: Option<String>,
    /// Lines that are one record, as of stack traces: `indent` (a line that begins with a blank
    /// belongs to the record before it) or `start:EXPRESSION` (a record begins where it matches).
    #[arg(long, value_name = "RULE")]
    pub(crate) multiline: Option<String>,
    /// The value of column `site` for events whose format has no site.
    #[arg(long)]
    pub(crate) site: Option<String>,
    /// The write concern: 0, 1 or majority.
    #[arg(long)]
    pub(crate) w: Option<String>,
    /// Wait until each batch is synced in the journal.
    #[arg(long)]
    pub(crate) journal: bool,
    /// The time zone of timestamps without one.
    #[arg(long, value_name = "ZONE")]
    pub(crate) tz: Option<String>,
    /// The year of timestamps without one, as of syslog; by default that of the last such day.
    #[arg(long)]
    pub(crate) year: Option<i16>,
    /// Quarantine lines with extra text after their format; exit with 3 if any line is quarantined.
    #[arg(long)]
    pub(crate) strict: bool,
    /// Import files again that were imported before.
    #[arg(long)]
    pub(crate) again: bool,
    /// Gives standard input an identity, so that the same input again adds nothing and one that has
    /// grown adds its new lines.
    #[arg(long, value_name = "NAME")]
    pub(crate) source: Option<String>,
    /// Leave out files that were last changed before a date, as 2026-01-31, or a time that has
    /// passed, as 90d. Of the others every line is taken.
    #[arg(long, value_name = "TIME")]
    pub(crate) since: Option<String>,
    /// The files will not grow any more: import a last line that has no line end, too.
    #[arg(long)]
    pub(crate) complete: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ParseArgs {
    /// The file, or - for standard input.
    pub(crate) file: PathBuf,
    /// Print the format and the reason for it, fields and types, and the first bad line.
    #[arg(long)]
    pub(crate) explain: bool,
    /// auto, common, combined, vhost_combined, json, plain, logfmt, syslog, nginx_error,
    /// apache_error, apache:LOGFORMAT, nginx:LOG_FORMAT or regex:EXPRESSION.
    #[arg(long, default_value = "auto")]
    pub(crate) format: String,
    /// Lines that are one record, as of stack traces: `indent` (a line that begins with a blank
    /// belongs to the record before it) or `start:EXPRESSION` (a record begins where it matches).
    #[arg(long, value_name = "RULE")]
    pub(crate) multiline: Option<String>,
    /// The time zone of timestamps without one.
    #[arg(long, value_name = "ZONE")]
    pub(crate) tz: Option<String>,
    /// The year of timestamps without one, as of syslog; by default that of the last such day.
    #[arg(long)]
    pub(crate) year: Option<i16>,
    /// Reject lines with extra text after their format.
    #[arg(long)]
    pub(crate) strict: bool,
}

#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell.
    #[arg(value_enum)]
    pub(crate) shell: clap_complete::Shell,
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
    /// Number of newest events to show; by default 50 in a table, all in other formats.
    #[arg(long, value_name = "ROWS")]
    pub(crate) limit: Option<u64>,
}

#[derive(Debug, Args)]
pub(crate) struct TailArgs {
    /// The stream; not needed while there is one.
    #[arg(long)]
    pub(crate) stream: Option<String>,
    /// Only events that match this SQL condition, such as `status >= 500`.
    #[arg(long = "where", value_name = "CONDITION")]
    pub(crate) condition: Option<String>,
    /// Number of stored events to show first, up to 1000.
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
    /// The backup's directory, empty or not existing yet; best on the store's disk, where files are
    /// linked instead of copied. Detached partitions are included if their folders exist.
    #[arg(value_name = "DIR")]
    pub(crate) dir: PathBuf,
}

#[derive(Debug, Subcommand)]
pub(crate) enum RollupCommand {
    /// `last_run`, events waiting, rows and bytes of every level.
    Status,
    /// Seal now, which updates every rollup, and apply the retention of the levels.
    Run,
    /// Recompute from the raw events and compare; run random questions with and without rollups.
    Verify {
        /// The rollup; by default all of them.
        name: Option<String>,
        /// Only this share of the days, chosen at random: 0.1.
        #[arg(long, value_name = "SHARE")]
        sample: Option<f64>,
        /// Number of random questions to run.
        #[arg(long, value_name = "N", default_value_t = crate::verification::QUESTIONS)]
        questions: u64,
    },
    /// Rebuild a range from the raw events, where all of them still exist.
    Rebuild {
        /// The rollup.
        name: String,
        /// From this date on: 2000-10, 2000-10-10 or 2000-10-10T13.
        #[arg(long, value_name = "DATE")]
        from: String,
        /// Up to but without this date. Whole partitions of each level are rebuilt.
        #[arg(long, value_name = "DATE")]
        to: String,
    },
    /// Merge tiles until nothing is left to merge; a running store does so little by little.
    Compact,
    /// Drop a rollup that is no longer configured, with all its counts.
    Drop {
        /// The rollup.
        name: String,
    },
    /// Recount a rollup by the definition that is configured now.
    Redefine {
        /// The rollup.
        name: String,
        /// Recount even if raw events were dropped or are detached: their counts by the present
        /// definition are lost.
        #[arg(long)]
        accept_loss: bool,
    },
}

#[derive(Debug, Args)]
pub(crate) struct EraseArgs {
    /// The stream; may be left out if there is only one.
    #[arg(long, value_name = "NAME")]
    pub(crate) stream: Option<String>,
    /// The condition, such as "host = '203.0.113.7'"; - reads it from standard input, where no
    /// other user of the machine sees it.
    #[arg(long = "where", value_name = "CONDITION")]
    pub(crate) condition: String,
    /// Only count the events.
    #[arg(long)]
    pub(crate) dry_run: bool,
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
        /// Print the partitions and change nothing.
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
        /// Print the partitions and change nothing.
        #[arg(long)]
        dry_run: bool,
    },
    /// Bring detached partitions back into the store.
    Attach {
        /// The stream.
        name: String,
        /// 2000-10-10, 2000-10, 2000-10-10T13, or FROM..TO without TO itself.
        #[arg(value_name = "DATE|FROM..TO")]
        date: String,
    },
    /// Drop partitions beyond the retention of a stream or of all; a running store does so itself.
    Retain {
        /// The stream.
        name: Option<String>,
        /// Print the partitions and the reasons, and change nothing.
        #[arg(long)]
        dry_run: bool,
    },
    /// Merge parts until nothing is left to merge; a running store does so little by little.
    Compact {
        /// The stream; by default all of them.
        name: Option<String>,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum QuarantineCommand {
    /// Counts by stream and reason, with the newest example.
    List {
        #[command(flatten)]
        which: QuarantineChoice,
    },
    /// Show one item: where parsing stopped, and how its format parses it today.
    Explain {
        /// The item's sequence number; by default the newest waiting item.
        #[arg(conflicts_with_all = ["stream", "reason"])]
        seq: Option<u64>,
        #[command(flatten)]
        which: QuarantineChoice,
        #[command(flatten)]
        reading: QuarantineReading,
    },
    /// Parse waiting items again; those that parse become events, exactly once.
    Replay {
        #[command(flatten)]
        which: QuarantineChoice,
        #[command(flatten)]
        reading: QuarantineReading,
        /// Print the outcome and change nothing.
        #[arg(long)]
        dry_run: bool,
    },
    /// Discard waiting items.
    Drop {
        #[command(flatten)]
        which: QuarantineChoice,
        /// Only items received before this date: 2000-10, 2000-10-10 or 2000-10-10T13.
        #[arg(long, value_name = "DATE")]
        before: Option<String>,
        /// Print the number of items and change nothing.
        #[arg(long)]
        dry_run: bool,
    },
}

/// Which items of the quarantine.
#[derive(Debug, Args)]
pub(crate) struct QuarantineChoice {
    /// Only items of this stream.
    #[arg(long)]
    pub(crate) stream: Option<String>,
    /// Only items with this reason, as `quarantine list` spells it.
    #[arg(long)]
    pub(crate) reason: Option<String>,
}

/// Reading of the items; by default as their stream is configured today.
#[derive(Debug, Args)]
pub(crate) struct QuarantineReading {
    /// auto, common, combined, vhost_combined, json, plain, logfmt, syslog, nginx_error,
    /// apache_error, apache:LOGFORMAT, nginx:LOG_FORMAT or regex:EXPRESSION.
    #[arg(long)]
    pub(crate) format: Option<String>,
    /// The time zone of timestamps without one.
    #[arg(long, value_name = "ZONE")]
    pub(crate) tz: Option<String>,
    /// The value of column `site` for events whose format has no site.
    #[arg(long)]
    pub(crate) site: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Show the values in force.
    Show {
        /// Print where each value came from.
        #[arg(long)]
        origin: bool,
    },
}
