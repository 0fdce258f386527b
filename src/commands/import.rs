//! `logmill import`: files become batches that name their own byte range, so that the same command
//! after a crash resumes, and after success adds nothing.
//!
//! # Invariants
//! 1. A file is known by its content, not by its path (`src/source_id.rs`). Standard input has no
//!    identity unless `--source` names one.
//! 2. The ranges of a source follow one another without a gap, and its hash covers them all.
//! 3. A last piece without a line end is taken only when it can no longer become another line
//!    (`import/last_piece.rs`); otherwise it stays in the file for the next import, and the import
//!    says so.

mod detached;
mod files;
mod import_progress;
mod last_piece;
mod sink;
mod source;
mod summary;

use std::process::ExitCode;
use std::sync::Arc;

use ingest::ParseOptions;
use storage::{Clock, Durability, Name, SystemClock, WriteConcern};

use super::{Context, Opened, Place};
use crate::cli::ImportArgs;
use crate::failure::{FAILED, Failure, QUARANTINED, Result};
use crate::intake;
use crate::interrupt::Interrupt;
use crate::source_id::{KnownSource, Origin, Producers};
use files::{InputFile, InputFiles};
use sink::{Local, Remote, Sink};
pub(super) use source::input;
use source::{OpenSource, TEXT_BYTES_MAX, shown};
use summary::Summary;

pub(super) fn run(context: &Context, args: &ImportArgs) -> Result<ExitCode> {
    let stream = Name::new(&args.stream).map_err(|e| Failure::usage(format!("--stream: {e}")))?;
    if stream.as_str().starts_with('_') {
        return Err(Failure::usage(
            "--stream: names that begin with _ are reserved",
        ));
    }
    if args.format.as_deref() == Some(detached::FORMAT) {
        let concern = concern(context, args, &stream)?;
        return detached::run(context, args, &stream, concern);
    }
    let options = options(context, args, &stream)?;
    check_usage(args)?;
    let concern = concern(context, args, &stream)?;
    // Every file is found before anything is taken.
    let inputs = InputFiles::find(args)?;
    let mut summary = Summary::start();
    summary.expect(&inputs);
    let mut import = Import {
        args,
        inputs: &inputs.files,
        options: &options,
        interrupt: Interrupt::listen()?,
        files: None,
    };
    if matches!(context.place, Place::Data(_)) {
        // Only the import runs here, so that nothing is in the foreground before it.
        storage::serve_nobody();
        crate::memory::keep_blocks();
    }
    let outcome = match context.open(&context.config)? {
        Opened::Store(_) if context.config.cluster.shards > 0 => {
            return Err(Failure::usage(
                "this store belongs to a cluster, and an import is divided among all: name a server with --server URL",
            ));
        }
        Opened::Store(store) => {
            let mut sink = Local::new(Arc::new(store), stream, options.clone(), concern);
            let outcome = import.all(&mut sink, &mut summary);
            let closed = sink.close();
            outcome.and_then(|fits| closed.map(|()| fits))
        }
        Opened::Server(client) => {
            let mut sink = Remote::new(client, stream, options.clone(), concern);
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
            no_format(options.anonymiser.hides_lines()),
        ));
    }
    if args.strict && summary.quarantined() > 0 {
        return Ok(ExitCode::from(QUARANTINED));
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the message about lines of which no format fits one.
fn no_format(hides_lines: bool) -> &'static str {
    match hides_lines {
        false => {
            "no format fits; every line is kept in quarantine. `logmill parse --explain FILE` shows why; the same import with `--format plain --again` stores each line as it is"
        }
        // Neither would the quarantine keep the lines, nor a plain event.
        true => {
            "no format fits; every line is counted in quarantine, and not kept, because the stream is anonymised. `logmill parse --explain FILE` shows why; name the format with `--format NAME --again`"
        }
    }
}

fn options(context: &Context, args: &ImportArgs, stream: &Name) -> Result<ParseOptions> {
    let by_config = intake::stream_options(&context.config, stream.as_str());
    let format = match &args.format {
        Some(format) => format.parse().map_err(Failure::usage)?,
        None => by_config.format,
    };
    let rule = args.multiline.as_deref();
    Ok(ParseOptions {
        multiline: intake::multiline_option(rule, by_config.multiline, &format)?,
        format,
        strict: args.strict,
        site: args.site.clone(),
        tz: args.tz.as_deref().map(intake::zone).transpose()?,
        year: args.year,
        received_us: SystemClock.now_us(),
        ..by_config
    })
}

fn check_usage(args: &ImportArgs) -> Result<()> {
    let inputs = args.files.iter().filter(|f| f.as_os_str() == "-").count();
    if inputs > 1 {
        return Err(Failure::usage(
            "- is standard input and can be given only once",
        ));
    }
    if args.source.is_some() && inputs == 0 {
        return Err(Failure::usage(
            "--source is for standard input (-); a file is identified by its content",
        ));
    }
    for (option, text) in [("--site", &args.site), ("--source", &args.source)] {
        let bytes = text.as_deref().map_or(0, str::len);
        if bytes > TEXT_BYTES_MAX {
            return Err(Failure::usage(format!(
                "{option} has {bytes} bytes; the limit is {TEXT_BYTES_MAX}"
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
    let concern = WriteConcern::parse(args.w.as_deref(), Some(args.journal));
    let concern = concern.map_err(Failure::usage)?;
    // A directory must not become a store for an import that is refused. A server decides itself.
    let is_one_node = context.config.cluster.kafka.is_none();
    if let Place::Data(_) = context.place
        && is_one_node
    {
        Durability::of_one_node(concern).map_err(Failure::usage)?;
    }
    Ok(concern)
}

/// State that an import of several sources shares.
struct Import<'a> {
    args: &'a ImportArgs,
    inputs: &'a [InputFile],
    options: &'a ParseOptions,
    interrupt: Interrupt,
    /// Read when the first file comes, and kept up to date from then on.
    files: Option<Producers>,
}

impl Import<'_> {
    /// Imports every file. Returns whether a format was found for each that had lines.
    fn all(&mut self, sink: &mut dyn Sink, summary: &mut Summary) -> Result<bool> {
        let mut fits = true;
        for file in self.inputs {
            if self.interrupt.is_set() {
                break;
            }
            let source = match self.open(sink, file, summary) {
                Err(_) if self.interrupt.is_set() => break,
                opened => opened.map_err(|e| e.about(&shown(&file.path)))?,
            };
            fits &= source.import(sink, &self.interrupt, summary)?;
        }
        Ok(fits)
    }

    /// Opens a source behind the content that was imported before.
    fn open(
        &mut self,
        sink: &dyn Sink,
        input_file: &InputFile,
        summary: &mut Summary,
    ) -> Result<OpenSource> {
        let args = self.args;
        let file = input_file.path.as_path();
        let is_input = file.as_os_str() == "-";
        let is_plain = !is_input && ingest::Compression::of(file) == ingest::Compression::None;
        let metadata = std::fs::metadata(file).ok().filter(|_| is_plain);
        let read = summary.begin_file(&shown(file), input_file.bytes);
        let site = self.options.site.as_deref().unwrap_or("");
        let format = self.options.format.clone();
        let known = match (&args.source, is_input) {
            (None, true) => {
                let format = format.clone();
                let nothing = move || Ok(KnownSource::nothing(input()?, &format));
                self.interrupt.unless(nothing)?
            }
            (Some(name), true) => {
                let source = self.interrupt.unless(input)?;
                let origin = Origin::input(source, self.interrupt.clone())?;
                let mut inputs = Producers::of_input(sink, &args.stream, site, name)?;
                inputs.find(sink, (origin, &format), args.again)?
            }
            (_, false) => {
                let files = match &mut self.files {
                    Some(files) => files,
                    none => none.insert(Producers::of_files(sink, &args.stream, site)?),
                };
                let origin = Origin::File(file.to_owned(), read);
                files.find(sink, (origin, &format), args.again)?
            }
        };
        Ok(OpenSource {
            shown: shown(file),
            known: KnownSource {
                values: known.values && format.may_hold_values(),
                ..known
            },
            is_complete: args.complete || metadata.is_none_or(|m| last_piece::is_at_rest(&m)),
            format,
        })
    }
}

#[cfg(test)]
mod tests;
