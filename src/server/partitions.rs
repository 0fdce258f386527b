//! `/api/v1/partitions`: lists, drops, detaches, attaches, retains and compacts partitions.

use std::collections::HashMap;
use std::sync::Arc;

use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::Response;
use serde::Serialize;
use storage::{Name, PartitionReport, Store};

use super::app::App;
use super::status::Who;
use super::{answer, status};
use crate::dates::range;

pub(super) async fn list(State(app): State<Arc<App>>, who: Who) -> Response {
    status::rows(&app, &who, "SELECT * FROM system.partitions").await
}

/// Parameters of a request: `stream`, `date` and `dry_run`.
struct PartitionParameters(HashMap<String, String>);

impl PartitionParameters {
    fn text(&self, name: &str) -> &str {
        self.0.get(name).map_or("", String::as_str)
    }

    fn stream(&self) -> Result<Name, String> {
        Name::new(self.text("stream")).map_err(|e| e.to_string())
    }

    /// Returns the stream, if the request names one.
    fn only(&self) -> Result<Option<Name>, String> {
        match self.text("stream") {
            "" => Ok(None),
            _ => self.stream().map(Some),
        }
    }

    fn range_us(&self) -> Result<(i64, i64), String> {
        range(self.text("date"))
    }

    fn dry(&self) -> Result<bool, String> {
        match self.text("dry_run") {
            "" | "false" | "0" => Ok(false),
            "true" | "1" => Ok(true),
            other => Err(format!("dry_run={other}: write true or false")),
        }
    }
}

/// Runs disk work and answers with its report.
async fn answer_with<T: Serialize + Send + 'static>(
    app: &App,
    work: Result<impl FnOnce(&Store) -> storage::Result<T> + Send + 'static, String>,
) -> Response {
    match work {
        Ok(work) => answer::of_work(StatusCode::OK, &app.serving.store, work).await,
        Err(wrong) => answer::bad_request(wrong),
    }
}

/// A change of a range of partitions; a dry run if the last argument is true.
type Change = fn(&Store, &Name, (i64, i64), bool) -> storage::Result<PartitionReport>;

async fn change(app: &App, parameters: PartitionParameters, change: Change) -> Response {
    let work = || -> Result<_, String> {
        let (dry, stream, range_us) = (
            parameters.dry()?,
            parameters.stream()?,
            parameters.range_us()?,
        );
        Ok(move |store: &Store| change(store, &stream, range_us, dry))
    };
    answer_with(app, work()).await
}

/// `DELETE /api/v1/partitions?stream=&date=&dry_run=`.
pub(super) async fn drop(
    State(app): State<Arc<App>>,
    Query(parameters): Query<HashMap<String, String>>,
) -> Response {
    change(
        &app,
        PartitionParameters(parameters),
        Store::drop_partitions,
    )
    .await
}

/// `POST /api/v1/partitions/detach?stream=&date=&dry_run=`.
pub(super) async fn detach(
    State(app): State<Arc<App>>,
    Query(parameters): Query<HashMap<String, String>>,
) -> Response {
    change(
        &app,
        PartitionParameters(parameters),
        Store::detach_partitions,
    )
    .await
}

/// `POST /api/v1/partitions/attach?stream=&date=`.
pub(super) async fn attach(
    State(app): State<Arc<App>>,
    Query(parameters): Query<HashMap<String, String>>,
) -> Response {
    let parameters = PartitionParameters(parameters);
    let work = || -> Result<_, String> {
        let (stream, range_us) = (parameters.stream()?, parameters.range_us()?);
        Ok(move |store: &Store| store.attach_partitions(&stream, range_us))
    };
    answer_with(&app, work()).await
}

/// `POST /api/v1/partitions/retain?stream=&dry_run=`; every stream when none is named.
pub(super) async fn retain(
    State(app): State<Arc<App>>,
    Query(parameters): Query<HashMap<String, String>>,
) -> Response {
    let parameters = PartitionParameters(parameters);
    let work = || -> Result<_, String> {
        let (dry, only) = (parameters.dry()?, parameters.only()?);
        Ok(move |store: &Store| store.retain(only.as_ref(), dry))
    };
    answer_with(&app, work()).await
}

/// `POST /api/v1/partitions/compact?stream=`: merges parts until nothing is left to merge.
pub(super) async fn compact(
    State(app): State<Arc<App>>,
    Query(parameters): Query<HashMap<String, String>>,
) -> Response {
    let only = PartitionParameters(parameters).only();
    let work = only.map(|only| move |store: &Store| store.compact_parts(only.as_ref(), true));
    answer_with(&app, work).await
}
