//! `POST /api/v1/sql`. A broken connection cancels the query, because it drops the stream of rows.

use std::collections::HashMap;
use std::io::Write;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::{Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::Response;
use chrono_tz::Tz;
use futures::{StreamExt, stream};
use parking_lot::Mutex;
use query::Answer;
use query::output::{Output, Writer};
use serde::Deserialize;
use serde_json::json;

use super::app::App;
use super::status::Who;
use super::{answer, body};
use crate::api::TAG;

/// Parameters of the address.
pub(super) const PARAMETERS: [&str; 1] = ["partial"];
/// The place of all else, behind the list of parameters.
pub(super) const NOT_PARAMETERS: &str = "; send the query's parameters in the body, {\"sql\", \"params\"}, and the answer's format in the header Accept: application/json, application/x-ndjson, text/csv or application/vnd.apache.arrow.stream";
/// Maximum bytes of a tag; a longer one is ignored.
const TAG_BYTES_MAX: usize = 64;
/// Maximum bytes of the request body. The engine itself refuses texts beyond its own limit.
const BODY_BYTES_MAX: usize = 2 << 20;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SqlRequest {
    sql: String,
    #[serde(default)]
    params: Option<serde_json::Value>,
    /// The zone of times without one, and of the times in the answer.
    #[serde(default)]
    tz: Option<String>,
}

pub(super) async fn sql(
    State(app): State<Arc<App>>,
    who: Who,
    Query(parameters): Query<HashMap<String, String>>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    let Some(body) = body::whole(body, BODY_BYTES_MAX).await else {
        return answer::error(
            StatusCode::PAYLOAD_TOO_LARGE,
            "too_large",
            &format!("the query text has more than {BODY_BYTES_MAX} bytes"),
            Some("pass values as params, or write long lists as ranges"),
        );
    };
    let request = match read(&body) {
        Ok(request) => request,
        Err(why) => return answer::bad_request(why),
    };
    let accept = headers
        .get(header::ACCEPT)
        .and_then(|v| v.to_str().ok())
        .unwrap_or("*/*");
    let tag = headers.get(TAG).and_then(|v| v.to_str().ok());
    let tag = tag.filter(|tag| tag.len() <= TAG_BYTES_MAX);
    let tag = tag.map(str::to_owned);
    let zone = match request.tz.as_deref().map(zone).transpose() {
        Ok(zone) => zone,
        Err(why) => return answer::bad_request(why),
    };
    let partial = match is_partial(&parameters) {
        Ok(partial) => partial,
        Err(why) => return answer::bad_request(why),
    };
    let (question, parameters) = (request.sql.as_str().into(), request.params.into());
    let session = query::Session {
        tag,
        time_zone: zone.map(|zone| zone.name().to_owned()),
        partial,
        ..query::Session::default()
    };
    let asked = app.serving.ask(&who, session, question, parameters);
    let answer = match asked.await {
        Ok(answer) => answer,
        Err(error) => return answer::of_query(&error),
    };
    match form(accept) {
        None => answer::error(
            StatusCode::NOT_ACCEPTABLE,
            "not_acceptable",
            &format!("Accept: {accept} is not supported"),
            Some(
                "application/json, application/x-ndjson, text/csv or application/vnd.apache.arrow.stream",
            ),
        ),
        Some((Output::Json, _)) => {
            match whole(answer, zone, app.serving.config.query.limits().bytes).await {
                Ok(text) => answer::json_bytes(StatusCode::OK, text),
                Err(error) => answer::of_query(&error),
            }
        }
        Some((form, content_type)) => streamed(answer, zone, form, content_type).await,
    }
}

fn read(body: &[u8]) -> Result<SqlRequest, String> {
    let text = std::str::from_utf8(body).map_err(|_| "the query is not UTF-8".to_owned())?;
    if text.trim_start().starts_with('{') {
        return serde_json::from_str(text).map_err(|e| {
            format!("the body is neither SQL nor {{\"sql\",\"params\",\"tz\"}}: {e}")
        });
    }
    Ok(SqlRequest {
        sql: text.to_owned(),
        params: None,
        tz: None,
    })
}

/// Returns whether the answer may leave out the stores of peers that are gone.
fn is_partial(parameters: &HashMap<String, String>) -> Result<bool, String> {
    match parameters.get("partial").map_or("", String::as_str) {
        "" | "false" | "0" => Ok(false),
        "true" | "1" => Ok(true),
        other => Err(format!("partial={other}: write 1 or 0")),
    }
}

fn zone(name: &str) -> Result<Tz, String> {
    let unknown = |_| format!("tz: there is no time zone {name:?}; send a name as Europe/Berlin");
    name.parse().map_err(unknown)
}

fn form(accept: &str) -> Option<(Output, &'static str)> {
    accept
        .split(',')
        .find_map(|one| match one.split(';').next().unwrap_or("").trim() {
            "application/json" | "*/*" | "application/*" | "" => {
                Some((Output::Json, "application/json"))
            }
            "application/x-ndjson" | "application/ndjson" => {
                Some((Output::Ndjson, "application/x-ndjson"))
            }
            "text/csv" => Some((Output::Csv, "text/csv; charset=utf-8")),
            "application/vnd.apache.arrow.stream" => {
                Some((Output::Arrow, "application/vnd.apache.arrow.stream"))
            }
            _ => None,
        })
}

/// Writes columns, rows and statistics as one JSON object of at most `most` bytes.
async fn whole(mut answer: Answer, zone: Option<Tz>, most: Option<u64>) -> query::Result<Vec<u8>> {
    let schema = Arc::clone(&answer.schema);
    let columns: Vec<_> = schema
        .fields()
        .iter()
        .map(|f| json!({ "name": f.name(), "type": query::type_name(f.data_type()) }))
        .collect();
    let mut text = Shared::default();
    write!(text, "{{\"columns\":{},\"rows\":", json!(columns))?;
    let mut writer = Writer::new(Output::Json, &schema, text.clone())?.in_zone(zone);
    while let Some(batch) = answer.stream.next().await {
        writer.batch(&batch?)?;
        if let Some(most) = most.filter(|most| text.len() as u64 > *most) {
            return Err(query::Error::Limit {
                limit: "query.result_bytes_max",
                message: format!("the answer has more than {most} bytes as JSON"),
                hint: "select fewer columns or rows, or take NDJSON, CSV or Arrow",
            });
        }
    }
    writer.finish()?;
    write!(text, ",\"stats\":{}}}", json!(answer.figures()))?;
    Ok(text.take().into())
}

/// A buffer that the writer fills and the response body empties.
#[derive(Debug, Clone, Default)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Shared {
    fn len(&self) -> usize {
        self.0.lock().len()
    }

    fn take(&self) -> Bytes {
        std::mem::take(&mut *self.0.lock()).into()
    }
}

/// State of a response body.
enum BodyState {
    Rows(Box<(Answer, Writer<Shared>)>),
    /// The error has been written where the format allows it; the connection breaks next.
    Broken(query::Error),
    Ended,
}

/// Streams rows as they are computed. An error before the first row is an error response. A later
/// error breaks the connection, so that no client takes the rows for the whole answer. NDJSON can
/// express an error, so its body ends with one line that contains it.
async fn streamed(
    mut answer: Answer,
    zone: Option<Tz>,
    form: Output,
    content_type: &'static str,
) -> Response {
    let mut first = match answer.stream.next().await {
        Some(Err(error)) => return answer::of_query(&error),
        first => first,
    };
    let buffer = Shared::default();
    let writer = match Writer::new(form, &answer.schema, buffer.clone()) {
        Ok(writer) => writer.in_zone(zone),
        Err(error) => return answer::of_query(&error),
    };
    let initial = BodyState::Rows(Box::new((answer, writer)));
    let pieces = stream::unfold(initial, move |state| {
        let (buffer, mut first) = (buffer.clone(), first.take());
        async move {
            let (mut answer, mut writer) = match state {
                BodyState::Rows(rows) => *rows,
                BodyState::Broken(error) => {
                    // The yield lets the connection send the last bytes before the error breaks
                    // it.
                    tokio::task::yield_now().await;
                    return Some((Err(std::io::Error::other(error)), BodyState::Ended));
                }
                BodyState::Ended => return None,
            };
            loop {
                let next = match first.take() {
                    None => answer.stream.next().await,
                    first => first,
                };
                let written = match next {
                    Some(Ok(batch)) => writer.batch(&batch),
                    Some(Err(error)) => Err(error),
                    None => {
                        let ended = writer.finish().map(|_| buffer.take());
                        return Some((ended.map_err(std::io::Error::other), BodyState::Ended));
                    }
                };
                if let Err(error) = written {
                    let last = last_bytes(&buffer, form, &error);
                    return Some((Ok(last), BodyState::Broken(error)));
                }
                let bytes = buffer.take();
                if !bytes.is_empty() {
                    return Some((Ok(bytes), BodyState::Rows(Box::new((answer, writer)))));
                }
            }
        }
    });
    answer::streamed(content_type, pieces)
}

/// Returns the bytes before a body breaks: NDJSON ends with the error.
fn last_bytes(buffer: &Shared, form: Output, error: &query::Error) -> Bytes {
    let written = buffer.take();
    if form != Output::Ndjson {
        return written;
    }
    let error = answer::query_error(error).to_string();
    [&written[..], error.as_bytes(), b"\n"].concat().into()
}
