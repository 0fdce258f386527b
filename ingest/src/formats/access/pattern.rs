//! Access logs in a format of the server's own: a `LogFormat` of Apache httpd, a `log_format` of
//! nginx.
//!
//! The text of the configuration is compiled once ([`AccessPattern`]) to steps: literal text, and
//! fields between it. `names.rs` says which column and type a field has, by the documentation of
//! `mod_log_config` and of nginx's variables; `line.rs` reads lines, `columns.rs` makes columns.
//! The columns are those of access logs, and behind them the fields that access logs do not have.

mod columns;
mod line;
mod names;
mod syntax;

use std::sync::Arc;

use arrow::array::RecordBatch;
use storage::{Column, ColumnType};

use self::columns::PatternColumns;
use self::names::{Core, PatternPart};
use super::stored;
use crate::anonymise::Anonymiser;
use crate::bad::Bad;
use crate::documents::is_reserved;
use crate::error::{Error, Result};
use crate::formats::documents::PATTERN_BYTES_MAX;
use crate::reader::{LineReader, ReaderOptions, Taken};
use crate::select::{RAW_LINE, Selection};
use crate::text::LineText;

/// A part of a pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    /// Text that stands in each line.
    Literal(Vec<u8>),
    /// A field. It ends where the literal behind it begins.
    Field(Field),
}

/// A field of a pattern, and the place of its value.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Field {
    /// As the configuration spells it, for messages.
    spelling: String,
    target: Target,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Target {
    /// A column that every access log has.
    Core(Core),
    /// A column behind those, by its place.
    More(usize),
    /// The time, or one of its pieces.
    Time(usize),
    /// The value of a field that came before.
    Again,
}

/// The number of a field that may have several.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Number {
    /// One number, in microseconds, bytes and so on: the unit of the server.
    One,
    /// The sum, of servers that were asked one after the other.
    Sum,
    /// The last one, of the server that answered.
    Last,
}

/// A column behind those of access logs.
#[derive(Debug, Clone, PartialEq, Eq)]
struct More {
    column: Column,
    /// `None` for texts.
    number: Option<Number>,
    /// It has a part for each server that was asked.
    is_list: bool,
}

/// The form of the time in a line.
#[derive(Debug, Clone, PartialEq, Eq)]
enum TimeForm {
    /// `10/Oct/2000:13:55:36 -0700`, in brackets or not.
    Access { in_brackets: bool },
    /// RFC 3339, or a number of seconds or parts of them since 1970.
    Stamp,
    /// One or more pieces in formats of `strftime`.
    Pieces(Vec<String>),
}

/// A compiled pattern. Two of the same text are equal.
#[derive(Debug)]
pub struct AccessPattern {
    /// `apache:…` or `nginx:…`, as the user spells it.
    name: String,
    steps: Vec<Step>,
    form: TimeForm,
    more: Vec<More>,
    /// The end of a user's name, which may hold spaces, before a time in brackets.
    user_end: Option<Vec<u8>>,
}

impl AccessPattern {
    /// Compiles a pattern behind `apache:` or `nginx:`; `None` for other names.
    ///
    /// # Errors
    /// [`Error::BadPattern`] for a text that is no such pattern, with the place in it.
    pub(in crate::formats) fn of_name(name: &str) -> Option<Result<Arc<Self>>> {
        let (server, text) = name.split_once(':')?;
        let compiled = match server {
            "apache" => syntax::apache(text),
            "nginx" => syntax::nginx(text),
            _ => return None,
        };
        let built = compiled.and_then(|found| Self::new(name, found));
        let pattern = built.map_err(|why| Error::BadPattern {
            pattern: name.to_owned(),
            why,
        });
        Some(pattern.map(Arc::new))
    }

    fn new(name: &str, found: Vec<PatternPart>) -> std::result::Result<Self, String> {
        if name.len() > PATTERN_BYTES_MAX {
            return Err(format!("it is longer than {PATTERN_BYTES_MAX} bytes"));
        }
        let mut pattern = Self {
            name: name.to_owned(),
            steps: Vec::new(),
            form: TimeForm::Stamp,
            more: Vec::new(),
            user_end: None,
        };
        let mut times = 0;
        let found = joined(found);
        let cores: Vec<Core> = found.iter().filter_map(PatternPart::core).collect();
        for part in found {
            match part {
                PatternPart::Literal(text) => match pattern.steps.last_mut() {
                    Some(Step::Literal(before)) => before.extend(text),
                    _ => pattern.steps.push(Step::Literal(text)),
                },
                PatternPart::Time(spelling, form) => {
                    pattern.add_form(&spelling, form, times > 0)?;
                    pattern.add_field(spelling, Target::Time(times))?;
                    times += 1;
                }
                PatternPart::Value(value) => {
                    let target = pattern.target(&value, &cores);
                    pattern.add_field(value.spelling, target)?;
                }
            }
        }
        if times == 0 {
            return Err("it has no time, which every event has".to_owned());
        }
        pattern.user_end = pattern.user_end();
        Ok(pattern)
    }

    /// Returns the text between the user and the bracket of the time right behind it.
    fn user_end(&self) -> Option<Vec<u8>> {
        let is_user = |field: &Field| field.target == Target::Core(Core::User);
        let in_brackets = self.form == TimeForm::Access { in_brackets: true };
        self.steps.windows(3).find_map(|steps| match steps {
            [Step::Field(user), Step::Literal(text), Step::Field(time)]
                if is_user(user) && time.target == Target::Time(0) && in_brackets =>
            {
                Some([text, &b"["[..]].concat())
            }
            _ => None,
        })
    }

    fn add_form(
        &mut self,
        spelling: &str,
        form: TimeForm,
        has_time: bool,
    ) -> std::result::Result<(), String> {
        self.form = match (&self.form, form) {
            (_, form) if !has_time => form,
            (TimeForm::Pieces(before), TimeForm::Pieces(next)) => {
                TimeForm::Pieces([&before[..], &next].concat())
            }
            _ => return Err(format!("{spelling} is a second time")),
        };
        Ok(())
    }

    fn add_field(&mut self, spelling: String, target: Target) -> std::result::Result<(), String> {
        if let Some(Step::Field(before)) = self.steps.last() {
            return Err(format!(
                "{} and {spelling} have no text between them, so that a line does not tell where \
                 the first ends",
                before.spelling
            ));
        }
        self.steps.push(Step::Field(Field { spelling, target }));
        Ok(())
    }

    /// Returns the column of a value: that of access logs, or a further one where there is none or
    /// another value has it. `cores` are the columns of all values of the pattern.
    fn target(&mut self, value: &names::Value, cores: &[Core]) -> Target {
        let fields = || {
            let steps = self.steps.iter();
            steps.filter_map(|step| match step {
                Step::Field(field) => Some(field),
                Step::Literal(_) => None,
            })
        };
        if fields().any(|field| field.spelling == value.spelling) {
            return Target::Again;
        }
        if let Some(core) = value.core
            && !fields().any(|field| field.target == Target::Core(core))
            && !core.is_told_by(cores)
        {
            return Target::Core(core);
        }
        let column_type = value.column_type;
        let more = |name: &str| More {
            column: Column::new(name, column_type),
            number: (column_type != ColumnType::Text).then_some(value.number),
            is_list: value.is_list,
        };
        let names = (2..).map(|nth| format!("{}_{nth}", value.name));
        let mut names = std::iter::once(value.name.clone()).chain(names);
        let free = names.find_map(|name| Some(more(&name)).filter(|more| self.has_room_for(more)));
        self.more.extend(free);
        Target::More(self.more.len() - 1)
    }

    /// Returns whether no other column of the events has the name of a further one.
    fn has_room_for(&self, more: &More) -> bool {
        let columns = columns(&self.more);
        let is_free = |name: &str| {
            !is_reserved(name)
                && name != RAW_LINE
                && columns.iter().all(|column| *column.name != *name)
        };
        is_free(&more.column.name) && more.each().is_none_or(|each| is_free(&each.name))
    }

    /// Returns the name of the format.
    pub(in crate::formats) fn name(&self) -> &str {
        &self.name
    }

    /// Checks the names that a stream's configuration has for fields of this format.
    ///
    /// # Errors
    /// As those of access logs.
    pub(in crate::formats) fn check(
        &self,
        selection: &Selection,
        anonymiser: &Anonymiser,
    ) -> Result<()> {
        stored::check(selection, anonymiser, &columns(&self.more))
    }

    /// Makes a reader of lines.
    pub(in crate::formats) fn reader(self: &Arc<Self>) -> Box<dyn LineReader> {
        Box::new(PatternReader {
            columns: PatternColumns::new(&self.more),
            pattern: Arc::clone(self),
            line: line::Values::default(),
        })
    }
}

/// Joins a query to the path right before it, from which its `?` divides it: `%U%q` and
/// `$uri$is_args$args`.
fn joined(found: Vec<PatternPart>) -> Vec<PatternPart> {
    let mut joined: Vec<PatternPart> = Vec::new();
    for part in found {
        match (joined.last_mut(), part) {
            (Some(PatternPart::Value(before)), PatternPart::Value(next))
                if matches!(before.core, Some(Core::Path | Core::Target))
                    && (next.core == Some(Core::Query) || next.name == "is_args") =>
            {
                before.core = Some(Core::Target);
                before.spelling += &next.spelling;
            }
            (_, part) => joined.push(part),
        }
    }
    joined
}

/// Returns the columns of events: those of access logs, then the further ones.
fn columns(more: &[More]) -> Vec<Column> {
    let mut columns = storage::access_fields();
    for more in more {
        columns.push(more.column.clone());
        columns.extend(more.each());
    }
    columns
}

impl More {
    /// Returns the column of all numbers, as they stand, of a line in which they are several.
    fn each(&self) -> Option<Column> {
        let name = || format!("{}_each", self.column.name);
        (self.is_list && self.number.is_some()).then(|| Column::new(&name(), ColumnType::Text))
    }
}

impl PartialEq for AccessPattern {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for AccessPattern {}

/// Takes lines of a pattern.
#[derive(Debug)]
struct PatternReader {
    pattern: Arc<AccessPattern>,
    columns: PatternColumns,
    line: line::Values,
}

impl LineReader for PatternReader {
    #[inline]
    fn take(&mut self, line: LineText<'_>, options: &ReaderOptions) -> Result<Taken, Bad> {
        self.line.read(&self.pattern, line, options)?;
        options.check_time(self.line.time_at, self.line.time_us)?;
        self.columns
            .append(line, &self.line, options.site.as_deref());
        Ok(Taken::Event)
    }

    fn finish(&mut self, options: &ReaderOptions) -> Result<RecordBatch> {
        let events = self.columns.finish()?;
        self.pattern
            .check(&options.selection, &options.anonymiser)?;
        let events = options.anonymiser.apply_to_columns(events)?;
        stored::select(&options.selection, events)
    }
}

#[cfg(test)]
mod tests;
