//! The quarantine in use: waiting items are listed, explained, parsed again and dropped. An item
//! becomes an event once, for any number of clients and requests, over kills and restarts.

use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};

use crate::support::{
    Home, Output, PAST_S, Server, assert_verified, command, finish, knob, line, run, seed,
    sums_query,
};

/// Lines that no format knows.
const GARBAGE: u64 = 10;

/// Returns Combined lines, each with a path of its own, and garbage among them.
fn mixed(lines: u64, padding: usize) -> String {
    let padding = "m".repeat(padding);
    let mut log = String::new();
    for i in 0..lines {
        if i * GARBAGE % lines < GARBAGE {
            log += &format!("garbage {i}\n");
        }
        let at = PAST_S + (i * 86_400 * 4 / lines) as i64;
        let mut line = line("203.0.113.9", at, &format!("/line/{i}"), 200, 10);
        line.insert_str(line.len() - 3, &padding);
        log += &line;
    }
    log
}

/// Makes a store by an import with a wrong format: the whole log waits.
fn waiting(log: &str) -> Home {
    let home = Home::new();
    let file = home.file("access.log", log);
    let figures = home.import(&file, &["--format", "common"]);
    assert_eq!(figures["accepted"], 0);
    home
}

fn at(place: &[&str], args: &[&str]) -> Output {
    run(&[&["quarantine"], args, &["--output", "json"], place].concat())
}

/// Returns the numbers (waiting, replayed, dropped) of all reasons together.
fn counts(place: &[&str]) -> [u64; 3] {
    let rows = at(place, &["list"]).code(0).json();
    let rows = rows.as_array().expect("rows").clone();
    ["waiting", "replayed", "dropped"].map(|name| {
        let of = |row: &Value| row[name].as_u64().expect("a count");
        rows.iter().map(of).sum()
    })
}

#[test]
fn a_replay_makes_events_of_what_parses_now_and_a_second_one_adds_nothing() {
    let home = waiting(&mixed(30, 0));
    let place = ["--data", home.data.as_str()];
    let replay = |more: &[&str]| {
        let args = [&["replay", "--stream", "access"], more].concat();
        at(&place, &args).code(0).json()
    };
    assert_eq!(counts(&place), [40, 0, 0]);
    let as_it_was = replay(&["--format", "common"]);
    assert_eq!(as_it_was["still_bad"], json!({ "not_common": 40 }));
    let found = json!({
        "looked_at": 40, "replayed": 30, "still_bad": { "not_combined": 10 }, "settled_meanwhile": 0
    });
    assert_eq!(replay(&["--format", "combined", "--dry-run"]), found);
    assert_eq!(counts(&place), [40, 0, 0], "a dry run changes nothing");
    assert_eq!(replay(&["--format", "combined"]), found);
    let again = replay(&["--format", "combined"]);
    assert_eq!(
        (&again["looked_at"], &again["replayed"]),
        (&json!(10), &json!(0))
    );
    assert_eq!(counts(&place), [10, 30, 0]);
    for row in home.sql(&sums_query()) {
        assert_eq!(row["n"], 30, "{}", row["t"]);
    }
    assert_eq!(home.number("SELECT count(DISTINCT path) FROM access"), 30);
    assert_verified(&place, 30);
    // No item entered the quarantine twice, and items that no longer wait are still listed.
    let states = home.sql(
        "SELECT state, count(*) AS n, count(DISTINCT raw) AS lines FROM system.quarantine \
         GROUP BY state ORDER BY state",
    );
    let state = |state: &str, n: u64| json!({ "state": state, "n": n, "lines": n });
    assert_eq!(states, [state("replayed", 30), state("waiting", 10)]);
    let drop =
        |more: &[&str]| at(&place, &[&["drop"], more].concat()).code(0).json()["dropped"].clone();
    assert_eq!(drop(&["--before", "2024-03"]), 0, "nothing came before");
    assert_eq!(drop(&["--reason", "no_such"]), 0);
    assert_eq!(drop(&["--dry-run"]), 10);
    assert_eq!((drop(&[]), drop(&[])), (json!(10), json!(0)));
    assert_eq!(counts(&place), [0, 30, 10]);
    let nothing = replay(&["--format", "plain"]);
    assert_eq!(
        nothing["looked_at"], 0,
        "what was given up does not come back"
    );
    run(&["check", &home.data]).code(0);
}

#[test]
fn an_item_is_explained_with_a_caret_where_reading_stopped() {
    let home = waiting(&mixed(10, 0));
    let place = ["--data", home.data.as_str()];
    let text = |args: &[&str]| run(&[&["quarantine", "explain"], args, &place].concat());
    let said = text(&["--reason", "not_common", "--format", "combined"])
        .code(0)
        .stdout;
    assert!(
        said.contains("today, a replay would make it an event"),
        "{said}"
    );
    assert!(said.contains("access.log, line 20, byte "), "{said}");
    let lines: Vec<&str> = said.lines().collect();
    let caret = lines.iter().position(|l| l.trim() == "^").expect("a caret");
    let column = lines[caret].len() - 1;
    // Common ends where Combined goes on.
    assert_eq!(&lines[caret - 1][column - 1..=column + 1], "0 \"", "{said}");
    let bad = home.number("SELECT min(_seq) FROM system.quarantine");
    let first = at(&place, &["explain", &bad.to_string()]).code(0).json();
    assert_eq!(
        (&first["line"], &first["excerpt"]),
        (&json!(1), &json!("garbage 0"))
    );
    assert_eq!(
        (&first["state"], &first["parses"]),
        (&json!("waiting"), &json!(false))
    );
    let nobody = text(&["123456789"]).code(1).stderr;
    assert!(
        nobody.contains("the quarantine has no item with sequence number"),
        "{nobody}"
    );
}

#[test]
fn the_time_of_a_replayed_item_is_when_it_came() {
    let home = waiting("{\"a\":1}\n{\"a\":2}\n");
    let place = ["--data", home.data.as_str()];
    std::thread::sleep(Duration::from_millis(5));
    let replayed = at(&place, &["replay", "--format", "json"]).code(0).json();
    assert_eq!(replayed["replayed"], 2);
    let came = home.sql("SELECT max(time) AS t FROM system.quarantine");
    let event = home.sql("SELECT min(time) AS t, max(time_source) AS s, sum(a) AS a FROM access");
    assert_eq!(
        (&event[0]["t"], &event[0]["s"]),
        (&came[0]["t"], &json!("received"))
    );
    assert_eq!(event[0]["a"], 3);
}

/// A replayed item is stored by the configuration of today, as any line that comes today.
#[test]
fn what_is_replayed_is_stored_as_the_stream_says_today() {
    let document = "{\"a\":1,\"b\":2,\"time\":\"2024-03-01T00:00:00Z\"}";
    for (what, names, kept) in [
        ("KEEP", "[\"a\"]", json!({ "a": 1 })),
        ("DROP", "[\"a\"]", json!({ "b": 2 })),
    ] {
        let home = waiting(&format!("{document}\nno json\n{document}\n"));
        let variable = format!("LOGMILL_STREAM__ACCESS__{what}");
        let replay = [
            "quarantine",
            "replay",
            "--format",
            "json",
            "--output",
            "json",
        ];
        let mut again = command();
        again.args(replay).args(["--data", &home.data]);
        again.env(variable, names);
        again.env("LOGMILL_STREAM__ACCESS__RAW_LINE", "true");
        let replayed = finish(&mut again, &[]).code(0).json();
        assert_eq!(replayed["replayed"], 2, "{replayed}");
        for row in home.sql("SELECT * EXCLUDE (time, _id) FROM access") {
            let mut wanted = kept.clone();
            wanted["raw_line"] = json!(document);
            assert_eq!(row, wanted, "{what}");
        }
    }
}

#[test]
fn a_server_lists_explains_replays_and_drops() {
    let home = waiting(&mixed(20, 0));
    let server = Server::start(&home.data);
    let place = ["--server", server.url.as_str()];
    let said = run(&[
        "quarantine",
        "explain",
        "--format",
        "combined",
        place[0],
        place[1],
    ]);
    assert!(said.code(0).stdout.contains("would make it an event"));
    let replay = ["replay", "--format", "combined"];
    let looked = at(&place, &[&replay[..], &["--dry-run"]].concat())
        .code(0)
        .json();
    assert_eq!(looked["replayed"], 20);
    assert_eq!(at(&place, &replay).code(0).json()["replayed"], 20);
    assert_eq!(at(&place, &replay).code(0).json()["replayed"], 0);
    assert_eq!(server.number("SELECT count(*) FROM access"), 20);
    let listed = server
        .get("/api/v1/quarantine?stream=access")
        .status(200)
        .json();
    assert_eq!(
        (&listed[0]["waiting"], &listed[0]["replayed"]),
        (&json!(10), &json!(20))
    );
    // Replayed items count as received and stored; they were received and quarantined before.
    let metrics = server.get("/metrics").status(200).text();
    for (what, wanted) in [("received", 20), ("stored", 20), ("quarantined", 0)] {
        let sample = format!("logmill_events_{what}_total{{stream=\"access\"}} {wanted}\n");
        assert!(metrics.contains(&sample), "{sample} in {metrics}");
    }
    assert_eq!(at(&place, &["drop"]).code(0).json()["dropped"], 10);
    assert_eq!(counts(&place), [0, 20, 10]);
    for wrong in [
        "?format=",
        "?format=klingon",
        "?tz=Moon",
        "?stream=A",
        "?colour=red",
    ] {
        let path = format!("/api/v1/quarantine/replay{wrong}");
        let answer = server.post(&path, &[], b"").status(400).json();
        assert_eq!(answer["error"]["code"], "invalid", "{wrong}");
    }
    server.stop();
    assert_verified(&["--data", &home.data], 20);
}

#[test]
fn replays_at_once_share_the_work() {
    let home = waiting(&mixed(20_000, 0));
    let server = Server::start(&home.data);
    let replay = || {
        let mut replay = command();
        replay.args(["quarantine", "replay", "--format", "combined"]);
        replay.args(["--output", "json", "--server", &server.url]);
        replay.stdout(Stdio::piped()).spawn().expect("a replay")
    };
    let replayed = |child: Child| {
        let ended = child.wait_with_output().expect("it ends");
        assert_eq!(ended.status.code(), Some(0));
        let said: Value = serde_json::from_slice(&ended.stdout).expect("JSON");
        said["replayed"].as_u64().expect("a count")
    };
    let all: Vec<Child> = (0..3).map(|_| replay()).collect();
    let shares: Vec<u64> = all.into_iter().map(replayed).collect();
    println!("{shares:?}");
    assert_eq!(shares.iter().sum::<u64>(), 20_000);
    let paths = "SELECT count(DISTINCT path) FROM access";
    assert_eq!(server.number("SELECT count(*) FROM access"), 20_000);
    assert_eq!(server.number(paths), 20_000);
}

#[test]
fn a_replay_killed_at_any_moment_goes_on_and_takes_each_item_once() {
    let (kills, count) = (knob("LOGMILL_KILLS", 4), 30_000);
    let mut random = SmallRng::seed_from_u64(seed());
    let log = mixed(count, 300);
    let replay = |home: &Home| {
        let mut replay = command();
        replay
            .args(["quarantine", "replay", "--format", "combined"])
            .args(["--data", &home.data])
            // Seals happen all the time, and kills hit them.
            .env("LOGMILL_STORAGE__MEMTABLE_BYTES_MAX", "1MiB")
            .stdout(Stdio::null());
        replay
    };
    let mut home = waiting(&log);
    let started = Instant::now();
    assert!(replay(&home).status().expect("a replay").success());
    let length_us = started.elapsed().as_micros() as u64;
    check_replayed(&home, count);
    let (mut hit, mut hits_here, mut partly) = (0, 0, Vec::new());
    home = waiting(&log);
    for _ in 0..kills * 10 {
        if hit == kills {
            break;
        }
        let mut child = replay(&home).spawn().expect("a replay");
        std::thread::sleep(Duration::from_micros(random.random_range(0..length_us)));
        child.kill().expect("a signal to our own child");
        let killed = child.wait().expect("it ends").code().is_none();
        if killed {
            (hit, hits_here) = (hit + 1, hits_here + 1);
            partly.push(check_half(&home, count));
        }
        if !killed || hits_here == 3 || hit == kills {
            assert!(replay(&home).status().expect("a replay").success());
            check_replayed(&home, count);
            (home, hits_here) = (waiting(&log), 0);
        }
    }
    assert_eq!(hit, kills, "too few replays were killed");
    println!("{kills} kills of a replay of {length_us} µs; events found after them: {partly:?}");
}

/// Checks what a reader finds after a kill, before any recovery: each item waits or is an event.
#[track_caller]
fn check_half(home: &Home, count: u64) -> u64 {
    let [waiting, replayed, _] = counts(&["--data", &home.data]);
    assert_eq!(waiting + replayed, count + GARBAGE);
    if replayed == 0 {
        // The stream may not have been made yet.
        return 0;
    }
    let rows = home.sql("SELECT count(*) AS n, count(DISTINCT path) AS d FROM access");
    assert_eq!(
        (&rows[0]["n"], &rows[0]["d"]),
        (&json!(replayed), &json!(replayed))
    );
    replayed
}

#[track_caller]
fn check_replayed(home: &Home, count: u64) {
    assert_eq!(counts(&["--data", &home.data]), [GARBAGE, count, 0]);
    for row in home.sql(&sums_query()) {
        assert_eq!(row["n"], count, "{}", row["t"]);
    }
    assert_eq!(
        home.number("SELECT count(DISTINCT path) FROM access"),
        count
    );
    assert_verified(&["--data", &home.data], count);
}
