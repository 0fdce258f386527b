use std::cell::Cell;
use std::time::Duration;

use arrow::array::AsArray;
use arrow::array::Int64Array;
use arrow::datatypes::{DataType, Field, Int64Type, Schema};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::{FutureExt, StreamExt, stream};
use tokio::sync::watch;

use super::*;
use crate::run::memory::Memory;
use crate::run::query_threads::ThreadPools;
use crate::run::registry::End;

fn batches(rows: &[i64]) -> SendableRecordBatchStream {
    let schema = Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, false)]));
    let of = |range: std::ops::Range<i64>| {
        let numbers = Arc::new(range.collect::<Int64Array>());
        RecordBatch::try_new(Arc::clone(&schema), vec![numbers]).expect("a batch")
    };
    let mut from = 0;
    let all: Vec<_> = rows
        .iter()
        .map(|rows| {
            from += rows;
            Ok(of(from - rows..from))
        })
        .collect();
    Box::pin(RecordBatchStreamAdapter::new(schema, stream::iter(all)))
}

thread_local! {
    /// Clock of a test. Only the consumer of portions advances it.
    static CLOCK: Cell<Instant> = Cell::new(Instant::now());
}

fn passes(time: Duration) {
    CLOCK.set(CLOCK.get() + time);
}

fn portions(rows: &[i64], first: usize) -> YieldingStream {
    YieldingStream {
        now: || CLOCK.get(),
        ..YieldingStream::of(batches(rows), first, None)
    }
}

#[tokio::test]
async fn portions_hold_every_row_in_order_and_suit_who_takes_them() {
    let rows = [5000, 1, 8192, 300, 8192];
    let mut portions = portions(&rows, 1);
    let (mut all, mut sizes) = (Vec::new(), Vec::new());
    while let Some(batch) = portions.next().await {
        let batch = batch.expect("a batch");
        all.extend(
            batch
                .column(0)
                .as_primitive::<Int64Type>()
                .values()
                .to_vec(),
        );
        sizes.push(batch.num_rows());
        // From here on each portion takes long, until portions are small.
        if all.len() > 5001 && batch.num_rows() > 16 {
            passes(Duration::from_millis(11));
        }
    }
    assert_eq!(all, (0..rows.iter().sum()).collect::<Vec<i64>>());
    assert_eq!(sizes[..4], [1, 2, 4, 8], "{sizes:?}");
    assert!(sizes.contains(&1024), "{sizes:?}");
    assert!(sizes[12..].contains(&16), "{sizes:?}");
}

#[tokio::test]
async fn a_thread_is_given_back_whoever_takes_portions_and_however_long_each_takes() {
    for (rows, pause) in [(1, 1), (1, 6), (1, 12), (usize::MAX, 3)] {
        let pause = Duration::from_millis(pause);
        let mut portions = portions(&[300; 40], rows);
        let (mut held, mut longest) = (Duration::ZERO, Duration::ZERO);
        let mut pieces = 0;
        loop {
            // Polls as an operator does that keeps what it reads.
            let taken = std::future::poll_fn(|context| match portions.poll_next_unpin(context) {
                Poll::Pending => Poll::Ready(None),
                Poll::Ready(batch) => Poll::Ready(Some(batch)),
            });
            match taken.await {
                None => held = Duration::ZERO,
                Some(None) => break,
                Some(Some(batch)) => {
                    pieces += 1;
                    assert!(rows == 1 || batch.expect("a batch").num_rows() == 300);
                    passes(pause);
                    held += pause;
                    longest = longest.max(held);
                }
            }
        }
        // The stream yields only after the portion during which the time became too long.
        assert!(longest <= SLOW + pause, "{rows} {pause:?}: {longest:?}");
        assert!(pieces >= 40, "{pieces}");
    }
}

#[tokio::test]
async fn a_source_passes_nothing_on_once_its_query_is_stopped() {
    let lane = ThreadPools::new(1, 1).lane().expect("a lane");
    let (end, _ended) = watch::channel(None);
    let share = Arc::new(Memory::new(1 << 20)).share(end.clone(), lane.threads());
    let mut portions = YieldingStream::of(batches(&[300; 3]), usize::MAX, Some(share));
    assert!(portions.next().await.is_some());
    end.send_replace(Some(End::Cancelled));
    assert!(portions.next().now_or_never().is_none(), "a batch");
}
