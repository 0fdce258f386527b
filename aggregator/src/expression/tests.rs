use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, BooleanArray, Float64Array, Int16Array, Int64Array, RecordBatch, StringArray,
};
use proptest::prelude::*;

use super::*;

/// Returns the canonical spelling of a condition; parsing it must return an equal condition.
fn spelled(text: &str) -> String {
    let read = Condition::parse(text).unwrap_or_else(|e| panic!("{e}"));
    let canonical = read.to_string();
    assert_eq!(
        Condition::parse(&canonical).as_ref(),
        Ok(&read),
        "{canonical}"
    );
    canonical
}

#[test]
fn a_condition_whose_spelling_could_not_be_read_again_is_refused() {
    let long = |terms: usize| vec!["a=1"; terms].join("or ");
    // Each term is written `a = 1 or `, three bytes more.
    let text = long(600);
    assert!(text.len() < 4_096);
    let why = Condition::parse(&text).expect_err("its spelling has 5,396 bytes");
    assert!(
        why.contains("canonical spelling has at most 4096 bytes"),
        "{why}"
    );
    assert_eq!(spelled(&long(400)).len(), 3_596);
}

#[test]
fn conditions_have_one_spelling() {
    for (text, canonical) in [
        ("status>=500", "status >= 500"),
        ("500 <= status", "status >= 500"),
        ("status == 500", "status = 500"),
        ("status != -5", "status <> -5"),
        (
            "STATUS = 5 And status = 6 AND x = 7",
            "STATUS = 5 and status = 6 and x = 7",
        ),
        ("a = 1 and (b = 2 and c = 3)", "a = 1 and b = 2 and c = 3"),
        ("a = 1 or b = 2 and c = 3", "a = 1 or b = 2 and c = 3"),
        ("(a = 1 or b = 2) and c = 3", "(a = 1 or b = 2) and c = 3"),
        ("not a = 1 and b = 2", "not a = 1 and b = 2"),
        ("not (a = 1 and b = 2)", "not (a = 1 and b = 2)"),
        ("not not (a is null)", "a is null"),
        ("a is not null", "not a is null"),
        ("a not in (1, 2.50, 'x')", "not a in (1, 2.5, 'x')"),
        ("a not like '%it''s%'", "not a like '%it''s%'"),
        ("x < 5.0 or x > 1e30", "x < 5.0 or x > 1e30"),
        (
            "\"user agent\" = 'ü' or \"or\" = 'a'",
            "\"user agent\" = 'ü' or \"or\" = 'a'",
        ),
        ("\"user\" = 'x' and a.b = 1", "user = 'x' and a.b = 1"),
        (
            "lower( path_prefix(path,1) )='/a'",
            "lower(path_prefix(path, 1)) = '/a'",
        ),
        ("(status / 100) % 3 = 2", "status / 100 % 3 = 2"),
        (
            "regexp_capture(path, '^/(\\w+)') = 'a'",
            "regexp_capture(path, '^/(\\w+)', 1) = 'a'",
        ),
        ("x = -9223372036854775808", "x = -9223372036854775808"),
    ] {
        assert_eq!(spelled(text), canonical, "{text}");
        assert_eq!(spelled(canonical), canonical);
    }
}

#[test]
fn errors_name_the_place() {
    for (text, error) in [
        (
            "",
            "a field or a literal is expected, not the end, at character 1 of \"\"",
        ),
        (
            "status",
            "a condition such as status >= 500 is expected at character 1",
        ),
        (
            "status >= status",
            "a number or text in single quotes is expected at character 11",
        ),
        (
            "1 = 2",
            "a field is expected, not a literal, at character 5",
        ),
        (
            "a = null",
            "a field or a literal is expected, not \"null\", at character 5",
        ),
        (
            "a = 1 b",
            "and, or, or the end is expected, not \"b\", at character 7",
        ),
        ("a = 1 = 2", "not \"=\", at character 7"),
        ("ü = 'x' and y § 5", "'ü' is not expected at character 1"),
        ("x = 'ü' and y § 5", "'§' is not expected at character 15"),
        ("a = 'open", "a quote is not closed at character 5"),
        ("(a = 1", "\")\" is expected, not the end, at character 7"),
        ("a not 5", "in or like is expected, not 5, at character 7"),
        ("a is 5", "null is expected, not 5, at character 6"),
        (
            "a in ()",
            "a field or a literal is expected, not \")\", at character 7",
        ),
        (
            "a like 5",
            "a pattern such as 'x%' is expected, not 5, at character 8",
        ),
        (
            "a / 0 = 1",
            "an integer other than 0 is expected at character 5",
        ),
        (
            "a / b = 1",
            "an integer other than 0 is expected at character 5",
        ),
        (
            "a = 9223372036854775808",
            "9223372036854775808 exceeds 64 bits at character 5",
        ),
        ("a = 1e999", "1e999 is not a number at character 5"),
        (
            "a = 1 and b",
            "a condition such as status >= 500 is expected at character 11",
        ),
        (
            "(a = 1) / 2 = 3",
            "a value is expected, not a condition, at character 1",
        ),
        (
            "sqrt(a) = 1",
            "sqrt is not a function; the functions are path_prefix",
        ),
        (
            "path_prefix(a, 'x') = ''",
            "a number of segments is expected, not the text \"x\", at character 16",
        ),
        ("regexp_capture(a, '(') = ''", "the pattern is invalid"),
        (
            "regexp_capture(a, 'x') = ''",
            "the pattern has 0 groups (…), so no group 1, at character 19",
        ),
        (
            "regexp_capture(a, '(x)', 2) = ''",
            "has 1 groups (…), so no group 2,",
        ),
        ("regexp_capture(a, '(\\w{500}){500}') = ''", "size limit"),
    ] {
        let found = Condition::parse(text).expect_err(text);
        assert!(found.contains(error), "{text}: {found}");
    }
    let found = Expression::parse("status >= 500").expect_err("no value");
    assert!(
        found.contains("a value is expected, not a condition,"),
        "{found}"
    );
    let deep = format!("{}a = 1{}", "(".repeat(40), ")".repeat(40));
    let found = Condition::parse(&deep).expect_err("too deep");
    assert!(found.contains("32 nested brackets"), "{found}");
    let long = format!("a = '{}'", "x".repeat(5_000));
    assert!(
        Condition::parse(&long)
            .expect_err("too long")
            .contains("4096 bytes")
    );
}

/// Returns columns of three rows: a usual value, an unusual one and null.
fn sample() -> RecordBatch {
    let columns: [(&str, ArrayRef); 6] = [
        (
            "status",
            Arc::new(Int16Array::from(vec![Some(503), Some(-7), None])),
        ),
        (
            "big",
            Arc::new(Int64Array::from(vec![Some(i64::MAX), Some(i64::MIN), None])),
        ),
        (
            "ms",
            Arc::new(Float64Array::from(vec![Some(0.5), Some(f64::NAN), None])),
        ),
        (
            "path",
            Arc::new(StringArray::from(vec![Some("/a/b/c"), Some("12.5"), None])),
        ),
        (
            "ok",
            Arc::new(BooleanArray::from(vec![Some(true), Some(false), None])),
        ),
        ("none", Arc::new(arrow::array::NullArray::new(3))),
    ];
    RecordBatch::try_from_iter(columns).expect("a batch")
}

/// Returns the result of a condition per row of [`sample`]: `t`, `f`, or `n` for null.
fn answers(text: &str) -> String {
    let condition = Condition::parse(text).unwrap_or_else(|e| panic!("{e}"));
    let answers = condition
        .of(&sample())
        .unwrap_or_else(|e| panic!("{text}: {e}"));
    answers
        .iter()
        .map(|answer| answer.map_or('n', |yes| if yes { 't' } else { 'f' }))
        .collect()
}

#[test]
fn each_type_is_compared_as_its_literal_says() {
    for (text, expected) in [
        ("status >= 500", "tfn"),
        ("status < 502.5", "ftn"),
        ("status in (1, -7)", "ftn"),
        ("status not in (1, -7)", "tfn"),
        ("status is null", "fft"),
        ("status is not null", "ttf"),
        ("status = '503'", "tfn"),
        ("status like '5%'", "tfn"),
        ("big = 9223372036854775807", "tfn"),
        ("big = 9223372036854775806", "ffn"),
        ("big / -1 = -9223372036854775807", "tnn"),
        ("status / 100 = 5", "tfn"),
        ("status / 2 = -3", "ftn"),
        ("status % 4 = -3", "ftn"),
        ("ms = 0.5", "tfn"),
        ("ms < 1", "tfn"),
        // As in SQL's WHERE, NaN is larger than any number.
        ("ms > 1", "ftn"),
        ("path like '/a%'", "tfn"),
        ("path like '/_/b_c'", "tfn"),
        ("path not like '/a%'", "ftn"),
        ("path > 12", "ntn"),
        ("path = '12.5'", "ftn"),
        ("path >= '/a'", "ttn"),
        ("path_prefix(path, 1) = '/a'", "tfn"),
        ("regexp_capture(path, '^/a/(.)') = 'b'", "tnn"),
        ("upper(path) = '/A/B/C'", "tfn"),
        ("ok = 1", "tfn"),
        ("ok = 'false'", "ftn"),
        ("none = 1", "nnn"),
        ("none is null", "ttt"),
        ("none like '%'", "nnn"),
        ("absent = 'x'", "nnn"),
        ("absent is null", "ttt"),
        ("absent / 2 is not null", "fff"),
        ("not absent in ('x', 'y')", "nnn"),
    ] {
        assert_eq!(answers(text), expected, "{text}");
    }
}

#[test]
fn null_is_neither_true_nor_false() {
    // On the first row of the sample: status = 503 is true, = 1 is false, absent = 1 is null.
    let (t, f, n) = ("status = 503", "status = 1", "absent = 1");
    for (left, right, and, or) in [
        (t, t, 't', 't'),
        (t, f, 'f', 't'),
        (t, n, 'n', 't'),
        (f, f, 'f', 'f'),
        (f, n, 'f', 'n'),
        (n, n, 'n', 'n'),
    ] {
        for (a, b) in [(left, right), (right, left)] {
            assert!(
                answers(&format!("{a} and {b}")).starts_with(and),
                "{a} and {b}"
            );
            assert!(
                answers(&format!("{a} or {b}")).starts_with(or),
                "{a} or {b}"
            );
        }
    }
    for (condition, not) in [(t, 'f'), (f, 't'), (n, 'n')] {
        assert!(answers(&format!("not {condition}")).starts_with(not));
        assert!(
            answers(&format!("not not {condition}")).starts_with(match not {
                'f' => 't',
                't' => 'f',
                same => same,
            })
        );
    }
}

#[test]
fn only_what_is_true_passes() {
    let condition = Condition::parse("status <> 503").expect("a condition");
    let passing = condition
        .passing(&[sample(), sample()], 6)
        .expect("answers");
    assert_eq!(passing, [false, true, false, false, true, false]);
}

#[test]
fn path_prefixes_end_before_a_slash() {
    let of = |path: &str, n: u16| {
        let column: ArrayRef = Arc::new(StringArray::from(vec![path]));
        let batch = RecordBatch::try_from_iter([("path", column)]).expect("a batch");
        let value = Expression::parse(&format!("path_prefix(path, {n})")).expect("a value");
        let array = value.of(&batch).expect("a column").expect("the field");
        as_text(&array).expect("text").value(0).to_owned()
    };
    for (path, prefixes) in [
        ("/a/b/c", ["/", "/a", "/a/b", "/a/b/c", "/a/b/c"]),
        ("/a", ["/", "/a", "/a", "/a", "/a"]),
        ("/a/", ["/", "/a", "/a/", "/a/", "/a/"]),
        ("/", ["/", "/", "/", "/", "/"]),
        ("//a", ["/", "/", "//a", "//a", "//a"]),
        ("a/b", ["", "a", "a/b", "a/b", "a/b"]),
        ("*", ["", "*", "*", "*", "*"]),
        ("", ["", "", "", "", ""]),
        ("/ü/ß", ["/", "/ü", "/ü/ß", "/ü/ß", "/ü/ß"]),
    ] {
        for (n, prefix) in prefixes.into_iter().enumerate() {
            assert_eq!(of(path, n as u16), prefix, "{path} {n}");
        }
    }
}

/// Returns a column of every type that a stream can have, with extreme values.
fn every_type() -> RecordBatch {
    use arrow::array::{BinaryArray, TimestampMicrosecondArray, UInt64Array};
    let ends = vec![Some(i64::MIN), Some(i64::MAX), None];
    let times = TimestampMicrosecondArray::from(ends.clone()).with_timezone("UTC");
    let bytes = BinaryArray::from_opt_vec(vec![Some(b"\xff'\0"), Some(b"503"), None]);
    let doubles = vec![Some(f64::NEG_INFINITY), Some(-0.0), None];
    let columns: [(&str, ArrayRef); 8] = [
        (
            "bool",
            Arc::new(BooleanArray::from(vec![Some(true), Some(false), None])),
        ),
        (
            "int16",
            Arc::new(Int16Array::from(vec![Some(i16::MIN), Some(0), None])),
        ),
        ("int64", Arc::new(Int64Array::from(ends))),
        ("float64", Arc::new(Float64Array::from(doubles))),
        (
            "text",
            Arc::new(StringArray::from(vec![Some("\n\\%"), Some(""), None])),
        ),
        ("binary", Arc::new(bytes)),
        ("instant", Arc::new(times)),
        (
            "uint64",
            Arc::new(UInt64Array::from(vec![Some(u64::MAX), Some(0), None])),
        ),
    ];
    RecordBatch::try_from_iter(columns).expect("a batch")
}

#[test]
fn no_column_makes_an_expression_fail() {
    let events = every_type();
    for field in events.schema().fields() {
        let name = field.name();
        assert!(storage::ColumnType::of(field.data_type()).is_some());
        for test in [
            "= 5",
            "<> 0.5",
            "< 'x'",
            "in (1, 0.5, 'x')",
            "is null",
            "like '%\\'",
            "like '\\%_'",
            "/ 7 = 1",
            "% -3 = 1",
        ] {
            let condition = Condition::parse(&format!("{name} {test}")).expect("a condition");
            let answers = condition
                .of(&events)
                .unwrap_or_else(|e| panic!("{name} {test}: {e}"));
            assert!(test == "is null" || answers.is_null(2), "{name} {test}");
        }
        for made in [
            "path_prefix({}, 2)",
            "regexp_capture({}, '(.)')",
            "lower({})",
            "upper({})",
        ] {
            let value = Expression::parse(&made.replace("{}", name)).expect("a value");
            let column = value
                .of(&events)
                .unwrap_or_else(|e| panic!("{name} {made}: {e}"));
            assert!(column.expect("the field").is_null(2), "{name} {made}");
        }
    }
}

/// Generates conditions, with names and texts that need quotes.
fn any_condition() -> impl Strategy<Value = Condition> {
    let name = prop_oneof![
        "[a-z_]{1,4}(\\.[a-z]{1,2})?",
        "[ -~ü]{1,5}",
        Just("Not".to_owned())
    ];
    let value = name
        .prop_map(Expression::Field)
        .prop_recursive(3, 4, 1, |inner| {
            let boxed = inner.prop_map(Box::new);
            prop_oneof![
                (boxed.clone(), any::<u16>()).prop_map(|(of, n)| Expression::PathPrefix(of, n)),
                (
                    proptest::sample::select(&TextFunction::ALL[..]),
                    boxed.clone()
                )
                    .prop_map(|(function, of)| Expression::Text(function, of)),
                (boxed.clone(), "[ -~ü]{0,5}")
                    .prop_map(|(of, name)| Expression::UrlParameter(of, name)),
                (boxed.clone(), 1..i64::MAX).prop_map(|(of, n)| Expression::Quotient(of, n)),
                (boxed.clone(), i64::MIN..0).prop_map(|(of, n)| Expression::Remainder(of, n)),
                (boxed, "[a-z']{0,3}\\([a-z']{0,3}\\)").prop_map(|(of, text)| {
                    Expression::Capture(of, Pattern::new(&text).expect("a pattern"), 1)
                }),
            ]
        });
    let literal = prop_oneof![
        any::<i64>().prop_map(Literal::Integer),
        any::<f64>()
            .prop_filter("finite", |v| v.is_finite())
            .prop_map(|v| Literal::Decimal(v.to_bits())),
        "[ -~ü]{0,5}".prop_map(Literal::Text),
    ];
    let operator = prop_oneof![
        Just(Operator::Equal),
        Just(Operator::Unequal),
        Just(Operator::Less),
        Just(Operator::LessOrEqual),
        Just(Operator::Greater),
        Just(Operator::GreaterOrEqual),
    ];
    let literals = prop::collection::vec(literal.clone(), 1..4);
    let leaf = prop_oneof![
        (value.clone(), operator, literal).prop_map(|(v, o, l)| Condition::Compare(v, o, l)),
        (value.clone(), literals).prop_map(|(v, l)| Condition::In(v, l)),
        (value.clone(), "[ -~ü]{0,5}").prop_map(|(v, p)| Condition::Like(v, p)),
        value.prop_map(Condition::IsNull),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        let flat = |of: fn(Vec<Condition>) -> Condition, all: Vec<Condition>| {
            let parts = all.into_iter().flat_map(|c| match (of(Vec::new()), c) {
                (Condition::And(_), Condition::And(inner)) => inner,
                (Condition::Or(_), Condition::Or(inner)) => inner,
                (_, other) => vec![other],
            });
            of(parts.collect())
        };
        let some = prop::collection::vec(inner.clone(), 2..4);
        prop_oneof![
            inner.prop_map(Condition::negated),
            some.clone().prop_map(move |all| flat(Condition::And, all)),
            some.prop_map(move |all| flat(Condition::Or, all)),
        ]
    })
}

proptest! {
    #[test]
    fn what_is_printed_is_read_back(condition in any_condition()) {
        let text = condition.to_string();
        prop_assert_eq!(Condition::parse(&text), Ok(condition), "{}", text);
    }

    #[test]
    fn any_text_is_read_or_refused(text in "[a-z0-9 '\"()=<>!,./%üé-]{0,40}") {
        if let Ok(condition) = Condition::parse(&text) {
            let canonical = condition.to_string();
            prop_assert_eq!(Condition::parse(&canonical), Ok(condition));
        }
    }
}
