//! Identity of imports: the record of an imported file, and the right to write; the same command
//! again adds nothing.

use std::io::Write;

use serde_json::{Value, json};

use crate::support::{Home, PAST_S, Server, import, line, run, run_with_input, sample};

/// Returns `n` lines with a path of its own each.
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
fn a_file_is_known_by_its_content_and_the_site() {
    let home = Home::new();
    let content = lines("a", 20);
    let first = home.file("a.log", &content);
    let second = home.file("b.log", &content);
    assert_figures(&home.import(&first, &[]), 20, 0);
    assert_figures(&home.import(&second, &[]), 0, 20);
    assert_figures(&home.import(&first, &["--site", "shop.example"]), 20, 0);
    assert_figures(&home.import(&second, &["--site", "shop.example"]), 0, 20);
    assert_eq!(
        home.number("SELECT count(*) FROM access WHERE site = 'shop.example'"),
        20
    );
}

/// Rotates `access.log` to `access.log.1` and then `access.log.1.gz`, as logrotate does it.
fn rotates(place: &[&str], home: &Home) {
    let gzip = |text: &str| {
        let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        out.write_all(text.as_bytes()).expect("memory");
        out.finish().expect("memory")
    };
    let monday = lines("monday", 760);
    let log = home.file("access.log", &monday);
    assert_figures(&import(place, &log, &[]), 760, 0);
    // The file was renamed; some lines came after the last import.
    let monday = monday + &lines("late", 5);
    let (log, old) = (
        home.file("access.log", lines("tuesday", 40)),
        home.file("access.log.1", &monday),
    );
    assert_figures(&import(place, &old, &[]), 5, 760);
    assert_figures(&import(place, &log, &[]), 40, 0);
    // The file was compressed.
    std::fs::remove_file(old).expect("a file");
    let packed = home.file("access.log.1.gz", gzip(&monday));
    assert_figures(&import(place, &packed, &[]), 0, 765);
    // The file was copied and truncated.
    let copy = home.file("access.log.2", lines("tuesday", 40));
    let log = home.file("access.log", lines("wednesday", 12));
    assert_figures(&import(place, &copy, &[]), 0, 40);
    assert_figures(&import(place, &log, &[]), 12, 0);
    assert_figures(&import(place, &packed, &["--again"]), 765, 0);
}

#[test]
fn a_rotated_log_is_known_whatever_it_is_called_and_however_it_is_packed() {
    let home = Home::new();
    rotates(&["--data", &home.data], &home);
    assert_eq!(home.count(), 765 + 40 + 12 + 765);
    let home = Home::new();
    let server = Server::start(&home.data);
    rotates(&["--server", server.url.as_str()], &home);
    assert_eq!(
        server.number("SELECT count(*) FROM access"),
        765 + 40 + 12 + 765
    );
}

/// Stores of earlier versions know files by their paths.
#[test]
fn what_an_earlier_version_imported_is_known() {
    let home = Home::new();
    let content = lines("a", 30);
    let (known, whole) = (lines("a", 20), content.as_str());
    let log = home.file("access.log", whole);
    let server = Server::start(&home.data);
    let path = format!(
        "/api/v1/ingest/access?producer=import:access::{log}&from=0&to={}&content={}",
        known.len(),
        xxhash_rust::xxh3::xxh3_64(known.as_bytes())
    );
    server.post(&path, &[], known.as_bytes()).status(200);
    assert_eq!(server.stop(), Some(0));
    assert_figures(&home.import(&log, &[]), 10, 20);
    let moved = home.path("access.log.1");
    std::fs::rename(&log, &moved).expect("a rename");
    assert_figures(&home.import(&moved, &[]), 0, 30);
    let home_again = home.file("access.log", lines("b", 4));
    assert_figures(&home.import(&home_again, &[]), 4, 0);
    assert_eq!(home.count(), 34);
}

#[test]
fn standard_input_is_known_when_it_has_a_name() {
    let home = Home::new();
    let input = |content: &str, more: &[&str]| {
        let args = [
            "import", "-", "--stream", "access", "--data", &home.data, "--output", "json",
        ];
        run_with_input(&[&args[..], more].concat(), content.as_bytes())
            .code(0)
            .json()
    };
    let named = ["--source", "web1"];
    let content = lines("a", 20);
    assert_figures(&input(&content, &named), 20, 0);
    assert_figures(&input(&content, &named), 0, 20);
    let grown = content.clone() + &lines("b", 5);
    assert_figures(&input(&grown, &named), 5, 20);
    assert_figures(&input(&lines("c", 30), &named), 30, 0);
    assert_figures(&input(&grown, &named), 0, 25);
    assert_figures(&input(&content, &["--source", "web2"]), 20, 0);
    assert_figures(&input(&content, &[]), 20, 0);
    assert_figures(&input(&content, &["--source", "web1", "--again"]), 20, 0);
    let file = home.file("a.log", &content);
    let with_file = ["import", &file, "--stream", "access", "--source", "x"];
    run(&[&with_file[..], &["--data", &home.data]].concat()).code(2);
}

/// `… 200 23` is the beginning of `… 200 2326`, and no event.
#[test]
fn a_line_that_is_being_written_is_taken_whole() {
    for through_server in [false, true] {
        let home = Home::new();
        let server = through_server.then(|| Server::start(&home.data));
        let place = match &server {
            Some(server) => ["--server", server.url.as_str()],
            None => ["--data", home.data.as_str()],
        };
        let common = |path: &str, size: &str| {
            format!("h - - [10/Oct/2000:13:55:36 -0700] \"GET {path} HTTP/1.0\" 200 {size}")
        };
        let begun = common("/a", "7") + "\n" + &common("/b", "23");
        let file = home.file("access.log", &begun);
        let figures = import(&place, &file, &[]);
        assert_figures(&figures, 1, 0);
        assert_eq!(figures["unfinished_bytes"], common("/b", "23").len());
        // Nothing else is reported of the unfinished line; the rest of it comes later.
        home.file("access.log", begun.clone() + "26\n" + &common("/c", "9"));
        assert_figures(&import(&place, &file, &[]), 1, 1);
        assert_figures(&import(&place, &file, &["--complete"]), 1, 2);
        assert_figures(&import(&place, &file, &["--complete"]), 0, 3);
        // The late line end of an imported line does not count as an empty line.
        home.file("access.log", begun + "26\n" + &common("/c", "9") + "\n");
        let figures = import(&place, &file, &[]);
        assert_figures(&figures, 0, 3);
        assert_eq!(
            (&figures["empty"], &figures["lines"]),
            (&json!(0), &json!(3))
        );
        home.file(
            "access.log",
            common("/a", "7")
                + "\n"
                + &common("/b", "2326")
                + "\n"
                + &common("/c", "9")
                + "\r\n"
                + &common("/d", "1")
                + "\n",
        );
        assert_figures(&import(&place, &file, &[]), 1, 3);
        let rows = crate::support::sql(
            &place,
            "SELECT path, response_size AS size FROM access ORDER BY path",
        );
        let wanted = [("/a", 7), ("/b", 2326), ("/c", 9), ("/d", 1)];
        let wanted = wanted.map(|(path, size)| json!({ "path": path, "size": size }));
        assert_eq!(rows, wanted);
        assert_eq!(
            crate::support::only_number(&crate::support::sql(
                &place,
                "SELECT count(*) FROM system.quarantine"
            )),
            0
        );
    }
}

/// Nothing that follows can change a Combined line behind its last quote, nor an object behind its
/// brace; a compressed file and standard input have come to their end.
#[test]
fn a_finished_file_without_its_last_line_end_loses_nothing() {
    let home = Home::new();
    let whole = lines("a", 3);
    let file = home.file("combined.log", whole.trim_end());
    assert_figures(&home.import(&file, &[]), 3, 0);
    let file = home.file("combined.log", whole + &lines("b", 2));
    assert_figures(&home.import(&file, &[]), 2, 3);
    let file = home.file("events.ndjson", "{\"a\":1}\n{\"a\":2}");
    let place = ["--data", home.data.as_str()];
    let args = ["import", &file, "--stream", "docs", "--output", "json"];
    assert_figures(&run(&[&args[..], &place].concat()).code(0).json(), 2, 0);
    let common = "h - - [10/Oct/2000:13:55:36 -0700] \"GET / HTTP/1.0\" 200 23";
    let args = ["import", "-", "--stream", "access", "--output", "json"];
    let figures = run_with_input(&[&args[..], &place].concat(), common.as_bytes());
    assert_figures(&figures.code(0).json(), 1, 0);
    let old = home.file("old.log", common.replace("23", "24"));
    let long_ago = std::time::SystemTime::now() - std::time::Duration::from_secs(48 * 3600);
    let times = std::fs::FileTimes::new().set_modified(long_ago);
    let handle = std::fs::File::options()
        .append(true)
        .open(&old)
        .expect("the file");
    handle.set_times(times).expect("its time");
    assert_figures(&home.import(&old, &[]), 1, 0);
}

#[test]
fn an_import_into_a_directory_that_a_server_holds_goes_through_the_server() {
    let home = Home::new();
    let server = Server::start(&home.data);
    server.ingest("access", lines("a", 5));
    let file = home.file("b.log", lines("b", 7));
    assert_figures(&home.import(&file, &[]), 7, 0);
    assert_figures(&home.import(&file, &[]), 0, 7);
    assert_eq!(server.number("SELECT count(*) FROM access"), 12);
    assert_eq!(home.count(), 12, "a reader is not in the way");
    // A second server is refused, with the address of the first.
    let refused = run(&["serve", &home.data, "--http", "127.0.0.1:0"]).code(1);
    for named in [format!("--server {}", server.url), server.pid().to_string()] {
        assert!(refused.stderr.contains(&named), "{}", refused.stderr);
    }
}

#[test]
fn an_import_through_a_server_resumes_and_adds_nothing_twice() {
    let home = Home::new();
    let mut content = lines("a", 40);
    let file = home.file("grows.log", &content);
    assert_figures(&home.import(&file, &[]), 40, 0);
    let server = Server::start(&home.data);
    let place = ["--server", server.url.as_str()];
    // Imports into the directory are known through the server, and the other way round.
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
