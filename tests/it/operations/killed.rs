//! Jobs with a state of their own, killed halfway.

use std::process::Stdio;
use std::time::{Duration, Instant};

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use crate::support::{Home, PAST_S, Server, command, knob, line, run, seed};

const PAGES: &str = r#"
[rollup.pages]
stream = "access"
by = ["path"]
[rollup.pages.measures]
hits = "count"
bytes = "sum(size)"
"#;

const UNCOUNTED: &str = "SELECT max(uncounted) FROM system.rollups WHERE name = 'pages'";

/// Makes a store with events of four days, each with a path of its own.
fn long() -> (Home, u64) {
    let (home, count) = (Home::new(), 40_000);
    let log: String = (0..count)
        .map(|i| {
            line(
                "203.0.113.9",
                PAST_S + i * 8,
                &format!("/line/{i}"),
                200,
                10,
            )
        })
        .collect();
    let file = home.file("long.log", log);
    home.import(&file, &[]);
    (home, count as u64)
}

#[test]
fn a_backfill_that_is_killed_is_begun_anew_and_counts_each_event_once() {
    let mut random = SmallRng::seed_from_u64(seed());
    let (home, count) = long();
    let config = home.file("logmill.toml", PAGES);
    let start = || {
        let mut start = command();
        start
            .args(["rollup", "run", "--data", &home.data, "--config", &config])
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        start.spawn().expect("it starts")
    };
    let backfills = "SELECT count(*) FROM system.maintenance WHERE job = 'backfill'";
    let kills = knob("LOGMILL_KILLS", 4);
    let (mut halfway, mut tries) = (0, 0);
    while halfway < kills && home.number(backfills) == 0 {
        tries += 1;
        let mut child = start();
        // The kill comes as soon as there is a file of the rollup, or a little later.
        let folder = std::path::Path::new(&home.data).join("rollups/pages");
        let until = Instant::now() + Duration::from_secs(30);
        let files = || std::fs::read_dir(&folder).map_or(0, Iterator::count);
        while files() == 0 && child.try_wait().expect("our child").is_none() {
            assert!(Instant::now() < until, "no backfill within half a minute");
            std::thread::sleep(Duration::from_micros(200));
        }
        std::thread::sleep(Duration::from_micros(random.random_range(0..2000)));
        child.kill().expect("a signal to our own child");
        child.wait().expect("the killed one ends");
        if home.number(backfills) > 0 {
            break;
        }
        halfway += u64::from(files() > 0);
        // The rollup's hits and its uncounted events add up to all events.
        assert_eq!(home.count(), count);
        let known = "SELECT count(*) FROM system.rollups WHERE name = 'pages'";
        if home.number(known) > 0 {
            let uncounted = home.number(UNCOUNTED);
            let hits = home.number("SELECT coalesce(sum(hits), 0) FROM pages.daily");
            assert_eq!(hits + uncounted, count);
        }
        run(&["check", &home.data]).code(0);
    }
    assert!(halfway > 0, "none of {tries} was killed in the middle");
    assert!(start().wait().expect("it ends").success());
    for _ in 0..count {
        if home.number(UNCOUNTED) == 0 {
            break;
        }
        assert!(start().wait().expect("it ends").success());
    }
    let not_done =
        "SELECT count(*) FROM system.maintenance WHERE job = 'backfill' AND state <> 'done'";
    assert!(home.number(backfills) > 0, "nothing says what was counted");
    assert_eq!(home.number(not_done), 0);
    for level in ["minutely", "daily", "yearly"] {
        assert_eq!(
            home.number(&format!("SELECT sum(hits) FROM pages.{level}")),
            count
        );
    }
    run(&["check", &home.data]).code(0);
    println!("{halfway} backfills were killed in the middle, of {tries}");
}

#[test]
fn the_scrub_goes_on_where_it_was_killed() {
    let (home, _) = long();
    let often = [
        ("LOGMILL_STORAGE__SCRUB_INTERVAL", "20ms"),
        ("LOGMILL_STORAGE__SCRUB_SHARE", "0.125"),
    ];
    let turns = |rows: Vec<serde_json::Value>| -> Vec<u64> {
        let why = rows.iter().map(|r| r["why"].as_str().expect("a reason"));
        let turn = |why: &str| {
            let number = why.strip_prefix("scrub turn ")?.split(',').next()?;
            number.parse().ok()
        };
        why.map(|why| turn(why).unwrap_or_else(|| panic!("{why}")))
            .collect()
    };
    let scrubs = "SELECT why FROM system.maintenance WHERE job = 'scrub' AND state = 'done' \
                  ORDER BY started";
    let mut seen = 0;
    for _ in 0..3 {
        let server = Server::start_with(&home.data, &often);
        let until = Instant::now() + Duration::from_secs(60);
        while turns(server.sql(scrubs)).len() < seen + 3 {
            assert!(
                Instant::now() < until,
                "no turn in a minute: {}",
                server.log()
            );
            std::thread::sleep(Duration::from_millis(20));
        }
        server.kill();
        let all = turns(home.sql(scrubs));
        seen = all.len();
        // A turn whose end was logged before its position was saved is done twice; none is left
        // out.
        assert_eq!(all[0], 0);
        assert!(
            all.windows(2).all(|w| w[1] == w[0] + 1 || w[1] == w[0]),
            "{all:?}"
        );
        assert!(*all.last().expect("turns") as usize + 3 >= seen, "{all:?}");
    }
    // Without its saved position, or with another share, the scrub begins anew.
    std::fs::remove_file(format!("{}/maintenance/scrub", home.data)).expect("its place");
    let server = Server::start_with(&home.data, &often);
    let until = Instant::now() + Duration::from_secs(60);
    while turns(server.sql(scrubs)).len() == seen {
        assert!(
            Instant::now() < until,
            "no turn in a minute: {}",
            server.log()
        );
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(turns(server.sql(scrubs))[seen], 0);
}
