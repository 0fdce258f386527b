//! Senders of events of now, each request with `j=true`.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use chrono::Utc;

pub(crate) const STREAM: &str = "access";
/// Events of one request.
pub(crate) const BATCH: usize = 100;
const SENDERS: usize = 4;

pub(crate) struct Live {
    stop: Arc<AtomicBool>,
    /// Milliseconds from when a request was due to its acknowledgement.
    times: Arc<Mutex<Vec<f64>>>,
    threads: Vec<JoinHandle<()>>,
}

impl Live {
    pub(crate) fn start(address: &str, rate: usize) -> Self {
        let (stop, times) = (
            Arc::<AtomicBool>::default(),
            Arc::<Mutex<Vec<f64>>>::default(),
        );
        let every = Duration::from_secs_f64((BATCH * SENDERS) as f64 / rate as f64);
        let thread = |nth: usize| {
            let (address, stop, times) = (address.to_owned(), stop.clone(), times.clone());
            let first = Instant::now() + every * nth as u32 / SENDERS as u32;
            std::thread::spawn(move || send(&address, nth, first, every, &stop, &times))
        };
        let threads = (0..SENDERS).map(thread).collect();
        Self {
            stop,
            times,
            threads,
        }
    }

    /// Returns the times since the last call.
    pub(crate) fn take(&self) -> Vec<f64> {
        std::mem::take(&mut self.times.lock().expect("no panic"))
    }

    pub(crate) fn stop(self) {
        self.stop.store(true, Ordering::SeqCst);
        for thread in self.threads {
            thread.join().expect("no panic");
        }
    }
}

fn send(
    address: &str,
    sender: usize,
    first: Instant,
    every: Duration,
    stop: &AtomicBool,
    times: &Mutex<Vec<f64>>,
) {
    let mut socket = TcpStream::connect(address).expect("connected");
    socket.set_nodelay(true).expect("small requests at once");
    let (mut due, mut sent) = (first, sender);
    while !stop.load(Ordering::SeqCst) {
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        let body = lines(sent);
        let request = format!(
            "POST /api/v1/ingest/{STREAM}?format=combined&j=true HTTP/1.1\r\nhost: {address}\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        socket.write_all(request.as_bytes()).expect("sent");
        let answer = answer(&mut socket);
        assert!(answer.starts_with("HTTP/1.1 200"), "refused: {answer}");
        let taken = due.elapsed().as_secs_f64() * 1e3;
        times.lock().expect("no panic").push(taken);
        sent += SENDERS;
        due += every;
    }
}

/// Returns lines of this moment: some thousand hosts and pages.
fn lines(nth: usize) -> String {
    let stamp = Utc::now().format("%d/%b/%Y:%H:%M:%S +0000");
    let line = |i: usize| {
        let n = (nth * BATCH + i).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let (host, page, size) = (n % 5000, n / 7 % 3000, n / 11 % 50_000);
        format!(
            "10.0.{}.{} - - [{stamp}] \"GET /page/{page} HTTP/1.1\" 200 {size} \"-\" \"Mozilla/5.0 (bench)\"\n",
            host / 250,
            host % 250
        )
    };
    (0..BATCH).map(line).collect()
}

/// Reads one answer to the end that its head announces.
fn answer(socket: &mut TcpStream) -> String {
    let (mut answer, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        let read = socket.read(&mut buffer).expect("received");
        assert!(read > 0, "the server closed the connection");
        answer.extend_from_slice(&buffer[..read]);
        let text = String::from_utf8_lossy(&answer);
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let mut lines = head.lines();
            let length = lines.find_map(|l| l.strip_prefix("content-length: "));
            let length: usize = length.and_then(|l| l.parse().ok()).expect("a length");
            if body.len() >= length {
                return text.into_owned();
            }
        }
    }
}
