//! A program on a pseudo-terminal, by Python's `pty`: keys in, text out.

use std::io::{Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use crate::support::{BINARY, Home, ended_within, python};

const DRIVER: &str = include_str!("../../clients/terminal.py");
/// Nothing that is awaited takes longer, however busy the machine is.
const PATIENCE: Duration = Duration::from_secs(120);

pub(crate) const CTRL_C: &str = "\u{3}";
pub(crate) const CTRL_D: &str = "\u{4}";
pub(crate) const UP: &str = "\u{1b}[A";
pub(crate) const PROMPT: &str = "logmill=> ";

/// A running `logmill sql`; killed when dropped.
pub(crate) struct Terminal {
    child: Child,
    keys: ChildStdin,
    shown: Receiver<Vec<u8>>,
    /// The shown text that nothing has awaited yet, as it came.
    rest: Vec<u8>,
}

impl Terminal {
    /// Starts the program with its history in the folder of `home`; `None` without Python.
    pub(crate) fn start(home: &Home, args: &[&str], environment: &[(&str, &str)]) -> Option<Self> {
        let mut child = Command::new(python()?)
            .args(["-c", DRIVER, BINARY, "sql"])
            .args(args)
            .current_dir(env!("CARGO_TARGET_TMPDIR"))
            .env("HOME", home.path(""))
            .env("TERM", "xterm")
            .env("PAGER", "")
            .env_remove("XDG_STATE_HOME")
            .env_remove("LOGMILL_LOG")
            .envs(environment.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("Python starts");
        let keys = child.stdin.take().expect("BUG: its input is piped");
        let mut output = child.stdout.take().expect("BUG: its output is piped");
        let (send, shown) = channel();
        std::thread::spawn(move || {
            let mut piece = [0; 4096];
            while let Ok(length @ 1..) = output.read(&mut piece) {
                if send.send(piece[..length].to_vec()).is_err() {
                    return;
                }
            }
        });
        Some(Self {
            child,
            keys,
            shown,
            rest: Vec::new(),
        })
    }

    /// Presses keys.
    pub(crate) fn press(&mut self, keys: &str) {
        let sent = self.keys.write_all(keys.as_bytes());
        sent.and_then(|()| self.keys.flush()).expect("it reads");
    }

    /// Waits until the terminal shows a text behind what was awaited before. Returns the text up to
    /// its end.
    #[track_caller]
    pub(crate) fn await_text(&mut self, text: &str) -> String {
        let until = Instant::now() + PATIENCE;
        loop {
            let (plain, ends) = plain(&self.rest);
            if let Some(at) = plain.find(text) {
                let end = at + text.len();
                self.rest.drain(..ends[end - 1]);
                return plain[..end].to_owned();
            }
            let left = until.saturating_duration_since(Instant::now());
            match self.shown.recv_timeout(left) {
                Ok(piece) => self.rest.extend(piece),
                Err(RecvTimeoutError::Timeout) => panic!("{text:?} is awaited:\n{plain}"),
                Err(RecvTimeoutError::Disconnected) => panic!("{text:?} never came:\n{plain}"),
            }
        }
    }

    /// Types a line, and returns what is shown up to the next prompt. `answer` is in it.
    #[track_caller]
    pub(crate) fn ask(&mut self, line: &str, answer: &str) -> String {
        self.press(&format!("{line}\r"));
        let shown = self.await_text(answer);
        shown + &self.await_text(PROMPT)
    }

    /// Waits for the end of the program. Returns its exit code.
    #[track_caller]
    pub(crate) fn ended(&mut self) -> i32 {
        match ended_within(&mut self.child, PATIENCE) {
            Some(code) => code,
            None => panic!("it goes on:\n{}", plain(&self.rest).0),
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // The driver then closes the terminal, which ends the program.
        let _ended_before = self.child.kill();
        let _ended_before = self.child.wait();
    }
}

/// Returns a text without the sequences that move the cursor and without carriage returns, and for
/// each of its bytes the end of the byte in `shown`.
fn plain(shown: &[u8]) -> (String, Vec<usize>) {
    let (mut text, mut ends) = (Vec::new(), Vec::new());
    let mut at = 0;
    while at < shown.len() {
        match shown[at..] {
            [0x1b, b'[', ref rest @ ..] => {
                let length = rest.iter().position(|byte| (0x40..=0x7e).contains(byte));
                at += 3 + length.unwrap_or(rest.len());
                continue;
            }
            [b'\r' | 0x07, ..] => {}
            [byte, ..] if byte.is_ascii() => {
                text.push(byte);
                ends.push(at + 1);
            }
            // Only ASCII is awaited.
            _ => {
                text.push(b'?');
                ends.push(at + 1);
            }
        }
        at += 1;
    }
    (String::from_utf8_lossy(&text).into_owned(), ends)
}
