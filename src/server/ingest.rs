//! `POST /api/v1/ingest/{stream}`: lines or NDJSON in one body are one batch, one journal record.

mod batch;
mod parameters;
mod response;
pub(super) mod unacknowledged;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use storage::{Ack, Durability, Identity, Name};
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use self::batch::{Attempt, Submission, Unparsed, attempt};
use self::parameters::LinesRequest;
use self::response::{ParseSummary, success, too_large, too_late, too_many_unacknowledged};
use super::app::App;
use super::status::Who;
use super::{answer, body};
use crate::serve::{Client, ClientPlace, Counted, Length, Resource, SHORT_BYTES_MAX, Turn};

/// Interval at which the end of the synced journal is read while a `wtimeout` runs.
const SYNC_POLL: Duration = Duration::from_millis(2);

pub(super) async fn ingest(
    State(app): State<Arc<App>>,
    who: Who,
    Path(name): Path<String>,
    Query(parameters): Query<HashMap<String, String>>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    let request = match LinesRequest::read(&app.serving.config, &name, &parameters, &headers) {
        Ok(request) => request,
        Err(why) => return answer::bad_request(why),
    };
    if let Some(Identity::Range { producer, .. }) = &request.identity
        && !who.may_use_producer(producer)
    {
        return answer::foreign_producer();
    }
    let stored = async {
        let unparsed = read(&app, request, &headers, body).await?;
        store(&app, &who, unparsed).await
    };
    stored.await.unwrap_or_else(|refused| *refused)
}

/// Reads the body of a request.
async fn read(
    app: &App,
    request: LinesRequest,
    headers: &HeaderMap,
    body: Body,
) -> Result<Unparsed, Box<Response>> {
    let limit = usize::try_from(app.serving.config.server.batch_bytes_max.0).unwrap_or(usize::MAX);
    let durability = app.serving.intake.gives(request.concern);
    let durability = durability.map_err(|error| Box::new(answer::bad_request(error)))?;
    let count_refused = || app.serving.intake.count_refused(&request.stream, 1);
    let Some(body) = body::whole(body, limit).await else {
        count_refused();
        let limit = ingest::Error::Expands {
            limit: format!("has more than {limit} bytes, decompressed"),
        };
        return Err(Box::new(too_large(limit)));
    };
    let encoding = batch::encoding(headers).inspect_err(|_| count_refused())?;
    let length = match request.bulk || body.len() > SHORT_BYTES_MAX {
        true => Length::Long,
        false => Length::Short,
    };
    Ok(Unparsed {
        request,
        durability,
        body,
        encoding,
        limit,
        length,
    })
}

/// Parses a request, hands its batch to the store, and answers when the store has it.
async fn store(
    app: &Arc<App>,
    who: &Client,
    unparsed: Unparsed,
) -> Result<Response, Box<Response>> {
    let permit = unacknowledged_permit(app, who, &unparsed)?;
    let (durability, request) = (unparsed.durability, &unparsed.request);
    let (stream, wtimeout) = (request.stream.clone(), request.wtimeout);
    let turn = match request.bulk {
        true => Some(BulkTurn {
            _of_client: who.share().bulk().await,
            turn: app.serving.bulk.turn().await,
        }),
        false => {
            app.serving.intake.note_foreground();
            None
        }
    };
    let queued = queue(app, who, turn.as_ref(), unparsed).await;
    let submitted = submitted(Arc::clone(app), who.clone(), queued);
    if let Some(permit) = permit {
        tokio::spawn(async move {
            // Nobody learns the outcome.
            let _ignored = submitted.await;
            drop(permit);
        });
        return Ok(response::unacknowledged());
    }
    let (waiting, summary) = match submitted.await? {
        (Submission::Nothing(ack), summary) => {
            return Ok(success(&[ack], &summary, durability));
        }
        (Submission::Waiting(waiting), summary) => (waiting, summary),
    };
    let acknowledged = acknowledged(app, waiting, durability, wtimeout).await;
    if let Some(mut turn) = turn
        && turn.turn.is_to_count()
    {
        make_cells(app, &turn.turn, stream);
    }
    Ok(success(&acknowledged?, &summary, durability))
}

/// The turn of a bulk request, and its place among those of its client.
struct BulkTurn<'a> {
    _of_client: Option<ClientPlace>,
    turn: Turn<'a>,
}

/// The outcome of a job that parses a body.
type Queued = oneshot::Receiver<Result<Attempt, Box<Response>>>;

/// Waits for a place in the lane of a body, or has the turn of a bulk request, and begins to parse.
async fn queue(
    app: &Arc<App>,
    who: &Client,
    turn: Option<&BulkTurn<'_>>,
    unparsed: Unparsed,
) -> Queued {
    let (done, queued) = oneshot::channel();
    let (for_run, length) = (Arc::clone(app), unparsed.length);
    let run = move || {
        // A client that has gone does not wait for this.
        let _ignored = done.send(attempt(&for_run, unparsed));
    };
    match turn {
        Some(turn) => turn.turn.run(run),
        None => {
            let place = app.serving.parsing.place(who.share(), length).await;
            app.serving.parsing.run(place, run);
        }
    }
    queued
}

/// Waits until the store has the batch of a body, which may turn out long.
async fn submitted(
    app: Arc<App>,
    who: Client,
    mut queued: Queued,
) -> Result<(Submission, ParseSummary), Box<Response>> {
    loop {
        match queued.await.map_err(|_| Box::new(task_failed()))?? {
            Attempt::Submitted(submission, summary) => return Ok((submission, summary)),
            Attempt::IsLong(long) => queued = queue(&app, &who, None, *long).await,
        }
    }
}

type UnacknowledgedPermit = (Option<Counted>, OwnedSemaphorePermit);

/// Returns the permit of a request that is answered before it is parsed; no other needs one.
fn unacknowledged_permit(
    app: &App,
    who: &Client,
    unparsed: &Unparsed,
) -> Result<Option<UnacknowledgedPermit>, Box<Response>> {
    let request = &unparsed.request;
    if unparsed.durability != Durability::Unacknowledged || request.debug {
        return Ok(None);
    }
    let bytes = unacknowledged::counted(&unparsed.body);
    let of_client = who
        .share()
        .take(Resource::UnacknowledgedBytes, bytes.into());
    let of_client = of_client.map_err(|exceeded| Box::new(answer::of_share(&exceeded)));
    let taken = of_client.and_then(|of_client| {
        let of_all = app.unacknowledged.permit(bytes);
        let of_all = of_all.ok_or_else(|| Box::new(too_many_unacknowledged()))?;
        Ok(Some((of_client, of_all)))
    });
    taken.inspect_err(|_| app.serving.intake.count_refused(&request.stream, 1))
}

fn task_failed() -> Response {
    answer::error(
        StatusCode::INTERNAL_SERVER_ERROR,
        "internal",
        "the request's task failed; see the server's log",
        None,
    )
}

/// Counts the events of a backfill before its next piece, so that the next chart need not.
fn make_cells(app: &Arc<App>, turn: &Turn<'_>, stream: Name) {
    let app = Arc::clone(app);
    turn.run(move || {
        if let Err(error) = app.serving.make_cells(&stream) {
            tracing::warn!(%error, "could not count imported events in advance; the next query counts them");
        }
    });
}

/// Waits until the concern is reached, or `wtimeout` is over: then the batch is stored, or will be,
/// but the concern was not reached in time.
async fn acknowledged(
    app: &App,
    waiting: oneshot::Receiver<storage::Result<Vec<Ack>>>,
    durability: Durability,
    wtimeout: Option<Duration>,
) -> Result<Vec<Ack>, Box<Response>> {
    let began = Instant::now();
    let answered = match wtimeout {
        None => waiting.await,
        Some(limit) => tokio::time::timeout(limit, waiting)
            .await
            .map_err(|_| Box::new(too_late(limit, &[])))?,
    };
    let acks = match answered {
        Ok(Ok(acks)) => acks,
        Ok(Err(error)) => return Err(Box::new(answer::of_storage(&error))),
        Err(_) => return Err(Box::new(answer::of_storage(&storage::Error::Closed))),
    };
    // Under a limit the batch was submitted with w=1, so that its sequence numbers are known when
    // the sync is late; the rest of the concern is waited for here.
    if let (Some(limit), Durability::Synced) = (wtimeout, durability) {
        while !app.serving.intake.is_synced(&acks) {
            if began.elapsed() >= limit {
                return Err(Box::new(too_late(limit, &acks)));
            }
            tokio::time::sleep(SYNC_POLL).await;
        }
    }
    Ok(acks)
}
