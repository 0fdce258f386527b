//! `series`, `labels` and `label/{name}/values`.

use std::collections::BTreeSet;

use axum::extract::Path;
use axum::response::Response;
use promql_parser::label::{METRIC_NAME, Matcher};
use serde_json::Value as Json;

use super::families::{Family, LE, LEVEL};
use super::levels::us;
use super::statement::{Buckets, CellChoice};
use super::{Asked, DataResult, LabelName, cells, forms};
use crate::promql::{KeptLabels, Labels, PromqlError, label_name, selector_matchers};
use crate::server::read_call::ReadCall;

/// Buckets of a request's range beyond which a coarser level is read.
const BUCKETS_MAX: i64 = 500;

/// One `match[]`; without matchers it takes every series.
struct Selection(Vec<Matcher>);

impl Selection {
    fn takes(&self, family: &Family) -> bool {
        let mut names = self.0.iter().filter(|matcher| matcher.name == METRIC_NAME);
        names.all(|matcher| matcher.is_match(&family.name))
    }
}

impl Asked {
    fn selections(&self) -> Result<Vec<Selection>, PromqlError> {
        self.given.time("start")?;
        self.given.time("end")?;
        let texts = self.given.all("match[]");
        let all = texts.map(|text| selector_matchers(text).map(Selection));
        all.collect()
    }

    /// Returns the finest level of a family on which the request's range has few buckets, and
    /// these buckets.
    fn buckets(
        &self,
        family: &Family,
    ) -> Result<Option<(aggregator::Level, Buckets)>, PromqlError> {
        let from = self.given.time("start")?.map(us);
        let to = self.given.time("end")?.map_or(us(i64::MAX), us);
        let calendar = family.calendar();
        let Some(coarsest) = family.levels().next_back() else {
            return Ok(None);
        };
        let few = |level: &aggregator::Level| {
            let bucket = calendar.bucket(*level, from.unwrap_or_default());
            let length = (bucket.end_us - bucket.start_us).max(1);
            from.is_some_and(|from| to.saturating_sub(from) / length <= BUCKETS_MAX)
        };
        let level = family.levels().find(few).unwrap_or(coarsest);
        let start = |t_us: i64| calendar.bucket(level, t_us).start_us;
        // A bucket that has begun has its series already: a name is not a sample.
        let (from_us, to_us) = (
            from.map(start),
            calendar.bucket(level, to).end_us.min(us(i64::MAX)),
        );
        Ok(Some((level, Buckets { from_us, to_us })))
    }

    /// Returns the labels of the series of a family that pass a selection, as far as `keep` says.
    async fn series(
        &self,
        family: &Family,
        selection: &Selection,
        keep: Option<&KeptLabels>,
    ) -> Result<BTreeSet<Labels>, PromqlError> {
        let choice = CellChoice::new(family, &selection.0, keep);
        let (Some(choice), Some((level, buckets))) = (choice, self.buckets(family)?) else {
            return Ok(BTreeSet::new());
        };
        let found = self
            .reader()
            .labels(family, &choice, level, buckets)
            .await?;
        let named = found
            .into_iter()
            .map(|labels| labels.with(METRIC_NAME, &family.name));
        if !family.is_gauge() {
            return Ok(named.collect());
        }
        let all: Vec<Labels> = named.collect();
        let levels = family.levels_of(&selection.0);
        let levels = levels.unwrap_or_else(|| family.levels().collect());
        let each = levels.iter().flat_map(|level| {
            let all = all.iter();
            all.map(|labels| labels.with(LEVEL, level.as_str()))
        });
        Ok(each.collect())
    }
}

/// Returns the first `limit` texts.
fn limited(limit: usize, texts: &BTreeSet<String>) -> DataResult {
    let first: Vec<&String> = texts.iter().take(limit).collect();
    forms::data(&first, texts.len() > limit)
}

/// Returns the labels of series. The bounds of histograms depend on the values of a range, so one
/// series stands for all bounds.
pub(super) async fn series(call: ReadCall) -> Response {
    let answer = async {
        let asked = Asked::new(call).await?;
        let selections = asked.selections()?;
        if selections.is_empty() {
            return Err(PromqlError::BadData(
                "no match[] parameter provided".to_owned(),
            ));
        }
        let mut all = BTreeSet::new();
        for selection in &selections {
            for family in asked
                .families
                .iter()
                .filter(|family| selection.takes(family))
            {
                all.extend(asked.series(family, selection, None).await?);
                if all.len() > cells::SERIES_MAX {
                    return Err(PromqlError::execution(format!(
                        "the selectors have more than {} series; add matchers",
                        cells::SERIES_MAX
                    )));
                }
            }
        }
        let limit = asked.given.limit("limit")?;
        let first: Vec<Json> = all.iter().take(limit).map(forms::metric).collect();
        forms::data(&first, all.len() > limit)
    };
    forms::response(answer.await)
}

/// Returns the names of labels.
pub(super) async fn labels(call: ReadCall) -> Response {
    let answer = async {
        let asked = Asked::new(call).await?;
        let selections = asked.selections()?;
        let takes = |family: &&Family| {
            selections.is_empty()
                || selections.iter().any(|selection| {
                    selection.takes(family) && CellChoice::new(family, &selection.0, None).is_some()
                })
        };
        let families = asked.families.iter().filter(takes);
        let names = families.flat_map(Family::labels).collect();
        limited(asked.given.limit("limit")?, &names)
    };
    forms::response(answer.await)
}

/// Returns the values of a label.
pub(super) async fn values(Path(name): LabelName, call: ReadCall) -> Response {
    let answer = async {
        let asked = Asked::new(call).await?;
        let name = label_name(&name)?;
        let mut selections = asked.selections()?;
        if selections.is_empty() {
            selections.push(Selection(Vec::new()));
        }
        let mut values = BTreeSet::new();
        // The families of a rollup that take the same matchers have the same keys.
        let mut seen = BTreeSet::new();
        for (at, selection) in selections.iter().enumerate() {
            let families = asked.families.iter();
            for family in families.filter(|family| selection.takes(family)) {
                let is_there = CellChoice::new(family, &selection.0, None).is_some();
                if !is_there || !family.labels().contains(&name) {
                    continue;
                }
                match name.as_str() {
                    METRIC_NAME => drop(values.insert(family.name.clone())),
                    LEVEL if family.is_gauge() => {
                        let levels = family.levels_of(&selection.0);
                        let levels = levels.unwrap_or_else(|| family.levels().collect());
                        values.extend(levels.iter().map(|level| level.as_str().to_owned()));
                    }
                    LE => {}
                    _ if seen.insert((at, family.rollup.name().clone())) => {
                        let keep = KeptLabels::By(vec![name.clone()]);
                        let found = asked.series(family, selection, Some(&keep)).await?;
                        let found = found.iter().map(|labels| labels.get(&name).to_owned());
                        values.extend(found.filter(|value| !value.is_empty()));
                    }
                    _ => {}
                }
            }
        }
        limited(asked.given.limit("limit")?, &values)
    };
    forms::response(answer.await)
}
