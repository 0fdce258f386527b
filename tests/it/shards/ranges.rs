//! Ordered sources: every range goes to all shards, and a source goes on where all of them are.

use std::ops::Range;

use serde_json::json;

use super::{SHARDS, ShardedServers, assert_away, lines, number, patiently};
use crate::support::{Answer, Server, import, sample};

/// The line numbers of a source are its ranges.
const LINES: i64 = 300;
/// Lines that all shards have; and those after which a server was away.
const TAKEN: i64 = 100;
const HALF_TAKEN: i64 = 250;

/// Sends lines of the source of a stream.
#[track_caller]
fn post_range(server: &Server, stream: &str, range: Range<i64>) -> Answer {
    let path = format!(
        "/api/v1/ingest/{stream}?format=vhost_combined&producer=of:{stream}&from={}&to={}",
        range.start, range.end
    );
    server.post(&path, &[], lines(range).as_bytes())
}

/// Returns the position that a server tells to the source of a stream.
#[track_caller]
fn position(server: &Server, stream: &str) -> i64 {
    let path = format!("/api/v1/sources?producer=of:{stream}");
    let told = patiently(|| server.get(&path)).status(200).json();
    told["to"].as_i64().unwrap_or(0)
}

/// Checks that the lines up to a number are there, each once.
#[track_caller]
fn assert_once(all: &ShardedServers, stream: &str, lines: i64) {
    for gateway in 0..SHARDS {
        for counted in ["count(*)", "count(DISTINCT time)"] {
            let counted = format!("SELECT {counted} FROM {stream}");
            assert_eq!(number(all.at(gateway), &counted), lines as u64, "{counted}");
        }
    }
}

/// Starts a cluster whose streams have taken lines on all shards, and further ones on some.
#[track_caller]
fn half_taken(keys: &[(&str, &str)]) -> ShardedServers {
    let mut all = ShardedServers::start(keys);
    for (stream, _) in keys {
        assert_eq!(position(all.at(0), stream), 0);
        let answer = patiently(|| post_range(all.at(0), stream, 0..TAKEN));
        assert_eq!(answer.status(200).json()["accepted"], TAKEN);
        // The first range that a server gets of a source needs all shards.
        let again = patiently(|| post_range(all.at(1), stream, 0..TAKEN));
        assert_eq!(again.status(200).json()["duplicate"], true);
    }
    all.kill(2);
    for (stream, _) in keys {
        let before: u64 = all.own_events(stream).iter().sum();
        assert_away(post_range(all.at(1), stream, TAKEN..HALF_TAKEN));
        let after: u64 = all.own_events(stream).iter().sum();
        assert!(after > before, "nothing of {stream} was taken");
    }
    all.serve(2, &[]);
    for (stream, _) in keys {
        for gateway in 0..SHARDS {
            assert_eq!(position(all.at(gateway), stream), TAKEN, "{stream}");
        }
    }
    all
}

#[test]
fn a_range_that_was_half_taken_is_completed_once() {
    let mut all = half_taken(&[("access", "host")]);
    let first = post_range(all.at(2), "access", TAKEN..HALF_TAKEN);
    // A server that was away may not be found at once.
    if first.status == 200 {
        assert_eq!(first.json()["duplicate"], false, "{}", first.text());
    }
    for gateway in 0..SHARDS {
        let again = patiently(|| post_range(all.at(gateway), "access", TAKEN..HALF_TAKEN));
        let told = again.status(200).json();
        assert_eq!(told["accepted"], HALF_TAKEN - TAKEN, "{told}");
        assert!(gateway == 0 || told["duplicate"] == true, "{told}");
        assert_eq!(position(all.at(gateway), "access"), HALF_TAKEN);
    }
    assert_once(&all, "access", HALF_TAKEN);

    // A range that leaves lines out is refused by all shards.
    let before = all.own_events("access");
    let gap = patiently(|| post_range(all.at(1), "access", HALF_TAKEN + 10..LINES));
    let told = gap.status(400).json();
    let why = told["error"]["message"].as_str().expect("a message");
    assert!(why.contains("send again from 250"), "{why}");
    assert_eq!(all.own_events("access"), before);

    all.restart();
    let rest = patiently(|| post_range(all.at(2), "access", HALF_TAKEN..LINES));
    assert_eq!(rest.status(200).json()["accepted"], LINES - HALF_TAKEN);
    assert_eq!(position(all.at(0), "access"), LINES);
    assert_once(&all, "access", LINES);
}

/// A shard that does not know a source takes any range for its first one: a first range that it
/// missed would be lost there.
#[test]
fn a_source_begins_on_all_shards_or_on_none() {
    let mut all = ShardedServers::start(&[("access", "host")]);
    let others = lines(LINES..LINES + TAKEN);
    all.at(0).ingest("access?format=vhost_combined", &others);
    all.kill(2);
    let before = all.own_events("access");
    for gateway in 0..2 {
        assert_away(post_range(all.at(gateway), "access", 0..TAKEN));
        assert_eq!(all.own_events("access"), before, "a part was taken");
    }
    all.serve(2, &[]);
    for range in [0..TAKEN, TAKEN..LINES] {
        let taken = patiently(|| post_range(all.at(1), "access", range.clone()));
        let told = taken.status(200).json();
        assert_eq!(told["accepted"], range.end - range.start, "{told}");
        assert_eq!(told["duplicate"], false, "{told}");
    }
    assert_once(&all, "access", LINES + TAKEN);
}

/// Sends the rest of a source as a sender does that has begun anew: it cuts its lines otherwise,
/// and asks for the position each time.
#[track_caller]
fn send_rest(server: &Server, stream: &str, step: i64) {
    for _ in 0..20 {
        let at = position(server, stream);
        if at == LINES {
            return;
        }
        let range = at..LINES.min(at + step);
        let answer = patiently(|| post_range(server, stream, range.clone()));
        // A shard that is further refuses a range that begins before and ends behind its position.
        assert!([200, 400].contains(&answer.status), "{}", answer.text());
    }
    panic!("{stream} does not come to its end");
}

#[track_caller]
fn assert_cut_otherwise(key: &str) {
    let keys = [("shorter", key), ("longer", key)];
    let all = half_taken(&keys);
    for (stream, step) in [("shorter", 80), ("longer", 200)] {
        send_rest(all.at(0), stream, step);
    }
    for (stream, _) in keys {
        assert_once(&all, stream, LINES);
    }
}

#[test]
fn a_sender_may_cut_its_lines_otherwise_after_a_range_was_half_taken() {
    assert_cut_otherwise("host");
}

#[test]
fn a_sender_may_cut_lines_otherwise_whose_key_has_a_salt() {
    assert_cut_otherwise("path + hash");
}

#[test]
fn a_file_that_is_imported_through_one_server_is_known_to_all() {
    let all = ShardedServers::start(&[]);
    for gateway in 0..SHARDS {
        let place = ["--server", all.at(gateway).url.as_str()];
        let figures = import(&place, &sample(), &[]);
        let found = ["accepted", "quarantined", "empty", "skipped"].map(|name| &figures[name]);
        let wanted = match gateway {
            0 => [619, 22, 5, 0].map(|n| json!(n)),
            _ => [0, 0, 0, 646].map(|n| json!(n)),
        };
        assert_eq!(found, wanted.each_ref(), "{figures}");
        assert_eq!(number(all.at(gateway), "SELECT count(*) FROM access"), 619);
        let hits = "SELECT sum(hits) FROM stats.yearly";
        assert_eq!(number(all.at(gateway), hits), 619);
    }
    let own = all.own_events("access");
    assert!(
        own.iter().filter(|events| **events > 0).count() > 1,
        "{own:?}"
    );
}
