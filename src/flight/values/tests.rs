//! Values of parameters, whole and with any byte changed.

use std::sync::Arc;

use arrow::array::{ArrayRef, DictionaryArray, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::Int32Type;
use arrow::ipc::CompressionType;
use arrow::ipc::writer::IpcWriteOptions;
use arrow_flight::encode::{DictionaryHandling, FlightDataEncoderBuilder};
use futures::{TryStreamExt, stream};
use tonic::Code;

use super::*;

fn batch(rows: usize) -> RecordBatch {
    let texts = StringArray::from(vec!["some text"; rows]);
    let words: DictionaryArray<Int32Type> = vec!["word"; rows].into_iter().collect();
    let columns: [(&str, ArrayRef); 3] = [
        ("0", Arc::new(Int64Array::from(vec![7; rows]))),
        ("1", Arc::new(texts)),
        ("2", Arc::new(words)),
    ];
    RecordBatch::try_from_iter(columns).expect("columns of one length")
}

async fn encoded(batches: Vec<RecordBatch>, options: IpcWriteOptions) -> Vec<FlightData> {
    let encoder = FlightDataEncoderBuilder::new()
        .with_options(options)
        .with_dictionary_handling(DictionaryHandling::Resend)
        .build(stream::iter(batches.into_iter().map(Ok)));
    encoder.try_collect().await.expect("encoded")
}

async fn read_all(messages: Vec<FlightData>) -> Result<Vec<ScalarValue>, Status> {
    read(stream::iter(messages.into_iter().map(Ok))).await
}

#[tokio::test]
async fn one_row_is_read_and_more_are_refused() {
    let plain = IpcWriteOptions::default;
    let values = read_all(encoded(vec![batch(1)], plain()).await).await;
    let values = values.expect("one row");
    assert_eq!(values[0], ScalarValue::Int64(Some(7)));
    assert_eq!(values[1], ScalarValue::Utf8(Some("some text".to_owned())));
    assert_eq!(values.len(), 3);
    for more in [vec![batch(2)], vec![batch(1), batch(1)]] {
        let refused = read_all(encoded(more, plain()).await).await;
        assert_eq!(refused.expect_err("rows").code(), Code::InvalidArgument);
    }
    let none = read_all(encoded(vec![batch(0)], plain()).await).await;
    assert_eq!(none.expect("no row"), []);
}

#[tokio::test]
async fn compressed_values_are_refused() {
    let options = IpcWriteOptions::default();
    let options = options.try_with_compression(Some(CompressionType::LZ4_FRAME));
    let messages = encoded(vec![batch(1)], options.expect("a version with compression")).await;
    let refused = read_all(messages).await.expect_err("compressed");
    assert!(refused.message().contains("compressed"), "{refused}");
}

#[tokio::test]
async fn a_changed_byte_gives_values_or_an_error() {
    let whole = encoded(vec![batch(1)], IpcWriteOptions::default()).await;
    let mut refused = 0;
    for nth in 0..whole.len() {
        for at in 0..whole[nth].data_header.len() {
            for byte in [0x00, 0x7f, 0xff] {
                let mut messages = whole.clone();
                let mut header = messages[nth].data_header.to_vec();
                header[at] = byte;
                messages[nth].data_header = header.into();
                refused += u32::from(read_all(messages).await.is_err());
            }
        }
        let mut cut = whole.clone();
        let body = cut[nth].data_body.len() / 2;
        cut[nth].data_body.truncate(body);
        refused += u32::from(read_all(cut).await.is_err());
    }
    assert!(refused > 100, "{refused} of the changes were noticed");
}
