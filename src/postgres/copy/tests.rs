use arrow::array::{ArrayRef, Int64Array, StringArray};
use arrow::datatypes::{DataType, Field};
use std::sync::Arc;

use super::*;

fn columns(texts: &[Option<&str>]) -> Vec<Cells> {
    let text: ArrayRef = Arc::new(StringArray::from(texts.to_vec()));
    let number: ArrayRef = Arc::new(Int64Array::from(vec![7; texts.len()]));
    let cells = |of, array| Cells::of(&Field::new("a", of, true), array).expect("values");
    vec![
        cells(DataType::Utf8, &text),
        cells(DataType::Int64, &number),
    ]
}

/// Returns the data of a row, after the head of its message.
fn row(options: &CopyOptions, text: Option<&str>) -> Vec<u8> {
    options.check().expect("options");
    let mut out = BytesMut::new();
    let mut copy = CopyOut::begin(&mut BytesMut::new(), options, &["a", "b"]);
    copy.put_row(&mut out, &columns(&[text]), 0, Tz::UTC);
    out[5..].to_vec()
}

#[test]
fn a_text_is_written_so_that_a_line_is_a_row() {
    let options = CopyOptions::default();
    let written = row(&options, Some("a\tb\nc\\d\r"));
    assert_eq!(written, b"a\\tb\\nc\\\\d\\r\t7\n");
    assert_eq!(row(&options, None), b"\\N\t7\n");
    assert_eq!(row(&options, Some("\\N")), b"\\\\N\t7\n");
    let bar = CopyOptions {
        delimiter: Some("|".into()),
        ..options
    };
    assert_eq!(row(&bar, Some("a|b")), b"a\\|b|7\n");
}

#[test]
fn a_field_of_csv_is_quoted_where_it_must_be() {
    let options = CopyOptions {
        form: CopyForm::Csv,
        ..CopyOptions::default()
    };
    assert_eq!(row(&options, Some("a b")), b"a b,7\n");
    assert_eq!(row(&options, Some("a,\"b\"\n")), b"\"a,\"\"b\"\"\n\",7\n");
    assert_eq!(row(&options, None), b",7\n");
    assert_eq!(row(&options, Some("")), b"\"\",7\n");
    let other = CopyOptions {
        escape: Some("\\".into()),
        null: Some("NULL".into()),
        quotes_all: true,
        ..options
    };
    assert_eq!(row(&other, Some("a\\\"")), b"\"a\\\\\\\"\",\"7\"\n");
    assert_eq!(row(&other, None), b"NULL,\"7\"\n");
}

#[test]
fn binary_data_has_a_head_counted_values_and_an_end() {
    let options = CopyOptions {
        form: CopyForm::Binary,
        ..CopyOptions::default()
    };
    let mut out = BytesMut::new();
    let mut copy = CopyOut::begin(&mut out, &options, &["a", "b"]);
    assert_eq!(&out[..], b"H\0\0\0\x0b\x01\0\x02\0\x01\0\x01");
    out.clear();
    let columns = columns(&[Some("x"), None]);
    copy.put_row(&mut out, &columns, 0, Tz::UTC);
    assert_eq!(&out[..16], b"d\0\0\0\x2aPGCOPY\n\xff\r\n\0");
    let values = b"\0\0\0\0\0\0\0\0\0\x02\0\0\0\x01x\0\0\0\x08\0\0\0\0\0\0\0\x07";
    assert_eq!(&out[16..], values);
    out.clear();
    copy.put_row(&mut out, &columns, 1, Tz::UTC);
    assert_eq!(&out[..11], b"d\0\0\0\x16\0\x02\xff\xff\xff\xff");
    out.clear();
    copy.end(&mut out);
    assert_eq!(&out[..], b"d\0\0\0\x06\xff\xffc\0\0\0\x04");
    out.clear();
    CopyOut::begin(&mut BytesMut::new(), &options, &["a"]).end(&mut out);
    assert_eq!(&out[..5], b"d\0\0\0\x19");
}

#[test]
fn options_that_do_not_fit_are_refused() {
    let text = |option: &str| Some(option.to_owned());
    let csv = CopyOptions {
        form: CopyForm::Csv,
        ..CopyOptions::default()
    };
    let binary = CopyOptions {
        form: CopyForm::Binary,
        ..CopyOptions::default()
    };
    for wrong in [
        CopyOptions {
            delimiter: text("ab"),
            ..CopyOptions::default()
        },
        CopyOptions {
            delimiter: text("a"),
            ..CopyOptions::default()
        },
        CopyOptions {
            quote: text("'"),
            ..CopyOptions::default()
        },
        CopyOptions {
            delimiter: text("\""),
            ..csv.clone()
        },
        CopyOptions {
            null: text("a,b"),
            ..csv
        },
        CopyOptions {
            has_header: true,
            ..binary
        },
    ] {
        assert!(wrong.check().is_err(), "{wrong:?}");
    }
}
