//! Sealed files in an object store: the server `moto`, which answers conditional puts as S3 does.

use std::path::Path;
use std::time::Duration;

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use rustix::process::Signal;

use crate::shippers::wait_for;
use crate::support::{Home, Moto, PATIENCE, Server, command, finish, knob, seed};

const COUNT: &str = "SELECT count(*) AS n FROM hits";

/// Returns lines of events with these numbers, over three days.
fn lines(numbers: std::ops::Range<u64>) -> String {
    let line = |n: u64| {
        let day = 1 + n % 3;
        format!(
            "{{\"time\":\"2024-05-0{day}T10:00:00Z\",\"n\":{n},\"path\":\"/{}\"}}\n",
            n % 7
        )
    };
    numbers.map(line).collect()
}

/// Returns the sealed files of a data directory.
fn copies(data: &str) -> usize {
    fn count(folder: &Path) -> usize {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        entries
            .map(|entry| match entry.path() {
                path if path.is_dir() => count(&path),
                _ => 1,
            })
            .sum()
    }
    count(&Path::new(data).join("streams")) + count(&Path::new(data).join("rollups"))
}

const QUESTIONS: [&str; 4] = [
    "SELECT count(*) AS n, sum(n) AS s FROM hits",
    "SELECT path, count(*) AS n FROM hits GROUP BY path ORDER BY path",
    "SELECT n, path FROM hits WHERE n BETWEEN 100 AND 120 ORDER BY n",
    "SELECT date_trunc('day', time) AS day, count(*) AS n FROM hits GROUP BY day ORDER BY day",
];

#[test]
fn sealed_files_are_read_from_the_object_store_alone() {
    let Some(moto) = Moto::start() else {
        return;
    };
    let (home, elsewhere) = (Home::new(), Home::new());
    // One byte: every copy goes once it is in the object store.
    let few = [("LOGMILL_STORAGE__LOCAL_BYTES_MAX", "1")];
    let writer = moto.serve(&home.data, &[], &few);
    writer.ingest("hits?format=json", lines(0..3000));
    let before = QUESTIONS.map(|question| writer.sql(question));
    writer.seal();
    wait_for(|| copies(&home.data) == 0);
    assert_eq!(QUESTIONS.map(|question| writer.sql(question)), before);
    // A command beside the server, and a server without state.
    let mut ask = command();
    ask.args([
        "sql",
        QUESTIONS[1],
        "--data",
        &home.data,
        "--output",
        "json",
    ]);
    let told = finish(ask.envs(moto.environment()), &[]);
    assert_eq!(
        told.code(0).json(),
        serde_json::Value::Array(before[1].clone())
    );
    let reader = moto.serve(&elsewhere.data, &["--reader"], &[]);
    assert_eq!(QUESTIONS.map(|question| reader.sql(question)), before);
    let refused = reader.post(
        "/api/v1/ingest/hits?format=json",
        &[],
        lines(0..1).as_bytes(),
    );
    assert_ne!(refused.status, 200, "{}", refused.text());
    // It follows the writer.
    writer.ingest("hits?format=json", lines(3000..4000));
    assert_eq!(reader.number(COUNT), 3000);
    writer.seal();
    wait_for(|| reader.number(COUNT) == 4000);
    assert_eq!(reader.stop(), Some(0));
    assert_eq!(writer.stop(), Some(0));
    // The copies are no part of the store: it starts without them.
    let again = moto.serve(&home.data, &[], &few);
    assert_eq!(again.number(COUNT), 4000);
}

#[test]
fn a_writer_that_was_taken_over_commits_nothing() {
    let Some(moto) = Moto::start() else {
        return;
    };
    let (old, new) = (Home::new(), Home::new());
    let mut zombie = moto.serve(&old.data, &[], &[]);
    zombie.ingest("hits?format=json", lines(0..1000));
    zombie.seal();
    zombie.ingest("hits?format=json", lines(1000..1100));
    zombie.signal(Signal::STOP);
    // Its unsealed events would be left behind: that needs a word.
    let told = moto
        .try_serve(&new.data, &[], &[])
        .err()
        .expect("it is refused");
    assert!(told.stderr.contains("--take-over"), "{}", told.stderr);
    let owner = moto.serve(&new.data, &["--take-over"], &[]);
    assert_eq!(owner.number(COUNT), 1000);
    owner.ingest("hits?format=json", lines(2000..2500));
    owner.seal();
    // No number can be one that the writer before has given.
    let first = owner.number("SELECT min(_seq) AS n FROM hits WHERE n >= 2000");
    assert!(first >= 1 << 32, "{first}");
    zombie.signal(Signal::CONT);
    // The process may end before it can answer.
    let late = zombie.try_post("/api/v1/rollups/run", &[], b"");
    assert!(!late.is_ok_and(|answer| answer.status == 200));
    let code = zombie.ended(PATIENCE);
    let log = zombie.log();
    assert_eq!(code, 74, "{log}");
    assert!(log.contains("has taken over"), "{log}");
    // It is refused from now on, and the owner goes on.
    let told = moto
        .try_serve(&old.data, &[], &[])
        .err()
        .expect("it is refused");
    assert!(told.stderr.contains("has taken over"), "{}", told.stderr);
    owner.ingest("hits?format=json", lines(2500..3000));
    owner.seal();
    assert_eq!(owner.number(COUNT), 2000);
    assert_eq!(owner.stop(), Some(0));
    // Everything is sealed, and the writer has closed the store: nothing can be left behind.
    // Other commands than serve do not take it over.
    let third = Home::new();
    let file = third.file("lines", lines(0..1));
    let mut import = command();
    import.args(["import", &file, "--stream", "hits", "--data", &third.data]);
    let told = finish(import.envs(moto.environment()), &[]);
    assert_ne!(told.code, 0);
    assert!(told.stderr.contains("logmill serve"), "{}", told.stderr);
    let owner = moto.serve(&third.data, &["--take-over"], &[]);
    assert_eq!(owner.number(COUNT), 2000);
    let distinct = owner.number("SELECT count(DISTINCT n) AS n FROM hits");
    assert_eq!(distinct, 2000);
}

#[test]
fn nothing_is_lost_or_doubled_while_the_writer_is_killed_and_the_object_store_stops() {
    let Some(moto) = Moto::start() else {
        return;
    };
    let home = Home::new();
    let kills = knob("LOGMILL_KILLS", 6);
    let mut random = SmallRng::seed_from_u64(seed());
    let lag = [
        ("LOGMILL_STORAGE__LAG", "200ms"),
        ("LOGMILL_STORAGE__OBJECTS_GRACE", "1s"),
    ];
    // A stream is created in the object store.
    let server = moto.serve(&home.data, &[], &lag);
    server.ingest("hits?format=json", lines(0..100));
    server.kill();
    let mut sent = 1;
    for kill in 0..kills {
        let server = moto.serve(&home.data, &[], &lag);
        let until =
            std::time::Instant::now() + Duration::from_millis(random.random_range(300..1800));
        let stops = random.random_range(0..3) == 0;
        if stops {
            moto.signal(Signal::STOP);
        }
        while std::time::Instant::now() < until {
            let key = format!("batch-{sent}");
            let headers = [("Idempotency-Key", &*key)];
            let body = lines(sent * 100..(sent + 1) * 100);
            let path = "/api/v1/ingest/hits?format=json";
            let answer = server.post(path, &headers, body.as_bytes());
            assert_eq!(answer.status, 200, "{}", answer.text());
            sent += 1;
            std::thread::sleep(Duration::from_millis(5));
        }
        if stops {
            moto.signal(Signal::CONT);
        }
        println!("kill {kill} after {sent} batches");
        server.kill();
    }
    let server = moto.serve(&home.data, &[], &lag);
    server.seal();
    let verify = server.sql("SELECT count(*) AS n, count(DISTINCT n) AS d FROM hits");
    assert_eq!(
        verify[0],
        serde_json::json!({"n": sent * 100, "d": sent * 100})
    );
    assert_eq!(server.stop(), Some(0));
    let elsewhere = Home::new();
    let reader = moto.serve(&elsewhere.data, &["--reader"], &[]);
    assert_eq!(reader.number(COUNT), sent * 100);
}

#[test]
fn a_flag_or_an_address_that_does_not_fit_is_told() {
    let home = Home::new();
    let told = Server::try_start_as(&home.data, &["--reader"], &[]).err();
    let told = told.expect("it is refused").stderr;
    assert!(told.contains("objects of [storage]"), "{told}");
    let wrong = [("LOGMILL_STORAGE__OBJECTS", "ftp://logs")];
    let told = Server::try_start_as(&home.data, &[], &wrong).err();
    let told = told.expect("it is refused").stderr;
    assert!(told.contains("s3://"), "{told}");
}
