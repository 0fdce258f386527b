//! A server of a few lines that answers as it is told.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::{lines, shipper};
use crate::support::{Home, Output, finish};

/// A batch as it came.
struct Request {
    at: Instant,
    target: String,
    body: String,
}

/// Answers batches with the given statuses, then 200; everything else with null.
fn serve(answers: &[&'static str]) -> (String, Arc<Mutex<Vec<Request>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let requests = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&requests);
    let mut answers: VecDeque<&str> = answers.iter().copied().collect();
    // The thread ends with the test's process.
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("a connection");
            let mut reader = BufReader::new(stream.try_clone().expect("a socket"));
            let mut target = String::new();
            let mut length = 0;
            loop {
                let mut line = String::new();
                reader.read_line(&mut line).expect("a head");
                if target.is_empty() {
                    target = line.split(' ').nth(1).unwrap_or_default().to_owned();
                }
                let lower = line.to_ascii_lowercase();
                if let Some(bytes) = lower.strip_prefix("content-length:") {
                    length = bytes.trim().parse().expect("a length");
                }
                if line.trim().is_empty() {
                    break;
                }
            }
            let mut body = vec![0; length];
            reader.read_exact(&mut body).expect("a body");
            let is_batch = target.contains("/ingest/");
            let answer = match is_batch {
                true => answers.pop_front().unwrap_or("200 OK\r\n"),
                false => "200 OK\r\n",
            };
            let text = match (
                is_batch,
                answer.starts_with("200"),
                target.contains("prefix="),
            ) {
                (true, true, _) => r#"{"accepted":1,"first_seq":1,"last_seq":1}"#,
                (true, false, _) => r#"{"error":{"code":"x","message":"as it was told"}}"#,
                (false, _, true) => "[]",
                (false, _, false) => "null",
            };
            if is_batch {
                seen.lock().expect("requests").push(Request {
                    at: Instant::now(),
                    target,
                    body: String::from_utf8(body).expect("text"),
                });
            }
            let head = format!(
                "HTTP/1.1 {answer}Connection: close\r\nContent-Length: {}\r\n\r\n",
                text.len()
            );
            // A shipper that was told to end does not read it.
            let _ignored = stream.write_all((head + text).as_bytes());
        }
    });
    (url, requests)
}

fn once(content: &str, answers: &[&'static str]) -> (Output, Vec<Request>) {
    let home = Home::new();
    let log = home.file("a.log", content);
    let (url, requests) = serve(answers);
    let output = finish(shipper(&log, &url).arg("--once"), &[]);
    let requests = std::mem::take(&mut *requests.lock().expect("requests"));
    (output, requests)
}

#[test]
fn a_busy_server_gets_the_same_batch_again_after_the_time_it_asks_for() {
    let content = lines("a", 10);
    let (output, requests) = once(
        &content,
        &[
            "503 Service Unavailable\r\n",
            "429 Too Many Requests\r\nRetry-After: 2\r\n",
            "500 Internal Server Error\r\n",
        ],
    );
    output.code(0);
    assert_eq!(requests.len(), 4);
    assert!(
        requests
            .iter()
            .all(|r| r.body == content && r.target == requests[0].target)
    );
    assert!(requests[2].at - requests[1].at >= Duration::from_secs(2));
}

#[test]
fn a_batch_that_is_too_large_comes_in_halves() {
    let content = lines("a", 2000);
    let (output, requests) = once(&content, &["413 Payload Too Large\r\n"]);
    output.code(0);
    assert_eq!(requests[0].body, content);
    let sent: String = requests[1..].iter().map(|r| r.body.as_str()).collect();
    assert_eq!(sent, content);
    // This content fits into half a batch; a server that takes even less gets even less.
    let too_large = ["413 Payload Too Large\r\n"; 4];
    let (output, requests) = once(&content, &too_large);
    output.code(0);
    let sent: String = requests[4..].iter().map(|r| r.body.as_str()).collect();
    assert_eq!(sent, content);
    assert!(requests[4..].iter().all(|r| r.body.len() <= 1 << 16));
    assert!(requests.len() > 6, "{} requests", requests.len());
}

#[test]
fn wrong_credentials_and_wrong_parameters_end_a_shipper_with_the_servers_words() {
    for status in [
        "401 Unauthorized\r\n",
        "403 Forbidden\r\n",
        "404 Not Found\r\n",
        "400 Bad Request\r\n",
    ] {
        let (output, requests) = once(&lines("a", 10), &[status]);
        let output = output.code(1);
        assert!(
            output.stderr.contains("as it was told"),
            "{}",
            output.stderr
        );
        assert_eq!(requests.len(), 1, "{status}");
    }
}
