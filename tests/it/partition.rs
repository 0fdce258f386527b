//! `partition drop`: raw events go by hand, the rollups keep counting them.

use serde_json::Value;

use crate::support::{Home, LEVEL_TABLES, PAST_S, Server, line, run};

const DAY_S: i64 = 86_400;

/// Three days of three events each.
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
    // What comes late is taken.
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
    let locked = [
        "partition",
        "drop",
        "access",
        "2024-03",
        "--data",
        &home.data,
    ];
    let locked = run(&locked).code(1).stderr;
    assert!(
        locked.contains(&format!("--server {}", server.url)),
        "{locked}"
    );
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
