//! `POST /api/v1/ingest/{stream}`: lines or NDJSON in one body are one batch, one journal record.

pub(super) mod batch;
pub(super) mod lane;
mod parameters;
mod response;
pub(super) mod unacknowledged;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{Path, Query, State};
use axum::http::HeaderMap;
use axum::response::Response;
use storage::{Ack, Durability, Identity, Name};
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use self::lane::{Decoded, Queued, SentBody};
use self::parameters::LinesRequest;
use self::response::{ParseSummary, success, too_late, too_many_unacknowledged};
use super::answer;
use super::app::App;
use super::status::Who;
use crate::serve::{Client, ClientPlace, Counted, NotReached, Resource, Submission, Turn, reached};

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
        let durability = app.serving.intake.gives(request.concern);
        let durability = durability.map_err(|error| Box::new(answer::bad_request(error)))?;
        let body = SentBody::read(&app, &headers, body, request.bulk).await;
        let count_refused = |_: &_| app.serving.intake.count_refused(&request.stream, 1);
        let body = body.inspect_err(count_refused)?;
        store(&app, &who, request, durability, body).await
    };
    stored.await.unwrap_or_else(|refused| *refused)
}

/// Parses a request, hands its batch to the store, and answers when the store has it.
async fn store(
    app: &Arc<App>,
    who: &Client,
    request: LinesRequest,
    durability: Durability,
    body: SentBody,
) -> Result<Response, Box<Response>> {
    let permit = unacknowledged_permit(app, who, &request, durability, &body.bytes)?;
    let (stream, wtimeout) = (request.stream.clone(), request.wtimeout);
    let turn = match request.bulk {
        true => Some(BulkTurn {
            of_client: who.share().bulk().await.map(Arc::new),
            turn: app.serving.bulk.turn().await,
        }),
        false => {
            app.serving.intake.note_foreground();
            None
        }
    };
    let serving = Arc::clone(&app.serving);
    let job = move |body| batch::submit(&serving, request, durability, body);
    let queued = lane::queue(app, who, turn.as_ref(), body, job).await;
    let submitted = submitted(Arc::clone(app), who.clone(), stream.clone(), queued);
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
pub(super) struct BulkTurn<'a> {
    of_client: Option<Arc<ClientPlace>>,
    turn: Turn<'a>,
}

/// A request of which the store has the batch.
type Submitted = Result<(Submission, ParseSummary), Box<Response>>;

/// Waits until the store has the batch of a body.
async fn submitted<J>(
    app: Arc<App>,
    who: Client,
    stream: Name,
    queued: Queued<Submitted, J>,
) -> Submitted
where
    J: FnOnce(Decoded) -> Submitted + Send + 'static,
{
    let intake = Arc::clone(&app.serving.intake);
    let done = queued.done(app, who).await;
    done.inspect_err(|_| intake.count_refused(&stream, 1))?
}

type UnacknowledgedPermit = (Option<Counted>, OwnedSemaphorePermit);

/// Returns the permit of a request that is answered before it is parsed; no other needs one.
fn unacknowledged_permit(
    app: &App,
    who: &Client,
    request: &LinesRequest,
    durability: Durability,
    body: &Bytes,
) -> Result<Option<UnacknowledgedPermit>, Box<Response>> {
    if durability != Durability::Unacknowledged || request.debug {
        return Ok(None);
    }
    let bytes = unacknowledged::counted(body);
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
pub(super) async fn acknowledged(
    app: &App,
    waiting: oneshot::Receiver<storage::Result<Vec<Ack>>>,
    durability: Durability,
    wtimeout: Option<Duration>,
) -> Result<Vec<Ack>, Box<Response>> {
    let reached = reached(&*app.serving.intake, waiting, durability, wtimeout).await;
    reached.map_err(|why| {
        Box::new(match why {
            NotReached::Failed(error) => answer::of_storage(&error),
            NotReached::TooLate(acks) => too_late(wtimeout.unwrap_or_default(), &acks),
        })
    })
}
