//! `partition drop`, `detach`, `attach`, `retain`: raw events leave and come back, the rollups
//! keep counting them.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::{Home, LEVEL_TABLES, Output, PAST_S, Server, line, run};

const DAY_S: i64 = 86_400;

/// Imports three days of three events each.
fn imported() -> Home {
    let home = Home::new();
    let mut log = String::new();
    for day in 0..3 {
        for i in 0..3 {
            let at = PAST_S + day * DAY_S + i * 3600;
            log += &line("203.0.113.9", at, &format!("/{day}/{i}"), 200, 10);
        }
    }
    let file = home.file("access.log", log);
    home.import(&file, &[]);
    home
}

#[track_caller]
fn verify(home: &Home) -> Vec<Value> {
    let args = ["rollup", "verify", "--output", "json", "--data", &home.data];
    let found = run(&args).code(0).json();
    found.as_array().expect("rollups").clone()
}

#[test]
fn a_dropped_day_is_gone_from_raw_and_still_counted() {
    let home = imported();
    let drop = |more: &[&str]| {
        let args = [
            "partition",
            "drop",
            "access",
            "2024-03-02",
            "--output",
            "json",
        ];
        run(&[&args[..], &["--data", &home.data], more].concat())
            .code(0)
            .json()
    };
    assert_eq!(drop(&["--dry-run"])["events"], 3);
    assert_eq!(home.count(), 9, "a dry run drops nothing");
    let dropped = drop(&[]);
    assert_eq!(
        (&dropped["partitions"], &dropped["events"]),
        (&1.into(), &3.into())
    );
    assert_eq!(home.count(), 6);
    for table in LEVEL_TABLES {
        assert_eq!(
            home.number(&format!("SELECT sum(hits) FROM {table}")),
            9,
            "{table}"
        );
    }
    for rollup in verify(&home) {
        assert_eq!(
            (&rollup["windows"], &rollup["windows_incomplete"]),
            (&2.into(), &1.into())
        );
        assert_eq!(rollup["events"], 6);
        let against: Vec<&str> = rollup["levels"]
            .as_array()
            .expect("levels")
            .iter()
            .filter_map(|l| l["against"].as_str())
            .collect();
        assert_eq!(against, ["raw", "raw", "finer", "finer", "finer", "finer"]);
    }
    run(&["check", &home.data]).code(0);
    assert_eq!(drop(&[])["events"], 0, "there is nothing left to drop");
    // Late events are accepted.
    let late = line("203.0.113.9", PAST_S + DAY_S + 60, "/late", 200, 10);
    let file = home.file("late.log", late);
    home.import(&file, &[]);
    assert_eq!(home.count(), 7);
    assert_eq!(verify(&home)[0]["events"], 6);
}

#[test]
fn a_server_drops_a_range_and_bad_questions_are_answered() {
    let home = imported();
    let server = Server::start(&home.data);
    let drop = |date: &str| run(&["partition", "drop", "access", date, "--server", &server.url]);
    let said = drop("2024-03-01..2024-03-03").code(0).stdout;
    assert!(
        said.starts_with("dropped 6 events of access in 2 partitions"),
        "{said}"
    );
    let left = server.sql("SELECT count(*) AS n FROM access");
    assert_eq!(left[0]["n"], 3);
    let wrong = drop("yesterday").code(2).stderr;
    assert!(wrong.contains("2000-10-10"), "{wrong}");
    let nobody = [
        "partition",
        "drop",
        "nobody",
        "2024-03",
        "--server",
        &server.url,
    ];
    let nobody = run(&nobody).code(1).stderr;
    assert!(nobody.contains("there is no stream nobody"), "{nobody}");
    // The server that holds the directory does it.
    let held = [
        "partition",
        "drop",
        "access",
        "2024-03",
        "--data",
        &home.data,
    ];
    let dropped = run(&held).code(0).stdout;
    assert!(
        dropped.starts_with("dropped 3 events of access"),
        "{dropped}"
    );
}

fn partition(home: &Home, args: &[&str]) -> Output {
    run(&[&["partition"], args, &["--data", &home.data]].concat())
}

/// Returns the counts of every level.
fn counted(home: &Home) -> Vec<u64> {
    let sum = |table| home.number(&format!("SELECT sum(hits) FROM {table}"));
    LEVEL_TABLES.into_iter().map(sum).collect()
}

#[test]
fn a_detached_day_lies_in_a_folder_and_comes_back() {
    let home = imported();
    let before = counted(&home);
    let folder = PathBuf::from(home.path("data/detached/access/date=2024-03-02"));
    let detach = ["detach", "access", "2024-03-02"];
    let would = partition(&home, &[&detach[..], &["--dry-run"]].concat()).code(0);
    assert!(would.stdout.starts_with("would detach 3 events of access"));
    assert!(!folder.exists());
    partition(&home, &detach).code(0);
    assert!(folder.join("partition.json").exists());
    assert_eq!((home.count(), counted(&home)), (6, before.clone()));
    let list = partition(&home, &["list", "access", "--output", "json"]);
    let list = list.code(0).json();
    let row = |nth: usize| {
        let row = &list[nth];
        (
            row["state"].clone(),
            row["rows"].clone(),
            row["complete_from"].clone(),
        )
    };
    assert_eq!(row(0), ("live".into(), 3.into(), Value::Null));
    assert_eq!(row(1), ("detached".into(), 3.into(), 9.into()));
    for rollup in verify(&home) {
        assert_eq!(rollup["windows_incomplete"], 1);
    }
    let checked = run(&["check", &home.data]).code(0).stdout;
    assert!(checked.contains("0 differences"), "{checked}");
    // A late event is live, and keeps the day from being detached once more.
    let late = line("203.0.113.9", PAST_S + DAY_S + 60, "/late", 200, 10);
    let file = home.file("late.log", late);
    home.import(&file, &[]);
    assert_eq!(home.count(), 7);
    let again = partition(&home, &detach).code(1).stderr;
    assert!(again.contains("attach it first"), "{again}");
    let away = home.path("away");
    std::fs::rename(&folder, &away).expect("carried away");
    let attach = ["attach", "access", "2024-03"];
    let missing = partition(&home, &attach).code(1).stderr;
    assert!(
        missing.contains("the file is missing; restore the folder"),
        "{missing}"
    );
    let checked = run(&["check", &home.data]).code(0).stdout;
    assert!(checked.contains("a detached partition"), "{checked}");
    std::fs::rename(&away, &folder).expect("brought back");
    let said = partition(&home, &attach).code(0).stdout;
    assert!(said.starts_with("attached 3 events of access"), "{said}");
    assert_eq!(home.count(), 10);
    for rollup in verify(&home) {
        assert_eq!(
            (&rollup["windows_incomplete"], &rollup["events"]),
            (&0.into(), &10.into())
        );
    }
    let twice = partition(&home, &attach).code(1).stderr;
    assert!(
        twice.contains("no partition of access in this range is detached"),
        "{twice}"
    );
    // A detached day can be dropped.
    partition(&home, &detach).code(0);
    let dropped = partition(&home, &["drop", "access", "2024-03-02"])
        .code(0)
        .stdout;
    assert!(
        dropped.starts_with("dropped 4 events of access"),
        "{dropped}"
    );
    assert!(!folder.exists());
    assert_eq!((home.count(), counted(&home)[0]), (6, 10));
}

#[test]
fn a_server_detaches_attaches_and_says_what_its_retention_would_drop() {
    let home = imported();
    let server = Server::start_with(
        &home.data,
        &[("LOGMILL_STREAM__ACCESS__RETENTION", "{ age = \"1d\" }")],
    );
    let there = || server.sql("SELECT count(*) AS n FROM access")[0]["n"].clone();
    let ask = |args: &[&str]| run(&[&["partition"], args, &["--server", &server.url]].concat());
    ask(&["detach", "access", "2024-03-03"]).code(0);
    assert_eq!(there(), 6);
    ask(&["attach", "access", "2024-03-03"]).code(0);
    assert_eq!(there(), 9);
    let twice = ask(&["attach", "access", "2024-03-03"]).code(1).stderr;
    assert!(
        twice.contains("no partition of access in this range is detached"),
        "{twice}"
    );
    // The newest event is of the third day: the first day ends a day before it.
    let would = ask(&["retain", "--dry-run"]).code(0).stdout;
    assert!(
        would.starts_with("would drop 2024-03-01 of access: 3 events"),
        "{would}"
    );
    assert_eq!(would.lines().count(), 1, "{would}");
    assert_eq!(there(), 9);
    let nobody = ask(&["retain", "nobody"]).code(1).stderr;
    assert!(nobody.contains("there is no stream nobody"), "{nobody}");
    ask(&["retain", "access"]).code(0);
    assert_eq!(there(), 6);
}

#[test]
fn a_store_gives_up_its_oldest_days_by_itself_when_it_may_not_have_their_bytes() {
    let home = imported();
    let server = Server::start_with(
        &home.data,
        &[("LOGMILL_STREAM__ACCESS__RETENTION", "{ bytes = 1 }")],
    );
    let started = Instant::now();
    while server.sql("SELECT count(*) AS n FROM access")[0]["n"] != 3 {
        assert!(started.elapsed() < Duration::from_secs(60), "nothing goes");
        std::thread::sleep(Duration::from_millis(50));
    }
    let days = server.sql("SELECT sum(hits) AS n FROM stats.daily");
    assert_eq!(days[0]["n"], 9);
}

#[test]
fn a_detached_day_is_imported_elsewhere_once_and_its_events_keep_their_names() {
    let home = imported();
    let ids = |home: &Home| home.sql("SELECT _id, time, path FROM access ORDER BY time");
    let first_days = ids(&home)[..6].to_vec();
    partition(&home, &["detach", "access", "2024-03-01..2024-03-03"]).code(0);
    let folder = |day: &str| home.path(&format!("data/detached/access/date=2024-03-{day}"));
    let other = Home::new();
    let import = |place: [&str; 2], folders: &[&str]| {
        let args = ["import", "--format", "logmill", "--stream", "access"];
        run(&[&args[..], &["--output", "json"], &place, folders].concat())
    };
    let there = ["--data", &other.data];
    let (first, second) = (folder("01"), folder("02"));
    let once = import(there, &[&first]).code(0).json();
    assert_eq!(
        (&once["accepted"], &once["skipped"]),
        (&3.into(), &0.into())
    );
    let both = import(there, &[&first, &second]).code(0).json();
    assert_eq!(
        (&both["accepted"], &both["skipped"]),
        (&3.into(), &3.into())
    );
    assert_eq!(ids(&other), first_days);
    assert_eq!(counted(&other), [6; 12]);
    for rollup in verify(&other) {
        assert_eq!(
            (&rollup["windows"], &rollup["events"]),
            (&2.into(), &6.into())
        );
    }
    // The store attaches its own partition; it does not import it.
    let here = import(["--data", &home.data], &[&second]).code(1).stderr;
    assert!(
        here.contains("attach it instead: logmill partition attach access 2024-03-02"),
        "{here}"
    );
    let nothing = import(there, &[&first, &home.path("data")]).code(1).stderr;
    assert!(
        nothing.contains("give the folder of a detached partition"),
        "{nothing}"
    );
    let server = Server::start(&other.data);
    let asked = import(["--server", &server.url], &[&first]).code(2).stderr;
    assert!(asked.contains("name the directory with --data"), "{asked}");
    // If one folder is damaged, nothing of any folder is imported.
    let third = Home::new();
    let part = std::fs::read_dir(&second)
        .expect("listed")
        .map(|e| e.expect("listed").path());
    let part = part
        .filter(|p| p.extension().is_some_and(|e| e == "parquet"))
        .last();
    let part = part.expect("a part");
    let whole = std::fs::read(&part).expect("read");
    std::fs::write(&part, &whole[1..]).expect("damaged");
    let damaged = import(["--data", &third.data], &[&first, &second])
        .code(1)
        .stderr;
    assert!(damaged.contains(&part.display().to_string()), "{damaged}");
    assert!(!Path::new(&third.data).exists());
}

#[test]
fn parts_of_many_imports_become_one_for_each_day_and_nothing_else_changes() {
    let home = imported();
    for nth in 0..6 {
        let log = (0..3).map(|day| {
            let at = PAST_S + day * DAY_S + 600 * nth;
            line("203.0.113.9", at, &format!("/late/{nth}"), 200, 10)
        });
        let file = home.file(&format!("{nth}.log"), log.collect::<String>());
        home.import(&file, &[]);
    }
    let parts = || home.number("SELECT count(*) FROM system.parts WHERE stream = 'access'");
    let all = || home.sql("SELECT * FROM access ORDER BY _id");
    let (before, many) = (all(), parts());
    let compact = ["partition", "compact", "access", "--output", "json"];
    let on = |place: [&str; 2]| run(&[&compact[..], &place].concat()).code(0).json();
    let report = on(["--data", &home.data]);
    assert_eq!(
        (report["rows"].as_u64(), parts()),
        (Some(27), 3),
        "{report} of {many}"
    );
    assert_eq!(all(), before);
    assert!(verify(&home).iter().all(|r| r["events"] == 27));
    run(&["check", &home.data]).code(0);
    let server = Server::start(&home.data);
    assert_eq!(
        on(["--server", &server.url])["merged"],
        0,
        "nothing is left"
    );
    let wrong = ["partition", "compact", "No Name", "--server", &server.url];
    assert!(run(&wrong).code(1).stderr.contains("is not a name"));
}
