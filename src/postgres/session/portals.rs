//! Prepared statements and portals, as a session holds them.

use std::sync::Arc;

use arrow::datatypes::{DataType, SchemaRef};
use chrono_tz::Tz;
use query::ScalarValue;

use crate::postgres::command::Command;
use crate::postgres::error::{SqlError, state};
use crate::postgres::message::Format;
use crate::postgres::parameters;
use crate::postgres::rows::Rows;

/// A prepared statement.
#[derive(Debug)]
pub(super) struct Statement {
    pub(super) sql: String,
    pub(super) kind: StatementKind,
}

#[derive(Debug)]
pub(super) enum StatementKind {
    Empty,
    Command(Command),
    Query {
        /// Types that the client declared.
        declared: Vec<Option<DataType>>,
        parameters: Vec<Parameter>,
        schema: SchemaRef,
    },
}

/// A parameter: its type as clients know it, and as the engine does.
#[derive(Debug)]
pub(super) struct Parameter {
    pub(super) oid: u32,
    pub(super) of: Option<DataType>,
}

/// A statement with its values, or a cursor.
#[derive(Debug)]
pub(super) struct Portal {
    pub(super) state: PortalState,
    /// Bytes of the values.
    pub(super) bytes: usize,
    /// It outlives its transaction.
    pub(super) stays: bool,
}

#[derive(Debug)]
pub(super) enum PortalState {
    Bound {
        name: String,
        statement: Arc<Statement>,
        values: Vec<ScalarValue>,
        formats: Vec<Format>,
    },
    Running {
        rows: Box<Rows>,
        sql: String,
    },
}

impl Statement {
    /// Returns the bytes that it holds.
    pub(super) fn bytes(&self) -> usize {
        self.sql.len()
    }

    /// Returns the text.
    pub(super) fn sql(&self) -> &str {
        &self.sql
    }

    pub(super) fn parameters(&self) -> &[Parameter] {
        match &self.kind {
            StatementKind::Query { parameters, .. } => parameters,
            _ => &[],
        }
    }

    /// Reads the texts of all parameters.
    pub(super) fn values(
        &self,
        texts: &[Option<String>],
        zone: Tz,
    ) -> Result<Vec<ScalarValue>, SqlError> {
        self.check_count(texts.len())?;
        let values = texts
            .iter()
            .zip(self.parameters())
            .map(|(text, parameter)| {
                let bytes = text
                    .as_ref()
                    .map(|text| bytes::Bytes::copy_from_slice(text.as_bytes()));
                parameters::read(bytes.as_ref(), Format::Text, 0, parameter.of.as_ref(), zone)
            });
        values.collect()
    }

    pub(super) fn check_count(&self, count: usize) -> Result<(), SqlError> {
        let wanted = self.parameters().len();
        match count == wanted {
            true => Ok(()),
            false => Err(SqlError::new(
                state::PROTOCOL,
                format!("the statement has {wanted} parameters, and {count} values were given"),
            )),
        }
    }
}

impl Portal {
    /// Creates the portal of a cursor.
    pub(super) fn of_cursor(rows: Rows, stays: bool) -> Self {
        Self {
            state: PortalState::Running {
                rows: Box::new(rows),
                sql: String::new(),
            },
            bytes: 0,
            stays,
        }
    }

    /// Returns the bytes that it holds.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns whether it outlives its transaction.
    pub(super) fn stays(&self) -> bool {
        self.stays
    }

    /// Returns the rows of a cursor.
    pub(super) fn rows_mut(&mut self) -> Option<&mut Rows> {
        match &mut self.state {
            PortalState::Running { rows, .. } => Some(rows),
            PortalState::Bound { .. } => None,
        }
    }
}
