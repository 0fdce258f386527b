//! Random questions have the same answers as over HTTP.

use arrow::compute::concat_batches;

use super::{ask, connect, served, within};
use crate::questions::{DOCUMENTS, Draw};
use crate::support::{Home, seed};

#[test]
fn answers_are_those_of_http() {
    let home = Home::new();
    let server = served(&home, &[]);
    server.ingest("documents?format=json", DOCUMENTS);
    let mut draw = Draw(seed());
    let questions = draw.questions(60);
    let (mut compared, accept) = (0, [("Accept", "application/vnd.apache.arrow.stream")]);
    within(async {
        let mut client = connect(&server).await;
        for sql in questions {
            let http = server.post("/api/v1/sql", &accept, sql.as_bytes());
            let flight = ask(&mut client, &sql).await;
            if http.status != 200 {
                assert!(flight.is_err(), "{sql}: {}", http.text());
                continue;
            }
            let reader = arrow::ipc::reader::StreamReader::try_new(&http.body[..], None);
            let reader = reader.expect("an Arrow stream");
            let schema = reader.schema();
            let batches: Vec<_> = reader.map(|batch| batch.expect("a batch")).collect();
            let http = concat_batches(&schema, &batches).expect("one schema");
            let flight = flight.unwrap_or_else(|error| panic!("{sql}: {error}"));
            assert_eq!(flight.columns(), http.columns(), "{sql}");
            compared += 1;
        }
    });
    assert!(compared > 30, "{compared} questions had an answer");
}
