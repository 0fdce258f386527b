//! The settings of a session, and the work of its statements and commands, from a terminal and from
//! a file alike.

use std::time::Instant;

use query::output::Output as Form;

use super::asker::Asker;
use super::describe;
use super::meta::{self, Meta};
use super::pager::Paged;
use super::printing::{Printing, show};
use super::script;
use crate::failure::{Failure, Result};

/// Files that may include one another by `\i`, one within the other.
const DEPTH_MAX: usize = 16;

/// The state of a session.
pub(super) struct Shell<'a> {
    pub(super) asker: &'a Asker<'a>,
    printing: Printing,
    explain: bool,
    times: bool,
    pages: bool,
    /// The number of files that are being read.
    depth: usize,
}

/// The effect of a command on the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    GoOn,
    /// The names for the TAB key are read again.
    Refresh,
    Quit,
}

impl<'a> Shell<'a> {
    pub(super) fn new(asker: &'a Asker<'a>, printing: Printing, explain: bool) -> Self {
        Self {
            asker,
            printing,
            explain,
            times: false,
            pages: false,
            depth: 0,
        }
    }

    /// Shows long answers by the user's pager.
    pub(super) fn with_pager(self) -> Self {
        Self {
            pages: true,
            ..self
        }
    }

    /// Runs a statement and shows its answer.
    pub(super) fn statement(&self, sql: &str) -> Result<()> {
        let began = Instant::now();
        let mut took = None;
        let done = match self.explain {
            true => self.asker.figures(sql).and_then(|figures| {
                took = Some(began.elapsed());
                show(&figures, self.printing.form)
            }),
            false => self.paged(|out| {
                let done = self.asker.print(sql, &self.printing(), out);
                took = Some(began.elapsed());
                done
            }),
        };
        if self.times {
            // The time in the pager is no time of the statement.
            let took = took.unwrap_or_else(|| began.elapsed());
            println!("Time: {:.3} ms", took.as_secs_f64() * 1e3);
        }
        done
    }

    /// Returns the form of answers for the terminal as wide as it is now.
    fn printing(&self) -> Printing {
        Printing {
            width: crate::print::width(),
            ..self.printing.clone()
        }
    }

    /// Shows what `work` writes.
    fn paged(&self, work: impl FnOnce(&mut Paged) -> Result<()>) -> Result<()> {
        let size = self.pages.then(terminal_size::terminal_size).flatten();
        let size = size.map(|(width, height)| (width.0.into(), height.0.into()));
        let mut out = Paged::new(size);
        let done = work(&mut out);
        let is_left = out.is_paging();
        let finished = out.finish().map_err(Failure::from);
        match done {
            // The user has left the pager before the end.
            Err(failure) if is_left && failure.is_broken_pipe() => finished,
            done => done.and(finished),
        }
    }

    /// Runs a command.
    pub(super) fn command(&mut self, line: &str) -> Result<Next> {
        match meta::parse(line).map_err(Failure::usage)? {
            Meta::Quit => return Ok(Next::Quit),
            Meta::Refresh => return Ok(Next::Refresh),
            Meta::File(file) => return self.include(&file),
            Meta::Describe(name) => self.describe(&name)?,
            Meta::Tables(pattern) => {
                let sql = describe::tables(pattern.as_deref());
                self.paged(|out| self.asker.print(&sql, &self.printing(), out))?;
            }
            Meta::Timing(state) => {
                self.times = state.unwrap_or(!self.times);
                println!("Timing is {}.", word(self.times));
            }
            Meta::Expanded(state) => {
                self.printing.expanded = state.unwrap_or(!self.printing.expanded);
                println!("Expanded display is {}.", word(self.printing.expanded));
            }
            Meta::Pager(state) => {
                self.pages = state.unwrap_or(!self.pages);
                println!("The pager is {}.", word(self.pages));
            }
            Meta::Form(form) => {
                self.printing.form = form;
                println!("Answers are printed as {}.", name(form));
            }
            Meta::Help => print!("{}", meta::HELP),
        }
        Ok(Next::GoOn)
    }

    /// Runs the statements of a file.
    fn include(&mut self, file: &std::path::Path) -> Result<Next> {
        if self.depth == DEPTH_MAX {
            let file = file.display();
            return Err(Failure::usage(format!(
                "\\i {file}: {DEPTH_MAX} files include one another already; does one include itself?"
            )));
        }
        let (text, name) = script::read(file)?;
        self.depth += 1;
        let done = script::run(self, &text, &name);
        self.depth -= 1;
        // A \q in the file ends the file alone.
        done.map(|_| Next::GoOn)
    }

    fn describe(&self, name: &str) -> Result<()> {
        let sql = describe::columns(name);
        if self.asker.rows(&sql)?.is_empty() {
            return Err(Failure::usage(format!(
                "there is no table {name}; \\dt lists the tables"
            )));
        }
        self.paged(|out| self.asker.print(&sql, &self.printing(), out))
    }
}

fn word(is_on: bool) -> &'static str {
    match is_on {
        true => "on",
        false => "off",
    }
}

fn name(form: Form) -> &'static str {
    match form {
        Form::Table => "table",
        Form::Json => "json",
        Form::Ndjson => "ndjson",
        Form::Csv => "csv",
        Form::Arrow => "arrow",
    }
}
