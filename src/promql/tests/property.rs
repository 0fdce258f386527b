//! Random queries over random series: a range answers as its instants do, and increases add up.

use proptest::prelude::*;

use super::*;

/// The buckets with cells.
const BUCKETS: usize = 12;

fn any_series() -> impl Strategy<Value = Vec<Series>> {
    let cell = proptest::option::weighted(0.7, (0_u32..50).prop_map(f64::from));
    let cells = proptest::collection::vec(cell, BUCKETS);
    proptest::collection::vec((cells, any::<bool>()), 4).prop_map(|all| {
        let all = all.into_iter().enumerate();
        let one = |(at, (cells, is_gauge)): (usize, (Vec<_>, bool))| {
            let kind = match is_gauge {
                true => SeriesKind::Gauge,
                false => SeriesKind::Counter {
                    base: (at > 1).then_some(3.0),
                },
            };
            let name = if is_gauge { "gauge" } else { "counter" };
            series(
                &format!("__name__={name},host={at},half={}", at / 2),
                kind,
                &cells,
            )
        };
        all.map(one).collect()
    })
}

fn any_query() -> impl Strategy<Value = String> {
    let selector = prop_oneof![
        Just("counter"),
        Just("gauge"),
        Just("counter{host=~'0|3'}"),
        Just("gauge{half!='1'}"),
    ];
    let window = prop_oneof![
        Just("1m"),
        Just("90s"),
        Just("4m"),
        Just("20s"),
        Just("3m:40s")
    ];
    let function = prop_oneof![
        Just("rate"),
        Just("increase"),
        Just("irate"),
        Just("delta"),
        Just("deriv"),
        Just("avg_over_time"),
        Just("count_over_time"),
        Just("changes"),
    ];
    let shift = prop_oneof![
        Just(""),
        Just(" offset 1m"),
        Just(" offset -30s"),
        Just(" @ 300")
    ];
    let leaf = prop_oneof![
        (selector.clone(), shift.clone()).prop_map(|(s, shift)| format!("{s}{shift}")),
        (function, selector, window, shift)
            .prop_map(|(f, s, window, shift)| format!("{f}({s}[{window}]{shift})")),
        Just("vector(time())".to_owned()),
    ];
    leaf.prop_recursive(3, 8, 2, |inner| {
        let grouped = prop_oneof![
            Just("sum by (half)"),
            Just("max without (host)"),
            Just("topk by (half) (1,"),
            Just("count"),
        ];
        let operator = prop_oneof![
            Just("+ on(host, half)"),
            Just("> on(host, half)"),
            Just("<= bool on(host, half)"),
            Just("and on(half)"),
            Just("unless on(half)"),
            Just("or on(host, half)"),
        ];
        prop_oneof![
            (grouped, inner.clone()).prop_map(|(by, inner)| match by.strip_suffix(" (1,") {
                Some(by) => format!("{by} (1, {inner})"),
                None => format!("{by} ({inner})"),
            }),
            (inner.clone(), operator, inner.clone())
                .prop_map(|(left, operator, right)| format!("({left}) {operator} ({right})")),
            inner.prop_map(|inner| format!("-({inner})")),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn a_range_answers_as_its_instants_do(
        series in any_series(),
        query in any_query(),
        start in -100_i64..900,
        step in 1_i64..200,
    ) {
        let steps = Steps { start: start * 1_000, end: start * 1_000 + 400_000, step: step * 1_000 };
        let range = tried(&series, &query, steps);
        for t in steps.iter() {
            let one = tried(&series, &query, instant(t));
            match (&range, one) {
                (Ok(range), Ok(one)) => {
                    let same = range.iter().find(|(at, _)| *at == t).expect("a step");
                    prop_assert_eq!(told(&same.1), told(&one[0].1), "{} at {}", query, t);
                }
                // A range fails if one of its instants does.
                (Err(_), _) => {}
                (Ok(_), Err(error)) => prop_assert!(false, "{}: {:?}", query, error),
            }
        }
    }

    #[test]
    fn increases_over_neighbouring_windows_of_whole_buckets_add_up(
        series in any_series(),
        // Windows of ten minutes lie within the grid.
        at in 720_i64..900,
        (first, second) in (1_i64..6, 1_i64..6),
    ) {
        let ask = |text: String| {
            let answers = over(&series, &text, instant(at * 1_000));
            match &answers[0].1 {
                PromqlValue::Vector(samples) => samples.iter().map(|s| s.value).sum::<f64>(),
                other => panic!("{other:?}"),
            }
        };
        let whole = ask(format!("increase(counter[{}m])", first + second));
        let parts = ask(format!("increase(counter[{first}m] offset {second}m)"))
            + ask(format!("increase(counter[{second}m])"));
        prop_assert_eq!(whole, parts);
    }
}
