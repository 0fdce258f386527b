//! A slice has the same rows as a filter over all rows: for any pages and row groups, for any
//! order of rows, and with or without cached dictionaries.

use std::io::Cursor;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringViewArray, TimestampMicrosecondArray};
use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use object_store::ObjectMeta;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ArrowReaderOptions;
use parquet::arrow::async_reader::AsyncFileReader;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::metadata::PageIndexPolicy;
use parquet::file::properties::WriterProperties;
use proptest::prelude::*;
use storage::{IndexValue, TIME};

use super::dictionaries::Dictionaries;
use super::places::{SliceCondition, places};
use super::rows::Slice;
use crate::tables::stream::prune::TimeRange;

/// A row: the lookup column, its time, and two more columns.
type Row = (Option<String>, i64, Option<String>, i64);

#[derive(Debug, Clone)]
struct Case {
    rows: Vec<Row>,
    values: Vec<String>,
    range: Option<(i64, i64)>,
    page_rows: usize,
    page_bytes: usize,
    group_rows: usize,
    batch_rows: usize,
    is_compressed: bool,
    columns: Vec<usize>,
}

fn stored() -> SchemaRef {
    let time = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
    Arc::new(Schema::new(vec![
        Field::new("host", DataType::Utf8View, true),
        Field::new(TIME, time, false),
        Field::new("path", DataType::Utf8View, true),
        Field::new("size", DataType::Int64, true),
        Field::new("later", DataType::Utf8View, true),
    ]))
}

fn batch(rows: &[Row]) -> RecordBatch {
    let columns: Vec<ArrayRef> = vec![
        Arc::new(
            rows.iter()
                .map(|row| row.0.as_deref())
                .collect::<StringViewArray>(),
        ),
        Arc::new(
            TimestampMicrosecondArray::from_iter_values(rows.iter().map(|row| row.1))
                .with_timezone("UTC"),
        ),
        Arc::new(
            rows.iter()
                .map(|row| row.2.as_deref())
                .collect::<StringViewArray>(),
        ),
        Arc::new(rows.iter().map(|row| Some(row.3)).collect::<Int64Array>()),
        Arc::new(StringViewArray::from(vec![None::<&str>; rows.len()])),
    ];
    RecordBatch::try_new(stored(), columns).expect("columns of one length")
}

fn case() -> impl Strategy<Value = Case> {
    let host = prop_oneof![
        1 => Just(None),
        8 => (0..6_u8).prop_map(|n| Some(format!("host-{n}"))),
        // This value is longer than the bounds that a page index keeps.
        1 => (0..3_u8).prop_map(|n| Some("h".repeat(80) + &n.to_string())),
    ];
    let path = proptest::option::weighted(0.9, (0..40_u8).prop_map(|n| format!("/a/path/{n}")));
    let row = (host, 0..50_i64, path, 0..1000_i64);
    let rows = (proptest::collection::vec(row, 1..600), any::<bool>()).prop_map(
        |(mut rows, is_sorted)| {
            if is_sorted {
                rows.sort();
            }
            rows
        },
    );
    let value = prop_oneof![
        (0..7_u8).prop_map(|n| format!("host-{n}")),
        (0..3_u8).prop_map(|n| "h".repeat(80) + &n.to_string()),
    ];
    (
        rows,
        proptest::collection::vec(value, 1..4),
        proptest::option::of((0..50_i64, 0..50_i64)),
        (
            1..100_usize,
            prop_oneof![Just(1 << 20), 64..2048_usize],
            1..400_usize,
        ),
        (1..300_usize, any::<bool>()),
        proptest::sample::subsequence(vec![0, 1, 2, 3, 4], 0..=5).prop_shuffle(),
    )
        .prop_map(
            |(rows, values, range, (page_rows, page_bytes, group_rows), more, columns)| Case {
                rows,
                values,
                range,
                page_rows,
                page_bytes,
                group_rows,
                batch_rows: more.0,
                is_compressed: more.1,
                columns,
            },
        )
}

/// Writes a file without the column `later`, as if the stream got that column after the file.
fn write(case: &Case) -> Vec<u8> {
    let compression = match case.is_compressed {
        true => Compression::ZSTD(ZstdLevel::try_new(1).expect("a level")),
        false => Compression::UNCOMPRESSED,
    };
    let properties = WriterProperties::builder()
        .set_compression(compression)
        .set_data_page_row_count_limit(case.page_rows)
        .set_data_page_size_limit(case.page_bytes)
        .set_write_batch_size(case.page_rows.min(16))
        .set_max_row_group_row_count(Some(case.group_rows))
        .set_column_dictionary_enabled("host".into(), false)
        .build();
    let rows = batch(&case.rows).project(&[0, 1, 2, 3]).expect("columns");
    let mut writer =
        ArrowWriter::try_new(Vec::new(), rows.schema(), Some(properties)).expect("a writer");
    writer.write(&rows).expect("written");
    writer.into_inner().expect("closed")
}

async fn read(case: &Case, wanted: &SliceCondition) -> Vec<RecordBatch> {
    let bytes = write(case);
    let file = ObjectMeta {
        location: "a/part".into(),
        last_modified: chrono::DateTime::UNIX_EPOCH,
        size: bytes.len() as u64,
        e_tag: None,
        version: None,
    };
    let mut reader = Cursor::new(bytes);
    let options = ArrowReaderOptions::new().with_page_index_policy(PageIndexPolicy::Required);
    let footer = reader.get_metadata(Some(&options)).await.expect("a footer");
    let dictionaries = Arc::new(Dictionaries::new(1 << 20));
    let schema = Arc::new(stored().project(&case.columns).expect("columns"));
    let mut all = Vec::new();
    // The second read finds the dictionaries in the cache.
    for _ in 0..2 {
        let mut answer = vec![RecordBatch::new_empty(Arc::clone(&schema))];
        for place in places(&footer, wanted).expect("pages are told") {
            let slice = Slice {
                file: &file,
                footer: &footer,
                wanted,
                place: &place,
                dictionaries: &dictionaries,
            };
            let schemas = (&stored(), &schema);
            let batches = slice
                .read(&mut reader, schemas, case.batch_rows)
                .await
                .expect("read");
            for batch in batches {
                let batch = batch.expect("decoded");
                assert!(
                    batch.num_rows() <= case.batch_rows.max(1),
                    "no larger batch than asked"
                );
                answer.push(batch);
            }
        }
        all.push(concat_batches(&schema, &answer).expect("one schema"));
    }
    all
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn a_slice_is_what_a_filter_over_all_rows_leaves(case in case()) {
        let (first, last) = case.range.unwrap_or((i64::MIN, i64::MAX));
        let range = TimeRange { first, last };
        let values: Vec<IndexValue> = case.values.iter().cloned().map(IndexValue::Text).collect();
        let is_wanted = |row: &&Row| {
            row.0.as_ref().is_some_and(|host| case.values.contains(host)) && range.contains(row.1)
        };
        let rows: Vec<Row> = case.rows.iter().filter(is_wanted).cloned().collect();
        let expected = batch(&rows).project(&case.columns).expect("columns");
        let wanted = SliceCondition::new("host", &values, range);
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        for answer in runtime.block_on(read(&case, &wanted)) {
            prop_assert_eq!(&answer, &expected);
        }
    }

    #[test]
    fn a_slice_by_numbers_is_one_too(case in case(), wanted in 0..1000_i64) {
        let mut case = case;
        case.rows.sort_by_key(|row| row.3);
        let rows: Vec<Row> = case.rows.iter().filter(|row| row.3 == wanted).cloned().collect();
        let expected = batch(&rows).project(&case.columns).expect("columns");
        let wanted = SliceCondition::new("size", &[IndexValue::Integer(wanted)], TimeRange::ALL);
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        for answer in runtime.block_on(read(&case, &wanted)) {
            prop_assert_eq!(&answer, &expected);
        }
    }
}
