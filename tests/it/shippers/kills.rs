//! Kills of either end while rsyslog or syslog-ng sends: what each protocol promises, and no more.
//!
//! Without keys, a batch whose answer was lost is stored twice. Over plain TCP nothing is answered:
//! a kill of the server loses what is on its way.

use std::collections::BTreeMap;
use std::io::Write;

use super::{Background, metric, numbers, wait_for, wait_for_numbers};
use crate::support::{Home, Server};

/// Messages that each sender has in its file, many batches of them.
pub(crate) const SENT: usize = 20_000;

/// A listener, and a sender to it.
pub(crate) struct Way<'a> {
    pub(crate) stream: &'a str,
    /// Serves at an address, or at a free one where its port is 0. Returns the address.
    pub(crate) serve: &'a dyn Fn(&Home, &str) -> (Server, String),
    /// Starts the sender, if it is installed. It sends the lines of the file `numbers`.
    pub(crate) start: &'a dyn Fn(&Home, &str) -> Option<Background>,
}

impl Way<'_> {
    fn stored(&self, server: &Server) -> u64 {
        let name = format!("logmill_events_stored_total{{stream=\"{}\"}}", self.stream);
        metric(server, &name)
    }

    /// Serves, and starts the sender. Returns when the first messages are stored.
    fn begin(&self, home: &Home) -> Option<(Server, String, Background)> {
        let (server, address) = (self.serve)(home, "127.0.0.1:0");
        home.file("numbers", numbers(SENT));
        let sender = (self.start)(home, &address)?;
        wait_for(|| self.stored(&server) > 0);
        Some((server, address, sender))
    }

    /// Waits for all messages. Returns how often each is stored.
    fn wait_for_all(&self, server: &Server) -> BTreeMap<String, u64> {
        let stored = wait_for_numbers(server, self.stream, SENT);
        let quarantined = server.number("SELECT count(*) AS n FROM system.quarantine");
        assert_eq!(quarantined, 0);
        assert_eq!(stored.len(), SENT);
        stored
    }

    /// Kills the server, and starts it again: nothing is missing, and at most `batch` messages are
    /// stored twice.
    pub(crate) fn through_a_kill_of_the_server(&self, batch: usize) {
        let home = Home::new();
        let Some((server, address, _sender)) = self.begin(&home) else {
            return;
        };
        server.kill();
        let (server, _) = (self.serve)(&home, &address);
        let stored = self.wait_for_all(&server);
        let twice = stored.values().filter(|times| **times == 2).count();
        assert!(stored.values().all(|times| *times <= 2));
        assert!(twice <= batch, "{twice} messages are stored twice");
        println!("{SENT} messages, {twice} stored twice");
    }

    /// Kills the sender, and starts it again: it sends what it does not remember to have sent, and
    /// nothing is missing.
    pub(crate) fn through_a_kill_of_the_sender(&self) {
        let home = Home::new();
        let Some((server, address, sender)) = self.begin(&home) else {
            return;
        };
        drop(sender);
        let _again = (self.start)(&home, &address).expect("the sender starts again");
        let again: u64 = (self.wait_for_all(&server).values())
            .map(|times| times - 1)
            .sum();
        println!("{SENT} messages, {again} sent again");
    }

    /// Kills the server, and starts it again: the sender goes on with later messages, and at most
    /// `batch` messages are stored twice.
    pub(crate) fn goes_on_behind_a_kill_of_the_server(&self, batch: usize) {
        let home = Home::new();
        let Some((server, address, _sender)) = self.begin(&home) else {
            return;
        };
        server.kill();
        let (server, _) = (self.serve)(&home, &address);
        let log = std::fs::OpenOptions::new()
            .append(true)
            .open(home.path("numbers"));
        let log = log.expect("the file of the sender");
        let later = format!(
            "SELECT count(*) AS n FROM {} WHERE line LIKE 'later %'",
            self.stream
        );
        wait_for(|| {
            writeln!(&log, "later {address}").expect("a line more");
            server.number(&later) > 0
        });
        let query = format!(
            "SELECT count(*) AS n FROM {0} WHERE line LIKE 'number %' UNION ALL \
             SELECT count(DISTINCT line) FROM {0} WHERE line LIKE 'number %' ORDER BY n DESC",
            self.stream
        );
        let rows = server.sql(&query);
        let [all, distinct] = [&rows[0], &rows[1]].map(|row| row["n"].as_u64().expect("a count"));
        assert!(0 < distinct && distinct <= SENT as u64, "{distinct}");
        assert!(all - distinct <= batch as u64, "{} doubled", all - distinct);
        println!(
            "{SENT} messages, {} lost on their way, {} stored twice",
            SENT as u64 - distinct,
            all - distinct
        );
    }
}
