//! The Arrow columns of access-log lines, in the order of [`storage::access_fields`].

use std::sync::Arc;

use arrow::array::{ArrayRef, Int16Builder, Int64Builder, RecordBatch, TimestampMicrosecondArray};
use arrow::datatypes::SchemaRef;

use super::line::AccessLine;
use super::request::cut;
use crate::error::Result;
use crate::text::{ByteSpan, LineText, TextColumn};

/// The columns of the lines taken so far.
#[derive(Debug)]
pub(super) struct AccessColumns {
    schema: SchemaRef,
    pub(super) host: TextColumn,
    pub(super) logname: TextColumn,
    pub(super) user: TextColumn,
    pub(super) time: Vec<i64>,
    pub(super) method: TextColumn,
    pub(super) path: TextColumn,
    pub(super) query: TextColumn,
    pub(super) protocol: TextColumn,
    pub(super) request: TextColumn,
    pub(super) status: Int16Builder,
    pub(super) response_size: Int64Builder,
    pub(super) referrer: TextColumn,
    pub(super) user_agent: TextColumn,
    pub(super) site: TextColumn,
    pub(super) extra: TextColumn,
}

impl AccessColumns {
    pub(super) fn new() -> Self {
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
            status: Int16Builder::with_capacity(0),
            response_size: Int64Builder::with_capacity(0),
            referrer: TextColumn::new(),
            user_agent: TextColumn::new(),
            site: TextColumn::new(),
            extra: TextColumn::new(),
        }
    }

    /// Appends one event; `site` is for lines whose format has none.
    #[inline]
    pub(super) fn append(&mut self, line: LineText<'_>, record: &AccessLine, site: Option<&str>) {
        self.host.dashed(line, record.host);
        self.logname.dashed(line, record.logname);
        self.user.dashed(line, record.user);
        self.time.push(record.time_us);
        self.append_request(line, record.request);
        self.status.append_value(record.status);
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
    pub(super) fn append_request(&mut self, line: LineText<'_>, request: ByteSpan) {
        let Some(cut) = cut(&line.bytes()[request.0..request.1]) else {
            self.method.null();
            self.path.null();
            self.query.null();
            self.protocol.null();
            self.request.dashed(line, request);
            return;
        };
        let within = |span: ByteSpan| (request.0 + span.0, request.0 + span.1);
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

    /// Returns the batch so far and begins an empty one.
    pub(super) fn finish(&mut self) -> Result<RecordBatch> {
        let rows = self.time.len();
        let time = std::mem::replace(&mut self.time, Vec::with_capacity(rows));
        let status = self.status.finish();
        self.status = Int16Builder::with_capacity(rows);
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
            Arc::new(status),
            Arc::new(response_size),
            self.referrer.finish(),
            self.user_agent.finish(),
            self.site.finish(),
            self.extra.finish(),
        ];
        Ok(RecordBatch::try_new(Arc::clone(&self.schema), columns)?)
    }
}
