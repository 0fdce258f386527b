//! Answers as streams of Arrow batches.
//!
//! # Invariants
//! * A dropped stream ends its query, also while the query computes.
//! * At most two batches wait for their client. One that takes none for `server.answer_time_max`
//!   gets an error in the place of the rest: the windows of HTTP/2 stop one call of a connection,
//!   which the socket below does not notice.
//! * A stream that ends without an error is whole.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use arrow_flight::FlightData;
use arrow_flight::encode::FlightDataEncoderBuilder;
use arrow_flight::error::FlightError;
use futures::{Stream, StreamExt, TryStreamExt, stream};
use query::Answer;
use query::output::PlainBatches;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tonic::Status;

use super::dialect::converted;
use super::status;
use crate::serve::Client;

/// A stream of messages of a call.
pub(super) type Messages = Pin<Box<dyn Stream<Item = Result<FlightData, Status>> + Send>>;

/// A piece of an answer on its way to the call.
enum AnswerPiece {
    Rows(RecordBatch),
    Failed(Status),
    End,
}

/// Returns the messages of an answer whose client was told these columns.
pub(super) fn messages(
    answer: Answer,
    described: SchemaRef,
    client: Client,
    patience: Duration,
) -> Messages {
    let (send, receive) = channel(1);
    tokio::spawn(produce(
        answer,
        Arc::clone(&described),
        client,
        send,
        patience,
    ));
    encoded(described, rows(receive, patience))
}

/// Returns the messages of one batch.
pub(super) fn of_batch(batch: RecordBatch) -> Messages {
    encoded(batch.schema(), stream::iter([Ok(batch)]))
}

fn encoded(
    schema: SchemaRef,
    rows: impl Stream<Item = Result<RecordBatch, FlightError>> + Send + 'static,
) -> Messages {
    let encoder = FlightDataEncoderBuilder::new().with_schema(schema);
    Box::pin(encoder.build(rows).map_err(Status::from))
}

/// Computes the pieces of an answer until their receiver has gone.
async fn produce(
    answer: Answer,
    described: SchemaRef,
    client: Client,
    send: Sender<AnswerPiece>,
    patience: Duration,
) {
    tokio::select! {
        () = send.closed() => {}
        () = produce_all(answer, &described, &send, patience) => {}
    }
    // Its share counts until nothing computes for it any more.
    drop(client);
}

async fn produce_all(
    mut answer: Answer,
    described: &SchemaRef,
    send: &Sender<AnswerPiece>,
    patience: Duration,
) {
    let mut batches = PlainBatches::new(&answer.schema);
    let mut is_over = false;
    while !is_over {
        let mut complete = Vec::new();
        let added = match answer.stream.next().await {
            Some(Ok(batch)) => batches.add(&batch, &mut complete).map_err(status::of_arrow),
            Some(Err(error)) => Err(status::of_query(&error)),
            None => {
                is_over = true;
                let rest = batches.finish().map_err(status::of_arrow);
                rest.map(|rest| complete.extend(rest))
            }
        };
        let fitted = complete.iter().map(|batch| fitted(batch, described));
        let mut pieces: Vec<AnswerPiece> = fitted
            .map(|batch| match batch {
                Ok(batch) => AnswerPiece::Rows(batch),
                Err(error) => AnswerPiece::Failed(status::of_arrow(error)),
            })
            .collect();
        match added {
            Err(failed) => pieces.push(AnswerPiece::Failed(failed)),
            Ok(()) if is_over => pieces.push(AnswerPiece::End),
            Ok(()) => {}
        }
        for piece in pieces {
            is_over |= matches!(piece, AnswerPiece::Failed(_));
            if !matches!(
                tokio::time::timeout(patience, send.send(piece)).await,
                Ok(Ok(()))
            ) {
                return;
            }
        }
    }
}

/// Returns a batch with the columns that the client was told of.
fn fitted(batch: &RecordBatch, described: &SchemaRef) -> Result<RecordBatch, ArrowError> {
    let fields = batch.schema_ref().fields().iter().zip(described.fields());
    let columns = batch.columns().iter().zip(fields);
    let columns = columns.map(|(column, (from, to))| converted(column, from, to.data_type()));
    RecordBatch::try_new_with_options(
        Arc::clone(described),
        columns.collect::<Result<_, _>>()?,
        &RecordBatchOptions::new().with_row_count(Some(batch.num_rows())),
    )
}

/// Returns the rows of the pieces of an answer.
fn rows(
    receive: Receiver<AnswerPiece>,
    patience: Duration,
) -> impl Stream<Item = Result<RecordBatch, FlightError>> + Send + 'static {
    stream::unfold(Some(receive), move |receive| async move {
        let mut receive = receive?;
        match receive.recv().await {
            Some(AnswerPiece::Rows(batch)) => Some((Ok(batch), Some(receive))),
            Some(AnswerPiece::Failed(failed)) => Some((Err(failed.into()), None)),
            Some(AnswerPiece::End) => None,
            None => {
                let within = humantime::format_duration(patience);
                let message = format!(
                    "the client took nothing of its answer for {within} (server.answer_time_max)"
                );
                Some((Err(Status::deadline_exceeded(message).into()), None))
            }
        }
    })
}
