//! Parameters and headers of a request that brings lines.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use axum::http::HeaderMap;
use ingest::ParseOptions;
use storage::{Clock, Identity, Name, SystemClock, WriteConcern};

use crate::config::Config;
use crate::intake;
use crate::server::request_parameters::{RequestParameters, stream_name};

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

impl RequestParameters<'_> {
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
        let multiline = intake::multiline(self.text("multiline"), by_config.multiline);
        let tz = self.text("tz").map(|name| {
            ingest::zone(name)
                .ok_or_else(|| format!("tz={name}: write an IANA zone such as Europe/Berlin"))
        });
        let year = self.number("year")?.map(|year| {
            i16::try_from(year).map_err(|_| format!("year={year}: write a year such as 2026"))
        });
        Ok(ParseOptions {
            format,
            multiline: multiline.map_err(|e| e.to_string())?,
            strict: self.flag("strict")?,
            ordered: self.flag("ordered")?,
            site: self.text("site").map(str::to_owned),
            tz: tz.transpose()?,
            year: year.transpose()?,
            received_us: SystemClock.now_us(),
            first_line: self.number("line")?.unwrap_or(1),
            values: self
                .text("values")
                .map(|_| self.flag("values"))
                .transpose()?,
            ..by_config
        })
    }
}
