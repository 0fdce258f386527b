//! One writer: a server whose lock was removed stops before another can lose what it acknowledges.

use std::path::Path;

use crate::support::{Home, PAST_S, PATIENCE, Server, line, run};

#[test]
fn a_server_whose_lock_was_removed_stops_and_everything_acknowledged_is_there() {
    let home = Home::new();
    let mut server = Server::start(&home.data);
    server.ingest("web?j=true", line("h", PAST_S, "/1", 200, 5));
    let locked = run(&["repair", &home.data, "--accept-loss"]).code(1).stderr;
    assert!(locked.contains(&server.url), "{locked}");
    std::fs::remove_file(Path::new(&home.data).join("LOCK")).expect("removed");
    assert_eq!(server.ended(PATIENCE), 74);
    let log = server.log();
    assert!(log.contains("LOCK") && log.contains("removed"), "{log}");
    let server = Server::start(&home.data);
    assert_eq!(server.number("SELECT count(*) AS n FROM web"), 1);
    assert_eq!(server.stop(), Some(0));
    run(&["check", &home.data]).code(0);
}
