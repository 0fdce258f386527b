//! `POST /api/v1/ingest/{stream}`: lines or NDJSON in one body are one batch, one journal record.

pub(super) mod unacknowledged;

use std::collections::{BTreeMap, HashMap};
use std::io::Read;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes};
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::Response;
use ingest::{ParseOptions, Parsed, Parser};
use serde_json::json;
use storage::{Ack, Batch, Clock, Identity, Name, StreamKind, SystemClock, WriteConcern};
use tokio::sync::oneshot;
use xxhash_rust::xxh3::{Xxh3Default, xxh3_64};

use super::app::App;
use super::{answer, body};
use crate::serve::Turn;

/// Failed items that an answer lists; the others are counted.
const ERRORS_MAX: usize = 1000;
pub(super) const PARAMETERS: [&str; 17] = [
    "format", "site", "w", "j", "ordered", "debug", "strict", "tz", "source", "line", "producer",
    "from", "to", "content", "wtimeout", "bulk", "values",
];
/// The longest `site` and `source`, in bytes: rows of a batch repeat them.
const TEXT_BYTES_MAX: usize = 1024;
/// The longest `producer`, in bytes: a batch names it once. Those of imports hold a site and a
/// source.
const PRODUCER_BYTES_MAX: usize = 8192;
/// The longest `Idempotency-Key`, in bytes.
const KEY_BYTES_MAX: usize = 255;
/// The rows of a request may take so many times its decompressed bytes, in memory and in the
/// journal, and this much at any rate: very short lines cost far more than they are long.
const GROWTH_MAX: usize = 4;
const GROWTH_BYTES_MIN: usize = 256 << 20;
/// How often the end of the synced journal is looked at while a `wtimeout` runs.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// What a request asks for.
struct Asked {
    stream: Name,
    concern: WriteConcern,
    options: ParseOptions,
    identity: Option<Identity>,
    source: Arc<str>,
    debug: bool,
    /// How long the write concern may take to be reached; without it, as long as it takes.
    wtimeout: Option<Duration>,
    /// Much that is old: everybody else goes first.
    bulk: bool,
}

/// An item that was not taken.
struct Failed {
    index: u64,
    reason: String,
}

/// What is told of a parse, apart from what the store says.
struct Told {
    empty: u64,
    by_reason: BTreeMap<&'static str, u64>,
    /// There were lines, and none has a format that is known.
    is_unknown: bool,
    errors: Vec<Failed>,
    omitted: u64,
}

pub(super) async fn ingest(
    State(app): State<Arc<App>>,
    Path(name): Path<String>,
    Query(parameters): Query<HashMap<String, String>>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    let asked = match ask(&app, &name, &parameters, &headers) {
        Ok(asked) => asked,
        Err(why) => return answer::bad_request(why),
    };
    let limit = usize::try_from(app.serving.config.server.batch_bytes_max.0).unwrap_or(usize::MAX);
    let Some(body) = body::whole(body, limit).await else {
        app.serving.store.count_refused(&asked.stream, 1);
        return too_large(limit);
    };
    let encoding = headers
        .get(header::CONTENT_ENCODING)
        .and_then(|v| v.to_str().ok())
        .unwrap_or("identity");
    let encoding = encoding.to_ascii_lowercase();
    let unacknowledged = asked.concern == WriteConcern::UNACKNOWLEDGED && !asked.debug;
    let room = match unacknowledged.then(|| app.unacknowledged.room(&body)) {
        Some(None) => {
            app.serving.store.count_refused(&asked.stream, 1);
            return too_many_wait();
        }
        Some(room) => room,
        None => None,
    };
    let (wtimeout, stream) = (asked.wtimeout, asked.stream.clone());
    let turn = match asked.bulk {
        true => Some(app.serving.bulk.turn().await),
        false => {
            app.serving.store.note_foreground();
            None
        }
    };
    // Behind its turn, so that bulk requests that wait for theirs keep no place from others.
    let place = Arc::clone(&app.parsing).acquire_owned().await;
    let work = Arc::clone(&app);
    let (done, task) = oneshot::channel();
    let run = move || {
        // Nobody waits for what is not acknowledged.
        let _ignored = done.send(take(&work, asked, &body, &encoding, limit));
        drop((room, place));
    };
    match &turn {
        Some(turn) => turn.run(run),
        None => drop(tokio::task::spawn_blocking(run)),
    }
    if unacknowledged {
        // Not acknowledged: answered before anything is known of its fate.
        return answer::json(StatusCode::ACCEPTED, &json!({}));
    }
    let Ok(taken) = task.await else {
        return answer::error(
            StatusCode::INTERNAL_SERVER_ERROR,
            "internal",
            "the request's task failed",
            None,
        );
    };
    match taken {
        Err(refused) => *refused,
        Ok(Taken::Told(ack, told, concern)) => success(&ack, &told, concern),
        Ok(Taken::Waiting(waiting, told, concern)) => {
            let acknowledged = acknowledged(&app, waiting, concern, wtimeout).await;
            if let Some(mut turn) = turn
                && turn.is_to_count()
            {
                make_cells(&app, &turn, stream);
            }
            match acknowledged {
                Ok(ack) => success(&ack, &told, concern),
                Err(refused) => *refused,
            }
        }
    }
}

/// Takes from the next chart the work of counting what a backfill has brought, before the next piece.
fn make_cells(app: &Arc<App>, turn: &Turn<'_>, stream: Name) {
    let app = Arc::clone(app);
    turn.run(move || {
        let _turn = app.serving.store.spare_turn();
        if let Err(error) = query::make_cells(&app.serving.store.snapshot(), &stream) {
            tracing::warn!(%error, "what a backfill has brought is counted when it is asked for");
        }
    });
}

/// Waits until the concern is reached, or `wtimeout` is over: then the batch is stored, or will be,
/// but the concern was not reached in time.
async fn acknowledged(
    app: &App,
    waiting: oneshot::Receiver<storage::Result<Ack>>,
    concern: WriteConcern,
    wtimeout: Option<Duration>,
) -> Result<Ack, Box<Response>> {
    let began = Instant::now();
    let answered = match wtimeout {
        None => waiting.await,
        Some(limit) => tokio::time::timeout(limit, waiting)
            .await
            .map_err(|_| too_late(limit, None))?,
    };
    let ack = match answered {
        Ok(Ok(ack)) => ack,
        Ok(Err(error)) => return Err(Box::new(answer::of_storage(&error))),
        Err(_) => return Err(Box::new(answer::of_storage(&storage::Error::Closed))),
    };
    // Under a limit the batch was handed over with w=1, so that its sequence numbers are known when
    // the sync is late; the rest of the concern is waited for here.
    if let (Some(limit), true, Some(last)) = (wtimeout, concern.j, ack.last_seq) {
        while app.serving.store.status().durable_seq <= last {
            if began.elapsed() >= limit {
                return Err(too_late(limit, Some(&ack)));
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
    Ok(ack)
}

fn too_late(limit: Duration, ack: Option<&Ack>) -> Box<Response> {
    let message = format!(
        "the write concern was not reached within {} ms",
        limit.as_millis()
    );
    let hint = match ack {
        Some(_) => {
            "the batch is stored under these sequence numbers and reaches the concern by itself"
        }
        None => "the outcome is unknown; send it again with the same key",
    };
    Box::new(answer::json(
        StatusCode::GATEWAY_TIMEOUT,
        &json!({
            "error": { "code": "write_concern_timeout", "message": message, "hint": hint },
            "first_seq": ack.and_then(|a| a.first_seq),
            "last_seq": ack.and_then(|a| a.last_seq),
        }),
    ))
}

enum Taken {
    /// Nothing to wait for.
    Told(Ack, Told, WriteConcern),
    Waiting(oneshot::Receiver<storage::Result<Ack>>, Told, WriteConcern),
}

/// Parses and hands the batch to the store: on a thread that may wait.
fn take(
    app: &App,
    mut asked: Asked,
    body: &Bytes,
    encoding: &str,
    limit: usize,
) -> Result<Taken, Box<Response>> {
    let lines = decode(body, encoding, limit)?;
    if let Some(Identity::Key { key, body_hash }) = &mut asked.identity {
        let before = app.serving.store.key_fingerprint(key);
        // Earlier versions took the body as it was sent, and nothing else.
        let sent = Some(xxh3_64(body)).filter(|hash| before == Some(*hash));
        *body_hash = sent.unwrap_or_else(|| fingerprint(&lines, &asked.options));
    }
    asked.options.bytes_max = lines.len().saturating_mul(GROWTH_MAX).max(GROWTH_BYTES_MIN);
    asked.options.item_bytes = asked.stream.as_str().len() + asked.source.len();
    let snapshot = app.serving.store.snapshot();
    if let Some(meta) = snapshot.streams().get(&asked.stream) {
        asked.options.schema = meta.schema();
    }
    let received_us = asked.options.received_us;
    let turn = asked.bulk.then(|| app.serving.store.spare_turn());
    let parsed = Parser::new(asked.options).parse(&lines);
    let parsed = parsed.map_err(|error| match error {
        ingest::Error::TooMuch { .. } => {
            app.serving.store.count_refused(&asked.stream, 1);
            Box::new(answer::error(
                StatusCode::PAYLOAD_TOO_LARGE,
                "too_large",
                &error.to_string(),
                Some("nothing of it was taken; send fewer lines in one request"),
            ))
        }
        error => Box::new(answer::bad_request(error)),
    })?;
    drop(turn);
    let kind = kind_of(&parsed, &snapshot, &asked.stream);
    let told = tell(&parsed);
    let nothing =
        parsed.events.num_rows() == 0 && parsed.quarantine.is_empty() && asked.identity.is_none();
    if asked.debug || nothing {
        let ack = Ack {
            accepted: parsed.events.num_rows() as u64,
            quarantined: parsed.quarantine.len() as u64,
            first_seq: None,
            last_seq: None,
            duplicate: false,
        };
        return Ok(Taken::Told(ack, told, asked.concern));
    }
    let batch = Batch {
        stream: asked.stream,
        kind,
        received_us,
        source: asked.source,
        events: parsed.events,
        quarantine: parsed.quarantine,
        identity: asked.identity,
    };
    let handed_over = match asked.wtimeout {
        Some(_) if asked.concern.j => WriteConcern::ACKNOWLEDGED,
        _ => asked.concern,
    };
    if asked.bulk {
        app.serving.store.wait_for_bulk_room();
    }
    let (send, receive) = oneshot::channel();
    app.serving
        .store
        .submit(batch, handed_over, move |outcome| {
            // A client that has gone does not learn it; a retry with its key will.
            let _ignored = send.send(outcome);
        })
        .map_err(|e| Box::new(answer::of_storage(&e)))?;
    Ok(Taken::Waiting(receive, told, asked.concern))
}

/// Fingerprint of a request, which is the same for requests that mean the same: the lines, and all
/// that changes what is made of them. How they were compressed, and how long their sender waits,
/// does not.
fn fingerprint(lines: &[u8], options: &ParseOptions) -> u64 {
    let mut hasher = Xxh3Default::new();
    let flags = [u8::from(options.strict), u8::from(options.ordered)];
    let site = options.site.as_deref();
    let zone = options.tz.as_ref().and_then(|tz| tz.iana_name());
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
    hasher.digest()
}

/// A batch without a format goes to quarantine and makes no stream what it is not.
fn kind_of(parsed: &Parsed, snapshot: &storage::Snapshot, stream: &Name) -> StreamKind {
    snapshot
        .streams()
        .get(stream)
        .map_or(parsed.kind, |meta| meta.kind)
}

fn ask(
    app: &App,
    stream: &str,
    parameters: &HashMap<String, String>,
    headers: &HeaderMap,
) -> Result<Asked, String> {
    if let Some(unknown) = parameters
        .keys()
        .find(|k| !PARAMETERS.contains(&k.as_str()))
    {
        return Err(format!(
            "unknown parameter {unknown:?}; there are {}",
            PARAMETERS.join(", ")
        ));
    }
    let stream = Name::new(stream).map_err(|e| e.to_string())?;
    if stream.as_str().starts_with('_') {
        return Err(format!(
            "{stream}: names that begin with _ belong to the store itself"
        ));
    }
    let text = |name: &str| parameters.get(name).map(String::as_str);
    for (name, max) in [
        ("site", TEXT_BYTES_MAX),
        ("source", TEXT_BYTES_MAX),
        ("producer", PRODUCER_BYTES_MAX),
    ] {
        let bytes = text(name).map_or(0, str::len);
        if bytes > max {
            return Err(format!("{name} has {bytes} bytes; at most {max} are taken"));
        }
    }
    let flag = |name: &str| match text(name) {
        None | Some("false" | "0" | "") => Ok(false),
        Some("true" | "1") => Ok(true),
        Some(other) => Err(format!("{name}={other}: write true or false")),
    };
    let number = |name: &str| {
        text(name)
            .map(|t| {
                t.parse::<u64>()
                    .map_err(|_| format!("{name}={t}: write a number"))
            })
            .transpose()
    };
    let j = text("j").map(|_| flag("j")).transpose()?;
    let concern = if text("w").is_none() && j.is_none() {
        app.serving
            .config
            .concern(stream.as_str())
            .map_err(|e| e.to_string())?
    } else {
        WriteConcern::parse(text("w"), j).map_err(|e| e.to_string())?
    };
    let format = match text("format") {
        Some(format) => format.parse().map_err(|e: ingest::Error| e.to_string())?,
        None => app.serving.config.format(stream.as_str()),
    };
    let tz = text("tz")
        .map(|z| {
            ingest::zone(z)
                .ok_or_else(|| format!("tz={z}: write an IANA zone such as Europe/Berlin"))
        })
        .transpose()?;
    let key = headers
        .get("idempotency-key")
        .map(|v| v.to_str().map_err(|_| "Idempotency-Key is not ASCII text"));
    let key = key.transpose()?;
    if let Some(bytes) = key.map(str::len).filter(|bytes| *bytes > KEY_BYTES_MAX) {
        return Err(format!(
            "the Idempotency-Key has {bytes} bytes; at most {KEY_BYTES_MAX} are taken"
        ));
    }
    let identity = match (key, text("producer")) {
        (Some(_), Some(_)) => {
            return Err("send an Idempotency-Key or a producer's range, not both".into());
        }
        (Some(key), None) => Some(Identity::Key {
            key: format!("{stream}\0{key}"),
            body_hash: 0,
        }),
        (None, None) => None,
        (None, Some(producer)) => {
            let (Some(from), Some(to)) = (number("from")?, number("to")?) else {
                return Err("a producer sends its range: from and to".into());
            };
            if to < from {
                return Err(format!("the range {from}..{to} runs backwards"));
            }
            Some(Identity::Range {
                producer: producer.to_owned(),
                from,
                to,
                content: number("content")?.unwrap_or(0),
            })
        }
    };
    let options = ParseOptions {
        format,
        strict: flag("strict")?,
        ordered: flag("ordered")?,
        site: text("site").map(str::to_owned),
        tz,
        received_us: SystemClock.now_us(),
        max_future_us: app.serving.config.ingest.max_future.micros(),
        columns_max: app.serving.config.ingest.columns_max,
        selection: app.serving.config.selection(stream.as_str()),
        first_line: number("line")?.unwrap_or(1),
        values: text("values").map(|_| flag("values")).transpose()?,
        ..ParseOptions::default()
    };
    let source = text("source").unwrap_or("http").into();
    Ok(Asked {
        stream,
        concern,
        options,
        identity,
        source,
        debug: flag("debug")?,
        bulk: flag("bulk")?,
        // 0 is no limit, as MongoDB has it.
        wtimeout: number("wtimeout")?
            .filter(|ms| *ms > 0)
            .map(Duration::from_millis),
    })
}

fn too_many_wait() -> Response {
    let mut response = answer::error(
        StatusCode::SERVICE_UNAVAILABLE,
        "overloaded",
        "too many requests with w=0 wait to be taken; nothing of this one was",
        Some("send it again later, or ask for w=1 and wait for the answer"),
    );
    let headers = response.headers_mut();
    headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    response
}

fn too_large(limit: usize) -> Response {
    answer::error(
        StatusCode::PAYLOAD_TOO_LARGE,
        "too_large",
        &format!("a request holds at most {limit} bytes, decompressed"),
        Some("send it in pieces, or raise server.batch_bytes_max"),
    )
}

/// The body's lines. The limit holds for what comes out, so that a small bomb is no large one.
fn decode(body: &Bytes, encoding: &str, limit: usize) -> Result<Bytes, Box<Response>> {
    let reader: Box<dyn Read> = match encoding {
        "identity" | "" => return Ok(body.clone()),
        "gzip" | "x-gzip" => Box::new(flate2::read::MultiGzDecoder::new(body.as_ref())),
        "zstd" => match zstd::stream::read::Decoder::new(body.as_ref()) {
            Ok(decoder) => Box::new(decoder),
            Err(e) => {
                return Err(Box::new(answer::bad_request(format!(
                    "the body is not zstd: {e}"
                ))));
            }
        },
        other => {
            return Err(Box::new(answer::error(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "unknown_encoding",
                &format!("Content-Encoding {other:?} is not known"),
                Some("send gzip, zstd or no encoding"),
            )));
        }
    };
    let mut lines = Vec::new();
    reader
        .take(limit as u64 + 1)
        .read_to_end(&mut lines)
        .map_err(|e| {
            Box::new(answer::bad_request(format!(
                "the body is not {encoding}: {e}"
            )))
        })?;
    if lines.len() > limit {
        return Err(Box::new(too_large(limit)));
    }
    Ok(lines.into())
}

fn tell(parsed: &Parsed) -> Told {
    let errors = parsed.quarantine.iter().take(ERRORS_MAX);
    let errors: Vec<Failed> = errors
        .map(|q| Failed {
            index: q.index,
            reason: format!("{}: {}", q.reason, q.detail),
        })
        .collect();
    let omitted = (parsed.quarantine.len() - errors.len()) as u64;
    Told {
        empty: parsed.empty,
        is_unknown: parsed.has_no_format(),
        by_reason: parsed.reasons(),
        errors,
        omitted,
    }
}

/// Outcome of a batch. Lines that have no known format are kept, and refused all the same: who
/// sends them must not take them for events.
fn success(ack: &Ack, told: &Told, concern: WriteConcern) -> Response {
    let errors = told.errors.iter();
    let errors: Vec<_> = errors
        .map(|e| json!({ "index": e.index, "reason": e.reason }))
        .collect();
    let mut body = json!({
        "accepted": ack.accepted,
        "quarantined": ack.quarantined,
        "quarantined_by_reason": told.by_reason,
        "empty": told.empty,
        "errors": errors,
        "errors_omitted": told.omitted,
        "first_seq": ack.first_seq,
        "last_seq": ack.last_seq,
        "duplicate": ack.duplicate,
        "concern": concern,
    });
    if !told.is_unknown || ack.first_seq.is_none() {
        return answer::json(StatusCode::OK, &body);
    }
    body["error"] = json!({
        "code": "no_format",
        "message": "no line is an access-log line or a JSON object; all are kept in quarantine",
        "hint": "send them with format=plain to take each line as it is; what is kept becomes events with `logmill quarantine replay --format plain`",
    });
    answer::json(StatusCode::BAD_REQUEST, &body)
}
