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

use axum::Router;
use axum::body::{BodyDataStream, Bytes};
use axum::extract::Extension;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use futures::StreamExt;
use ingest::Records;
use ingest::shippers::StreamRecords;
use ingest::shippers::journald::{
    ExportDecoder, InvalidExport, JOURNAL_ENTRY_BYTES_MAX, JournalEntry,
};
use storage::{Identity, Name};
use tokio::sync::oneshot;
use xxhash_rust::xxh3::{Xxh3Default, xxh3_64};

use super::call::{ShipperCall, Submitted, Terms, finish, forbidden};
use crate::access::{Action, Target};
use crate::serve::{Client, Length, Serving};
use crate::server::answer;
use crate::server::app::App;
use crate::server::bodies::BodyPieces;
use crate::server::body;

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
    entries: Vec<JournalEntry>,
    /// Bytes of their objects.
    bytes: usize,
}

impl Piece {
    fn push(&mut self, entry: JournalEntry) {
        self.bytes += entry.json.len();
        self.entries.push(entry);
    }

    /// Returns the first entries and the others.
    fn split(mut self, first: usize) -> [Self; 2] {
        let mut rest = Self::default();
        for entry in self.entries.split_off(first) {
            rest.push(entry);
        }
        self.bytes -= rest.bytes;
        [self, rest]
    }

    /// Returns the name of the first entry. One without a cursor is known by its content.
    fn name(&self) -> String {
        let first = self.entries.first().expect("BUG: a piece has entries");
        let by_content = || format!("{:016x}", xxh3_64(&first.json));
        first.cursor.clone().unwrap_or_else(by_content)
    }

    fn records(&self) -> Records {
        let mut records = Records::default();
        for entry in &self.entries {
            records.push(&entry.json);
        }
        records
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
    let mut frames = call.body.into_data_stream();
    let outcome = upload.store_all(pieces, &mut frames).await;
    if outcome.is_err() {
        // A client that still sends when the connection is closed may never read the reason.
        body::pass_over(&mut frames, |bytes| pieces.stored(bytes)).await;
    }
    outcome
}

/// A request that brings entries.
struct Upload {
    app: Arc<App>,
    who: Client,
    terms: Arc<Terms>,
    stream: Name,
}

impl Upload {
    async fn store_all(
        &self,
        pieces: &BodyPieces,
        frames: &mut BodyDataStream,
    ) -> Result<(), Box<Response>> {
        let (mut decoder, mut piece) = (ExportDecoder::default(), Piece::default());
        let mut full = Vec::new();
        let mut held = 0;
        while let Some(bytes) = next(frames).await? {
            held += bytes.len();
            let mut push = |entry| {
                piece.push(entry);
                if piece.bytes >= PIECE_BYTES {
                    full.push(std::mem::take(&mut piece));
                }
            };
            decoder.take(&bytes, &mut push).map_err(invalid)?;
            // Its last entry may be that of the request.
            let kept = usize::from(piece.entries.is_empty());
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
        full.retain(|piece| !piece.entries.is_empty());
        if let Some(last) = full.pop() {
            let before_last = last.entries.len() - 1;
            full.extend(last.split(before_last));
        }
        for piece in full {
            self.store(piece).await?;
        }
        Ok(())
    }

    /// Stores a piece: as one batch, or as several where its beginning is known.
    async fn store(&self, mut piece: Piece) -> Result<(), Box<Response>> {
        while !piece.entries.is_empty() {
            self.check_rights()?;
            let (count, identity) = self.next_batch(&piece)?;
            let [batch, rest] = piece.split(count);
            self.store_batch(&batch, identity).await?;
            piece = rest;
        }
        Ok(())
    }

    /// Returns the number of the first entries that one batch has, which are those that are stored
    /// already, or else all; and its identity.
    fn next_batch(&self, piece: &Piece) -> Result<(usize, Identity), Box<Response>> {
        let key = format!("{}\0journald\0{}", self.stream, piece.name());
        let all = piece.entries.as_slice();
        let body_hash = fingerprint_of(all);
        let known = self.app.serving.intake.key_fingerprint(&key);
        let known = known.map_err(|error| Box::new(answer::of_storage(&error)))?;
        let Some(known) = known.filter(|known| *known != body_hash) else {
            return Ok((all.len(), Identity::Key { key, body_hash }));
        };
        let count = usize::try_from(known >> HASH_BITS).unwrap_or(usize::MAX);
        Ok(match all.get(..count) {
            Some(first) if !first.is_empty() && fingerprint_of(first) == known => {
                let body_hash = known;
                (count, Identity::Key { key, body_hash })
            }
            // Other entries follow the same one: another client leaves some out. Under the same key
            // they would be refused for ever.
            _ => {
                let key = format!("{key}\0{body_hash:016x}");
                (all.len(), Identity::Key { key, body_hash })
            }
        })
    }

    async fn store_batch(&self, batch: &Piece, identity: Identity) -> Result<(), Box<Response>> {
        let records = StreamRecords {
            stream: self.stream.to_string(),
            records: batch.records(),
        };
        let serving = Arc::clone(&self.app.serving);
        serving.intake.note_foreground();
        let length = Length::of(batch.bytes);
        let (terms, who) = (Arc::clone(&self.terms), self.who.clone());
        let (done, submitted) = oneshot::channel();
        let job = {
            let serving = Arc::clone(&serving);
            move || {
                let submitted = submit(&serving, &terms, &who, (records, identity), length);
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

    /// Checks that the client may still write: the body may take days.
    fn check_rights(&self) -> Result<(), Box<Response>> {
        let stream = Target::Stream(self.stream.as_str());
        let now = self.app.serving.access.renew(self.who.principal());
        match now.is_some_and(|now| now.may(Action::Ingest, stream)) {
            true => Ok(()),
            false => Err(forbidden(&self.who, self.stream.as_str())),
        }
    }
}

fn submit(
    serving: &Serving,
    terms: &Terms,
    who: &Client,
    (records, identity): (StreamRecords, Identity),
    length: Length,
) -> Submitted {
    let mut delivery = terms.delivery(serving, who, records)?;
    delivery.delivery.identity = Some(identity);
    delivery.delivery.options.record_bytes_max = JOURNAL_ENTRY_BYTES_MAX;
    let parsed = delivery.parse(serving)?;
    parsed.submit(serving, length, terms.wtimeout.is_some())
}

/// Returns the number of entries and a hash of them, as one number.
fn fingerprint_of(entries: &[JournalEntry]) -> u64 {
    let mut hasher = Xxh3Default::new();
    for entry in entries {
        hasher.update(&xxh3_64(&entry.json).to_le_bytes());
    }
    let hash = hasher.digest() & ((1 << HASH_BITS) - 1);
    ((entries.len() as u64) << HASH_BITS) | hash
}

/// Returns the next bytes of a body.
async fn next(frames: &mut BodyDataStream) -> Result<Option<Bytes>, Box<Response>> {
    let next = frames.next().await.transpose();
    next.map_err(|error| Box::new(answer::bad_request(format!("the body breaks off: {error}"))))
}

fn invalid(why: InvalidExport) -> Box<Response> {
    Box::new(answer::bad_request(format!(
        "the body is no export of a journal: {why}"
    )))
}
