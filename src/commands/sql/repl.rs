//! The interactive session: statements and commands from a terminal, one after another.

use std::time::Instant;

use query::output::Output as Form;
use query::statements;

use super::asker::Asker;
use super::caret;
use super::describe;
use super::editor::{LineEditor, LineEnd};
use super::meta::{self, Meta};
use super::pager::Paged;
use super::printing::{Printing, show};
use super::script;
use crate::failure::{Failure, Result, tell};

const PROMPT: &str = "logmill=> ";
/// The prompt of further lines of a statement.
const PROMPT_MORE: &str = "logmill-> ";
/// Maximum bytes of a statement: the engine refuses longer ones, too.
const STATEMENT_BYTES_MAX: usize = 2 << 20;

/// The state of a session.
pub(super) struct Repl<'a> {
    asker: &'a Asker<'a>,
    printing: Printing,
    explain: bool,
    times: bool,
    pages: bool,
}

impl<'a> Repl<'a> {
    pub(super) fn new(asker: &'a Asker<'a>, printing: Printing, explain: bool) -> Self {
        Self {
            asker,
            printing,
            explain,
            times: false,
            pages: true,
        }
    }

    /// Reads and runs statements until the user ends the session.
    pub(super) fn run(mut self) -> Result<()> {
        let mut editor = LineEditor::new(self.asker)?;
        println!(
            "logmill {}; \\? lists the commands",
            env!("CARGO_PKG_VERSION")
        );
        let mut statement = String::new();
        loop {
            let prompt = match statement.is_empty() {
                true => PROMPT,
                false => PROMPT_MORE,
            };
            let line = match editor.read(prompt, &statement)? {
                LineEnd::Line(line) => line,
                LineEnd::Discarded => {
                    statement.clear();
                    continue;
                }
                LineEnd::Ended => return Ok(()),
            };
            if statement.is_empty() && line.trim_start().starts_with('\\') {
                editor.remember(line.trim());
                if !self.command(&line, &mut editor) {
                    return Ok(());
                }
                continue;
            }
            if statement.is_empty() && line.trim().is_empty() {
                continue;
            }
            statement.push_str(&line);
            if statement.len() > STATEMENT_BYTES_MAX {
                tell(format_args!(
                    "a statement may have {STATEMENT_BYTES_MAX} bytes; use \\i FILE for several"
                ));
                statement.clear();
            } else if statements::is_complete(&statement) {
                editor.remember(statement.trim());
                self.statements(&std::mem::take(&mut statement), &mut editor);
            } else {
                statement.push('\n');
            }
        }
    }

    /// Runs a text of whole statements up to the first error.
    fn statements(&self, text: &str, editor: &mut LineEditor<'_>) {
        let pieces = match statements::split(text) {
            Ok(pieces) => pieces,
            Err(error) => return told(&error.into(), text),
        };
        for piece in pieces {
            if let Err(failure) = self.statement(&piece.text) {
                told(&failure, &piece.text);
                // The names may have changed: a stream is new, or was dropped.
                editor.forget();
                return;
            }
        }
    }

    fn statement(&self, sql: &str) -> Result<()> {
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
        let finished = out.finish().map_err(Failure::from);
        match done {
            // The user has left the pager.
            Err(failure) if failure.is_broken_pipe() => finished,
            done => done.and(finished),
        }
    }

    /// Runs a command. Returns whether the session goes on.
    fn command(&mut self, line: &str, editor: &mut LineEditor<'_>) -> bool {
        let done = match meta::parse(line) {
            Err(why) => Err(Failure::usage(why)),
            Ok(Meta::Quit) => return false,
            Ok(meta) => self.perform(meta, editor),
        };
        if let Err(failure) = done {
            tell(&failure);
        }
        true
    }

    fn perform(&mut self, meta: Meta, editor: &mut LineEditor<'_>) -> Result<()> {
        match meta {
            Meta::Describe(name) => return self.describe(&name),
            Meta::Tables(pattern) => {
                let sql = describe::tables(pattern.as_deref());
                return self.paged(|out| self.asker.print(&sql, &self.printing(), out));
            }
            Meta::File(file) => {
                let (text, name) = script::read(&file)?;
                let (printing, text) = (self.printing(), (&*text, &*name));
                return self
                    .paged(|out| script::run(self.asker, &printing, self.explain, text, out));
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
            Meta::Refresh => println!("{} tables", editor.refresh()?),
            Meta::Help => print!("{}", meta::HELP),
            Meta::Quit => {}
        }
        Ok(())
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

/// Tells an error, with a caret where its place is known.
fn told(failure: &Failure, statement: &str) {
    let message = failure.to_string();
    match caret::marked(statement, &message) {
        Some(marked) => tell(format_args!("{message}\n{marked}")),
        None => tell(message),
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
