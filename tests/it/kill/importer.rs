//! A writer that is a process of its own: `logmill import FILE --server URL`, the same command
//! again and again until it reports the file complete, then another file.

use std::process::{Child, Stdio};
use std::time::Duration;

use rand::Rng;
use rand::rngs::SmallRng;

use crate::support::{
    File, Home, Ledger, PAST_S, PATIENCE, Server, command, ended_within, line, run,
};

/// Lines of this length make an import's block of 4 MiB hold a thousand events.
const LINE_BYTES: usize = 4 << 10;

/// Counts of imports by their end.
#[derive(Debug, Default)]
pub(super) struct Fates {
    pub(super) done: u64,
    pub(super) killed: u64,
    pub(super) left_alone: u64,
}

/// One importer and its file.
pub(super) struct Importer {
    home: Home,
    name: &'static str,
    /// `--journal` or nothing.
    concern: &'static [&'static str],
    file: u64,
    pub(super) fates: Fates,
}

impl Importer {
    pub(super) fn new(name: &'static str, concern: &'static [&'static str]) -> Self {
        Self {
            home: Home::new(),
            name,
            concern,
            file: 0,
            fates: Fates::default(),
        }
    }

    fn key(&self) -> String {
        format!("{}-{}", self.name, self.file)
    }

    fn path(&self) -> String {
        self.home.path(&self.key())
    }

    /// Makes the next file when the one before is done.
    pub(super) fn prepare(&mut self, ledger: &mut Ledger, random: &mut SmallRng) {
        if ledger.files.get(&self.key()).is_some_and(|f| !f.done) {
            return;
        }
        self.file += 1;
        let padding = "m".repeat(LINE_BYTES);
        let lines = random.random_range(1_000..4_000);
        let mut log = String::with_capacity(lines * (LINE_BYTES + 128));
        for i in 0..lines {
            let path = format!("/file/{}/{i}", self.key());
            let mut line = line("203.0.113.9", PAST_S + i as i64, &path, 200, 10);
            line.insert_str(line.len() - 3, &padding);
            log += &line;
        }
        std::fs::write(self.path(), log).expect("a file in the temporary directory");
        let file = File {
            lines: lines as u64,
            done: false,
        };
        ledger.files.insert(self.key(), file);
    }

    fn arguments(&self, url: &str) -> Vec<String> {
        let path = self.path();
        let common = ["import", &path, "--stream", "access", "--server", url];
        let all = common.iter().chain(self.concern);
        all.map(|a| (*a).to_owned()).collect()
    }

    /// Starts an import, and kills it after `killed_after` if that is given. Returns whether it
    /// ended by itself and reported the file complete.
    pub(super) fn import(&mut self, server: &Server, killed_after: Option<Duration>) -> bool {
        let mut child = command()
            .args(self.arguments(&server.url))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("an import");
        let code = end(&mut child, killed_after);
        match code {
            0 => {
                std::fs::remove_file(self.path()).expect("the imported file");
                self.fates.done += 1;
            }
            1 => self.fates.left_alone += 1,
            -9 => self.fates.killed += 1,
            other => panic!("an import ends with {other}"),
        }
        code == 0
    }

    /// Imports the rest of the file in peace.
    pub(super) fn finish(&mut self, server: &Server, ledger: &mut Ledger) {
        let file = ledger.files.get_mut(&self.key()).expect("a file");
        if file.done {
            return;
        }
        let arguments = self.arguments(&server.url);
        run(&arguments).code(0);
        let again = run(&arguments).code(0);
        assert!(again.stdout.contains("nothing new"), "{}", again.stdout);
        file.done = true;
    }

    /// Records that the file is complete.
    pub(super) fn note_done(&self, ledger: &mut Ledger) {
        ledger.files.get_mut(&self.key()).expect("a file").done = true;
    }
}

/// Waits for the end of an import, or kills it; returns its exit code.
fn end(child: &mut Child, killed_after: Option<Duration>) -> i32 {
    if let Some(code) = ended_within(child, killed_after.unwrap_or(PATIENCE)) {
        return code;
    }
    child.kill().expect("a signal to our own child");
    let code = ended_within(child, PATIENCE).expect("the killed import ends");
    assert!(killed_after.is_some(), "an import does not end");
    code
}
