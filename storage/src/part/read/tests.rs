//! Texts of parts are verified, or the part is refused.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema};
use bytes::Bytes;
use parquet::arrow::{ARROW_SCHEMA_META_KEY, encode_arrow_schema};
use parquet::basic::{ConvertedType, LogicalType};
use parquet::data_type::{ByteArray, ByteArrayType};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type as SchemaType;

use super::*;

/// Returns a file with one column of bytes that are no UTF-8.
fn file(
    annotated: (Option<LogicalType>, ConvertedType),
    arrow: Option<DataType>,
    value: &[u8],
) -> Bytes {
    let column = SchemaType::primitive_type_builder("host", Type::BYTE_ARRAY)
        .with_logical_type(annotated.0)
        .with_converted_type(annotated.1);
    let column = Arc::new(column.build().expect("a column"));
    let root = SchemaType::group_type_builder("part").with_fields(vec![column]);
    let hint = arrow.map(|of| {
        let schema = Schema::new(vec![Field::new("host", of, true)]);
        KeyValue::new(
            ARROW_SCHEMA_META_KEY.to_owned(),
            Some(encode_arrow_schema(&schema)),
        )
    });
    let properties = WriterProperties::builder()
        .set_key_value_metadata(hint.map(|hint| vec![hint]))
        .build();
    let root = Arc::new(root.build().expect("a schema"));
    let mut bytes = Vec::new();
    let mut writer = SerializedFileWriter::new(&mut bytes, root, Arc::new(properties));
    let written = writer.as_mut().expect("a writer");
    let mut rows = written.next_row_group().expect("a row group");
    let mut column = rows.next_column().expect("no error").expect("a column");
    let values = [ByteArray::from(value.to_vec())];
    let typed = column.typed::<ByteArrayType>();
    typed.write_batch(&values, Some(&[1]), None).expect("a row");
    column.close().expect("closed");
    rows.close().expect("closed");
    writer.expect("a writer").close().expect("closed");
    bytes.into()
}

#[test]
fn texts_that_the_reader_would_not_verify_are_refused() {
    let json = (Some(LogicalType::Json), ConvertedType::JSON);
    let none = (None, ConvertedType::NONE);
    let bson = (None, ConvertedType::BSON);
    let view = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8View));
    for (annotated, arrow) in [
        (json.clone(), None),
        (json, Some(DataType::Utf8View)),
        ((None, ConvertedType::JSON), None),
        (none.clone(), Some(DataType::Utf8)),
        (none.clone(), Some(DataType::LargeUtf8)),
        (none.clone(), Some(DataType::Utf8View)),
        (none.clone(), Some(view)),
        (bson, Some(DataType::Utf8)),
    ] {
        for value in [b"a\xff".as_slice(), b"a"] {
            let file = file(annotated.clone(), arrow.clone(), value);
            let error = read_part(file.clone(), None).expect_err("not verified");
            assert!(error.to_string().contains("\"host\""), "{error}");
            assert!(read_schema(file).is_err());
        }
    }
    let text = (Some(LogicalType::String), ConvertedType::UTF8);
    for (annotated, arrow, value, is_read) in [
        (text.clone(), None, b"a".as_slice(), true),
        (text.clone(), Some(DataType::Utf8View), b"a", true),
        (text, None, b"a\xff", false),
        (none.clone(), None, b"a\xff", true),
        (none, Some(DataType::Binary), b"a\xff", true),
    ] {
        let file = file(annotated, arrow, value);
        assert_eq!(read_part(file, None).is_ok(), is_read);
    }
}
