//! The identity of a client and its rights: the one place where those are decided.

use std::sync::{Arc, LazyLock};

use query::Viewer;
use serde::{Deserialize, Serialize};
use storage::{Snapshot, StreamKind};
use wildmatch::WildMatch;

use super::accounts::Account;

/// The purpose of an account.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Role {
    /// Sends events.
    Ingest,
    /// Reads streams and their rollups.
    Read,
    /// Sends and reads, for the other servers of a cluster.
    Peer,
    /// Does everything.
    Admin,
}

/// The kind of work of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    /// Nothing that needs a login.
    Public,
    /// Stores events, or asks what has been stored of a source.
    Ingest,
    /// Reads events, rollups or the state of the store.
    Read,
    /// Stores the parts of batches that another server of the cluster has divided.
    TakeParts,
    /// Changes or verifies a store as a whole; a node has the servers of its shards do it.
    Maintain,
    /// Anything else.
    Administer,
}

/// The object of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Target<'a> {
    /// One stream, and its rollups.
    Stream(&'a str),
    /// The streams that the principal may read ([`Principal::viewer`]); the others are left out.
    Visible,
    /// The whole store.
    Store,
}

impl Role {
    fn allows(self, action: Action) -> bool {
        match action {
            Action::Public => true,
            Action::Ingest => matches!(self, Self::Ingest | Self::Peer | Self::Admin),
            Action::Read => matches!(self, Self::Read | Self::Peer | Self::Admin),
            Action::TakeParts => matches!(self, Self::Peer | Self::Admin),
            Action::Maintain | Action::Administer => self == Self::Admin,
        }
    }

    /// Returns the word of the command line.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Ingest => "ingest",
            Self::Read => "read",
            Self::Peer => "peer",
            Self::Admin => "admin",
        }
    }
}

/// The streams of an account: patterns of names with `*` and `?`. Without a pattern, all streams.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "Vec<String>", try_from = "Vec<String>")]
pub(crate) struct Scope(Vec<String>);

impl Scope {
    /// Returns whether the scope is every stream, and the store with them.
    pub(crate) fn is_all(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether the scope has a stream. The quarantine holds lines of every stream, so that
    /// no pattern matches it.
    fn contains(&self, stream: &str) -> bool {
        let matches = |pattern: &String| WildMatch::new(pattern).matches(stream);
        self.is_all() || (stream != storage::QUARANTINE && self.0.iter().any(matches))
    }

    /// Checks that each pattern without `*` and `?` is a name that a stream can have.
    ///
    /// # Errors
    /// The rule of names, for the first one that breaks it.
    pub(super) fn check(&self) -> storage::Result<()> {
        let is_name = |pattern: &&String| !pattern.contains(['*', '?']);
        let mut names = self.0.iter().filter(is_name);
        names.try_for_each(|name| storage::Name::new(name).map(drop))
    }

    /// Returns the patterns.
    pub(crate) fn patterns(&self) -> &[String] {
        &self.0
    }
}

impl From<Scope> for Vec<String> {
    fn from(scope: Scope) -> Self {
        scope.0
    }
}

impl TryFrom<Vec<String>> for Scope {
    type Error = String;

    fn try_from(patterns: Vec<String>) -> Result<Self, String> {
        for pattern in &patterns {
            let allowed = |b: u8| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'*' | b'?');
            if pattern.is_empty() || pattern.len() > 128 || !pattern.bytes().all(allowed) {
                return Err(format!(
                    "{pattern:?} is not a pattern of stream names: write it as web_* with the characters a-z 0-9 _ * ?"
                ));
            }
        }
        Ok(Self(patterns))
    }
}

/// A client as it was admitted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Principal {
    name: String,
    role: Role,
    scope: Scope,
    account: Option<Account>,
}

impl Principal {
    /// Returns the client of a store without users and tokens.
    pub(crate) fn open() -> Arc<Self> {
        static OPEN: LazyLock<Arc<Principal>> = LazyLock::new(|| Principal::admin("anyone"));
        Arc::clone(&OPEN)
    }

    /// Returns the client that can read the store's directory.
    pub(super) fn operator() -> Arc<Self> {
        static OPERATOR: LazyLock<Arc<Principal>> = LazyLock::new(|| Principal::admin("operator"));
        Arc::clone(&OPERATOR)
    }

    /// Returns an administrator without an account.
    fn admin(name: &str) -> Arc<Self> {
        Arc::new(Self {
            name: name.to_owned(),
            role: Role::Admin,
            scope: Scope::default(),
            account: None,
        })
    }

    /// Returns the principal of an account.
    pub(super) fn of(account: &Account, role: Role, scope: &Scope) -> Arc<Self> {
        Arc::new(Self {
            name: account.to_string(),
            role,
            scope: scope.clone(),
            account: Some(account.clone()),
        })
    }

    /// Returns the name for the audit and for lists of queries: `user alice`, `token grafana`.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Returns the role.
    pub(crate) fn role(&self) -> Role {
        self.role
    }

    /// Returns the streams.
    pub(crate) fn scope(&self) -> &Scope {
        &self.scope
    }

    /// Returns whether the client is one on this machine that could change the store without a
    /// server: any client of an open store, or a command that reads the store's directory.
    pub(crate) fn is_local(&self) -> bool {
        self.account.is_none()
    }

    /// Returns a reader with an account.
    #[cfg(test)]
    pub(crate) fn reader(name: &str) -> Arc<Self> {
        let account = Account::User {
            name: name.to_owned(),
            verifier: super::Verifier::of_nobody(),
        };
        Self::of(&account, Role::Read, &Scope::default())
    }

    pub(super) fn account(&self) -> Option<&Account> {
        self.account.as_ref()
    }

    /// Decides whether the principal may do something.
    pub(crate) fn may(&self, action: Action, target: Target<'_>) -> bool {
        let is_in_scope = match target {
            Target::Stream(stream) => self.scope.contains(stream),
            Target::Visible => true,
            Target::Store => self.scope.is_all(),
        };
        action == Action::Public || (self.role.allows(action) && is_in_scope)
    }

    /// Returns the principal as queries of a snapshot see it.
    pub(crate) fn viewer(&self, snapshot: &Snapshot) -> Viewer {
        let own = || {
            let own = snapshot.streams().iter().filter(|(name, meta)| {
                meta.kind != StreamKind::Quarantine && self.scope.contains(name.as_str())
            });
            Arc::new(own.map(|(name, _)| name.clone()).collect())
        };
        Viewer {
            name: self.account.as_ref().map(|_| self.name.clone()),
            streams: (!self.scope.is_all()).then(own),
            restricted: self.role != Role::Admin,
        }
    }

    /// Returns whether the principal may use the name of an ordered source. A principal of some
    /// streams uses names of the form `kind:stream:rest`, as imports do: with another's name it
    /// could make the store take the other's events for duplicates.
    pub(crate) fn may_use_producer(&self, name: &str) -> bool {
        let stream = name.split(':').nth(1);
        self.scope.is_all() || stream.is_some_and(|stream| self.scope.contains(stream))
    }
}
