//! A dashboard: five charts in turn, four a second.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const EVERY: Duration = Duration::from_millis(250);

const CHARTS: [&str; 5] = [
    // Hits and errors of the last hour, by minute.
    "SELECT bucket, sum(hits) AS hits, sum(CASE WHEN status >= 500 THEN hits END) AS errors
     FROM traffic.minutely WHERE bucket >= now() - INTERVAL '1 hour' GROUP BY 1 ORDER BY 1",
    // The last day by hour.
    "SELECT bucket, sum(hits) AS hits, sum(bytes) AS bytes FROM traffic.hourly
     WHERE bucket >= now() - INTERVAL '1 day' GROUP BY 1 ORDER BY 1",
    // One page over a year.
    "SELECT bucket, hits FROM stats.daily WHERE path = '/page/7'
     AND bucket >= now() - INTERVAL '365 days' ORDER BY 1",
    // The pages of the last day.
    "SELECT path, sum(hits) AS hits FROM stats.hourly WHERE bucket >= now() - INTERVAL '1 day'
     GROUP BY 1 ORDER BY 2 DESC LIMIT 20",
    // All that there is, by month.
    "SELECT bucket, sum(hits) AS hits FROM traffic.monthly GROUP BY 1 ORDER BY 1",
];

pub(crate) struct Charts {
    stop: Arc<AtomicBool>,
    times: Arc<Mutex<Vec<f64>>>,
    thread: JoinHandle<()>,
}

impl Charts {
    pub(crate) fn start(address: &str) -> Self {
        let (stop, times) = (
            Arc::<AtomicBool>::default(),
            Arc::<Mutex<Vec<f64>>>::default(),
        );
        let thread = {
            let (address, stop, times) = (address.to_owned(), stop.clone(), times.clone());
            std::thread::spawn(move || draw(&address, &stop, &times))
        };
        Self {
            stop,
            times,
            thread,
        }
    }

    /// Returns the milliseconds of each chart since the last call, from when it was due.
    pub(crate) fn take(&self) -> Vec<f64> {
        std::mem::take(&mut self.times.lock().expect("no panic"))
    }

    pub(crate) fn stop(self) {
        self.stop.store(true, Ordering::SeqCst);
        self.thread.join().expect("no panic");
    }
}

fn draw(address: &str, stop: &AtomicBool, times: &Mutex<Vec<f64>>) {
    let mut due = Instant::now();
    for chart in CHARTS.iter().cycle() {
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        if stop.load(Ordering::SeqCst) {
            return;
        }
        ask(address, chart);
        let taken = due.elapsed().as_secs_f64() * 1e3;
        if taken > 100.0 {
            let (first, _) = chart.split_once("FROM").unwrap_or((chart, ""));
            eprintln!("  {taken:.0} ms: {}", first.trim());
        }
        times.lock().expect("no panic").push(taken);
        due += EVERY;
    }
}

fn ask(address: &str, sql: &str) -> String {
    let mut socket = TcpStream::connect(address).expect("connected");
    let request = format!(
        "POST /api/v1/sql HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\naccept: text/csv\r\ncontent-length: {}\r\n\r\n{sql}",
        sql.len()
    );
    socket.write_all(request.as_bytes()).expect("sent");
    let mut answer = String::new();
    socket.read_to_string(&mut answer).expect("received");
    assert!(answer.starts_with("HTTP/1.1 200"), "{sql}: {answer}");
    answer
}

/// Returns the number of parts and of partitions, and the most parts in one.
pub(crate) fn parts(address: &str) -> String {
    let sql = "SELECT sum(parts) || ' parts in ' || count(*) || ' partitions, at most ' || max(parts) AS says
               FROM system.partitions WHERE stream = 'access'";
    let answer = ask(address, sql);
    let said = answer.lines().find(|l| l.contains(" parts in "));
    said.unwrap_or_default().to_owned()
}
