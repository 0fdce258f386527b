//! Bodies in the lanes of parsing: they wait for a place, and are decompressed where they are
//! parsed.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::Response;
use ingest::Encoding;
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use super::BulkTurn;
use super::response::too_large;
use crate::serve::{Client, Length, SHORT_BYTES_MAX, keep_for};
use crate::server::app::App;
use crate::server::{answer, body};

/// A client whose body was decompressed in vain rests for so many times as long as that took, so
/// that bombs take no more than a tenth of a thread however many connections send them.
const REST_TIMES: u32 = 9;

/// A body as it was sent.
#[derive(Debug)]
pub(in crate::server) struct SentBody {
    pub(super) bytes: Bytes,
    encoding: Option<Encoding>,
    /// Maximum bytes of the body, decompressed.
    limit: usize,
    length: Length,
}

/// A decompressed body, in the lane that it needs.
#[derive(Debug)]
pub(in crate::server) struct Decoded {
    pub(in crate::server) lines: Bytes,
    /// The body as it was sent.
    pub(super) sent: Bytes,
    pub(in crate::server) length: Length,
}

impl SentBody {
    /// Reads the body of a request; a bulk request counts as long.
    ///
    /// # Errors
    /// The response to a body that is too long or in an unknown encoding.
    pub(in crate::server) async fn read(
        app: &App,
        headers: &HeaderMap,
        body: Body,
        is_bulk: bool,
    ) -> Result<Self, Box<Response>> {
        let limit = app.serving.config.server.batch_bytes_max.0;
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let Some(bytes) = body::whole(body, limit).await else {
            let limit = format!("has more than {limit} bytes, decompressed");
            return Err(Box::new(too_large(ingest::Error::Expands { limit })));
        };
        let length = match is_bulk {
            true => Length::Long,
            false => Length::of(bytes.len()),
        };
        Ok(Self {
            bytes,
            encoding: encoding(headers)?,
            limit,
            length,
        })
    }

    /// Returns the body in this encoding, unless its request named one.
    pub(in crate::server) fn or_encoded(self, unnamed: Option<Encoding>) -> Self {
        Self {
            encoding: self.encoding.or(unnamed),
            ..self
        }
    }

    /// Decompresses the body; `None` if it is long, which is found out here alone for a compressed
    /// one.
    fn decode(&self) -> ingest::Result<Option<Decoded>> {
        let decoded = |lines| Decoded {
            lines,
            sent: self.bytes.clone(),
            length: self.length,
        };
        let Some(encoding) = self.encoding else {
            return Ok(Some(decoded(self.bytes.clone())));
        };
        let most = match self.length {
            Length::Short => self.limit.min(SHORT_BYTES_MAX),
            Length::Long => self.limit,
        };
        match encoding.decompress(&self.bytes, most) {
            Err(ingest::Error::Expands { .. }) if most < self.limit => Ok(None),
            outcome => outcome.map(|lines| Some(decoded(lines.into()))),
        }
    }
}

/// The outcome of one attempt to decompress a body and do its job.
enum Attempt<T, J> {
    Done(ingest::Result<T>),
    /// The body is longer than its compressed bytes let expect, and needs a place among long ones.
    IsLong(SentBody, J),
}

/// A job in its lane.
pub(in crate::server) struct Queued<T, J>(oneshot::Receiver<Attempt<T, J>>);

/// Waits for a place in the lane of a body, or has the turn of a bulk request, and begins its
/// `job` on a thread that may block.
pub(in crate::server) async fn queue<T, J>(
    app: &Arc<App>,
    who: &Client,
    turn: Option<&BulkTurn<'_>>,
    body: SentBody,
    job: J,
) -> Queued<T, J>
where
    T: Send + 'static,
    J: FnOnce(Decoded) -> T + Send + 'static,
{
    let (done, queued) = oneshot::channel();
    let length = body.length;
    let run = move || {
        let began = Instant::now();
        let mut rest = Duration::ZERO;
        let attempt = match body.decode() {
            Ok(Some(decoded)) => Attempt::Done(Ok(job(decoded))),
            Ok(None) => Attempt::IsLong(
                SentBody {
                    length: Length::Long,
                    ..body
                },
                job,
            ),
            Err(error) => {
                rest = began.elapsed() * REST_TIMES;
                Attempt::Done(Err(error))
            }
        };
        // A client that has gone does not wait for this.
        let _ignored = done.send(attempt);
        rest
    };
    match turn {
        // One thread of a low priority serves all bulk requests, in turn.
        Some(turn) => {
            let (handle, of_client) = (Handle::current(), turn.of_client.clone());
            turn.turn.run(move || keep_for(&handle, run(), of_client));
        }
        None => {
            let place = app.serving.parsing.place(who.share(), length).await;
            app.serving.parsing.run_and_rest(place, run);
        }
    }
    Queued(queued)
}

impl<T, J> Queued<T, J>
where
    T: Send + 'static,
    J: FnOnce(Decoded) -> T + Send + 'static,
{
    /// Waits until the job is done, with another place if the body turns out long.
    ///
    /// # Errors
    /// The response to a body that cannot be decompressed.
    pub(in crate::server) async fn done(
        mut self,
        app: Arc<App>,
        who: Client,
    ) -> Result<T, Box<Response>> {
        loop {
            match self.0.await.map_err(|_| Box::new(task_failed()))? {
                Attempt::Done(done) => return done.map_err(|e| Box::new(not_decompressed(e))),
                Attempt::IsLong(body, job) => self = queue(&app, &who, None, body, job).await,
            }
        }
    }
}

fn task_failed() -> Response {
    answer::error(
        StatusCode::INTERNAL_SERVER_ERROR,
        "internal",
        "the request's task failed; see the server's log",
        None,
    )
}

/// Returns the encoding of a body; `None` for one without.
fn encoding(headers: &HeaderMap) -> Result<Option<Encoding>, Box<Response>> {
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
