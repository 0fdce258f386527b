//! Fields of a stream: its configuration of them, and the fields that it stores.

use serde_json::{Value, json};

use crate::support::{Home, Server, command, finish, line, run};

fn field<'a>(schema: &'a Value, name: &str) -> &'a Value {
    let fields = schema["fields"].as_array().expect("fields");
    let found = fields.iter().find(|f| f["name"] == name);
    found.unwrap_or_else(|| panic!("{name}: {schema}"))
}

#[test]
fn a_schema_counts_values_and_other_types_of_the_same_name() {
    let home = Home::new();
    let server = Server::start(&home.data);
    server.ingest(
        "docs?format=json",
        "{\"a\":1,\"b\":\"x\",\"time\":\"2024-03-01T00:00:00Z\"}\n\
         {\"a\":\"one\",\"c\":[1],\"time\":\"2024-03-01T00:00:02Z\"}",
    );
    server.seal();
    server.ingest(
        "docs?format=json",
        "{\"a\":2.5,\"c\":\"x\",\"time\":\"2024-03-01T00:00:03Z\"}\n\
         {\"c\":{\"d\":true},\"e\":[],\"time\":\"2024-03-01T00:00:01Z\"}\n\
         {\"e\":[2],\"\":null,\"time\":\"2024-03-01T00:00:01Z\"}\n{\"e\":{}}",
    );
    let path = "/api/v1/streams/docs/schema";
    let schema = server.get(path).status(200).json();
    assert_eq!(schema["events"], 6);
    let a = field(&schema, "a");
    assert_eq!(a["type"], "double precision");
    assert_eq!((&a["values"], &a["share"]), (&json!(3), &json!(0.5)));
    assert_eq!(a["conflicts"], json!({ "text": 1 }));
    let c = field(&schema, "c");
    assert_eq!((&c["type"], &c["values"]), (&json!("text"), &json!(2)));
    assert_eq!(c["conflicts"], json!({ "array": 1 }));
    assert!(c["first_us"].as_i64() >= a["first_us"].as_i64());
    assert_eq!(field(&schema, "c.d")["type"], "boolean");
    let e = field(&schema, "e");
    let figures = (&e["type"], &e["values"], &e["in_rest"]);
    assert_eq!(figures, (&json!("array"), &json!(3), &json!(true)));
    assert_eq!(e["conflicts"], json!({ "object": 1 }));
    assert_eq!(e["first_us"], 1_709_251_201_000_000_i64);
    assert_eq!(server.get("/api/v1/streams/none/schema").status, 404);
    let args = ["stream", "schema", "docs", "--output", "json"];
    let by_server = run(&[&args[..], &["--server", &server.url]].concat()).code(0);
    assert_eq!(by_server.json(), schema);
    assert_eq!(server.stop(), Some(0));
    let by_data = run(&[&args[..], &["--data", &home.data]].concat()).code(0);
    assert_eq!(by_data.json(), schema, "after a new start");
    let table = run(&["stream", "schema", "docs", "--data", &home.data]).code(0);
    assert!(
        table.stdout.contains("also text 1 in _rest"),
        "{}",
        table.stdout
    );
}

#[test]
fn documents_keep_or_drop_what_the_configuration_says() {
    let document = "{\"user\":{\"id\":7,\"tags\":[\"x\"]},\"n\":1,\"n2\":2,\"created_at\":\"2024-03-01T00:00:00Z\",\
                    \"_id\":\"mine\"}";
    let kept = [
        (
            "KEEP",
            "[\"user\", \"n\"]",
            json!({ "n": 1, "user.id": 7, "rest": ["user.tags"] }),
        ),
        (
            "KEEP",
            "[\"user.id\"]",
            json!({ "user.id": 7, "rest": null }),
        ),
        (
            "DROP",
            "[\"user\", \"created_at\"]",
            json!({ "_id": "mine", "n": 1, "n2": 2, "rest": null }),
        ),
    ];
    for (what, names, wanted) in kept {
        let home = Home::new();
        let variable = format!("LOGMILL_STREAM__DOCS__{what}");
        let environment = [
            (variable.as_str(), names),
            ("LOGMILL_STREAM__DOCS__RAW_LINE", "true"),
        ];
        let server = Server::start_with(&home.data, &environment);
        server.ingest("docs?format=json", document);
        let mut row = server.sql("SELECT * FROM docs").remove(0);
        let row = row.as_object_mut().expect("a row");
        assert_eq!(
            row.remove("time"),
            Some(json!("2024-03-01T00:00:00Z")),
            "{names}"
        );
        assert_eq!(row.remove("raw_line"), Some(json!(document)), "{names}");
        let rest = match row.remove("_rest") {
            None => Value::Null,
            Some(_) => server.sql("SELECT attr_fields(_rest) AS f FROM docs")[0]["f"].clone(),
        };
        row.insert("rest".into(), rest);
        if wanted.get("_id").is_none() {
            row.remove("_id");
        }
        assert_eq!(Value::from(row.clone()), wanted, "{what} {names}");
    }
}

#[test]
fn an_access_log_keeps_its_request_whole_or_tells_nothing_of_what_is_dropped() {
    let lines = line("10.0.0.1", 1_709_251_200, "/a?secret=1", 200, 5);
    let garbage = "10.0.0.1 - - [01/Mar/2024:00:00:00 +0000] \"secret\" 400 5 \"-\" \"-\"\n";
    let lines = lines + garbage;
    let cases = [
        (
            "KEEP",
            "[\"request\"]",
            json!(["GET /a?secret=1 HTTP/1.1", "secret"]),
            0,
        ),
        (
            "KEEP",
            "[\"host\", \"request\", \"path\"]",
            json!(["GET /a?secret=1 HTTP/1.1", "secret"]),
            1,
        ),
        ("DROP", "[\"query\"]", json!(["GET /a HTTP/1.1", null]), 1),
        (
            "DROP",
            "[\"host\"]",
            json!(["GET /a?secret=1 HTTP/1.1", "secret"]),
            1,
        ),
    ];
    for (what, names, requests, paths) in cases {
        let home = Home::new();
        let log = home.file("access.log", &lines);
        let variable = format!("LOGMILL_STREAM__ACCESS__{what}");
        let args = ["import", &log, "--stream", "access", "--data", &home.data];
        finish(command().args(args).env(variable, names), &[]).code(0);
        let rows = home.sql("SELECT request, path, time FROM access ORDER BY _seq");
        let found: Vec<&Value> = rows.iter().map(|row| &row["request"]).collect();
        assert_eq!(json!(found), requests, "{what} {names}");
        assert_eq!(
            rows.iter().filter(|row| !row["path"].is_null()).count(),
            paths
        );
        assert_eq!(rows[0]["time"], "2024-03-01T00:00:00Z");
        let verified = run(&["rollup", "verify", "--data", &home.data]).code(0);
        assert!(!verified.stdout.is_empty());
    }
}

/// The server's own configuration decides what it stores; the importing client's does not.
#[test]
fn an_import_through_a_server_keeps_what_the_server_is_told_to() {
    let lines = line("10.0.0.1", 1_709_251_200, "/a?secret=1", 200, 5);
    for (what, names, wanted) in [
        ("KEEP", "[\"host\"]", json!({ "host": "10.0.0.1" })),
        ("KEEP", "[\"query\"]", json!({ "query": "secret=1" })),
    ] {
        let home = Home::new();
        let log = home.file("access.log", &lines);
        let variable = format!("LOGMILL_STREAM__ACCESS__{what}");
        let raw = ("LOGMILL_STREAM__ACCESS__RAW_LINE", "true");
        let server = Server::start_with(&home.data, &[(&variable, names), raw]);
        let args = [
            "import",
            &log,
            "--stream",
            "access",
            "--server",
            &server.url,
        ];
        // The client's configuration would drop it.
        let mut import = command();
        import.args(args).env("LOGMILL_STREAM__ACCESS__DROP", names);
        finish(&mut import, &[]).code(0);
        let rows = server.sql("SELECT * FROM access");
        let row = rows[0].as_object().expect("a row");
        for name in ["host", "query", "path", "user_agent", "request"] {
            let found = row.get(name).unwrap_or(&Value::Null);
            assert_eq!(found, &wanted[name], "{what} {names}: {name}");
        }
        assert_eq!(row["raw_line"], lines.trim_end(), "{names}");
    }
}

#[test]
fn a_selection_that_cannot_be_meant_is_refused() {
    let told = |variables: &[(&str, &str)]| {
        let mut show = command();
        show.args(["config", "show"])
            .envs(variables.iter().copied());
        finish(&mut show, &[]).code(78).stderr
    };
    let keep = ("LOGMILL_STREAM__WEB__KEEP", "[\"host\", \"pth\"]");
    let format = ("LOGMILL_STREAM__WEB__FORMAT", "combined");
    let unknown = told(&[keep, format]);
    assert!(
        unknown.contains("no field \"pth\"") && unknown.contains("user_agent"),
        "{unknown}"
    );
    let both = told(&[keep, ("LOGMILL_STREAM__WEB__DROP", "[\"query\"]")]);
    assert!(both.contains("both keep and drop"), "{both}");
    // The stream is found to be an access log by `auto`.
    let home = Home::new();
    let server = Server::start_with(&home.data, &[keep]);
    let lines = line("10.0.0.1", 1_709_251_200, "/", 200, 5);
    let answer = server
        .post("/api/v1/ingest/web", &[], lines.as_bytes())
        .status(400);
    assert!(answer.text().contains("no field"), "{}", answer.text());
}

#[test]
fn a_document_without_a_time_takes_that_of_its_object_id() {
    let home = Home::new();
    let server = Server::start(&home.data);
    let documents = "{\"_id\":{\"$oid\":\"507F1F77bcf86cd799439011\"},\"n\":1}\n\
                     {\"_id\":\"507f1f77bcf86cd799439012\",\"n\":2,\"time\":\"2020-01-01T00:00:00Z\"}\n{\"n\":3}";
    server.ingest("docs?format=json", documents);
    for _ in 0..2 {
        let rows = server.sql("SELECT _id, time, time_source, n FROM docs ORDER BY n");
        let wanted = json!({
            "_id": "507f1f77bcf86cd799439011", "time": "2012-10-17T21:13:27Z", "time_source": "objectid", "n": 1,
        });
        assert_eq!(rows[0], wanted);
        let own = (&rows[1]["time"], &rows[1]["time_source"]);
        assert_eq!(own, (&json!("2020-01-01T00:00:00Z"), &Value::Null));
        assert_eq!(rows[2]["time_source"], "received");
        server.seal();
    }
}
