//! The session on a terminal: prompt, TAB, history, Ctrl-C, Ctrl-D, pager.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::terminal::{CTRL_C, CTRL_D, PROMPT, Terminal, UP};
use super::{ENDLESS, filled};
use crate::support::{Home, Server};

#[test]
fn a_terminal_gets_a_prompt_completion_and_a_history_across_sessions() {
    let home = Home::new();
    filled(&home);
    let start = || Terminal::start(&home, &["--data", &home.data], &[]);
    let Some(mut first) = start() else { return };
    let greeting = first.await_text(PROMPT);
    assert!(greeting.contains(&home.data), "{greeting}");

    // A statement over several lines, with both prompts.
    first.press("SELECT count(*) AS events\r");
    first.await_text("logmill-> ");
    let counted = first.ask("FROM access;", "(1 row)");
    assert!(counted.contains("events\n------\n     3\n"), "{counted}");

    // One candidate is written at once: a table, a column, a keyword in the user's case.
    first.press("sel\t");
    first.await_text("select");
    first.press(" resp\u{1}\u{5}\u{3}");
    first.await_text(PROMPT);
    first.press("SELECT max(response_size) AS most FROM acc\t");
    first.await_text("access");
    let most = first.ask(" WHERE statu\t = 404;", "(1 row)");
    assert!(most.contains("status"), "{most}");
    assert!(most.contains("\n  20\n"), "{most}");

    // Errors have a caret, and the session goes on.
    let wrong = first.ask("SELEC 1;", "logmill: ");
    assert!(wrong.contains("\nSELEC 1\n^\n"), "{wrong}");
    let unknown = first.ask("\\timng", "no command");
    assert!(unknown.contains("did you mean \\timing?"), "{unknown}");
    // A blank keeps a statement out of the history.
    first.ask(" SELECT 'secret' AS s;", "(1 row)");
    first.press(CTRL_D);
    assert_eq!(first.ended(), 0);

    let history = home.path(".local/state/logmill/history");
    let mode = std::fs::metadata(&history)
        .expect("a history")
        .permissions();
    assert_eq!(mode.mode() & 0o777, 0o600);
    let kept = std::fs::read_to_string(&history).expect("a history");
    assert!(!kept.contains("secret"), "{kept}");

    let mut second = start().expect("Python is there");
    second.await_text(PROMPT);
    // The last but two: the statement with an error and the command came after it.
    second.press(&UP.repeat(3));
    second.await_text("WHERE status = 404;");
    second.press("\r");
    second.await_text("(1 row)");
    second.await_text(PROMPT);
    second.press("\\q\r");
    assert_eq!(second.ended(), 0);
}

#[test]
fn ctrl_c_cancels_a_statement_and_discards_a_line_and_the_session_goes_on() {
    let home = Home::new();
    filled(&home);
    let place = ["--data", &home.data];
    let Some(mut terminal) = Terminal::start(&home, &place, &[]) else {
        return;
    };
    terminal.await_text(PROMPT);
    cancels(&mut terminal);
    // The names are read after a cancelled statement too.
    terminal.press("SELECT count(*) AS n FROM acc\t");
    terminal.await_text("access");
    terminal.press(CTRL_C);
    terminal.await_text(PROMPT);
    // The lines of a statement that is not complete are discarded.
    terminal.press("SELECT nonsense,\r");
    terminal.await_text("logmill-> ");
    terminal.press(CTRL_C);
    terminal.await_text(PROMPT);
    terminal.ask("SELECT 40 + 2 AS answer;", "    42\n");
    terminal.press("exit\r");
    assert_eq!(terminal.ended(), 0);
}

/// Cancels a statement that would run for days.
fn cancels(terminal: &mut Terminal) {
    terminal.press(&format!("{ENDLESS};\r"));
    // The progress line shows that the statement runs.
    terminal.await_text(" rows examined");
    let began = Instant::now();
    terminal.press(CTRL_C);
    terminal.await_text("logmill: cancelled\n");
    terminal.await_text(PROMPT);
    assert!(began.elapsed() < Duration::from_secs(60));
    terminal.ask("SELECT 'still' || ' here' AS t;", "still here\n");
}

#[test]
fn a_session_on_a_held_store_asks_its_server() {
    let home = Home::new();
    filled(&home);
    let server = Server::start(&home.data);
    let place = ["--data", &home.data];
    let Some(mut terminal) = Terminal::start(&home, &place, &[]) else {
        return;
    };
    let greeting = terminal.await_text(PROMPT);
    assert!(greeting.contains(&server.url), "{greeting}");
    cancels(&mut terminal);
    let queries = || server.get("/api/v1/queries").status(200).json();
    let until = Instant::now() + Duration::from_secs(60);
    while queries() != Value::Array(Vec::new()) {
        assert!(Instant::now() < until, "{}", queries());
        std::thread::sleep(Duration::from_millis(20));
    }
    let shown = terminal.ask("SELECT status FROM access ORDER BY time;", "(3 rows)");
    assert!(shown.contains("\n   200\n   404\n   500\n"), "{shown}");
    terminal.press("\\d acc\t");
    terminal.await_text("access");
    terminal.ask("", "response_size");
    terminal.press(CTRL_D);
    assert_eq!(terminal.ended(), 0);

    // The file that names the writer is there still; nobody answers for it.
    server.kill();
    let mut terminal = Terminal::start(&home, &place, &[]).expect("Python is there");
    let greeting = terminal.await_text(PROMPT);
    assert!(greeting.contains(&home.data), "{greeting}");
    terminal.ask("SELECT count(*) AS n FROM access;", "\n3\n");
}

#[test]
fn long_answers_are_shown_by_the_pager_and_short_ones_are_not() {
    let home = Home::new();
    filled(&home);
    let place = ["--data", &home.data];
    let pager = [("PAGER", "sed s/^/paged:/")];
    let Some(mut terminal) = Terminal::start(&home, &place, &pager) else {
        return;
    };
    terminal.await_text(PROMPT);
    let many = "SELECT value FROM generate_series(1, 100) AS s;";
    let long = terminal.ask(many, "paged:(100 rows)");
    assert!(long.contains("paged:    1\n"), "{long}");
    let short = terminal.ask("SELECT 7 AS seven;", "(1 row)");
    assert!(!short.contains("paged:"), "{short}");
    terminal.ask("\\pset pager off", "The pager is off.");
    let long = terminal.ask(many, "\n(100 rows)");
    assert!(!long.contains("paged:"), "{long}");
}

/// Passes connections on to a server until it falls silent.
struct Passage {
    url: String,
    is_silent: Arc<AtomicBool>,
    /// Pieces that clients have sent.
    sent: Arc<AtomicUsize>,
}

impl Passage {
    /// Serves a store behind a passage.
    fn serve(home: &Home) -> (Self, Server) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        // The addresses of its connections are the server's with the server's port alone.
        let own = format!(
            "localhost:{}",
            listener.local_addr().expect("an address").port()
        );
        let hosts = format!("[\"{own}\"]");
        let server = Server::start_with(&home.data, &[("LOGMILL_SERVER__HOSTS", &hosts)]);
        let passage = Self {
            url: format!("http://{own}"),
            is_silent: Arc::default(),
            sent: Arc::default(),
        };
        let (address, is_silent) = (server.address.clone(), Arc::clone(&passage.is_silent));
        let sent = Arc::clone(&passage.sent);
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let client = client.expect("a connection");
                let behind = TcpStream::connect(&address).expect("the server listens");
                let again = || (client.try_clone(), behind.try_clone());
                let (Ok(from), Ok(to)) = again() else { return };
                let (is_silent, sent) = (Arc::clone(&is_silent), Arc::clone(&sent));
                std::thread::spawn(move || {
                    pass(from, to, || {
                        sent.fetch_add(1, Ordering::SeqCst) < usize::MAX
                    })
                });
                std::thread::spawn(move || {
                    pass(behind, client, || !is_silent.load(Ordering::SeqCst))
                });
            }
        });
        (passage, server)
    }

    /// Does something that makes a client send, and waits until it has sent.
    fn await_sent<T>(&self, act: impl FnOnce() -> T) -> T {
        let before = self.sent.load(Ordering::SeqCst);
        let done = act();
        while self.sent.load(Ordering::SeqCst) == before {
            std::thread::sleep(Duration::from_millis(10));
        }
        done
    }
}

/// Copies pieces, those that are not to pass excepted.
fn pass(mut from: TcpStream, mut to: TcpStream, passes: impl Fn() -> bool) {
    let mut piece = [0; 4096];
    while let Ok(length @ 1..) = from.read(&mut piece) {
        if passes() && to.write_all(&piece[..length]).is_err() {
            return;
        }
    }
}

#[test]
fn ctrl_c_leaves_a_server_that_does_not_answer() {
    let home = Home::new();
    filled(&home);
    let (passage, _server) = Passage::serve(&home);
    let place = ["--server", &passage.url];
    let Some(mut terminal) = Terminal::start(&home, &place, &[]) else {
        return;
    };
    terminal.await_text(PROMPT);
    cancels(&mut terminal);
    passage.is_silent.store(true, Ordering::SeqCst);
    passage.await_sent(|| terminal.press("SELECT 1;\r"));
    // The first press asks the server to cancel the statement.
    passage.await_sent(|| terminal.press(CTRL_C));
    std::thread::sleep(Duration::from_millis(1200));
    terminal.press(CTRL_C);
    assert_eq!(terminal.ended(), 130);
    // Nothing answers from the beginning.
    let terminal = passage.await_sent(|| Terminal::start(&home, &place, &[]));
    let mut terminal = terminal.expect("there is Python");
    terminal.press(CTRL_C);
    assert_eq!(terminal.ended(), 130);
}
