//! From the body of a request to a batch that the store has.

use axum::body::Bytes;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::Response;
use ingest::{BatchOrigin, Encoding, ParseOptions, Parsed, Parser};
use storage::{Ack, Durability, Identity, WriteConcern};
use tokio::sync::oneshot;
use xxhash_rust::xxh3::{Xxh3Default, xxh3_64};

use super::parameters::LinesRequest;
use super::response::{ParseSummary, too_large};
use crate::serve::{Length, Reply, SHORT_BYTES_MAX, StreamState};
use crate::server::answer;
use crate::server::app::App;

/// The rows of a request may take so many times its decompressed bytes, in memory and in the
/// journal, and this much at any rate: very short lines cost far more than they are long.
const GROWTH_MAX: usize = 4;
const GROWTH_BYTES_MIN: usize = 256 << 20;

/// The state of a batch behind its parse.
pub(super) enum Submission {
    /// The store got nothing, so there is nothing to wait for.
    Nothing(Ack),
    /// The store acknowledges the batch when its write concern is reached.
    Waiting(oneshot::Receiver<storage::Result<Vec<Ack>>>),
}

/// A request whose body is there, but not parsed.
pub(super) struct Unparsed {
    pub(super) request: LinesRequest,
    pub(super) durability: Durability,
    pub(super) body: Bytes,
    pub(super) encoding: Option<Encoding>,
    /// Maximum bytes of the body, decompressed.
    pub(super) limit: usize,
    pub(super) length: Length,
}

/// The outcome of one attempt to parse a request.
pub(super) enum Attempt {
    Submitted(Submission, ParseSummary),
    /// The body is longer than its compressed bytes let expect, and needs a place among long ones.
    IsLong(Box<Unparsed>),
}

impl Unparsed {
    /// Returns the body's lines; `None` if the body is long, which is found out here alone for a
    /// compressed one.
    fn lines(&self) -> ingest::Result<Option<Bytes>> {
        let Some(encoding) = self.encoding else {
            return Ok(Some(self.body.clone()));
        };
        let most = match self.length {
            Length::Short => self.limit.min(SHORT_BYTES_MAX),
            Length::Long => self.limit,
        };
        match encoding.decompress(&self.body, most) {
            Err(ingest::Error::Expands { .. }) if most < self.limit => Ok(None),
            outcome => outcome.map(|lines| Some(lines.into())),
        }
    }
}

/// Tries to parse the body and hands the batch to the store: on a thread that may wait.
pub(super) fn attempt(app: &App, unparsed: Unparsed) -> Result<Attempt, Box<Response>> {
    match unparsed.lines() {
        Ok(Some(lines)) => {
            let (submission, summary) = submit(app, unparsed, &lines)?;
            Ok(Attempt::Submitted(submission, summary))
        }
        Ok(None) => Ok(Attempt::IsLong(Box::new(Unparsed {
            length: Length::Long,
            ..unparsed
        }))),
        Err(error) => {
            let stream = &unparsed.request.stream;
            app.serving.intake.count_refused(stream, 1);
            Err(Box::new(not_decompressed(error)))
        }
    }
}

/// Parses the lines and hands the batch to the store.
fn submit(
    app: &App,
    unparsed: Unparsed,
    lines: &[u8],
) -> Result<(Submission, ParseSummary), Box<Response>> {
    let Unparsed {
        mut request,
        durability,
        body,
        length,
        ..
    } = unparsed;
    if let Some(Identity::Key { key, body_hash }) = &mut request.identity {
        let before = app.serving.intake.key_fingerprint(key);
        // Earlier versions took the body as it was sent, and nothing else.
        let sent = Some(xxh3_64(&body)).filter(|hash| before == Some(*hash));
        *body_hash = sent.unwrap_or_else(|| fingerprint(lines, &request.options));
    }
    let StreamState { columns, kind } = app.serving.intake.stream(&request.stream);
    let options = ParseOptions {
        bytes_max: lines.len().saturating_mul(GROWTH_MAX).max(GROWTH_BYTES_MIN),
        item_bytes: request.stream.as_str().len() + request.source.len(),
        schema: columns,
        ..request.options
    };
    let origin = BatchOrigin {
        received_us: options.received_us,
        kind,
        stream: request.stream,
        source: request.source,
        identity: request.identity,
    };
    let permit = request.bulk.then(|| app.serving.intake.background_permit());
    let parsed = Parser::new(options).parse(lines);
    let parsed = parsed.map_err(|error| refused(app, &origin, &error))?;
    drop(permit);
    let summary = ParseSummary::of(&parsed);
    let has_items = parsed.events.num_rows() > 0 || !parsed.quarantine.is_empty();
    if request.debug || !has_items && origin.identity.is_none() {
        return Ok((Submission::Nothing(not_stored(&parsed)), summary));
    }
    // Under a limit the handler waits for the sync itself: see `acknowledged`.
    let concern = match request.wtimeout {
        Some(_) if durability == Durability::Synced => WriteConcern::ACKNOWLEDGED,
        _ => request.concern,
    };
    if length == Length::Long {
        // Lines in quarantine are rows, too.
        let bytes = parsed.events.get_array_memory_size().max(lines.len());
        app.serving.intake.wait_for_bulk_room(bytes);
    }
    let (send, receive) = oneshot::channel();
    let reply: Reply = Box::new(|outcome| {
        // A client that has gone does not learn it; a retry with its key will.
        let _ignored = send.send(outcome);
    });
    let submitted = app
        .serving
        .intake
        .submit(origin.batch(parsed), concern, reply);
    submitted.map_err(|e| Box::new(answer::of_storage(&e)))?;
    Ok((Submission::Waiting(receive), summary))
}

fn refused(app: &App, origin: &BatchOrigin, error: &ingest::Error) -> Box<Response> {
    app.serving.intake.count_refused(&origin.stream, 1);
    match error {
        ingest::Error::TooMuch { .. } => {}
        // Its sender can send it again when the key of hashes is readable.
        ingest::Error::CannotAnonymise { .. } => {
            let (status, why) = (StatusCode::SERVICE_UNAVAILABLE, error.to_string());
            return Box::new(answer::error(status, "cannot_anonymise", &why, None));
        }
        _ => return Box::new(answer::bad_request(error)),
    }
    Box::new(answer::error(
        StatusCode::PAYLOAD_TOO_LARGE,
        "too_large",
        &error.to_string(),
        Some("nothing of the request was stored; send fewer lines in one request"),
    ))
}

/// Returns the counts of a batch that the store does not get.
fn not_stored(parsed: &Parsed) -> Ack {
    Ack {
        accepted: parsed.events.num_rows() as u64,
        quarantined: parsed.quarantine.len() as u64,
        first_seq: None,
        last_seq: None,
        duplicate: false,
    }
}

/// Returns the fingerprint of a request, the same for requests that mean the same: of the lines and
/// of every option that changes their events. Their compression and the client's timeout do not
/// count.
fn fingerprint(lines: &[u8], options: &ParseOptions) -> u64 {
    let mut hasher = Xxh3Default::new();
    let flags = [u8::from(options.strict), u8::from(options.ordered)];
    let site = options.site.as_deref();
    let zone = options.tz.as_ref().and_then(|tz| tz.iana_name());
    let year = options.year.map(i16::to_le_bytes);
    let year: &[u8] = year.as_ref().map_or(&[], |year| year);
    for part in [
        lines,
        options.format.as_str().as_bytes(),
        &flags,
        &[u8::from(site.is_some())],
        site.unwrap_or_default().as_bytes(),
        zone.unwrap_or_default().as_bytes(),
    ] {
        hasher.update(&part.len().to_le_bytes());
        hasher.update(part);
    }
    // Without a year, the fingerprint is that of versions that knew none.
    hasher.update(year);
    hasher.digest()
}

/// Returns the encoding of a body; `None` for one without.
///
/// # Errors
/// The response to a body in an unknown encoding.
pub(super) fn encoding(headers: &HeaderMap) -> Result<Option<Encoding>, Box<Response>> {
    let Some(named) = headers.get(header::CONTENT_ENCODING) else {
        return Ok(None);
    };
    let named = String::from_utf8_lossy(named.as_bytes()).to_ascii_lowercase();
    match Encoding::of_name(&named) {
        None if !matches!(&*named, "identity" | "") => Err(Box::new(answer::error(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "unknown_encoding",
            &format!("Content-Encoding {named:?} is not supported"),
            Some("send gzip, zstd, deflate, snappy or no encoding"),
        ))),
        known => Ok(known),
    }
}

fn not_decompressed(error: ingest::Error) -> Response {
    match error {
        ingest::Error::Expands { .. } | ingest::Error::Ratio { .. } => too_large(error),
        _ => answer::bad_request(error),
    }
}
