//! The beginning of a connection: encryption, the start message and the login.
//!
//! # Invariants
//! * With a certificate, no login is taken over a connection that is not encrypted, unless the
//!   configuration allows it.
//! * A password goes over the wire only where it cannot be read: encrypted, or on this machine.
//!   Users prove that they know it by SCRAM-SHA-256; only a token is sent as it is.

mod parameters;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use super::error::{SqlError, state};
use super::message::{Body, Malformed, put, put_text};
use super::settings::Settings;
use super::wire::{Broken, Wire};
use super::{DATABASE, Postgres};
use crate::access::{Access, Action, Credentials, Principal, Refused, Target};
use crate::failure::Class;
use crate::listen::{Accepted, Ends};
use crate::tls::{Alpn, FIRST_BYTE, Tls};
use bytes::{BufMut, Bytes};
use secrecy::SecretString;

/// Requests for encryption that a client may make: one of each kind.
const ENCRYPTION_REQUESTS: usize = 2;

const VERSION_3: u32 = 3;
const CANCEL: u32 = 80_877_102;
const TLS: u32 = 80_877_103;
const GSS: u32 = 80_877_104;

/// The name under which a token logs in. Users prove their passwords without sending them; of a
/// token the server has the hash only.
const TOKEN_USER: &str = "token";
const SCRAM: &str = "SCRAM-SHA-256";

/// A connection whose client has logged in.
pub(super) struct Started {
    pub(super) wire: Wire,
    pub(super) principal: Arc<Principal>,
    pub(super) settings: Settings,
    pub(super) user: String,
    pub(super) client: IpAddr,
}

/// A connection before its login.
struct Starting {
    wire: Wire,
    ends: Ends,
    tls: Option<Arc<Tls>>,
    is_encrypted: bool,
    /// The user that the client's certificate names.
    certified: Option<Arc<str>>,
}

/// The first message that is no request for encryption.
enum First {
    Cancel { number: i32, secret: Bytes },
    Start { version: u32, body: Body },
}

/// Begins a connection. Returns `None` if it was one to cancel another, or has ended.
pub(super) async fn start(postgres: &Postgres, accepted: Accepted) -> Option<Started> {
    let mut starting = Starting::of(accepted).await?;
    match starting.begin(postgres).await {
        Ok(Some((principal, settings, user))) => Some(Started {
            client: starting.ends.client.ip(),
            wire: starting.wire,
            principal,
            settings,
            user,
        }),
        Ok(None) | Err(Broken::Gone) => None,
        Err(Broken::Fatal(error)) => {
            error.put(&mut starting.wire.socket.out);
            starting.wire.close().await;
            None
        }
    }
}

/// Refuses a connection after its start message; one that cancels another is served.
pub(super) async fn refuse(postgres: &Postgres, accepted: Accepted, error: &SqlError) {
    let Some(mut starting) = Starting::of(accepted).await else {
        return;
    };
    match starting.first().await {
        Ok(First::Cancel { number, secret }) => postgres.sessions.cancel(number, &secret),
        Ok(First::Start { .. }) => {
            error.put(&mut starting.wire.socket.out);
            starting.wire.close().await;
        }
        Err(_) => {}
    }
}

impl Starting {
    /// Makes the handshake of a connection that begins with it.
    async fn of(mut accepted: Accepted) -> Option<Self> {
        let ends = accepted.ends()?;
        let tls = accepted.tls.take();
        let begins_encrypted = accepted.first_byte().await? == FIRST_BYTE;
        let mut starting = Self {
            wire: Wire::new(Box::new(accepted.into_socket())),
            ends,
            tls,
            is_encrypted: false,
            certified: None,
        };
        if begins_encrypted {
            starting = starting.encrypt().await.ok()?;
        }
        Some(starting)
    }

    async fn encrypt(self) -> Result<Self, Broken> {
        let tls = self.tls.ok_or(Broken::Gone)?;
        let socket = self.wire.into_socket()?;
        let (stream, certified) = tls.accept(socket, Alpn::Postgres).await?;
        Ok(Self {
            wire: Wire::new(Box::new(stream)),
            tls: None,
            is_encrypted: true,
            certified,
            ends: self.ends,
        })
    }

    /// Reads the first message, after the answers to requests for encryption.
    async fn first(&mut self) -> Result<First, Broken> {
        for _ in 0..=ENCRYPTION_REQUESTS {
            let mut body = Body(self.wire.read_first().await?);
            match body.u32()? {
                TLS if self.tls.is_some() => {
                    self.wire.socket.out.put_u8(b'S');
                    self.wire.send().await?;
                    let plain = std::mem::replace(self, Self::closed(self.ends));
                    *self = plain.encrypt().await?;
                }
                TLS | GSS => {
                    self.wire.socket.out.put_u8(b'N');
                    self.wire.send().await?;
                }
                CANCEL => {
                    let number = body.i32()?;
                    return Ok(First::Cancel {
                        number,
                        secret: body.0,
                    });
                }
                version => return Ok(First::Start { version, body }),
            }
        }
        Err(Malformed("too many requests for encryption").into())
    }

    /// Returns a connection that has ended, in the place of one under a handshake.
    fn closed(ends: Ends) -> Self {
        Self {
            wire: Wire::new(Box::new(tokio::io::join(
                tokio::io::empty(),
                tokio::io::empty(),
            ))),
            ends,
            tls: None,
            is_encrypted: false,
            certified: None,
        }
    }

    /// Reads the start message and makes the login. Returns `None` for a request to cancel.
    async fn begin(
        &mut self,
        postgres: &Postgres,
    ) -> Result<Option<(Arc<Principal>, Settings, String)>, Broken> {
        let (version, mut body) = match self.first().await? {
            First::Cancel { number, secret } => {
                postgres.sessions.cancel(number, &secret);
                return Ok(None);
            }
            First::Start { version, body } => (version, body),
        };
        if version >> 16 != VERSION_3 {
            let (major, minor) = (version >> 16, version & 0xffff);
            let message =
                format!("unsupported frontend protocol {major}.{minor}: server supports 3.0");
            return Err(fatal(state::NOT_SUPPORTED, message));
        }
        let mut parameters = BTreeMap::new();
        loop {
            let name = body.text()?;
            if name.is_empty() {
                break;
            }
            parameters.insert(name, body.text()?);
        }
        self.negotiate(version, &mut parameters);
        let Some(user) = parameters.remove("user").filter(|user| !user.is_empty()) else {
            return Err(fatal(
                state::INVALID_AUTHORIZATION,
                "no PostgreSQL user name specified in startup packet",
            ));
        };
        let principal = self.log_in(postgres, &user).await?;
        let database = parameters
            .remove("database")
            .unwrap_or_else(|| user.clone());
        if database != DATABASE {
            let message = format!("database \"{database}\" does not exist");
            let error = SqlError::fatal(state::UNDEFINED_DATABASE, message);
            return Err(Broken::Fatal(
                error.hint(format!("the database is {DATABASE}")),
            ));
        }
        if !principal.may(Action::Read, Target::Visible) {
            let message = format!(
                "the role {} of {} does not read",
                principal.role().as_str(),
                principal.name()
            );
            return Err(fatal(Class::Forbidden.codes().sqlstate, message));
        }
        let settings = parameters::settings(&user, parameters).map_err(|error| {
            Broken::Fatal(SqlError {
                is_fatal: true,
                ..error
            })
        })?;
        Ok(Some((principal, settings, user)))
    }

    /// Tells a client of a newer protocol what this server does not know.
    fn negotiate(&mut self, version: u32, parameters: &mut BTreeMap<String, String>) {
        let is_option = |name: &String| name.starts_with("_pq_.");
        let unknown: Vec<String> = parameters
            .keys()
            .filter(|name| is_option(name))
            .cloned()
            .collect();
        parameters.retain(|name, _| !is_option(name));
        if version & 0xffff == 0 && unknown.is_empty() {
            return;
        }
        put(&mut self.wire.socket.out, b'v', |out| {
            out.put_u32(0);
            out.put_u32(u32::try_from(unknown.len()).expect("BUG: a message has 10,000 bytes"));
            for name in &unknown {
                put_text(out, name);
            }
        });
    }

    /// Makes the login of a user.
    async fn log_in(&mut self, postgres: &Postgres, user: &str) -> Result<Arc<Principal>, Broken> {
        let serving = &postgres.serving;
        let is_exposed = !self.is_encrypted
            && serving.tls.is_some()
            && !serving.config.server.insecure_plaintext;
        if is_exposed {
            let message =
                format!("no encryption for user \"{user}\": the server takes logins over TLS only");
            let error = SqlError::fatal(state::INVALID_AUTHORIZATION, message);
            return Err(Broken::Fatal(error.hint("connect with sslmode=require")));
        }
        let from = self.ends.client.ip();
        let access = &serving.access;
        let of_certificate = self.certified.take().filter(|named| **named == *user);
        let given = of_certificate.map(Credentials::Certificate);
        let has_none = given.is_none();
        let admitted = match access.admit(given, from).await {
            Err(Refused::Missing) if has_none && user == TOKEN_USER => {
                let password = self.password().await?;
                let user = user.to_owned();
                access
                    .admit(Some(Credentials::Password { user, password }), from)
                    .await
            }
            Err(Refused::Missing) if has_none => return self.scram(access, user, from).await,
            admitted => admitted,
        };
        let principal =
            admitted.map_err(|refused| Broken::Fatal(SqlError::of_login(refused, user)))?;
        put(&mut self.wire.socket.out, b'R', |out| out.put_i32(0));
        Ok(principal)
    }

    /// Asks for a password, where nobody can read it.
    async fn password(&mut self) -> Result<SecretString, Broken> {
        let is_near = self.ends.client.ip().is_loopback();
        if !self.is_encrypted && !is_near {
            let message = "a token is taken over TLS only";
            return Err(fatal(state::INVALID_AUTHORIZATION, message));
        }
        put(&mut self.wire.socket.out, b'R', |out| out.put_i32(3));
        let mut body = Body(self.answer().await?);
        Ok(SecretString::from(body.text()?))
    }

    /// Sends the messages so far, and reads the answer to the last of them.
    async fn answer(&mut self) -> Result<Bytes, Broken> {
        self.wire.send().await?;
        match self.wire.read_small().await? {
            (b'p', body) => Ok(body),
            _ => Err(Malformed("expected the answer to a login").into()),
        }
    }

    async fn scram(
        &mut self,
        access: &Access,
        user: &str,
        from: IpAddr,
    ) -> Result<Arc<Principal>, Broken> {
        let refused = |refused| Broken::Fatal(SqlError::of_login(refused, user));
        put(&mut self.wire.socket.out, b'R', |out| {
            out.put_i32(10);
            put_text(out, SCRAM);
            out.put_u8(0);
        });
        let mut body = Body(self.answer().await?);
        if body.text()? != SCRAM {
            return Err(Malformed("the client chose a mechanism that was not offered").into());
        }
        let length = usize::try_from(body.i32()?).unwrap_or_default();
        let first = body.take(length)?;
        let begun = access.begin_scram(user, text(&first)?, from).await;
        let (login, answer) = begun.map_err(refused)?;
        put(&mut self.wire.socket.out, b'R', |out| {
            out.put_i32(11);
            out.put_slice(answer.as_bytes());
        });
        let last = self.answer().await?;
        let finished = access.finish_scram(login, text(&last)?);
        let (principal, signature) = finished.map_err(refused)?;
        put(&mut self.wire.socket.out, b'R', |out| {
            out.put_i32(12);
            out.put_slice(signature.as_bytes());
        });
        put(&mut self.wire.socket.out, b'R', |out| out.put_i32(0));
        Ok(principal)
    }
}

fn text(bytes: &[u8]) -> Result<&str, Malformed> {
    std::str::from_utf8(bytes).map_err(|_| Malformed("a login is not UTF-8"))
}

fn fatal(code: &'static str, message: impl std::fmt::Display) -> Broken {
    Broken::Fatal(SqlError::fatal(code, message))
}
