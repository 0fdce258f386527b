//! Texts of the parameters and headers of a request that brings lines.

use std::collections::HashMap;
use std::time::Duration;

use axum::http::HeaderMap;
use storage::{Identity, Name, WriteConcern};

pub(crate) const PARAMETERS: [&str; 19] = [
    "format",
    "site",
    "w",
    "j",
    "ordered",
    "debug",
    "strict",
    "tz",
    "source",
    "line",
    "producer",
    "from",
    "to",
    "content",
    "wtimeout",
    "bulk",
    "values",
    "year",
    "multiline",
];
/// The longest `site` and `source`, in bytes: rows of a batch repeat them.
const TEXT_BYTES_MAX: usize = 1024;
/// The longest `producer`, in bytes: a batch names it once. Those of imports hold a site and a
/// source.
const PRODUCER_BYTES_MAX: usize = 8192;
/// The longest `Idempotency-Key`, in bytes.
const KEY_BYTES_MAX: usize = 255;

/// Returns the stream of a request.
pub(crate) fn stream_name(stream: &str) -> Result<Name, String> {
    let stream = Name::new(stream).map_err(|e| e.to_string())?;
    if stream.as_str().starts_with('_') {
        return Err(format!("{stream}: names that begin with _ are reserved"));
    }
    Ok(stream)
}

fn idempotency_key(headers: &HeaderMap) -> Result<Option<&str>, String> {
    let key = headers
        .get("idempotency-key")
        .map(|v| v.to_str().map_err(|_| "Idempotency-Key is not ASCII text"));
    let key = key.transpose()?;
    match key.map(str::len).filter(|bytes| *bytes > KEY_BYTES_MAX) {
        None => Ok(key),
        Some(bytes) => Err(format!(
            "the Idempotency-Key has {bytes} bytes; the limit is {KEY_BYTES_MAX}"
        )),
    }
}

/// Parameters of a shipper's request, whose body names its streams.
pub(crate) struct ShipperParameters<'a>(pub(crate) &'a HashMap<String, String>);

impl ShipperParameters<'_> {
    /// Returns the stream that the request names for all of its records.
    pub(crate) fn stream(&self, headers: &HeaderMap) -> Result<Option<Name>, String> {
        let header = headers.get("x-logmill-stream").map(|value| value.to_str());
        let header = header.transpose();
        let header = header.map_err(|_| "X-Logmill-Stream is not ASCII text")?;
        let named = self.0.get("stream").map(String::as_str).or(header);
        named.map(stream_name).transpose()
    }

    /// Returns the write concern of the request, if it names one.
    pub(crate) fn concern(&self) -> Result<Option<WriteConcern>, String> {
        let given = RequestParameters(self.0);
        let w = given.text("w");
        let j = given.text("j").map(|_| given.flag("j")).transpose()?;
        if w.is_none() && j.is_none() {
            return Ok(None);
        }
        let concern = WriteConcern::parse(w, j).map_err(|e| e.to_string())?;
        Ok(Some(concern))
    }

    /// Returns the longest wait for the write concern; 0 is no limit, as MongoDB has it.
    pub(crate) fn wtimeout(&self) -> Result<Option<Duration>, String> {
        let ms = RequestParameters(self.0).number("wtimeout")?;
        Ok(ms.filter(|ms| *ms > 0).map(Duration::from_millis))
    }

    /// Returns the key under which a second copy of the request is recognised.
    pub(crate) fn key(&self, headers: &HeaderMap) -> Result<Option<String>, String> {
        Ok(idempotency_key(headers)?.map(str::to_owned))
    }
}

/// Parameters whose names are known and whose texts are not too long.
pub(crate) struct RequestParameters<'a>(&'a HashMap<String, String>);

impl<'a> RequestParameters<'a> {
    /// Checks the names of all parameters, and the lengths of texts.
    pub(crate) fn check(parameters: &'a HashMap<String, String>) -> Result<Self, String> {
        if let Some(unknown) = parameters
            .keys()
            .find(|k| !PARAMETERS.contains(&k.as_str()))
        {
            return Err(format!(
                "unknown parameter {unknown:?}; the parameters are {}",
                PARAMETERS.join(", ")
            ));
        }
        for (name, max) in [
            ("site", TEXT_BYTES_MAX),
            ("source", TEXT_BYTES_MAX),
            ("producer", PRODUCER_BYTES_MAX),
        ] {
            let bytes = parameters.get(name).map_or(0, String::len);
            if bytes > max {
                return Err(format!("{name} has {bytes} bytes; the limit is {max}"));
            }
        }
        Ok(Self(parameters))
    }

    pub(crate) fn text(&self, name: &str) -> Option<&'a str> {
        self.0.get(name).map(String::as_str)
    }

    pub(crate) fn flag(&self, name: &str) -> Result<bool, String> {
        match self.text(name) {
            None | Some("false" | "0" | "") => Ok(false),
            Some("true" | "1") => Ok(true),
            Some(other) => Err(format!("{name}={other}: write true or false")),
        }
    }

    pub(crate) fn number(&self, name: &str) -> Result<Option<u64>, String> {
        let number = self.text(name).map(|text| {
            let number = text.parse::<u64>();
            number.map_err(|_| format!("{name}={text}: write a number"))
        });
        number.transpose()
    }

    /// Returns the identity of the batch. The hash of a key's body is not known here.
    pub(crate) fn identity(
        &self,
        stream: &Name,
        headers: &HeaderMap,
    ) -> Result<Option<Identity>, String> {
        let key = idempotency_key(headers)?;
        match (key, self.text("producer")) {
            (Some(_), Some(_)) => {
                Err("send an Idempotency-Key or a producer's range, not both".into())
            }
            (_, None) if self.text("from").or(self.text("to")).is_some() => {
                Err("from and to are the range of a producer: send producer too".into())
            }
            (Some(key), None) => Ok(Some(Identity::Key {
                key: format!("{stream}\0{key}"),
                body_hash: 0,
            })),
            (None, None) => Ok(None),
            (None, Some(producer)) => {
                let (Some(from), Some(to)) = (self.number("from")?, self.number("to")?) else {
                    return Err("producer needs its range: send from and to".into());
                };
                if to < from {
                    return Err(format!("the range {from}..{to} ends before it begins"));
                }
                Ok(Some(Identity::Range {
                    producer: producer.to_owned(),
                    from,
                    to,
                    content: self.number("content")?.unwrap_or(0),
                }))
            }
        }
    }
}
