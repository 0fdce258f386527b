//! The Arrow columns of access-log lines, in the order of [`storage::access_fields`].

use std::borrow::Cow;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, Int16Array, Int64Builder, RecordBatch, StringBuilder, TimestampMicrosecondArray,
};
use arrow::datatypes::SchemaRef;

use super::request::cut;
use super::{Record, Span};
use crate::error::Result;

/// The text of one line. Spans begin and end at ASCII bytes, so cutting valid UTF-8 at them keeps
/// it valid; of other lines each field is converted for itself, U+FFFD for each maximal subpart.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Text<'a> {
    /// Checked before, as a whole.
    Valid(&'a str),
    /// Not UTF-8.
    Bytes(&'a [u8]),
}

impl<'a> Text<'a> {
    pub(crate) fn bytes(self) -> &'a [u8] {
        match self {
            Self::Valid(text) => text.as_bytes(),
            Self::Bytes(bytes) => bytes,
        }
    }

    /// The whole of it.
    pub(crate) fn text(self) -> Cow<'a, str> {
        match self {
            Self::Valid(text) => text.into(),
            Self::Bytes(bytes) => String::from_utf8_lossy(bytes),
        }
    }
}

/// A text column that counts nulls until a value comes: most lines have no user, site or extra.
#[derive(Debug)]
pub(crate) struct TextColumn {
    builder: StringBuilder,
    nulls: usize,
}

impl TextColumn {
    pub(crate) fn new() -> Self {
        Self {
            builder: StringBuilder::with_capacity(0, 0),
            nulls: 0,
        }
    }

    #[inline]
    pub(crate) fn null(&mut self) {
        self.nulls += 1;
    }

    #[inline]
    pub(crate) fn value(&mut self, value: &str) {
        self.settle();
        self.builder.append_value(value);
    }

    #[inline]
    fn span(&mut self, line: Text<'_>, (from, to): Span) {
        match line {
            Text::Valid(text) => self.value(&text[from..to]),
            Text::Bytes(bytes) => self.value(&String::from_utf8_lossy(&bytes[from..to])),
        }
    }

    #[inline]
    fn optional(&mut self, line: Text<'_>, span: Option<Span>) {
        match span {
            Some(span) => self.span(line, span),
            None => self.null(),
        }
    }

    /// A field in which `-` stands for nothing.
    #[inline]
    fn dashed(&mut self, line: Text<'_>, span: Span) {
        if span.1 - span.0 == 1 && line.bytes()[span.0] == b'-' {
            self.null();
        } else {
            self.span(line, span);
        }
    }

    #[inline]
    fn settle(&mut self) {
        if self.nulls > 0 {
            self.builder.append_nulls(self.nulls);
            self.nulls = 0;
        }
    }

    /// The column so far; the next one begins with room for as much again.
    pub(crate) fn finish(&mut self) -> ArrayRef {
        self.settle();
        let bytes = self.builder.values_slice().len();
        let rows = self.builder.offsets_slice().len();
        let array = self.builder.finish();
        self.builder = if bytes == 0 {
            StringBuilder::with_capacity(0, 0)
        } else {
            StringBuilder::with_capacity(rows, bytes + bytes / 8)
        };
        Arc::new(array)
    }
}

/// The columns of the lines taken so far.
#[derive(Debug)]
pub(crate) struct Columns {
    schema: SchemaRef,
    host: TextColumn,
    logname: TextColumn,
    user: TextColumn,
    time: Vec<i64>,
    method: TextColumn,
    path: TextColumn,
    query: TextColumn,
    protocol: TextColumn,
    request: TextColumn,
    status: Vec<i16>,
    response_size: Int64Builder,
    referrer: TextColumn,
    user_agent: TextColumn,
    site: TextColumn,
    extra: TextColumn,
}

impl Columns {
    pub(crate) fn new() -> Self {
        Self {
            schema: storage::arrow_schema(&storage::access_fields()),
            host: TextColumn::new(),
            logname: TextColumn::new(),
            user: TextColumn::new(),
            time: Vec::new(),
            method: TextColumn::new(),
            path: TextColumn::new(),
            query: TextColumn::new(),
            protocol: TextColumn::new(),
            request: TextColumn::new(),
            status: Vec::new(),
            response_size: Int64Builder::with_capacity(0),
            referrer: TextColumn::new(),
            user_agent: TextColumn::new(),
            site: TextColumn::new(),
            extra: TextColumn::new(),
        }
    }

    /// Appends one event; `site` is for lines whose format has none.
    #[inline]
    pub(crate) fn append(&mut self, line: Text<'_>, record: &Record, site: Option<&str>) {
        self.host.dashed(line, record.host);
        self.logname.dashed(line, record.logname);
        self.user.dashed(line, record.user);
        self.time.push(record.time_us);
        self.append_request(line, record.request);
        self.status.push(record.status);
        self.response_size.append_option(record.size);
        match record.referrer {
            Some(span) => self.referrer.dashed(line, span),
            None => self.referrer.null(),
        }
        match record.user_agent {
            Some(span) => self.user_agent.dashed(line, span),
            None => self.user_agent.null(),
        }
        match (record.site, site) {
            (Some(span), _) => self.site.dashed(line, span),
            (None, Some(site)) => self.site.value(site),
            (None, None) => self.site.null(),
        }
        self.extra.optional(line, record.extra);
    }

    #[inline]
    fn append_request(&mut self, line: Text<'_>, request: Span) {
        let Some(cut) = cut(&line.bytes()[request.0..request.1]) else {
            self.method.null();
            self.path.null();
            self.query.null();
            self.protocol.null();
            self.request.dashed(line, request);
            return;
        };
        let within = |span: Span| (request.0 + span.0, request.0 + span.1);
        self.method.span(line, within(cut.method));
        self.path.optional(line, cut.path.map(within));
        self.query.optional(line, cut.query.map(within));
        self.protocol.optional(line, cut.protocol.map(within));
        if cut.rebuilds {
            self.request.null();
        } else {
            self.request.span(line, request);
        }
    }

    /// The batch so far, and empty columns again.
    pub(crate) fn finish(&mut self) -> Result<RecordBatch> {
        let rows = self.time.len();
        let time = std::mem::replace(&mut self.time, Vec::with_capacity(rows));
        let status = std::mem::replace(&mut self.status, Vec::with_capacity(rows));
        let response_size = self.response_size.finish();
        self.response_size = Int64Builder::with_capacity(rows);
        let columns: Vec<ArrayRef> = vec![
            self.host.finish(),
            self.logname.finish(),
            self.user.finish(),
            Arc::new(TimestampMicrosecondArray::from(time).with_timezone("UTC")),
            self.method.finish(),
            self.path.finish(),
            self.query.finish(),
            self.protocol.finish(),
            self.request.finish(),
            Arc::new(Int16Array::from(status)),
            Arc::new(response_size),
            self.referrer.finish(),
            self.user_agent.finish(),
            self.site.finish(),
            self.extra.finish(),
        ];
        Ok(RecordBatch::try_new(Arc::clone(&self.schema), columns)?)
    }
}
