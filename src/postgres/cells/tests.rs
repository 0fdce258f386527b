use bytes::BytesMut;
use chrono_tz::Tz;

use super::*;
use crate::postgres::cells::numeric;

fn text(array: ArrayRef, zone: Tz) -> Vec<String> {
    let field = Field::new("a", array.data_type().clone(), true);
    let cells = Cells::of(&field, &array).expect("values");
    let value = |row| {
        let mut out = BytesMut::new();
        cells.text(row, zone, &mut out);
        String::from_utf8(out.to_vec()).expect("text")
    };
    (0..array.len()).map(value).collect()
}

#[test]
fn floats_have_the_digits_that_postgresql_writes() {
    // `SELECT 0.1::float8`, … of PostgreSQL 15.
    let cases = [
        (0.1, "0.1"),
        (100_000.0, "100000"),
        (123_456_789_012_345.0, "123456789012345"),
        (1e15, "1e+15"),
        (1.5e300, "1.5e+300"),
        (0.0001, "0.0001"),
        (0.00001, "1e-05"),
        (-0.0, "-0"),
        (f64::NAN, "NaN"),
        (f64::NEG_INFINITY, "-Infinity"),
    ];
    let values: Vec<f64> = cases.iter().map(|(value, _)| *value).collect();
    let texts: Vec<&str> = cases.iter().map(|(_, text)| *text).collect();
    assert_eq!(text(Arc::new(Float64Array::from(values)), Tz::UTC), texts);
    let singles = Arc::new(Float32Array::from(vec![0.1, 1e6, 123_456.0]));
    assert_eq!(text(singles, Tz::UTC), ["0.1", "1e+06", "123456"]);
}

#[test]
fn timestamps_have_the_zone_of_the_session_and_no_zeros_at_the_end() {
    let micros = vec![0, 1_782_907_200_120_000, -1, -62_198_755_200_000_000];
    let zoned = TimestampMicrosecondArray::from(micros.clone()).with_timezone("UTC");
    assert_eq!(
        text(Arc::new(zoned.clone()), Tz::UTC),
        [
            "1970-01-01 00:00:00+00",
            "2026-07-01 12:00:00.12+00",
            "1969-12-31 23:59:59.999999+00",
            "0002-01-01 00:00:00+00 BC",
        ]
    );
    let berlin = text(Arc::new(zoned.clone()), Tz::named("Europe/Berlin"));
    assert_eq!(
        berlin[..2],
        ["1970-01-01 01:00:00+01", "2026-07-01 14:00:00.12+02"]
    );
    let kolkata = text(Arc::new(zoned), Tz::named("Asia/Kolkata"));
    assert_eq!(kolkata[0], "1970-01-01 05:30:00+05:30");
    let plain = Arc::new(TimestampMicrosecondArray::from(micros));
    assert_eq!(
        text(plain, Tz::named("Asia/Kolkata"))[0],
        "1970-01-01 00:00:00"
    );
    let nanos = Arc::new(TimestampNanosecondArray::from(vec![-1]));
    assert_eq!(text(nanos, Tz::UTC), ["1969-12-31 23:59:59.999999"]);
}

#[test]
fn dates_times_and_intervals_are_written_in_the_iso_style() {
    let days = Arc::new(Date32Array::from(vec![0, 20_000, i32::MAX]));
    assert_eq!(
        text(days, Tz::UTC),
        ["1970-01-01", "2024-10-04", "infinity"]
    );
    let times = Arc::new(Time64MicrosecondArray::from(vec![86_399_000_001]));
    assert_eq!(text(times, Tz::UTC), ["23:59:59.000001"]);
    use arrow::datatypes::IntervalMonthDayNano as Interval;
    let intervals = IntervalMonthDayNanoArray::from(vec![
        Interval::new(0, 0, 0),
        Interval::new(14, -3, 3_600_500_000_000),
        Interval::new(0, 1, 0),
        Interval::new(0, 0, -1_500_000_000),
    ]);
    assert_eq!(
        text(Arc::new(intervals), Tz::UTC),
        [
            "00:00:00",
            "1 year 2 mons -3 days +01:00:00.5",
            "1 day",
            "-00:00:01.5",
        ]
    );
}

#[test]
fn lists_are_arrays_with_quotes_where_they_must_be() {
    let mut list = arrow::array::ListBuilder::new(arrow::array::StringBuilder::new());
    list.append_value([
        Some("a"),
        None,
        Some("b c"),
        Some(""),
        Some("null"),
        Some("\"\\"),
    ]);
    list.append_value(Vec::<Option<&str>>::new());
    let list: ArrayRef = Arc::new(list.finish());
    assert_eq!(
        text(Arc::clone(&list), Tz::UTC),
        [r#"{a,NULL,"b c","","null","\"\\"}"#, "{}"]
    );
    let field = Field::new("a", list.data_type().clone(), true);
    let cells = Cells::of(&field, &list).expect("values");
    let mut out = BytesMut::new();
    cells.binary(1, &mut out);
    assert_eq!(&out[..], b"\0\0\0\0\0\0\0\0\0\0\0\x19");
}

#[test]
fn a_number_survives_its_binary_form() {
    // The first two are those of PostgreSQL 15's `numeric_send`.
    let sent = |text: &str| {
        let mut out = BytesMut::new();
        numeric::put(text, &mut out);
        out.to_vec()
    };
    assert_eq!(
        sent("12345.678"),
        [0, 3, 0, 1, 0, 0, 0, 3, 0, 1, 9, 41, 26, 124]
    );
    assert_eq!(sent("-0.0001"), [0, 1, 255, 255, 64, 0, 0, 4, 0, 1]);
    for text in [
        "0",
        "0.00",
        "1",
        "-1",
        "9999",
        "10000",
        "100000000",
        "0.5",
        "0.00005",
        "123.4500",
        "18446744073709551615",
        "-99999999999999999999999999999999.999999",
    ] {
        assert_eq!(numeric::read(&sent(text)).as_deref(), Some(text));
    }
    for wrong in [
        &b""[..],
        &[0; 7],
        &[0, 1, 0, 0, 0, 0, 0, 0],
        &[0, 1, 0, 0, 0, 0, 0, 0, 255, 255],
    ] {
        assert_eq!(numeric::read(wrong), None);
    }
}
