//! The Arrow columns of lines of a pattern: those of access logs, then the further ones.

use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Builder, Int64Builder, RecordBatch};
use storage::{Column, ColumnType};

use super::More;
use super::line::{Figure, MoreValue, Values};
use super::names::Core;
use crate::error::Result;
use crate::formats::access::columns::AccessColumns;
use crate::text::{ByteSpan, LineText, TextColumn};

/// The columns of the lines taken so far.
#[derive(Debug)]
pub(super) struct PatternColumns {
    columns: Vec<Column>,
    access: AccessColumns,
    more: Vec<MoreColumn>,
}

/// A further column; a text stands where a line has several numbers.
#[derive(Debug)]
enum MoreColumn {
    Text(TextColumn),
    Int(Int64Builder, Option<TextColumn>),
    Float(Float64Builder, Option<TextColumn>),
}

impl PatternColumns {
    /// Makes columns for the further columns of a pattern.
    pub(super) fn new(more: &[More]) -> Self {
        let column = |more: &More| {
            let each = more.each().map(|_| TextColumn::new());
            match more.column.column_type {
                ColumnType::Int64 => MoreColumn::Int(Int64Builder::new(), each),
                ColumnType::Float64 => MoreColumn::Float(Float64Builder::new(), each),
                _ => MoreColumn::Text(TextColumn::new()),
            }
        };
        Self {
            columns: super::columns(more),
            access: AccessColumns::new(),
            more: more.iter().map(column).collect(),
        }
    }

    /// Appends one event; `site` is for lines whose pattern has none.
    pub(super) fn append(&mut self, line: LineText<'_>, values: &Values, site: Option<&str>) {
        let access = &mut self.access;
        let texts = [
            (&mut access.host, Core::Host),
            (&mut access.logname, Core::Logname),
            (&mut access.user, Core::User),
            (&mut access.referrer, Core::Referrer),
            (&mut access.user_agent, Core::UserAgent),
        ];
        for (column, core) in texts {
            append(column, line, values.place(core));
        }
        match (values.place(Core::Site), site) {
            (None, Some(site)) => access.site.value(site),
            (place, _) => append(&mut access.site, line, place),
        }
        access.extra.null();
        access.time.push(values.time_us);
        access.status.append_option(values.status);
        access.response_size.append_option(values.size);
        match values.place(Core::Request) {
            Some(request) => access.append_request(line, request),
            None => self.append_parts(line, values),
        }
        for (column, value) in self.more.iter_mut().zip(&values.more) {
            column.append(line, value);
        }
    }

    /// Appends a request that stands in several fields.
    fn append_parts(&mut self, line: LineText<'_>, values: &Values) {
        let access = &mut self.access;
        access.request.null();
        append(&mut access.method, line, values.place(Core::Method));
        append(&mut access.protocol, line, values.place(Core::Protocol));
        let (path, query) = match values.place(Core::Target) {
            Some((from, to)) => match memchr::memchr(b'?', &line.bytes()[from..to]) {
                Some(at) => (Some((from, from + at)), Some((from + at + 1, to))),
                None => (Some((from, to)), None),
            },
            None => (values.place(Core::Path), None),
        };
        append(&mut access.path, line, path.filter(|(from, to)| from < to));
        // Apache writes the `?` before a query, and nginx does not.
        let own = values.place(Core::Query).filter(|(from, to)| from < to);
        let own = own.map(|(from, to)| match line.bytes()[from] {
            b'?' => (from + 1, to),
            _ => (from, to),
        });
        append(&mut access.query, line, query.or(own));
    }

    /// Returns the batch so far and begins an empty one.
    pub(super) fn finish(&mut self) -> Result<RecordBatch> {
        let mut arrays = self.access.finish()?.columns().to_vec();
        self.more
            .iter_mut()
            .for_each(|more| more.finish(&mut arrays));
        let schema = storage::arrow_schema(&self.columns);
        Ok(RecordBatch::try_new(schema, arrays)?)
    }
}

impl MoreColumn {
    fn append(&mut self, line: LineText<'_>, value: &MoreValue) {
        let each = match self {
            Self::Text(column) => return append(column, line, value.text),
            Self::Int(column, each) => {
                column.append_option(match value.figure {
                    Some(Figure::Int(number)) => Some(number),
                    _ => None,
                });
                each
            }
            Self::Float(column, each) => {
                column.append_option(match value.figure {
                    Some(Figure::Float(number)) => Some(number),
                    _ => None,
                });
                each
            }
        };
        if let Some(each) = each {
            each.optional(line, value.text.filter(|_| value.is_several));
        }
    }

    fn finish(&mut self, arrays: &mut Vec<ArrayRef>) {
        let each = match self {
            Self::Text(column) => return arrays.push(column.finish()),
            Self::Int(column, each) => {
                arrays.push(Arc::new(column.finish()));
                each
            }
            Self::Float(column, each) => {
                arrays.push(Arc::new(column.finish()));
                each
            }
        };
        arrays.extend(each.as_mut().map(TextColumn::finish));
    }
}

/// Appends a value; `-` and a value that the pattern does not have are null.
fn append(column: &mut TextColumn, line: LineText<'_>, place: Option<ByteSpan>) {
    match place {
        Some(place) => column.dashed(line, place),
        None => column.null(),
    }
}
