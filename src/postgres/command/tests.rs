use super::*;
use crate::postgres::copy::CopyForm;

#[track_caller]
fn read(text: &str) -> Command {
    Command::read(text).unwrap_or_else(|e| panic!("{text}: {e:?}"))
}

fn set(name: &str, value: Option<&str>) -> Command {
    Command::Set {
        name: name.to_owned(),
        value: value.map(str::to_owned),
        is_local: false,
    }
}

#[test]
fn settings_are_read_in_every_form() {
    assert_eq!(read("SET a = 5"), set("a", Some("5")));
    assert_eq!(read("set session a to 'x y'"), set("a", Some("x y")));
    assert_eq!(
        read("SET search_path TO \"Stats\", public"),
        set("search_path", Some("\"Stats\", public"))
    );
    assert_eq!(
        read("SET TIME ZONE 'Europe/Berlin'"),
        set("timezone", Some("Europe/Berlin"))
    );
    assert_eq!(read("SET TIME ZONE -3"), set("timezone", Some("-3")));
    assert_eq!(
        read("SET NAMES 'UTF8'"),
        set("client_encoding", Some("UTF8"))
    );
    assert_eq!(read("SET my.own = on"), set("my.own", Some("on")));
    assert_eq!(read("SET a TO DEFAULT"), set("a", None));
    assert!(matches!(
        read("SET LOCAL a = 1"),
        Command::Set { is_local: true, .. }
    ));
    assert_eq!(
        read("SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY"),
        Command::Nothing("SET")
    );
    assert_eq!(
        read("SHOW TimeZone"),
        Command::Show(Some("timezone".into()))
    );
    assert_eq!(
        read("SHOW TRANSACTION ISOLATION LEVEL"),
        Command::Show(Some("transaction_isolation".into()))
    );
    assert_eq!(read("SHOW ALL"), Command::Show(None));
    assert_eq!(read("SHOW TABLES"), Command::Query("SHOW TABLES".into()));
    assert_eq!(read("RESET ALL"), Command::Reset(None));
    for wrong in [
        "SET",
        "SET a",
        "SET a =",
        "SET a = (1)",
        "SET a = 1 2",
        "SHOW",
        "SHOW a b",
    ] {
        assert_eq!(
            Command::read(wrong).expect_err("refused").code,
            "42601",
            "{wrong}"
        );
    }
}

#[test]
fn transactions_are_read_with_their_options() {
    assert_eq!(read("BEGIN ISOLATION LEVEL READ COMMITTED"), Command::Begin);
    assert_eq!(read("/* a */ start transaction read only"), Command::Begin);
    assert_eq!(read("END"), Command::Commit);
    assert_eq!(read("ROLLBACK WORK"), Command::Rollback);
    assert_eq!(
        read("ROLLBACK TO SAVEPOINT a"),
        Command::Nothing("ROLLBACK")
    );
    assert_eq!(read("SAVEPOINT a"), Command::Nothing("SAVEPOINT"));
}

#[test]
fn the_query_of_a_cursor_keeps_its_hints() {
    let query = "SELECT /*+ no_index */ ')' FROM access";
    assert_eq!(
        read(&format!(
            "DECLARE \"C 1\" NO SCROLL CURSOR WITH HOLD FOR {query}"
        )),
        Command::Declare {
            cursor: "C 1".into(),
            query: query.into(),
            stays: true
        }
    );
    let fetch = |rows, is_move| Command::Fetch {
        cursor: "c".into(),
        rows,
        is_move,
    };
    assert_eq!(read("FETCH FORWARD 100 FROM c"), fetch(Some(100), false));
    assert_eq!(read("FETCH 5 IN c"), fetch(Some(5), false));
    assert_eq!(read("FETCH ALL FROM c"), fetch(None, false));
    assert_eq!(read("FETCH NEXT FROM c"), fetch(Some(1), false));
    assert_eq!(read("FETCH c"), fetch(Some(1), false));
    assert_eq!(read("MOVE FORWARD ALL IN c"), fetch(None, true));
    assert_eq!(read("CLOSE ALL"), Command::CloseCursor(None));
    assert_eq!(
        Command::read("FETCH PRIOR FROM c")
            .expect_err("refused")
            .code,
        "0A000"
    );
    assert_eq!(
        read("PREPARE p (int, numeric(3, 1)) AS SELECT $1"),
        Command::Prepare {
            statement: "p".into(),
            sql: "SELECT $1".into()
        }
    );
    let values = ["-1", "it's", "true", "2026-11-02"].map(|text| Some(text.to_owned()));
    assert_eq!(
        read("EXECUTE p (-1, 'it''s', NULL, TRUE, timestamp '2026-11-02'::timestamptz(3))"),
        Command::Execute {
            statement: "p".into(),
            values: vec![
                values[0].clone(),
                values[1].clone(),
                None,
                values[2].clone(),
                values[3].clone()
            ],
        }
    );
    assert!(Command::read("EXECUTE p (1 + 1)").is_err());
}

#[test]
fn copies_are_read_in_both_forms() {
    let copy = |text: &str| match read(text) {
        Command::Copy { query, options } => (query, options),
        other => panic!("{other:?}"),
    };
    let (query, options) = copy("COPY (SELECT a, (b) FROM t WHERE c = ')') TO STDOUT");
    assert_eq!(query, "SELECT a, (b) FROM t WHERE c = ')'");
    assert_eq!(options, CopyOptions::default());
    let (query, options) = copy(
        "copy stats.\"hourly\" (bucket, hits) to stdout with (format csv, header, delimiter ';')",
    );
    assert_eq!(query, "SELECT bucket, hits FROM stats.\"hourly\"");
    assert!(options.has_header && options.form == CopyForm::Csv);
    assert_eq!(options.delimiter.as_deref(), Some(";"));
    assert_eq!(
        copy("COPY t TO STDOUT CSV HEADER DELIMITER AS ';'").1,
        options
    );
    assert_eq!(
        Command::read("COPY t FROM STDIN")
            .expect_err("refused")
            .code,
        "25006"
    );
    assert_eq!(
        Command::read("COPY t TO '/tmp/x'")
            .expect_err("refused")
            .code,
        "0A000"
    );
    assert_eq!(
        Command::read("COPY (SELECT 1 TO STDOUT")
            .expect_err("refused")
            .code,
        "42601"
    );
}

#[test]
fn other_statements_are_queries_as_they_stand() {
    for text in [
        "SELECT 1",
        "  (SELECT 1)",
        "WITH a AS (SELECT 1) SELECT * FROM a",
        "EXPLAIN SELECT 1",
        "INSERT INTO a VALUES (1)",
        "",
    ] {
        assert_eq!(read(text), Command::Query(text.to_owned()));
    }
}
