//! Protocols of shippers over HTTP: Elasticsearch's `_bulk`, Loki's push, OTLP, Splunk's collector,
//! the upload of systemd's journal.
//!
//! Each decodes a body to records of streams (`ingest::shippers`) and answers in its own form; the
//! way between the two is the same for all ([`call`]).
//!
//! # Invariants
//! * A request is answered with success only after every stream of its body has reached its write
//!   concern.
//! * A client writes only into streams that it may write into, whatever the body names.

mod call;
mod elastic;
mod errors;
mod hec;
mod journald;
mod loki;
mod otlp;
mod parameters;

use std::sync::Arc;

use axum::Router;
use axum::routing::get;

use super::app::App;

pub(super) use elastic::{greeting, is_greeted};
pub(super) use errors::{ErrorForm, RpcStatus};
pub(super) use parameters::{ELASTIC, HEC, HEC_ACK, PUSH};

/// Returns the routes.
pub(super) fn routes() -> Router<Arc<App>> {
    let elastic = elastic::routes();
    Router::new()
        .route("/elasticsearch", get(greeting))
        .route("/elasticsearch/", get(greeting))
        .nest("/elasticsearch", elastic.clone())
        .merge(elastic)
        .merge(hec::routes())
        .merge(journald::routes())
        .merge(loki::routes())
        .merge(otlp::routes())
}
