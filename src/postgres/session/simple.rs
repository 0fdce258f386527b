//! The simple protocol, and the commands of a session in both protocols.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use bytes::BufMut;

use super::portals::Portal;
use super::{Connection, Done, Transaction, put_setting};
use crate::postgres::cells::binary::put_value;
use crate::postgres::command::Command;
use crate::postgres::copy::{CopyOptions, CopyOut};
use crate::postgres::error::{SqlError, state};
use crate::postgres::message::{Format, put, put_count};
use crate::postgres::rows::{Into, put_description};

/// The form of a command's rows: the simple protocol describes them, the extended one has done so.
#[derive(Debug, Clone, Copy)]
pub(super) enum Returns<'a> {
    Described,
    In(&'a [Format]),
}

impl Connection {
    /// Answers a text of any number of statements.
    pub(super) async fn simple(&mut self, text: &str) -> Done {
        // As in PostgreSQL, the statement and the portal without a name end here.
        self.statements.remove("");
        self.portals.remove("");
        self.fresh = None;
        self.cancels.forget();
        let statements = query::statements::split(text)?;
        if statements.is_empty() {
            put(&mut self.wire.socket.out, b'I', |_| {});
        }
        for statement in statements {
            match Command::read(&statement.text)? {
                Command::Query(sql) => self.query(&sql).await?,
                command => self.command(command, Returns::Described).await?,
            }
        }
        self.end_statement();
        Ok(())
    }

    async fn query(&mut self, sql: &str) -> Done {
        self.check_transaction()?;
        let mut rows = self.ask(sql).await?;
        put_description(&mut self.wire.socket.out, rows.schema(), &[]);
        let written = self.write(&mut rows, Into::Rows, None).await?;
        self.complete(&tag(sql, written));
        Ok(())
    }

    /// Runs a command of the session.
    pub(super) async fn command(&mut self, command: Command, returns: Returns<'_>) -> Done {
        if !is_of_failed(&command) {
            self.check_transaction()?;
        }
        match command {
            Command::Query(sql) => self.query(&sql).await?,
            Command::Begin => self.begin(),
            Command::Commit => self.end(true),
            Command::Rollback => self.end(false),
            Command::Nothing(tag) => {
                // ROLLBACK TO a savepoint: the transaction goes on.
                if let (Transaction::Failed(before), "ROLLBACK") = (&self.transaction, tag) {
                    self.transaction = Transaction::Open(before.clone());
                }
                self.complete(tag);
            }
            Command::Set {
                name,
                value,
                is_local,
            } => self.set(&name, value.as_deref(), is_local)?,
            Command::Show(name) => self.show(name.as_deref(), returns)?,
            Command::Reset(name) => {
                match name {
                    Some(name) => self.settings.reset(&name)?,
                    None => self.settings.reset_all(),
                }
                self.report();
                self.complete("RESET");
            }
            Command::Declare {
                cursor,
                query,
                stays,
            } => self.declare(cursor, &query, stays).await?,
            Command::Fetch {
                cursor,
                rows,
                is_move,
            } => {
                let returns = (!is_move).then_some(returns);
                self.fetch(&cursor, rows, returns).await?;
            }
            Command::CloseCursor(name) => self.close_cursor(name.as_deref())?,
            Command::Copy { query, options } => self.copy(&query, &options).await?,
            Command::Prepare { statement, sql } => {
                self.prepare(statement, &sql, &[]).await?;
                self.complete("PREPARE");
            }
            Command::Execute { statement, values } => {
                self.execute(&statement, &values, returns).await?;
            }
            Command::Deallocate(name) => self.deallocate(name.as_deref())?,
            Command::DiscardAll => self.discard_all()?,
        }
        Ok(())
    }

    fn begin(&mut self) {
        match self.transaction {
            Transaction::None => {
                self.transaction = Transaction::Open(Box::new(self.settings.clone()));
            }
            _ => {
                let message = "there is already a transaction in progress";
                self.warn(state::ACTIVE_TRANSACTION, message);
            }
        }
        self.complete("BEGIN");
    }

    /// Ends the transaction. A failed one is rolled back whatever is asked.
    fn end(&mut self, commits: bool) {
        let before = std::mem::replace(&mut self.transaction, Transaction::None);
        let tag = match before {
            Transaction::None => {
                let message = "there is no transaction in progress";
                self.warn(state::NO_ACTIVE_TRANSACTION, message);
                if commits { "COMMIT" } else { "ROLLBACK" }
            }
            Transaction::Open(_) if commits => {
                for (name, value) in std::mem::take(&mut self.locals).into_iter().rev() {
                    // The value was in force before.
                    let _ignored = self.settings.set(&name, &value);
                }
                "COMMIT"
            }
            Transaction::Open(before) | Transaction::Failed(before) => {
                self.settings = *before;
                "ROLLBACK"
            }
        };
        self.locals.clear();
        self.end_statement();
        self.report();
        self.complete(tag);
    }

    /// Ends the portals of a statement outside of a transaction; cursors that were declared to
    /// stay go on.
    pub(super) fn end_statement(&mut self) {
        if matches!(self.transaction, Transaction::None) {
            self.portals.retain(|_, portal| portal.stays());
        }
    }

    fn set(&mut self, name: &str, value: Option<&str>, is_local: bool) -> Done {
        let before = self.settings.show(name).ok();
        match value {
            Some(value) => self.settings.set(name, value)?,
            None => self.settings.reset(name)?,
        }
        match (is_local, &self.transaction) {
            (true, Transaction::None) => {
                if let Some((name, value)) = before {
                    self.settings.set(&name, &value)?;
                }
                let message = "SET LOCAL can only be used in transaction blocks";
                self.warn(state::NO_ACTIVE_TRANSACTION, message);
            }
            (true, _) => self.locals.extend(before),
            (false, _) => {}
        }
        self.report();
        self.complete("SET");
        Ok(())
    }

    /// Tells the client the settings that have changed since it was told.
    fn report(&mut self) {
        for (name, value) in self.settings.reported() {
            if self.told.get(name).is_none_or(|told| told != value) {
                put_setting(&mut self.wire.socket.out, name, value);
                self.told.insert(name, value.to_owned());
            }
        }
    }

    fn show(&mut self, name: Option<&str>, returns: Returns<'_>) -> Done {
        let rows = match name {
            Some(name) => vec![vec![self.settings.show(name)?.1]],
            None => {
                let names: Vec<String> = self.settings.values().keys().cloned().collect();
                let shown = names.iter().map(|name| self.settings.show(name));
                let shown = shown.collect::<Result<Vec<_>, _>>()?;
                let rows = shown.into_iter().map(|(name, value)| vec![name, value]);
                rows.collect()
            }
        };
        if matches!(returns, Returns::Described) {
            let schema = self.shown(name)?;
            put_description(&mut self.wire.socket.out, &schema, &[]);
        }
        for values in rows {
            put(&mut self.wire.socket.out, b'D', |out| {
                put_count(out, values.len());
                for value in values {
                    put_value(out, |out| out.put_slice(value.as_bytes()));
                }
            });
        }
        self.complete("SHOW");
        Ok(())
    }

    /// Returns the columns of SHOW.
    pub(super) fn shown(&self, name: Option<&str>) -> Result<SchemaRef, SqlError> {
        let names = match name {
            Some(name) => vec![self.settings.show(name)?.0],
            None => vec!["name".to_owned(), "setting".to_owned()],
        };
        let fields = names
            .iter()
            .map(|name| Field::new(name, DataType::Utf8, true));
        Ok(Arc::new(Schema::new(fields.collect::<Vec<_>>())))
    }

    async fn declare(&mut self, cursor: String, query: &str, stays: bool) -> Done {
        if self.portals.contains_key(&cursor) {
            let message = format!("cursor \"{cursor}\" already exists");
            return Err(SqlError::new(state::DUPLICATE_CURSOR, message).into());
        }
        self.check_room(cursor.len())?;
        if matches!(self.transaction, Transaction::None) && !stays {
            let message = "DECLARE CURSOR can only be used in transaction blocks";
            return Err(SqlError::new(state::NO_ACTIVE_TRANSACTION, message).into());
        }
        let rows = self.ask(query).await?;
        self.portals.insert(cursor, Portal::of_cursor(rows, stays));
        self.complete("DECLARE CURSOR");
        Ok(())
    }

    /// Returns rows of a cursor, or moves it on.
    async fn fetch(
        &mut self,
        cursor: &str,
        most: Option<usize>,
        returns: Option<Returns<'_>>,
    ) -> Done {
        let unknown = || no_cursor(cursor);
        // An answer that fails does not go on: it is put back without an error only.
        let mut portal = self.portals.remove(cursor).ok_or_else(unknown)?;
        let rows = portal.rows_mut().ok_or_else(unknown)?;
        match returns {
            Some(Returns::Described) => {
                rows.write_as(&[]);
                put_description(&mut self.wire.socket.out, rows.schema(), &[]);
            }
            Some(Returns::In(formats)) => rows.write_as(formats),
            None => {}
        }
        let into = returns.map_or(Into::Nothing, |_| Into::Rows);
        let written = self.write(rows, into, most).await?;
        self.portals.insert(cursor.to_owned(), portal);
        let word = if returns.is_some() { "FETCH" } else { "MOVE" };
        self.complete(&format!("{word} {written}"));
        Ok(())
    }

    fn close_cursor(&mut self, name: Option<&str>) -> Done {
        match name {
            Some(name) => drop(self.portals.remove(name).ok_or_else(|| no_cursor(name))?),
            None => self.portals.clear(),
        }
        self.complete("CLOSE CURSOR");
        Ok(())
    }

    async fn copy(&mut self, query: &str, options: &CopyOptions) -> Done {
        let mut rows = self.ask(query).await?;
        let schema = Arc::clone(rows.schema());
        let names: Vec<&str> = schema.fields().iter().map(|f| f.name().as_str()).collect();
        let mut copy = CopyOut::begin(&mut self.wire.socket.out, options, &names);
        let written = self.write(&mut rows, Into::Copy(&mut copy), None).await?;
        copy.end(&mut self.wire.socket.out);
        self.complete(&format!("COPY {written}"));
        Ok(())
    }

    /// Runs a prepared statement with constants for its parameters.
    async fn execute(
        &mut self,
        name: &str,
        texts: &[Option<String>],
        returns: Returns<'_>,
    ) -> Done {
        let statement = self.statement(name)?;
        let values = statement.values(texts, self.settings.zone)?;
        let formats = match returns {
            Returns::Described => &[],
            Returns::In(formats) => formats,
        };
        let mut rows = self.start(name, &statement, values, formats).await?;
        if matches!(returns, Returns::Described) {
            put_description(&mut self.wire.socket.out, rows.schema(), &[]);
        }
        let written = self.write(&mut rows, Into::Rows, None).await?;
        self.complete(&tag(statement.sql(), written));
        Ok(())
    }

    fn deallocate(&mut self, name: Option<&str>) -> Done {
        match name {
            Some(name) => drop(
                self.statements
                    .remove(name)
                    .ok_or_else(|| no_statement(name))?,
            ),
            None => self.statements.clear(),
        }
        self.complete("DEALLOCATE");
        Ok(())
    }

    fn discard_all(&mut self) -> Done {
        if !matches!(self.transaction, Transaction::None) {
            let message = "DISCARD ALL cannot run inside a transaction block";
            return Err(SqlError::new(state::ACTIVE_TRANSACTION, message).into());
        }
        self.portals.clear();
        self.statements.clear();
        self.settings.reset_all();
        self.report();
        self.complete("DISCARD ALL");
        Ok(())
    }
}

pub(super) fn no_cursor(name: &str) -> SqlError {
    SqlError::new(
        state::INVALID_CURSOR,
        format!("cursor \"{name}\" does not exist"),
    )
}

pub(super) fn no_statement(name: &str) -> SqlError {
    let message = format!("prepared statement \"{name}\" does not exist");
    SqlError::new(state::INVALID_STATEMENT, message)
}

/// Returns whether a command runs in a failed transaction.
pub(super) fn is_of_failed(command: &Command) -> bool {
    matches!(
        command,
        Command::Commit | Command::Rollback | Command::Nothing("ROLLBACK")
    )
}

/// Returns the tag of a query.
pub(super) fn tag(sql: &str, rows: u64) -> String {
    let is_word = |c: char| c.is_ascii_alphabetic();
    let word = sql.trim_start().split(|c| !is_word(c)).next();
    match word.unwrap_or_default().to_ascii_uppercase() {
        word if ["EXPLAIN", "SHOW", "DESCRIBE"].contains(&&*word) => word,
        _ => format!("SELECT {rows}"),
    }
}
