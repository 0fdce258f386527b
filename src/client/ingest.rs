//! Batches of lines for a server: those of imports, and those of shippers, which send a batch again
//! until its outcome is known.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use storage::{Identity, SourcePosition, WriteConcern};
use ureq::Body;
use ureq::http::{HeaderMap, Response, header};

use super::{Client, ErrorText, SourceAnswer};
use crate::failure::Result;

/// The longest wait for one answer to a shipper. A server answers within seconds; after a minute
/// the connection is dead, and the outcome unknown.
const ANSWER_LIMIT: Duration = Duration::from_secs(60);
/// The pace of the slowest link on which a batch arrives, bytes a second. Without an allowance for
/// its length a large one would be sent again for ever.
const PACE_MIN: u64 = 4 << 10;

/// One batch of lines.
#[derive(Debug)]
pub(crate) struct IngestRequest<'a> {
    pub(crate) stream: &'a str,
    /// Without a format, the server uses the one that it has configured for the stream.
    pub(crate) format: Option<&'a ingest::Format>,
    /// The rule by which the body was cut. The server takes it in the place of its own.
    pub(crate) multiline: Option<&'a ingest::Multiline>,
    pub(crate) strict: bool,
    pub(crate) site: Option<&'a str>,
    pub(crate) tz: Option<&'a str>,
    pub(crate) year: Option<i16>,
    pub(crate) concern: WriteConcern,
    pub(crate) source: &'a str,
    pub(crate) line: u64,
    pub(crate) identity: Option<&'a Identity>,
    /// The body holds JSON values that are not one to a line.
    pub(crate) values: bool,
    /// Old lines, which must not slow down clients that send live events.
    pub(crate) bulk: bool,
    pub(crate) body: &'a [u8],
}

/// The answer to a batch.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct IngestAnswer {
    pub(crate) accepted: u64,
    pub(crate) quarantined: u64,
    pub(crate) empty: u64,
    pub(crate) quarantined_by_reason: BTreeMap<String, u64>,
    pub(crate) first_seq: Option<u64>,
    pub(crate) last_seq: Option<u64>,
    pub(crate) duplicate: bool,
}

/// A refusal, with the counts of the items that the server has stored anyway.
#[derive(Debug, Deserialize)]
struct Kept {
    error: ErrorText,
    #[serde(flatten)]
    figures: IngestAnswer,
}

/// The reason why a request of a shipper brought nothing, by its remedy.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// Send the same again, after the time that the server asks for. The outcome is unknown.
    Again {
        after: Option<Duration>,
        why: String,
    },
    /// Send less at once. Nothing was stored.
    TooLarge(String),
    /// The parameters, or the range of the producer, do not fit. Nothing was stored.
    Invalid(String),
    /// The same request never succeeds.
    Final(String),
}

impl Client {
    /// Sends a batch of an import.
    pub(crate) fn ingest(&self, request: &IngestRequest<'_>) -> Result<IngestAnswer> {
        let mut answer = self.post_batch(request, None).map_err(|e| self.fail(e))?;
        if answer.status() != 400 {
            let answer = self.checked(Ok(answer))?;
            return self.json(answer);
        }
        let text = answer.body_mut().read_to_string().unwrap_or_default();
        match serde_json::from_str::<Kept>(&text) {
            Ok(kept) => kept.figures().map_err(|error| self.fail(error)),
            Err(_) => Err(self.fail("answered 400 Bad Request")),
        }
    }

    /// Sends a batch of a shipper.
    ///
    /// # Errors
    /// The [`Refusal`], by which the shipper decides what comes next.
    pub(crate) fn deliver(&self, request: &IngestRequest<'_>) -> Result<IngestAnswer, Refusal> {
        let on_its_way = Duration::from_secs(request.body.len() as u64 / PACE_MIN);
        self.decided(self.post_batch(request, Some(ANSWER_LIMIT + on_its_way)))
    }

    /// Returns what [`Client::source_names`] returns, to a shipper.
    pub(crate) fn try_source_names(&self, prefix: &str) -> Result<Vec<String>, Refusal> {
        self.try_sources(("prefix", prefix))
    }

    /// Returns what [`Client::source_states`] returns, to a shipper.
    pub(crate) fn try_source_states(&self, producer: &str) -> Result<Vec<SourcePosition>, Refusal> {
        let known: Option<SourceAnswer> = self.try_sources(("producer", producer))?;
        Ok(known.map(SourceAnswer::positions).unwrap_or_default())
    }

    fn try_sources<T: DeserializeOwned>(&self, query: (&str, &str)) -> Result<T, Refusal> {
        let request = self.get_at("/api/v1/sources").query_pairs([query]);
        let request = request.config().timeout_global(Some(ANSWER_LIMIT)).build();
        self.decided(request.call())
    }

    fn post_batch(
        &self,
        request: &IngestRequest<'_>,
        limit: Option<Duration>,
    ) -> Result<Response<Body>, ureq::Error> {
        let call = self.post_at(&format!("/api/v1/ingest/{}", request.stream));
        let call = call.config().timeout_global(limit).build();
        let query = request.query();
        let call = call.query_pairs(query.iter().map(|(k, v)| (*k, v.as_str())));
        call.content_type("text/plain").send(request.body)
    }

    /// Reads an answer, or decides what its refusal means.
    fn decided<T: DeserializeOwned>(
        &self,
        answer: Result<Response<Body>, ureq::Error>,
    ) -> Result<T, Refusal> {
        let again = |why: String| Refusal::Again {
            after: None,
            why: format!("{}: {why}", self.base),
        };
        let mut answer = match answer {
            Err(ureq::Error::BadUri(why)) => return Err(Refusal::Final(why)),
            answer => answer.map_err(|e| again(e.to_string()))?,
        };
        let text = answer.body_mut().with_config().limit(u64::MAX);
        // An answer that breaks off says as little about the outcome as none.
        let text = text.read_to_string().map_err(|e| again(e.to_string()))?;
        let status = answer.status().as_u16();
        if answer.status().is_success() {
            return serde_json::from_str(&text).map_err(|e| again(e.to_string()));
        }
        let kept = serde_json::from_str::<Kept>(&text).ok();
        let code = kept.as_ref().map_or("", |kept| kept.error.code.as_str());
        if (status, code) == (400, "no_format") {
            return serde_json::from_str(&text).map_err(|e| again(e.to_string()));
        }
        let is_large = status == 413 || code == "too_large";
        let why = match &kept {
            Some(kept) => format!("{}: {}", self.base, kept.error),
            None => format!("{}: answered {}", self.base, answer.status()),
        };
        Err(match status {
            _ if is_large => Refusal::TooLarge(why),
            400 | 409 | 422 => Refusal::Invalid(why),
            408 | 425 | 429 | 500..=599 => Refusal::Again {
                after: retry_after(answer.headers()),
                why,
            },
            _ => Refusal::Final(why),
        })
    }
}

impl Kept {
    /// Returns the counts of lines of an unknown format: the server stores them in the quarantine
    /// anyway.
    fn figures(self) -> Result<IngestAnswer, ErrorText> {
        match self.error.code == "no_format" {
            true => Ok(self.figures),
            false => Err(self.error),
        }
    }
}

impl IngestRequest<'_> {
    fn query(&self) -> Vec<(&'static str, String)> {
        let mut query: Vec<(&str, String)> = vec![
            ("strict", self.strict.to_string()),
            ("w", self.concern.w.to_string()),
            ("j", self.concern.j.to_string()),
            ("source", self.source.to_owned()),
            ("line", self.line.to_string()),
            ("values", self.values.to_string()),
            ("bulk", self.bulk.to_string()),
        ];
        query.extend(self.format.map(|format| ("format", format.to_string())));
        let rule = self.multiline.map_or("off", |rule| rule.as_str());
        query.push(("multiline", rule.to_owned()));
        query.extend(self.site.map(|s| ("site", s.to_owned())));
        query.extend(self.tz.map(|tz| ("tz", tz.to_owned())));
        query.extend(self.year.map(|year| ("year", year.to_string())));
        if let Some(Identity::Range {
            producer,
            from,
            to,
            content,
        }) = self.identity
        {
            query.push(("producer", producer.clone()));
            query.push(("from", from.to_string()));
            query.push(("to", to.to_string()));
            query.push(("content", content.to_string()));
        }
        query
    }
}

/// Returns the wait that a server asks for, in its form of seconds (RFC 9110, section 10.2.3).
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers.get(header::RETRY_AFTER)?.to_str().ok()?;
    seconds.trim().parse().ok().map(Duration::from_secs)
}
