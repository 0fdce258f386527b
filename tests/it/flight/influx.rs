//! Grafana's InfluxDB data source in SQL mode: its calls (`pkg/tsdb/influxdb/fsql` and
//! `public/app/plugins/datasource/influxdb/fsql` of grafana/grafana), answered in the types that
//! its frames know.

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::{DataType, Int64Type, TimeUnit, TimestampNanosecondType};

use super::{Client, EVENTS, ask, connect, served, within};
use crate::support::{Home, PAST_S, Server};

/// Connects as the data source does, which names the database in a header.
async fn grafana(server: &Server) -> Client {
    let mut client = connect(server).await;
    client.set_header("database", "logmill");
    client
}

/// Returns whether a frame can hold values of the type (`newField` and `copyData` of `arrow.go`).
/// Every version of the data source takes a timestamp for one in nanoseconds.
fn is_known(data_type: &DataType) -> bool {
    match data_type {
        DataType::Timestamp(unit, _) => *unit == TimeUnit::Nanosecond,
        DataType::Utf8 | DataType::Boolean | DataType::Float32 | DataType::Float64 => true,
        other => other.is_integer(),
    }
}

async fn frame(client: &mut Client, sql: &str) -> RecordBatch {
    let rows = ask(client, sql).await;
    let rows = rows.unwrap_or_else(|error| panic!("{error}: {sql}"));
    for field in rows.schema().fields() {
        assert!(is_known(field.data_type()), "{field:?}: {sql}");
    }
    rows
}

fn texts(rows: &RecordBatch, column: usize) -> Vec<&str> {
    let texts = rows.column(column).as_string::<i32>();
    texts.iter().flatten().collect()
}

/// Expands the macros of `macro.go` for the whole log, and an interval of five minutes.
fn expanded(sql: &str) -> String {
    let at = |s: i64| chrono::DateTime::from_timestamp(s, 0).expect("a time");
    let cast = |s: i64| {
        format!(
            "cast('{}' as timestamp)",
            at(s).format("%Y-%m-%dT%H:%M:%SZ")
        )
    };
    let bin = "date_bin(interval '300 second', time, timestamp '1970-01-01T00:00:00Z')";
    sql.replace("$__timeFrom", &cast(PAST_S))
        .replace("$__timeTo", &cast(PAST_S + 7 * EVENTS))
        .replace("$__dateBinAlias(time)", &format!("{bin} as time_binned"))
        .replace("$__dateBin(time)", bin)
        .replace("$__interval", "interval '300 second'")
}

#[test]
fn the_health_check_and_the_builder_find_what_they_ask_for() {
    let home = Home::new();
    let server = served(&home, &[]);
    within(async {
        let mut client = grafana(&server).await;
        let one = frame(&mut client, "select 1").await;
        assert_eq!((one.num_rows(), one.num_columns()), (1, 1));
        // The builder's dataset is always `iox`; what lies elsewhere is quoted with its schema.
        let schemas = "SELECT DISTINCT table_schema FROM information_schema.tables WHERE table_type != 'SYSTEM VIEW' ORDER BY table_schema";
        let schemas = frame(&mut client, schemas).await;
        assert!(texts(&schemas, 0).contains(&"iox"), "{schemas:?}");
        assert!(!texts(&schemas, 0).contains(&"public"), "{schemas:?}");
        let tables = "SELECT table_name FROM information_schema.tables WHERE table_schema = 'iox' ORDER BY table_name";
        let tables = frame(&mut client, tables).await;
        assert_eq!(texts(&tables, 0), ["access"]);
        let columns = "SELECT column_name, data_type FROM information_schema.columns WHERE table_schema = 'iox' AND table_name = 'access' ORDER BY column_name";
        let columns = frame(&mut client, columns).await;
        assert!(texts(&columns, 0).contains(&"status"), "{columns:?}");
        let built = expanded(
            r#"SELECT "host", "status" FROM "access" WHERE "time" >= $__timeFrom AND "time" <= $__timeTo AND "host" = '203.0.113.3' LIMIT 5"#,
        );
        assert_eq!(frame(&mut client, &built).await.num_rows(), 5);
        for qualified in [
            r#"SELECT count(*) FROM "iox"."access""#,
            "SELECT count(*) FROM public.access",
        ] {
            let counted = frame(&mut client, qualified).await;
            let counted = counted.column(0).as_primitive::<Int64Type>().value(0);
            assert_eq!(counted, EVENTS, "{qualified}");
        }
        // Other clients see PostgreSQL's name.
        let mut other = connect(&server).await;
        let named = "SELECT DISTINCT table_schema FROM information_schema.tables WHERE table_name = 'access'";
        let named = ask(&mut other, named).await.expect("rows");
        assert_eq!(texts(&named, 0), ["public"]);
        assert!(ask(&mut other, "SELECT 1 FROM iox.access").await.is_err());
    });
}

#[test]
fn times_are_those_of_the_events_and_every_column_has_its_values() {
    let home = Home::new();
    let server = served(&home, &[]);
    within(async {
        let mut client = grafana(&server).await;
        let all = frame(&mut client, "SELECT * FROM access ORDER BY time").await;
        let times = all.column_by_name("time").expect("a time");
        let times = times.as_primitive::<TimestampNanosecondType>();
        let whole_ns = |nth: i64| (PAST_S + 7 * nth) * 1_000_000_000;
        assert_eq!(times.value(0), whole_ns(0));
        assert_eq!(times.value(all.num_rows() - 1), whole_ns(EVENTS - 1));
        frame(&mut client, "SELECT * FROM stats.hourly").await;
        frame(&mut client, "SELECT * FROM system.parts").await;
        let series = expanded(
            "SELECT $__dateBinAlias(time), status, count(*) AS hits, avg(response_size) AS mean, sum(response_size) AS bytes FROM access WHERE time >= $__timeFrom AND time <= $__timeTo GROUP BY time_binned, status ORDER BY time_binned",
        );
        let series = frame(&mut client, &series).await;
        let hits = series.column(2).as_primitive::<Int64Type>();
        assert_eq!(hits.iter().flatten().sum::<i64>(), EVENTS);
        let bins = series.column(0).as_primitive::<TimestampNanosecondType>();
        assert!(bins.values().iter().all(|ns| ns % 300_000_000_000 == 0));
        let parts = "SELECT datepart('minute', time),datepart('hour', time),datepart('day', time),datepart('month', time),datepart('year', time), count(*) AS hits FROM access GROUP BY datepart('minute', time),datepart('hour', time),datepart('day', time),datepart('month', time),datepart('year', time)";
        let parts = frame(&mut client, parts).await;
        let hits = parts.column_by_name("hits").expect("hits");
        assert_eq!(
            hits.as_primitive::<Int64Type>()
                .iter()
                .flatten()
                .sum::<i64>(),
            EVENTS
        );
        let by_interval =
            expanded("SELECT count(*) FROM access WHERE time < $__timeFrom + $__interval");
        let counted = frame(&mut client, &by_interval).await;
        assert_eq!(counted.column(0).as_primitive::<Int64Type>().value(0), 43);
    });
}
