//! Stores a file: in one request, or in parts when it is large.
//!
//! The caller's thread reads the file, since it is borrowed. At most [`PARTS_IN_FLIGHT`] parts are
//! in memory.

use std::collections::VecDeque;
use std::io;

use bytes::Bytes;
use crossbeam_channel::Receiver;
use object_store::{MultipartUpload, PutMultipartOptions};

use super::threads::answer;
use super::{DepotThreads, RemoteObject, io_error, limited};
use crate::env::FsFile;

/// Bytes of a part, and of the largest file that is stored in one request.
pub(super) const PART_BYTES: u64 = 8 << 20;
/// Parts that are read and not yet stored.
const PARTS_IN_FLIGHT: usize = 2;
/// Parts of an object at most, S3's own limit.
const PARTS: u64 = 10_000;

/// Returns the bytes of a file of [`PART_BYTES`] at most; `None` if it is larger.
pub(super) fn small(object: &RemoteObject, file: &dyn FsFile) -> io::Result<Option<Bytes>> {
    let len = file.len().map_err(|e| unread(object, &e))?;
    if len > PART_BYTES {
        return Ok(None);
    }
    read_part(object, file, 0, len).map(Some)
}

/// Stores a file in parts. After an error the parts are removed. When the object store is not
/// reached any more they stay, and a rule of the bucket has to remove them.
pub(super) fn in_parts(
    requests: &DepotThreads,
    object: &RemoteObject,
    file: &dyn FsFile,
) -> io::Result<()> {
    let len = file.len().map_err(|e| unread(object, &e))?;
    let of = object.clone();
    let begun = requests.run(async move {
        let options = PutMultipartOptions::default();
        limited(of.store.put_multipart_opts(&of.path, options)).await
    })?;
    let mut upload = begun.map_err(|e| io_error(&object.address, &e))?;
    if let Err(error) = send_parts(requests, object, file, len, &mut *upload) {
        abort(requests, object, upload);
        return Err(error);
    }
    let (upload, stored) = requests.run(async move {
        let stored = limited(upload.complete()).await;
        (upload, stored)
    })?;
    match stored {
        Ok(_) => Ok(()),
        Err(error) => {
            abort(requests, object, upload);
            Err(io_error(&object.address, &error))
        }
    }
}

/// Sends the parts. None is in flight when it returns: a part that arrives after the abort would
/// stay.
fn send_parts(
    requests: &DepotThreads,
    object: &RemoteObject,
    file: &dyn FsFile,
    len: u64,
    upload: &mut dyn MultipartUpload,
) -> io::Result<()> {
    let part_len = PART_BYTES.max(len.div_ceil(PARTS));
    let mut in_flight: VecDeque<Receiver<object_store::Result<()>>> = VecDeque::new();
    let mut outcome = Ok(());
    let mut at = 0;
    while outcome.is_ok() && at < len {
        if in_flight.len() == PARTS_IN_FLIGHT {
            outcome = oldest(object, &mut in_flight);
            continue;
        }
        let part = part_len.min(len - at);
        match read_part(object, file, at, part) {
            Ok(bytes) => {
                in_flight.push_back(requests.start_one(limited(upload.put_part(bytes.into()))));
            }
            Err(error) => outcome = Err(error),
        }
        at += part;
    }
    while !in_flight.is_empty() {
        outcome = outcome.and(oldest(object, &mut in_flight));
    }
    outcome
}

/// Waits for the part that was sent first.
fn oldest(
    object: &RemoteObject,
    in_flight: &mut VecDeque<Receiver<object_store::Result<()>>>,
) -> io::Result<()> {
    match in_flight.pop_front() {
        Some(part) => answer(&part)?.map_err(|e| io_error(&object.address, &e)),
        None => Ok(()),
    }
}

fn abort(requests: &DepotThreads, object: &RemoteObject, mut upload: Box<dyn MultipartUpload>) {
    let aborted = requests.run(async move { limited(upload.abort()).await });
    if let Ok(Err(error)) = aborted {
        let error = io_error(&object.address, &error);
        tracing::warn!(%error, "parts of an unfinished upload may be left in the bucket");
    }
}

fn read_part(object: &RemoteObject, file: &dyn FsFile, at: u64, len: u64) -> io::Result<Bytes> {
    let mut bytes = vec![0; usize::try_from(len).map_err(io::Error::other)?];
    file.read_exact_at(&mut bytes, at)
        .map_err(|e| unread(object, &e))?;
    Ok(bytes.into())
}

fn unread(object: &RemoteObject, error: &io::Error) -> io::Error {
    let text = format!("{}: the file cannot be read: {error}", object.address);
    io::Error::new(error.kind(), text)
}
