//! Labels and fields that Grafana probes: those of streams, and those of a sample of lines.

use std::collections::{BTreeMap, BTreeSet};

use axum::extract::Path;
use axum::response::Response;
use query::logql::{
    Direction, Expr, LABELS, Labels, LogRange, Stage, bytes, duration_ns, label_names,
};
use serde_json::{Value as Json, json};

use super::asked::LokiRequest;
use super::forms;
use super::names::sets;
use super::parameters::{LIMIT_MAX, Refused, wrong};
use crate::server::read_call::ReadCall;

/// Lines of a sample, and fields of an answer, without a limit, as in Loki.
const LIMIT_DEFAULT: usize = 1000;

/// Returns the labels of a selector's streams with the number of their values.
pub(super) async fn labels(call: ReadCall) -> Response {
    let answer = async {
        let asked = LokiRequest::new(call).await?;
        let (range, query) = (asked.given.range()?, asked.selector()?);
        let known = label_names(&asked.rows(query.label_names()).await?);
        let mut found = Vec::new();
        for label in LABELS
            .into_iter()
            .filter(|label| known.iter().any(|k| k == *label))
        {
            let sets = sets(&asked, &query, &[label], range).await?;
            let values: BTreeSet<Labels> = sets.into_iter().map(|(set, _)| set).collect();
            let cardinality = values.iter().filter(|set| !set.is_empty()).count();
            if cardinality > 0 {
                found.push(json!({ "label": label, "cardinality": cardinality }));
            }
        }
        Ok(json!({ "detectedLabels": found }))
    };
    forms::bare(answer.await)
}

/// A field of a sample of lines.
#[derive(Debug, Default)]
struct DetectedField {
    values: BTreeSet<String>,
    is_parsed: bool,
}

impl DetectedField {
    /// Returns the type that all values have.
    fn type_name(&self) -> &'static str {
        let all = |is: fn(&str) -> bool| self.values.iter().all(|value| is(value));
        match () {
            () if all(|v| v.parse::<i64>().is_ok()) => "int",
            () if all(|v| v.parse::<f64>().is_ok()) => "float",
            () if all(|v| matches!(v, "true" | "false")) => "boolean",
            () if all(|v| duration_ns(v).is_some()) => "duration",
            () if all(|v| bytes(v).is_some()) => "bytes",
            () => "string",
        }
    }
}

/// The fields of the newest lines of a query.
struct Detected {
    fields: BTreeMap<String, DetectedField>,
    /// Most fields or values of the answer.
    limit: usize,
    /// The parsers of the query.
    parsers: Vec<&'static str>,
}

/// Returns the metadata and the parsed labels of the newest lines of a query.
async fn sample(asked: &LokiRequest) -> Refused<Detected> {
    let given = &asked.given;
    let (start_ns, end_ns) = given.range()?;
    given.step((start_ns, end_ns))?;
    let limit = given.number("line_limit", LIMIT_DEFAULT, LIMIT_MAX)?;
    let answer_limit = given.number("limit", LIMIT_DEFAULT, LIMIT_MAX)?;
    let Expr::Log(query) = asked.expr()? else {
        return Err(wrong("fields are those of lines: write a log query"));
    };
    let range = LogRange {
        start_ns,
        end_ns,
        limit,
        direction: Direction::Backward,
    };
    let parser = |stage: &Stage| match stage {
        Stage::Json(_) => Some("json"),
        Stage::Logfmt(_) => Some("logfmt"),
        _ => None,
    };
    let parsers = query.stages.iter().filter_map(parser).collect();
    let (lines, _) = asked.lines(&query, range).await?;
    let mut fields: BTreeMap<String, DetectedField> = BTreeMap::new();
    for (_, entry) in lines {
        for (kind, is_parsed) in [(entry.metadata, false), (entry.parsed, true)] {
            for (name, value) in kind {
                let field = fields.entry(name).or_default();
                field.values.insert(value);
                field.is_parsed |= is_parsed;
            }
        }
    }
    Ok(Detected {
        fields,
        limit: answer_limit,
        parsers,
    })
}

/// Returns the fields of the newest lines.
pub(super) async fn fields(call: ReadCall) -> Response {
    let answer = async {
        let asked = LokiRequest::new(call).await?;
        let Detected {
            fields,
            limit,
            parsers,
        } = sample(&asked).await?;
        let fields = fields.into_iter().take(limit).map(|(name, field)| {
            let parsers = match field.is_parsed {
                true => json!(parsers),
                false => Json::Null,
            };
            json!({
                "label": name,
                "type": field.type_name(),
                "cardinality": field.values.len(),
                "parsers": parsers,
            })
        });
        Ok(json!({ "fields": fields.collect::<Vec<Json>>(), "limit": limit }))
    };
    forms::bare(answer.await)
}

/// Returns the values of a field in the newest lines.
pub(super) async fn values(Path(name): Path<String>, call: ReadCall) -> Response {
    let answer = async {
        let asked = LokiRequest::new(call).await?;
        let Detected {
            mut fields, limit, ..
        } = sample(&asked).await?;
        let values = fields.remove(&name).unwrap_or_default().values;
        let values: Vec<String> = values.into_iter().take(limit).collect();
        Ok(json!({ "values": values, "limit": limit }))
    };
    forms::bare(answer.await)
}
