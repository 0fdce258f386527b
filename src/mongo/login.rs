//! Logins: SCRAM-SHA-256 of users (RFC 7677), and PLAIN (RFC 4616) for tokens, which the server
//! knows by their hash alone.
//!
//! # Invariants
//! * With a certificate, no login is taken over a connection that is not encrypted, unless the
//!   configuration allows it. A token goes over the wire only where it cannot be read.
//! * A conversation is one of its connection; a new one ends the one before it.

use std::net::IpAddr;
use std::sync::Arc;

use bson::spec::BinarySubtype;
use bson::{Binary, Bson, Document, doc};
use secrecy::SecretString;
use zeroize::Zeroizing;

use super::error::{CommandError, Result, code};
use crate::access::{Access, Credentials, Principal, Refused, ScramLogin};
use crate::serve::Serving;

const SCRAM: &str = "SCRAM-SHA-256";
const PLAIN: &str = "PLAIN";
const X509: &str = "MONGODB-X509";
/// The identifier of a connection's only conversation.
const CONVERSATION: i32 = 1;

/// The login of a connection.
pub(super) struct Login {
    from: IpAddr,
    is_encrypted: bool,
    /// The user that the client's certificate names.
    certified: Option<Arc<str>>,
    conversation: Option<Conversation>,
}

enum Conversation {
    /// The proof of the client is awaited.
    Scram {
        login: Box<ScramLogin>,
        skips_empty: bool,
    },
    /// The client has the server's signature, and sends one more message to say so.
    Proved(Arc<Principal>),
}

/// An answer to a message of a login.
pub(super) struct LoginAnswer {
    pub(super) answer: Document,
    /// There when the login has ended.
    pub(super) principal: Option<Arc<Principal>>,
}

impl Login {
    pub(super) fn new(from: IpAddr, is_encrypted: bool, certified: Option<Arc<str>>) -> Self {
        Self {
            from,
            is_encrypted,
            certified,
            conversation: None,
        }
    }

    /// Returns the principal of a client that has not logged in: that of an open store.
    pub(super) async fn without(&self, access: &Access) -> Option<Arc<Principal>> {
        access.admit(None, self.from).await.ok()
    }

    /// Begins a login by `saslStart`.
    ///
    /// # Errors
    /// If it is refused.
    pub(super) async fn start(
        &mut self,
        serving: &Serving,
        command: &Document,
    ) -> Result<LoginAnswer> {
        self.conversation = None;
        self.check_exposed(serving)?;
        let payload = Zeroizing::new(payload(command)?);
        match command.get_str("mechanism") {
            Ok(SCRAM) => {
                let options = command.get_document("options").ok();
                let skips = options.and_then(|options| options.get_bool("skipEmptyExchange").ok());
                self.start_scram(&serving.access, text(&payload)?, skips.unwrap_or(false))
                    .await
            }
            Ok(PLAIN) => self.plain(&serving.access, text(&payload)?).await,
            other => Err(CommandError::new(
                code::MECHANISM_UNAVAILABLE,
                format!(
                    "the mechanism {:?} is not offered; use {SCRAM} for users, {PLAIN} for tokens",
                    other.unwrap_or_default()
                ),
            )),
        }
    }

    async fn start_scram(
        &mut self,
        access: &Access,
        first: &str,
        skips_empty: bool,
    ) -> Result<LoginAnswer> {
        let user = scram_user(first).ok_or(Refused::Missing)?;
        let (login, answer) = access.begin_scram(&user, first, self.from).await?;
        self.conversation = Some(Conversation::Scram {
            login: Box::new(login),
            skips_empty,
        });
        Ok(LoginAnswer {
            answer: step(&answer, false),
            principal: None,
        })
    }

    /// Logs in with a token, or a user's password, in `authzid NUL authcid NUL passwd`.
    async fn plain(&self, access: &Access, message: &str) -> Result<LoginAnswer> {
        if !self.is_encrypted && !self.from.is_loopback() {
            let message = "PLAIN is taken over TLS only";
            return Err(CommandError::new(code::AUTHENTICATION_FAILED, message));
        }
        let mut parts = message.split('\0').skip(1);
        let (Some(user), Some(password)) = (parts.next(), parts.next()) else {
            return Err(Refused::Missing.into());
        };
        let credentials = Credentials::Password {
            user: user.to_owned(),
            password: SecretString::from(password),
        };
        let principal = access.admit(Some(credentials), self.from).await?;
        Ok(LoginAnswer {
            answer: step("", true),
            principal: Some(principal),
        })
    }

    /// Goes on with a login by `saslContinue`.
    ///
    /// # Errors
    /// If it is refused; the conversation has ended then.
    pub(super) fn proceed(&mut self, access: &Access, command: &Document) -> Result<LoginAnswer> {
        let payload = payload(command)?;
        match self.conversation.take() {
            Some(Conversation::Scram { login, skips_empty }) => {
                let (principal, signature) = access.finish_scram(*login, text(&payload)?)?;
                let answer = step(&signature, skips_empty);
                let principal = match skips_empty {
                    true => Some(principal),
                    false => {
                        self.conversation = Some(Conversation::Proved(principal));
                        None
                    }
                };
                Ok(LoginAnswer { answer, principal })
            }
            Some(Conversation::Proved(principal)) => Ok(LoginAnswer {
                answer: step("", true),
                principal: Some(principal),
            }),
            None => Err(CommandError::new(
                code::PROTOCOL_ERROR,
                "there is no login to go on with; begin with saslStart",
            )),
        }
    }

    /// Logs in the user that the client's certificate names.
    ///
    /// # Errors
    /// If it names none, or another than the command.
    pub(super) async fn by_certificate(
        &self,
        access: &Access,
        command: &Document,
    ) -> Result<Arc<Principal>> {
        if command.get_str("mechanism").ok() != Some(X509) {
            let message = format!("authenticate takes the mechanism {X509}; use saslStart");
            return Err(CommandError::new(code::MECHANISM_UNAVAILABLE, message));
        }
        let named = command.get_str("user").ok();
        let certified = self.certified.clone();
        let certified = certified.filter(|user| named.is_none_or(|named| **user == *named));
        let certified = certified.ok_or(Refused::Wrong)?;
        let credentials = Credentials::Certificate(certified);
        Ok(access.admit(Some(credentials), self.from).await?)
    }

    fn check_exposed(&self, serving: &Serving) -> Result<()> {
        let is_exposed = !self.is_encrypted
            && serving.tls.is_some()
            && !serving.config.server.insecure_plaintext;
        match is_exposed {
            true => Err(CommandError::new(
                code::AUTHENTICATION_FAILED,
                "the server takes logins over TLS only; connect with tls=true",
            )),
            false => Ok(()),
        }
    }
}

/// Returns the mechanisms for a user: the same for each name, known or not.
pub(super) fn mechanisms() -> Bson {
    Bson::from(vec![SCRAM])
}

fn step(payload: &str, is_done: bool) -> Document {
    doc! {
        "conversationId": CONVERSATION,
        "done": is_done,
        "payload": Binary { subtype: BinarySubtype::Generic, bytes: payload.as_bytes().to_vec() },
    }
}

fn payload(command: &Document) -> Result<Vec<u8>> {
    match command.get("payload") {
        Some(Bson::Binary(payload)) => Ok(payload.bytes.clone()),
        Some(Bson::String(payload)) => Ok(payload.clone().into_bytes()),
        _ => Err(CommandError::new(
            code::BAD_VALUE,
            "a login needs a payload",
        )),
    }
}

fn text(bytes: &[u8]) -> Result<&str> {
    let text = std::str::from_utf8(bytes);
    text.map_err(|_| CommandError::new(code::BAD_VALUE, "a login is not UTF-8"))
}

/// Returns the user of a first message of SCRAM, in which `=2C` stands for a comma and `=3D` for
/// `=` (RFC 5802, section 5.1).
fn scram_user(first: &str) -> Option<String> {
    let name = first.split(',').nth(2)?.strip_prefix("n=")?;
    let is_escaped =
        name.matches('=').count() == name.matches("=2C").count() + name.matches("=3D").count();
    is_escaped.then(|| name.replace("=2C", ",").replace("=3D", "="))
}

#[cfg(test)]
mod tests {
    use super::scram_user;

    #[test]
    fn the_user_of_scram_is_unescaped() {
        for (first, user) in [
            ("n,,n=rick,r=abc", Some("rick")),
            ("n,,n=a=2Cb=3Dc,r=abc", Some("a,b=c")),
            ("n,,n=,r=abc", Some("")),
            ("n,,n=a=2Xb,r=abc", None),
            ("n,,r=abc", None),
            ("", None),
        ] {
            assert_eq!(scram_user(first).as_deref(), user, "{first}");
        }
    }
}
