//! Reports of the store on its own upkeep: `system.maintenance`, `system.disk`, `/metrics`. Work
//! that a crash breaks off is picked up again.

mod killed;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::{Value, json};

use crate::support::{Home, PAST_S, Server, line, run};

const DAY_S: i64 = 86_400;

/// Makes three imports of two events a day and one bad line, over two days.
fn in_pieces() -> Home {
    let home = Home::new();
    for piece in 0..3 {
        let mut log = "GET / of 3\n".to_owned();
        for i in 0..4 {
            let at = PAST_S + i / 2 * DAY_S + piece * 3600 + i % 2;
            log += &line("203.0.113.9", at, &format!("/{piece}/{i}"), 200, 10);
        }
        let file = home.file(&format!("{piece}.log"), log);
        home.import(&file, &["--format", "combined"]);
    }
    home
}

/// Returns job, state, what and why of each row of the log of maintenance.
#[track_caller]
fn logged(rows: Vec<Value>) -> Vec<[String; 4]> {
    let text = |row: &Value, name: &str| row[name].as_str().unwrap_or_default().to_owned();
    let said = |row: &Value| ["job", "state", "what", "why"].map(|name| text(row, name));
    rows.iter().map(said).collect()
}

/// Merges of tiles and scrubs are left out, because they come by themselves.
const LOGGED: &str = "SELECT * FROM system.maintenance WHERE job NOT IN ('compact_tiles', 'scrub') \
                      ORDER BY started";

#[test]
fn what_was_done_and_why_is_in_a_table() {
    let home = in_pieces();
    let at = |args: &[&str], code: i32| {
        run(&[args, &["--data", &home.data]].concat()).code(code);
    };
    at(&["partition", "compact", "access"], 0);
    at(&["partition", "detach", "access", "2024-03-01"], 0);
    let folder = Path::new(&home.data).join("detached/access/date=2024-03-01");
    let part = std::fs::read_dir(&folder).expect("the folder");
    let part = part
        .filter_map(|entry| Some(entry.ok()?.path()))
        .find(|path| path.extension().is_some_and(|e| e == "parquet"))
        .expect("a part");
    let whole = std::fs::read(&part).expect("readable");
    std::fs::write(&part, &whole[1..]).expect("writable");
    at(&["partition", "attach", "access", "2024-03-01"], 1);
    std::fs::write(&part, &whole).expect("writable");
    at(&["partition", "attach", "access", "2024-03-01"], 0);
    at(
        &["partition", "drop", "access", "2024-03-02", "--dry-run"],
        0,
    );
    at(&["partition", "drop", "access", "2024-03-02"], 0);
    at(&["quarantine", "replay", "--stream", "access"], 0);
    at(&["quarantine", "drop"], 0);
    let rows = home.sql(LOGGED);
    let logged_here = logged(rows.clone());
    let jobs: Vec<String> = logged_here
        .iter()
        .map(|t| format!("{} {}", t[0], t[1]))
        .collect();
    let expected = [
        "compact_parts done",
        "detach done",
        "attach failed",
        "attach done",
        "drop done",
        "replay done",
        "give_up done",
    ];
    assert_eq!(jobs, expected, "{logged_here:?}");
    assert_eq!(logged_here[0][2], "merged 6 parts into 2: 12 rows");
    assert_eq!(
        logged_here[0][3],
        "6 parts of similar size in access, date=2024-03-01 and 1 other partitions"
    );
    assert!(rows[0]["bytes_read"].as_u64() > rows[0]["bytes_written"].as_u64());
    let error = rows[2]["last_error"].as_str().expect("an error");
    assert!(error.contains("date=2024-03-01"), "{error}");
    assert_eq!(
        logged_here[4][3],
        "requested by an operator: partitions that begin from 2024-03-02 to 2024-03-03"
    );
    assert!(logged_here[4][2].starts_with("dropped 1 partitions: 6 events"));
    assert_eq!(logged_here[5][2], "0 of 3 items became events");
    assert_eq!(rows[6]["done"], 3);
    assert!(
        rows.iter()
            .all(|r| r["stream"] == "access" || r["stream"].is_null())
    );
    // A server reports the same and adds its own.
    let server = Server::start(&home.data);
    let dir = home.path("backup");
    let body = json!({ "dir": dir }).to_string();
    let headers = [("content-type", "application/json")];
    server
        .post("/api/v1/backup", &headers, body.as_bytes())
        .status(200);
    let beside = server.sql(LOGGED);
    assert_eq!(beside[..rows.len()], rows);
    let last = &logged(beside)[rows.len()];
    assert_eq!(last[..2], ["backup", "done"]);
    assert!(
        last[2].starts_with(&format!("made a backup in {dir}")),
        "{last:?}"
    );
    // A backup is a store without this history.
    let backup = home.path("backup");
    let none = run(&[
        "sql",
        "SELECT count(*) AS n FROM system.maintenance",
        "--output",
        "json",
        "--data",
        &backup,
    ]);
    assert_eq!(none.code(0).json()[0]["n"], 0);
}

#[test]
fn metrics_are_text_that_prometheus_reads_and_agree_with_the_disk() {
    let home = Home::new();
    for piece in 0..3 {
        let line = |i: i64| {
            line(
                "203.0.113.9",
                PAST_S + i * 40,
                &format!("/{piece}/{}", i % 700),
                200,
                10,
            )
        };
        let log: String = (0..5000).map(line).collect();
        let file = home.file(&format!("{piece}.log"), log + "bad\n");
        home.import(&file, &["--format", "combined"]);
    }
    run(&[
        "partition",
        "detach",
        "access",
        "2024-03-01",
        "--data",
        &home.data,
    ])
    .code(0);
    let server = Server::start_with(&home.data, &[("LOGMILL_STORAGE__TENDS", "false")]);
    server.seal();
    let text = server.get("/metrics").status(200).text();
    let samples = parse(&text);
    let sum = |prefix: &str| -> f64 {
        let of = samples.iter().filter(|(name, _)| name.starts_with(prefix));
        of.map(|(_, value)| value).sum()
    };
    let told = sum("logmill_disk_bytes{");
    let lies = bytes_below(Path::new(&home.data)) as f64;
    assert!(
        (told / lies - 1.0).abs() < 0.03,
        "{told} bytes told, {lies} there"
    );
    let table = server.number("SELECT sum(bytes) FROM system.disk") as f64;
    assert!(
        (told / table - 1.0).abs() < 0.03,
        "{told} here, {table} there"
    );
    for kind in ["parts", "tiles", "detached"] {
        let sample = format!("logmill_disk_bytes{{stream=\"access\",kind=\"{kind}\"}}");
        assert!(
            samples.get(&sample).is_some_and(|b| *b > 0.0),
            "{sample}: {text}"
        );
    }
    let quarantine =
        "SELECT sum(bytes) FROM system.disk WHERE stream = '_quarantine' AND kind = 'parts'";
    assert!(server.number(quarantine) > 0);
    let parts = "SELECT sum(bytes) FROM system.parts WHERE stream = 'access'";
    let of_parts = "SELECT sum(bytes) FROM system.disk WHERE stream = 'access' AND kind = 'parts'";
    assert_eq!(server.number(parts), server.number(of_parts));
    let (free, total) = (
        sum("logmill_disk_free_bytes"),
        sum("logmill_disk_total_bytes"),
    );
    assert!(free > 0.0 && free < total, "{free} of {total}");
    assert!(
        !text.contains("\nlogmill_disk_full_days"),
        "nothing is known on the first day"
    );
    // A merge takes exactly the parts that the debt counts.
    let debt = sum("logmill_compaction_debt_parts{stream=\"access\"}");
    assert!(debt > 1.0 && sum("logmill_compaction_debt_bytes{stream=\"access\"}") > 0.0);
    assert!(sum("logmill_tile_compaction_debt_sections{rollup=\"stats\"}") > 1.0);
    let report = server.post("/api/v1/partitions/compact?stream=access", &[], b"");
    assert_eq!(report.status(200).json()["merged"].as_f64(), Some(debt));
    server.post("/api/v1/rollups/compact", &[], b"").status(200);
    let after = parse(&server.get("/metrics").text());
    assert_eq!(
        after["logmill_compaction_debt_parts{stream=\"access\"}"],
        0.0
    );
    assert_eq!(
        after["logmill_tile_compaction_debt_bytes{rollup=\"stats\"}"],
        0.0
    );
    for job in ["compact_parts", "compact_tiles"] {
        let of = |what: &str| after[&format!("logmill_maintenance_{what}_total{{job=\"{job}\"}}")];
        assert_eq!((of("runs"), of("failures")), (1.0, 0.0));
        assert!(of("seconds") > 0.0);
    }
}

/// Returns samples by name and labels. Checks that every family is declared once, before its
/// samples, and that no sample is there twice.
#[track_caller]
fn parse(text: &str) -> BTreeMap<String, f64> {
    let mut samples = BTreeMap::new();
    let (mut families, mut family) = (BTreeSet::new(), String::new());
    for line in text.lines() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            family = help.split(' ').next().expect("a name").to_owned();
            assert!(
                families.insert(family.clone()),
                "{family} is declared twice"
            );
        } else if let Some(kind) = line.strip_prefix("# TYPE ") {
            let kinds = ["counter", "gauge", "histogram"];
            let known = kinds.map(|kind| format!("{family} {kind}"));
            assert!(known.iter().any(|k| k == kind), "{line}");
        } else {
            let (name, value) = line.rsplit_once(' ').expect("a name and a value");
            let bare = name.split('{').next().expect("a name");
            let parts = ["", "_bucket", "_sum", "_count"];
            let of_family = parts.map(|part| format!("{family}{part}"));
            assert!(of_family.iter().any(|name| name == bare), "{line}");
            let labels = &name[bare.len()..];
            let closed = labels.is_empty() || labels.starts_with('{') && labels.ends_with("\"}");
            assert!(closed, "{line}");
            let value: f64 = value.parse().expect("a number");
            assert!(
                samples.insert(name.to_owned(), value).is_none(),
                "{line}: twice"
            );
        }
    }
    samples
}

/// Returns bytes as `du` counts them: a file with two names once.
fn bytes_below(dir: &Path) -> u64 {
    let mut inodes = BTreeSet::new();
    let (mut bytes, mut folders) = (0, vec![dir.to_path_buf()]);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a directory") {
            let entry = entry.expect("an entry");
            // Files of readers may appear and disappear meanwhile.
            let Ok(meta) = entry.metadata() else { continue };
            if meta.is_dir() {
                folders.push(entry.path());
            } else if inodes.insert(std::os::unix::fs::MetadataExt::ino(&meta)) {
                bytes += meta.len();
            }
        }
    }
    bytes
}
