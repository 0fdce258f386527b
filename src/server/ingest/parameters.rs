//! Parameters and headers of a request that brings lines.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use axum::http::HeaderMap;
use ingest::ParseOptions;
use storage::{Clock, Identity, Name, SystemClock, WriteConcern};

use crate::config::Config;
use crate::intake;

pub(in crate::server) const PARAMETERS: [&str; 17] = [
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

/// A request that brings lines, without its body.
pub(super) struct LinesRequest {
    pub(super) stream: Name,
    pub(super) concern: WriteConcern,
    pub(super) options: ParseOptions,
    pub(super) identity: Option<Identity>,
    pub(super) source: Arc<str>,
    pub(super) debug: bool,
    /// The longest wait for the write concern; without it, as long as that takes.
    pub(super) wtimeout: Option<Duration>,
    /// A backfill of old lines: all other requests go first.
    pub(super) bulk: bool,
}

impl LinesRequest {
    /// Reads the parameters of a request, or returns which of them is wrong.
    pub(super) fn read(
        config: &Config,
        stream: &str,
        parameters: &HashMap<String, String>,
        headers: &HeaderMap,
    ) -> Result<Self, String> {
        let parameters = RequestParameters::check(parameters)?;
        let stream = stream_name(stream)?;
        Ok(Self {
            concern: parameters.concern(config, &stream)?,
            options: parameters.options(config, &stream)?,
            identity: parameters.identity(&stream, headers)?,
            source: parameters.text("source").unwrap_or("http").into(),
            debug: parameters.flag("debug")?,
            bulk: parameters.flag("bulk")?,
            // 0 is no limit, as MongoDB has it.
            wtimeout: parameters
                .number("wtimeout")?
                .filter(|ms| *ms > 0)
                .map(Duration::from_millis),
            stream,
        })
    }
}

fn stream_name(stream: &str) -> Result<Name, String> {
    let stream = Name::new(stream).map_err(|e| e.to_string())?;
    if stream.as_str().starts_with('_') {
        return Err(format!("{stream}: names that begin with _ are reserved"));
    }
    Ok(stream)
}

/// Parameters whose names are known and whose texts are not too long.
struct RequestParameters<'a>(&'a HashMap<String, String>);

impl<'a> RequestParameters<'a> {
    fn check(parameters: &'a HashMap<String, String>) -> Result<Self, String> {
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

    fn text(&self, name: &str) -> Option<&'a str> {
        self.0.get(name).map(String::as_str)
    }

    fn flag(&self, name: &str) -> Result<bool, String> {
        match self.text(name) {
            None | Some("false" | "0" | "") => Ok(false),
            Some("true" | "1") => Ok(true),
            Some(other) => Err(format!("{name}={other}: write true or false")),
        }
    }

    fn number(&self, name: &str) -> Result<Option<u64>, String> {
        let number = self.text(name).map(|text| {
            let number = text.parse::<u64>();
            number.map_err(|_| format!("{name}={text}: write a number"))
        });
        number.transpose()
    }

    fn concern(&self, config: &Config, stream: &Name) -> Result<WriteConcern, String> {
        let w = self.text("w");
        let j = self.text("j").map(|_| self.flag("j")).transpose()?;
        let concern = if w.is_none() && j.is_none() {
            config.concern(stream.as_str())
        } else {
            WriteConcern::parse(w, j)
        };
        concern.map_err(|e| e.to_string())
    }

    fn options(&self, config: &Config, stream: &Name) -> Result<ParseOptions, String> {
        let by_config = intake::stream_options(config, stream.as_str());
        let format = match self.text("format") {
            Some(format) => format.parse().map_err(|e: ingest::Error| e.to_string())?,
            None => by_config.format,
        };
        let tz = self.text("tz").map(|name| {
            ingest::zone(name)
                .ok_or_else(|| format!("tz={name}: write an IANA zone such as Europe/Berlin"))
        });
        Ok(ParseOptions {
            format,
            strict: self.flag("strict")?,
            ordered: self.flag("ordered")?,
            site: self.text("site").map(str::to_owned),
            tz: tz.transpose()?,
            received_us: SystemClock.now_us(),
            first_line: self.number("line")?.unwrap_or(1),
            values: self
                .text("values")
                .map(|_| self.flag("values"))
                .transpose()?,
            ..by_config
        })
    }

    /// Returns the identity of the batch. The hash of a key's body is not known here.
    fn identity(&self, stream: &Name, headers: &HeaderMap) -> Result<Option<Identity>, String> {
        let key = headers
            .get("idempotency-key")
            .map(|v| v.to_str().map_err(|_| "Idempotency-Key is not ASCII text"));
        let key = key.transpose()?;
        if let Some(bytes) = key.map(str::len).filter(|bytes| *bytes > KEY_BYTES_MAX) {
            return Err(format!(
                "the Idempotency-Key has {bytes} bytes; the limit is {KEY_BYTES_MAX}"
            ));
        }
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
