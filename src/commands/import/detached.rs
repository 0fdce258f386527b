//! `logmill import --format logmill FOLDER…`: partitions that another store has detached.
//!
//! # Identity
//! A folder is known by the stream it goes to, the store, stream and partition it came from, and
//! the hash of its `partition.json`; its batches are ranges of its events. So an import that broke
//! off goes on, and one that was done adds nothing, wherever the folder lies then.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

use arrow::array::RecordBatch;
use ingest::BatchOrigin;
use storage::{
    Ack, Clock, DetachedFolder, Identity, Name, Store, StreamKind, SystemClock, WriteConcern,
};

use super::summary::Summary;
use crate::cli::ImportArgs;
use crate::commands::{Context, Place};
use crate::failure::{FAILED, Failure, Result};
use crate::{intake, wiring};

/// The name for `--format`.
pub(super) const FORMAT: &str = "logmill";
/// The most events of a batch, and the most bytes of memory.
const ROWS_MAX: usize = 16_384;
const BYTES_MAX: usize = 4 << 20;
/// Batches handed over and not yet acknowledged.
const UNDER_WAY_MAX: usize = 8;

pub(super) fn run(
    context: &Context,
    args: &ImportArgs,
    stream: &Name,
    concern: WriteConcern,
) -> Result<ExitCode> {
    let Place::Data(data) = &context.place else {
        return Err(Failure::usage(
            "--format logmill imports folders into a directory, not yet into a server; name the directory with --data",
        ));
    };
    let reading = args.site.is_some() || args.tz.is_some() || args.year.is_some();
    if args.strict || args.again || reading {
        return Err(Failure::usage(
            "--format logmill imports events as they are; remove --strict, --again, --site, --tz and --year",
        ));
    }
    if context.config.cluster.shards > 0 {
        return Err(Failure::usage(
            "--format logmill imports events into one store, and this one belongs to a cluster; name its server among the peers instead",
        ));
    }
    if !context.config.anonymiser(stream.as_str()).is_empty() {
        return Err(Failure::config(format!(
            "--format logmill imports events as they are, and [stream.{stream}] has anonymise; import them into a stream without it"
        )));
    }
    // Every folder is opened before anything is taken.
    let open = |folder| DetachedFolder::open(wiring::disk(), folder);
    let folders = args.files.iter().map(|f| open(f));
    let folders: Vec<DetachedFolder> = folders.collect::<storage::Result<_>>()?;
    let store = wiring::open_store(data, &context.config)?;
    let mut summary = Summary::start();
    let bytes = folders.iter().flat_map(|f| f.parts()).map(|part| part.1);
    summary.expect_folders(folders.len(), bytes.sum());
    let outcome = check(&store, &folders).and_then(|()| {
        let mut import = FolderImport::new(&store, stream, concern);
        let mut files = args.files.iter().zip(&folders);
        files.try_for_each(|(file, folder)| {
            import.folder(&file.display().to_string(), folder, &mut summary)
        })
    });
    let closed = store.close();
    outcome?;
    closed?;
    summary.finish(context, stream.as_str(), false)?;
    Ok(ExitCode::SUCCESS)
}

fn check(store: &Store, folders: &[DetachedFolder]) -> Result<()> {
    let snapshot = store.snapshot();
    for folder in folders {
        let (stream, partition) = (folder.stream(), folder.partition());
        let refuse = |what: String| Err(Failure::new(FAILED, what));
        if folder.store_id() == snapshot.manifest().store_id {
            let date = partition.split_once('=').map_or("", |(_, date)| date);
            return refuse(format!(
                "{partition} of {stream} was detached from this store; attach it instead: logmill partition attach {stream} {date}"
            ));
        }
        if folder.kind() == StreamKind::Quarantine {
            return refuse(format!(
                "{partition} of {stream} holds quarantined lines, which cannot be imported as events"
            ));
        }
    }
    Ok(())
}

/// A batch's outcome, its events and bytes.
type Answered = (storage::Result<Ack>, u64, u64);

struct FolderImport<'a> {
    store: &'a Store,
    stream: &'a Name,
    concern: WriteConcern,
    /// Kind of the stream, if it existed before.
    kind: Option<StreamKind>,
    answers: (Sender<Answered>, Receiver<Answered>),
    under_way: usize,
    /// Bytes of the folder that were taken.
    read: Arc<AtomicU64>,
}

impl<'a> FolderImport<'a> {
    fn new(store: &'a Store, stream: &'a Name, concern: WriteConcern) -> Self {
        Self {
            store,
            stream,
            concern,
            kind: intake::stream_kind(&store.snapshot(), stream),
            answers: channel(),
            under_way: 0,
            read: Arc::default(),
        }
    }

    fn folder(
        &mut self,
        shown: &str,
        folder: &DetachedFolder,
        summary: &mut Summary,
    ) -> Result<()> {
        let bytes = folder.parts().map(|p| p.1).sum();
        self.read = summary.begin_file(shown, Some(bytes));
        let producer = format!("import:{}:{}", self.stream, folder.identity());
        let known = self.store.position(&producer).map_or(0, |p| p.to);
        let mut at = 0;
        for (nth, (rows, bytes)) in folder.parts().enumerate() {
            let skip = known.saturating_sub(at).min(rows);
            let known_bytes = bytes * skip / rows.max(1);
            if skip > 0 {
                self.read.fetch_add(known_bytes, Ordering::Relaxed);
                summary.skip(skip, known_bytes);
            }
            if skip < rows {
                let events = folder.events(nth)?;
                let per_event = bytes.div_ceil(rows.max(1));
                for piece in pieces(&events, usize::try_from(skip).unwrap_or(usize::MAX)) {
                    let to = at + (piece.0 + piece.1.num_rows()) as u64;
                    let identity = Identity::Range {
                        producer: producer.clone(),
                        from: at + piece.0 as u64,
                        to,
                        content: 0,
                    };
                    self.take(shown, folder.kind(), piece.1, identity, per_event, summary)?;
                }
            }
            at += rows;
        }
        while self.under_way > 0 {
            self.gather(summary)?;
        }
        Ok(())
    }

    fn take(
        &mut self,
        shown: &str,
        kind: StreamKind,
        events: RecordBatch,
        identity: Identity,
        per_event: u64,
        summary: &mut Summary,
    ) -> Result<()> {
        let rows = events.num_rows() as u64;
        let origin = BatchOrigin {
            stream: self.stream.clone(),
            source: Arc::from(shown),
            received_us: SystemClock.now_us(),
            identity: Some(identity),
            kind: self.kind,
        };
        let batch = origin.batch_of_events(events, kind);
        let answers = self.answers.0.clone();
        self.store.submit(batch, self.concern, move |outcome| {
            // An import that has given up does not receive this any more.
            let _ignored = answers.send((outcome, rows, rows * per_event));
        })?;
        self.under_way += 1;
        while self.under_way >= UNDER_WAY_MAX {
            self.gather(summary)?;
        }
        Ok(())
    }

    fn gather(&mut self, summary: &mut Summary) -> Result<()> {
        let answered = self.answers.1.recv().map_err(|_| storage::Error::Closed)?;
        self.under_way -= 1;
        let (outcome, rows, bytes) = answered;
        self.read.fetch_add(bytes, Ordering::Relaxed);
        summary.add(&outcome?, rows, 0, bytes, []);
        Ok(())
    }
}

/// Returns the rows from one on, in pieces that make batches, each with the row at which it begins.
fn pieces(events: &RecordBatch, from: usize) -> impl Iterator<Item = (usize, RecordBatch)> {
    let rows = events.num_rows();
    let per_row = events.get_array_memory_size() / rows.max(1) + 1;
    let step = (BYTES_MAX / per_row).clamp(1, ROWS_MAX);
    (from..rows)
        .step_by(step)
        .map(move |at| (at, events.slice(at, step.min(rows - at))))
}
