//! The way of a shipper's request: from its body to acknowledged streams.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{FromRequest, FromRequestParts, Query, Request};
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use ingest::shippers::StreamRecords;
use ingest::{Encoding, Format, ParseOptions, Parsed};
use storage::{Ack, Clock, Durability, Identity, Name, SystemClock, WriteConcern};

use crate::access::{Action, Target};
use crate::failure::Class;
use crate::serve::{
    Client, Content, Delivery, Length, ParsedDelivery, Serving, Submission, submitted_concern,
};
use crate::server::answer;
use crate::server::app::App;
use crate::server::ingest::{acknowledged, batch, lane};
use crate::server::request_parameters::{ShipperParameters, stream_name};
use crate::server::status::Who;

/// A call before its body is read.
pub(super) struct ShipperCall {
    pub(super) app: Arc<App>,
    pub(super) who: Client,
    pub(super) parameters: HashMap<String, String>,
    pub(super) headers: HeaderMap,
    pub(super) body: Body,
}

impl FromRequest<Arc<App>> for ShipperCall {
    type Rejection = Response;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<Self, Response> {
        let (mut head, body) = request.into_parts();
        let who = Who::from_request_parts(&mut head, app).await;
        let parameters = Query::from_request_parts(&mut head, app).await;
        let Query(parameters) = parameters.map_err(IntoResponse::into_response)?;
        Ok(Self {
            app: Arc::clone(app),
            who: who.map_err(IntoResponse::into_response)?.0,
            parameters,
            headers: head.headers,
            body,
        })
    }
}

/// The outcome of one stream of a body: it is stored, or the response says why not.
pub(super) type Outcome = Result<StoredStream, Box<Response>>;

/// Records of one stream that reached their write concern.
#[derive(Debug)]
pub(super) struct StoredStream {
    /// The sequence number of the first record; the others follow it without a gap. `None` when
    /// several stores took the records.
    pub(super) first_seq: Option<u64>,
    /// The reasons of the records that are in quarantine, by rank.
    pub(super) quarantined: BTreeMap<usize, String>,
}

/// The quarantined records of a request of which every stream is stored.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) quarantined: usize,
    /// The reason of the first one.
    pub(super) first: Option<String>,
}

impl Tally {
    /// Adds up the streams.
    ///
    /// # Errors
    /// The response of a stream that was not stored.
    pub(super) fn of(outcomes: Vec<Outcome>) -> Result<Self, Box<Response>> {
        let mut tally = Self::default();
        for outcome in outcomes {
            let stored = outcome?;
            tally.quarantined += stored.quarantined.len();
            let first = stored.quarantined.into_values().next();
            tally.first = tally.first.or(first);
        }
        Ok(tally)
    }
}

/// Records of one stream of which the store has the batch.
pub(super) struct SubmittedStream {
    submission: Submission,
    durability: Durability,
    quarantined: BTreeMap<usize, String>,
}

pub(super) type Submitted = Result<SubmittedStream, Box<Response>>;

impl ShipperCall {
    /// Returns whether the body is protobuf by its content type.
    pub(super) fn is_protobuf(&self) -> bool {
        is_protobuf(&self.headers)
    }

    /// Stores the records of a body that is protobuf or JSON, for a protocol that answers a request
    /// as a whole. `what` names the body in errors.
    ///
    /// # Errors
    /// The response to a request of which a stream was not stored.
    pub(super) async fn store_whole(
        self,
        (source, what): (&'static str, &'static str),
        unnamed: Option<Encoding>,
        decode: impl FnOnce(&[u8], Option<&str>) -> Result<Vec<StreamRecords>, String> + Send + 'static,
    ) -> Result<Tally, Box<Response>> {
        let decode = move |body: &[u8], fixed: Option<&str>| match decode(body, fixed) {
            Ok(streams) => Ok((streams, ())),
            Err(why) => Err(Box::new(answer::bad_request(format!(
                "the body is no {what}: {why}"
            )))),
        };
        let (outcomes, ()) = self.store(source, unnamed, decode).await?;
        Tally::of(outcomes)
    }

    /// Stores the records of the body. `decode` turns its bytes into records, and gets the stream
    /// that the request names for all of them; `unnamed` is the encoding of a body that names none.
    /// Returns the outcomes of the streams, in the order of `decode`.
    ///
    /// # Errors
    /// The response to a request that is refused as a whole; nothing of it is stored.
    pub(super) async fn store<T, D>(
        self,
        source: &'static str,
        unnamed: Option<Encoding>,
        decode: D,
    ) -> Result<(Vec<Outcome>, T), Box<Response>>
    where
        T: Send + 'static,
        D: FnOnce(&[u8], Option<&str>) -> Result<(Vec<StreamRecords>, T), Box<Response>>
            + Send
            + 'static,
    {
        let Self {
            app,
            who,
            parameters,
            headers,
            body,
        } = self;
        let terms = Terms::read(&parameters, &headers, source);
        let terms = terms.map_err(|why| Box::new(answer::bad_request(why)))?;
        let wtimeout = terms.wtimeout;
        let body = lane::SentBody::read(&app, &headers, body, false).await?;
        let body = body.or_encoded(unnamed);
        app.serving.intake.note_foreground();
        let (serving, client) = (Arc::clone(&app.serving), who.clone());
        let job = move |body: lane::Decoded| {
            let fixed = terms.stream.as_ref().map(Name::as_str);
            let (streams, decoded) = decode(&body.lines, fixed)?;
            let submitted = terms.submit(&serving, &client, streams, body.length);
            Ok((submitted, decoded))
        };
        let queued = lane::queue(&app, &who, None, body, job).await;
        let done: Result<_, Box<Response>> = queued.done(Arc::clone(&app), who).await?;
        let (submitted, decoded) = done?;
        let mut outcomes = Vec::new();
        for stream in submitted {
            outcomes.push(finish(&app, stream, wtimeout).await);
        }
        Ok((outcomes, decoded))
    }
}

/// Returns whether headers name protobuf as the content type.
pub(super) fn is_protobuf(headers: &HeaderMap) -> bool {
    let content_type = headers.get(header::CONTENT_TYPE);
    content_type.is_some_and(|named| named.as_bytes().starts_with(b"application/x-protobuf"))
}

/// Waits for the write concern of a stream.
pub(super) async fn finish(app: &App, submitted: Submitted, wtimeout: Option<Duration>) -> Outcome {
    let SubmittedStream {
        submission,
        durability,
        quarantined,
    } = submitted?;
    let acks: Vec<Ack> = match submission {
        Submission::Waiting(waiting) if durability != Durability::Unacknowledged => {
            acknowledged(app, waiting, durability, wtimeout).await?
        }
        // The client asked not to wait.
        Submission::Waiting(_) => Vec::new(),
        Submission::Nothing(ack) => vec![ack],
    };
    let first_seq = match acks.as_slice() {
        [ack] => ack.first_seq,
        _ => None,
    };
    Ok(StoredStream {
        first_seq,
        quarantined,
    })
}

/// The terms under which a request brings its records.
pub(super) struct Terms {
    pub(super) stream: Option<Name>,
    concern: Option<WriteConcern>,
    pub(super) wtimeout: Option<Duration>,
    key: Option<String>,
    source: &'static str,
}

/// Records of a stream on their terms, before they are parsed.
pub(super) struct ShipperDelivery {
    pub(super) delivery: Delivery,
    concern: WriteConcern,
    durability: Durability,
}

impl Terms {
    pub(super) fn read(
        parameters: &HashMap<String, String>,
        headers: &HeaderMap,
        source: &'static str,
    ) -> Result<Self, String> {
        let parameters = ShipperParameters(parameters);
        Ok(Self {
            stream: parameters.stream(headers)?,
            concern: parameters.concern()?,
            wtimeout: parameters.wtimeout()?,
            key: parameters.key(headers)?,
            source,
        })
    }

    /// Parses the records of each stream, then hands over all that could be parsed: a body that is
    /// too large for one stream is found so before another is stored.
    fn submit(
        &self,
        serving: &Serving,
        who: &Client,
        streams: Vec<StreamRecords>,
        length: Length,
    ) -> Vec<Submitted> {
        let parsed = streams.into_iter();
        let parsed: Vec<_> = parsed
            .map(|records| self.delivery(serving, who, records)?.parse(serving))
            .collect();
        let has_limit = self.wtimeout.is_some();
        let submitted = parsed
            .into_iter()
            .map(|parsed| parsed?.submit(serving, length, has_limit));
        submitted.collect()
    }

    /// Makes the delivery of the records of a stream.
    ///
    /// # Errors
    /// The response to a client that may not write into it, or to a concern that is not given.
    pub(super) fn delivery(
        &self,
        serving: &Serving,
        who: &Client,
        StreamRecords { stream, records }: StreamRecords,
    ) -> Result<ShipperDelivery, Box<Response>> {
        let stream = stream_name(&stream).map_err(|why| Box::new(answer::bad_request(why)))?;
        if !who.may(Action::Ingest, Target::Stream(stream.as_str())) {
            return Err(forbidden(who, stream.as_str()));
        }
        let concern = match self.concern {
            Some(concern) => Ok(concern),
            None => serving.config.concern(stream.as_str()),
        };
        let concern = concern.map_err(|e| Box::new(answer::bad_request(e)))?;
        let durability = serving.intake.gives(concern);
        let durability = durability.map_err(|e| Box::new(answer::bad_request(e)))?;
        let options = ParseOptions {
            format: Format::Json,
            received_us: SystemClock.now_us(),
            ..crate::intake::stream_options(&serving.config, stream.as_str())
        };
        let counts = serving.arrivals.of(self.source, &stream);
        let identity = self.key.as_ref().map(|key| Identity::Key {
            key: format!("{stream}\0{key}"),
            // Of the records: parameters and other streams of the body have a part in them.
            body_hash: batch::fingerprint(records.as_bytes(), &options),
        });
        let delivery = Delivery {
            stream,
            source: self.source.into(),
            identity,
            options,
            content: Content::Records(records),
            counts,
        };
        Ok(ShipperDelivery {
            delivery,
            concern,
            durability,
        })
    }
}

impl ShipperDelivery {
    /// Parses the records, on a thread that may block.
    ///
    /// # Errors
    /// The response to records that cannot be taken as a whole.
    pub(super) fn parse(self, serving: &Serving) -> Result<ParsedRecords, Box<Response>> {
        let parsed = self.delivery.parse(&*serving.intake);
        Ok(ParsedRecords {
            parsed: parsed.map_err(|e| Box::new(batch::refused(&e)))?,
            concern: self.concern,
            durability: self.durability,
        })
    }
}

/// Records of a stream that the store may get.
pub(super) struct ParsedRecords {
    parsed: ParsedDelivery,
    concern: WriteConcern,
    durability: Durability,
}

impl ParsedRecords {
    /// Hands the records to the store; `has_limit` tells that the client waits for some time only.
    pub(super) fn submit(self, serving: &Serving, length: Length, has_limit: bool) -> Submitted {
        let Self {
            parsed,
            concern,
            durability,
        } = self;
        let quarantined = quarantined(&parsed.parsed);
        let submitted = submitted_concern(&*serving.intake, concern, durability, has_limit);
        let submission = parsed.submit(&*serving.intake, submitted, length);
        Ok(SubmittedStream {
            submission: submission.map_err(|e| Box::new(answer::of_storage(&e)))?,
            durability,
            quarantined,
        })
    }
}

/// Returns the response to a client that may not write into a stream.
pub(super) fn forbidden(who: &Client, stream: &str) -> Box<Response> {
    let message = format!("{} may not write into the stream {stream}", who.name());
    let hint = "name another stream, or ask an administrator for a token of this one";
    Box::new(answer::of_class(Class::Forbidden, &message, Some(hint)))
}

/// Returns the reasons of quarantined records by their rank.
fn quarantined(parsed: &Parsed) -> BTreeMap<usize, String> {
    let items = parsed.quarantine.iter().map(|item| {
        let rank = usize::try_from(item.index).unwrap_or(usize::MAX);
        (rank, format!("{}: {}", item.reason, item.detail))
    });
    items.collect()
}
