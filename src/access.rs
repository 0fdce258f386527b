//! The lock of every door: who a client is, and what it may do.
//!
//! A listener hands over the [`Credentials`] that its protocol carries, and gets the
//! [`Principal`] that they belong to, or a [`Refused`]. The principal says what it may do
//! ([`Principal::may`]); no listener decides that by itself.
//!
//! # Invariants
//! * A store without users and tokens is open: every client is its administrator. Its listeners
//!   accept loopback addresses only; where another one was accepted, because there was a user, the
//!   store stays closed when the last account is removed.
//! * A change is durable before it takes effect, and it is in effect when it is reported: a
//!   revoked token is refused from then on, on connections that are open too.
//! * No secret is kept: of a password its verifier, of a token its hash.
//! * A refusal does not tell whether a user or a token exists, nor does the time that it takes.

mod accounts;
mod attempts;
mod audit;
mod credentials;
mod logins;
mod principal;
mod scram;
mod scram_login;
mod sessions;
pub(crate) mod token;

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use parking_lot::{Mutex, RwLock};
use secrecy::{ExposeSecret, SecretString};
use storage::Store;

use crate::failure::{CONFIG, Class, Failure, Result};

pub(crate) use accounts::{Accounts, Grant, Listed, NewPassword, NewUser, TokenRequest};
pub(crate) use audit::Audit;
pub(crate) use credentials::Credentials;
pub(crate) use logins::network;
pub(crate) use principal::{Action, Principal, Role, Target};
pub(crate) use scram::Verifier;
pub(crate) use scram_login::ScramLogin;
pub(crate) use sessions::IDLE as SESSION_IDLE;

use attempts::Attempts;
use logins::Logins;
use sessions::Sessions;
use token::{Token, TokenHash};

/// Interval at which a server that does not write reads the users and tokens.
const READ_INTERVAL: Duration = Duration::from_secs(1);

/// A login that was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refused {
    /// The client presented nothing.
    Missing,
    /// The credentials are wrong, expired or revoked.
    Wrong,
    /// Too many logins failed; try again after this time.
    Slow(Duration),
}

impl Refused {
    /// Returns the class of the failure, its message and a hint.
    pub(crate) fn explained(self) -> (Class, &'static str, &'static str) {
        match self {
            Self::Missing => (
                Class::Unauthenticated,
                "this store has users or tokens: the request must carry one",
                "send Authorization: Bearer TOKEN, or a user and a password as Basic; `logmill token create` makes a token",
            ),
            Self::Wrong => (
                Class::Unauthenticated,
                "the user, password or token is not valid",
                "it may be wrong, expired or revoked; `logmill token list` and `logmill user list` show what is valid",
            ),
            Self::Slow(_) => (
                Class::TooMany,
                "too many logins from this address failed",
                "try again after the time in Retry-After",
            ),
        }
    }
}

/// The users, tokens and sessions of a running server.
#[derive(Debug)]
pub(crate) struct Access {
    store: Arc<Store>,
    accounts: RwLock<Arc<Accounts>>,
    /// The hash of the present secret of commands that can read the store's directory.
    operator: Mutex<Option<TokenHash>>,
    /// Time of the last read, where another process changes the file: in a server that does not
    /// write, and in that of a node's shard.
    read_at: Option<Mutex<Instant>>,
    /// Clients of other machines can reach a listener: the store asks without an account too.
    is_closed: AtomicBool,
    /// Serialises changes. Its holder writes the file.
    changing: Mutex<()>,
    logins: Logins,
    attempts: Attempts,
    sessions: Sessions,
    audit: Audit,
}

impl Access {
    /// Reads the users and tokens of a store.
    ///
    /// # Errors
    /// If the file is damaged, or of a later version.
    pub(crate) fn of(store: &Arc<Store>) -> Result<Self> {
        let accounts = read(store)?;
        let is_elsewhere = store.status().read_only || store.shares_access();
        Ok(Self {
            store: Arc::clone(store),
            accounts: RwLock::new(Arc::new(accounts)),
            operator: Mutex::default(),
            read_at: is_elsewhere.then(|| Mutex::new(Instant::now())),
            is_closed: AtomicBool::new(false),
            changing: Mutex::new(()),
            logins: Logins::new(),
            attempts: Attempts::default(),
            sessions: Sessions::default(),
            audit: Audit::default(),
        })
    }

    /// Returns the users and tokens as they are now; in a server that does not write, as they were
    /// within the last second.
    pub(crate) fn accounts(&self) -> Arc<Accounts> {
        if let Some(read_at) = &self.read_at {
            let mut read_at = read_at.lock();
            if read_at.elapsed() >= READ_INTERVAL {
                *read_at = Instant::now();
                match read(&self.store) {
                    Ok(accounts) => *self.accounts.write() = Arc::new(accounts),
                    Err(error) => {
                        tracing::error!(%error, "the users and tokens cannot be read; those before them stay in force");
                    }
                }
            }
        }
        Arc::clone(&self.accounts.read())
    }

    /// Returns whether the store asks for no login.
    pub(crate) fn is_open(&self) -> bool {
        self.is_open_with(&self.accounts())
    }

    fn is_open_with(&self, accounts: &Accounts) -> bool {
        accounts.is_empty() && !self.is_closed.load(Ordering::Relaxed)
    }

    /// Asks for a login from now on even when the last account is removed: clients of other
    /// machines can reach a listener.
    pub(crate) fn close(&self) {
        self.is_closed.store(true, Ordering::Relaxed);
    }

    /// Returns the latest failed logins and changes.
    pub(crate) fn audit(&self) -> &Audit {
        &self.audit
    }

    /// Returns the principal of a client at `from`.
    ///
    /// # Errors
    /// The reason for which it is refused.
    pub(crate) async fn admit(
        &self,
        credentials: Option<Credentials>,
        from: IpAddr,
    ) -> Result<Arc<Principal>, Refused> {
        let accounts = self.accounts();
        if self.is_open_with(&accounts) {
            return Ok(Principal::open());
        }
        let Some(credentials) = credentials else {
            return Err(Refused::Missing);
        };
        let (who, admitted) = match credentials {
            Credentials::Token(token) => {
                let token = Token::parse(token.expose_secret());
                ("a token".to_owned(), self.by_token(&accounts, token))
            }
            Credentials::Certificate(user) => {
                let account = accounts.users.get(&*user).map(|entry| entry.account(&user));
                let principal = account.and_then(|account| accounts.principal(&account));
                (user.to_string(), principal.ok_or(Refused::Wrong))
            }
            Credentials::Session(id) => {
                let account = self.sessions.account(&id);
                let principal = account.and_then(|account| accounts.principal(&account));
                ("a session".to_owned(), principal.ok_or(Refused::Wrong))
            }
            Credentials::Password { user, password } => {
                let admitted = match Token::parse(password.expose_secret()) {
                    Some(token) => self.by_token(&accounts, Some(token)),
                    None => self.by_password(&accounts, &user, &password, from).await,
                };
                // Clients that know one field only may put the token there.
                let who = match Token::is_like(&user) {
                    true => "a token in the place of the user".to_owned(),
                    false => user,
                };
                (who, admitted)
            }
        };
        match &admitted {
            Ok(_) => {}
            Err(Refused::Slow(_)) => self.audit.login_failed("too many logins", from),
            Err(_) => self.audit.login_failed(&who, from),
        }
        admitted
    }

    /// Creates the secret of commands that can read the store's directory: they could do there by
    /// themselves what they ask of the server. It replaces the one before it.
    pub(crate) fn new_operator_secret(&self) -> Token {
        let secret = Token::create();
        *self.operator.lock() = Some(secret.hash());
        secret
    }

    fn by_token(
        &self,
        accounts: &Accounts,
        token: Option<Token>,
    ) -> Result<Arc<Principal>, Refused> {
        let hash = token.ok_or(Refused::Wrong)?.hash();
        if self.operator.lock().as_ref() == Some(&hash) {
            return Ok(Principal::operator());
        }
        let (name, entry) = accounts.token(&hash).ok_or(Refused::Wrong)?;
        let principal = accounts.principal(&entry.account(name));
        principal.ok_or(Refused::Wrong)
    }

    async fn by_password(
        &self,
        accounts: &Accounts,
        user: &str,
        password: &SecretString,
        from: IpAddr,
    ) -> Result<Arc<Principal>, Refused> {
        let entry = accounts.users.get(user);
        let verifier = entry.map(|entry| &entry.verifier);
        self.logins.check(user, verifier, password, from).await?;
        let account = entry.map(|entry| entry.account(user));
        account
            .and_then(|account| accounts.principal(&account))
            .ok_or(Refused::Wrong)
    }

    /// Returns the principal of a connection as it is now; `None` if its account has gone or
    /// changed its password since the login.
    pub(crate) fn renew(&self, principal: &Arc<Principal>) -> Option<Arc<Principal>> {
        match principal.account() {
            Some(account) => self.accounts().principal(account),
            None => self.is_open().then(|| Arc::clone(principal)),
        }
    }

    /// Begins a session of an admitted principal. Returns its identifier; `None` if the store is
    /// open, or the principal is neither a user nor a token.
    pub(crate) fn begin_session(&self, principal: &Principal) -> Option<SecretString> {
        let account = principal.account()?;
        Some(self.sessions.begin(account.clone()))
    }

    /// Ends a session.
    pub(crate) fn end_session(&self, id: &SecretString) {
        self.sessions.end(id);
    }

    /// Changes users and tokens: durably first, then for every request.
    ///
    /// # Errors
    /// The error of `change`, or of the disk; then nothing has changed.
    pub(crate) fn change<T>(
        &self,
        by: &Principal,
        from: Option<IpAddr>,
        change: impl FnOnce(&mut Accounts) -> Result<(T, String)>,
    ) -> Result<T> {
        let _one = self.changing.lock();
        let (accounts, result, said) = changed(&self.store, change)?;
        *self.accounts.write() = Arc::new(accounts);
        self.audit.changed(by.name(), from, said);
        Ok(result)
    }
}

/// Changes the users and tokens of a store that this process has open without a server. Returns
/// the result of `change`.
///
/// # Errors
/// The error of `change`, or of the disk; then nothing has changed.
pub(crate) fn change_in<T>(
    store: &Store,
    change: impl FnOnce(&mut Accounts) -> Result<(T, String)>,
) -> Result<T> {
    Ok(changed(store, change)?.1)
}

fn changed<T>(
    store: &Store,
    change: impl FnOnce(&mut Accounts) -> Result<(T, String)>,
) -> Result<(Accounts, T, String)> {
    let mut accounts = read(store)?;
    let (result, said) = change(&mut accounts)?;
    accounts.nobody.get_or_insert_with(Verifier::of_nobody);
    store.replace_access(&accounts.write())?;
    Ok((accounts, result, said))
}

/// Reads the users and tokens of a store.
///
/// # Errors
/// If the file is damaged, or of a later version.
pub(crate) fn read(store: &Store) -> Result<Accounts> {
    match store.access()? {
        None => Ok(Accounts::default()),
        Some(text) => Accounts::read(&text).map_err(|e| {
            Failure::new(
                CONFIG,
                format!("the users and tokens of the store are not readable by this version: {e}"),
            )
        }),
    }
}

/// Returns the present time in seconds since 1970, which expiries are compared with.
fn now_s() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |d| i64::try_from(d.as_secs()).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests;
