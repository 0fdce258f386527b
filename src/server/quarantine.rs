//! `/api/v1/quarantine`: lists, explains, replays and drops quarantined items.

use std::collections::HashMap;
use std::sync::Arc;

use axum::extract::{Query, State};
use axum::response::Response;
use serde_json::Value;

use super::app::App;
use super::status::Who;
use super::{answer, status};
use crate::failure::{Failure, Result};
use crate::quarantine::{QuarantineRequest, QuarantineWork, explain as explain_item};

pub(super) const CHOICE: [&str; 2] = ["stream", "reason"];
pub(super) const EXPLAIN: [&str; 6] = ["seq", "stream", "reason", "format", "tz", "site"];
pub(super) const REPLAY: [&str; 6] = ["stream", "reason", "format", "tz", "site", "dry_run"];
pub(super) const DROP: [&str; 4] = ["stream", "reason", "before", "dry_run"];

type Parameters = Query<HashMap<String, String>>;

/// `GET /api/v1/quarantine?stream=&reason=`.
pub(super) async fn list(
    State(app): State<Arc<App>>,
    who: Who,
    Query(asked): Parameters,
) -> Response {
    let sql = read(&asked, &CHOICE).and_then(|asked| asked.list_sql());
    match sql {
        Ok(sql) => status::rows(&app, &who, &sql).await,
        Err(failure) => answer::of_failure(&failure),
    }
}

/// Handles `GET /api/v1/quarantine/explain?seq=&stream=&reason=&format=&tz=&site=`; `text` is the
/// whole explanation as a terminal shows it.
pub(super) async fn explain(
    State(app): State<Arc<App>>,
    who: Who,
    Query(asked): Parameters,
) -> Response {
    let store = Arc::clone(&app.serving.store);
    answer::in_turn(&who, move || {
        let asked = read(&asked, &EXPLAIN)?;
        let (choice, reading) = (asked.choice()?, asked.reading()?);
        let snapshot = store.snapshot();
        let said = explain_item(&app.serving.config, &snapshot, asked.seq, &choice, &reading)?;
        let mut whole = serde_json::to_value(&said).map_err(anyhow::Error::from)?;
        whole["text"] = Value::String(said.to_string());
        Ok(whole)
    })
    .await
}

/// `POST /api/v1/quarantine/replay?stream=&reason=&format=&tz=&site=&dry_run=`.
pub(super) async fn replay(
    State(app): State<Arc<App>>,
    who: Who,
    Query(asked): Parameters,
) -> Response {
    answer::in_turn(&who, move || {
        let asked = read(&asked, &REPLAY)?;
        let (choice, reading) = (asked.choice()?, asked.reading()?);
        with_work(&app, &asked, |work| {
            work.replay(&app.serving.store.snapshot(), &choice, &reading)
        })
    })
    .await
}

/// `POST /api/v1/quarantine/drop?stream=&reason=&before=&dry_run=`.
pub(super) async fn drop(
    State(app): State<Arc<App>>,
    who: Who,
    Query(asked): Parameters,
) -> Response {
    answer::in_turn(&who, move || {
        let asked = read(&asked, &DROP)?;
        let choice = asked.choice()?;
        with_work(&app, &asked, |work| {
            work.drop(&app.serving.store.snapshot(), &choice)
        })
    })
    .await
}

fn read<'a>(asked: &'a HashMap<String, String>, known: &[&str]) -> Result<QuarantineRequest<'a>> {
    let pairs = asked.iter().map(|(name, text)| (&**name, &**text));
    QuarantineRequest::of(pairs, known).map_err(Failure::usage)
}

fn with_work<T>(
    app: &App,
    asked: &QuarantineRequest<'_>,
    what: impl FnOnce(&QuarantineWork<'_>) -> Result<T>,
) -> Result<T> {
    let shards = app.serving.shards.as_ref();
    what(&QuarantineWork {
        config: &app.serving.config,
        store: (!asked.dry_run).then_some(&*app.serving.store),
        agree: &|batch| shards.map_or(Ok(()), |shards| shards.agree(batch)),
        stop: &|| app.serving.stop.is_set(),
        progress: &|_| (),
    })
}
