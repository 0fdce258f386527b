//! Values of parameters, which clients send as one row of an Arrow stream.
//!
//! The bytes come from outside. Compressed buffers are refused: a few bytes would claim a buffer of
//! any size.

use std::panic::AssertUnwindSafe;

use arrow::array::RecordBatch;
use arrow::ipc::{MessageHeader, root_as_message};
use arrow_flight::FlightData;
use arrow_flight::decode::FlightRecordBatchStream;
use arrow_flight::error::FlightError;
use futures::{FutureExt, Stream, StreamExt, TryStreamExt};
use query::ScalarValue;
use tonic::Status;

use super::status;

/// Maximum parameters of a statement.
pub(super) const PARAMETERS_MAX: usize = 32_767;

/// Reads the values of parameters: the columns of the one row, in their order. No row sets none.
///
/// # Errors
/// If the stream is no Arrow stream, or has more than one row.
pub(super) async fn read(
    messages: impl Stream<Item = Result<FlightData, Status>> + Send + 'static,
) -> Result<Vec<ScalarValue>, Status> {
    let messages = messages.map(|message| -> Result<FlightData, FlightError> {
        let message = message.map_err(FlightError::from)?;
        check_plain(&message)?;
        Ok(message)
    });
    let batches = FlightRecordBatchStream::new_from_flight_data(messages);
    let read = AssertUnwindSafe(rows(batches)).catch_unwind();
    match read.await {
        Ok(values) => values,
        Err(_) => Err(malformed("its buffers contradict its columns")),
    }
}

async fn rows(mut batches: FlightRecordBatchStream) -> Result<Vec<ScalarValue>, Status> {
    let mut row: Option<RecordBatch> = None;
    while let Some(batch) = batches.try_next().await.map_err(of_stream)? {
        match batch.num_rows() {
            0 => {}
            1 if row.is_none() => row = Some(batch),
            _ => {
                return Err(status::invalid(
                    "a query takes one row of parameters, and more were bound",
                    Some("bind and run the statement once for each row"),
                ));
            }
        }
    }
    let columns = row.as_ref().map_or(&[][..], RecordBatch::columns);
    if columns.len() > PARAMETERS_MAX {
        let message = format!("a statement has at most {PARAMETERS_MAX} parameters");
        return Err(status::invalid(&message, None));
    }
    let values = columns
        .iter()
        .map(|column| ScalarValue::try_from_array(column, 0));
    let values = values.collect::<Result<_, _>>();
    values.map_err(|error| status::invalid(&format!("a parameter cannot be read: {error}"), None))
}

/// Checks that the buffers of a message are not compressed.
fn check_plain(message: &FlightData) -> Result<(), FlightError> {
    if message.data_header.is_empty() {
        return Ok(());
    }
    let header = root_as_message(&message.data_header)
        .map_err(|error| FlightError::from(malformed(error)))?;
    let batch = match header.header_type() {
        MessageHeader::RecordBatch => header.header_as_record_batch(),
        MessageHeader::DictionaryBatch => header
            .header_as_dictionary_batch()
            .and_then(|dictionary| dictionary.data()),
        _ => None,
    };
    match batch.and_then(|batch| batch.compression()) {
        None => Ok(()),
        Some(_) => {
            let message = "the values of parameters are compressed";
            Err(status::invalid(message, Some("send them without compression")).into())
        }
    }
}

fn of_stream(error: FlightError) -> Status {
    match error {
        FlightError::Tonic(status) => *status,
        other => malformed(other),
    }
}

fn malformed(why: impl std::fmt::Display) -> Status {
    status::invalid(
        &format!("the values of parameters are no Arrow stream: {why}"),
        None,
    )
}

#[cfg(test)]
mod tests;
