//! Tests of the conditions on columns. Their answers are compared with documents end to end, in
//! `tests/it/mongo`.

use bson::{DateTime, doc};

use super::*;

fn condition(data_type: &DataType, filter: &bson::Document) -> Option<String> {
    let filter = Filter::parse(filter).unwrap();
    let conjuncts = filter.conjuncts();
    let test = owned(&conjuncts[0]);
    let condition = test.condition(&ident(test.path()), data_type)?;
    Some(condition.to_string())
}

#[test]
fn a_column_is_compared_with_values_of_its_type_alone() {
    let time = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
    let date = DateTime::from_millis(5);
    let text = DataType::Utf8View;
    for (data_type, filter, expected) in [
        (&text, doc! { "c": "x" }, Some("c = Utf8(\"x\")")),
        (&text, doc! { "c": 5 }, None),
        (&text, doc! { "c": null }, None),
        (&text, doc! { "c": { "$in": ["x", null] } }, None),
        (&DataType::Int64, doc! { "c": 5.0 }, Some("c = Int64(5)")),
        (&DataType::Int64, doc! { "c": 5.5 }, None),
        (
            &DataType::Float64,
            doc! { "c": 0 },
            Some("c BETWEEN Float64(-0) AND Float64(0)"),
        ),
        (&DataType::Float64, doc! { "c": f64::NAN }, None),
        (
            &DataType::Float64,
            doc! { "c": { "$lt": 2 } },
            Some("c < Float64(2)"),
        ),
        (
            &DataType::Boolean,
            doc! { "c": true },
            Some("c = Boolean(true)"),
        ),
    ] {
        assert_eq!(
            condition(data_type, &filter).as_deref(),
            expected,
            "{filter}"
        );
    }
    // A date stands for all microseconds of its millisecond.
    for (operator, expected) in [
        ("$gt", "c >= TimestampMicrosecond(6000, Some(\"UTC\"))"),
        ("$gte", "c >= TimestampMicrosecond(5000, Some(\"UTC\"))"),
        ("$lt", "c < TimestampMicrosecond(5000, Some(\"UTC\"))"),
        ("$lte", "c < TimestampMicrosecond(6000, Some(\"UTC\"))"),
    ] {
        let filter = doc! { "c": { operator: date } };
        assert_eq!(
            condition(&time, &filter).as_deref(),
            Some(expected),
            "{operator}"
        );
    }
}

#[test]
fn an_id_of_digits_is_no_text() {
    let hex = "507f1f77bcf86cd799439011";
    let id = bson::oid::ObjectId::parse_str(hex).unwrap();
    let text = DataType::Utf8View;
    let expected = format!("_id = Utf8(\"{hex}\")");
    assert_eq!(
        condition(&text, &doc! { "_id": id }).as_deref(),
        Some(&*expected)
    );
    assert_eq!(condition(&text, &doc! { "_id": hex }), None);
    assert_eq!(
        condition(&text, &doc! { "_id": "x" }).as_deref(),
        Some("_id = Utf8(\"x\")")
    );
}
