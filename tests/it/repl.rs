//! `logmill sql` beyond one statement: files, standard input, commands of the session, the session
//! on a terminal, and the scripts that complete the command line.

mod session;
mod states;
mod terminal;

use std::process::Command;

use crate::support::{Home, Output, PAST_S, Server, finish, line, run, run_with_input};

/// A query that runs for days.
const ENDLESS: &str = "SELECT count(*) FROM access, generate_series(1, 40000000) AS a, generate_series(1, 40000000) AS b WHERE a.value * 7 % 1000003 = b.value * 11 % 1000033";

/// Fills a store with three events.
fn filled(home: &Home) {
    let events = [
        line("203.0.113.1", PAST_S, "/a", 200, 10),
        line("203.0.113.2", PAST_S + 60, "/b", 404, 20),
        line("203.0.113.3", PAST_S + 3600, "/c", 500, 30),
    ];
    home.import(&home.file("access.log", events.concat()), &[]);
}

/// Runs statements from standard input.
fn piped(home: &Home, more: &[&str], text: &str) -> Output {
    let place = ["sql", "--data", &home.data];
    run_with_input(&[&place[..], more].concat(), text.as_bytes())
}

#[test]
fn statements_of_standard_input_run_in_order() {
    let home = Home::new();
    filled(&home);
    let text =
        "\u{feff}SELECT 1 AS a; -- one;\nSELECT ';' AS b\n;\nSELECT count(*) AS c FROM access";
    for how in [&[][..], &["-"], &["-f", "-"]] {
        let args = [how, &["--output", "ndjson"]].concat();
        let told = piped(&home, &args, text).code(0);
        assert_eq!(
            told.stdout, "{\"a\":1}\n{\"b\":\";\"}\n{\"c\":3}\n",
            "{how:?}"
        );
        assert_eq!(told.stderr, "", "{how:?}");
    }
}

#[test]
fn comments_alone_are_no_statement_and_no_error() {
    let home = Home::new();
    filled(&home);
    for text in ["", "\n\n", "-- nothing", "/* SELECT 1; */\n;;\n-- end\n"] {
        let told = piped(&home, &[], text).code(0);
        assert_eq!((&*told.stdout, &*told.stderr), ("", ""), "{text:?}");
    }
}

#[test]
fn an_error_ends_a_file_and_names_its_line() {
    let home = Home::new();
    filled(&home);
    let of = |text: &str| {
        let file = home.file("report.sql", text);
        let told = run(&[
            "sql", "-f", &file, "--data", &home.data, "--output", "ndjson",
        ]);
        (told, file)
    };
    let (told, file) = of(
        "SELECT 1 AS a;\n\n-- a comment;\nSELECT 2 AS b;\nSELECT *\n  FROM access WHERE status = = 200;\nSELECT 4 AS d;\n",
    );
    let told = told.code(1);
    assert_eq!(told.stdout, "{\"a\":1}\n{\"b\":2}\n");
    let expected = format!("logmill: {file}, line 6, column 30: ");
    assert!(told.stderr.starts_with(&expected), "{}", told.stderr);
    let marked = format!(
        "\n  FROM access WHERE status = = 200\n{}^\n",
        " ".repeat(29)
    );
    assert!(told.stderr.ends_with(&marked), "{}", told.stderr);

    // An error without a place: the line of the statement, and the statement.
    let (told, file) = of("SELECT 1 AS a;\n\n\nSELECT statsu\nFROM access;\n");
    let told = told.code(1).stderr;
    assert!(
        told.starts_with(&format!("logmill: {file}, line 4: ")),
        "{told}"
    );
    assert!(told.contains("status"), "{told}");
    assert!(told.ends_with("\nSELECT statsu\nFROM access\n"), "{told}");

    // Where no statement can be told from the next, none runs.
    let (told, file) = of("SELECT 1 AS a;\n\\x\nSELECT 'open;\n");
    let told = told.code(1);
    assert_eq!(told.stdout, "");
    let expected = format!("logmill: {file}, line 3, column 8: ");
    assert!(told.stderr.starts_with(&expected), "{}", told.stderr);

    let missing = home.path("missing.sql");
    let told = run(&["sql", "-f", &missing, "--data", &home.data]).code(1);
    assert!(told.stderr.contains(&missing), "{}", told.stderr);
    let file = home.file("bytes.sql", b"SELECT '\xff'");
    let told = run(&["sql", "-f", &file, "--data", &home.data]).code(2);
    assert!(
        told.stderr.contains("not UTF-8 at byte 8"),
        "{}",
        told.stderr
    );
}

#[test]
fn a_zone_reads_and_writes_times() {
    let home = Home::new();
    filled(&home);
    let sql = "SELECT time, path FROM access WHERE time < TIMESTAMPTZ '2024-03-01 01:01:00' ORDER BY time";
    let check = |place: [&str; 2]| {
        for (form, expected) in [
            ("csv", "time,path\n2024-03-01T01:00:00+01:00,/a\n"),
            (
                "ndjson",
                "{\"time\":\"2024-03-01T01:00:00+01:00\",\"path\":\"/a\"}\n",
            ),
            (
                "json",
                "[\n{\"time\":\"2024-03-01T01:00:00+01:00\",\"path\":\"/a\"}\n]\n",
            ),
        ] {
            let zone = ["--tz", "Europe/Berlin", "--output", form];
            let told = run(&[&["sql", sql][..], &place, &zone].concat()).code(0);
            assert_eq!(told.stdout, expected, "{place:?} {form}");
        }
        let zone = ["--tz", "Europe/Berlin"];
        let told = run(&[&["sql", sql][..], &place, &zone].concat()).code(0);
        assert!(
            told.stdout.contains("2024-03-01T01:00:00+01:00 | /a\n"),
            "{}",
            told.stdout
        );
        let told = run(&[&["sql", sql][..], &place, &["--output", "csv"]].concat()).code(0);
        assert_eq!(told.stdout.lines().count(), 4, "{}", told.stdout);
        assert!(
            told.stdout.contains("2024-03-01T01:00:00Z,/c"),
            "{}",
            told.stdout
        );
    };
    check(["--data", &home.data]);
    let server = Server::start(&home.data);
    check(["--server", &server.url]);
    let body = |zone: &str| serde_json::json!({ "sql": sql, "tz": zone }).to_string();
    let post = |zone: &str| server.post("/api/v1/sql", &[], body(zone).as_bytes());
    let rows = &post("Asia/Kolkata").status(200).json()["rows"];
    assert_eq!(rows.as_array().map(Vec::len), Some(0), "{rows}");
    let refused = post("Mars/Olympus").status(400).text();
    assert!(refused.contains("Mars/Olympus"), "{refused}");
    let told = run(&["sql", sql, "--data", &home.data, "--tz", "Mars/Olympus"]).code(2);
    assert!(told.stderr.contains("--tz Mars/Olympus"), "{}", told.stderr);
}

#[test]
fn commands_of_the_session_work_in_files_too() {
    let home = Home::new();
    filled(&home);
    let shown = |text: &str| piped(&home, &[], text).code(0).stdout;
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");

    let tables = words(&shown("\\d\n"));
    for table in [
        "public | access | ",
        "stats | daily | ",
        "system | queries | ",
    ] {
        assert!(tables.contains(table), "{tables}");
    }
    let levels = shown("\\dt stats.*\n");
    assert!(
        levels.contains("hourly") && !levels.contains("access"),
        "{levels}"
    );
    let columns = words(&shown("\\d access\n"));
    for column in [
        "time | timestamp with time zone | NO",
        "status | smallint | YES",
    ] {
        assert!(columns.contains(column), "{columns}");
    }
    assert!(words(&shown("\\d stats.daily")).contains("hits | bigint | NO"));

    let upright = shown("\\x\nSELECT 1 AS a, 'b' AS long_name;\n\\x off\nSELECT 2 AS c;\n");
    let expected = "Expanded display is on.\n-- row 1 ---------\na         | 1\nlong_name | b\n(1 row)\nExpanded display is off.\nc\n-\n2\n(1 row)\n";
    assert_eq!(upright, expected);
    let timed = shown("\\timing on\nSELECT 1 AS a;\n");
    let (on, time) = timed.split_once("(1 row)\n").expect("an answer");
    assert!(on.starts_with("Timing is on.\n"), "{timed}");
    assert!(
        time.starts_with("Time: ") && time.ends_with(" ms\n"),
        "{timed}"
    );
    let included = home.file(
        "in cluded.sql",
        "SELECT 'in' AS t;\n\\q\nSELECT 'not' AS t;\n",
    );
    let forms = shown(&format!(
        "\\o csv\nSELECT 1 AS a;\n\\i '{included}'\n\\q\nSELECT 2 AS b;"
    ));
    assert_eq!(forms, "Answers are printed as csv.\na\n1\nt\nin\n");
    assert!(shown("\\?").contains("\\timing [on|off]"));
}

#[test]
fn a_wrong_command_ends_a_file_and_names_the_nearest() {
    let home = Home::new();
    filled(&home);
    for (text, told) in [
        (
            "SELECT 1 AS a;\n\\timng\n",
            "line 2: there is no command \\timng; did you mean \\timing?",
        ),
        ("\\d acess\n", "line 1: there is no table acess"),
        ("\n\\x maybe\n", "line 2: \"maybe\" is neither on nor off"),
    ] {
        let failed = piped(&home, &[], text).code(2);
        let expected = format!("logmill: standard input, {told}");
        assert!(failed.stderr.starts_with(&expected), "{}", failed.stderr);
    }
    let file = home.path("self.sql");
    std::fs::write(&file, format!("\\i {file}\n")).expect("a file");
    let failed = run(&["sql", "-f", &file, "--data", &home.data]).code(2);
    assert!(
        failed.stderr.contains("include one another"),
        "{}",
        failed.stderr
    );
}

#[test]
fn shells_take_the_scripts_for_completion() {
    let home = Home::new();
    for (shell, check) in [("bash", "-n"), ("zsh", "-n"), ("fish", "--no-execute")] {
        let script = run(&["completions", shell]).code(0).stdout;
        for word in ["import", "rollup", "--output"] {
            assert!(
                script.contains(word.trim_start_matches('-')),
                "{shell}: {word}"
            );
        }
        let file = home.file(shell, &script);
        if Command::new(shell).arg("--version").output().is_err() {
            println!("skipped: {shell} is not installed");
            continue;
        }
        let told = finish(Command::new(shell).args([check, &file]), &[]).code(0);
        assert_eq!(told.stderr, "", "{shell}");
    }
    let told = run(&["completions", "tcsh"]).code(2).stderr;
    assert!(told.contains("bash"), "{told}");
}

#[test]
fn bash_completes_a_command_by_its_script() {
    let home = Home::new();
    let script = run(&["completions", "bash"]).code(0).stdout;
    let file = home.file("completions", script);
    let ask = "source \"$0\"; COMP_WORDS=(logmill sq); COMP_CWORD=1; _logmill logmill sq logmill; echo \"${COMPREPLY[@]}\"";
    let mut bash = Command::new("bash");
    bash.args(["--norc", "-c", ask, &file]);
    if Command::new("bash").arg("--version").output().is_err() {
        println!("skipped: bash is not installed");
        return;
    }
    assert_eq!(finish(&mut bash, &[]).code(0).stdout, "sql\n");
}
