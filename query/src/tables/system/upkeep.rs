//! The tables `system.maintenance` and `system.disk`.

use storage::{DiskUse, JobEntry};

use super::{SystemColumn, int, of, stamp, text, word};

/// Builds one row for each job that did something, failed, or is under way.
pub(super) fn maintenance(rows: &[JobEntry]) -> Vec<SystemColumn> {
    vec![
        stamp("started", of(rows, |e| Some(e.started_us))),
        text("job", of(rows, |e| word(e.job))),
        text("stream", of(rows, |e| e.stream.clone())),
        text("what", of(rows, |e| said(&e.said.what))),
        text("why", of(rows, |e| said(&e.why))),
        text("state", of(rows, |e| word(e.state))),
        int("done", of(rows, |e| e.said.done)),
        int("total", of(rows, |e| e.said.total)),
        int("bytes_read", of(rows, |e| e.said.bytes_read)),
        int("bytes_written", of(rows, |e| e.said.bytes_written)),
        int("ms", of(rows, |e| Some(e.ms))),
        text("last_error", of(rows, |e| e.error.clone())),
    ]
}

fn said(sentence: &str) -> Option<String> {
    (!sentence.is_empty()).then(|| sentence.to_owned())
}

/// Builds one row for each stream, partition and kind of file.
pub(super) fn disk(rows: &[DiskUse]) -> Vec<SystemColumn> {
    vec![
        text(
            "stream",
            of(rows, |u| u.stream.as_ref().map(ToString::to_string)),
        ),
        stamp("partition", of(rows, |u| u.partition_us)),
        text("kind", of(rows, |u| Some(u.kind.to_owned()))),
        int("files", of(rows, |u| Some(u.files))),
        int("bytes", of(rows, |u| Some(u.bytes))),
    ]
}
