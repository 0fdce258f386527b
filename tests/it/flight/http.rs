//! Random questions have the same answers as over HTTP.

use arrow::compute::concat_batches;

use super::{ask, connect, served, within};
use crate::support::{Home, seed};

/// Draws questions over the stream and its rollups.
struct Draw(u64);

impl Draw {
    fn of<'a>(&mut self, some: &[&'a str]) -> &'a str {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        some[(self.0 >> 33) as usize % some.len()]
    }

    fn question(&mut self) -> String {
        let key = self.of(&[
            "path",
            "host",
            "status",
            "method",
            "date_trunc('hour', time)",
            "status / 100",
            "time_bucket('2 hours', time, 'Europe/Berlin')",
            "upper(protocol)",
        ]);
        let measure = self.of(&[
            "count(*)",
            "sum(response_size)",
            "avg(response_size)",
            "max(time)",
            "min(host)",
            "count(DISTINCT host)",
            "array_sort(array_agg(DISTINCT status))",
            "hist_quantile(histogram(response_size), 0.9)",
        ]);
        let condition = self.of(&[
            "true",
            "status >= 400",
            "path LIKE '/page/1%'",
            "host = '203.0.113.7'",
            "time < '2024-03-01T02:00:00Z'",
            "response_size % 7 = 3",
            "status IN (304, 500)",
        ]);
        match self.of(&["group", "rows", "level"]) {
            "group" => format!(
                "SELECT {key} AS k, {measure} AS m FROM access WHERE {condition} GROUP BY 1 ORDER BY 1"
            ),
            "rows" => format!("SELECT *, {key} AS k FROM access WHERE {condition} ORDER BY _seq"),
            _ => format!(
                "SELECT * FROM {} ORDER BY ALL",
                self.of(&[
                    "stats.hourly",
                    "traffic.daily",
                    "traffic.minutely",
                    "system.rollups"
                ])
            ),
        }
    }
}

#[test]
fn answers_are_those_of_http() {
    let home = Home::new();
    let server = served(&home, &[]);
    let documents = "{\"a\":{\"b c\":[1,\"x\"]},\"n\":7}\n{\"n\":null,\"t\":\"é\",\"l\":[1,2]}\n";
    server.ingest("documents?format=json", documents);
    let mut draw = Draw(seed());
    let mut questions: Vec<String> = (0..60).map(|_| draw.question()).collect();
    questions.push("SELECT * FROM documents ORDER BY _id".to_owned());
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
