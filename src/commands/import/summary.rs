//! Report of an import: the counts, lines = accepted + quarantined + empty + skipped, then the
//! formats that were found, the place of the store, and the next command.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Instant;

use ingest::{Detection, Format, RunnerUp};
use serde::Serialize;
use storage::Ack;

use super::files::InputFiles;
use super::import_progress::ImportProgress;
use crate::cli::Output;
use crate::commands::{Context, Place};
use crate::failure::{Result, tell};
use crate::units::grouped;

#[derive(Debug, Clone, Default, Serialize)]
struct Figures {
    lines: u64,
    accepted: u64,
    quarantined: u64,
    quarantined_by_reason: BTreeMap<String, u64>,
    empty: u64,
    skipped: u64,
    bytes: u64,
    seconds: f64,
    events_per_second: f64,
    /// The formats of new content.
    formats: BTreeSet<String>,
    /// Of the formats that `auto` chose: lines of the samples, and those of them that fit.
    detected: BTreeMap<String, Detected>,
    /// Bytes of last lines without a line end that stay in their files for the next import.
    unfinished_bytes: u64,
    /// Files left out because they were last changed before `--since`.
    files_older: u64,
    /// A signal ended the import: the same command takes the rest.
    interrupted: bool,
}

/// Sureness of `auto` of a format, over all sources in which it chose it.
#[derive(Debug, Clone, Default, Serialize)]
struct Detected {
    /// Lines of the samples.
    lines: u64,
    /// Lines of the samples that are in the format.
    fit: u64,
    /// Of other formats: the most lines of one sample that are in one.
    runner_up: Option<RunnerUp>,
}

/// Counts while an import runs.
#[derive(Debug)]
pub(crate) struct Summary {
    figures: Figures,
    file_start: Figures,
    started: Instant,
    progress: ImportProgress,
    /// Files that were known to their end, and files in all.
    files: u64,
    files_known: u64,
    /// Files with an unfinished last line, and its bytes.
    unfinished: Vec<(String, u64)>,
}

impl Summary {
    pub(super) fn start() -> Self {
        Self {
            figures: Figures::default(),
            file_start: Figures::default(),
            started: Instant::now(),
            progress: ImportProgress::new(),
            files: 0,
            files_known: 0,
            unfinished: Vec::new(),
        }
    }

    /// Notes the files to come.
    pub(super) fn expect(&mut self, inputs: &InputFiles) {
        self.progress.expect(inputs.files.len(), inputs.bytes());
        self.figures.files_older = inputs.older;
    }

    /// Notes the folders to come.
    pub(super) fn expect_folders(&mut self, folders: usize, bytes: u64) {
        self.progress.expect(folders, Some(bytes));
    }

    /// Begins a file of so many bytes on disk; its reader counts what it has read in the result.
    pub(super) fn begin_file(&mut self, name: &str, bytes: Option<u64>) -> Arc<AtomicU64> {
        self.end_file();
        self.files += 1;
        self.file_start = self.figures.clone();
        self.progress.begin(name, bytes)
    }

    fn end_file(&mut self) {
        let new = self.figures.lines - self.file_start.lines;
        let skipped = self.figures.skipped - self.file_start.skipped;
        if self.files > 0 && new > 0 && new == skipped {
            self.files_known += 1;
        }
    }

    /// Counts lines that an earlier import had taken.
    pub(super) fn skip(&mut self, lines: u64, bytes: u64) {
        self.figures.lines += lines;
        self.figures.skipped += lines;
        self.figures.bytes += bytes;
        self.progress.skip();
    }

    /// Counts the last piece of a file that stays there: it may still become another line.
    pub(super) fn leave(&mut self, file: &str, bytes: u64) {
        self.figures.unfinished_bytes += bytes;
        self.unfinished.push((file.to_owned(), bytes));
    }

    /// Notes the format of a source's new content, if there was one.
    pub(super) fn found(&mut self, format: &Format) {
        if *format != Format::Auto {
            self.figures.formats.insert(format.to_string());
        }
    }

    /// Notes a decision of `auto`.
    pub(super) fn detected(&mut self, detection: &Detection) {
        let Some(format) = &detection.format else {
            return;
        };
        let detected = self.figures.detected.entry(format.to_string()).or_default();
        detected.lines += detection.lines;
        detected.fit += detection.fit;
        let most = detected.runner_up.as_ref().map_or(0, |next| next.lines);
        if let Some(next) = detection
            .runner_up
            .as_ref()
            .filter(|next| next.lines > most)
        {
            detected.runner_up = Some(next.clone());
        }
    }

    pub(super) fn add<'a>(
        &mut self,
        ack: &Ack,
        lines: u64,
        empty: u64,
        bytes: u64,
        reasons: impl IntoIterator<Item = (&'a str, u64)>,
    ) {
        self.figures.lines += lines;
        self.figures.bytes += bytes;
        if ack.duplicate {
            self.figures.skipped += lines;
        } else {
            self.figures.accepted += ack.accepted;
            self.figures.quarantined += ack.quarantined;
            self.figures.empty += empty;
            let by_reason = &mut self.figures.quarantined_by_reason;
            for (reason, count) in reasons {
                *by_reason.entry(reason.to_owned()).or_default() += count;
            }
        }
        self.progress.show(self.figures.lines, self.rate());
    }

    pub(super) fn quarantined(&self) -> u64 {
        self.figures.quarantined
    }

    pub(super) fn file_lines(&self) -> u64 {
        self.figures.lines - self.file_start.lines
    }

    pub(super) fn file_empty_and_skipped(&self) -> u64 {
        self.figures.empty + self.figures.skipped - self.file_start.empty - self.file_start.skipped
    }

    fn rate(&self) -> f64 {
        self.figures.accepted as f64 / self.started.elapsed().as_secs_f64().max(1e-9)
    }

    /// Prints the report.
    pub(super) fn finish(
        &mut self,
        context: &Context,
        stream: &str,
        interrupted: bool,
    ) -> Result<()> {
        self.end_file();
        self.progress.finish();
        self.figures.seconds = self.started.elapsed().as_secs_f64();
        self.figures.events_per_second = self.rate();
        self.figures.interrupted = interrupted;
        let f = &self.figures;
        if matches!(context.output, Some(Output::Json | Output::Ndjson)) {
            println!("{}", serde_json::to_string(f).map_err(anyhow::Error::from)?);
        } else {
            self.print(context, stream);
        }
        for (file, bytes) in &self.unfinished {
            tell(format_args!(
                "{file}: the last {bytes} bytes have no line end and may still grow; they are not imported until they have one, or now with --complete"
            ));
        }
        if interrupted {
            tell(format_args!(
                "interrupted; {} lines are stored. Run the same command again to continue",
                grouped(f.lines)
            ));
        }
        Ok(())
    }

    fn print(&self, context: &Context, stream: &str) {
        let f = &self.figures;
        println!("lines        {:>14}", grouped(f.lines));
        println!("accepted     {:>14}", grouped(f.accepted));
        println!("quarantined  {:>14}", grouped(f.quarantined));
        for (reason, count) in &f.quarantined_by_reason {
            println!("  {reason:<24} {}", grouped(*count));
        }
        println!("empty        {:>14}", grouped(f.empty));
        println!("skipped      {:>14}", grouped(f.skipped));
        println!("bytes        {:>14}", grouped(f.bytes));
        println!("events/s     {:>14}", grouped(f.events_per_second as u64));
        if self.files > 0 && self.files_known == self.files && f.accepted + f.quarantined == 0 {
            println!(
                "nothing new: the content of {} was imported before",
                if self.files == 1 {
                    "this file"
                } else {
                    "these files"
                }
            );
        }
        let (place, option) = match &context.place {
            Place::Data(data) => (
                data.display().to_string(),
                format!("--data {}", data.display()),
            ),
            Place::Server(client) => (
                client.url().to_owned(),
                format!("--server {}", client.url()),
            ),
        };
        if f.files_older > 0 {
            println!("older files  {:>14}", grouped(f.files_older));
        }
        if !f.formats.is_empty() {
            let formats: Vec<&str> = f.formats.iter().map(String::as_str).collect();
            println!("format       {}", formats.join(", "));
        }
        for (format, detected) in &f.detected {
            let Detected {
                lines,
                fit,
                runner_up,
            } = detected;
            let next = runner_up.as_ref().map_or_else(String::new, |next| {
                format!("; the next is {} with {}", next.format, next.lines)
            });
            println!("auto         {format} by {fit} of {lines} lines{next}");
        }
        println!("store        {place}, stream {stream}");
        if f.accepted > 0 {
            println!(
                "next         logmill sql 'SELECT * FROM {stream} ORDER BY time DESC LIMIT 10' {option}"
            );
        } else if f.quarantined > 0 {
            println!("next         logmill quarantine list --stream {stream} {option}");
        }
    }
}
