//! Checks the proof against all minutes: an expression is evaluated just before and at each
//! minute of days around a clock change, and must have one value in every bucket of a level for
//! which the proof holds.
//!
//! `LOGMILL_PROOFS=20000` tries that many expressions; `LOGMILL_SEED=7` tries those of one seed.

use std::collections::HashMap;
use std::sync::Arc;

use aggregator::{Calendar, Level, WeekStart};
use arrow::array::{ArrayRef, make_comparator};
use arrow::compute::SortOptions;
use arrow::datatypes::{DataType, Field, Schema, TimeUnit};
use chrono::{NaiveDate, TimeZone};
use chrono_tz::Tz;
use datafusion::common::DFSchema;
use datafusion::logical_expr::Expr;
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::optimizer::simplify_expressions::ExprSimplifier;

use super::{DAY_US, Proof, cuts, values_at};
use crate::tables::stream::prune::TimeRange;
use crate::tests::support::Random;
use crate::{Engine, EngineOptions};

const MINUTE_US: i64 = 60_000_000;
const HOUR_US: i64 = 60 * MINUTE_US;

/// Returns an expression over `time` as the rewrite receives it: coerced and simplified.
fn parse(engine: &Engine, sql: &str) -> Expr {
    let utc = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
    let schema = Schema::new(vec![
        Field::new("time", utc, false),
        Field::new("path", DataType::Utf8View, true),
    ]);
    let schema = Arc::new(DFSchema::try_from(schema).expect("a schema"));
    let state = engine.state();
    let parsed = state.create_logical_expr(sql, &schema);
    let parsed = parsed.unwrap_or_else(|e| panic!("{sql}: {e}")).unalias();
    let context = SimplifyContext::builder()
        .with_schema(Arc::clone(&schema))
        .with_config_options(Arc::clone(state.config_options()))
        .build();
    let simplifier = ExprSimplifier::new(context);
    let coerced = simplifier.coerce(parsed, &schema);
    let coerced = coerced.unwrap_or_else(|e| panic!("{sql}: {e}"));
    let simplified = simplifier.simplify(coerced);
    simplified.unwrap_or_else(|e| panic!("{sql}: {e}"))
}

fn engine() -> Engine {
    Engine::new(EngineOptions::default()).expect("an engine")
}

/// Returns the first microsecond of a date in UTC.
fn date(year: i32, month: u32, day: u32) -> i64 {
    let date = NaiveDate::from_ymd_opt(year, month, day).expect("a date");
    date.and_hms_opt(0, 0, 0)
        .expect("midnight")
        .and_utc()
        .timestamp_micros()
}

/// Zones, and a date on which their clocks change.
const ZONES: [(&str, (i32, u32, u32)); 12] = [
    ("UTC", (2024, 2, 29)),
    ("Europe/Berlin", (2024, 3, 31)),
    ("Europe/Berlin", (2024, 10, 27)),
    ("Asia/Kolkata", (2024, 1, 1)),
    // Clocks change by half an hour.
    ("Australia/Lord_Howe", (2024, 4, 6)),
    ("Australia/Lord_Howe", (2024, 10, 5)),
    // Clocks change one minute after midnight, back to the day before.
    ("America/St_Johns", (2006, 10, 29)),
    // Clocks change at midnight: one day begins at 01:00, another one repeats the hour before
    // midnight.
    ("America/Sao_Paulo", (2018, 11, 4)),
    ("America/Sao_Paulo", (2018, 2, 18)),
    // Midnight occurs twice.
    ("America/Havana", (2024, 11, 3)),
    // The zone skipped this date.
    ("Pacific/Apia", (2011, 12, 30)),
    // Until this date the offset from UTC was not a whole number of minutes.
    ("Africa/Monrovia", (1972, 1, 7)),
];

/// Returns `time` in one of the forms in which functions may read it.
fn clock(random: &mut Random) -> String {
    let zone = ZONES[random.below(ZONES.len())].0;
    match random.below(12) {
        0..=3 => "time".to_owned(),
        4..=6 => format!("time AT TIME ZONE '{zone}'"),
        7 => format!("to_local_time(time AT TIME ZONE '{zone}')"),
        8 => "CAST(time AS TIMESTAMP)".to_owned(),
        9 => ["time + INTERVAL '30 minutes'", "time - INTERVAL '5 hours'"][random.below(2)]
            .to_owned(),
        10 => "time AT TIME ZONE '+05:30'".to_owned(),
        _ => format!("CAST(time AS TIMESTAMP) AT TIME ZONE '{zone}'"),
    }
}

const UNITS: [&str; 17] = [
    "minute",
    "hour",
    "day",
    "week",
    "month",
    "quarter",
    "year",
    "minute",
    "hour",
    "day",
    "dow",
    "doy",
    "isodow",
    "isoyear",
    "second",
    "epoch",
    "millisecond",
];
const WIDTHS: [&str; 12] = [
    "1 minute",
    "5 minutes",
    "15 minutes",
    "30 minutes",
    "1 hour",
    "90 minutes",
    "6 hours",
    "1 day",
    "2 days",
    "7 days",
    "1 month",
    "3 months",
];
const FORMATS: [&str; 8] = [
    "%Y-%m-%d", "%H:%M", "%Y", "%H", "%d %B", "%G-%V", "%S", "%I %p %Z",
];

/// Returns a random function of `time`, near an instant.
fn leaf(random: &mut Random, near_us: i64) -> String {
    let instant = |random: &mut Random| {
        let steps = [1, MINUTE_US, HOUR_US, DAY_US][random.below(4)];
        let at_us =
            (near_us + (random.below(4_000) as i64 - 2_000) * MINUTE_US).div_euclid(steps) * steps;
        let at = chrono::Utc
            .timestamp_micros(at_us)
            .single()
            .expect("a time");
        format!("TIMESTAMP '{}'", at.format("%Y-%m-%d %H:%M:%S%.6f"))
    };
    let time = clock(random);
    let width = WIDTHS[random.below(WIDTHS.len())];
    match random.below(12) {
        0 | 1 => format!("date_trunc('{}', {time})", UNITS[random.below(10)]),
        2 | 3 => format!("date_part('{}', {time})", UNITS[random.below(UNITS.len())]),
        4 => format!("date_bin(INTERVAL '{width}', {time})"),
        5 => {
            let origin = ["2001-01-01T00:00:00Z", "1999-12-31T12:10:00Z"][random.below(2)];
            let width = WIDTHS[random.below(10)];
            format!("date_bin(INTERVAL '{width}', time, TIMESTAMP '{origin}')")
        }
        6 => format!("time_bucket('{width}', time)"),
        7 => {
            let zone = ZONES[random.below(ZONES.len())].0;
            format!("time_bucket('{width}', time, '{zone}')")
        }
        8 => format!("CAST({time} AS DATE)"),
        9 => format!(
            "to_char({time}, '{}')",
            FORMATS[random.below(FORMATS.len())]
        ),
        10 => {
            let op = ["<", "<=", ">", ">=", "=", "<>"][random.below(6)];
            format!("time {op} {}", instant(random))
        }
        _ => format!("time BETWEEN {} AND {}", instant(random), instant(random)),
    }
}

fn expression(random: &mut Random, near_us: i64) -> String {
    let leaf = |random: &mut Random| leaf(random, near_us);
    match random.below(8) {
        0..=3 => leaf(random),
        4 => format!(
            "CASE WHEN {} IS NULL THEN 'a' ELSE CAST({} AS VARCHAR) END",
            leaf(random),
            leaf(random)
        ),
        5 => format!("concat({}, {})", leaf(random), leaf(random)),
        // True in few buckets.
        6 => format!(
            "date_part('hour', {}) = {}",
            clock(random),
            random.below(24)
        ),
        _ => format!(
            "to_char({}, '%H:%M') = '14:{:02}'",
            clock(random),
            random.below(60)
        ),
    }
}

/// Decides as earlier versions did, by sampling: nine instants of each bucket have one value.
fn is_one_in_samples(expr: &Expr, range: TimeRange, calendar: Calendar, level: Level) -> bool {
    let mut instants = Vec::new();
    let mut at_us = range.first;
    while at_us <= range.last {
        let bucket = calendar.bucket(level, at_us);
        let width = bucket.end_us - bucket.start_us;
        instants.extend((0..8).map(|nth| bucket.start_us + width / 8 * nth));
        instants.push(bucket.end_us - 1);
        at_us = bucket.end_us;
    }
    values_at(expr, instants.clone())
        .is_ok_and(|values| is_one_in_each(&values, &instants, (calendar, level), &[]))
}

/// Returns whether an expression has one value at all given instants of each bucket, between
/// cuts.
fn is_one_in_each(
    values: &ArrayRef,
    instants: &[i64],
    (calendar, level): (Calendar, Level),
    cuts: &[i64],
) -> bool {
    let compare = make_comparator(values, values, SortOptions::default()).expect("compares");
    let mut firsts: HashMap<(i64, usize), usize> = HashMap::new();
    instants.iter().enumerate().all(|(nth, at_us)| {
        let start_us = calendar.bucket(level, *at_us).start_us;
        let after = cuts.partition_point(|cut| cut <= at_us);
        let first = *firsts.entry((start_us, after)).or_insert(nth);
        compare(first, nth).is_eq()
    })
}

#[test]
fn what_is_proved_is_so_at_every_minute_around_clock_changes() {
    let number = |name: &str| std::env::var(name).ok().and_then(|v| v.parse::<u64>().ok());
    let wanted = number("LOGMILL_PROOFS").unwrap_or(40);
    let first = number("LOGMILL_SEED").unwrap_or_else(|| u64::from(std::process::id()) * 1_000_000);
    let engine = engine();
    let (mut proved, mut constant, mut tried, mut sampled) = (0, 0, 0, 0);
    for seed in (first..).take(wanted as usize) {
        let mut random = Random(seed);
        let (_, (year, month, day)) = ZONES[random.below(ZONES.len())];
        let near_us = date(year, month, day);
        let sql = expression(&mut random, near_us);
        let expr = parse(&engine, &sql);
        // Minutes of some days, or half hours of two years.
        let (days, step_us) = if random.below(3) > 0 {
            (2, MINUTE_US)
        } else {
            (370, HOUR_US / 2)
        };
        let range = TimeRange {
            first: near_us - days * DAY_US,
            last: near_us + days * DAY_US,
        };
        let steps = (range.first..=range.last).step_by(step_us as usize);
        let instants: Vec<i64> = steps.flat_map(|at| [at - 1, at]).skip(1).collect();
        let Ok(values) = values_at(&expr, instants.clone()) else {
            // An error at one event is an error of the query.
            continue;
        };
        let zone: Tz = ZONES[random.below(ZONES.len())].0.parse().expect("a zone");
        let week = [WeekStart::Sunday, WeekStart::Monday][random.below(2)];
        let calendar = Calendar::new(zone, week);
        let proof = Proof::new(calendar, range);
        let cuts = cuts([&expr].into_iter());
        for level in Level::ALL {
            let is_one = is_one_in_each(&values, &instants, (calendar, level), &cuts);
            let is_proved = proof.holds(&expr, level);
            assert!(
                is_one || !is_proved,
                "LOGMILL_SEED={seed}: {sql} is not constant in a {level} of {zone}: {expr}"
            );
            tried += 1;
            // For levels with many buckets this comparison would take longer than the rest of the
            // test.
            if level >= Level::Day && days == 2 {
                let is_whole = is_one_in_each(&values, &instants, (calendar, level), &[]);
                let is_sampled = is_one_in_samples(&expr, range, calendar, level);
                sampled += usize::from(is_sampled && !is_whole);
            }
            constant += usize::from(is_one);
            proved += usize::from(is_proved);
        }
    }
    println!(
        "seed {first}: {tried} tried, {constant} constant at the instants tried, {proved} proved; sampling \
         would have been wrong {sampled} times"
    );
    // Many of the expressions that are constant at these instants are proved.
    assert!(proved * 4 >= constant, "{proved} of {constant}");
    // Sampling is wrong for some of these expressions, so they distinguish it from a proof.
    assert!(sampled > 0 || wanted < 40, "sampling is never wrong");
}

/// Checks that rollups still answer the queries of charts, up to the coarsest possible level.
#[test]
fn what_charts_ask_is_proved_up_to_its_level() {
    use Level::{Day, Hour, Minute, Month, Year};
    let engine = engine();
    let check = |zone: &str, week: WeekStart, sql: &str, expected: &[Level]| {
        let calendar = Calendar::new(zone.parse().expect("a zone"), week);
        let range = TimeRange {
            first: date(2023, 11, 13),
            last: date(2025, 2, 20),
        };
        let proof = Proof::new(calendar, range);
        let expr = parse(&engine, sql);
        let held = Level::ALL
            .into_iter()
            .filter(|level| proof.holds(&expr, *level));
        assert_eq!(held.collect::<Vec<_>>(), expected, "{sql} in {zone}");
    };
    let sunday = |zone: &str, sql: &str, expected: &[Level]| {
        check(zone, WeekStart::Sunday, sql, expected);
    };
    let all = Level::ALL;
    let [minute, _, to_day, to_week, ..] = [&all[..1], &all[..2], &all[..3], &all[..4]];
    let to_hour = &all[..2];
    let to_month = &[Minute, Hour, Day, Month][..];
    let to_year = &[Minute, Hour, Day, Month, Year][..];
    for (sql, expected) in [
        ("date_trunc('minute', time)", minute),
        ("date_trunc('hour', time)", to_hour),
        ("date_trunc('day', time)", to_day),
        ("date_trunc('week', time)", to_day),
        ("date_trunc('month', time)", to_month),
        ("date_trunc('quarter', time)", to_month),
        ("date_trunc('year', time)", to_year),
        ("date_trunc('second', time)", &[]),
        ("extract(hour FROM time) = 14", to_hour),
        ("extract(minute FROM time)", minute),
        ("extract(dow FROM time) IN (0, 6)", to_day),
        ("extract(week FROM time)", to_day),
        ("extract(isoyear FROM time)", to_day),
        ("extract(month FROM time)", to_month),
        ("extract(year FROM time)", to_year),
        // DataFusion rewrites this to comparisons of `time`.
        ("extract(year FROM time) = 2024", &all[..]),
        ("extract(epoch FROM time)", &[]),
        ("time_bucket('5 minutes', time)", minute),
        ("time_bucket('6 hours', time)", to_hour),
        ("time_bucket('1 day', time)", to_day),
        ("time_bucket('1 month', time)", to_month),
        ("date_bin(INTERVAL '15 minutes', time)", minute),
        ("date_bin(INTERVAL '1 day', time)", to_day),
        (
            "date_bin(INTERVAL '1 day', time, TIMESTAMP '2000-01-01T06:00:00')",
            to_hour,
        ),
        (
            "date_bin(INTERVAL '1 hour', time, TIMESTAMP '2000-01-01T00:00:30')",
            &[],
        ),
        ("CAST(time AS DATE) = DATE '2024-03-31'", to_day),
        (
            "CAST(time AS DATE) IN (DATE '2024-03-31', DATE '2024-04-02')",
            to_day,
        ),
        ("to_date(time)", to_day),
        ("to_char(time, '%Y-%m-%d')", to_day),
        ("to_char(time, '%Y-%m')", to_month),
        ("to_char(time, '%H')", to_hour),
        ("to_char(time, '%c')", &[]),
        ("time >= TIMESTAMP '2024-03-31T14:00:00'", &all[..]),
        ("time < TIMESTAMP '2024-03-01T00:00:00'", &all[..]),
        ("time <= TIMESTAMP '2024-03-01T00:00:00'", &all[..]),
        ("time = TIMESTAMP '2024-03-01T00:00:00'", &all[..]),
        ("time <> TIMESTAMP '2024-03-01T00:00:00'", &all[..]),
        (
            "time IN (TIMESTAMP '2024-03-01T00:00:00', TIMESTAMP '2024-03-02T12:00:00')",
            &all[..],
        ),
        ("time = date_trunc('day', time)", &[]),
        (
            "(time >= TIMESTAMP '2024-03-01' AND time < TIMESTAMP '2024-03-02T06:00:00') \
             OR (time >= TIMESTAMP '2024-04-01' AND time < TIMESTAMP '2024-04-02T07:30:00')",
            &all[..],
        ),
        (
            "CASE WHEN time < TIMESTAMP '2024-04-02' THEN path ELSE 'new' END",
            &all[..],
        ),
        ("date_trunc('day', time) + INTERVAL '1 day'", to_day),
        ("date_trunc('day', time + INTERVAL '2 hours')", to_hour),
        ("time", &[]),
        ("path LIKE '/a%'", &all[..]),
        ("uuid() < 'a'", &[]),
        ("CAST(time AS VARCHAR) LIKE '2024-03%'", &[]),
        (
            "date_trunc('day', time AT TIME ZONE 'Europe/Berlin')",
            to_hour,
        ),
        (
            "extract(hour FROM time AT TIME ZONE 'Asia/Kolkata')",
            minute,
        ),
    ] {
        sunday("UTC", sql, expected);
    }
    let monday = |zone: &str, sql: &str, expected: &[Level]| {
        check(zone, WeekStart::Monday, sql, expected);
    };
    monday("UTC", "date_trunc('week', time)", to_week);
    monday("UTC", "extract(week FROM time)", to_week);
    monday("UTC", "time_bucket('7 days', time)", to_week);
    for (sql, expected) in [
        (
            "date_trunc('day', time AT TIME ZONE 'Europe/Berlin')",
            to_day,
        ),
        (
            "date_trunc('week', time AT TIME ZONE 'Europe/Berlin')",
            to_week,
        ),
        (
            "extract(dow FROM time AT TIME ZONE 'Europe/Berlin')",
            to_day,
        ),
        ("CAST(time AT TIME ZONE 'Europe/Berlin' AS DATE)", to_day),
        (
            "date_bin(INTERVAL '1 day', to_local_time(time AT TIME ZONE 'Europe/Berlin'))",
            to_day,
        ),
        ("time_bucket('1 day', time, 'Europe/Berlin')", to_day),
        ("time_bucket('1 week', time, 'Europe/Berlin')", to_week),
        ("time_bucket('1 month', time, 'Europe/Berlin')", to_month),
        ("time_bucket('1 hour', time, 'Europe/Berlin')", to_hour),
        ("time_bucket('1 day', time, 'Europe/Vienna')", to_day),
        ("date_trunc('hour', time)", to_hour),
        ("date_trunc('day', time)", to_hour),
        (
            "date_trunc('hour', time AT TIME ZONE 'Asia/Kolkata')",
            minute,
        ),
    ] {
        monday("Europe/Berlin", sql, expected);
    }
    monday("Asia/Kolkata", "date_trunc('hour', time)", minute);
    monday(
        "Asia/Kolkata",
        "date_trunc('hour', time AT TIME ZONE 'Asia/Kolkata')",
        to_hour,
    );
    monday(
        "Asia/Kolkata",
        "time_bucket('1 day', time, 'Asia/Kolkata')",
        to_day,
    );
    // Hours of UTC and of Lord Howe differ in winter, when the offset has half an hour.
    monday("Australia/Lord_Howe", "date_trunc('hour', time)", minute);
    monday(
        "Australia/Lord_Howe",
        "time_bucket('1 hour', time, 'Australia/Lord_Howe')",
        to_hour,
    );
    monday(
        "Australia/Lord_Howe",
        "time_bucket('1 day', time, 'Australia/Lord_Howe')",
        to_day,
    );
}

#[test]
fn cuts_are_the_first_instants_of_what_comes_after() {
    let engine = engine();
    let cuts = |sql: &str| cuts([&parse(&engine, sql)].into_iter());
    let at = |us: i64| date(2024, 3, 1) + us;
    assert_eq!(cuts("time < TIMESTAMP '2024-03-01'"), [at(0)]);
    assert_eq!(cuts("time >= TIMESTAMP '2024-03-01'"), [at(0)]);
    assert_eq!(cuts("TIMESTAMP '2024-03-01' <= time"), [at(0)]);
    assert_eq!(cuts("time <= TIMESTAMP '2024-03-01'"), [at(1)]);
    assert_eq!(cuts("time > TIMESTAMP '2024-03-01'"), [at(1)]);
    assert_eq!(cuts("time = TIMESTAMP '2024-03-01'"), [at(0), at(1)]);
    assert_eq!(cuts("NOT (time = TIMESTAMP '2024-03-01')"), [at(0), at(1)]);
    assert_eq!(
        cuts("time BETWEEN TIMESTAMP '2024-03-01' AND TIMESTAMP '2024-03-02'"),
        [at(0), at(DAY_US + 1)]
    );
    assert_eq!(cuts("path = 'a'"), [0_i64; 0]);
}

#[test]
fn beyond_the_known_years_only_keys_and_comparisons_are_constant() {
    let engine = engine();
    let calendar = Calendar::new(Tz::UTC, WeekStart::Sunday);
    let range = TimeRange {
        first: date(1600, 1, 1),
        last: date(2024, 1, 1),
    };
    let proof = Proof::new(calendar, range);
    assert!(!proof.holds(&parse(&engine, "date_trunc('day', time)"), Level::Minute));
    assert!(proof.holds(&parse(&engine, "path = '/a'"), Level::Year));
    let compared = parse(&engine, "time < TIMESTAMP '2024-01-01'");
    assert!(proof.holds(&compared, Level::Year));
    assert!(!proof.holds(&parse(&engine, "uuid() < 'a'"), Level::Minute));
}
