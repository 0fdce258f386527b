//! The account of a sender whose protocol has no login.

use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use secrecy::{ExposeSecret, SecretString};
use storage::Name;
use zeroize::Zeroizing;

use super::Seldom;
use crate::access::token::Token;
use crate::access::{Action, Credentials, Principal, Target};
use crate::failure::{Failure, Result};
use crate::serve::Serving;

/// The check of the senders of a listener.
#[derive(Debug)]
pub(crate) struct Door {
    serving: Arc<Serving>,
    /// The section of the configuration, as `[syslog]`.
    section: &'static str,
    token: Option<SecretString>,
    refused: Seldom,
}

impl Door {
    /// Reads the token that senders use who show no certificate.
    ///
    /// # Errors
    /// If the file holds no token, or one that may not write into one of these streams. If the
    /// store has users or tokens, and no sender could show that it is one of them.
    pub(crate) fn open(
        serving: &Arc<Serving>,
        section: &'static str,
        token_file: Option<&Path>,
        streams: &[&Name],
    ) -> Result<Self> {
        let this = Self {
            serving: Arc::clone(serving),
            section,
            token: token_file.map(read_token).transpose()?,
            refused: Seldom::default(),
        };
        if serving.access.is_open() {
            return Ok(this);
        }
        if this.token.is_none() && serving.config.tls.client_ca.is_none() {
            return Err(Failure::config(format!(
                "{section}: the store has users or tokens, and this protocol carries none: set token_file of {section} to a file with a token of the role ingest (`logmill token create`), or client_ca of [tls] for senders with certificates"
            )));
        }
        let admitted = this.token.as_ref().map(|_| {
            let from = IpAddr::V4(Ipv4Addr::LOCALHOST);
            serving.runtime.block_on(this.principal(None, from))
        });
        let may_not = |who: &Arc<Principal>| {
            let mut streams = streams.iter();
            let stream = streams.find(|stream| !may_write(who, stream))?;
            Some(format!("{} may not write into {stream}", who.name()))
        };
        let wrong = match &admitted {
            Some(Ok(who)) => may_not(who),
            Some(Err(why)) => Some((*why).to_owned()),
            None => None,
        };
        match wrong {
            Some(why) => Err(Failure::config(format!("{section} token_file: {why}"))),
            None => Ok(this),
        }
    }

    async fn principal(
        &self,
        user: Option<Arc<str>>,
        from: IpAddr,
    ) -> Result<Arc<Principal>, &'static str> {
        let token = || self.token.clone().map(Credentials::Token);
        let credentials = user.map(Credentials::Certificate).or_else(token);
        let admitted = self.serving.access.admit(credentials, from).await;
        admitted.map_err(|refused| refused.explained().1)
    }

    /// Returns the account of a sender that may write into a stream; `user` is the one that its
    /// certificate names. A refusal is counted and logged.
    pub(crate) async fn admit(
        &self,
        user: Option<Arc<str>>,
        from: IpAddr,
        stream: &Name,
    ) -> Option<Arc<Principal>> {
        let outcome = match self.principal(user, from).await {
            Ok(who) if may_write(&who, stream) => return Some(who),
            Ok(who) => format!("{} may not write into {stream}", who.name()),
            Err(why) => why.to_owned(),
        };
        self.refuse(from, &outcome);
        None
    }

    /// Returns the account as it is now, if it may still write into a stream. A refusal is counted
    /// and logged.
    pub(crate) fn renew(
        &self,
        who: &Arc<Principal>,
        from: IpAddr,
        stream: &Name,
    ) -> Option<Arc<Principal>> {
        let renewed = self.serving.access.renew(who);
        let renewed = renewed.filter(|who| may_write(who, stream));
        if renewed.is_none() {
            let why = format!("{} may not write into {stream} any more", who.name());
            self.refuse(from, &why);
        }
        renewed
    }

    fn refuse(&self, from: IpAddr, why: &str) {
        let counts = &self.serving.shippers;
        counts.refused.fetch_add(1, Ordering::Relaxed);
        if self.refused.is_due() {
            let section = self.section;
            tracing::warn!(%from, "{section}: a sender was refused: {why}; set token_file of {section}, or client_ca of [tls]");
        }
    }
}

fn may_write(who: &Principal, stream: &Name) -> bool {
    who.may(Action::Ingest, Target::Stream(stream.as_str()))
}

fn read_token(file: &Path) -> Result<SecretString> {
    let wrong = |why: &dyn std::fmt::Display| {
        Failure::config(format!("token_file = {}: {why}", file.display()))
    };
    let text = std::fs::read_to_string(file).map_err(|e| wrong(&e))?;
    let text = Zeroizing::new(text);
    let token = SecretString::from(text.trim());
    match Token::parse(token.expose_secret()) {
        Some(_) => Ok(token),
        None => Err(wrong(
            &"the file holds no token; write the output of `logmill token create` into it",
        )),
    }
}
