use arrow::array::{StringViewArray, StringViewBuilder};
use datafusion::execution::SessionStateBuilder;
use datafusion::prelude::SessionContext;

use super::*;

const AGENTS: [&str; 9] = [
    "Mozilla/5.0 (compatible; bingbot/2.0)",
    "Mozilla/5.0 (compatible; Googlebot/2.1)",
    "curl/8.5.0",
    "",
    "GOOGLEBOT",
    "100%_sure about this one",
    "a\\b",
    "Äpfel und Birnen, ÄPFEL",
    "bot",
];

/// Creates rows: with `share`, many of them have the same view, as in a part.
fn texts(rows: usize, share: bool, seed: u64) -> StringViewArray {
    let mut random = seed;
    let mut next = || {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (random >> 33) as usize
    };
    if !share {
        let mut texts = StringViewBuilder::new();
        for row in 0..rows {
            let agent = AGENTS[next() % AGENTS.len()];
            texts.append_option((next() % 7 > 0).then(|| format!("{agent} as number {row}")));
        }
        return texts.finish();
    }
    let different = AGENTS.into_iter().map(Some).chain([None]);
    let different: StringViewArray = different.collect();
    let rows = (0..rows).map(|_| (next() % different.len()) as u32);
    let rows: UInt32Array = rows.collect::<Vec<_>>().into();
    let rows = take(&different, &rows, None).expect("rows");
    rows.as_string_view().clone()
}

async fn passing(context: &SessionContext, condition: &str) -> (String, usize) {
    let sql = format!("SELECT n FROM t WHERE {condition} ORDER BY n");
    let frame = context
        .sql(&sql)
        .await
        .unwrap_or_else(|e| panic!("{sql}: {e}"));
    let plan = frame
        .clone()
        .into_optimized_plan()
        .expect("a plan")
        .to_string();
    let batches = frame
        .collect()
        .await
        .unwrap_or_else(|e| panic!("{sql}: {e}"));
    let rows = batches.iter().map(RecordBatch::num_rows).sum();
    let shown = arrow::util::pretty::pretty_format_batches(&batches).expect("text");
    (
        format!("{rows}\n{shown}\n{}", plan.contains("each_value")),
        rows,
    )
}

#[tokio::test]
async fn the_rows_that_pass_are_those_of_a_look_at_each_row() {
    let conditions = [
        "text LIKE '%bot%'",
        "text NOT LIKE '%bot%'",
        "text ILIKE 'googlebot%'",
        "text LIKE '%\\%\\_sure%'",
        "text LIKE '_url%'",
        "text ~ '(bing|Google)bot/[0-9]'",
        "text !~* 'GOOGLE|äpfel'",
        "lower(text) = 'googlebot' OR text IS NULL",
        "NOT (text LIKE '%bot%' AND upper(text) LIKE '%BING%')",
        "strpos(text, 'bot') > 3 AND n < 5000",
        "contains(text, 'e') AND starts_with(text, 'M')",
        "regexp_like(text, '^.{3}$') AND other LIKE '%bot%'",
        "character_length(text) < 5 AND text IN ('', 'bot')",
        "text LIKE '%' || other || '%'",
        "text LIKE 'Moz%'",
    ];
    let everywhere = DistinctPredicate {
        shares_views: |_| true,
    };
    let state = SessionStateBuilder::new().with_default_features();
    let state = state.with_optimizer_rule(Arc::new(everywhere)).build();
    let ours = SessionContext::new_with_state(state);
    let theirs = SessionContext::new();
    let mut passed = Vec::new();
    for (nth, share) in [true, false, true].into_iter().enumerate() {
        let (name, rows) = (format!("t{nth}"), [3, 3_000, 20_000][nth]);
        let (text, other) = (texts(rows, share, 1), texts(rows, true, 2));
        let numbers: arrow::array::Int64Array = (0..rows as i64).collect();
        let batch = RecordBatch::try_from_iter([
            ("n", Arc::new(numbers) as ArrayRef),
            ("text", Arc::new(text)),
            ("other", Arc::new(other)),
        ]);
        let batch = batch.expect("a batch");
        for context in [&ours, &theirs] {
            context.deregister_table("t").expect("gone");
            context.register_batch("t", batch.clone()).expect("a table");
        }
        for condition in conditions {
            let (found, rows) = passing(&ours, condition).await;
            let (expected, _) = passing(&theirs, condition).await;
            let known = found.trim_end_matches("true").trim_end_matches("false");
            assert_eq!(
                known,
                expected.trim_end_matches("false"),
                "{name}: {condition}"
            );
            passed.push((condition, rows, found.ends_with("true")));
        }
    }
    let once = passed.iter().filter(|(.., once)| *once).count();
    assert_eq!(once, 3 * (conditions.len() - 2), "{passed:?}");
    // Each condition passes some rows and rejects others.
    for (condition, rows, _) in &passed[2 * conditions.len()..] {
        assert!((1..20_000).contains(rows), "{condition}: {rows}");
    }
}

#[test]
fn few_views_are_found_and_many_are_given_up() {
    let (places, rows) = different(&texts(20_000, true, 5)).expect("few");
    assert_eq!((places.len(), rows.len()), (AGENTS.len() + 1, 20_000));
    assert!(different(&texts(3_000, false, 5)).is_none());
}
