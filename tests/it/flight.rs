//! The Flight SQL listener with the client of `arrow-flight`, and with Python's ADBC where it is
//! installed.

mod http;
mod influx;
mod logins;
mod python;

use std::time::{Duration, Instant};

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch, StringArray};
use arrow::compute::concat_batches;
use arrow::datatypes::Int64Type;
use arrow_flight::FlightInfo;
use arrow_flight::error::FlightError;
use arrow_flight::sql::client::FlightSqlServiceClient;
use arrow_flight::sql::{CommandGetDbSchemas, CommandGetPrimaryKeys, CommandGetTables, SqlInfo};
use futures::{StreamExt, TryStreamExt};
use tonic::Code;
use tonic::transport::{Channel, Endpoint};

use crate::support::{Home, PAST_S, Server, line};

/// Events of the stream `access`.
const EVENTS: i64 = 3_000;
/// A query that runs for longer than any test.
const ENDLESS: &str = "SELECT count(*) FROM generate_series(1, 40000000) AS a, generate_series(1, 40000000) AS b WHERE a.value * 7 % 1000003 = b.value * 11 % 1000033";

type Client = FlightSqlServiceClient<Channel>;

/// Serves an access log, most of it sealed.
fn served(home: &Home, environment: &[(&str, &str)]) -> Server {
    let server = Server::start_flight(&home.data, environment);
    fill(&server);
    server
}

fn fill(server: &Server) {
    let lines = |range: std::ops::Range<i64>| -> String {
        let line = |n: i64| {
            let (host, status) = (n % 97, [200, 200, 200, 304, 404, 500][n as usize % 6]);
            let (at_s, path) = (PAST_S + n * 7, format!("/page/{}", n % 31));
            line(
                &format!("203.0.113.{host}"),
                at_s,
                &path,
                status,
                n as u64 * 11,
            )
        };
        range.map(line).collect()
    };
    server.ingest("access", lines(0..EVENTS - 100));
    server.seal();
    server.ingest("access", lines(EVENTS - 100..EVENTS));
}

fn within<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(work)
}

async fn connect(server: &Server) -> Client {
    let address = server.flight.replace("grpc://", "http://");
    let endpoint = Endpoint::from_shared(address).expect("an address");
    FlightSqlServiceClient::new(endpoint.connect().await.expect("the server listens"))
}

/// Fetches an answer by its only ticket.
async fn fetch(client: &mut Client, info: FlightInfo) -> Result<RecordBatch, FlightError> {
    let [endpoint] = &info.endpoint[..] else {
        panic!("{} endpoints", info.endpoint.len());
    };
    let ticket = endpoint.ticket.clone().expect("a ticket");
    let told = match info.schema.is_empty() {
        true => None,
        false => Some(info.try_decode_schema().expect("a schema")),
    };
    let mut answer = client.do_get(ticket).await?;
    let mut batches = Vec::new();
    while let Some(batch) = answer.try_next().await? {
        batches.push(batch);
    }
    let schema = answer.schema().cloned().expect("a schema");
    if let Some(told) = told {
        assert_eq!(
            *schema, told,
            "the columns differ from what the client was told"
        );
    }
    Ok(concat_batches(&schema, &batches)?)
}

async fn ask(client: &mut Client, sql: &str) -> Result<RecordBatch, FlightError> {
    let info = client.execute(sql.to_owned(), None).await;
    fetch(client, info?).await
}

/// Returns the code and the message of a refusal.
#[track_caller]
fn refused<T>(outcome: Result<T, FlightError>) -> (Code, String) {
    match outcome.map(drop).expect_err("a refusal") {
        FlightError::Tonic(status) => (status.code(), status.message().to_owned()),
        FlightError::Arrow(arrow::error::ArrowError::IpcError(text)) => {
            let code = text
                .contains("Unauthenticated")
                .then_some(Code::Unauthenticated);
            (code.unwrap_or(Code::Unknown), text)
        }
        other => panic!("{other}"),
    }
}

#[test]
fn a_statement_is_answered_and_errors_have_codes() {
    let home = Home::new();
    let server = served(&home, &[]);
    within(async {
        let mut client = connect(&server).await;
        let rows = ask(
            &mut client,
            "SELECT count(*) AS n, min(path) AS p FROM access",
        )
        .await;
        let rows = rows.expect("rows");
        assert_eq!(rows.column(0).as_primitive::<Int64Type>().value(0), EVENTS);
        assert_eq!(rows.column(1).as_string::<i32>().value(0), "/page/0");
        let none = ask(
            &mut client,
            "SELECT host, time FROM access WHERE status = 1",
        )
        .await;
        let none = none.expect("no rows");
        assert_eq!((none.num_rows(), none.num_columns()), (0, 2));
        for (sql, code, words) in [
            ("SELECT * FROM acces", Code::NotFound, "access"),
            ("SELEC", Code::InvalidArgument, ""),
            ("DELETE FROM access", Code::InvalidArgument, ""),
            (
                "SELECT 1 / (status - status) FROM access",
                Code::InvalidArgument,
                "zero",
            ),
        ] {
            let (found, message) = refused(ask(&mut client, sql).await);
            assert_eq!(found, code, "{sql}: {message}");
            assert!(message.contains(words), "{sql}: {message}");
        }
        let (code, message) = refused(
            client
                .execute_update("DELETE FROM access".to_owned(), None)
                .await,
        );
        assert_eq!(code, Code::Unimplemented, "{message}");
        assert!(message.contains("/api/v1/ingest"), "{message}");
    });
}

fn one_row(values: Vec<ArrayRef>) -> RecordBatch {
    let named = values.into_iter().enumerate();
    let named = named.map(|(at, value)| (format!("{at}"), value));
    RecordBatch::try_from_iter(named).expect("columns of one row")
}

#[test]
fn a_prepared_statement_takes_parameters_until_it_is_closed() {
    let home = Home::new();
    let server = served(&home, &[]);
    within(async {
        let mut client = connect(&server).await;
        let sql = "SELECT count(*) AS n, $2 AS told FROM access WHERE status = $1";
        let mut prepared = client
            .prepare(sql.to_owned(), None)
            .await
            .expect("prepared");
        let parameters = prepared.parameter_schema().expect("parameters");
        assert_eq!(parameters.fields().len(), 2);
        for (status, found) in [(404, EVENTS / 6), (200, EVENTS / 2), (999, 0)] {
            let row = one_row(vec![
                std::sync::Arc::new(Int64Array::from(vec![status])),
                std::sync::Arc::new(StringArray::from(vec!["tëxt"])),
            ]);
            prepared.set_parameters(row).expect("one row");
            let info = prepared.execute().await.expect("bound");
            let rows = fetch(&mut client, info).await.expect("rows");
            assert_eq!(rows.column(0).as_primitive::<Int64Type>().value(0), found);
            assert_eq!(rows.column(1).as_string::<i32>().value(0), "tëxt");
        }
        let two = vec![std::sync::Arc::new(Int64Array::from(vec![1, 2])) as ArrayRef];
        prepared.set_parameters(one_row(two)).expect("two rows");
        let (code, message) = refused(prepared.execute().await);
        assert_eq!(code, Code::InvalidArgument, "{message}");
        assert!(message.contains("one row"), "{message}");
        let mut other = client
            .prepare("SELECT 7".to_owned(), None)
            .await
            .expect("prepared");
        let info = other.execute().await.expect("no parameters");
        let ticket = info.endpoint[0].ticket.clone().expect("a ticket");
        other.close().await.expect("closed");
        let (code, message) = refused(client.do_get(ticket).await);
        assert_eq!(code, Code::InvalidArgument, "{message}");
        assert!(message.contains("prepare it again"), "{message}");
    });
}

#[test]
fn the_catalog_lists_schemas_tables_and_columns() {
    let home = Home::new();
    let server = served(&home, &[]);
    within(async {
        let mut client = connect(&server).await;
        let texts = |batch: &RecordBatch, column: usize| -> Vec<String> {
            let column = batch.column(column).as_string::<i32>();
            column.iter().flatten().map(str::to_owned).collect()
        };
        let info = client.get_catalogs().await.expect("catalogs");
        let catalogs = fetch(&mut client, info).await.expect("rows");
        assert_eq!(texts(&catalogs, 0), ["logmill"]);
        let command = CommandGetDbSchemas {
            catalog: None,
            db_schema_filter_pattern: Some("s%".to_owned()),
        };
        let info = client.get_db_schemas(command).await.expect("schemas");
        let schemas = fetch(&mut client, info).await.expect("rows");
        assert_eq!(texts(&schemas, 1), ["stats", "system"]);
        let tables = |pattern: &str, types: &[&str], include_schema| CommandGetTables {
            catalog: Some("logmill".to_owned()),
            db_schema_filter_pattern: None,
            table_name_filter_pattern: Some(pattern.to_owned()),
            table_types: types.iter().map(|&kind| kind.to_owned()).collect(),
            include_schema,
        };
        let info = client
            .get_tables(tables("a%", &["TABLE"], true))
            .await
            .expect("tables");
        let found = fetch(&mut client, info).await.expect("rows");
        assert_eq!(texts(&found, 2), ["access"]);
        let schema = found.column(4).as_binary::<i32>().value(0);
        let schema = arrow_flight::IpcMessage(schema.to_vec().into());
        let schema = arrow::datatypes::Schema::try_from(schema).expect("a schema");
        let answered = ask(&mut client, "SELECT * FROM access LIMIT 1").await;
        assert_eq!(schema, *answered.expect("a row").schema());
        let info = client
            .get_tables(tables("hourly", &[], false))
            .await
            .expect("tables");
        let found = fetch(&mut client, info).await.expect("rows");
        assert_eq!(texts(&found, 1), ["stats", "traffic"]);
        let info = client.get_table_types().await.expect("types");
        let types = fetch(&mut client, info).await.expect("rows");
        assert_eq!(texts(&types, 0), ["SYSTEM TABLE", "TABLE", "VIEW"]);
        let asked = vec![
            SqlInfo::FlightSqlServerName,
            SqlInfo::FlightSqlServerReadOnly,
        ];
        let info = client.get_sql_info(asked).await.expect("information");
        let found = fetch(&mut client, info).await.expect("rows");
        assert_eq!(found.num_rows(), 2);
        let keys = CommandGetPrimaryKeys {
            table: "access".to_owned(),
            ..CommandGetPrimaryKeys::default()
        };
        let info = client.get_primary_keys(keys).await.expect("keys");
        assert_eq!(fetch(&mut client, info).await.expect("none").num_rows(), 0);
    });
}

/// Waits until so many queries run.
#[track_caller]
fn await_running(server: &Server, count: usize) {
    let until = Instant::now() + Duration::from_secs(120);
    loop {
        let found = server.get("/api/v1/queries").status(200).json();
        if found.as_array().expect("an array").len() == count {
            return;
        }
        assert!(Instant::now() < until, "{count} awaited: {found}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_dropped_stream_cancels_its_query() {
    let home = Home::new();
    let server = served(&home, &[]);
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let mut client = runtime.block_on(connect(&server));
    let answer = runtime.block_on(async {
        let info = client
            .execute(ENDLESS.to_owned(), None)
            .await
            .expect("planned");
        let ticket = info.endpoint[0].ticket.clone().expect("a ticket");
        client.do_get(ticket).await.expect("begun")
    });
    await_running(&server, 1);
    drop(answer);
    await_running(&server, 0);
    let rows = runtime.block_on(ask(&mut client, "SELECT 1"));
    assert_eq!(rows.expect("the connection still serves").num_rows(), 1);
}

#[test]
fn a_client_that_takes_nothing_loses_its_answer_and_knows_it() {
    let home = Home::new();
    let server = served(&home, &[("LOGMILL_SERVER__ANSWER_TIME_MAX", "1s")]);
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let mut client = runtime.block_on(connect(&server));
    let sql = "SELECT value, repeat('x', 100) AS x FROM generate_series(1, 900000)";
    let mut answer = runtime.block_on(async {
        let info = client.execute(sql.to_owned(), None).await.expect("planned");
        let ticket = info.endpoint[0].ticket.clone().expect("a ticket");
        let mut answer = client.do_get(ticket).await.expect("begun");
        answer.next().await.expect("rows").expect("rows");
        answer
    });
    await_running(&server, 0);
    let (code, message) = runtime.block_on(async {
        loop {
            match answer.next().await {
                Some(Ok(_)) => {}
                Some(Err(error)) => return refused::<()>(Err(error)),
                None => panic!("the answer seems whole"),
            }
        }
    });
    assert_eq!(code, Code::DeadlineExceeded, "{message}");
}

#[test]
fn requests_have_a_bounded_size() {
    let home = Home::new();
    let server = served(&home, &[]);
    within(async {
        let mut client = connect(&server).await;
        let long = format!("SELECT '{}'", "x".repeat(5 << 20));
        let (code, message) = refused(ask(&mut client, &long).await);
        assert_ne!(code, Code::Ok, "{message}");
        let sql = "SELECT $1 AS v".to_owned();
        let mut prepared = client.prepare(sql, None).await.expect("prepared");
        for (length, is_taken) in [(1 << 20, true), (6 << 20, false)] {
            let value = StringArray::from(vec!["x".repeat(length)]);
            let row = one_row(vec![std::sync::Arc::new(value)]);
            prepared.set_parameters(row).expect("one row");
            assert_eq!(prepared.execute().await.is_ok(), is_taken, "{length}");
        }
        assert!(ask(&mut client, "SELECT 1").await.is_ok());
    });
}
