//! Streams as tables.

use std::sync::Arc;

use arrow::array::{BinaryArray, RecordBatch, StringArray, TimestampMicrosecondArray};
use futures::StreamExt;
use serde_json::{Value, json};
use storage::{Column, ColumnType, StreamKind, arrow_schema};

use super::support::{DAY_US, Event, Fixture, batch, example, mixture};
use crate::{Error, Kind, NoSystemInfo, TailFilter};

/// 2000-10-09T00:00:00Z.
const START: i64 = 971_049_600_000_000;

/// Makes four days of events: the first three in parts of two seals, the last in the memtable.
async fn four_days() -> Fixture {
    let fixture = Fixture::without_rollups();
    for days in [0..2, 2..3] {
        let from = START + days.start as i64 * DAY_US;
        let events = mixture(2_000 * days.len(), from, DAY_US / 2_000);
        fixture.write("access", StreamKind::Access, batch(&events));
        fixture.store.seal().expect("seals");
    }
    let events = mixture(500, START + 3 * DAY_US, DAY_US / 1_000);
    fixture.write("access", StreamKind::Access, batch(&events));
    fixture
}

#[tokio::test(flavor = "multi_thread")]
async fn the_example_line_is_the_document_of_the_specification_before_and_after_a_seal() {
    let fixture = Fixture::without_rollups();
    fixture.write("access", StreamKind::Access, batch(&[example()]));
    let prefix = fixture.store.snapshot().manifest().id_prefix();
    let hex: String = prefix.iter().map(|b| format!("{b:02x}")).collect();
    let expected = json!([{
        "_id": format!("{hex}000000000000"), "host": "127.0.0.1", "logname": null, "user": "frank",
        "time": "2000-10-10T20:55:36Z", "method": "GET", "path": "/apache_pb.gif", "query": null,
        "protocol": "HTTP/1.0", "request": "GET /apache_pb.gif HTTP/1.0", "status": 200, "response_size": 2326,
        "referrer": "http://www.example.com/start.html", "user_agent": "Mozilla/4.08 [en] (Win98; I ;Nav)",
        "site": null, "extra": null,
    }]);
    let before = fixture.rows("SELECT * FROM access").await;
    fixture.store.seal().expect("seals");
    let after = fixture.rows("SELECT * FROM access").await;
    for rows in [before, after] {
        // As text, since the order of the members counts too.
        assert_eq!(Value::from(rows).to_string(), expected.to_string());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wildcard_hides_the_sequence_and_a_name_shows_it() {
    let fixture = four_days().await;
    let plain = fixture.rows("SELECT * FROM access LIMIT 1").await;
    assert!(plain[0].get("_seq").is_none());
    let named = fixture
        .rows("SELECT *, _seq FROM access ORDER BY _seq LIMIT 2")
        .await;
    assert_eq!(
        (&named[0]["_seq"], &named[1]["_seq"]),
        (&json!(0), &json!(1))
    );
    assert_eq!(
        named[0].as_object().map(serde_json::Map::len),
        plain[0].as_object().map(|o| o.len() + 1)
    );
    let ordered = fixture
        .rows("SELECT * FROM access a ORDER BY a._seq DESC LIMIT 1")
        .await;
    assert!(ordered[0].get("_seq").is_none());
    let qualified = fixture
        .rows("SELECT a.*, a._seq AS n FROM access AS a WHERE _seq = 7")
        .await;
    assert!(qualified[0].get("_seq").is_none() && qualified[0]["n"] == json!(7));
    let inner = fixture
        .rows("SELECT * FROM (SELECT _seq, path FROM access) ORDER BY 1 LIMIT 1")
        .await;
    assert_eq!(
        inner[0]["_seq"],
        json!(0),
        "a wildcard over a subquery shows what the subquery selects"
    );
    let joined = "SELECT * FROM access a JOIN access b ON a._seq = b._seq WHERE a._seq < 3";
    let joined = fixture.rows(joined).await;
    assert_eq!(joined.len(), 3);
    assert!(
        joined
            .iter()
            .all(|row| row.get("_seq").is_none() && row.get("path").is_some())
    );
    let with = "WITH x AS (SELECT * FROM access WHERE _seq < 3) SELECT count(*) FROM x";
    assert_eq!(fixture.value(with).await, json!(3));
    let error = fixture
        .try_query("WITH x AS (SELECT * FROM access) SELECT _seq FROM x")
        .await
        .expect_err("hidden");
    assert_eq!(error.kind(), Kind::Invalid);
}

#[tokio::test(flavor = "multi_thread")]
async fn counts_are_the_same_before_and_after_a_seal_and_come_from_the_manifest() {
    let fixture = four_days().await;
    assert_eq!(
        fixture.value("SELECT count(*) FROM access").await,
        json!(6_500)
    );
    let figures = fixture.figures("SELECT count(*) FROM access").await;
    assert_eq!(
        (
            figures.answered_by,
            figures.bytes_read,
            figures.rows_returned
        ),
        (vec!["manifest".to_owned()], 0, 1)
    );
    let day = "SELECT count(*) FROM access WHERE time >= '2000-10-10' AND time < '2000-10-11'";
    assert_eq!(fixture.value(day).await, json!(2_000));
    assert_eq!(
        fixture.figures(day).await.bytes_read,
        0,
        "a whole day is counted without reading it"
    );
    let part = "SELECT count(*) FROM access WHERE time >= '2000-10-10T06:00:00Z' AND time < '2000-10-12T03:00:00+00'";
    let expected = 1_500 + 2_000 + 125;
    assert_eq!(fixture.value(part).await, json!(expected));
    let times = "SELECT min(time), max(time) FROM access";
    let before = fixture.rows(times).await;
    fixture.store.seal().expect("seals");
    assert_eq!(fixture.rows(times).await, before);
    assert_eq!(
        fixture.value("SELECT count(*) FROM access").await,
        json!(6_500)
    );
    assert_eq!(fixture.value(part).await, json!(expected));
    assert_eq!(fixture.value(day).await, json!(2_000));
}

#[tokio::test(flavor = "multi_thread")]
async fn filters_give_what_the_same_filters_over_all_rows_give() {
    let fixture = four_days().await;
    // The inner query keeps the optimizer from pushing the filter: an offset must see every row.
    let filters = [
        "host = 'alpha'",
        "host = 'alpha' AND time >= '2000-10-10' AND time < '2000-10-11'",
        "host IN ('beta', '::1', 'nobody')",
        "host = 'nobody'",
        "path = '/p3' OR path = '/p5'",
        "status >= 500",
        "status / 100 = 4 AND path IS NOT NULL",
        "time = '2000-10-09T00:00:43.2Z'",
        "time BETWEEN '2000-10-09T12:00:00Z' AND '2000-10-11T12:00:00Z'",
        "'2000-10-11' <= time",
        "NOT (time < '2000-10-12')",
        "query IS NULL AND protocol = 'HTTP/1.1'",
        "request = 'garbage'",
        "request LIKE 'GET /p1?a=1%'",
        "_seq BETWEEN 100 AND 5000 AND host = 'gamma'",
        "_seq = 4711",
        "response_size > 99000 OR response_size IS NULL",
        "time > '2000-10-12T05:00:00Z' AND host = 'delta'",
        "user IS NOT NULL",
    ];
    for filter in filters {
        let columns = "_id, request, host, path, status, response_size, time, _seq";
        let pushed = format!("SELECT {columns} FROM access WHERE {filter} ORDER BY _seq");
        let unpushed = format!(
            "SELECT * FROM (SELECT {columns}, query, protocol, \"user\" FROM access ORDER BY _seq OFFSET 0) WHERE {} ORDER BY _seq",
            filter.replace("user ", "\"user\" ")
        );
        let pushed = pushed.replace("user ", "\"user\" ");
        let expected: Vec<Value> = fixture
            .rows(&unpushed)
            .await
            .into_iter()
            .map(strip)
            .collect();
        let found: Vec<Value> = fixture.rows(&pushed).await.into_iter().map(strip).collect();
        assert_eq!(found, expected, "{filter}");
        let counted =
            format!("SELECT count(*) FROM access WHERE {filter}").replace("user ", "\"user\" ");
        assert_eq!(
            fixture.value(&counted).await,
            json!(expected.len()),
            "{filter}"
        );
    }
}

/// Returns a row without the columns that only one side selects.
fn strip(mut row: Value) -> Value {
    let object = row.as_object_mut().expect("a row");
    for name in ["query", "protocol", "user"] {
        object.shift_remove(name);
    }
    row
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slice_opens_only_the_parts_of_its_day() {
    let fixture = four_days().await;
    let sql = "SELECT * FROM access WHERE host = 'alpha' AND time >= '2000-10-10' AND time < '2000-10-11'";
    let figures = fixture.figures(sql).await;
    assert_eq!(
        (figures.partitions.total, figures.partitions.examined),
        (3, 1)
    );
    assert_eq!((figures.parts.total, figures.parts.examined), (3, 1));
    assert_eq!(figures.answered_by, ["parts of access"]);
    assert!(figures.rows_examined >= figures.rows_returned && figures.rows_returned > 0);
    assert!(
        figures.bytes_read > 0 && figures.row_groups.examined == 1,
        "{figures:?}"
    );
    let nobody = "SELECT * FROM access WHERE host = 'zzz' AND time < '2000-10-12'";
    let figures = fixture.figures(nobody).await;
    assert_eq!(
        (figures.parts.examined, figures.bytes_read),
        (0, 0),
        "bounds of host leave every part out"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_id_finds_its_event_in_one_part() {
    let fixture = four_days().await;
    let all = fixture
        .rows("SELECT _id, path, _seq FROM access WHERE _seq IN (1234, 6200)")
        .await;
    for row in &all {
        let id = row["_id"].as_str().expect("text");
        let sql = format!("SELECT _id, path, _seq FROM access WHERE _id = '{id}'");
        assert_eq!(fixture.rows(&sql).await, std::slice::from_ref(row));
        assert!(fixture.figures(&sql).await.parts.examined <= 1);
    }
    assert_eq!(all.len(), 2);
    assert!(
        fixture
            .rows("SELECT * FROM access WHERE _id = 'not an id'")
            .await
            .is_empty()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn explain_says_what_answered() {
    let fixture = four_days().await;
    let plan = Value::from(
        fixture
            .rows("EXPLAIN ANALYZE SELECT count(*) FROM access WHERE status = 500")
            .await,
    )
    .to_string();
    assert!(
        plan.contains("parts of access, memtable of access"),
        "{plan}"
    );
    assert!(plan.contains("partitions=3/3, parts=3/3"), "{plan}");
    assert!(
        !fixture
            .rows("EXPLAIN SELECT * FROM access")
            .await
            .is_empty()
    );
    let pushed = fixture
        .rows("EXPLAIN SELECT path FROM access WHERE host = 'alpha' AND time >= '2000-10-10'")
        .await;
    let physical = pushed
        .iter()
        .find(|r| r["plan_type"] == "physical_plan")
        .expect("a physical plan")["plan"]
        .to_string();
    let filters = physical.matches("FilterExec").count();
    assert_eq!(
        filters, 1,
        "the filter is inside the scan of parts and above the memtable alone: {physical}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn only_one_reading_statement_is_taken() {
    let fixture = four_days().await;
    for sql in [
        "DROP TABLE access",
        "INSERT INTO access SELECT * FROM access",
        "DELETE FROM access",
        "CREATE TABLE x AS SELECT 1",
        "COPY access TO '/tmp/x'",
        "CREATE EXTERNAL TABLE x STORED AS CSV LOCATION '/etc/passwd'",
        "SET datafusion.execution.batch_size = 1",
        "EXPLAIN ANALYZE INSERT INTO access SELECT * FROM access",
        "SELECT 1; SELECT 2",
        "",
    ] {
        let error = fixture.try_query(sql).await.expect_err(sql);
        assert_eq!(error.kind(), Kind::Invalid, "{sql}: {error}");
    }
    assert_eq!(
        fixture
            .value("SELECT /*+ no_rollup */ /*+ order(host, time) */ count(*) FROM access;")
            .await,
        json!(6_500)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_name_what_is_near() {
    let fixture = four_days().await;
    let error = fixture
        .try_query("SELECT * FROM acess")
        .await
        .expect_err("unknown");
    assert_eq!(error.hint(), Some("did you mean access?"), "{error}");
    let error = fixture
        .try_query("SELECT statsu FROM access")
        .await
        .expect_err("unknown");
    assert_eq!(error.hint(), Some("did you mean status?"), "{error}");
    let error = fixture.try_query("SELEC 1").await.expect_err("no SQL");
    assert_eq!(error.kind(), Kind::Invalid);
    let error = fixture
        .try_query("SELECT CAST('x' AS INT) FROM access")
        .await
        .expect_err("no number");
    assert_eq!(error.kind(), Kind::Invalid, "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slice_asked_again_reads_no_footer() {
    let fixture = four_days().await;
    let sql = "SELECT path, host FROM access WHERE host = 'alpha' AND time >= '2000-10-10' AND time < '2000-10-11'";
    let first = fixture.figures(sql).await;
    let again = fixture.figures(sql).await;
    // The file is one block: it is read once for its footer, once for the pages.
    assert!(again.bytes_read > 0, "{again:?}");
    assert_eq!(first.bytes_read, 2 * again.bytes_read);
    assert_eq!(first.rows_examined, again.rows_examined);
    assert!(
        again.row_groups.examined == 1 && again.pages.examined >= 1,
        "{again:?}"
    );
    let other = fixture.figures(&sql.replace("alpha", "beta")).await;
    assert_eq!(other.bytes_read, again.bytes_read);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pattern_that_is_none_is_the_fault_of_the_query() {
    let fixture = four_days().await;
    let large = "'((((a{1,100}){1,100}){1,100}){1,100})'";
    for (filter, why) in [
        ("path ~ '(('".to_owned(), "unclosed group"),
        (
            "regexp_like(path, '[z-a]')".to_owned(),
            "invalid character class range",
        ),
        (
            "regexp_like(path, host || '((')".to_owned(),
            "unclosed group",
        ),
        (
            format!("regexp_like(path, {large})"),
            "make its repetitions smaller",
        ),
        (format!("path ~* {large}"), "make its repetitions smaller"),
    ] {
        let sql = format!("SELECT count(*) FROM access WHERE {filter}");
        let error = fixture.try_query(&sql).await.expect_err("no pattern");
        assert_eq!(error.kind(), Kind::Invalid, "{sql}: {error}");
        let told = error.to_string();
        assert!(told.contains(why) && !told.contains("bug"), "{sql}: {told}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn parameters_are_values_never_text() {
    let fixture = four_days().await;
    let sql = "SELECT count(*) FROM access WHERE host = $1 AND status = $2 AND time >= $3";
    let params = json!(["alpha", 200, "2000-10-11"]);
    let found = fixture.query_with(sql, Some(params)).await.expect("runs").0;
    let literal = "SELECT count(*) FROM access WHERE host = 'alpha' AND status = 200 AND time >= '2000-10-11'";
    assert_eq!(found, fixture.rows(literal).await);
    let hostile = fixture.query_with(
        "SELECT count(*) AS n FROM access WHERE host = $h",
        Some(json!({"h": "' OR 1=1 --"})),
    );
    assert_eq!(hostile.await.expect("runs").0, [json!({"n": 0})]);
    assert_eq!(
        fixture
            .try_query(sql)
            .await
            .expect_err("values are missing")
            .kind(),
        Kind::Invalid
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn documents_keep_dotted_names_and_their_overflow() {
    let fixture = Fixture::without_rollups();
    let rest = bson::doc! { "deep": { "er": 5, "list": [1, { "x": "y" }] }, "a.b": "dotted" };
    let columns = [
        Column::new("name", ColumnType::Text),
        Column::new("time", ColumnType::Time),
        Column::new("req.Path", ColumnType::Text),
        Column::new("_rest", ColumnType::Binary),
        Column::new("_id", ColumnType::Text),
    ];
    let bytes = rest.to_vec().expect("BSON");
    let events = RecordBatch::try_new(
        arrow_schema(&columns),
        vec![
            Arc::new(StringArray::from(vec!["one", "two"])),
            Arc::new(
                TimestampMicrosecondArray::from(vec![1_500_000, 2_000_000]).with_timezone("UTC"),
            ),
            Arc::new(StringArray::from(vec![Some("/x"), None])),
            Arc::new(BinaryArray::from(vec![Some(bytes.as_slice()), None])),
            Arc::new(StringArray::from(vec![Some("mine"), None])),
        ],
    )
    .expect("columns fit");
    fixture.write("docs", StreamKind::Documents, events);
    for _ in 0..2 {
        let rows = fixture.rows("SELECT * FROM docs ORDER BY time").await;
        let names: Vec<&String> = rows[0].as_object().expect("a row").keys().collect();
        assert_eq!(names, ["_id", "time", "name", "req.Path", "_rest"]);
        assert_eq!(
            (&rows[0]["_id"], &rows[0]["time"]),
            (&json!("mine"), &json!("1970-01-01T00:00:01.500Z"))
        );
        assert_eq!(rows[1]["_id"].as_str().map(str::len), Some(24));
        let dotted = "SELECT req.Path AS p, docs.req.Path AS q, attr(_rest, 'deep.er') AS e, attr(_rest, 'a.b') AS ab, \
                      attr(_rest, 'deep.list.1.x') AS y, attr(_rest, 'deep.list') AS l, attr(_rest, 'none') AS n \
                      FROM docs WHERE req.Path = '/x'";
        let expected = json!({"p": "/x", "q": "/x", "e": "5", "ab": "dotted", "y": "y", "l": "[1,{\"x\":\"y\"}]", "n": null});
        assert_eq!(fixture.rows(dotted).await, [expected]);
        assert_eq!(
            fixture
                .rows("SELECT name FROM docs WHERE _id = 'mine'")
                .await,
            [json!({"name": "one"})]
        );
        let written = json!({"deep": {"er": 5, "list": [1, {"x": "y"}]}, "a.b": "dotted"});
        for sql in [
            "SELECT _rest AS r FROM docs WHERE name = 'one'",
            "SELECT r FROM (SELECT name, _rest AS r FROM docs) AS d WHERE name = 'one'",
            "SELECT r FROM (SELECT _rest AS r, count(*) AS n FROM docs GROUP BY _rest) AS d WHERE r IS NOT NULL",
            "SELECT DISTINCT _rest AS r FROM docs WHERE _rest IS NOT NULL",
            "SELECT _rest AS r FROM docs ORDER BY time LIMIT 1",
            "SELECT d._rest AS r FROM docs AS d JOIN docs AS e ON d.name = e.name WHERE e.name = 'one'",
            "SELECT _rest AS r FROM docs WHERE name = 'one' UNION ALL SELECT _rest FROM docs WHERE name = 'no'",
            "SELECT r FROM (SELECT _rest AS r, row_number() OVER (ORDER BY time) AS n FROM docs) AS d WHERE n = 1",
        ] {
            let expected = [json!({ "r": written })];
            assert_eq!(fixture.rows(sql).await, expected, "{sql}");
        }
        fixture.store.seal().expect("seals");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn columns_that_came_later_are_null_in_older_parts() {
    let fixture = Fixture::without_rollups();
    let event = |time: i64, column: &str, value: &str| {
        let columns = [
            Column::new("time", ColumnType::Time),
            Column::new(column, ColumnType::Text),
        ];
        RecordBatch::try_new(
            arrow_schema(&columns),
            vec![
                Arc::new(TimestampMicrosecondArray::from(vec![time]).with_timezone("UTC")),
                Arc::new(StringArray::from(vec![value])),
            ],
        )
        .expect("columns fit")
    };
    fixture.write("docs", StreamKind::Documents, event(1, "a", "x"));
    fixture.store.seal().expect("seals");
    // Data kept from this query is not used for the next.
    assert_eq!(
        fixture.rows("SELECT a FROM docs").await,
        [json!({"a": "x"})]
    );
    fixture.write("docs", StreamKind::Documents, event(2, "b", "y"));
    let expected = [json!({"a": "x", "b": null}), json!({"a": null, "b": "y"})];
    assert_eq!(
        fixture.rows("SELECT a, b FROM docs ORDER BY time").await,
        expected
    );
    assert_eq!(
        fixture.rows("SELECT a FROM docs WHERE b = 'y'").await,
        [json!({"a": null})]
    );
    fixture.store.seal().expect("seals");
    assert_eq!(
        fixture.rows("SELECT a, b FROM docs ORDER BY time").await,
        expected
    );
    assert_eq!(
        fixture.rows("SELECT a FROM docs WHERE b IS NULL").await,
        [json!({"a": "x"})]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_query_is_listed_and_can_be_cancelled() {
    let fixture = four_days().await;
    let sql = "SELECT a.time FROM access a CROSS JOIN access b CROSS JOIN access c";
    let answer = fixture
        .engine
        .sql(fixture.store.snapshot(), Arc::new(NoSystemInfo), sql, None)
        .await
        .expect("starts");
    let id = answer.id;
    let running = fixture.engine.queries();
    assert_eq!(
        (running.len(), running[0].id, running[0].sql.as_str()),
        (1, id, sql)
    );
    assert_eq!(
        fixture.value("SELECT count(*) FROM system.queries").await,
        json!(2),
        "it sees itself too"
    );
    let mut stream = answer.stream;
    assert!(stream.next().await.expect("rows").is_ok());
    assert!(fixture.engine.cancel(id) && !fixture.engine.cancel(id + 1_000));
    let error = loop {
        match stream.next().await.expect("an error comes before the end") {
            Ok(_) => {}
            Err(error) => break error,
        }
    };
    assert!(matches!(error, Error::Cancelled { id: cancelled } if cancelled == id));
    assert!(stream.next().await.is_none());
    // The query is listed until nothing of it computes any more.
    super::limits::until(|| fixture.engine.queries().is_empty()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn system_tables_add_up() {
    let fixture = four_days().await;
    let streams = fixture
        .rows("SELECT name, kind, events, parts, memtable_events FROM system.streams")
        .await;
    let expected = json!({"name": "access", "kind": "access", "events": 6_500, "parts": 3, "memtable_events": 500});
    assert!(streams.contains(&expected), "{streams:?}");
    assert_eq!(
        fixture
            .value("SELECT sum(rows) FROM system.parts WHERE stream = 'access'")
            .await,
        json!(6_000)
    );
    assert_eq!(
        fixture
            .value("SELECT count(*) FROM system.partitions WHERE stream = 'access'")
            .await,
        json!(3)
    );
    for table in crate::tables::system::TABLES {
        fixture.rows(&format!("SELECT * FROM system.{table}")).await;
    }
    let listed = fixture
        .rows("SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'")
        .await;
    assert!(
        listed.contains(&json!({"table_name": "access"})),
        "{listed:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn tail_shows_the_rows_that_select_would() {
    let fixture = Fixture::without_rollups();
    let mut events: Vec<Event> = mixture(50, START, 1_000_000);
    events.push(example());
    fixture.write("access", StreamKind::Access, batch(&events));
    let snapshot = fixture.store.snapshot();
    let meta = &snapshot.streams()["access"];
    for condition in [
        None,
        Some("status >= 500"),
        Some("request LIKE '%apache%'"),
        Some("_seq > 10 AND host = 'alpha'"),
    ] {
        let filter = TailFilter::new(
            &fixture.engine,
            meta,
            snapshot.manifest().id_prefix(),
            condition,
        )
        .expect("it can be planned");
        let mut found = Vec::new();
        for chunk in snapshot.chunks("access") {
            found.push(filter.filter(&chunk.events).expect("filters"));
        }
        let mut out = Vec::new();
        crate::answer::output::write(
            crate::answer::output::Output::Json,
            &filter.schema(),
            &found,
            &mut out,
        )
        .expect("written");
        let found: Value = serde_json::from_slice(&out).expect("JSON");
        let selected = fixture
            .rows(&format!(
                "SELECT * FROM access WHERE {} ORDER BY _seq",
                condition.unwrap_or("true")
            ))
            .await;
        assert_eq!(found, Value::from(selected), "{condition:?}");
    }
    for wrong in ["statsu = 1", "status +", "status"] {
        let error = TailFilter::new(&fixture.engine, meta, [0; 6], Some(wrong)).expect_err(wrong);
        assert_eq!(error.kind(), Kind::Invalid, "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cast_stands_beside_its_column_and_an_order_by_it() {
    let fixture = four_days().await;
    let first = |sql: String| {
        let fixture = &fixture;
        async move { fixture.rows(&format!("{sql} LIMIT 1")).await.remove(0) }
    };
    let row =
        first("SELECT time::date, status FROM access ORDER BY time DESC, status".into()).await;
    assert_eq!(row["time"], "2000-10-12");
    let row = first("SELECT status, status, status::text FROM access ORDER BY time".into()).await;
    assert_eq!(
        (&row["status"], &row["status:2"]),
        (&json!(200), &json!(200))
    );
    assert_eq!(row["status:3"], "200");
    // In an expression and in HAVING a name is the column's: it never silently becomes the cast.
    let having = "FROM access GROUP BY time::date HAVING extract(hour FROM max(time)) = 23";
    let expected = fixture
        .rows(&format!("SELECT time::date AS d {having}"))
        .await
        .len();
    assert!(expected > 0);
    for order in ["time::date", "time"] {
        let found = fixture
            .try_query(&format!("SELECT time::date {having} ORDER BY {order}"))
            .await;
        assert!(found.is_err() || found.is_ok_and(|(rows, _)| rows.len() == expected));
    }
    let by_hour = "FROM access ORDER BY extract(hour FROM time) DESC, time";
    let expected = first(format!("SELECT time::date AS d, time AS t {by_hour}")).await;
    if let Ok((rows, _)) = fixture
        .try_query(&format!("SELECT time::date, time AS t {by_hour} LIMIT 1"))
        .await
    {
        assert_eq!(rows[0]["t"], expected["t"]);
    }
}
