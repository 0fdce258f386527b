//! Labels, their values, and the sets of them that events have.

use std::collections::BTreeSet;

use axum::extract::Path;
use axum::response::Response;
use query::logql::{LABELS, Labels, LogQuery, label_names, label_sets};
use serde_json::json;

use super::asked::{LokiRequest, selector};
use super::forms;
use super::parameters::{Refused, wrong};
use crate::server::read_call::ReadCall;

/// Most values of a label, and most sets of labels, of an answer.
const SETS_MAX: usize = 10_000;

/// Returns the values of some labels among the events of a range, with their numbers.
pub(super) async fn sets(
    asked: &LokiRequest,
    query: &LogQuery,
    labels: &[&str],
    range: (i64, i64),
) -> Refused<Vec<(Labels, u64)>> {
    let batches = asked
        .rows(query.label_sets(labels, range, SETS_MAX + 1))
        .await?;
    let sets = label_sets(&batches).map_err(|e| wrong(&e.to_string()))?;
    match sets.len() > SETS_MAX {
        true => Err(wrong(&format!(
            "more than {SETS_MAX} values of {} in this range; narrow the range, or select fewer events",
            labels.join(", ")
        ))),
        false => Ok(sets),
    }
}

/// Returns the labels that the streams of a selector have.
pub(super) async fn labels(call: ReadCall) -> Response {
    let answer = async {
        let asked = LokiRequest::new(call).await?;
        asked.given.range()?;
        let mut names = label_names(&asked.rows(asked.selector()?.label_names()).await?);
        names.sort_unstable();
        Ok(json!(names))
    };
    forms::data(answer.await)
}

/// Returns whether a text can be the name of a label.
pub(super) fn is_label(name: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    !name.is_empty() && name.chars().all(is_part) && !name.starts_with(|c: char| c.is_ascii_digit())
}

/// Returns the values of a label; none if it is no label of a stream.
pub(super) async fn values(Path(name): Path<String>, call: ReadCall) -> Response {
    let answer = async {
        let asked = LokiRequest::new(call).await?;
        let (range, query) = (asked.given.range()?, asked.selector()?);
        if !is_label(&name) {
            return Err(wrong("a label has letters, digits and _ in its name"));
        }
        if !LABELS.contains(&name.as_str()) {
            return Ok(json!([]));
        }
        let sets = sets(&asked, &query, &[name.as_str()], range).await?;
        let values = sets
            .into_iter()
            .filter_map(|(mut set, _)| set.remove(&name));
        Ok(json!(values.collect::<BTreeSet<String>>()))
    };
    forms::data(answer.await)
}

/// Returns the sets of labels of a selector's events.
pub(super) async fn series(call: ReadCall) -> Response {
    let answer = async {
        let asked = LokiRequest::new(call).await?;
        let range = asked.given.range()?;
        let mut selectors: Vec<&str> = asked.given.all("match[]").collect();
        selectors.extend(asked.given.all("match"));
        selectors.retain(|text| !text.is_empty());
        if selectors.is_empty() {
            return Err(wrong("the parameter match[] is missing"));
        }
        let mut found = BTreeSet::new();
        for text in selectors {
            let query = selector(Some(text))?;
            let sets = sets(&asked, &query, &LABELS, range).await?;
            found.extend(sets.into_iter().map(|(set, _)| set));
        }
        Ok(json!(found))
    };
    forms::data(answer.await)
}
