//! Queries over series written down by hand. The grid has buckets of a minute from 0; the expected
//! answers follow Prometheus' documentation
//! (<https://prometheus.io/docs/prometheus/latest/querying/>) and, for windows, the head of
//! `crate::promql`.

mod property;

use std::sync::Arc;

use super::*;

/// A bucket.
pub(super) const MINUTE: i64 = 60_000;

/// Returns labels written as `a=1,b=2`.
pub(super) fn labels(text: &str) -> Labels {
    let pairs = text.split(',').filter(|pair| !pair.is_empty());
    let pairs = pairs.map(|pair| pair.split_once('=').expect("a label"));
    pairs
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

/// Returns a grid of `buckets` minutes, the first of which begins at 0.
pub(super) fn grid(buckets: i64, complete_from: i64) -> Arc<Grid> {
    let bounds = (0..=buckets).map(|at| at * MINUTE).collect();
    Arc::new(Grid::new(bounds, complete_from))
}

/// Returns a series; `None` is a bucket without a cell.
pub(super) fn series(name: &str, kind: SeriesKind, cells: &[Option<f64>]) -> Series {
    let cells = cells.iter().zip(0..);
    let cells = cells
        .filter_map(|(value, at)| Some((at, (*value)?)))
        .collect();
    Series::new(labels(name), kind, grid(40, i64::MIN), cells)
}

fn counter(name: &str, cells: &[Option<f64>]) -> Series {
    series(name, SeriesKind::Counter { base: None }, cells)
}

/// Returns the series that the tests ask.
fn all() -> Vec<Series> {
    let some = |values: &[f64]| values.iter().copied().map(Some).collect::<Vec<_>>();
    vec![
        counter(
            "__name__=hits,host=a,site=x",
            &some(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]),
        ),
        counter(
            "__name__=hits,host=b,site=x",
            &[Some(10.0), None, None, Some(40.0), None, None],
        ),
        counter(
            "__name__=errors,host=a",
            &[None, Some(1.0), None, Some(2.0)],
        ),
        series(
            "__name__=size,host=a",
            SeriesKind::Gauge,
            &some(&[5.0, 7.0, 1.0, 9.0]),
        ),
        series(
            "__name__=size,host=b",
            SeriesKind::Gauge,
            &[Some(2.0), None, Some(8.0)],
        ),
        counter("__name__=lat,le=1", &some(&[4.0, 0.0])),
        counter("__name__=lat,le=3", &some(&[6.0, 0.0])),
        counter("__name__=lat,le=+Inf", &some(&[8.0, 0.0])),
    ]
}

/// Evaluates a query over series.
pub(super) fn over(series: &[Series], text: &str, steps: Steps) -> Vec<(i64, PromqlValue)> {
    match tried(series, text, steps) {
        Ok(answers) => answers,
        Err(error) => panic!("{text}: {error:?}"),
    }
}

fn tried(
    series: &[Series],
    text: &str,
    steps: Steps,
) -> Result<Vec<(i64, PromqlValue)>, PromqlError> {
    let query = Query::parse(text)?;
    let needs = query.needs(steps)?;
    let reads = needs.iter().map(|need| {
        let chosen = series.iter().filter(|one| {
            need.matchers
                .iter()
                .all(|matcher| matcher.is_match(one.labels.get(&matcher.name)))
        });
        SelectorRead {
            series: chosen.cloned().collect(),
        }
    });
    let reads = reads.collect();
    // The query is moved, as the server does.
    let query = Box::new(query);
    evaluate(&query, steps, &needs, reads, None)
}

pub(super) fn instant(t: i64) -> Steps {
    Steps {
        start: t,
        end: t,
        step: 1,
    }
}

/// Writes an answer as `{labels} value`, one series a line.
fn told(value: &PromqlValue) -> String {
    let name = |labels: &Labels| {
        let pairs = labels.iter().map(|(name, value)| format!("{name}={value}"));
        format!("{{{}}}", pairs.collect::<Vec<_>>().join(","))
    };
    let round = |value: f64| number_text((value * 1e9).round() / 1e9);
    match value {
        PromqlValue::Scalar(value) => round(*value),
        PromqlValue::Text(text) => format!("{text:?}"),
        PromqlValue::Vector(samples) => {
            let lines = samples
                .iter()
                .map(|s| format!("{} {}", name(&s.labels), round(s.value)));
            lines.collect::<Vec<_>>().join("\n")
        }
        PromqlValue::Matrix(series) => {
            let lines = series.iter().map(|one| {
                let points = one
                    .points
                    .iter()
                    .map(|(t, v)| format!(" {v}@{}", t / 1_000));
                format!("{}{}", name(&one.labels), points.collect::<String>())
            });
            lines.collect::<Vec<_>>().join("\n")
        }
    }
}

/// Checks the answer at an instant, in seconds.
#[track_caller]
fn check(t_s: i64, text: &str, expected: &str) {
    let answers = over(&all(), text, instant(t_s * 1_000));
    assert_eq!(told(&answers[0].1), expected, "{text} at {t_s}");
}

/// Checks that a query is refused, and the error.
#[track_caller]
fn refused(text: &str, said: &str) {
    match tried(&all(), text, instant(240_000)) {
        Err(PromqlError::BadData(message) | PromqlError::Execution(message)) => {
            assert!(message.contains(said), "{text}: {message}");
        }
        other => panic!("{text}: {other:?}"),
    }
}

#[test]
fn a_counter_is_the_sum_of_the_buckets_that_have_ended() {
    check(59, "hits", "");
    check(
        60,
        "hits",
        "{__name__=hits,host=a,site=x} 1\n{__name__=hits,host=b,site=x} 10",
    );
    check(119, "hits{host='a'}", "{__name__=hits,host=a,site=x} 1");
    check(120, "hits{host=\"a\"}", "{__name__=hits,host=a,site=x} 3");
    // It keeps its value without cells.
    check(
        1_800,
        "hits{host=~\"b|c\"}",
        "{__name__=hits,host=b,site=x} 50",
    );
    check(
        1_800,
        "hits{host!~\"a.*\"}",
        "{__name__=hits,host=b,site=x} 50",
    );
    check(
        1_800,
        "{host!=\"a\",site=\"x\"}",
        "{__name__=hits,host=b,site=x} 50",
    );
}

#[test]
fn a_gauge_is_good_until_the_next_bucket_has_ended() {
    check(
        60,
        "size",
        "{__name__=size,host=a} 5\n{__name__=size,host=b} 2",
    );
    check(119, "size{host='b'}", "{__name__=size,host=b} 2");
    check(120, "size{host='b'}", "");
    check(180, "size{host='b'}", "{__name__=size,host=b} 8");
    check(299, "size", "{__name__=size,host=a} 9");
    check(300, "size", "");
    check(299, "timestamp(size)", "{host=a} 240");
    check(299, "timestamp(hits{host='a'})", "{host=a,site=x} 240");
}

#[test]
fn a_window_has_the_buckets_that_end_after_its_begin_and_no_later_than_its_end() {
    check(
        240,
        "increase(hits[2m])",
        "{host=a,site=x} 7\n{host=b,site=x} 40",
    );
    check(239, "increase(hits[2m])", "{host=a,site=x} 5");
    check(
        240,
        "increase(hits[3m])",
        "{host=a,site=x} 9\n{host=b,site=x} 40",
    );
    check(
        240,
        "rate(hits{host='a'}[2m])",
        "{host=a,site=x} 0.058333333",
    );
    check(240, "sum_over_time(size[2m])", "{host=a} 10\n{host=b} 8");
    check(
        240,
        "size[2m]",
        "{__name__=size,host=a} 1@180 9@240\n{__name__=size,host=b} 8@180",
    );
    check(
        120,
        "hits{host='b'}[2m]",
        "{__name__=hits,host=b,site=x} 10@60 10@120",
    );
    // The window is 90 s, the bucket in it 60 s.
    check(200, "increase(hits{host='a'}[90s])", "{host=a,site=x} 3.75");
    check(
        200,
        "rate(hits{host='a'}[90s])",
        "{host=a,site=x} 0.041666667",
    );
    check(200, "increase(hits{host='a'}[40s])", "{host=a,site=x} 2");
    check(200, "increase(hits{host='a'}[15s])", "");
}

#[test]
fn the_last_rate_is_that_of_the_last_bucket() {
    check(
        250,
        "irate(hits[5m])",
        "{host=a,site=x} 0.066666667\n{host=b,site=x} 0.666666667",
    );
    check(
        200,
        "irate(hits[5m])",
        "{host=a,site=x} 0.05\n{host=b,site=x} 0",
    );
    check(200, "irate(hits[1m])", "{host=a,site=x} 0.05");
}

#[test]
fn a_bucket_below_the_floor_makes_a_window_unknown() {
    let cells = (0..6).map(|at| (at, 1.0)).collect();
    let kind = SeriesKind::Counter { base: Some(100.0) };
    let one = Series::new(labels("__name__=hits"), kind, grid(20, 2 * MINUTE), cells);
    let at = |t_s: i64, text: &str| {
        let answers = over(std::slice::from_ref(&one), text, instant(t_s * 1_000));
        told(&answers[0].1)
    };
    assert_eq!(at(239, "increase(hits[2m])"), "");
    assert_eq!(at(240, "increase(hits[2m])"), "{} 2");
    assert_eq!(at(240, "increase(hits[3m])"), "");
    assert_eq!(at(240, "irate(hits[3m])"), "");
    assert_eq!(at(119, "hits"), "");
    assert_eq!(at(120, "hits"), "{__name__=hits} 102");
}

#[test]
fn samples_of_a_window_are_reduced() {
    for (text, expected) in [
        ("avg_over_time(size{host='a'}[4m])", "{host=a} 5.5"),
        ("min_over_time(size{host='a'}[4m])", "{host=a} 1"),
        ("max_over_time(size{host='a'}[4m])", "{host=a} 9"),
        ("count_over_time(size[4m])", "{host=a} 4\n{host=b} 2"),
        (
            "last_over_time(size[4m])",
            "{__name__=size,host=a} 9\n{__name__=size,host=b} 8",
        ),
        ("present_over_time(size[4m])", "{host=a} 1\n{host=b} 1"),
        ("stdvar_over_time(size{host='a'}[4m])", "{host=a} 8.75"),
        ("quantile_over_time(0.5, size{host='a'}[4m])", "{host=a} 6"),
        ("changes(size{host='a'}[4m])", "{host=a} 3"),
        ("resets(size{host='a'}[4m])", "{host=a} 1"),
        ("idelta(size{host='a'}[4m])", "{host=a} 8"),
        // 4 between samples of 180 s, in a window of 240 s.
        ("delta(size{host='a'}[4m])", "{host=a} 5.333333333"),
        ("delta(size{host='b'}[4m])", "{host=b} 12"),
        ("deriv(size{host='b'}[4m])", "{host=b} 0.05"),
        ("predict_linear(size{host='b'}[4m], 60)", "{host=b} 14"),
        ("absent_over_time(size{host='c'}[4m])", "{host=c} 1"),
        ("absent_over_time(size[4m])", ""),
    ] {
        check(240, text, expected);
    }
}

#[test]
fn a_range_of_a_subquery_is_extrapolated_as_prometheus_does() {
    // Samples 3, 6, 10 at 120, 180 and 240 s; the window begins 60 s before the first.
    check(
        240,
        "hits{host='a'}[3m:1m]",
        "{__name__=hits,host=a,site=x} 3@120 6@180 10@240",
    );
    check(240, "increase(hits{host='a'}[3m:1m])", "{host=a,site=x} 10");
    check(240, "increase(errors[3m:1m])", "{host=a} 3");
    check(
        240,
        "max_over_time(hits{host='a'}[3m:])",
        "{host=a,site=x} 10",
    );
    check(
        250,
        "hits{host='a'}[2m:50s]",
        "{__name__=hits,host=a,site=x} 3@150 6@200 10@250",
    );
    check(
        240,
        "max_over_time(rate(hits{host='a'}[1m])[2m:1m])",
        "{host=a,site=x} 0.066666667",
    );
}

#[test]
fn selectors_look_back_and_at_fixed_times() {
    check(
        300,
        "hits{host='a'} offset 1m",
        "{__name__=hits,host=a,site=x} 10",
    );
    check(
        180,
        "hits{host='a'} offset -1m",
        "{__name__=hits,host=a,site=x} 10",
    );
    check(
        1_800,
        "hits{host='a'} @ 120",
        "{__name__=hits,host=a,site=x} 3",
    );
    check(
        1_800,
        "increase(hits{host='a'}[2m] @ 300 offset 1m)",
        "{host=a,site=x} 7",
    );
    let steps = Steps {
        start: 2 * MINUTE,
        end: 4 * MINUTE,
        step: MINUTE,
    };
    for (text, expected) in [
        ("hits{host='a'} @ end()", "10"),
        ("hits{host='a'} @ start()", "3"),
    ] {
        for (_, value) in over(&all(), text, steps) {
            assert_eq!(
                told(&value),
                format!("{{__name__=hits,host=a,site=x}} {expected}")
            );
        }
    }
}

#[test]
fn groups_are_reduced_by_and_without_labels() {
    for (text, expected) in [
        ("sum(hits)", "{} 60"),
        ("sum by (host) (hits)", "{host=a} 10\n{host=b} 50"),
        ("sum without (host) (hits)", "{site=x} 60"),
        ("avg(hits)", "{} 30"),
        ("min(hits)", "{} 10"),
        ("max(hits)", "{} 50"),
        ("count(hits)", "{} 2"),
        ("group(hits)", "{} 1"),
        ("stddev(hits)", "{} 20"),
        ("stdvar(hits)", "{} 400"),
        ("quantile(0.25, hits)", "{} 20"),
        ("quantile(2, hits)", "{} +Inf"),
        ("topk(1, hits)", "{__name__=hits,host=b,site=x} 50"),
        ("bottomk(1, hits)", "{__name__=hits,host=a,site=x} 10"),
        ("topk(0, hits)", ""),
        ("count_values('v', hits)", "{v=10} 1\n{v=50} 1"),
        ("sum by (nothing) (hits)", "{} 60"),
        ("sum(nothing)", ""),
        ("sum(increase(hits[2m]))", "{} 47"),
        (
            "sum by (host) (rate(hits[2m]))",
            "{host=a} 0.058333333\n{host=b} 0.333333333",
        ),
    ] {
        check(240, text, expected);
    }
}

#[test]
fn operators_match_series() {
    for (text, expected) in [
        ("1 + 2 * 3 ^ 2 % 5", "4"),
        ("-2 ^ 2", "-4"),
        ("1 > bool 2", "0"),
        ("hits * 2", "{host=a,site=x} 20\n{host=b,site=x} 100"),
        ("-hits{host='a'}", "{host=a,site=x} -10"),
        ("hits > 20", "{__name__=hits,host=b,site=x} 50"),
        ("20 < hits", "{__name__=hits,host=b,site=x} 50"),
        ("hits > bool 20", "{host=a,site=x} 0\n{host=b,site=x} 1"),
        (
            "hits - hits offset 1m",
            "{host=a,site=x} 4\n{host=b,site=x} 40",
        ),
        ("errors / on(host) hits", "{host=a} 0.3"),
        ("errors / ignoring(site) hits", "{host=a} 0.3"),
        (
            "hits / on(host) group_left errors",
            "{host=a,site=x} 3.333333333",
        ),
        ("errors / on(host) group_right(site) hits", "{host=a} 0.3"),
        (
            "hits * on(site) group_left sum by (site) (hits)",
            "{host=a,site=x} 600\n{host=b,site=x} 3000",
        ),
        ("errors + on(host) group_right hits", "{host=a,site=x} 13"),
        ("hits > on(host) errors", "{host=a} 10"),
        ("hits > ignoring(site) errors", "{__name__=hits,host=a} 10"),
        ("hits >= bool on(host) errors", "{host=a} 1"),
        (
            "hits and on(host) errors",
            "{__name__=hits,host=a,site=x} 10",
        ),
        (
            "hits unless on(host) errors",
            "{__name__=hits,host=b,site=x} 50",
        ),
        (
            "errors or hits{host='b'}",
            "{__name__=errors,host=a} 3\n{__name__=hits,host=b,site=x} 50",
        ),
        (
            "errors or on(host) hits",
            "{__name__=errors,host=a} 3\n{__name__=hits,host=b,site=x} 50",
        ),
        ("hits / nothing", ""),
        // Duplicates on one side do not matter if the other is empty.
        ("nothing / on(site) hits", ""),
        ("hits > on(site) group_left vector(1)", ""),
    ] {
        check(240, text, expected);
    }
    refused("hits / on(site) hits", "many-to-many matching not allowed");
    refused("hits / on(site) sum by (site) (hits)", "must be explicit");
    refused("{host='a'} + 1", "same labelset");
}

#[test]
fn functions_of_values_and_labels() {
    for (text, expected) in [
        ("abs(hits{host='a'} - 12)", "{host=a,site=x} 2"),
        (
            "clamp(hits, 20, 40)",
            "{host=a,site=x} 20\n{host=b,site=x} 40",
        ),
        ("clamp(hits, 40, 20)", ""),
        ("clamp_min(hits{host='a'}, 11)", "{host=a,site=x} 11"),
        ("round(hits{host='a'} / 3, 0.5)", "{host=a,site=x} 3.5"),
        ("sgn(-hits{host='a'})", "{host=a,site=x} -1"),
        ("sqrt(hits{host='a'} + 6)", "{host=a,site=x} 4"),
        ("scalar(hits{host='a'}) + 1", "11"),
        ("scalar(hits)", "NaN"),
        ("vector(7)", "{} 7"),
        ("time()", "240"),
        ("minute()", "{} 4"),
        ("days_in_month(vector(1709251200))", "{} 31"),
        ("day_of_week(vector(1709251200))", "{} 5"),
        ("year(vector(1709251200))", "{} 2024"),
        ("absent(hits)", ""),
        ("absent(hits{host='c',site=~'x'})", "{host=c} 1"),
        (
            "sort(hits)",
            "{__name__=hits,host=a,site=x} 10\n{__name__=hits,host=b,site=x} 50",
        ),
        (
            "sort_desc(hits)",
            "{__name__=hits,host=b,site=x} 50\n{__name__=hits,host=a,site=x} 10",
        ),
        (
            "sort(hits{host='a'} / 0 * 0 or on(host) hits)",
            "{__name__=hits,host=b,site=x} 50\n{host=a,site=x} NaN",
        ),
        (
            "label_replace(errors, 'to', '$1-$2', 'host', '(.)()')",
            "{__name__=errors,host=a,to=a-} 3",
        ),
        (
            "label_replace(errors, 'to', 'y', 'host', 'b')",
            "{__name__=errors,host=a} 3",
        ),
        (
            "label_join(errors, 'to', '/', 'host', 'host')",
            "{__name__=errors,host=a,to=a/a} 3",
        ),
        ("'a text'", "\"a text\""),
    ] {
        check(240, text, expected);
    }
}

#[test]
fn a_quantile_is_interpolated_within_its_bucket() {
    for (q, expected) in [
        ("0.25", "0.5"),
        ("0.5", "1"),
        ("0.625", "2"),
        ("0.9", "3"),
        ("0", "0"),
        ("1.5", "+Inf"),
        ("-1", "-Inf"),
    ] {
        let text = format!("histogram_quantile({q}, increase(lat[1m]))");
        check(60, &text, &format!("{{}} {expected}"));
    }
    check(120, "histogram_quantile(0.5, increase(lat[1m]))", "{} NaN");
    check(60, "histogram_quantile(0.5, lat{le!='+Inf'})", "{} NaN");
    let of = |q, buckets: &[(f64, f64)]| quantile::of_buckets(q, buckets.to_vec());
    let infinite = f64::INFINITY;
    // Empty buckets below the lowest value change nothing.
    assert_eq!(of(0.0, &[(6.0, 0.0), (7.0, 2.0), (infinite, 2.0)]), 6.0);
    assert_eq!(
        of(0.0, &[(3.0, 0.0), (6.0, 0.0), (7.0, 2.0), (infinite, 2.0)]),
        6.0
    );
    assert_eq!(of(0.5, &[(0.0, 2.0), (7.0, 3.0), (infinite, 3.0)]), 0.0);
}

#[test]
fn what_is_not_supported_is_named() {
    for (text, named) in [
        (
            "histogram_stddev(hits)",
            "the function histogram_stddev is not supported",
        ),
        (
            "double_exponential_smoothing(hits[5m], 0.1, 0.1)",
            "double_exponential_smoothing",
        ),
        ("limitk(1, hits)", "the aggregation limitk is not supported"),
        ("sort_by_label(hits, 'host')", "sort_by_label"),
        ("hits{host='a' or host='b'}", "or between matchers"),
        ("hits + fill(0) hits", "fill is not supported"),
    ] {
        refused(text, named);
    }
}

#[test]
fn a_text_that_is_no_query_is_refused() {
    for (text, named) in [
        ("", "query"),
        ("hits{", "query"),
        ("rate(hits)", "rate"),
        ("1 > 2", "bool"),
        ("hits[5m] + 1", "query"),
        ("{host=~'.*'}", "non-empty matcher"),
        ("hits{host=~'('}", "query"),
        (
            "label_replace(hits, '1', '', 'a', 'b')",
            "invalid label name",
        ),
        (
            "label_replace(hits, 'a', '', 'a', '(')",
            "invalid regular expression",
        ),
        ("nosuchfunction(hits)", "nosuchfunction"),
    ] {
        let said = match Query::parse(text) {
            Err(PromqlError::BadData(said) | PromqlError::Execution(said)) => said,
            other => panic!("{text}: {other:?}"),
        };
        assert!(
            said.to_lowercase().contains(&named.to_lowercase()),
            "{text}: {said}"
        );
    }
    assert!(selector_matchers("hits{host='a'}").is_ok_and(|all| all.len() == 2));
    for text in ["hits + 1", "hits offset 5m", "hits[5m]"] {
        assert!(selector_matchers(text).is_err(), "{text}");
    }
}

#[test]
fn a_deep_text_is_refused_whatever_hides_its_depth() {
    let deep = |before: &str, open: &str, close: &str| {
        format!("{before}{}1{}", open.repeat(500), close.repeat(500))
    };
    for text in [
        deep("", "(", ")"),
        deep("", "-", ""),
        deep("# it's\n", "(", ")"),
        deep("{a='}'} + ", "(", ")"),
        deep("'\\'' + ", "(", ")"),
        deep("`\\` + ", "abs(", ")"),
        deep("", "1 + ", ""),
        deep("", "hits or ", ""),
        deep("", "hits[5m:1m][5m:1m]", ""),
    ] {
        match Query::parse(&text) {
            Err(PromqlError::BadData(said)) => assert!(said.contains("limit is 200"), "{said}"),
            other => panic!("{:.40}: {other:?}", text),
        }
    }
    let long = format!("hits{{host='{}'}}", "a".repeat(70_000));
    assert!(
        matches!(Query::parse(&long), Err(PromqlError::BadData(said)) if said.contains("65536"))
    );
    assert!(Query::parse(&format!("hits{{host='{}'}}", "(".repeat(1_000))).is_ok());
}

#[test]
fn an_evaluation_ends_at_its_time_and_its_number_of_samples() {
    let query = Query::parse("count_over_time(vector(1)[10d:1s])").expect("a query");
    let steps = |count: i64| Steps {
        start: 0,
        end: 1_000 * count,
        step: 1_000,
    };
    let now = Some(std::time::Instant::now());
    let ended = evaluate(&query, steps(1), &[], Vec::new(), now);
    assert!(matches!(ended, Err(PromqlError::Timeout)), "{ended:?}");
    let ended = evaluate(&query, steps(100), &[], Vec::new(), None);
    assert!(matches!(ended, Err(PromqlError::Execution(said)) if said.contains("20000000")));
    let query = Query::parse("hits").expect("a query");
    let needs = query.needs(steps(400_000)).expect("needs");
    let reads = vec![SelectorRead { series: all() }];
    let ended = evaluate(&query, steps(400_000), &needs, reads, None);
    assert!(matches!(ended, Err(PromqlError::Execution(said)) if said.contains("2000000 samples")));
}
