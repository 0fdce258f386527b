//! The messages of a client after its login.
//!
//! # Invariants
//! * Every `Query` and every `Sync` is answered by one `ReadyForQuery`. After an error of the
//!   extended protocol, messages are skipped up to the next `Sync`.
//! * A failed statement ends the transaction that it is in: until its end, statements are refused.
//! * Statements and portals take a bounded part of the memory.

mod extended;
mod portals;
mod simple;

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::BufMut;
use query::SessionValues;
use tokio::sync::Semaphore;

use self::portals::{Portal, Statement};
use super::Postgres;
use super::cancel::Cancels;
use super::error::{SqlError, put_warning, state};
use super::message::{Message, put, put_text};
use super::rows::{Into, Rows, wire_schema};
use super::settings::Settings;
use super::startup::Started;
use super::wire::{Broken, Wire};
use crate::access::{Action, Principal, Target};
use crate::serve::{Client, Serving, Share, Stop};

/// Time after which an idle connection is closed.
const IDLE_WITHIN: Duration = Duration::from_secs(3600);
/// Bytes of a message beyond the longest text of a query: values of parameters.
const VALUES_BYTES_MAX: usize = 1 << 20;
/// Maximum statements and portals of a session, and the bytes of their texts and values.
const HELD_MAX: usize = 1_000;
const HELD_BYTES_MAX: usize = 8 << 20;

/// The end of the work on a message.
#[derive(Debug)]
enum End {
    Error(SqlError),
    Gone,
}

type Done<T = ()> = Result<T, End>;

impl From<SqlError> for End {
    fn from(error: SqlError) -> Self {
        Self::Error(error)
    }
}

impl From<query::Error> for End {
    fn from(error: query::Error) -> Self {
        Self::Error(error.into())
    }
}

impl From<Broken> for End {
    fn from(broken: Broken) -> Self {
        match broken {
            Broken::Gone => Self::Gone,
            Broken::Fatal(error) => Self::Error(error),
        }
    }
}

/// The state of a transaction. It has no effect but to refuse statements after an error: each
/// statement reads the present state of the store.
#[derive(Debug, Clone)]
enum Transaction {
    None,
    Open(Box<Settings>),
    Failed(Box<Settings>),
}

/// The session of a client.
pub(super) struct Connection {
    serving: Arc<Serving>,
    large: Arc<Semaphore>,
    wire: Wire,
    principal: Arc<Principal>,
    client: IpAddr,
    user: String,
    settings: Settings,
    /// Settings to restore at the end of the transaction, of `SET LOCAL`.
    locals: Vec<(String, String)>,
    transaction: Transaction,
    statements: HashMap<String, Arc<Statement>>,
    portals: HashMap<String, Portal>,
    /// The statement that was prepared last, until the next `Sync`: mostly it is started at once.
    fresh: Option<(String, query::Prepared, Arc<Share>)>,
    /// Values of settings that the client was told.
    told: HashMap<&'static str, String>,
    cancels: Cancels,
    stop: Stop,
}

impl Connection {
    pub(super) fn new(postgres: &Postgres, started: Started) -> Self {
        Self {
            serving: Arc::clone(&postgres.serving),
            large: Arc::clone(&postgres.large),
            wire: started.wire,
            principal: started.principal,
            client: started.client,
            user: started.user,
            settings: started.settings,
            locals: Vec::new(),
            transaction: Transaction::None,
            statements: HashMap::new(),
            portals: HashMap::new(),
            fresh: None,
            told: HashMap::new(),
            cancels: postgres.sessions.add(),
            stop: postgres.serving.stop.clone(),
        }
    }

    /// Answers messages until the client leaves or the server stops.
    pub(super) async fn run(mut self) {
        self.greet();
        match self.serve().await {
            Ok(()) | Err(End::Gone) => {}
            Err(End::Error(error)) => error.put(&mut self.wire.socket.out),
        }
        self.wire.close().await;
    }

    fn greet(&mut self) {
        for (name, value) in self.settings.reported() {
            put_setting(&mut self.wire.socket.out, name, value);
            self.told.insert(name, value.to_owned());
        }
        let (number, secret) = (self.cancels.number, self.cancels.secret);
        put(&mut self.wire.socket.out, b'K', |out| {
            out.put_i32(number);
            out.put_slice(&secret);
        });
        self.ready();
    }

    async fn serve(&mut self) -> Done {
        let mut skips = false;
        let sql_bytes = self.serving.config.query.limits().sql_bytes;
        let most = sql_bytes.saturating_add(VALUES_BYTES_MAX);
        loop {
            let message = self.next(most).await?;
            let Some((message, _large)) = message else {
                return Ok(());
            };
            let is_simple = matches!(message, Message::Query(_));
            if skips && !matches!(message, Message::Sync | Message::Terminate) {
                continue;
            }
            skips = false;
            let done = match message {
                Message::Query(sql) => self.simple(&sql).await,
                Message::Terminate => return Ok(()),
                other => self.extended(other).await,
            };
            match done {
                Ok(()) => {}
                Err(End::Error(error)) if !error.is_fatal => {
                    error.put(&mut self.wire.socket.out);
                    // A client that flushes waits for it, and its next messages are skipped.
                    self.wire.ask();
                    self.fail();
                    skips = !is_simple;
                }
                Err(end) => return Err(end),
            }
            if is_simple {
                self.ready();
            }
        }
    }

    /// Reads the next message, after the answers to those before it were sent if it has not
    /// arrived yet. Returns `None` when the server stops.
    async fn next(&mut self, most: usize) -> Done<Option<(Message, Option<Large>)>> {
        if !self.wire.has_message() && !self.wire.socket.out.is_empty() && self.wire.is_due() {
            self.wire.send().await?;
        }
        self.wire.send_if_full().await?;
        let read = tokio::time::timeout(IDLE_WITHIN, self.wire.read(most, &self.large));
        let read = tokio::select! {
            read = read => read,
            () = self.stop.heard() => {
                let message = "terminating connection due to administrator command";
                return Err(SqlError::fatal(state::SHUTDOWN, message).into());
            }
        };
        let Ok(read) = read else {
            let message = "terminating connection due to idle-session timeout";
            return Err(SqlError::fatal(state::IDLE, message).into());
        };
        let (kind, body, large) = read?;
        Ok(Some((
            Message::read(kind, body).map_err(Broken::from)?,
            large,
        )))
    }

    /// Ends the transaction with an error, if there is one.
    fn fail(&mut self) {
        self.fresh = None;
        if let Transaction::Open(before) = &self.transaction {
            self.transaction = Transaction::Failed(before.clone());
        }
    }

    /// Appends the message that asks for the next one.
    fn ready(&mut self) {
        let status = match self.transaction {
            Transaction::None => b'I',
            Transaction::Open(_) => b'T',
            Transaction::Failed(_) => b'E',
        };
        put(&mut self.wire.socket.out, b'Z', |out| out.put_u8(status));
        self.wire.ask();
    }

    /// Appends the tag of a statement that has ended.
    fn complete(&mut self, tag: &str) {
        put(&mut self.wire.socket.out, b'C', |out| put_text(out, tag));
    }

    fn warn(&mut self, code: &str, message: &str) {
        put_warning(&mut self.wire.socket.out, code, message);
    }

    /// Checks that the transaction has not failed.
    fn check_transaction(&self) -> Result<(), SqlError> {
        match self.transaction {
            Transaction::Failed(_) => Err(SqlError::new(
                state::FAILED_TRANSACTION,
                "current transaction is aborted, commands ignored until end of transaction block",
            )),
            _ => Ok(()),
        }
    }

    /// Returns the client within its share, for one statement.
    fn client(&mut self) -> Result<(Client, Arc<Share>), SqlError> {
        let Some(principal) = self.serving.access.renew(&self.principal) else {
            let message = "the account of this connection was changed or removed";
            return Err(SqlError::fatal(state::INVALID_AUTHORIZATION, message));
        };
        self.principal = principal;
        if !self.principal.may(Action::Read, Target::Visible) {
            let message = format!("{} may not read any more", self.principal.name());
            return Err(SqlError::fatal(state::INVALID_AUTHORIZATION, message));
        }
        let share = match self.serving.access.is_open() {
            true => Share::default(),
            false => self
                .serving
                .shares
                .request(self.client, Some(&self.principal))?,
        };
        let share = Arc::new(share);
        Ok((
            Client::new(Arc::clone(&self.principal), Arc::clone(&share)),
            share,
        ))
    }

    /// Returns the settings of the session as the engine needs them.
    fn base(&self) -> query::Session {
        let zone = self.settings.zone;
        let default = query::Session::default();
        query::Session {
            schema: self.settings.schema().unwrap_or(default.schema),
            time_max: self.settings.timeout,
            time_zone: (zone != chrono_tz::Tz::UTC).then(|| zone.name().to_owned()),
            values: Some(Arc::new(SessionValues {
                user: self.user.clone(),
                process_id: self.cancels.number,
                settings: self.settings.values().clone(),
                client_address: Some(self.client.to_string()),
            })),
            ..query::Session::default()
        }
    }

    /// Waits for work, unless the client cancels it or goes, or the server stops.
    async fn until_cancelled<T>(&mut self, work: impl Future<Output = T>) -> Done<T> {
        tokio::select! {
            biased;
            () = self.cancels.requested() => {
                let message = "canceling statement due to user request";
                Err(SqlError::new(state::CANCELLED, message).into())
            }
            () = self.stop.heard() => {
                let message = "terminating connection due to administrator command";
                Err(SqlError::fatal(state::SHUTDOWN, message).into())
            }
            done = work => Ok(done),
            broken = self.wire.gone() => Err(broken.into()),
        }
    }

    /// Starts a question without parameters.
    async fn ask(&mut self, sql: &str) -> Done<Rows> {
        let (client, share) = self.client()?;
        let serving = Arc::clone(&self.serving);
        let (base, zone) = (self.base(), self.settings.zone);
        let asked = serving.ask(&client, base, sql.into(), query::Parameters::None);
        let answer = self.until_cancelled(asked).await??;
        let schema = wire_schema(&answer.schema, zone);
        Ok(Rows::new(answer, schema, zone, share)?)
    }

    /// Writes rows: all, or at most `most`. Returns their number.
    async fn write(
        &mut self,
        rows: &mut Rows,
        mut into: Into<'_>,
        most: Option<usize>,
    ) -> Done<u64> {
        let mut left = most.unwrap_or(usize::MAX);
        let mut written = 0;
        while left > 0 {
            self.until_cancelled(rows.ready()).await??;
            if rows.is_done() {
                break;
            }
            let now = rows.write(&mut into, left, &mut self.wire.socket.out);
            (left, written) = (left - now, written + now as u64);
            self.wire.send_if_full().await?;
            // Others of this thread go on between two buffers.
            tokio::task::yield_now().await;
        }
        // The end is known with the last row, so that a portal need not be asked once more.
        if left == 0 && most.is_some() {
            self.until_cancelled(rows.ready()).await??;
        }
        Ok(written)
    }

    /// Checks that there is room for a statement or a portal of so many bytes.
    fn check_room(&self, bytes: usize) -> Result<(), SqlError> {
        let statements = self.statements.values().map(|statement| statement.bytes());
        let portals = self.portals.values().map(Portal::bytes);
        let held = statements
            .chain(portals)
            .sum::<usize>()
            .saturating_add(bytes);
        let count = self.statements.len() + self.portals.len();
        if count >= HELD_MAX || held > HELD_BYTES_MAX {
            return Err(SqlError::new("53400", format!(
                "a session has at most {HELD_MAX} statements and cursors, of {HELD_BYTES_MAX} bytes together"
            )).hint("DEALLOCATE ALL, or CLOSE ALL, makes room"));
        }
        Ok(())
    }
}

/// The part that a large message takes of the memory for all of them.
pub(super) type Large = tokio::sync::OwnedSemaphorePermit;

fn put_setting(out: &mut bytes::BytesMut, name: &str, value: &str) {
    put(out, b'S', |out| {
        put_text(out, name);
        put_text(out, value);
    });
}
