//! A request that came to some of its shards only, and comes again: it is completed, and each event
//! is there once.

use super::{SHARDS, ShardedServers, assert_away, lines, number, post, send};

const LINES: &str = "access?format=vhost_combined";
const DOCUMENTS: &str = "events?format=json";
/// Requests that find a server away. Their keys belong to different shards.
const REQUESTS: i64 = 6;
const COUNT: i64 = 40;

/// A request to a stream: its key and its events.
struct KeyedRequest {
    to: &'static str,
    key: String,
    body: String,
}

impl KeyedRequest {
    /// Returns a request of lines, whose key is the host, and one of documents, whose key is the
    /// time. Every other document has no time of its own.
    fn both(number: i64) -> [Self; 2] {
        let numbers = number * COUNT..(number + 1) * COUNT;
        let document = |n: i64| match n % 2 {
            0 => format!(
                "{{\"n\":{n},\"time\":\"2024-03-{:02}T{:02}:00:00Z\"}}\n",
                n % 28 + 1,
                n % 24
            ),
            _ => format!("{{\"n\":{n}}}\n"),
        };
        let of = |to, body| Self {
            to,
            key: format!("half-{number}"),
            body,
        };
        let documents = numbers.clone().map(document).collect();
        [of(LINES, lines(numbers)), of(DOCUMENTS, documents)]
    }

    /// Sends the request until it is taken, and checks that it was a duplicate.
    #[track_caller]
    fn assert_known(&self, all: &ShardedServers, gateway: usize) {
        let told = send(all.at(gateway), self.to, &self.key, &self.body);
        assert_eq!(told["duplicate"], true, "{}: {told}", self.key);
        assert_eq!(told["accepted"], COUNT, "{}: {told}", self.key);
    }
}

/// Checks that the events of so many requests are there, each once, whichever server is asked.
#[track_caller]
fn assert_once(all: &ShardedServers, requests: i64) {
    let wanted = (requests * COUNT) as u64;
    for gateway in 0..SHARDS {
        for counted in ["count(*)", "count(DISTINCT time)"] {
            let counted = format!("SELECT {counted} FROM access");
            assert_eq!(number(all.at(gateway), &counted), wanted, "{counted}");
        }
        for counted in ["count(*)", "count(DISTINCT n)"] {
            let counted = format!("SELECT {counted} FROM events");
            assert_eq!(number(all.at(gateway), &counted), wanted, "{counted}");
        }
    }
}

fn own(all: &ShardedServers) -> u64 {
    let of = |stream| all.own_events(stream).iter().sum::<u64>();
    of("access") + of("events")
}

#[test]
fn a_request_that_was_half_taken_is_completed_once() {
    let mut all = ShardedServers::start(&[("access", "host"), ("events", "time")]);
    for request in KeyedRequest::both(0) {
        for gateway in 0..SHARDS {
            send(all.at(gateway), request.to, &request.key, &request.body);
        }
    }
    assert_once(&all, 1);

    all.kill(2);
    let before = own(&all);
    for number in 1..=REQUESTS {
        for request in KeyedRequest::both(number) {
            let gateway = all.at((number % 2) as usize);
            assert_away(post(gateway, request.to, &request.key, &request.body));
        }
    }
    assert!(own(&all) > before, "no request was half taken");

    all.serve(2, &[]);
    for number in 1..=REQUESTS {
        let gateway = (number as usize + 2) % SHARDS;
        for request in KeyedRequest::both(number) {
            let first = post(all.at(gateway), request.to, &request.key, &request.body);
            // A server that was away may not be found at once.
            if first.status == 200 {
                let told = first.json();
                assert_eq!(told["duplicate"], false, "{told}");
                assert_eq!(told["accepted"], COUNT, "{told}");
            }
            send(all.at(gateway), request.to, &request.key, &request.body);
            request.assert_known(&all, (gateway + 1) % SHARDS);
        }
    }
    assert_once(&all, REQUESTS + 1);

    all.seal();
    all.restart();
    for number in 0..=REQUESTS {
        for request in KeyedRequest::both(number) {
            request.assert_known(&all, number as usize % SHARDS);
        }
    }
    assert_once(&all, REQUESTS + 1);
}
