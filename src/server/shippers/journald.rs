//! `POST /upload`: the journal of systemd, as `systemd-journal-upload` sends it.
//!
//! A request may bring a whole journal, and its client asks for nothing but a status at the end. So
//! entries are stored in pieces while more of them come. A client whose request failed sends again
//! from the cursor at which that began.
//!
//! # Invariants
//! * A piece begins at a known entry and ends by its bytes alone: entries that come again from the
//!   same cursor are cut into the same pieces. Only the last one of a request may have fewer.
//! * The last entry of a request is a piece of its own: a client that is started again sends the
//!   entry at its cursor once more.
//! * The identity of a piece is the cursor of its first entry. It remembers how many entries
//!   follow, so that a longer piece from the same cursor is divided into those that are stored and
//!   the rest. Where other entries follow, the piece is another one.
//! * The answer comes after each piece has reached its write concern.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::Extension;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{BoxError, Router};
use futures::{Stream, StreamExt};
use ingest::Records;
use ingest::shippers::StreamRecords;
use ingest::shippers::journald::{
    ExportDecoder, InvalidExport, JOURNAL_ENTRY_BYTES_MAX, JournalEntry,
};
use storage::{Identity, Name};
use tokio::sync::oneshot;
use xxhash_rust::xxh3::xxh3_64;

use super::call::{ShipperCall, Submitted, Terms, finish};
use crate::access::{Action, Target};
use crate::failure::Class;
use crate::serve::{Client, Length, Serving};
use crate::server::answer;
use crate::server::app::App;
use crate::server::bodies::BodyPieces;

const CONTENT_TYPE: &[u8] = b"application/vnd.fdo.journal";
/// The stream of entries, unless the request names one.
const STREAM: &str = "journald";
/// Bytes of the objects of a piece, from which on it ends.
const PIECE_BYTES: usize = 1 << 20;
/// Bits of an identity's hash that are the hash of entries; those above are their number.
const HASH_BITS: u32 = 40;

/// Returns the routes.
pub(super) fn routes() -> Router<Arc<App>> {
    Router::new().route("/upload", post(upload))
}

/// Entries of a journal that are stored together.
#[derive(Debug, Default)]
struct Piece {
    /// The name of the first entry.
    cursor: String,
    objects: Vec<Vec<u8>>,
    bytes: usize,
}

impl Piece {
    fn push(&mut self, entry: JournalEntry) {
        if self.objects.is_empty() {
            // An entry without a cursor is known by its content.
            let by_content = || format!("{:016x}", xxh3_64(&entry.json));
            self.cursor = entry.cursor.unwrap_or_else(by_content);
        }
        self.bytes += entry.json.len();
        self.objects.push(entry.json);
    }

    /// Returns the first entries and the others.
    fn split(mut self, first: usize) -> [Self; 2] {
        let others = self.objects.split_off(first);
        let mut rest = Self::default();
        for json in others {
            let cursor = rest.objects.is_empty().then(|| cursor_of(&json)).flatten();
            rest.push(JournalEntry { json, cursor });
        }
        self.bytes -= rest.bytes;
        [self, rest]
    }
}

async fn upload(Extension(pieces): Extension<BodyPieces>, call: ShipperCall) -> Response {
    match store(&pieces, call).await {
        Ok(()) => (StatusCode::OK, "OK.\n").into_response(),
        Err(refused) => *refused,
    }
}

async fn store(pieces: &BodyPieces, call: ShipperCall) -> Result<(), Box<Response>> {
    let content_type = call.headers.get(header::CONTENT_TYPE);
    let is_export = content_type.is_some_and(|named| named.as_bytes() == CONTENT_TYPE);
    if !is_export || call.headers.contains_key(header::CONTENT_ENCODING) {
        return Err(Box::new(answer::error(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "not_an_export",
            "/upload takes the export format of systemd's journal, without a compression",
            Some("send Content-Type: application/vnd.fdo.journal, as systemd-journal-upload does"),
        )));
    }
    let terms = Terms::read(&call.parameters, &call.headers, "journald");
    let terms = Arc::new(terms.map_err(|why| Box::new(answer::bad_request(why)))?);
    let stream = match &terms.stream {
        Some(stream) => stream.clone(),
        None => Name::new(STREAM).expect("BUG: a name"),
    };
    let upload = Upload {
        app: call.app,
        who: call.who,
        terms,
        stream,
    };
    pieces.begin();
    upload.store_all(pieces, call.body).await
}

/// A request that brings entries.
struct Upload {
    app: Arc<App>,
    who: Client,
    terms: Arc<Terms>,
    stream: Name,
}

impl Upload {
    async fn store_all(&self, pieces: &BodyPieces, body: Body) -> Result<(), Box<Response>> {
        let mut frames = body.into_data_stream();
        let (mut decoder, mut piece) = (ExportDecoder::default(), Piece::default());
        let mut full = Vec::new();
        let mut held = 0;
        while let Some(bytes) = next(&mut frames).await? {
            held += bytes.len();
            let mut push = |entry| {
                piece.push(entry);
                if piece.bytes >= PIECE_BYTES {
                    full.push(std::mem::take(&mut piece));
                }
            };
            decoder.take(&bytes, &mut push).map_err(invalid)?;
            // Its last entry may be that of the request.
            let kept = usize::from(piece.objects.is_empty());
            let whole = full.len().saturating_sub(kept);
            if whole == 0 {
                continue;
            }
            for piece in full.drain(..whole) {
                self.store(piece).await?;
            }
            let kept = full.iter().map(|piece: &Piece| piece.bytes);
            let rest = decoder.held() + piece.bytes + kept.sum::<usize>();
            pieces.stored(held.saturating_sub(rest));
            held = held.min(rest);
        }
        decoder
            .finish(&mut |entry| piece.push(entry))
            .map_err(invalid)?;
        full.push(piece);
        full.retain(|piece| !piece.objects.is_empty());
        if let Some(last) = full.pop() {
            let before_last = last.objects.len() - 1;
            full.extend(last.split(before_last));
        }
        for piece in full {
            self.store(piece).await?;
        }
        Ok(())
    }

    /// Checks that the client may still write: the body may take days.
    fn check_rights(&self) -> Result<(), Box<Response>> {
        let stream = Target::Stream(self.stream.as_str());
        let now = self.app.serving.access.renew(self.who.principal());
        match now.is_some_and(|now| now.may(Action::Ingest, stream)) {
            true => Ok(()),
            false => {
                let message = format!("{} may not write into {}", self.who.name(), self.stream);
                let hint = "ask an administrator for a token of this stream";
                let refused = answer::of_class(Class::Forbidden, &message, Some(hint));
                Err(Box::new(refused))
            }
        }
    }

    /// Stores a piece: as one batch, or as several where its beginning is known.
    async fn store(&self, mut piece: Piece) -> Result<(), Box<Response>> {
        while !piece.objects.is_empty() {
            let known = self.known(&piece);
            let [batch, rest] = piece.split(known);
            self.store_batch(&batch).await?;
            piece = rest;
        }
        Ok(())
    }

    /// Returns the number of the first entries that one batch has: those that are stored already,
    /// or else all.
    fn known(&self, piece: &Piece) -> usize {
        let intake = &self.app.serving.intake;
        let all = piece.objects.len();
        let Some(fingerprint) = intake.key_fingerprint(&self.key(piece)) else {
            return all;
        };
        let count = usize::try_from(fingerprint >> HASH_BITS).unwrap_or(usize::MAX);
        match piece.objects.get(..count) {
            Some(known) if !known.is_empty() && fingerprint_of(known) == fingerprint => count,
            _ => all,
        }
    }

    fn key(&self, piece: &Piece) -> String {
        format!("{}\0journald\0{}", self.stream, piece.cursor)
    }

    async fn store_batch(&self, piece: &Piece) -> Result<(), Box<Response>> {
        let mut records = Records::default();
        for json in &piece.objects {
            records.push(json);
        }
        self.check_rights()?;
        let body_hash = fingerprint_of(&piece.objects);
        let mut key = self.key(piece);
        let known = self.app.serving.intake.key_fingerprint(&key);
        if known.is_some_and(|known| known != body_hash) {
            // Other entries follow the same one: another client leaves some out. Under the same key
            // they would be refused for ever.
            key = format!("{key}\0{body_hash:016x}");
        }
        let identity = Identity::Key { key, body_hash };
        let records = StreamRecords {
            stream: self.stream.to_string(),
            records,
        };
        let serving = Arc::clone(&self.app.serving);
        serving.intake.note_foreground();
        let (terms, who) = (Arc::clone(&self.terms), self.who.clone());
        let (done, submitted) = oneshot::channel();
        let length = Length::Long;
        let job = {
            let serving = Arc::clone(&serving);
            move || {
                let submitted = submit(&serving, &terms, &who, records, identity);
                // A client that has gone does not wait for this.
                let _ignored = done.send(submitted);
            }
        };
        let place = serving.parsing.place(self.who.share(), length).await;
        serving.parsing.run(place, job);
        let submitted = submitted.await;
        let submitted =
            submitted.map_err(|_| Box::new(answer::of_storage(&storage::Error::Closed)))?;
        finish(&self.app, submitted, self.terms.wtimeout).await?;
        Ok(())
    }
}

fn submit(
    serving: &Serving,
    terms: &Terms,
    who: &Client,
    records: StreamRecords,
    identity: Identity,
) -> Submitted {
    let mut delivery = terms.delivery(serving, who, records)?;
    delivery.delivery.identity = Some(identity);
    delivery.delivery.options.record_bytes_max = JOURNAL_ENTRY_BYTES_MAX;
    let parsed = delivery.parse(serving)?;
    parsed.submit(serving, Length::Long, terms.wtimeout.is_some())
}

/// Returns the number of entries and a hash of them, as one number.
fn fingerprint_of(objects: &[Vec<u8>]) -> u64 {
    let hashes: Vec<u8> = objects
        .iter()
        .flat_map(|json| xxh3_64(json).to_le_bytes())
        .collect();
    let hash = xxh3_64(&hashes) & ((1 << HASH_BITS) - 1);
    ((objects.len() as u64) << HASH_BITS) | hash
}

fn cursor_of(json: &[u8]) -> Option<String> {
    let entry: serde_json::Value = serde_json::from_slice(json).ok()?;
    Some(entry.get("__CURSOR")?.as_str()?.to_owned())
}

/// Returns the next bytes of a body.
async fn next<S, B>(frames: &mut S) -> Result<Option<B>, Box<Response>>
where
    S: Stream<Item = Result<B, axum::Error>> + Unpin,
{
    let next = frames.next().await.transpose();
    next.map_err(|error| {
        let error: BoxError = error.into();
        Box::new(answer::bad_request(format!("the body breaks off: {error}")))
    })
}

fn invalid(why: InvalidExport) -> Box<Response> {
    Box::new(answer::bad_request(format!(
        "the body is no export of a journal: {why}; the entries before it are stored"
    )))
}
