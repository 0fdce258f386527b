use super::fuzzing::sql_hints;
use super::text::{Hint, parse};
use crate::tests::replay::replay;

#[test]
fn hints_are_refused_or_read_again() {
    replay("sql_hints", sql_hints);
}

#[test]
fn a_hint_without_the_name_of_a_column_is_refused() {
    let columns = ["host", "a.b"].map(str::to_owned).to_vec();
    assert_eq!(
        parse("index(host, \"a.b\")"),
        Ok(vec![Hint::Index(columns)])
    );
    for wrong in ["index()", "index(\"\")", "order(host, \"\")", "order(,)"] {
        let why = parse(wrong).expect_err(wrong);
        assert!(why.contains("unknown hint"), "{why}");
    }
}
