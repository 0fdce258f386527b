//! `logmill import`: files become batches that name their own byte range, so that the same command
//! after a crash resumes, and after success adds nothing.
//!
//! # Identity
//! A file is known by stream, site and absolute path, and then by its content: the store keeps how
//! far it was taken (of the decompressed bytes) and the hash of everything before. When the file
//! begins with that content it is the same one and goes on behind it; otherwise it is a new file
//! under a known path, and gets the next number (`…#2`). Standard input has no identity.

mod detached;
mod sink;
mod summary;

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use ingest::{Block, Format, LINE_BYTES_MAX, LineBlocks, ParseOptions};
use storage::{Clock, Identity, Name, SourcePosition, SystemClock, WriteConcern};
use xxhash_rust::xxh3::Xxh3Default;

use super::{Context, Place};
use crate::cli::ImportArgs;
use crate::failure::{FAILED, Failure, QUARANTINED, Result};
use sink::{Local, Piece, Remote, Sink};
use summary::Summary;

/// Blocks read ahead of the parser.
const READ_AHEAD: usize = 3;
/// Generations of content under one path that are looked for.
const GENERATIONS_MAX: u32 = 1000;

pub(crate) fn zone(name: &str) -> Result<chrono_tz::Tz> {
    name.parse().map_err(|_| {
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
    let concern = concern(context, args, &stream)?;
    // A file that is not there is told before anything is taken.
    for file in args.files.iter().filter(|f| f.as_os_str() != "-") {
        std::fs::metadata(file)
            .map_err(|e| Failure::new(FAILED, format!("{}: {e}", file.display())))?;
    }
    let mut summary = Summary::start();
    let outcome = match &context.place {
        Place::Data(data) => {
            let store = crate::wiring::open_store(data, &context.config)?;
            let mut sink = Local::new(Arc::new(store), stream, options.clone(), concern);
            let outcome = import_all(&mut sink, args, &options, &mut summary);
            let closed = sink.close();
            outcome.and_then(|fits| closed.map(|()| fits))
        }
        Place::Server(client) => {
            let mut sink = Remote::new(client.clone(), stream, options.clone(), concern);
            import_all(&mut sink, args, &options, &mut summary)
        }
    };
    summary.finish(context.output)?;
    let fits = outcome?;
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

fn concern(context: &Context, args: &ImportArgs, stream: &Name) -> Result<WriteConcern> {
    if args.w.is_none() && !args.journal {
        return context
            .config
            .concern(stream.as_str())
            .map_err(Failure::config);
    }
    WriteConcern::parse(args.w.as_deref(), Some(args.journal)).map_err(Failure::usage)
}

/// Imports every file; whether a format was found for each that had lines.
fn import_all(
    sink: &mut dyn Sink,
    args: &ImportArgs,
    options: &ParseOptions,
    summary: &mut Summary,
) -> Result<bool> {
    let mut fits = true;
    for file in &args.files {
        fits &= import_file(sink, file, args, options, summary)?;
    }
    Ok(fits)
}

/// How a file is known to the store and where it goes on.
struct Known {
    producer: Option<String>,
    skip: u64,
    hasher: Xxh3Default,
}

fn import_file(
    sink: &mut dyn Sink,
    file: &Path,
    args: &ImportArgs,
    options: &ParseOptions,
    summary: &mut Summary,
) -> Result<bool> {
    let from_stdin = file.as_os_str() == "-";
    let shown = file.display().to_string();
    let plain = !from_stdin && ingest::Compression::of(file) == ingest::Compression::None;
    summary.begin_file(
        &shown,
        std::fs::metadata(file)
            .ok()
            .filter(|_| plain)
            .map(|m| m.len()),
    );
    let known = if from_stdin {
        Known {
            producer: None,
            skip: 0,
            hasher: Xxh3Default::new(),
        }
    } else {
        know(sink, file, args, options)?
    };
    let source: Box<dyn Read + Send> = if from_stdin {
        Box::new(std::io::stdin())
    } else {
        ingest::open(file)?
    };
    let (mut source, skipped_lines, skip) = skip_known(source, known.skip, &shown)?;
    if skip > 0 {
        summary.skip(skipped_lines, skip);
    }
    let mut hasher = known.hasher;
    let mut format = Format::Auto;
    let (blocks, read) = block_channel();
    let piece_bytes = sink.piece_bytes();
    let outcome = std::thread::scope(|scope| -> Result<()> {
        // Goes with this closure: a thread that waits to hand over a block must learn that nobody
        // takes it any more, else a failed import would never end.
        let read = read;
        let shown = shown.clone();
        scope.spawn(move || {
            let mut cutter = LineBlocks::new(&mut source)
                .with_limits(piece_bytes, LINE_BYTES_MAX)
                .starting_at(skipped_lines + 1, skip);
            loop {
                let block = cutter.next_block();
                let last = !matches!(block, Ok(Some(_)));
                if blocks.send(block).is_err() || last {
                    return;
                }
            }
        });
        while let Ok(block) = read.recv() {
            let Some(block) = block.map_err(|e| Failure::new(FAILED, format!("{shown}: {e}")))?
            else {
                break;
            };
            hasher.update(&block.bytes);
            let identity = known.producer.as_ref().map(|producer| Identity::Range {
                producer: producer.clone(),
                from: block.first_byte,
                to: block.end_byte,
                content: hasher.digest(),
            });
            format = sink.take(
                Piece {
                    source: &shown,
                    block,
                    identity,
                },
                summary,
            )?;
        }
        Ok(())
    });
    // What was handed over is waited for even when the file broke off.
    let drained = sink.drain(summary);
    outcome?;
    drained?;
    Ok(format != Format::Auto || summary.file_lines() == summary.file_empty_and_skipped())
}

type Blocks = ingest::Result<Option<Block>>;

fn block_channel() -> (
    std::sync::mpsc::SyncSender<Blocks>,
    std::sync::mpsc::Receiver<Blocks>,
) {
    std::sync::mpsc::sync_channel(READ_AHEAD)
}

/// Finds the generation of content under this path that the file begins with.
fn know(sink: &dyn Sink, file: &Path, args: &ImportArgs, options: &ParseOptions) -> Result<Known> {
    let absolute = std::fs::canonicalize(file).unwrap_or_else(|_| PathBuf::from(file));
    let site = options.site.as_deref().unwrap_or("");
    let base = format!("import:{}:{site}:{}", args.stream, absolute.display());
    let mut positions: Vec<(String, SourcePosition)> = Vec::new();
    let mut free = None;
    for generation in 1..=GENERATIONS_MAX {
        let name = if generation == 1 {
            base.clone()
        } else {
            format!("{base}#{generation}")
        };
        match sink.position(&name)? {
            Some(position) => positions.push((name, position)),
            None => {
                free = Some(name);
                break;
            }
        }
    }
    let free = free.ok_or_else(|| {
        Failure::new(
            FAILED,
            format!(
                "{}: {GENERATIONS_MAX} contents are known under this path",
                file.display()
            ),
        )
    })?;
    let new = Known {
        producer: Some(free),
        skip: 0,
        hasher: Xxh3Default::new(),
    };
    if args.again || positions.is_empty() {
        return Ok(new);
    }
    // The newest generation that fits: read the file once, stopping at each known end.
    let mut order: Vec<usize> = (0..positions.len()).collect();
    order.sort_by_key(|i| positions[*i].1.to);
    let mut source = ingest::open(file)?;
    let mut hasher = Xxh3Default::new();
    let mut at = 0;
    let mut found: Option<(usize, Xxh3Default)> = None;
    for i in order {
        let position = positions[i].1;
        let read = hash_up_to(&mut source, &mut hasher, position.to - at)
            .map_err(|e| Failure::new(FAILED, format!("{}: {e}", file.display())))?;
        at += read;
        if at < position.to {
            break;
        }
        if hasher.digest() == position.content
            && found
                .as_ref()
                .is_none_or(|(best, _)| positions[*best].1.to <= position.to)
        {
            found = Some((i, hasher.clone()));
        }
    }
    Ok(match found {
        None => new,
        Some((i, hasher)) => {
            let (name, position) = positions.swap_remove(i);
            Known {
                producer: Some(name),
                skip: position.to,
                hasher,
            }
        }
    })
}

fn hash_up_to(
    source: &mut dyn Read,
    hasher: &mut Xxh3Default,
    wanted: u64,
) -> std::io::Result<u64> {
    let mut buffer = vec![0; 1 << 20];
    let mut read = 0;
    while read < wanted {
        let most = usize::try_from(wanted - read)
            .unwrap_or(usize::MAX)
            .min(buffer.len());
        match source.read(&mut buffer[..most])? {
            0 => break,
            n => {
                hasher.update(&buffer[..n]);
                read += n as u64;
            }
        }
    }
    Ok(read)
}

/// Passes over what is known and counts its lines.
fn skip_known(
    mut source: Box<dyn Read + Send>,
    skip: u64,
    shown: &str,
) -> Result<(Box<dyn Read + Send>, u64, u64)> {
    let mut buffer = vec![0; 1 << 20];
    let (mut read, mut lines, mut last) = (0, 0, b'\n');
    while read < skip {
        let most = usize::try_from(skip - read)
            .unwrap_or(usize::MAX)
            .min(buffer.len());
        let n = source
            .read(&mut buffer[..most])
            .map_err(|e| Failure::new(FAILED, format!("{shown}: {e}")))?;
        if n == 0 {
            break;
        }
        lines += memchr::memchr_iter(b'\n', &buffer[..n]).count() as u64;
        last = buffer[n - 1];
        read += n as u64;
    }
    // A last piece without its line end was a line.
    Ok((source, lines + u64::from(last != b'\n'), read))
}
