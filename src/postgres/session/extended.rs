//! The extended protocol: statements, portals and their parts.
//!
//! # Invariants
//! * A statement keeps its text, not its plan: each start reads the present tables. A plan waits
//!   for its start only until the next `Sync`.
//! * Rows have the columns that the statement was described with.

use std::sync::Arc;

use arrow::datatypes::{DataType, SchemaRef};
use bytes::BufMut;
use query::{Parameters, Question, ScalarValue};

use super::portals::{Parameter, Portal, PortalState, Statement, StatementKind};
use super::simple::{Returns, is_of_failed, no_cursor, no_statement, tag};
use super::{Connection, Done};
use crate::postgres::command::Command;
use crate::postgres::error::{SqlError, state};
use crate::postgres::message::{Bind, Format, Message, Subject, put, put_count};
use crate::postgres::parameters;
use crate::postgres::rows::{Into, Rows, put_description, wire_schema};
use crate::postgres::wire::Broken;

/// Type of a parameter that the question implies no type for.
const TEXT: u32 = 25;

impl Connection {
    /// Answers a message of the extended protocol.
    pub(super) async fn extended(&mut self, message: Message) -> Done {
        match message {
            Message::Parse {
                statement,
                sql,
                oids,
            } => {
                self.cancels.forget();
                self.prepare(statement, &sql, &oids).await?;
                put(&mut self.wire.socket.out, b'1', |_| {});
            }
            Message::Bind(bind) => {
                self.bind(&bind)?;
                put(&mut self.wire.socket.out, b'2', |_| {});
            }
            Message::Describe(Subject::Statement(name)) => self.describe_statement(&name)?,
            Message::Describe(Subject::Portal(name)) => self.describe_portal(&name)?,
            Message::Execute { portal, rows } => {
                self.cancels.forget();
                self.run_portal(portal, rows).await?;
            }
            Message::Close(named) => {
                match named {
                    Subject::Statement(name) => drop(self.statements.remove(&name)),
                    Subject::Portal(name) => drop(self.portals.remove(&name)),
                }
                put(&mut self.wire.socket.out, b'3', |_| {});
            }
            Message::Flush => self.wire.ask(),
            Message::Sync => {
                self.fresh = None;
                self.end_statement();
                self.ready();
            }
            // Data for a COPY that was refused is skipped.
            Message::Copy | Message::Query(_) | Message::Terminate => {}
        }
        Ok(())
    }

    /// Prepares a statement under a name.
    pub(super) async fn prepare(&mut self, name: String, sql: &str, oids: &[u32]) -> Done {
        if !name.is_empty() && self.statements.contains_key(&name) {
            let message = format!("prepared statement \"{name}\" already exists");
            return Err(SqlError::new(state::DUPLICATE_STATEMENT, message).into());
        }
        if name.is_empty() {
            self.statements.remove("");
        }
        self.fresh = None;
        self.check_room(sql.len())?;
        let mut statements = query::statements::split(sql)?;
        if statements.len() > 1 {
            let message = "cannot insert multiple commands into a prepared statement";
            return Err(SqlError::new(state::SYNTAX, message).into());
        }
        let (sql, kind) = match statements.pop() {
            None => (String::new(), StatementKind::Empty),
            Some(statement) => {
                let command = Command::read(&statement.text)?;
                if !is_of_failed(&command) {
                    self.check_transaction()?;
                }
                let kind = match command {
                    Command::Query(sql) => self.prepare_query(&name, sql, oids).await?,
                    command => StatementKind::Command(command),
                };
                (statement.text, kind)
            }
        };
        let statement = Statement { sql, kind };
        self.statements.insert(name, Arc::new(statement));
        Ok(())
    }

    async fn prepare_query(
        &mut self,
        name: &str,
        sql: String,
        oids: &[u32],
    ) -> Done<StatementKind> {
        let declared = oids.iter().map(|oid| parameters::declared(*oid));
        let declared = declared.collect::<Result<Vec<_>, _>>()?;
        let (prepared, share) = self.prepared(sql, declared.clone()).await?;
        let count = parameter_count(&prepared)?.max(declared.len());
        let parameters = (0..count).map(|n| {
            let implied = prepared.parameters().get(&format!("${}", n + 1)).cloned();
            let of = declared.get(n).cloned().flatten().or(implied.flatten());
            let implied = || of.as_ref().map_or(TEXT, |of| query::pg_type(of).oid);
            let oid = oids.get(n).copied().filter(|oid| *oid != 0);
            Parameter {
                oid: oid.unwrap_or_else(implied),
                of,
            }
        });
        let kind = StatementKind::Query {
            parameters: parameters.collect(),
            schema: wire_schema(prepared.schema(), self.settings.zone),
            declared,
        };
        self.fresh = Some((name.to_owned(), prepared, share));
        Ok(kind)
    }

    /// Binds a question to the present tables.
    async fn prepared(
        &mut self,
        sql: String,
        parameters: Vec<Option<DataType>>,
    ) -> Done<(query::Prepared, Arc<crate::serve::Share>)> {
        let (client, share) = self.client()?;
        let serving = Arc::clone(&self.serving);
        let question = Question::Typed { sql, parameters };
        let bound = serving.prepare(&client, self.base(), question);
        let prepared = self.until_cancelled(bound).await??;
        Ok((prepared, share))
    }

    /// Returns a statement.
    pub(super) fn statement(&self, name: &str) -> Result<Arc<Statement>, SqlError> {
        let statement = self.statements.get(name).cloned();
        statement.ok_or_else(|| no_statement(name))
    }

    fn bind(&mut self, bind: &Bind) -> Done {
        let statement = self.statement(&bind.statement)?;
        if !bind.portal.is_empty() && self.portals.contains_key(&bind.portal) {
            let message = format!("cursor \"{}\" already exists", bind.portal);
            return Err(SqlError::new(state::DUPLICATE_CURSOR, message).into());
        }
        self.portals.remove(&bind.portal);
        statement.check_count(bind.values.len())?;
        let bytes = bind.values.iter().flatten().map(bytes::Bytes::len).sum();
        self.check_room(bytes)?;
        let formats = bind.formats().map_err(Broken::from)?;
        let each = bind.values.iter().zip(formats.each());
        let values = each
            .zip(statement.parameters())
            .map(|((value, format), parameter)| {
                let (oid, of) = (parameter.oid, parameter.of.as_ref());
                parameters::read(value.as_ref(), *format, oid, of, self.settings.zone)
            });
        let values = values.collect::<Result<Vec<_>, _>>()?;
        let columns = self
            .columns(&statement)?
            .map_or(0, |schema| schema.fields().len());
        let formats = bind.results(columns).map_err(Broken::from)?;
        let portal = Portal {
            state: PortalState::Bound {
                name: bind.statement.clone(),
                statement,
                values,
                formats: formats.each().to_vec(),
            },
            bytes,
            stays: false,
        };
        self.portals.insert(bind.portal.clone(), portal);
        Ok(())
    }

    /// Returns the columns of a statement; `None` if it returns no rows.
    fn columns(&self, statement: &Statement) -> Result<Option<SchemaRef>, SqlError> {
        Ok(match &statement.kind {
            StatementKind::Query { schema, .. } => Some(Arc::clone(schema)),
            StatementKind::Command(Command::Show(name)) => Some(self.shown(name.as_deref())?),
            StatementKind::Command(Command::Execute { statement, .. }) => {
                let statement = self.statement(statement)?;
                match &statement.kind {
                    StatementKind::Query { schema, .. } => Some(Arc::clone(schema)),
                    _ => None,
                }
            }
            StatementKind::Command(Command::Fetch {
                cursor,
                is_move: false,
                ..
            }) => {
                let portal = self.portals.get(cursor).ok_or_else(|| no_cursor(cursor))?;
                match &portal.state {
                    PortalState::Running { rows, .. } => Some(Arc::clone(rows.schema())),
                    PortalState::Bound { .. } => None,
                }
            }
            StatementKind::Command(_) | StatementKind::Empty => None,
        })
    }

    fn describe_statement(&mut self, name: &str) -> Done {
        let statement = self.statement(name)?;
        let columns = self.columns(&statement)?;
        put(&mut self.wire.socket.out, b't', |out| {
            put_count(out, statement.parameters().len());
            for parameter in statement.parameters() {
                out.put_u32(parameter.oid);
            }
        });
        self.describe(columns.as_ref(), &[]);
        Ok(())
    }

    fn describe_portal(&mut self, name: &str) -> Done {
        let portal = self.portals.get(name).ok_or_else(|| no_cursor(name))?;
        let (columns, formats) = match &portal.state {
            PortalState::Bound {
                statement, formats, ..
            } => (self.columns(statement)?, formats.clone()),
            PortalState::Running { rows, .. } => {
                (Some(Arc::clone(rows.schema())), rows.formats().to_vec())
            }
        };
        self.describe(columns.as_ref(), &formats);
        Ok(())
    }

    fn describe(&mut self, columns: Option<&SchemaRef>, formats: &[Format]) {
        match columns {
            Some(schema) => put_description(&mut self.wire.socket.out, schema, formats),
            None => put(&mut self.wire.socket.out, b'n', |_| {}),
        }
    }

    /// Runs a portal, or goes on with it.
    async fn run_portal(&mut self, name: String, most: Option<usize>) -> Done {
        let portal = self.portals.remove(&name).ok_or_else(|| no_cursor(&name))?;
        let (mut rows, sql) = match portal.state {
            PortalState::Running { rows, sql } => (rows, sql),
            PortalState::Bound {
                name: statement_name,
                statement,
                values,
                formats,
            } => match &statement.kind {
                StatementKind::Empty => {
                    put(&mut self.wire.socket.out, b'I', |_| {});
                    return Ok(());
                }
                StatementKind::Command(command) => {
                    return self.command(command.clone(), Returns::In(&formats)).await;
                }
                StatementKind::Query { .. } => {
                    self.check_transaction()?;
                    let started = self.start(&statement_name, &statement, values, &formats);
                    (Box::new(started.await?), statement.sql.clone())
                }
            },
        };
        let written = self.write(&mut rows, Into::Rows, most).await?;
        match rows.is_done() {
            true => self.complete(&tag(&sql, written)),
            false => put(&mut self.wire.socket.out, b's', |_| {}),
        }
        // It stays when it has ended: some clients ask once more.
        let portal = Portal {
            state: PortalState::Running { rows, sql },
            bytes: portal.bytes,
            stays: portal.stays,
        };
        self.portals.insert(name, portal);
        Ok(())
    }

    /// Starts a prepared query with the values of its parameters.
    pub(super) async fn start(
        &mut self,
        name: &str,
        statement: &Statement,
        values: Vec<ScalarValue>,
        formats: &[Format],
    ) -> Done<Rows> {
        let StatementKind::Query {
            declared, schema, ..
        } = &statement.kind
        else {
            return Err(SqlError::unsupported("EXECUTE of a statement that is no query").into());
        };
        let fresh = self.fresh.take().filter(|(fresh, ..)| fresh == name);
        let (prepared, share) = match fresh {
            Some((_, prepared, share)) => (prepared, share),
            None => {
                self.prepared(statement.sql.clone(), declared.clone())
                    .await?
            }
        };
        let parameters = match values.is_empty() {
            true => Parameters::None,
            false => Parameters::Typed(values.into()),
        };
        let answer = self.until_cancelled(prepared.start(parameters)).await??;
        let zone = self.settings.zone;
        let mut rows = Rows::new(answer, Arc::clone(schema), zone, share)?;
        rows.write_as(formats);
        Ok(rows)
    }
}

/// Returns the number of parameters: the highest of their numbers.
fn parameter_count(prepared: &query::Prepared) -> Result<usize, SqlError> {
    /// The protocol counts them with 16 bits.
    const PARAMETERS_MAX: usize = 32_767;
    let mut count = 0;
    for name in prepared.parameters().keys() {
        let number = name
            .strip_prefix('$')
            .and_then(|digits| digits.parse::<usize>().ok());
        match number {
            Some(number) if (1..=PARAMETERS_MAX).contains(&number) => count = count.max(number),
            _ => {
                let message = format!("there is no parameter {name}");
                return Err(SqlError::new("42P02", message).hint("write $1, $2, …"));
            }
        }
    }
    Ok(count)
}
