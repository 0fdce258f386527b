//! What an import remembers of a file, and who may write: the same command again adds nothing.

use serde_json::{Value, json};

use crate::support::{Home, PAST_S, Server, import, line, run, sample};

/// `n` lines whose paths tell them apart.
fn lines(name: &str, n: i64) -> String {
    (0..n)
        .map(|i| line("203.0.113.1", PAST_S + i, &format!("/{name}/{i}"), 200, 10))
        .collect()
}

#[track_caller]
fn assert_figures(figures: &Value, accepted: u64, skipped: u64) {
    let found = (&figures["accepted"], &figures["skipped"]);
    assert_eq!(found, (&json!(accepted), &json!(skipped)), "{figures}");
}

#[test]
fn the_same_import_again_adds_nothing_and_says_so() {
    let home = Home::new();
    let first = home.import(&sample(), &[]);
    let lines = first["lines"].as_u64().expect("a number");
    let second = home.import(&sample(), &[]);
    assert_figures(&second, 0, lines);
    assert_eq!(second["quarantined"], 0);
    let file = sample();
    let told = run(&["import", &file, "--stream", "access", "--data", &home.data]).code(0);
    assert!(told.stdout.contains("nothing new"), "{}", told.stdout);
    assert_eq!(home.count(), 619);
    assert_eq!(home.number("SELECT count(*) FROM system.quarantine"), 22);
}

#[test]
fn a_grown_file_adds_its_new_lines() {
    let home = Home::new();
    let mut content = lines("a", 40);
    for (round, more) in [0, 7, 1, 300].into_iter().enumerate() {
        content += &lines(&format!("more{round}"), more);
        let file = home.file("grows.log", &content);
        let before = if round == 0 { 0 } else { home.count() };
        let new = content.lines().count() as u64 - before;
        assert_figures(&home.import(&file, &[]), new, before);
        assert_eq!(home.count(), before + new);
    }
    assert_eq!(home.number("SELECT count(DISTINCT path) FROM access"), 348);
}

#[test]
fn other_content_under_a_known_path_is_a_new_file() {
    let home = Home::new();
    let (old, new) = (lines("old", 30), lines("new", 50));
    let file = home.file("rotated.log", &old);
    assert_figures(&home.import(&file, &[]), 30, 0);
    home.file("rotated.log", &new);
    assert_figures(&home.import(&file, &[]), 50, 0);
    assert_figures(&home.import(&file, &[]), 0, 50);
    // Both contents stay known.
    home.file("rotated.log", &old);
    assert_figures(&home.import(&file, &[]), 0, 30);
    home.file("rotated.log", new + &lines("grown", 3));
    assert_figures(&home.import(&file, &[]), 3, 50);
    assert_eq!(home.count(), 83);
}

#[test]
fn again_imports_anew() {
    let home = Home::new();
    let file = home.file("a.log", lines("a", 20));
    assert_figures(&home.import(&file, &[]), 20, 0);
    assert_figures(&home.import(&file, &["--again"]), 20, 0);
    assert_figures(&home.import(&file, &[]), 0, 20);
    assert_eq!(home.count(), 40);
}

#[test]
fn path_and_site_are_part_of_a_files_identity() {
    let home = Home::new();
    let content = lines("a", 20);
    let first = home.file("a.log", &content);
    let second = home.file("b.log", &content);
    assert_figures(&home.import(&first, &[]), 20, 0);
    assert_figures(&home.import(&second, &[]), 20, 0);
    assert_figures(&home.import(&first, &["--site", "shop.example"]), 20, 0);
    assert_figures(&home.import(&first, &["--site", "shop.example"]), 0, 20);
    assert_eq!(
        home.number("SELECT count(*) FROM access WHERE site = 'shop.example'"),
        20
    );
    // The same file by another spelling of its path is the same file.
    let (folder, name) = first.rsplit_once('/').expect("an absolute path");
    assert_figures(&home.import(&format!("{folder}/./{name}"), &[]), 0, 20);
}

#[test]
fn a_command_that_writes_fails_on_a_store_that_a_server_holds() {
    let home = Home::new();
    let server = Server::start(&home.data);
    server.ingest("access", lines("a", 5));
    let file = sample();
    for writing in [
        &["import", &file, "--stream", "access", "--data", &home.data][..],
        &["rollup", "run", "--data", &home.data],
        &["serve", &home.data, "--http", "127.0.0.1:0"],
    ] {
        let told = run(writing).code(1);
        let wanted = format!("--server {}", server.url);
        assert!(
            told.stderr.contains(&wanted),
            "{writing:?}: {}",
            told.stderr
        );
        assert!(
            told.stderr.contains(&server.pid().to_string()),
            "{}",
            told.stderr
        );
    }
    assert_eq!(server.number("SELECT count(*) FROM access"), 5);
    assert_eq!(home.count(), 5, "a reader is not in the way");
}

#[test]
fn an_import_through_a_server_resumes_and_adds_nothing_twice() {
    let home = Home::new();
    let mut content = lines("a", 40);
    let file = home.file("grows.log", &content);
    assert_figures(&home.import(&file, &[]), 40, 0);
    let server = Server::start(&home.data);
    let place = ["--server", server.url.as_str()];
    // What was taken into the directory is known through the server, and the other way round.
    assert_figures(&import(&place, &file, &[]), 0, 40);
    content += &lines("more", 25);
    home.file("grows.log", &content);
    assert_figures(&import(&place, &file, &["--journal"]), 25, 40);
    assert_figures(&import(&place, &file, &[]), 0, 65);
    let figures = import(&place, &sample(), &[]);
    assert_figures(&figures, 619, 0);
    assert_eq!(
        (&figures["quarantined"], &figures["empty"]),
        (&json!(22), &json!(5))
    );
    assert_figures(&import(&place, &sample(), &[]), 0, 646);
    assert_eq!(server.stop(), Some(0));
    assert_figures(&home.import(&file, &[]), 0, 65);
    assert_eq!(home.count(), 65 + 619);
    assert_eq!(home.number("SELECT sum(hits) FROM stats.yearly"), 65 + 619);
    let sources = home.sql("SELECT producer, position FROM system.sources ORDER BY position");
    assert_eq!(sources.len(), 2, "{sources:?}");
    assert_eq!(sources[0]["position"], content.len());
}
