use arrow::array::{
    Array, AsArray, BinaryArray, Date32Array, Decimal128Array, Int16Array, ListArray, NullArray,
    StringArray, Time32SecondArray, TimestampMicrosecondArray,
};
use arrow::datatypes::{Float64Type, Int32Type, TimestampNanosecondType};

use super::*;

/// Returns a column as a client of InfluxDB gets it.
fn influx(column: ArrayRef) -> ArrayRef {
    let field = Field::new("c", column.data_type().clone(), false);
    let schema = Arc::new(Schema::new(vec![field]));
    let described = Dialect::Influx.described(&schema);
    converted(&column, schema.field(0), described.field(0).data_type()).expect("it is converted")
}

#[test]
fn times_are_nanoseconds_and_those_beyond_are_null() {
    let times = vec![Some(1_700_000_000_000_001), Some(-1), Some(i64::MAX), None];
    let column = influx(Arc::new(
        TimestampMicrosecondArray::from(times).with_timezone("UTC"),
    ));
    let found = column.as_primitive::<TimestampNanosecondType>();
    let found: Vec<Option<i64>> = found.iter().collect();
    assert_eq!(
        found,
        [Some(1_700_000_000_000_001_000), Some(-1000), None, None]
    );
    let days = influx(Arc::new(Date32Array::from(vec![1])));
    let days = days.as_primitive::<TimestampNanosecondType>();
    assert_eq!(days.value(0), 86_400_000_000_000);
}

#[test]
fn types_that_a_frame_does_not_know_become_numbers_and_texts() {
    let decimals = Decimal128Array::from(vec![150]).with_precision_and_scale(9, 2);
    let number = influx(Arc::new(decimals.expect("it fits")));
    assert_eq!(number.as_primitive::<Float64Type>().value(0), 1.5);
    let list = ListArray::from_iter_primitive::<Int32Type, _, _>([Some([Some(1), None])]);
    let texts: [(ArrayRef, Option<&str>); 5] = [
        (Arc::new(list), Some("[1,null]")),
        (
            Arc::new(BinaryArray::from(vec![b"ab".as_slice()])),
            Some("\"YWI=\""),
        ),
        (
            Arc::new(Time32SecondArray::from(vec![3661])),
            Some("01:01:01"),
        ),
        (Arc::new(NullArray::new(1)), None),
        (Arc::new(StringArray::from(vec!["a\"b"])), Some("a\"b")),
    ];
    for (column, text) in texts {
        let shown = influx(column);
        let shown = shown.as_string::<i32>();
        assert_eq!(shown.is_valid(0).then(|| shown.value(0)), text);
    }
    let kept: ArrayRef = Arc::new(Int16Array::from(vec![404]));
    assert_eq!(influx(Arc::clone(&kept)).data_type(), kept.data_type());
}

#[test]
fn other_clients_get_the_types_of_the_answer() {
    let zone = Some("UTC".into());
    let field = Field::new(
        "time",
        DataType::Timestamp(TimeUnit::Microsecond, zone),
        false,
    );
    let schema = Arc::new(Schema::new(vec![field]));
    let described = Dialect::FlightSql.described(&schema);
    assert_eq!(described.field(0).data_type(), schema.field(0).data_type());
    assert_eq!(Dialect::of(&HeaderMap::new()), Dialect::FlightSql);
    let headers = HeaderMap::from_iter([(
        axum::http::HeaderName::from_static(DATABASE_HEADER),
        axum::http::HeaderValue::from_static("logmill"),
    )]);
    assert_eq!(Dialect::of(&headers), Dialect::Influx);
}
