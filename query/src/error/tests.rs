//! The type of an error decides its kind, and its message uses the words of SQL.

use datafusion::common::{exec_datafusion_err, internal_datafusion_err, plan_datafusion_err};

use super::wording::in_sql_words;
use super::*;
use crate::NoSystemInfo;
use crate::tests::support::Fixture;

async fn refused(sql: &str) -> Error {
    let fixture = Fixture::without_rollups();
    let system = Arc::new(NoSystemInfo);
    let answer = fixture
        .engine
        .sql(fixture.store.snapshot(), system, sql, None)
        .await;
    match answer {
        Ok(answer) => answer.collect().await.expect_err(sql),
        Err(error) => error,
    }
}

#[test]
fn a_text_in_an_error_does_not_say_what_it_is() {
    let kind = |error| Error::of(error, Vec::new).kind();
    for text in ["BUG", "Internal error: BUG", "regex parse error: x"] {
        assert_eq!(
            kind(exec_datafusion_err!("cannot take {text}")),
            Kind::Invalid
        );
        assert_eq!(
            kind(plan_datafusion_err!("cannot take {text}")),
            Kind::Invalid
        );
    }
    assert_eq!(kind(internal_datafusion_err!("cannot be")), Kind::Internal);
    let evaluated = |cause: &DataFusionError| {
        let text = format!("Error evaluating filter predicate: {cause:?}");
        DataFusionError::External(text.into())
    };
    let cause = exec_datafusion_err!("not a number: 'BUG Internal(x)'");
    assert_eq!(kind(evaluated(&cause)), Kind::Invalid);
    let cause = internal_datafusion_err!("cannot be");
    assert_eq!(kind(evaluated(&cause)), Kind::Internal);
}

#[tokio::test]
async fn a_users_own_text_is_no_fault_of_the_program() {
    for sql in [
        "SELECT CAST('BUG' AS INT)",
        "SELECT CAST(value || 'BUG' AS INT) FROM (SELECT 'x' AS value)",
    ] {
        let error = refused(sql).await;
        assert_eq!(error.kind(), Kind::Invalid, "{sql}: {error}");
    }
}

#[test]
fn a_fault_of_the_program_is_reported_to_us() {
    let error = Error::of(internal_datafusion_err!("a plan is none"), Vec::new);
    let said = error.to_string();
    assert!(
        said.contains("a plan is none") && said.contains("a fault of Logmill"),
        "{said}"
    );
    assert!(
        !said.contains("DataFusion") && !said.contains("issue tracker"),
        "{said}"
    );
}

#[tokio::test]
async fn types_and_settings_of_the_engine_are_not_named() {
    for (sql, says) in [
        (
            "SELECT abs_(1), Host FROM (SELECT 1 AS \"Host\")",
            "there is",
        ),
        (
            "SELECT host FROM (SELECT 1 AS \"Host\")",
            "there is no column host",
        ),
        ("SELECT sum(arrow_cast('a', 'Utf8View'))", ""),
        ("SELECT date_trunc('day', 'x' || 1, 2)", ""),
    ] {
        let error = refused(sql).await;
        let said = error.to_string();
        assert!(said.contains(says) || says == "there is", "{sql}: {said}");
        for word in ["Utf8", "datafusion.", "Int64", "DataFusion"] {
            let unquoted = said.replace("'Utf8View'", "");
            assert!(!unquoted.contains(word), "{sql}: {said}");
        }
    }
}

#[test]
fn types_are_named_as_in_sql_where_they_are_words() {
    for (text, says) in [
        ("sum of Utf8View and Int64", "sum of text and bigint"),
        (
            "'Utf8View' and \"Int8\" stay",
            "'Utf8View' and \"Int8\" stay",
        ),
        ("MyInt64 and Int64s stay", "MyInt64 and Int64s stay"),
        (
            "List(Utf8), Timestamp(µs, \"UTC\")",
            "List(text), timestamp",
        ),
        ("é Int16", "é smallint"),
    ] {
        assert_eq!(in_sql_words(text), says);
    }
}

#[tokio::test]
async fn a_hint_is_said_once() {
    for (sql, hints) in [
        (
            "SELECT statuz FROM (SELECT 1 AS status)",
            "did you mean status?",
        ),
        ("SELECT x FROM (SELECT 1 AS status)", "columns: status"),
        ("SELECT * FROM nothing", ""),
    ] {
        let error = refused(sql).await;
        let said = error.to_string();
        let hint = error.hint().unwrap_or_else(|| panic!("no hint: {said}"));
        assert!(hint.contains(hints), "{said}");
        assert_eq!(said.matches(hint).count(), 1, "{said}");
        let message = error.message();
        assert!(
            !message.contains(hint) && !message.contains("Did you mean"),
            "{message}"
        );
        assert!(!message.contains("logmill.public"), "{message}");
    }
}
