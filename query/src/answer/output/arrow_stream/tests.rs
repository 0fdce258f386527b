//! Answers of every shape as Arrow: the same rows as NDJSON, and no more bytes.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryViewBuilder, BooleanArray, Decimal128Array, DictionaryArray,
    FixedSizeBinaryArray, FixedSizeListArray, Int32Array, Int32RunArray, Int64Array,
    LargeBinaryArray, LargeListArray, LargeStringArray, ListArray, MapArray, RecordBatch,
    StringArray, StringViewArray, StringViewBuilder, StructArray, TimestampMicrosecondArray,
    UInt16Array,
};
use arrow::buffer::OffsetBuffer;
use arrow::compute::{concat_batches, filter_record_batch, nullif};
use arrow::datatypes::{DataType, Field, Fields, Int32Type, Schema, SchemaRef, UInt16Type};
use arrow::ipc::reader::StreamReader;
use proptest::prelude::*;

use super::{HEADER_BYTES, HEADER_COLUMN_BYTES};
use crate::answer::output::plain::plain;
use crate::answer::output::plain_batches::ROWS;
use crate::answer::output::{Output, write};
use crate::functions::sizes::size;
use crate::tests::support::Random;

/// Bytes of the longest text that no row of a small answer shows.
const HIDDEN_BYTES: usize = 3000;

fn written(format: Output, schema: &SchemaRef, batches: &[RecordBatch]) -> Vec<u8> {
    let mut out = Vec::new();
    write(format, schema, batches, &mut out).expect("written");
    out
}

/// Returns the maximum bytes of headers: of the schema, and of each message.
fn headers(schema: &Schema, messages: usize) -> usize {
    let of_field = |field: &Arc<Field>| columns(field);
    let (count, names) = schema
        .fields()
        .iter()
        .map(of_field)
        .fold((0, 0), |all, one| (all.0 + one.0, all.1 + one.1));
    (HEADER_BYTES + HEADER_COLUMN_BYTES * count) * messages.max(1) + names
}

/// Returns the number of columns of a field, itself included, and the bytes of their names.
fn columns(field: &Arc<Field>) -> (usize, usize) {
    let nested: Vec<Arc<Field>> = match field.data_type() {
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::FixedSizeList(item, _)
        | DataType::Map(item, _) => vec![Arc::clone(item)],
        DataType::RunEndEncoded(_, item) => vec![Arc::clone(item)],
        DataType::Struct(fields) => fields.iter().cloned().collect(),
        _ => Vec::new(),
    };
    let nested = nested.iter().map(columns);
    nested.fold((1, field.name().len()), |all, one| {
        (all.0 + one.0, all.1 + one.1)
    })
}

/// Checks an answer against the rule. `places` is the number of fixed-width bytes that its JSON
/// may not need.
fn check(schema: &SchemaRef, batches: &[RecordBatch], places: usize) -> Result<(), TestCaseError> {
    let arrow = written(Output::Arrow, schema, batches);
    let ndjson = written(Output::Ndjson, schema, batches);
    let reader = StreamReader::try_new(arrow.as_slice(), None).expect("a stream");
    let read_schema = reader.schema();
    let read: Vec<RecordBatch> = reader.collect::<Result<_, _>>().expect("batches");
    let again = written(Output::Ndjson, &read_schema, &read);
    prop_assert_eq!(
        String::from_utf8_lossy(&again),
        String::from_utf8_lossy(&ndjson)
    );
    let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
    let bytes: u64 = read.iter().flat_map(|b| b.columns()).map(size).sum();
    prop_assert!(
        read.len() <= 1 + rows / (ROWS / 2) + bytes as usize / (2 << 20),
        "{} messages of {} rows",
        read.len(),
        rows
    );
    let most = ndjson.len() + headers(schema, read.len()) + places;
    prop_assert!(
        arrow.len() <= most,
        "{} bytes of Arrow, {} of NDJSON, {} rows, at most {}: {:?}",
        arrow.len(),
        ndjson.len(),
        rows,
        most,
        schema
    );
    Ok(())
}

/// Returns the bytes of fixed width below a column: of its numbers, and of the values in lists
/// and records.
fn places(array: &ArrayRef, is_nested: bool) -> usize {
    let own = match array.data_type().primitive_width() {
        Some(width) => (width + 1) * array.len(),
        None if is_nested => 5 * array.len(),
        None => 0,
    };
    own + match array.data_type() {
        DataType::List(_) => places(array.as_list::<i32>().values(), true),
        DataType::Struct(_) => {
            let columns = array.as_struct().columns().iter();
            columns.map(|column| places(column, true)).sum()
        }
        DataType::Map(..) => {
            let entries: ArrayRef = Arc::new(array.as_map().entries().clone());
            places(&entries, true)
        }
        _ => 0,
    }
}

fn text(random: &mut Random, nth: usize) -> String {
    match random.below(8) {
        0 => String::new(),
        1 => "\u{1}\"\\é".repeat(random.below(30)),
        2 => format!("/a/long/path/that/is/not/kept/in/its/view/{nth}"),
        _ => format!("v{}", random.below(50)),
    }
}

fn texts(random: &mut Random, rows: usize) -> Vec<Option<String>> {
    (0..rows)
        .map(|nth| (random.below(5) > 0).then(|| text(random, nth)))
        .collect()
}

/// Creates views into buffers that hold far more than the views show.
fn views(random: &mut Random, rows: usize) -> ArrayRef {
    let mut views = StringViewBuilder::new();
    views.append_value("h".repeat(HIDDEN_BYTES));
    texts(random, rows)
        .iter()
        .for_each(|t| views.append_option(t.as_deref()));
    let views: ArrayRef = Arc::new(views.finish());
    views.slice(1, rows)
}

/// Creates a column of a random kind. Most kinds hold more than they show.
fn column(random: &mut Random, rows: usize, depth: usize) -> ArrayRef {
    let kinds = [14, 19, 20][depth];
    let offsets =
        |random: &mut Random| OffsetBuffer::<i32>::from_lengths((0..rows).map(|_| random.below(4)));
    let field = |values: &ArrayRef| Arc::new(Field::new("item", values.data_type().clone(), true));
    let array: ArrayRef = match random.below(kinds) {
        0 => Arc::new(StringArray::from(texts(random, rows))),
        1 | 2 => views(random, rows),
        3 => {
            let mut bytes = BinaryViewBuilder::new();
            texts(random, rows)
                .iter()
                .for_each(|t| bytes.append_option(t.as_deref()));
            Arc::new(bytes.finish())
        }
        4 | 5 => {
            let values = (0..500).map(|nth| Some(format!("a value of a dictionary, {nth}")));
            let keys = (0..rows).map(|_| (random.below(9) > 0).then(|| random.below(500) as i32));
            let keys: Int32Array = keys.collect();
            let values = Arc::new(values.collect::<StringArray>());
            Arc::new(DictionaryArray::<Int32Type>::new(keys, values))
        }
        6 => {
            let values = views(random, 100);
            let keys: UInt16Array = (0..rows).map(|_| Some(random.below(100) as u16)).collect();
            Arc::new(DictionaryArray::<UInt16Type>::new(keys, values))
        }
        7 => Arc::new(LargeStringArray::from(texts(random, rows))),
        8 => {
            let values = texts(random, rows);
            let values = values.iter().map(|t| t.as_deref().map(str::as_bytes));
            Arc::new(values.collect::<LargeBinaryArray>())
        }
        9 => {
            let numbers = (0..rows).map(|_| (random.below(9) > 0).then(|| random.below(99) as i64));
            Arc::new(numbers.collect::<Int64Array>())
        }
        10 => {
            let stamps = (0..rows).map(|_| Some(random.below(1 << 40) as i64));
            let stamps: TimestampMicrosecondArray = stamps.collect();
            Arc::new(stamps.with_timezone("UTC"))
        }
        11 => Arc::new(
            (0..rows)
                .map(|_| Some(random.below(2) > 0))
                .collect::<BooleanArray>(),
        ),
        12 => {
            let numbers = (0..rows).map(|_| Some(random.below(1 << 30) as i128));
            Arc::new(numbers.collect::<Decimal128Array>())
        }
        13 => {
            let each = (0..rows).map(|nth| (nth % 3 > 0).then_some([7_u8; 12]));
            let array = FixedSizeBinaryArray::try_from_sparse_iter_with_size(each, 12);
            Arc::new(array.expect("twelve bytes each"))
        }
        14 => {
            let offsets = offsets(random);
            let values = column(random, offsets[rows] as usize, depth - 1);
            Arc::new(ListArray::new(field(&values), offsets, values, None))
        }
        15 => {
            let offsets = OffsetBuffer::<i64>::from_lengths((0..rows).map(|_| random.below(3)));
            let values = column(random, offsets[rows] as usize, depth - 1);
            Arc::new(LargeListArray::new(field(&values), offsets, values, None))
        }
        16 => {
            let values = column(random, rows * 2, depth - 1);
            Arc::new(FixedSizeListArray::new(field(&values), 2, values, None))
        }
        17 => {
            let offsets = offsets(random);
            let count = offsets[rows] as usize;
            let keys: ArrayRef = Arc::new(StringArray::from(vec!["key"; count]));
            let entries = record(
                vec![("keys", keys), ("values", views(random, count))],
                false,
            );
            let entries_field = Field::new("entries", entries.data_type().clone(), false);
            let map = MapArray::new(Arc::new(entries_field), offsets, entries, None, false);
            Arc::new(map)
        }
        18 => {
            let inner = (0..1 + random.below(3)).map(|_| column(random, rows, depth - 1));
            let inner: Vec<ArrayRef> = inner.collect();
            let named = ["a", "b", "c"].into_iter().zip(inner);
            Arc::new(record(named.collect(), true))
        }
        // Runs occur only at the top, because nothing produces them within another column.
        _ => {
            let values = StringArray::from(vec![Some("a run of a text"), None, Some("")]);
            let third = (rows / 3).max(1) as i32;
            let ends = Int32Array::from(vec![third, 2 * third, 3 * third + rows as i32]);
            let runs: ArrayRef = Arc::new(Int32RunArray::try_new(&ends, &values).expect("runs"));
            return runs.slice(0, rows);
        }
    };
    if random.below(3) > 0 {
        return array;
    }
    // Nulls that hide values.
    let is_hidden: BooleanArray = (0..rows).map(|_| Some(random.below(3) == 0)).collect();
    nullif(&array, &is_hidden).expect("as long")
}

fn record(columns: Vec<(&str, ArrayRef)>, nullable: bool) -> StructArray {
    let fields: Fields = columns
        .iter()
        .map(|(name, array)| {
            Field::new(
                *name,
                array.data_type().clone(),
                nullable || *name == "values",
            )
        })
        .collect();
    StructArray::new(
        fields,
        columns.into_iter().map(|(_, array)| array).collect(),
        None,
    )
}

/// Cuts a batch with far more rows into batches: slices of it, or the rows that a filter keeps.
fn cut(random: &mut Random, whole: &RecordBatch) -> Vec<RecordBatch> {
    let (mut batches, mut row) = (Vec::new(), random.below(whole.num_rows()));
    while row < whole.num_rows() {
        let rows = (1 + random.below(40)).min(whole.num_rows() - row);
        let slice = whole.slice(row, rows);
        row += rows + random.below(30);
        batches.push(match random.below(3) {
            0 => {
                let kept: BooleanArray = (0..rows).map(|_| Some(random.below(10) == 0)).collect();
                filter_record_batch(&slice, &kept).expect("as long")
            }
            _ => slice,
        });
    }
    batches
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn an_answer_of_any_shape_is_as_arrow_no_larger_than_as_ndjson(seed in any::<u64>()) {
        let random = &mut Random(seed);
        let rows = 1 + random.below(600);
        let columns: Vec<(String, ArrayRef)> = (0..1 + random.below(4))
            .map(|nth| (format!("c{nth}"), column(random, rows, 2)))
            .collect();
        let whole = RecordBatch::try_from_iter_with_nullable(
            columns.into_iter().map(|(name, array)| (name, array, true)),
        ).expect("columns fit");
        let schema = whole.schema();
        for batches in [vec![whole.clone()], cut(random, &whole), Vec::new()] {
            let mut room = 0;
            for column in batches.iter().flat_map(|batch| batch.columns()) {
                room += places(&plain(column).expect("fits"), false);
            }
            check(&schema, &batches, room)?;
        }
    }
}

/// Creates columns as a log has them, each with a name of four letters or more.
fn log(rows: usize) -> RecordBatch {
    let random = &mut Random(7);
    let number = |random: &mut Random, end: usize| {
        (0..rows)
            .map(|_| Some(random.below(end) as i64))
            .collect::<Int64Array>()
    };
    let mut long = StringViewBuilder::new();
    (0..rows).for_each(|nth| long.append_value(format!("Mozilla/5.0 (X11; rv:{nth}) Gecko/{nth}")));
    let values = (0..5000).map(|nth| Some(format!("/a/path/of/many/{nth}")));
    let keys: Int32Array = (0..rows).map(|_| Some(random.below(5000) as i32)).collect();
    let values = Arc::new(values.collect::<StringArray>());
    let stamps = TimestampMicrosecondArray::from_iter_values((0..rows).map(|n| n as i64));
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("time", Arc::new(stamps.with_timezone("UTC"))),
        ("user_agent", Arc::new(long.finish())),
        (
            "path",
            Arc::new(DictionaryArray::<Int32Type>::new(keys, values)),
        ),
        ("status", Arc::new(number(random, 600))),
        ("hits", Arc::new(number(random, 9))),
        ("site", Arc::new(StringViewArray::new_null(rows))),
        ("extra", Arc::new(StringArray::new_null(rows))),
    ];
    let columns = columns.into_iter().map(|(name, array)| (name, array, true));
    RecordBatch::try_from_iter_with_nullable(columns).expect("columns fit")
}

#[test]
fn one_row_in_a_thousand_does_not_bring_the_others_along() {
    let whole = log(100_000);
    let schema = whole.schema();
    let batches: Vec<RecordBatch> = (0..100)
        .map(|nth| {
            let slice = whole.slice(nth * 1000, 1000);
            let kept: BooleanArray = (0..1000).map(|row| Some(row == nth)).collect();
            filter_record_batch(&slice, &kept).expect("as long")
        })
        .collect();
    check(&schema, &batches, 0).expect("no larger");
    check(&schema, &[whole], 0).expect("no larger");
}

#[test]
fn small_batches_are_written_together_and_long_ones_cut() {
    let whole = log(20_000);
    let schema = whole.schema();
    let single: Vec<RecordBatch> = (0..20_000).map(|row| whole.slice(row, 1)).collect();
    check(&schema, &single, 0).expect("no larger");
    let of = |arrow: &[u8]| -> Vec<RecordBatch> {
        let reader = StreamReader::try_new(arrow, None).expect("a stream");
        reader.collect::<Result<_, _>>().expect("batches")
    };
    let read = of(&written(Output::Arrow, &schema, &single));
    let rows: Vec<usize> = read.iter().map(RecordBatch::num_rows).collect();
    assert_eq!(rows, [ROWS, ROWS, 20_000 - 2 * ROWS]);
    let together = concat_batches(&read[0].schema(), &read).expect("one schema");
    let at_once = of(&written(Output::Arrow, &schema, &[whole]));
    assert_eq!(at_once, [together]);

    let keys = Int32Array::from(vec![0; 40]);
    let long = StringArray::from(vec!["x".repeat(1 << 20)]);
    let dictionary = DictionaryArray::<Int32Type>::new(keys, Arc::new(long));
    let batch = RecordBatch::try_from_iter([("text", Arc::new(dictionary) as ArrayRef)]);
    let batch = batch.expect("a batch");
    let rows = of(&written(Output::Arrow, &batch.schema(), &[batch]));
    let rows: Vec<usize> = rows.iter().map(RecordBatch::num_rows).collect();
    assert_eq!(rows, [10, 10, 10, 10]);
}

#[test]
fn an_answer_without_rows_or_columns_is_one_too() {
    let none = log(0);
    check(&none.schema(), &[], 0).expect("no larger");
    check(&none.schema(), &[none], 0).expect("no larger");
    let rows = arrow::array::RecordBatchOptions::new().with_row_count(Some(3));
    let empty = Arc::new(Schema::empty());
    let batch = RecordBatch::try_new_with_options(Arc::clone(&empty), Vec::new(), &rows);
    check(&empty, &[batch.expect("three rows")], 0).expect("no larger");
}

#[test]
fn the_bytes_of_a_column_are_those_of_its_rows() {
    let whole = log(10_000);
    for column in whole.columns() {
        let few = column.slice(500, 10);
        let copied = plain(&few).expect("fits");
        assert_eq!(size(&few), size(&copied), "{}", column.data_type());
        assert!(size(&few) <= 10 * 60, "{}", column.data_type());
    }
    // A value of a dictionary counts once for each row that has it.
    let path = whole.column_by_name("path").expect("a column");
    assert!(size(path) > 10_000 * 20, "{}", size(path));
}
