//! Events of now at a steady rate, in the background.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use arrow::array::{ArrayRef, RecordBatch, TimestampMicrosecondArray};
use chrono::Utc;
use storage::{Batch, Clock, Store, SystemClock, TIME, WriteConcern};

use crate::client::Client;
use crate::events;

/// Events of one batch.
const BATCH: usize = 1000;
/// Different batches, sent round and round.
const BATCHES: usize = 100;

pub(crate) struct Load {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<u64>,
    began: Instant,
}

impl Load {
    pub(crate) fn start(store: &Arc<Store>, rate: usize) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (store, stopped) = (Arc::clone(store), Arc::clone(&stop));
        let lines = events::lines(Path::new(crate::LOGMILL), BATCH * BATCHES);
        let batches = events::batches(&lines, BATCH);
        let began = Instant::now();
        let thread = std::thread::spawn(move || send(&store, &batches, rate, &stopped));
        Self {
            stop,
            thread,
            began,
        }
    }

    /// Starts the same with lines to a server.
    pub(crate) fn over_http(client: &Arc<Client>, rate: usize) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (client, stopped) = (Arc::clone(client), Arc::clone(&stop));
        let lines = events::lines(Path::new(crate::LOGMILL), BATCH * BATCHES);
        let began = Instant::now();
        let thread = std::thread::spawn(move || send_lines(&client, &lines, rate, &stopped));
        Self {
            stop,
            thread,
            began,
        }
    }

    /// Stops; returns the events sent, and the seconds it took.
    pub(crate) fn stop(self) -> (u64, f64) {
        self.stop.store(true, Ordering::SeqCst);
        let sent = self.thread.join().expect("no panic");
        (sent, self.began.elapsed().as_secs_f64())
    }
}

fn send(store: &Store, batches: &[Batch], rate: usize, stop: &AtomicBool) -> u64 {
    let (began, mut sent) = (Instant::now(), 0);
    for batch in batches.iter().cycle() {
        if stop.load(Ordering::SeqCst) || rate == 0 {
            break;
        }
        let due = began + Duration::from_secs_f64(sent as f64 / rate as f64);
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        let ack = store.write(now(batch), WriteConcern::ACKNOWLEDGED);
        sent += ack.expect("taken").accepted;
    }
    sent
}

fn send_lines(client: &Client, lines: &[Vec<u8>], rate: usize, stop: &AtomicBool) -> u64 {
    let (began, mut sent) = (Instant::now(), 0);
    for batch in lines.chunks(BATCH).cycle() {
        if stop.load(Ordering::SeqCst) || rate == 0 {
            break;
        }
        let due = began + Duration::from_secs_f64(sent as f64 / rate as f64);
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        let stamp = Utc::now().format("[%d/%b/%Y:%H:%M:%S +0000]").to_string();
        let stamped = batch.iter().map(|line| of_now(line, &stamp));
        client.send(events::STREAM, &stamped.collect::<Vec<_>>().concat());
        sent += batch.len() as u64;
    }
    sent
}

/// Returns the line with another stamp.
fn of_now(line: &[u8], stamp: &str) -> Vec<u8> {
    let at = |byte| line.iter().position(|b| *b == byte).expect("a stamp");
    [&line[..at(b'[')], stamp.as_bytes(), &line[at(b']') + 1..]].concat()
}

/// Returns the batch with stamps of this moment.
fn now(batch: &Batch) -> Batch {
    let received_us = SystemClock.now_us();
    let rows = batch.events.num_rows() as i64;
    let times = (0..rows).map(|row| received_us - (rows - row) * 20);
    let times = TimestampMicrosecondArray::from_iter_values(times);
    let (schema, mut columns, _) = batch.events.clone().into_parts();
    let nth = schema.index_of(TIME).expect("events have a time");
    let zoned = times.with_data_type(columns[nth].data_type().clone());
    columns[nth] = Arc::new(zoned) as ArrayRef;
    Batch {
        received_us,
        events: RecordBatch::try_new(schema, columns).expect("the same columns"),
        ..batch.clone()
    }
}
