//! The commands of a client, one after the other.
//!
//! # Invariants
//! * Each message is answered before the next one is read, so that a client which does not wait for
//!   answers is read no faster than its commands end.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use bson::raw::{RawDocumentBuf, cstr};
use futures::FutureExt as _;

use super::Mongo;
use super::command::MongoCommand;
use super::commands;
use super::error::{CommandError, Result, code};
use super::login::Login;
use super::message::{MalformedMessage, MessageForm, MongoMessage, put_answer};
use super::wire::{self, Broken};
use crate::access::Principal;
use crate::listen::{Accepted, BufferedSocket, Io, within_handshake};
use crate::serve::{Client, Length, Serving, Share, Stop};
use crate::tls::{Alpn, FIRST_BYTE};

/// Time after which an idle connection is closed. Drivers keep theirs open, and open another when
/// they need one.
const IDLE_WITHIN: Duration = Duration::from_secs(3600);
/// Time that a client has for its first bytes.
const FIRST_WITHIN: Duration = Duration::from_secs(60);
/// Maximum bytes of a message before the login.
const FIRST_BYTES_MAX: usize = 48 << 10;
/// The version of a TLS record (RFC 8446, section 5.1), behind [`FIRST_BYTE`].
const TLS_MAJOR: u8 = 3;

/// Completes the answer of a command that has not failed.
fn good(mut answer: RawDocumentBuf) -> RawDocumentBuf {
    answer.append(cstr!("ok"), 1.0);
    answer
}

/// Returns the answer of a command that failed.
fn failed(error: &CommandError, has_identity: bool) -> RawDocumentBuf {
    let answer = commands::encoded(error.answer(has_identity));
    answer.expect("BUG: names of errors have no zero")
}

/// The session of a client.
pub(super) struct MongoConnection {
    pub(super) mongo: Arc<Mongo>,
    socket: BufferedSocket,
    pub(super) login: Login,
    principal: Option<Arc<Principal>>,
    pub(super) client: IpAddr,
    pub(super) number: i32,
    /// The number of the next answer.
    answer_id: i32,
    stop: Stop,
}

impl MongoConnection {
    /// Makes the handshake of a connection that begins with one of TLS. Returns `None` if that
    /// fails, or the client has gone.
    pub(super) async fn of(mongo: &Arc<Mongo>, mut accepted: Accepted) -> Option<Self> {
        accepted.keep_alive();
        let stop = accepted.stop.clone();
        let client = accepted.ends()?.client.ip().to_canonical();
        let tls = accepted.tls.take();
        let begins = accepted.begins_with(&[FIRST_BYTE, TLS_MAJOR]);
        let begins_encrypted = tokio::select! {
            begins = tokio::time::timeout(FIRST_WITHIN, begins) => begins.ok()??,
            () = stop.heard() => return None,
        };
        let (socket, certified): (Box<dyn Io>, _) = match (begins_encrypted, tls) {
            (true, Some(tls)) => {
                let handshake = tls.accept(accepted.into_socket(), Alpn::Mongo);
                match within_handshake(&stop, handshake).await? {
                    Ok((stream, certified)) => (Box::new(stream), certified),
                    Err(error) => {
                        tracing::debug!(%error, "a TLS handshake failed");
                        return None;
                    }
                }
            }
            (true, None) => {
                tracing::warn!(%client, "a MongoDB client speaks TLS, and this server has no certificate: set cert and key of [tls]");
                return None;
            }
            (false, _) => (Box::new(accepted.into_socket()), None),
        };
        let number = mongo.next_number();
        Some(Self {
            mongo: Arc::clone(mongo),
            socket: BufferedSocket::new(socket),
            login: Login::new(client, begins_encrypted, certified),
            principal: None,
            client,
            number,
            answer_id: 0,
            stop,
        })
    }

    /// Answers messages until the client leaves or the server stops.
    pub(super) async fn run(mut self) {
        match self.serve().await {
            Ok(()) | Err(Broken::Gone) => {}
            Err(Broken::Malformed(MalformedMessage(why))) => {
                tracing::debug!(client = %self.client, "a connection of a MongoDB client was closed: {why}");
            }
        }
        self.socket.close().await;
    }

    async fn serve(&mut self) -> Result<(), Broken> {
        self.principal = self.login.without(&self.serving().access).await;
        loop {
            tokio::select! {
                ready = tokio::time::timeout(IDLE_WITHIN, self.socket.fill_to(1)) => match ready {
                    Ok(ready) => ready?,
                    Err(_) => return Ok(()),
                },
                () = self.stop.heard() => return Ok(()),
            }
            let most = match self.principal {
                Some(_) => self.mongo.message_bytes_max(),
                None => FIRST_BYTES_MAX,
            };
            let incoming = wire::read(&mut self.socket, most, &self.mongo.large).await?;
            let message = MongoMessage::read(incoming.header, incoming.bytes)?;
            let answer = self.answer(&message).await?;
            if message.form == MessageForm::Unanswered {
                continue;
            }
            self.answer_id = self.answer_id.wrapping_add(1);
            let to = (message.form, message.request_id);
            put_answer(&mut self.socket.out, to, self.answer_id, &answer);
            self.socket.send().await?;
        }
    }

    async fn answer(&mut self, message: &MongoMessage) -> Result<RawDocumentBuf, Broken> {
        let name = message.name().unwrap_or_default();
        let answered = match name == "update" || commands::is_read(name) {
            true => self.compute(name, message).await,
            false => match MongoCommand::of(message, commands::OTHER_BYTES_MAX) {
                Err(error) => return Ok(failed(&error, false)),
                Ok(command) => {
                    let answered = commands::run(self, &command, message).await;
                    answered.and_then(commands::encoded)
                }
            },
        };
        let has_identity = message.has_identity();
        Ok(answered.map_or_else(|error| failed(&error, has_identity), good))
    }

    /// Answers a command that may compute for long, in turns of its account: one account holds up
    /// no other one.
    async fn compute(&mut self, name: &str, message: &MongoMessage) -> Result<RawDocumentBuf> {
        let client = self.client(name)?;
        let turns = client.share().turns();
        let mongo = Arc::clone(&self.mongo);
        let caller = commands::Caller {
            mongo: Arc::clone(&mongo),
            client: client.clone(),
        };
        let (message, length) = (message.clone(), message.length());
        let answer = commands::compute(caller, message).boxed();
        let computing = &mongo.serving.computing;
        let answer = computing.run(turns, Length::of(length), answer);
        match commands::is_read(name) {
            true => {
                let reading = async {
                    let _memory = mongo.decoding(client.share(), length).await;
                    answer.await
                };
                self.until_gone(reading).await?
            }
            // A change ends what it has begun.
            false => answer.await,
        }
    }

    pub(super) fn serving(&self) -> &Arc<Serving> {
        &self.mongo.serving
    }

    /// Ends or begins the time for which the connection has a principal.
    pub(super) fn set_principal(&mut self, principal: Option<Arc<Principal>>) {
        self.principal = principal;
    }

    /// Returns the principal as it is now.
    ///
    /// # Errors
    /// If the client has not logged in, or its account was changed since.
    pub(super) fn principal(&mut self, command: &str) -> Result<&Arc<Principal>> {
        let Some(principal) = &self.principal else {
            let message = format!("log in before the command {command}");
            return Err(CommandError::new(code::UNAUTHORIZED, message));
        };
        let Some(renewed) = self.mongo.serving.access.renew(principal) else {
            self.principal = None;
            let message = "the account of this connection was changed or removed";
            return Err(CommandError::new(code::UNAUTHORIZED, message));
        };
        Ok(self.principal.insert(renewed))
    }

    /// Returns the client within its share, for one command.
    ///
    /// # Errors
    /// As [`MongoConnection::principal`], or if its share is used up.
    pub(super) fn client(&mut self, command: &str) -> Result<Client> {
        let principal = Arc::clone(self.principal(command)?);
        let serving = self.serving();
        let share = match serving.access.is_open() {
            true => Share::default(),
            false => serving.shares.request(self.client, Some(&principal))?,
        };
        Ok(Client::new(principal, Arc::new(share)))
    }

    /// Waits for work, unless the client goes or the server stops.
    pub(super) async fn until_gone<T>(&mut self, work: impl Future<Output = T>) -> Result<T> {
        let gone = |message: &str| Err(CommandError::new(code::INTERRUPTED, message));
        tokio::select! {
            biased;
            () = self.stop.heard() => gone("the server stops"),
            done = work => Ok(done),
            _ = self.socket.gone() => gone("the client has gone"),
        }
    }
}
