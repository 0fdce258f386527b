//! `repair --accept-loss`: damaged files are given up or made again, and nothing else.

use std::path::{Path, PathBuf};

use crate::support::{Home, Server, assert_verified, run, sample};

fn imported() -> (Home, u64) {
    let home = Home::new();
    home.import(&sample(), &[]);
    let events = home.count();
    (home, events)
}

/// Returns the first file below a folder of the store.
fn file_in(home: &Home, folder: &str, ending: &str) -> PathBuf {
    let mut folders = vec![Path::new(&home.data).join(folder)];
    while let Some(next) = folders.pop() {
        for entry in std::fs::read_dir(next).expect("a folder of the store") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.to_string_lossy().ends_with(ending) {
                return path;
            }
        }
    }
    panic!("{folder} holds no {ending}");
}

fn damage(path: &Path) {
    let mut bytes = std::fs::read(path).expect("a file");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x40;
    std::fs::write(path, bytes).expect("written");
}

#[test]
fn a_damaged_tile_is_made_again_from_the_raw_events() {
    let (home, events) = imported();
    let tile = file_in(&home, "rollups/stats", ".tile");
    damage(&tile);
    let checked = run(&["check", &home.data]).code(1).stdout;
    assert!(checked.contains(&*tile.to_string_lossy()), "{checked}");
    let refused = run(&["repair", &home.data]).code(2).stderr;
    assert!(refused.contains("--accept-loss"), "{refused}");
    let repaired = run(&["repair", &home.data, "--accept-loss"]).code(0).stdout;
    assert!(
        repaired.contains("rebuilt from the raw events"),
        "{repaired}"
    );
    assert!(
        repaired.contains("\n0 events of damaged parts are lost"),
        "{repaired}"
    );
    run(&["check", &home.data]).code(0);
    assert_verified(&["--data", &home.data], events);
    let again = run(&["repair", &home.data, "--accept-loss"]).code(0).stdout;
    assert!(again.contains("nothing is damaged"), "{again}");
}

#[test]
fn a_damaged_part_is_given_up_and_its_evidence_kept() {
    let (home, events) = imported();
    let part = file_in(&home, "streams/access", ".parquet");
    damage(&part);
    let asked = run(&[
        "sql",
        "SELECT /*+ no_rollup */ sum(length(path)) FROM access",
        "--data",
        &home.data,
    ]);
    assert_eq!(asked.code, 65, "{}{}", asked.stdout, asked.stderr);
    let name = part
        .file_name()
        .expect("a name")
        .to_string_lossy()
        .into_owned();
    assert!(asked.stderr.contains(&name), "{}", asked.stderr);
    run(&["repair", &home.data, "--accept-loss"]).code(0);
    let left = home.count();
    assert!(left < events, "{left} of {events}");
    assert_eq!(home.number("SELECT sum(hits) FROM stats.yearly"), events);
    run(&["check", &home.data]).code(0);
    let report = file_in(&home, "damaged", "report.txt");
    let report = std::fs::read_to_string(report).expect("a report");
    assert!(report.contains(&name), "{report}");
    file_in(&home, "damaged", &name);
}

/// The parts are recovered after the loss of all else, and the rollups begin anew from them.
#[test]
fn a_store_that_is_had_back_from_its_parts_knows_the_kinds_of_its_streams() {
    let home = Home::new();
    // An access log with a column more, and documents with a column that access logs have.
    let web = home.file(
        "web.log",
        "203.0.113.7 [01/Mar/2024:00:00:00 +0000] 200 1234\n",
    );
    let app = home.file(
        "app.log",
        "{\"time\":1709251200,\"host\":\"h\",\"status\":200}\n",
    );
    for (file, stream, format) in [(&web, "web", "apache:%h %t %s %D"), (&app, "app", "json")] {
        let import = ["import", file, "--stream", stream, "--format", format];
        run(&[&import[..], &["--data", &home.data]].concat()).code(0);
    }
    let kinds = || home.sql("SELECT name, kind FROM system.streams ORDER BY name");
    let kinds_before = kinds();
    for folder in ["manifest", "manifest-copy", "journal"] {
        std::fs::remove_dir_all(Path::new(&home.data).join(folder)).expect("removed");
    }
    run(&["repair", &home.data, "--accept-loss"]).code(0);
    assert_eq!(kinds(), kinds_before);
}

#[test]
fn without_its_manifest_and_its_journal_a_store_is_had_back_from_its_parts() {
    let (home, events) = imported();
    for folder in ["manifest", "manifest-copy", "journal"] {
        std::fs::remove_dir_all(Path::new(&home.data).join(folder)).expect("removed");
    }
    let refused = run(&["sql", "SELECT 1", "--data", &home.data])
        .code(65)
        .stderr;
    assert!(refused.contains("repair --accept-loss"), "{refused}");
    let repaired = run(&["repair", &home.data, "--accept-loss"]).code(0).stdout;
    assert!(
        repaired.contains("recounts the rollups from the raw events"),
        "{repaired}"
    );
    assert!(!repaired.contains("logmill repair"), "{repaired}");
    assert_eq!(home.count(), events);
    let server = Server::start(&home.data);
    assert_eq!(server.number("SELECT sum(hits) FROM stats.yearly"), events);
    assert_eq!(server.stop(), Some(0));
    assert_verified(&["--data", &home.data], events);
    run(&["check", &home.data]).code(0);
}

#[test]
fn a_store_that_a_server_has_is_not_repaired() {
    let (home, _) = imported();
    let server = Server::start(&home.data);
    let locked = run(&["repair", &home.data, "--accept-loss"]).code(1).stderr;
    assert!(locked.contains(&server.url), "{locked}");
}
