//! Normal clients: ten queries a second.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

const EVERY: Duration = Duration::from_millis(100);

const QUERIES: [&str; 5] = [
    "SELECT bucket, sum(hits) AS hits FROM traffic.hourly GROUP BY 1 ORDER BY 1 DESC LIMIT 24",
    "SELECT time, path, status FROM access ORDER BY time DESC LIMIT 20",
    "SELECT bucket, hits FROM stats.daily WHERE path = '/page/7' ORDER BY 1",
    "SELECT bucket, sum(hits) AS hits FROM traffic.monthly GROUP BY 1 ORDER BY 1",
    "SELECT name, level, rows FROM system.rollups",
];

/// A thread that sends queries until the program ends.
pub(crate) struct Normal {
    times: Arc<Mutex<Vec<f64>>>,
    /// The lock is held while a query runs.
    turn: Arc<Mutex<()>>,
    stop: Arc<AtomicBool>,
}

impl Normal {
    pub(crate) fn start(address: &str) -> Self {
        let normal = Self {
            times: Arc::default(),
            turn: Arc::default(),
            stop: Arc::default(),
        };
        let (times, turn, stop) = (
            Arc::clone(&normal.times),
            Arc::clone(&normal.turn),
            Arc::clone(&normal.stop),
        );
        let address = address.to_owned();
        std::thread::spawn(move || {
            let mut due = Instant::now();
            for sql in QUERIES.iter().cycle() {
                std::thread::sleep(due.saturating_duration_since(Instant::now()));
                // A query that is due during a pause is left out of the figures.
                let asked = turn.try_lock();
                if stop.load(Ordering::SeqCst) {
                    return;
                }
                if asked.is_ok() {
                    ask(&address, sql);
                    let took = due.elapsed().as_secs_f64() * 1e3;
                    times.lock().expect("no panic").push(took);
                }
                drop(asked);
                due += EVERY;
            }
        });
        normal
    }

    /// Returns the milliseconds of each query since the last call, from when it was due.
    pub(crate) fn take(&self) -> Vec<f64> {
        std::mem::take(&mut self.times.lock().expect("no panic"))
    }

    /// Pauses the queries until the guard is dropped.
    pub(crate) fn pause(&self) -> MutexGuard<'_, ()> {
        self.turn.lock().expect("no panic")
    }
}

impl Drop for Normal {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
    }
}

fn ask(address: &str, sql: &str) {
    let mut socket = TcpStream::connect(address).expect("connected");
    let request = format!(
        "POST /api/v1/sql HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{sql}",
        sql.len()
    );
    socket.write_all(request.as_bytes()).expect("sent");
    let mut answer = String::new();
    socket.read_to_string(&mut answer).expect("received");
    if !answer.starts_with("HTTP/1.1 200") {
        println!(
            "    a normal query: {}",
            answer.lines().last().unwrap_or_default()
        );
    }
}
