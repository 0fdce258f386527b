//! Splunk's HTTP Event Collector below `/services/collector`.
//!
//! A request is answered when its events have reached their write concern, so an acknowledgement
//! that a client asks for later says the same again, after a restart too: no state is kept for it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::Router;
use axum::body::Body;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::{get, post};
use ingest::shippers::StreamRecords;
use ingest::shippers::hec::{HecDefaults, InvalidHec, decode_events, decode_lines};
use serde::Deserialize;
use serde_json::{Value, json};

use super::call::{ShipperCall, Tally};
use crate::server::answer;
use crate::server::app::App;
use crate::server::body;

/// The header of a client that asks for acknowledgements.
const CHANNEL: &str = "x-splunk-request-channel";
const ACK_BYTES_MAX: usize = 1 << 20;

/// The number of the next acknowledgement. Numbers of one run differ.
static NEXT_ACK: AtomicU64 = AtomicU64::new(0);

/// Returns the routes.
pub(super) fn routes() -> Router<Arc<App>> {
    Router::new()
        .route("/services/collector", post(events))
        .route("/services/collector/event", post(events))
        .route("/services/collector/event/1.0", post(events))
        .route("/services/collector/raw", post(lines))
        .route("/services/collector/raw/1.0", post(lines))
        .route("/services/collector/ack", post(ack))
        .route("/services/collector/health", get(health))
        .route("/services/collector/health/1.0", get(health))
}

async fn events(call: ShipperCall) -> Response {
    store(call, decode_events).await
}

async fn lines(call: ShipperCall) -> Response {
    let decode =
        |body: &[u8], defaults: HecDefaults<'_>| decode_lines(body, defaults).map(|s| vec![s]);
    store(call, decode).await
}

async fn store(
    call: ShipperCall,
    decode: impl FnOnce(&[u8], HecDefaults<'_>) -> Result<Vec<StreamRecords>, InvalidHec>
    + Send
    + 'static,
) -> Response {
    let has_channel = call.headers.contains_key(CHANNEL) || call.parameters.contains_key("channel");
    let given = call.parameters.clone();
    let decode = move |body: &[u8], fixed: Option<&str>| {
        let parameter = |name: &str| given.get(name).map(String::as_str);
        let defaults = HecDefaults {
            stream: fixed,
            index: parameter("index"),
            host: parameter("host"),
            source: parameter("source"),
            sourcetype: parameter("sourcetype"),
        };
        match decode(body, defaults) {
            Ok(streams) => Ok((streams, None)),
            // Not an error of the API's own: its body is the collector's.
            Err(invalid) => Ok((Vec::new(), Some(invalid))),
        }
    };
    let stored = call.store("splunk", None, decode).await;
    let tally = match stored {
        Ok((_, Some(invalid))) => return refuse(&invalid),
        Ok((outcomes, None)) => Tally::of(outcomes),
        Err(refused) => Err(refused),
    };
    let quarantined = match tally {
        Ok(tally) => tally.quarantined,
        Err(refused) => return *refused,
    };
    let mut body = json!({ "text": "Success", "code": 0 });
    if quarantined > 0 {
        body["quarantined"] = json!(quarantined);
    }
    if has_channel {
        body["ackId"] = json!(NEXT_ACK.fetch_add(1, Ordering::Relaxed));
    }
    answer::json(StatusCode::OK, &body)
}

fn refuse(invalid: &InvalidHec) -> Response {
    let mut error = json!({
        "code": "invalid",
        "message": invalid.reason,
        "hint": "nothing of the body was stored",
        "hec": invalid.code,
    });
    if let Some(event) = invalid.event {
        error["event"] = json!(event);
    }
    answer::json(StatusCode::BAD_REQUEST, &json!({ "error": error }))
}

#[derive(Deserialize)]
struct AckQuery {
    acks: Vec<u64>,
}

/// Answers that the asked numbers are stored: none was given out before.
async fn ack(body: Body) -> Response {
    let body = body::whole(body, ACK_BYTES_MAX).await.unwrap_or_default();
    let Ok(AckQuery { acks }) = serde_json::from_slice(&body) else {
        return answer::bad_request("write the numbers as {\"acks\":[0,1]}");
    };
    let acks: BTreeMap<String, Value> = acks
        .into_iter()
        .map(|ack| (ack.to_string(), json!(true)))
        .collect();
    answer::json(StatusCode::OK, &json!({ "acks": acks }))
}

async fn health() -> Response {
    answer::json(
        StatusCode::OK,
        &json!({ "text": "HEC is healthy", "code": 17 }),
    )
}
