//! A state of a peer, for one question.

use std::fmt;
use std::sync::Arc;

use axum::body::Bytes;
use futures::future::BoxFuture;
use query::{Peer, PeerBytes, PeerTables};
use secrecy::{ExposeSecret, SecretString};

use super::calls::PeerServer;
use super::{PeerSnapshot, REQUESTS, SNAPSHOTS, pieces};

/// A state that a peer holds until this is dropped.
pub(super) struct PeerState {
    server: Arc<PeerServer>,
    token: SecretString,
    store: String,
    tables: PeerTables,
}

impl PeerState {
    pub(super) fn new(server: Arc<PeerServer>, told: PeerSnapshot) -> Self {
        Self {
            server,
            token: told.token.into(),
            store: told.store,
            tables: told.tables,
        }
    }

    /// Returns the id of the store.
    pub(super) fn store(&self) -> &str {
        &self.store
    }
}

impl fmt::Debug for PeerState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PeerState").field(&self.server).finish()
    }
}

impl Peer for PeerState {
    fn name(&self) -> &str {
        self.server.name()
    }

    fn tables(&self) -> &PeerTables {
        &self.tables
    }

    fn send(&self, request: Bytes) -> BoxFuture<'static, query::Result<PeerBytes>> {
        let path = format!("{REQUESTS}?snapshot={}", self.token.expose_secret());
        Box::pin(pieces::of(Arc::clone(&self.server), path, request))
    }
}

impl Drop for PeerState {
    fn drop(&mut self) {
        let path = format!("{SNAPSHOTS}/{}", self.token.expose_secret());
        self.server.give_back(path);
    }
}
