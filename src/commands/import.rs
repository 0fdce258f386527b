//! `logmill import`: files become batches that name their own byte range, so that the same command
//! after a crash resumes, and after success adds nothing.
//!
//! # Invariants
//! 1. A file is known by its content, not by its path (`import/known.rs`). Standard input has no
//!    identity unless `--source` names one.
//! 2. The ranges of a source follow one another without a gap, and its hash covers them all.
//! 3. A last piece without a line end is taken only when it can no longer become another line
//!    (`import/last_piece.rs`); otherwise it stays in the file for the next import, which is said.

mod detached;
mod interrupt;
mod known;
mod last_piece;
mod sink;
mod source;
mod summary;

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use ingest::{Format, ParseOptions, TimeZone};
use storage::{Clock, Name, SystemClock, WriteConcern};

use super::{Context, Place};
use crate::cli::ImportArgs;
use crate::failure::{FAILED, Failure, QUARANTINED, Result};
use interrupt::Interrupt;
use known::{Known, Origin, Producers};
use sink::{Local, Remote, Sink};
pub(super) use source::input;
use source::{Source, TEXT_BYTES_MAX, shown};
use summary::Summary;

pub(crate) fn zone(name: &str) -> Result<TimeZone> {
    ingest::zone(name).ok_or_else(|| {
        Failure::usage(format!(
            "{name:?} is not an IANA time zone such as Europe/Berlin"
        ))
    })
}

pub(super) fn run(context: &Context, args: &ImportArgs) -> Result<ExitCode> {
    let stream = Name::new(&args.stream).map_err(|e| Failure::usage(format!("--stream: {e}")))?;
    if stream.as_str().starts_with('_') {
        return Err(Failure::usage(
            "--stream: names that begin with _ belong to the store itself",
        ));
    }
    if args.format.as_deref() == Some(detached::FORMAT) {
        let concern = concern(context, args, &stream)?;
        return detached::run(context, args, &stream, concern);
    }
    let options = ParseOptions {
        format: match &args.format {
            Some(format) => format.parse().map_err(Failure::usage)?,
            None => context.config.format(stream.as_str()),
        },
        strict: args.strict,
        site: args.site.clone(),
        tz: args.tz.as_deref().map(zone).transpose()?,
        received_us: SystemClock.now_us(),
        max_future_us: context.config.ingest.max_future.micros(),
        columns_max: context.config.ingest.columns_max,
        selection: context.config.selection(stream.as_str()),
        ..ParseOptions::default()
    };
    check_usage(args)?;
    let concern = concern(context, args, &stream)?;
    // A file that is not there is told before anything is taken.
    for file in args.files.iter().filter(|f| f.as_os_str() != "-") {
        std::fs::metadata(file)
            .map_err(|e| Failure::new(FAILED, format!("{}: {e}", file.display())))?;
    }
    let mut summary = Summary::start();
    let mut import = Import {
        args,
        options: &options,
        interrupt: Interrupt::listen()?,
        files: None,
    };
    let outcome = match &context.place {
        Place::Data(data) => {
            // The command is all that runs here: there is nobody to let go first.
            storage::serve_nobody();
            crate::memory::keep_blocks();
            let store = crate::wiring::open_store(data, &context.config)?;
            let mut sink = Local::new(Arc::new(store), stream, options.clone(), concern);
            let outcome = import.all(&mut sink, &mut summary);
            let closed = sink.close();
            outcome.and_then(|fits| closed.map(|()| fits))
        }
        Place::Server(client) => {
            let mut sink = Remote::new(client.clone(), stream, options.clone(), concern);
            import.all(&mut sink, &mut summary)
        }
    };
    let was_interrupted = import.interrupt.is_set();
    summary.finish(context, &args.stream, was_interrupted)?;
    let fits = outcome?;
    if was_interrupted {
        return Ok(ExitCode::SUCCESS);
    }
    if !fits {
        return Err(Failure::new(
            FAILED,
            "no format fits; everything is kept in quarantine. `logmill parse --explain FILE` shows why; the same import with `--format plain --again` takes each line as it is",
        ));
    }
    if args.strict && summary.quarantined() > 0 {
        return Ok(ExitCode::from(QUARANTINED));
    }
    Ok(ExitCode::SUCCESS)
}

fn check_usage(args: &ImportArgs) -> Result<()> {
    let inputs = args.files.iter().filter(|f| f.as_os_str() == "-").count();
    if inputs > 1 {
        return Err(Failure::usage(
            "- is standard input, which can be read once",
        ));
    }
    if args.source.is_some() && inputs == 0 {
        return Err(Failure::usage(
            "--source names standard input; a file is known by its content",
        ));
    }
    for (option, text) in [("--site", &args.site), ("--source", &args.source)] {
        let bytes = text.as_deref().map_or(0, str::len);
        if bytes > TEXT_BYTES_MAX {
            return Err(Failure::usage(format!(
                "{option} has {bytes} bytes; at most {TEXT_BYTES_MAX} are taken"
            )));
        }
    }
    Ok(())
}

fn concern(context: &Context, args: &ImportArgs, stream: &Name) -> Result<WriteConcern> {
    if args.w.is_none() && !args.journal {
        return context
            .config
            .concern(stream.as_str())
            .map_err(Failure::config);
    }
    WriteConcern::parse(args.w.as_deref(), Some(args.journal)).map_err(Failure::usage)
}

/// State that an import of several sources shares.
struct Import<'a> {
    args: &'a ImportArgs,
    options: &'a ParseOptions,
    interrupt: Interrupt,
    /// Read when the first file comes, and kept up to date from then on.
    files: Option<Producers>,
}

impl Import<'_> {
    /// Imports every file; whether a format was found for each that had lines.
    fn all(&mut self, sink: &mut dyn Sink, summary: &mut Summary) -> Result<bool> {
        let mut fits = true;
        for file in &self.args.files {
            if self.interrupt.is_set() {
                break;
            }
            let source = match self.open(sink, file, summary) {
                Err(_) if self.interrupt.is_set() => break,
                opened => opened.map_err(|e| e.about(&shown(file)))?,
            };
            fits &= source.import(sink, &self.interrupt, summary)?;
        }
        Ok(fits)
    }

    /// Opens a source behind what is known of it.
    fn open(&mut self, sink: &dyn Sink, file: &Path, summary: &mut Summary) -> Result<Source> {
        let args = self.args;
        let is_input = file.as_os_str() == "-";
        let is_plain = !is_input && ingest::Compression::of(file) == ingest::Compression::None;
        let metadata = std::fs::metadata(file).ok().filter(|_| is_plain);
        summary.begin_file(&shown(file), metadata.as_ref().map(std::fs::Metadata::len));
        let site = self.options.site.as_deref().unwrap_or("");
        let known = match (&args.source, is_input) {
            (None, true) => self.interrupt.unless(|| Ok(Known::nothing(input()?)))?,
            (Some(name), true) => {
                let source = self.interrupt.unless(input)?;
                let origin = Origin::input(source, self.interrupt.clone())?;
                let mut inputs = Producers::of_input(sink, &args.stream, site, name)?;
                inputs.find(sink, origin, args.again)?
            }
            (_, false) => {
                let files = match &mut self.files {
                    Some(files) => files,
                    none => none.insert(Producers::of_files(sink, &args.stream, site)?),
                };
                files.find(sink, Origin::File(file.to_owned()), args.again)?
            }
        };
        let format = self.options.format;
        let may_be_values = matches!(format, Format::Auto | Format::Json);
        Ok(Source {
            shown: shown(file),
            known: Known {
                values: known.values && may_be_values,
                ..known
            },
            is_complete: args.complete || metadata.is_none_or(|m| last_piece::is_at_rest(&m)),
            format,
        })
    }
}

#[cfg(test)]
mod tests;
