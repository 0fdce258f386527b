//! From the lines of a request to a batch that the store has.

use axum::http::StatusCode;
use axum::response::Response;
use ingest::ParseOptions;
use storage::{Durability, Identity};
use xxhash_rust::xxh3::{Xxh3Default, xxh3_64};

use super::lane::Decoded;
use super::parameters::LinesRequest;
use super::response::ParseSummary;
use crate::serve::{Content, Delivery, Serving, Submission, submitted_concern};
use crate::server::answer;

/// The protocol of `POST /api/v1/ingest/{stream}` in counters.
const PROTOCOL: &str = "logmill";

/// Parses the lines of a request and hands the batch to the store: on a thread that may wait.
pub(super) fn submit(
    serving: &Serving,
    mut request: LinesRequest,
    durability: Durability,
    body: Decoded,
) -> Result<(Submission, ParseSummary), Box<Response>> {
    let Decoded {
        lines,
        sent,
        length,
    } = body;
    let intake = &*serving.intake;
    if let Some(Identity::Key { key, body_hash }) = &mut request.identity {
        // Earlier versions took the body as it was sent, and nothing else. None had shards.
        let before = match serving.shards {
            None => intake.key_fingerprint(key).unwrap_or_default(),
            Some(_) => None,
        };
        let sent = Some(xxh3_64(&sent)).filter(|hash| before == Some(*hash));
        *body_hash = sent.unwrap_or_else(|| fingerprint(&lines, &request.options));
    }
    let permit = request.bulk.then(|| intake.background_permit());
    let counts = serving.arrivals.of(PROTOCOL, &request.stream);
    let delivery = Delivery {
        stream: request.stream,
        source: request.source,
        identity: request.identity,
        options: request.options,
        content: Content::Lines(lines),
        counts,
    };
    let parsed = delivery.parse(intake);
    let parsed = parsed.map_err(|error| Box::new(refused(&error)))?;
    drop(permit);
    let summary = ParseSummary::of(&parsed.parsed);
    if request.debug {
        return Ok((Submission::Nothing(parsed.not_stored()), summary));
    }
    let concern = submitted_concern(
        intake,
        request.concern,
        durability,
        request.wtimeout.is_some(),
    );
    let submission = parsed.submit(intake, concern, length);
    let submission = submission.map_err(|e| Box::new(answer::of_storage(&e)))?;
    Ok((submission, summary))
}

/// Returns the response to a delivery that cannot be taken as a whole.
pub(in crate::server) fn refused(error: &ingest::Error) -> Response {
    match error {
        ingest::Error::TooMuch { .. } => answer::error(
            StatusCode::PAYLOAD_TOO_LARGE,
            "too_large",
            &error.to_string(),
            Some("nothing of the request was stored; send fewer lines in one request"),
        ),
        // Its sender can send it again when the key of hashes is readable.
        ingest::Error::CannotAnonymise { .. } => {
            let (status, why) = (StatusCode::SERVICE_UNAVAILABLE, error.to_string());
            answer::error(status, "cannot_anonymise", &why, None)
        }
        _ => answer::bad_request(error),
    }
}

/// Returns the fingerprint of a request, the same for requests that mean the same: of the lines and
/// of every option that changes their events. Their compression and the client's timeout do not
/// count.
pub(in crate::server) fn fingerprint(lines: &[u8], options: &ParseOptions) -> u64 {
    let mut hasher = Xxh3Default::new();
    let flags = [u8::from(options.strict), u8::from(options.ordered)];
    let site = options.site.as_deref();
    let zone = options.tz.as_ref().and_then(|tz| tz.iana_name());
    let year = options.year.map(i16::to_le_bytes);
    let year: &[u8] = year.as_ref().map_or(&[], |year| year);
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
    // Without a year, the fingerprint is that of versions that knew none.
    hasher.update(year);
    hasher.digest()
}
