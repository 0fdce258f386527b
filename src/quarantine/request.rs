//! Requests about quarantined items, as the command line and HTTP spell them.

use super::{Choice, Reading};
use crate::dates::range;
use crate::failure::{Failure, Result};
use storage::Name;

/// The words of a request by name, each as its client wrote it.
#[derive(Debug, Clone, Default)]
pub(crate) struct QuarantineRequest<'a> {
    pub(crate) stream: Option<&'a str>,
    pub(crate) reason: Option<&'a str>,
    pub(crate) before: Option<&'a str>,
    pub(crate) seq: Option<u64>,
    pub(crate) format: Option<&'a str>,
    pub(crate) tz: Option<&'a str>,
    pub(crate) site: Option<&'a str>,
    pub(crate) dry_run: bool,
}

impl<'a> QuarantineRequest<'a> {
    /// Returns the request as parameters for HTTP.
    pub(crate) fn pairs(&self) -> Vec<(&'static str, String)> {
        let texts = [
            ("stream", self.stream),
            ("reason", self.reason),
            ("before", self.before),
            ("format", self.format),
            ("tz", self.tz),
            ("site", self.site),
            ("dry_run", self.dry_run.then_some("true")),
        ];
        let texts = texts.into_iter();
        let mut pairs: Vec<_> = texts
            .filter_map(|(name, text)| Some((name, text?.to_owned())))
            .collect();
        pairs.extend(self.seq.map(|seq| ("seq", seq.to_string())));
        pairs
    }

    /// Reads the parameters of an HTTP request, which may be those of `known`.
    pub(crate) fn of(
        parameters: impl IntoIterator<Item = (&'a str, &'a str)>,
        known: &[&str],
    ) -> Result<Self, String> {
        let mut request = Self::default();
        for (name, text) in parameters {
            if !known.contains(&name) {
                let known = known.join(", ");
                return Err(format!(
                    "unknown parameter {name:?}; the parameters are {known}"
                ));
            }
            match name {
                "stream" => request.stream = Some(text),
                "reason" => request.reason = Some(text),
                "before" => request.before = Some(text),
                "format" => request.format = Some(text),
                "tz" => request.tz = Some(text),
                "site" => request.site = Some(text),
                "dry_run" => request.dry_run = flag(text)?,
                _ => request.seq = Some(number(text)?),
            }
        }
        Ok(request)
    }

    pub(crate) fn choice(&self) -> Result<Choice> {
        Ok(Choice {
            stream: self.stream.map(Name::new).transpose()?,
            reason: self.reason.map(str::to_owned),
            before_us: match self.before {
                Some(date) => Some(range(date).map_err(Failure::usage)?.0),
                None => None,
            },
        })
    }

    pub(crate) fn reading(&self) -> Result<Reading> {
        Ok(Reading {
            format: self
                .format
                .map(str::parse)
                .transpose()
                .map_err(Failure::usage)?,
            tz: self.tz.map(crate::intake::zone).transpose()?,
            site: self.site.map(str::to_owned),
        })
    }

    /// Returns the query for counts by stream and reason, with the newest example.
    pub(crate) fn list_sql(&self) -> Result<String> {
        let choice = self.choice()?;
        let mut only = Vec::new();
        only.extend(choice.stream.map(|s| format!("stream = '{s}'")));
        only.extend(
            choice
                .reason
                .map(|r| format!("reason = '{}'", r.replace('\'', "''"))),
        );
        let only = match only.is_empty() {
            true => String::new(),
            false => format!("WHERE {} ", only.join(" AND ")),
        };
        let count = |state: &str| format!("count(*) FILTER (WHERE state = '{state}') AS {state}");
        let last = |name: &str| format!("last_value({name} ORDER BY _seq) AS {name}");
        Ok(format!(
            "SELECT stream, reason, {}, {}, {}, min(time) AS first, max(time) AS last, \
             max(_seq) AS seq, {}, {}, {} FROM system.quarantine {only}\
             GROUP BY stream, reason ORDER BY waiting DESC, stream, reason",
            count("waiting"),
            count("replayed"),
            count("dropped"),
            last("source"),
            last("line"),
            last("detail"),
        ))
    }
}

fn flag(text: &str) -> Result<bool, String> {
    match text {
        "" | "false" | "0" => Ok(false),
        "true" | "1" => Ok(true),
        other => Err(format!("dry_run={other}: write true or false")),
    }
}

fn number(text: &str) -> Result<u64, String> {
    text.parse()
        .map_err(|_| format!("seq={text}: write a sequence number"))
}
