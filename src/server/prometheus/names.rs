//! `series`, `labels` and `label/{name}/values`.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Path, RawQuery, State};
use axum::response::Response;
use promql_parser::label::{METRIC_NAME, Matcher};
use serde_json::{Value as Json, json};

use super::families::{Column, Family, LE, LEVEL};
use super::levels::us;
use super::statement::{Buckets, Choice};
use super::{Asked, LabelName, cells, forms};
use crate::promql::{Grouping, Labels, PromqlError, selector_matchers};
use crate::server::app::App;
use crate::server::status::Who;

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
        keep: Option<&Grouping>,
    ) -> Result<BTreeSet<Labels>, PromqlError> {
        let choice = Choice::new(family, &selection.0, keep);
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
        if !matches!(family.column, Column::Gauge(_)) {
            return Ok(named.collect());
        }
        let all: Vec<Labels> = named.collect();
        let of_level = selection.0.iter().filter(|matcher| matcher.name == LEVEL);
        let of_level: Vec<&Matcher> = of_level.collect();
        let passes = |level: &aggregator::Level| {
            of_level
                .iter()
                .all(|matcher| matcher.is_match(level.as_str()))
        };
        let levels = family.levels().filter(passes);
        let each = levels.flat_map(|level| {
            let all = all.iter();
            all.map(move |labels| labels.with(LEVEL, level.as_str()))
        });
        Ok(each.collect())
    }
}

fn limited(limit: usize, texts: BTreeSet<String>) -> Json {
    json!(texts.into_iter().take(limit).collect::<Vec<String>>())
}

/// Returns the labels of series. The bounds of histograms depend on the values of a range, so one
/// series stands for all bounds.
pub(super) async fn series(
    State(app): State<Arc<App>>,
    who: Who,
    RawQuery(parameters): RawQuery,
    body: Body,
) -> Response {
    let answer = async {
        let asked = Asked::new(app, who, parameters, body).await?;
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
        let all = all.iter().take(asked.given.limit()?);
        let object = |labels: &Labels| {
            let labels = labels.iter();
            let members = labels.map(|(name, value)| (name.to_owned(), Json::from(value)));
            Json::Object(members.collect())
        };
        Ok(Json::Array(all.map(object).collect()))
    };
    forms::response(answer.await)
}

/// Returns the names of labels.
pub(super) async fn labels(
    State(app): State<Arc<App>>,
    who: Who,
    RawQuery(parameters): RawQuery,
    body: Body,
) -> Response {
    let answer = async {
        let asked = Asked::new(app, who, parameters, body).await?;
        let selections = asked.selections()?;
        let takes = |family: &&Family| {
            selections.is_empty()
                || selections.iter().any(|selection| {
                    selection.takes(family) && Choice::new(family, &selection.0, None).is_some()
                })
        };
        let families = asked.families.iter().filter(takes);
        let names = families.flat_map(Family::labels).collect();
        Ok(limited(asked.given.limit()?, names))
    };
    forms::response(answer.await)
}

/// Returns the values of a label.
pub(super) async fn values(
    State(app): State<Arc<App>>,
    who: Who,
    Path(name): LabelName,
    RawQuery(parameters): RawQuery,
    body: Body,
) -> Response {
    let answer = async {
        let asked = Asked::new(app, who, parameters, body).await?;
        let mut selections = asked.selections()?;
        if selections.is_empty() {
            selections.push(Selection(Vec::new()));
        }
        let mut values = BTreeSet::new();
        // The families of a rollup have the same keys.
        let mut seen = BTreeSet::new();
        for (at, selection) in selections.iter().enumerate() {
            for family in asked
                .families
                .iter()
                .filter(|family| selection.takes(family))
            {
                if !family.labels().contains(&name) {
                    continue;
                }
                match name.as_str() {
                    METRIC_NAME => drop(values.insert(family.name.clone())),
                    LEVEL if matches!(family.column, Column::Gauge(_)) => {
                        values.extend(family.levels().map(|level| level.as_str().to_owned()));
                    }
                    LE => {}
                    _ if seen.insert((at, family.rollup.name().clone())) => {
                        let keep = Grouping::By(vec![name.clone()]);
                        let found = asked.series(family, selection, Some(&keep)).await?;
                        let found = found.iter().map(|labels| labels.get(&name).to_owned());
                        values.extend(found.filter(|value| !value.is_empty()));
                    }
                    _ => {}
                }
            }
        }
        Ok(limited(asked.given.limit()?, values))
    };
    forms::response(answer.await)
}
