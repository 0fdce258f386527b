use datafusion::physical_plan::displayable;
use serde_json::Value;
use storage::StreamKind;

use super::*;
use crate::NoSystemInfo;
use crate::tests::support::{DAY_US, Fixture, batch, mixture};

#[test]
fn rules_that_are_left_out_are_there_to_be_left_out() {
    let all = all();
    for name in OF_MANY_TABLES.into_iter().chain(OF_GROUPS_AND_ORDERS) {
        assert!(all.iter().any(|rule| rule.name() == name), "{name}");
    }
    let rules = Rules::new();
    let kept = rules.one_table.rules.len();
    assert_eq!(kept + OF_MANY_TABLES.len(), all.len());
    let kept = rules.rows.rules.len();
    let left_out = OF_MANY_TABLES.len() + OF_GROUPS_AND_ORDERS.len();
    assert_eq!(kept + left_out, all.len());
    assert_eq!(rules.physical_of_rows.len(), PHYSICAL_OF_ROWS.len());
}

/// Compares plans: `EXPLAIN` uses all rules, the explained statement the rules for its shape.
#[tokio::test(flavor = "multi_thread")]
async fn rows_of_one_table_are_planned_with_few_rules_as_with_all() {
    let fixture = Fixture::with_defaults();
    let events = mixture(3_000, 971_049_600_000_000, DAY_US / 1_000);
    fixture.write("access", StreamKind::Access, batch(&events));
    fixture.store.seal().expect("seals");
    fixture.write("access", StreamKind::Access, batch(&events[..100]));
    for sql in [
        "SELECT * FROM access",
        "SELECT *, _seq FROM access WHERE host = 'alpha' AND time < '2000-10-10'",
        "SELECT path, status + 1, status + 1 + response_size FROM access WHERE status IN (200, 404)",
        "SELECT request FROM access WHERE request LIKE '%p1%' AND host <> 'beta'",
        "SELECT upper(path) AS p FROM access WHERE user_agent IS NULL OR path ~ '[13]'",
        "SELECT p || p FROM (SELECT path AS p, status AS s FROM access WHERE status > 300) WHERE p > '/p1'",
        "SELECT host FROM access WHERE false",
        "SELECT host FROM access WHERE 1 = 1 AND NOT (time > '2000-10-10' OR status = 500)",
        "SELECT CASE WHEN status > 300 THEN path ELSE host END FROM access WHERE _id > '00'",
        "SELECT * FROM stats.daily WHERE hits > 3",
        "SELECT name FROM system.streams WHERE name LIKE 'a%'",
        "SELECT value * 2 FROM generate_series(1, 100) WHERE value % 7 = 0",
        "SELECT 1 AS one FROM access",
    ] {
        let explained = fixture.rows(&format!("EXPLAIN {sql}")).await;
        let explained = explained.iter().find(|r| r["plan_type"] == "physical_plan");
        let with_all = explained.and_then(|r| r["plan"].as_str());
        let system = Arc::new(NoSystemInfo);
        let snapshot = fixture.store.snapshot();
        let answer = fixture.engine.sql(snapshot, system, sql, None);
        let answer = answer.await.unwrap_or_else(|e| panic!("{sql}: {e}"));
        let with_few = displayable(&**answer.plan()).indent(false).to_string();
        assert_eq!(
            operators(&with_few),
            operators(with_all.expect("a plan")),
            "{sql}"
        );
        let rows = fixture.rows(sql).await.len();
        let counted = format!("SELECT count(*) FROM ({sql})");
        assert_eq!(fixture.value(&counted).await, Value::from(rows), "{sql}");
    }
}

/// Returns the operators of a plan, without operators that only pass rows on. `ForgetExec` only
/// keeps later rules from using an order, and the few rules use none.
fn operators(plan: &str) -> Vec<&str> {
    const HAND_ON: [&str; 5] = [
        "ForgetExec",
        "Portions",
        "Repartition",
        "CoalescePartitions",
        "Cooperative",
    ];
    let operators = plan.lines().map(str::trim);
    operators
        .filter(|line| !HAND_ON.iter().any(|name| line.starts_with(name)))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_count_of_everything_is_known_before_anything_is_planned() {
    let fixture = Fixture::without_rollups();
    let events = mixture(300, 971_049_600_000_000, DAY_US / 100);
    fixture.write("access", StreamKind::Access, batch(&events));
    fixture.store.seal().expect("seals");
    fixture.write("access", StreamKind::Access, batch(&events[..7]));
    for (sql, expected) in [
        ("SELECT count(*) FROM access", r#"{"count(*)":307}"#),
        (
            "SELECT count(1) AS n, count(*) AS m FROM access a",
            r#"{"n":307,"m":307}"#,
        ),
        (
            "SELECT n FROM (SELECT count(*) AS n FROM access)",
            r#"{"n":307}"#,
        ),
        (
            "SELECT count(*) FROM (SELECT host FROM access)",
            r#"{"count(*)":307}"#,
        ),
        // Similar queries that need more than the manifest.
        (
            "SELECT count(*) FROM access WHERE host = 'alpha'",
            r#"{"count(*)":44}"#,
        ),
        (
            "SELECT count(*) FROM (SELECT * FROM access LIMIT 5)",
            r#"{"count(*)":5}"#,
        ),
        (
            "SELECT count(*) FROM (SELECT DISTINCT status FROM access)",
            r#"{"count(*)":4}"#,
        ),
        ("SELECT count(*) + 1 AS n FROM access", r#"{"n":308}"#),
        ("SELECT count(path) AS n FROM access", r#"{"n":278}"#),
        ("SELECT count(NULL) AS n FROM access", r#"{"n":0}"#),
        ("SELECT count(DISTINCT 1) AS n FROM access", r#"{"n":1}"#),
        (
            "SELECT count(*) FILTER (WHERE false) AS n FROM access",
            r#"{"n":0}"#,
        ),
        ("SELECT count(*) AS n FROM access HAVING count(*) > 307", ""),
    ] {
        let rows = fixture.rows(sql).await;
        let rows: Vec<String> = rows.iter().map(Value::to_string).collect();
        assert_eq!(rows.concat(), expected, "{sql}");
    }
    let figures = fixture.figures("SELECT count(*) FROM access").await;
    assert_eq!(figures.answered_by, ["manifest"]);
}
