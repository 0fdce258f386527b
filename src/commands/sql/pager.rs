//! Answers that are longer than the terminal, shown by the user's pager.

use std::io::{self, BufWriter, Stdout, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};

/// Exit code of a shell that has not found its program.
const NOT_FOUND: i32 = 127;

/// Writes to standard output as long as the text fits the terminal, and to a pager from the first
/// line on when it does not.
pub(super) struct Paged {
    /// `None` once the text is written directly.
    held: Option<Vec<u8>>,
    size: (usize, usize),
    rows: usize,
    columns: usize,
    pager: Option<(Child, BufWriter<ChildStdin>)>,
    direct: BufWriter<Stdout>,
    command: String,
}

impl Paged {
    /// Begins an answer. `size` is that of the terminal, in columns and rows; without one there is
    /// no paging.
    pub(super) fn new(size: Option<(usize, usize)>) -> Self {
        let command = std::env::var("PAGER").unwrap_or_else(|_| default_pager());
        let pages = size.is_some() && !command.trim().is_empty();
        Self {
            held: pages.then(Vec::new),
            size: size.unwrap_or_default(),
            rows: 0,
            columns: 0,
            pager: None,
            direct: BufWriter::new(io::stdout()),
            command,
        }
    }

    /// Returns whether a pager shows the answer.
    pub(super) fn is_paging(&self) -> bool {
        self.pager.is_some()
    }

    /// Counts the rows of the terminal that a text takes.
    fn count(&mut self, bytes: &[u8]) {
        for byte in bytes {
            match byte {
                b'\n' => (self.rows, self.columns) = (self.rows + 1, 0),
                // A further byte of a character.
                0x80..=0xbf => {}
                _ if self.columns == self.size.0 => (self.rows, self.columns) = (self.rows + 1, 1),
                _ => self.columns += 1,
            }
        }
    }

    fn start(&mut self) -> io::Result<()> {
        let mut shell = Command::new("sh");
        shell.args(["-c", &self.command]).stdin(Stdio::piped());
        if std::env::var_os("LESS").is_none() {
            // Wide lines are cut and not folded, and the screen stays as it is.
            shell.env("LESS", "FRSX");
        }
        let mut pager = shell.spawn()?;
        let stdin = pager.stdin.take().expect("BUG: its input is piped");
        self.pager = Some((pager, BufWriter::new(stdin)));
        Ok(())
    }

    /// Ends the answer, and waits until the user has left the pager. A pager that was left before
    /// the end is no error.
    pub(super) fn finish(mut self) -> io::Result<()> {
        let Some((mut pager, stdin)) = self.pager.take() else {
            self.direct
                .write_all(&self.held.take().unwrap_or_default())?;
            return self.direct.flush();
        };
        let written = stdin.into_inner().map_err(|error| error.into_error());
        // The pager sees the end of the text here.
        let written = written.map(drop);
        let status = pager.wait()?;
        if status.code() == Some(NOT_FOUND) {
            let hint = "set PAGER, or turn paging off with \\pset pager off";
            return Err(io::Error::other(format!(
                "the pager {:?} was not found; {hint}",
                self.command
            )));
        }
        match written {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            written => written,
        }
    }
}

/// Returns `less` if it is installed.
fn default_pager() -> String {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_there = |folder: std::path::PathBuf| Path::new(&folder).join("less").is_file();
    match std::env::split_paths(&path).any(is_there) {
        true => "less".to_owned(),
        false => String::new(),
    }
}

impl Write for Paged {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.held.is_some() {
            self.count(bytes);
        }
        if let Some(held) = &mut self.held {
            held.extend_from_slice(bytes);
            // One row is left for the prompt.
            if self.rows < self.size.1 {
                return Ok(bytes.len());
            }
            self.start()?;
            let held = self.held.take().unwrap_or_default();
            self.write_all(&held)?;
            return Ok(bytes.len());
        }
        match &mut self.pager {
            Some((_, stdin)) => stdin.write(bytes),
            None => self.direct.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.pager {
            Some((_, stdin)) => stdin.flush(),
            None => self.direct.flush(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, rows: usize) {
        let mut paged = Paged::new(Some((4, 100)));
        paged.count(text.as_bytes());
        assert_eq!(paged.rows, rows, "{text:?}");
    }

    #[test]
    fn folded_lines_take_several_rows() {
        check("", 0);
        check("ab\ncd\n", 2);
        check("abcd\n", 1);
        check("abcde\n", 2);
        check("äöüß\n", 1);
    }
}
