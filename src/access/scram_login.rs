//! A login by SCRAM-SHA-256: two messages of the client, and what is counted and kept of them.

use std::net::IpAddr;
use std::sync::Arc;

use super::attempts::LoginAttempt;
use super::scram::{Exchange, Verifier};
use super::{Access, Principal, Refused, accounts};

/// A login by SCRAM-SHA-256 that waits for the proof.
#[derive(Debug)]
pub(crate) struct ScramLogin {
    exchange: Exchange,
    attempt: LoginAttempt,
    user: String,
    /// `None` for an unknown user.
    account: Option<accounts::Account>,
    from: IpAddr,
}

impl Access {
    /// Begins a login by SCRAM-SHA-256 with the client's first message. Returns the answer to it.
    ///
    /// # Errors
    /// The reason for which it is refused; [`Refused::Missing`] if the message is not one.
    pub(crate) async fn begin_scram(
        &self,
        user: &str,
        client_first: &str,
        from: IpAddr,
    ) -> Result<(ScramLogin, String), Refused> {
        let attempt = self.attempts.begin(user, from).await.inspect_err(|_| {
            self.audit.login_failed("too many logins", from);
        })?;
        let accounts = self.accounts();
        let entry = accounts.users.get(user);
        let verifier = match entry {
            Some(entry) => entry.verifier.clone(),
            None => Verifier::of_unknown(user, &accounts.secret()),
        };
        let begun = Exchange::begin(verifier, client_first);
        let (exchange, answer) = begun.ok_or(Refused::Missing)?;
        let login = ScramLogin {
            exchange,
            attempt,
            user: user.to_owned(),
            account: entry.map(|entry| entry.account(user)),
            from,
        };
        Ok((login, answer))
    }

    /// Ends a login with the client's last message. Returns the principal, and the server's
    /// signature.
    ///
    /// # Errors
    /// If the proof is wrong, or the user was changed meanwhile.
    pub(crate) fn finish_scram(
        &self,
        login: ScramLogin,
        client_final: &str,
    ) -> Result<(Arc<Principal>, String), Refused> {
        let signature = login.exchange.finish(client_final);
        let principal = || self.accounts().principal(login.account.as_ref()?);
        match signature.and_then(|signature| Some((principal()?, signature))) {
            Some(admitted) => {
                login.attempt.succeeded();
                Ok(admitted)
            }
            None => {
                self.audit.login_failed(&login.user, login.from);
                Err(Refused::Wrong)
            }
        }
    }
}
