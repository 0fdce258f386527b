//! The line editor of an interactive session: its keys, its history, and what TAB completes.

use std::cell::RefCell;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustyline::completion::{Completer, FilenameCompleter};
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::FileHistory;
use rustyline::validate::Validator;
use rustyline::{CompletionType, Config, Context, Editor, Helper};

use super::asker::Asker;
use super::completion::{self, Words};
use super::history;
use crate::failure::{Failure, Result, tell};

/// Statements that the history keeps.
const HISTORY_MAX: usize = 5_000;
/// Time after which TAB reads the names again: others write to the store.
const NAMES_AGE_MAX: Duration = Duration::from_secs(60);

/// Answers the TAB key.
pub(super) struct Completing<'a> {
    asker: &'a Asker<'a>,
    /// The names, and the time at which TAB read them.
    words: RefCell<Option<(Words, Instant)>>,
    /// Lines of the statement before the one that is edited.
    earlier: String,
    files: FilenameCompleter,
}

impl Completing<'_> {
    fn read(&self) -> Result<Words> {
        let columns = self.asker.rows(completion::COLUMNS)?;
        let functions = self.asker.rows(completion::FUNCTIONS)?;
        Ok(Words::of(&columns, &functions))
    }
}

impl Helper for Completing<'_> {}
impl Hinter for Completing<'_> {
    type Hint = String;
}
impl Highlighter for Completing<'_> {}
impl Validator for Completing<'_> {}

impl Completer for Completing<'_> {
    type Candidate = String;

    fn complete(
        &self,
        line: &str,
        pos: usize,
        _: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<String>)> {
        if self.earlier.is_empty() && line.starts_with("\\i ") {
            let (start, files) = self.files.complete_path(line, pos)?;
            let names = files.into_iter().map(|file| file.replacement);
            return Ok((start, names.collect()));
        }
        let mut words = self.words.borrow_mut();
        words.take_if(|(_, read_at)| read_at.elapsed() > NAMES_AGE_MAX);
        if words.is_none() {
            *words = self.read().ok().map(|read| (read, Instant::now()));
        }
        // Without names keywords are completed; the next statement tells what is wrong.
        let none = Words::default();
        let words = words.as_ref().map_or(&none, |(words, _)| words);
        let (before, statement) = (&line[..pos], format!("{}{line}", self.earlier));
        let whole = format!("{}{before}", self.earlier);
        let (start, found) = completion::complete(words, &whole, &statement);
        Ok((start.saturating_sub(self.earlier.len()), found))
    }
}

/// Reads lines from the terminal.
pub(super) struct LineEditor<'a> {
    editor: Editor<Completing<'a>, FileHistory>,
    /// `None` where no history can be kept.
    file: Option<PathBuf>,
}

/// The end of a line.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum LineEnd {
    Line(String),
    /// Ctrl-C.
    Discarded,
    /// Ctrl-D.
    Ended,
}

impl<'a> LineEditor<'a> {
    pub(super) fn new(asker: &'a Asker<'a>) -> Result<Self> {
        let config = Config::builder()
            .max_history_size(HISTORY_MAX)
            .and_then(|config| config.history_ignore_dups(true))
            .map_err(failed)?
            .history_ignore_space(true)
            .completion_type(CompletionType::List)
            .build();
        let mut editor = Editor::with_config(config).map_err(failed)?;
        editor.set_helper(Some(Completing {
            asker,
            words: RefCell::default(),
            earlier: String::new(),
            files: FilenameCompleter::new(),
        }));
        let (state, home) = (std::env::var_os("XDG_STATE_HOME"), std::env::var_os("HOME"));
        let mut file = history::place(state, home);
        if let Some(path) = &file {
            let prepared = history::prepare(path).map_err(ReadlineError::from);
            if let Err(error) = prepared.and_then(|()| editor.load_history(path)) {
                let path = path.display();
                tell(format_args!("no history is kept: {path}: {error}"));
                file = None;
            }
        }
        Ok(Self { editor, file })
    }

    /// Reads a line of a statement of which `earlier` lines are known.
    pub(super) fn read(&mut self, prompt: &str, earlier: &str) -> Result<LineEnd> {
        if let Some(helper) = self.editor.helper_mut() {
            earlier.clone_into(&mut helper.earlier);
        }
        match self.editor.readline(prompt) {
            Ok(line) => Ok(LineEnd::Line(line)),
            Err(ReadlineError::Interrupted) => Ok(LineEnd::Discarded),
            Err(ReadlineError::Eof) => Ok(LineEnd::Ended),
            Err(error) => Err(failed(error)),
        }
    }

    /// Adds a statement or a command to the history and to its file.
    pub(super) fn remember(&mut self, text: &str) {
        let added = self.editor.add_history_entry(text);
        let Some(file) = &self.file else { return };
        let written = added.and_then(|is_new| match is_new {
            true => self.editor.append_history(file),
            false => Ok(()),
        });
        if let Err(error) = written {
            let path = file.display();
            tell(format_args!(
                "the history is not kept any more: {path}: {error}"
            ));
            self.file = None;
        }
    }

    /// Lets TAB read the names again.
    pub(super) fn forget(&mut self) {
        if let Some(helper) = self.editor.helper_mut() {
            *helper.words.borrow_mut() = None;
        }
    }

    /// Reads the names for TAB. Returns the number of tables.
    pub(super) fn refresh(&mut self) -> Result<usize> {
        let Some(helper) = self.editor.helper_mut() else {
            return Ok(0);
        };
        let words = helper.read()?;
        let tables = words.tables();
        *helper.words.borrow_mut() = Some((words, Instant::now()));
        Ok(tables)
    }
}

fn failed(error: ReadlineError) -> Failure {
    anyhow::Error::from(error).into()
}
