//! OTLP over gRPC: the calls of an exporter, refusals, rights, and TLS.

use std::collections::BTreeMap;

use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::codegen::http::uri::PathAndQuery;
use tonic::metadata::{AsciiMetadataKey, MetadataValue};
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Status};

use super::{NS, export};
use crate::support::{Home, Server, run};

const EXPORT: &str = "/opentelemetry.proto.collector.logs.v1.LogsService/Export";
const LISTENS: (&str, &str) = ("LOGMILL_SERVER__OTLP_GRPC", "127.0.0.1:0");

/// Messages as their bytes: the test writes them itself.
#[derive(Default)]
struct Raw;

impl Codec for Raw {
    type Encode = Vec<u8>;
    type Decode = Vec<u8>;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for Raw {
    type Item = Vec<u8>;
    type Error = Status;

    fn encode(&mut self, message: Vec<u8>, to: &mut EncodeBuf<'_>) -> Result<(), Status> {
        bytes::BufMut::put_slice(to, &message);
        Ok(())
    }
}

impl Decoder for Raw {
    type Item = Vec<u8>;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<Vec<u8>>, Status> {
        let mut message = vec![0; bytes::Buf::remaining(from)];
        bytes::Buf::copy_to_slice(from, &mut message);
        Ok(Some(message))
    }
}

/// A server with its address for gRPC.
fn serve(home: &Home) -> (Server, String) {
    let server = Server::start_with(&home.data, &[LISTENS]);
    let url = server.announced("OTLP exporters (gRPC): ");
    (server, url)
}

async fn channel(url: &str) -> Channel {
    let endpoint = Endpoint::from_shared(url.to_owned()).expect("a URL");
    endpoint.connect().await.expect("a connection")
}

async fn call(
    channel: &Channel,
    path: &'static str,
    message: Vec<u8>,
    metadata: &[(&'static str, &str)],
) -> Result<Vec<u8>, Status> {
    let mut client = tonic::client::Grpc::new(channel.clone());
    client.ready().await.expect("a client");
    let mut request = Request::new(message);
    for (name, value) in metadata {
        let value = MetadataValue::try_from(*value).expect("metadata");
        let name = AsciiMetadataKey::from_static(name);
        request.metadata_mut().insert(name, value);
    }
    let path = PathAndQuery::from_static(path);
    let answer = client.unary(request, path, Raw).await;
    answer.map(tonic::Response::into_inner)
}

#[tokio::test]
async fn an_export_over_grpc_is_the_same_as_over_http() {
    let home = Home::new();
    let (server, url) = serve(&home);
    let channel = channel(&url).await;
    let stored = call(&channel, EXPORT, export(NS, "over gRPC"), &[]).await;
    assert_eq!(stored.expect("an answer"), b"", "a message without fields");
    let again = [("idempotency-key", "a"), ("x-logmill-j", "true")];
    for _ in 0..3 {
        let stored = call(&channel, EXPORT, export(NS, "with a key"), &again).await;
        stored.expect("an answer");
    }
    let elsewhere = [
        ("x-logmill-stream", "elsewhere"),
        ("x-logmill-w", "majority"),
    ];
    let stored = call(
        &channel,
        EXPORT,
        export(NS, "in another stream"),
        &elsewhere,
    )
    .await;
    stored.expect("an answer");
    let lines = |stream: &str| -> BTreeMap<String, u64> {
        let rows = server.sql(&format!(
            "SELECT line, count(*) AS n FROM {stream} GROUP BY line"
        ));
        let pair = |row: serde_json::Value| {
            let line = row["line"].as_str().expect("text").to_owned();
            (line, row["n"].as_u64().expect("a count"))
        };
        rows.into_iter().map(pair).collect()
    };
    let expected = [("over gRPC".to_owned(), 1), ("with a key".to_owned(), 1)];
    assert_eq!(lines("cart"), BTreeMap::from(expected));
    assert_eq!(lines("elsewhere").len(), 1);

    let future = export(4_000_000_000_000_000_000, "future");
    let partial = call(&channel, EXPORT, future, &[])
        .await
        .expect("an answer");
    assert_eq!(partial.first(), Some(&0x0a), "partial_success: {partial:?}");
    let text = String::from_utf8_lossy(&partial);
    assert!(text.contains("quarantine: future"), "{text}");

    let refused = |answer: Result<Vec<u8>, Status>| answer.expect_err("a refusal");
    let wrong = refused(call(&channel, EXPORT, b"nonsense".to_vec(), &[]).await);
    assert_eq!(wrong.code(), Code::InvalidArgument, "{wrong}");
    assert!(wrong.message().contains("no export of logs"), "{wrong}");
    let concern = [("x-logmill-w", "many")];
    let wrong = refused(call(&channel, EXPORT, export(NS, "x"), &concern).await);
    assert_eq!(wrong.code(), Code::InvalidArgument, "{wrong}");
    let traces = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";
    let wrong = refused(call(&channel, traces, Vec::new(), &[]).await);
    assert_eq!(wrong.code(), Code::Unimplemented);
    assert!(wrong.message().contains("stores logs"), "{wrong}");
    // A proxy may leave its own name in the call.
    let endpoint = Endpoint::from_shared(url).expect("a URL");
    let named = endpoint.origin("http://logs.example:443".parse().expect("a name"));
    let behind = named.connect().await.expect("a connection");
    let stored = call(&behind, EXPORT, export(NS, "through a proxy"), &elsewhere).await;
    stored.expect("an answer");
    let requests = server.get("/metrics").text();
    assert!(
        requests
            .lines()
            .any(|line| line.starts_with("logmill_http_requests_total")
                && line.contains("/v1/logs")
                && line.contains("200")),
        "calls are counted with the requests of their route: {requests}"
    );
}

#[tokio::test]
async fn calls_have_the_rights_of_their_tokens() {
    let home = Home::new();
    let token = |name: &str, role: &str, stream: &str| {
        let words = ["token", "create", name, "--role", role, "--stream", stream];
        let told = run(&[&words[..], &["--data", &home.data]].concat()).code(0);
        let token = told
            .stdout
            .split_whitespace()
            .find(|word| word.starts_with("lm"));
        format!("Bearer {}", token.expect("a token"))
    };
    let (cart, other) = (
        token("cart", "ingest", "cart"),
        token("other", "ingest", "other"),
    );
    let reads = token("reads", "read", "*");
    let (server, url) = serve(&home);
    let channel = channel(&url).await;
    for (token, code) in [
        (None, Some(Code::Unauthenticated)),
        (Some(&other), Some(Code::PermissionDenied)),
        (Some(&reads), Some(Code::PermissionDenied)),
        (Some(&cart), None),
    ] {
        let metadata: Vec<_> = token
            .map(|token| ("authorization", token.as_str()))
            .into_iter()
            .collect();
        let answer = call(&channel, EXPORT, export(NS, "one"), &metadata).await;
        assert_eq!(answer.err().map(|status| status.code()), code, "{token:?}");
    }
    let sql = "SELECT count(*) AS n FROM cart";
    let answer = server.sql_as(&format!("Authorization: {reads}"), sql);
    assert_eq!(answer[0]["n"], 1, "{answer}");
}
