//! A configured rollup: filters, a variance and keys made by expressions, compared with SQL over
//! the raw events.

use serde_json::Value;

use crate::support::{Home, run, sample};

const DEFINITION: &str = r#"
[rollup.sections]
stream = "access"
by = [{ name = "section", expr = "path_prefix(path, 1)" }, { name = "class", expr = "status / 100" }]
levels = ["hour", "day", "year"]
[rollup.sections.measures]
hits = "count"
errors = { of = "count", filter = "status >= 400 and status != 404" }
spread = "variance(response_size)"
large = { distinct = "host", filter = "response_size > 1000" }
"#;

#[test]
fn its_figures_are_those_of_the_raw_events() {
    let home = Home::new();
    let config = home.file("logmill.toml", DEFINITION);
    let place = ["--data", &home.data, "--config", &config];
    let import = ["import", &sample(), "--stream", "access"];
    run(&[&import[..], &place].concat()).code(0);
    let rows = |query: &str| -> Vec<Value> {
        let asked = ["sql", query, "--output", "json"];
        let rows = run(&[&asked[..], &place].concat()).code(0).json();
        rows.as_array().expect("rows").clone()
    };
    // The first segment of a path, as SQL writes it.
    let section = "CASE WHEN path LIKE '/%' THEN '/' || split_part(path, '/', 2) END";
    let raw = rows(&format!(
        "SELECT date_trunc('year', time) AS bucket, {section} AS section, status / 100 AS class, count(*) AS hits, \
         count(*) FILTER (WHERE status >= 400 AND status <> 404) AS errors, \
         round(var_samp(response_size), 3) AS spread, \
         count(DISTINCT host) FILTER (WHERE response_size > 1000) AS large \
         FROM access WHERE path LIKE '/%' GROUP BY 1, 2, 3 ORDER BY 1, 2, 3"
    ));
    let rolled = rows(
        "SELECT bucket, section, class, hits, errors, round(spread, 3) AS spread, large \
         FROM sections.yearly WHERE section LIKE '/%' ORDER BY 1, 2, 3",
    );
    assert!(raw.len() > 3, "the sample has some sections: {raw:?}");
    for (raw, rolled) in raw.iter().zip(&rolled) {
        assert_eq!(raw, rolled);
    }
    assert_eq!(raw.len(), rolled.len());
    let verify = ["rollup", "verify", "sections", "--output", "json"];
    let found = run(&[&verify[..], &place].concat()).code(0).json();
    assert_eq!(found[0]["windows_incomplete"], 0, "{found}");
    let total = rows("SELECT sum(hits) AS n FROM sections.hourly");
    assert_eq!(found[0]["events"], total[0]["n"]);
}
