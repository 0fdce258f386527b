//! OTLP over gRPC: the call `Export` of the service of logs is the request `POST /v1/logs` in
//! another frame, so that one handler, with its rights, shares and limits, serves both.
//!
//! Source: gRPC's "gRPC over HTTP2" (`Length-Prefixed-Message`), and the specification of OTLP,
//! "OTLP/gRPC".

mod frame;

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::request::Parts;
use axum::http::{
    HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, Uri, header,
};
use hyper::body::Incoming;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use prost::Message;
use tonic::{Code, Status};

use self::frame::{Sent, Unary};
use super::SharedApp;
use super::front::Front;
use super::shippers::RpcStatus;
use crate::failure::Result;
use crate::grpc::{Calls, Grpc, is_of_a_client};
use crate::listen::{Address, Listener, Peer};
use crate::serve::OpenService;

/// The port of an address without one, which OpenTelemetry has registered.
const PORT: u16 = 4317;
/// The call of exporters.
const EXPORT: &str = "/opentelemetry.proto.collector.logs.v1.LogsService/Export";
/// Services of the other signals.
const OTHER_SIGNALS: [&str; 2] = [
    "/opentelemetry.proto.collector.trace.",
    "/opentelemetry.proto.collector.metrics.",
];
/// Maximum time until the length of a message is there; the pace of the rest has its own limit.
const LENGTH_WITHIN: Duration = Duration::from_secs(10);
/// Maximum bytes of an answer.
const ANSWER_BYTES_MAX: usize = 64 << 10;
/// Headers of a call that mean the same in a request.
const KEPT: [&str; 5] = [
    "authorization",
    "x-api-key",
    "x-logmill-stream",
    "idempotency-key",
    "user-agent",
];
/// Compressions of messages.
const ENCODINGS: [&str; 3] = ["gzip", "zstd", "deflate"];
/// Metadata of a call that a request has as parameters.
const PARAMETERS: [(&str, &str); 3] = [
    ("x-logmill-w", "w"),
    ("x-logmill-j", "j"),
    ("x-logmill-wtimeout", "wtimeout"),
];

/// The calls of exporters.
#[derive(Debug)]
struct Exports {
    front: Front,
    /// The name under which the listener knows itself.
    host: HeaderValue,
}

/// Returns the listener at an address; `ready` is called with its URL. Returns `None` if it is off.
///
/// # Errors
/// If the address cannot be parsed.
pub(crate) fn otlp_grpc(
    address: &str,
    app: SharedApp,
    ready: impl FnOnce(&str) + 'static,
) -> Result<Option<OpenService>> {
    let Some(address) = Address::parse("--otlp-grpc", address, PORT)? else {
        return Ok(None);
    };
    Ok(Some(Box::new(move |serving| {
        let listener = address.bind(serving)?;
        let address = listener.local_addr()?;
        let front = Front::new(app.of(serving), address);
        ready(&super::url_of(address, serving.tls.is_some()));
        let host = address.to_string();
        let host = HeaderValue::try_from(host).expect("BUG: an address is ASCII");
        let calls = Arc::new(Exports { front, host });
        let service = Listener::new("otlp_grpc", serving, listener, Grpc { calls });
        Ok(Some(Box::new(service)))
    })))
}

impl Calls for Exports {
    async fn answer(&self, call: Request<Incoming>, peer: &Peer) -> Response<tonic::body::Body> {
        if !is_of_a_client(call.headers()) {
            let mut refused = Response::new(tonic::body::Body::default());
            *refused.status_mut() = StatusCode::UNSUPPORTED_MEDIA_TYPE;
            return refused;
        }
        match self.export(call, peer).await {
            Ok(message) => Unary::response(&message),
            Err(status) => status.into_http(),
        }
    }
}

impl Exports {
    /// Hands a call to the route of HTTP. Returns the message of its answer.
    async fn export(&self, call: Request<Incoming>, peer: &Peer) -> Result<Bytes, Status> {
        let (head, body) = call.into_parts();
        check_path(head.uri.path())?;
        let sent = tokio::time::timeout(LENGTH_WITHIN, Sent::read(Body::new(body)));
        let late = |_| Status::deadline_exceeded("the call has sent no message in 10 s");
        let sent = sent.await.map_err(late)??;
        let headers = self.headers(&head, sent.is_compressed)?;
        let mut request = Request::new(sent.body);
        *request.method_mut() = Method::POST;
        *request.uri_mut() = target(&head.headers)?;
        *request.headers_mut() = headers;
        request.extensions_mut().insert(peer.clone());
        let response = self.front.answer(request).await;
        let status = response.status();
        let body = axum::body::to_bytes(response.into_body(), ANSWER_BYTES_MAX).await;
        let body = body.map_err(|error| Status::internal(error.to_string()))?;
        if status == StatusCode::OK {
            return Ok(body);
        }
        let error = RpcStatus::decode(body).unwrap_or_default();
        let code = match status {
            // Exporters lose what is refused with RESOURCE_EXHAUSTED or INVALID_ARGUMENT.
            StatusCode::TOO_MANY_REQUESTS => Code::Unavailable,
            _ => Code::from(error.code),
        };
        Err(Status::new(code, error.message))
    }
}

impl Exports {
    /// Returns the headers of the request. The name by which the client knows the server is left
    /// out: a proxy may have changed it, and no page of a browser can make a call.
    fn headers(&self, call: &Parts, is_compressed: bool) -> Result<HeaderMap, Status> {
        let mut headers = HeaderMap::new();
        for name in KEPT {
            for value in call.headers.get_all(name) {
                headers.append(HeaderName::from_static(name), value.clone());
            }
        }
        headers.insert(header::HOST, self.host.clone());
        let protobuf = HeaderValue::from_static("application/x-protobuf");
        headers.insert(header::CONTENT_TYPE, protobuf);
        if is_compressed {
            headers.insert(header::CONTENT_ENCODING, encoding(&call.headers)?);
        }
        Ok(headers)
    }
}

/// Returns the compression of the message, if it means the same in both protocols: snappy of gRPC
/// has frames, and that of HTTP none.
fn encoding(metadata: &HeaderMap) -> Result<HeaderValue, Status> {
    let named = metadata.get("grpc-encoding").map(HeaderValue::as_bytes);
    let known = ENCODINGS
        .iter()
        .find(|known| named == Some(known.as_bytes()));
    if let Some(known) = known {
        return Ok(HeaderValue::from_static(known));
    }
    let accepted = ENCODINGS.join(",");
    let mut refused = Status::unimplemented(format!("the compression is none of {accepted}"));
    let accepted = accepted.parse().expect("BUG: names are ASCII");
    refused
        .metadata_mut()
        .insert("grpc-accept-encoding", accepted);
    Err(refused)
}

/// Checks the name of a call. Exporters do not send a call again that is not served.
fn check_path(path: &str) -> Result<(), Status> {
    if path == EXPORT {
        return Ok(());
    }
    Err(Status::unimplemented(
        match OTHER_SIGNALS.iter().any(|name| path.starts_with(name)) {
            true => "Logmill stores logs; it takes neither traces nor metrics; send them elsewhere, or set the exporter of this signal to none".to_owned(),
            false => format!("{path} is not served; this listener takes {EXPORT}"),
        },
    ))
}

/// Returns the path and the parameters of the request.
fn target(metadata: &HeaderMap) -> Result<Uri, Status> {
    let mut target = "/v1/logs?".to_owned();
    for (name, parameter) in PARAMETERS {
        if let Some(value) = metadata.get(name) {
            let value = String::from_utf8_lossy(value.as_bytes());
            let value = utf8_percent_encode(&value, NON_ALPHANUMERIC);
            target += &format!("{parameter}={value}&");
        }
    }
    let parsed = target.parse();
    parsed.map_err(|_| Status::invalid_argument("the metadata x-logmill-… are too long"))
}
