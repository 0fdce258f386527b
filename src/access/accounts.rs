//! Users and tokens, as the file `ACCESS` of a store has them.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use query::AccountInfo;
use serde::{Deserialize, Serialize};

use super::now_s;
use super::principal::{Principal, Role, Scope};
use super::scram::Verifier;
use super::token::{Token, TokenHash};
use crate::failure::{FAILED, Failure, Result};

/// Maximum users, and maximum tokens.
const ACCOUNTS_MAX: usize = 10_000;
const NAME_BYTES_MAX: usize = 63;

/// The users and tokens of a store.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Accounts {
    pub(crate) users: BTreeMap<String, UserEntry>,
    pub(crate) tokens: BTreeMap<String, TokenEntry>,
    /// A verifier of nobody, from which the salts of unknown users derive: they must not change
    /// when a user does, since a salt of a known user does not either.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) nobody: Option<Verifier>,
    /// The names of tokens by their hashes; derived.
    #[serde(skip)]
    by_hash: BTreeMap<TokenHash, String>,
}

/// A role on some streams.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Grant {
    pub(crate) role: Role,
    /// Patterns of the streams; none for all.
    #[serde(default)]
    pub(crate) streams: Scope,
}

/// A user.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct UserEntry {
    #[serde(flatten)]
    pub(crate) grant: Grant,
    pub(crate) verifier: Verifier,
    pub(crate) created: DateTime<Utc>,
}

/// A token.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct TokenEntry {
    #[serde(flatten)]
    pub(crate) grant: Grant,
    pub(crate) hash: TokenHash,
    pub(crate) created: DateTime<Utc>,
    pub(crate) expires: Option<DateTime<Utc>>,
}

/// A token to create.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TokenRequest {
    pub(crate) role: Role,
    #[serde(default)]
    pub(crate) streams: Scope,
    /// Seconds for which the token is valid; for ever without.
    #[serde(default)]
    pub(crate) expires_in_s: Option<u32>,
}

/// A user to add. The client computes the verifier, so that no server sees the password.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct NewUser {
    #[serde(flatten)]
    pub(crate) grant: Grant,
    pub(crate) verifier: Verifier,
}

/// A new password of a user.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewPassword {
    pub(crate) verifier: Verifier,
}

/// A user or a token as lists show it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Listed {
    pub(crate) name: String,
    #[serde(flatten)]
    pub(crate) grant: Grant,
    pub(crate) created: DateTime<Utc>,
    /// The end of a token's validity.
    #[serde(default)]
    pub(crate) expires: Option<DateTime<Utc>>,
}

/// A user with its present password, or a token: a session and a cached login belong to it. Another
/// password, or another token of the same name, is another account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Account {
    User { name: String, verifier: Verifier },
    Token { name: String, hash: TokenHash },
}

impl fmt::Display for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::User { name, .. } => write!(f, "user {name}"),
            Self::Token { name, .. } => write!(f, "token {name}"),
        }
    }
}

impl UserEntry {
    pub(super) fn account(&self, name: &str) -> Account {
        Account::User {
            name: name.to_owned(),
            verifier: self.verifier.clone(),
        }
    }
}

impl TokenEntry {
    pub(super) fn account(&self, name: &str) -> Account {
        Account::Token {
            name: name.to_owned(),
            hash: self.hash.clone(),
        }
    }

    /// Returns whether the token is beyond its time.
    pub(crate) fn is_expired(&self) -> bool {
        self.expires.is_some_and(|at| at.timestamp() <= now_s())
    }
}

impl Grant {
    fn check(&self) -> Result<()> {
        if self.role == Role::Admin && !self.streams.is_all() {
            return Err(Failure::usage(
                "an admin is one of the whole store: leave out --stream, or use the role ingest or read",
            ));
        }
        self.streams.check().map_err(Failure::usage)
    }
}

impl Accounts {
    /// Parses the text of [`Accounts::write`].
    ///
    /// # Errors
    /// The member that is unknown or wrong.
    pub(super) fn read(text: &str) -> Result<Self, serde_json::Error> {
        let mut read: Self = serde_json::from_str(text)?;
        read.by_hash = read.hashes();
        Ok(read)
    }

    /// Writes the users and tokens as JSON.
    pub(super) fn write(&self) -> String {
        serde_json::to_string_pretty(self).expect("BUG: plain values become JSON")
    }

    fn hashes(&self) -> BTreeMap<TokenHash, String> {
        let tokens = self.tokens.iter();
        tokens
            .map(|(name, token)| (token.hash.clone(), name.clone()))
            .collect()
    }

    /// Returns whether there is neither a user nor a token. An expired token counts: its expiry
    /// must not open the store.
    pub(crate) fn is_empty(&self) -> bool {
        self.users.is_empty() && self.tokens.is_empty()
    }

    /// Returns bytes that no client knows. They are the same for ever, once an account of the
    /// store was changed by a version that keeps them; before that, until a user changes.
    pub(super) fn secret(&self) -> Vec<u8> {
        let verifiers = self.users.values().map(|user| &user.verifier);
        let texts = match &self.nobody {
            Some(nobody) => String::from(nobody.clone()),
            None => verifiers.cloned().map(String::from).collect(),
        };
        texts.into_bytes()
    }

    /// Finds the token with a hash.
    pub(super) fn token(&self, hash: &TokenHash) -> Option<(&str, &TokenEntry)> {
        let name = self.by_hash.get(hash)?;
        Some((name, self.tokens.get(name)?))
    }

    /// Returns the principal of an account, if the account is still the present one of its name,
    /// and not expired.
    pub(super) fn principal(&self, account: &Account) -> Option<Arc<Principal>> {
        let grant = match account {
            Account::User { name, verifier } => {
                let user = self.users.get(name).filter(|u| u.verifier == *verifier)?;
                &user.grant
            }
            Account::Token { name, hash } => {
                let token = self.tokens.get(name).filter(|t| t.hash == *hash)?;
                (!token.is_expired()).then_some(&token.grant)?
            }
        };
        Some(Principal::of(account, grant.role, &grant.streams))
    }

    /// Returns the users and tokens as rows of `system.users`.
    pub(crate) fn infos(&self) -> Vec<AccountInfo> {
        let users = self.list_users().into_iter().map(|user| ("user", user));
        let tokens = self.list_tokens().into_iter().map(|token| ("token", token));
        let all = users.chain(tokens);
        all.map(|(kind, listed)| AccountInfo {
            name: listed.name,
            kind,
            role: listed.grant.role.as_str(),
            streams: listed.grant.streams.into(),
            created_us: listed.created.timestamp_micros(),
            expires_us: listed.expires.map(|at| at.timestamp_micros()),
        })
        .collect()
    }

    /// Returns the users.
    pub(crate) fn list_users(&self) -> Vec<Listed> {
        let listed = |(name, user): (&String, &UserEntry)| Listed {
            name: name.clone(),
            grant: user.grant.clone(),
            created: user.created,
            expires: None,
        };
        self.users.iter().map(listed).collect()
    }

    /// Returns the tokens.
    pub(crate) fn list_tokens(&self) -> Vec<Listed> {
        let listed = |(name, token): (&String, &TokenEntry)| Listed {
            name: name.clone(),
            grant: token.grant.clone(),
            created: token.created,
            expires: token.expires,
        };
        self.tokens.iter().map(listed).collect()
    }

    /// Returns a new token with its description: the only time that it is shown.
    pub(crate) fn shown_once(&self, name: &str, token: &Token) -> serde_json::Value {
        let entry = self.tokens.get(name);
        serde_json::json!({
            "name": name,
            "token": token.reveal(),
            "role": entry.map(|t| t.grant.role),
            "streams": entry.map(|t| t.grant.streams.clone()),
            "expires": entry.and_then(|t| t.expires),
        })
    }

    /// Adds a user. Returns a sentence for the audit, as every change does.
    ///
    /// # Errors
    /// If the name is taken or not valid, or an admin is limited to streams.
    pub(crate) fn add_user(
        &mut self,
        name: &str,
        grant: Grant,
        verifier: Verifier,
    ) -> Result<((), String)> {
        check_name(name)?;
        grant.check()?;
        check_room(self.users.len(), "users")?;
        if self.users.contains_key(name) {
            return Err(Failure::new(
                FAILED,
                format!(
                    "there is a user {name} already; `logmill user passwd {name}` changes the password"
                ),
            ));
        }
        let said = format!("added user {name}, role {}", grant.role.as_str());
        let created = Utc::now();
        let entry = UserEntry {
            grant,
            verifier,
            created,
        };
        self.users.insert(name.to_owned(), entry);
        Ok(((), said))
    }

    /// Changes the password of a user.
    ///
    /// # Errors
    /// If there is no such user.
    pub(crate) fn change_password(
        &mut self,
        name: &str,
        verifier: Verifier,
    ) -> Result<((), String)> {
        match self.users.get_mut(name) {
            Some(user) => user.verifier = verifier,
            None => return Err(no_such("user", name)),
        }
        Ok(((), format!("changed the password of user {name}")))
    }

    /// Removes a user.
    ///
    /// # Errors
    /// If there is no such user.
    pub(crate) fn remove_user(&mut self, name: &str) -> Result<((), String)> {
        let removed = self.users.remove(name);
        removed.ok_or_else(|| no_such("user", name))?;
        Ok(((), format!("removed user {name}")))
    }

    /// Creates a token. It is returned once; the store has its hash.
    ///
    /// # Errors
    /// If the name is taken or not valid, or an admin is limited to streams.
    pub(crate) fn create_token(
        &mut self,
        name: &str,
        request: &TokenRequest,
    ) -> Result<(Token, String)> {
        check_name(name)?;
        let grant = Grant {
            role: request.role,
            streams: request.streams.clone(),
        };
        grant.check()?;
        check_room(self.tokens.len(), "tokens")?;
        if self.tokens.contains_key(name) {
            return Err(Failure::new(
                FAILED,
                format!("there is a token {name} already; revoke it first, or choose another name"),
            ));
        }
        let (token, created) = (Token::create(), Utc::now());
        let said = format!("created token {name}, role {}", grant.role.as_str());
        let expires = request
            .expires_in_s
            .map(|s| created + chrono::TimeDelta::seconds(s.into()));
        let entry = TokenEntry {
            grant,
            hash: token.hash(),
            created,
            expires,
        };
        self.tokens.insert(name.to_owned(), entry);
        self.by_hash = self.hashes();
        Ok((token, said))
    }

    /// Revokes a token.
    ///
    /// # Errors
    /// If there is no such token.
    pub(crate) fn revoke_token(&mut self, name: &str) -> Result<((), String)> {
        let removed = self.tokens.remove(name);
        removed.ok_or_else(|| no_such("token", name))?;
        self.by_hash = self.hashes();
        Ok(((), format!("revoked token {name}")))
    }
}

fn no_such(kind: &str, name: &str) -> Failure {
    Failure::new(
        FAILED,
        format!("there is no {kind} {name:?}; `logmill {kind} list` shows them"),
    )
}

fn check_room(count: usize, of: &str) -> Result<()> {
    if count >= ACCOUNTS_MAX {
        return Err(Failure::new(
            FAILED,
            format!("the store has {count} {of}, the limit; remove one first"),
        ));
    }
    Ok(())
}

fn check_name(name: &str) -> Result<()> {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || b"._@-".contains(&b);
    if name.is_empty() || name.len() > NAME_BYTES_MAX || !name.bytes().all(allowed) {
        return Err(Failure::usage(format!(
            "{name:?} is not a name of an account: write up to {NAME_BYTES_MAX} of the characters A-Z a-z 0-9 . _ @ -"
        )));
    }
    Ok(())
}
