//! Counts of LogQL's windows with the rule = counts of the events one by one, for random queries
//! over random histories.

use std::collections::BTreeMap;

use super::*;
use crate::logql::{Expr, Labels, MetricValue, SeriesPieces, Steps, leaves, parse};
use crate::{Parameters, Question, Session, Sources};

const SECOND_NS: i64 = 1_000_000_000;

/// An event as the raw rows show it.
struct Row {
    time_us: i64,
    status: Option<i64>,
    method: Option<String>,
    path: Option<String>,
}

impl Row {
    fn class(&self) -> Option<String> {
        self.status.map(|status| format!("{}xx", status / 100))
    }

    fn label(&self, name: &str) -> Option<String> {
        match name {
            "status_class" => self.class(),
            "method" => self.method.clone(),
            "path" => self.path.clone(),
            "stream" => Some("access".to_owned()),
            other => panic!("no label is called {other}"),
        }
    }
}

/// A condition of a query, and what it means.
type Condition = (&'static str, fn(&Row) -> bool);

const SELECTORS: [Condition; 4] = [
    ("", |_| true),
    (r#", status_class="5xx""#, |row| {
        row.class().as_deref() == Some("5xx")
    }),
    (r#", status_class!="2xx""#, |row| {
        row.class().as_deref() != Some("2xx")
    }),
    (r#", status_class=~"2..|4..""#, |row| {
        matches!(row.class().as_deref(), Some("2xx" | "4xx"))
    }),
];
const STAGES: [Condition; 4] = [
    ("", |_| true),
    ("| status >= 400", |row| {
        row.status.is_some_and(|status| status >= 400)
    }),
    (r#"| method="GET""#, |row| {
        row.method.as_deref() == Some("GET")
    }),
    (r#"| path=~"/p[0-3]""#, |row| {
        let numbers = ["/p0", "/p1", "/p2", "/p3"];
        row.path
            .as_deref()
            .is_some_and(|path| numbers.contains(&path))
    }),
];
const GROUPS: [&[&str]; 5] = [
    &[],
    &["status_class"],
    &["status_class", "method"],
    &["path"],
    &["stream", "status_class"],
];

/// A query of the windows `(t - offset - range, t - offset]`.
struct Windowed {
    text: String,
    steps: Steps,
    range_ns: i64,
    offset_ns: i64,
    is_rate: bool,
    conditions: [Condition; 2],
    group: &'static [&'static str],
}

impl Windowed {
    fn any(random: &mut Random) -> Self {
        let mut pick = |all: &[i64]| all[random.below(all.len())];
        let step_ns = SECOND_NS * pick(&[60, 300, 3_600, 6 * 3_600, 86_400, 172_800, 90, 7]);
        let count = pick(&[1, 1, 2, 3, 5, 8, 70]);
        let range_ns = match pick(&[0, 0, 1, 2, 3]) {
            0 => step_ns,
            1 => step_ns * pick(&[2, 5]),
            2 => step_ns / 2,
            _ => 86_400 * SECOND_NS * pick(&[1, 7, 30]),
        };
        let offset_ns = pick(&[0, 0, 0, 1, 3_600 * SECOND_NS, 7_000_000]);
        // Most windows end at a minute, some within a microsecond.
        let shift_ns = pick(&[0, 0, 0, 0, 1, 1_000, 7_001, 30 * SECOND_NS]);
        let minute = random.below(DAYS * 24 * 60) as i64;
        let minute_ns = (START + minute * HOUR_US / 60) * 1000;
        // A log volume has many windows, with the ends of buckets.
        let is_volume = random.below(4) == 0;
        let (range_ns, count, offset_ns) = match is_volume {
            true => (step_ns, 70, 1),
            false => (range_ns, count, offset_ns),
        };
        let start_ns = match (is_volume, random.below(2)) {
            (true, 0) => minute_ns.div_euclid(step_ns) * step_ns,
            (true, _) => minute_ns,
            (false, _) => minute_ns + shift_ns,
        };
        let steps = Steps {
            start_ns,
            step_ns,
            count: count as usize,
        };
        let conditions = [
            SELECTORS[random.below(SELECTORS.len())],
            STAGES[random.below(STAGES.len())],
        ];
        let group = GROUPS[random.below(GROUPS.len())];
        let is_rate = random.below(4) == 0;
        let function = if is_rate { "rate" } else { "count_over_time" };
        let by = match group.is_empty() {
            true => String::new(),
            false => format!(" by ({})", group.join(", ")),
        };
        let [selector, stage] = conditions.map(|(text, _)| text);
        let text = format!(
            r#"sum{by} ({function}({{stream="access"{selector}}} {stage} [{range_ns}ns] offset {offset_ns}ns))"#
        );
        Self {
            text,
            steps,
            range_ns,
            offset_ns,
            is_rate,
            conditions,
            group,
        }
    }

    /// Counts events one by one.
    fn counted(&self, rows: &[Row]) -> BTreeMap<Labels, Vec<Option<f64>>> {
        let mut series: BTreeMap<Labels, Vec<i64>> = BTreeMap::new();
        let passing = rows.iter();
        for row in passing.filter(|row| self.conditions.iter().all(|(_, passes)| passes(row))) {
            let at_ns = row.time_us * 1000;
            let within = (0..self.steps.count).filter(|nth| {
                let end_ns = self.steps.at(*nth) - self.offset_ns;
                end_ns - self.range_ns < at_ns && at_ns <= end_ns
            });
            let labels = self.group.iter();
            let labels = labels.filter_map(|name| Some(((*name).to_owned(), row.label(name)?)));
            let labels: Labels = labels.collect();
            for nth in within {
                let counts = series.entry(labels.clone());
                counts.or_insert_with(|| vec![0; self.steps.count])[nth] += 1;
            }
        }
        let seconds = self.range_ns as f64 / 1e9;
        let value = |count: i64| match self.is_rate {
            true => count as f64 / seconds,
            false => count as f64,
        };
        let points = |counts: Vec<i64>| {
            let each = counts.into_iter();
            each.map(|count| (count > 0).then(|| value(count)))
                .collect()
        };
        let series = series.into_iter();
        series
            .map(|(labels, counts)| (labels, points(counts)))
            .collect()
    }
}

/// Evaluates a query. Returns its series, and whether a rollup answered.
async fn evaluated(
    engine: &Engine,
    snapshot: &Arc<Snapshot>,
    asked: &Windowed,
) -> (BTreeMap<Labels, Vec<Option<f64>>>, bool) {
    let Ok(Expr::Metric(metric)) = parse(&asked.text) else {
        panic!("{} is no metric query", asked.text);
    };
    let (mut read, mut rewritten) = (Vec::new(), false);
    for (range, labels) in leaves(&metric) {
        let question: Question = range.question(asked.steps, &labels);
        let sources = Sources::one(Arc::clone(snapshot), Arc::new(NoSystemInfo));
        let session = Session::default();
        let answer = engine.ask(sources, &session, question, Parameters::None);
        let answer = answer
            .await
            .unwrap_or_else(|e| panic!("{}: {e}", asked.text));
        let (_, batches, figures) = answer.collect().await.expect("rows");
        rewritten |= is_rewritten(&figures);
        let mut pieces = SeriesPieces::new(range, asked.steps);
        for batch in &batches {
            pieces.add(batch).expect("pieces");
        }
        read.push(pieces.finish());
    }
    let value = metric.evaluate(asked.steps, &mut read.into_iter());
    let MetricValue::Matrix(matrix) = value.expect("series") else {
        panic!("{} is a number", asked.text);
    };
    let series = matrix
        .into_iter()
        .map(|series| (series.labels, series.points));
    (series.collect(), rewritten)
}

async fn rows(engine: &Engine, snapshot: &Arc<Snapshot>) -> Vec<Row> {
    let sql = "SELECT arrow_cast(time, 'Int64') AS t, status, method, path FROM access";
    let (rows, _) = ask(engine, snapshot, sql).await;
    let of_row = |text: String| {
        let row: Value = serde_json::from_str(&text).expect("JSON");
        let text = |name: &str| row[name].as_str().map(str::to_owned);
        Row {
            time_us: row["t"].as_i64().expect("a time"),
            status: row["status"].as_i64(),
            method: text("method"),
            path: text("path"),
        }
    };
    rows.into_iter().map(of_row).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn windows_of_logql_hold_the_events_that_lie_in_them() {
    let number = |name: &str| std::env::var(name).ok().and_then(|v| v.parse::<u64>().ok());
    let questions = number("LOGMILL_QUESTIONS").unwrap_or(400) as usize;
    let first = number("LOGMILL_SEED").unwrap_or_else(|| u64::from(std::process::id()));
    let (with, without) = (engine(RollupUse::Always), engine(RollupUse::Never));
    let (mut asked, mut rewritten, mut empty, mut volumes) = (0, 0, 0, 0);
    for seed in (first..).take(questions.div_ceil(EACH)) {
        let mut random = Random(seed);
        let fixture = history(&mut random);
        let snapshot = fixture.store.snapshot();
        let rows = rows(&without, &snapshot).await;
        for _ in 0..EACH {
            let windowed = Windowed::any(&mut random);
            let (series, is_rewritten) = evaluated(&with, &snapshot, &windowed).await;
            let expected = windowed.counted(&rows);
            let Windowed { text, steps, .. } = &windowed;
            assert_eq!(series, expected, "LOGMILL_SEED={seed}: {text} at {steps:?}");
            asked += 1;
            empty += usize::from(series.is_empty());
            rewritten += usize::from(is_rewritten);
            volumes += usize::from(is_rewritten && steps.count > 64);
        }
    }
    println!(
        "{asked} queries from seed {first}: {rewritten} rewritten, {volumes} of them with more \
         windows than an answer has pieces, {empty} without a series"
    );
    assert!(volumes * 20 >= asked, "{volumes} of {asked}");
    assert!(rewritten * 5 >= asked, "{rewritten} of {asked}");
    assert!(empty * 3 <= asked * 2, "{empty} of {asked}");
}
