//! The Arrow columns of lines of a pattern: those of access logs, then the further ones.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, Float64Builder, Int16Builder, Int64Builder, RecordBatch, TimestampMicrosecondArray,
};
use storage::{Column, ColumnType};

use super::More;
use super::line::{Figure, MoreValue, Values};
use super::names::Core;
use crate::error::Result;
use crate::formats::access::request::cut;
use crate::text::{ByteSpan, LineText, TextColumn};

/// The columns of the lines taken so far.
#[derive(Debug)]
pub(super) struct PatternColumns {
    columns: Vec<Column>,
    host: TextColumn,
    logname: TextColumn,
    user: TextColumn,
    time: Vec<i64>,
    method: TextColumn,
    path: TextColumn,
    query: TextColumn,
    protocol: TextColumn,
    request: TextColumn,
    status: Int16Builder,
    response_size: Int64Builder,
    referrer: TextColumn,
    user_agent: TextColumn,
    site: TextColumn,
    extra: TextColumn,
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
            host: TextColumn::new(),
            logname: TextColumn::new(),
            user: TextColumn::new(),
            time: Vec::new(),
            method: TextColumn::new(),
            path: TextColumn::new(),
            query: TextColumn::new(),
            protocol: TextColumn::new(),
            request: TextColumn::new(),
            status: Int16Builder::new(),
            response_size: Int64Builder::new(),
            referrer: TextColumn::new(),
            user_agent: TextColumn::new(),
            site: TextColumn::new(),
            extra: TextColumn::new(),
            more: more.iter().map(column).collect(),
        }
    }

    /// Appends one event; `site` is for lines whose pattern has none.
    pub(super) fn append(&mut self, line: LineText<'_>, values: &Values, site: Option<&str>) {
        let texts = [
            (&mut self.host, Core::Host),
            (&mut self.logname, Core::Logname),
            (&mut self.user, Core::User),
            (&mut self.referrer, Core::Referrer),
            (&mut self.user_agent, Core::UserAgent),
        ];
        for (column, core) in texts {
            append(column, line, values.place(core));
        }
        match (values.place(Core::Site), site) {
            (None, Some(site)) => self.site.value(site),
            (place, _) => append(&mut self.site, line, place),
        }
        self.extra.null();
        self.time.push(values.time_us);
        self.status.append_option(values.status);
        self.response_size.append_option(values.size);
        self.append_request(line, values);
        for (column, value) in self.more.iter_mut().zip(&values.more) {
            column.append(line, value);
        }
    }

    /// Appends the request, as it is cut from one field or stands in several.
    fn append_request(&mut self, line: LineText<'_>, values: &Values) {
        let request = values.place(Core::Request);
        let bytes = |(from, to): ByteSpan| &line.bytes()[from..to];
        let of_request = request.and_then(|place| Some((place.0, cut(bytes(place))?)));
        let Some((begin, cut)) = of_request else {
            append(&mut self.method, line, values.place(Core::Method));
            append(&mut self.protocol, line, values.place(Core::Protocol));
            append(&mut self.request, line, request);
            let (path, query) = match values.place(Core::Target) {
                Some((from, to)) => match memchr::memchr(b'?', bytes((from, to))) {
                    Some(at) => (Some((from, from + at)), Some((from + at + 1, to))),
                    None => (Some((from, to)), None),
                },
                None => (values.place(Core::Path), None),
            };
            append(&mut self.path, line, path.filter(|(from, to)| from < to));
            // Apache writes the `?` before a query, and nginx does not.
            let own = values.place(Core::Query).filter(|(from, to)| from < to);
            let own = own.map(|(from, to)| match line.bytes()[from] {
                b'?' => (from + 1, to),
                _ => (from, to),
            });
            append(&mut self.query, line, query.or(own));
            return;
        };
        let within = |span: ByteSpan| (begin + span.0, begin + span.1);
        self.method.span(line, within(cut.method));
        self.path.optional(line, cut.path.map(within));
        self.query.optional(line, cut.query.map(within));
        self.protocol.optional(line, cut.protocol.map(within));
        match request.filter(|_| !cut.rebuilds) {
            Some(request) => self.request.span(line, request),
            None => self.request.null(),
        }
    }

    /// Returns the batch so far and begins an empty one.
    pub(super) fn finish(&mut self) -> Result<RecordBatch> {
        let time = std::mem::take(&mut self.time);
        let mut arrays: Vec<ArrayRef> = vec![
            self.host.finish(),
            self.logname.finish(),
            self.user.finish(),
            Arc::new(TimestampMicrosecondArray::from(time).with_timezone("UTC")),
            self.method.finish(),
            self.path.finish(),
            self.query.finish(),
            self.protocol.finish(),
            self.request.finish(),
            Arc::new(self.status.finish()),
            Arc::new(self.response_size.finish()),
            self.referrer.finish(),
            self.user_agent.finish(),
            self.site.finish(),
            self.extra.finish(),
        ];
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
