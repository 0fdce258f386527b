//! A state of a peer, for one question.
//!
//! # Invariants
//! * A state is given back once nothing reads it: with the request for the next state, or soon by
//!   itself. If that fails it expires at the peer.
//! * A peer tells its tables only in a version that this server does not know, and the states of
//!   one version share one copy.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use futures::future::BoxFuture;
use hyper::Method;
use parking_lot::Mutex;
use query::{Peer, PeerBytes, PeerTables};
use secrecy::{ExposeSecret, SecretString};
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};

use super::calls::{
    BACKGROUND_WITHIN, NoAnswer, PeerServer, SHORT_BYTES_MAX, late, read_json, whole,
};
use super::{PeerSnapshot, REQUESTS, SNAPSHOTS, STATE_WITHIN, SnapshotRequest, pieces};

/// Time for the next question, which gives the states of the last one back.
const NEXT_WITHIN: Duration = Duration::from_millis(100);

/// The tables and the spent states of a peer, as this server knows them.
#[derive(Default)]
pub(super) struct KnownStates {
    /// The tables of the last one, with their version.
    tables: Mutex<Option<(String, Arc<PeerTables>)>>,
    spent: Mutex<SpentStates>,
}

/// States that are to be given back.
#[derive(Default)]
struct SpentStates {
    tokens: Vec<SecretString>,
    /// A task gives them back if no request does.
    are_awaited: bool,
}

/// A state that a peer holds until this is dropped.
pub(super) struct PeerState {
    server: Arc<PeerServer>,
    token: SecretString,
    store: String,
    end_seq: u64,
    tables: Arc<PeerTables>,
}

impl PeerState {
    /// Returns the state that a server has told. `known` are its tables of this version, if it has
    /// not told them.
    ///
    /// # Errors
    /// If there are none; the state is given back.
    pub(super) fn new(
        server: Arc<PeerServer>,
        told: PeerSnapshot,
        known: Option<Arc<PeerTables>>,
    ) -> Result<Self, String> {
        let token = told.token.into();
        let Some(tables) = told.tables.map(Arc::new).or(known) else {
            server.give_back(token);
            let why = "it has not told its tables: let all servers have one version of logmill";
            return Err(why.to_owned());
        };
        Ok(Self {
            server,
            token,
            store: told.store,
            end_seq: told.end_seq,
            tables,
        })
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

    fn tables(&self) -> &Arc<PeerTables> {
        &self.tables
    }

    fn end_seq(&self) -> u64 {
        self.end_seq
    }

    fn send(&self, request: Bytes) -> BoxFuture<'static, query::Result<PeerBytes>> {
        let path = format!("{REQUESTS}?snapshot={}", self.token.expose_secret());
        Box::pin(pieces::of(Arc::clone(&self.server), path, request))
    }
}

impl Drop for PeerState {
    fn drop(&mut self) {
        self.server.give_back(std::mem::take(&mut self.token));
    }
}

impl PeerServer {
    /// Asks for the present state. An answer that comes too late is given back.
    ///
    /// # Errors
    /// If the peer does not tell it in time.
    pub(super) async fn state(self: &Arc<Self>) -> Result<PeerState, NoAnswer> {
        let (tell, told) = oneshot::channel();
        let this = Arc::clone(self);
        self.runtime().spawn(async move {
            let told = timeout(BACKGROUND_WITHIN, this.ask_state()).await;
            // Nobody waits any more: the state is dropped, which gives it back.
            let _late = tell.send(told.unwrap_or_else(|_| Err(NoAnswer::Gone(late()))));
        });
        match timeout(STATE_WITHIN, told).await {
            Ok(Ok(told)) => told,
            Ok(Err(_)) => Err(NoAnswer::Refused("this server is stopping".to_owned())),
            Err(_) => Err(NoAnswer::Gone(late())),
        }
    }

    /// Asks for a state, and gives the ones back that are spent.
    async fn ask_state(self: &Arc<Self>) -> Result<PeerState, NoAnswer> {
        let known = self.states.tables.lock().clone();
        let given_back = GivenBack::by(self);
        let tokens = given_back.tokens.iter();
        let request = SnapshotRequest {
            known: known.as_ref().map(|(version, _)| version.clone()),
            given_back: tokens.map(|t| t.expose_secret().to_owned()).collect(),
        };
        let request = serde_json::to_vec(&request).expect("BUG: a request is JSON");
        let answer = self.reach(Method::POST, SNAPSHOTS, request.into()).await?;
        given_back.done();
        let told: PeerSnapshot = read_json(answer).await.map_err(NoAnswer::Refused)?;
        let version = told.version.clone();
        let known = known.filter(|(known, _)| *known == version);
        let known = known.map(|(_, tables)| tables);
        let state = PeerState::new(Arc::clone(self), told, known).map_err(NoAnswer::Refused)?;
        *self.states.tables.lock() = Some((version, Arc::clone(state.tables())));
        Ok(state)
    }

    /// Gives a state back in the background: with the request for the next one, or if none comes
    /// soon, by itself. If that fails, the state expires.
    pub(super) fn give_back(self: &Arc<Self>, token: SecretString) {
        let mut spent = self.states.spent.lock();
        spent.tokens.push(token);
        if std::mem::replace(&mut spent.are_awaited, true) {
            return;
        }
        drop(spent);
        let this = Arc::clone(self);
        self.runtime().spawn(async move {
            sleep(NEXT_WITHIN).await;
            let spent = std::mem::take(&mut *this.states.spent.lock());
            for token in spent.tokens {
                let path = format!("{SNAPSHOTS}/{}", token.expose_secret());
                let called = async {
                    let answer = this.call(Method::DELETE, &path, Bytes::new()).await?;
                    whole(answer, SHORT_BYTES_MAX).await
                };
                if let Ok(Err(why)) = timeout(BACKGROUND_WITHIN, called).await {
                    tracing::debug!(peer = this.name(), why, "a state was not given back");
                }
            }
        });
    }
}

/// The states that a request gives back. They are to be given back still if it fails.
struct GivenBack<'a> {
    server: &'a PeerServer,
    tokens: Vec<SecretString>,
}

impl<'a> GivenBack<'a> {
    fn by(server: &'a PeerServer) -> Self {
        let tokens = std::mem::take(&mut server.states.spent.lock().tokens);
        Self { server, tokens }
    }

    fn done(mut self) {
        self.tokens.clear();
    }
}

impl Drop for GivenBack<'_> {
    fn drop(&mut self) {
        self.server
            .states
            .spent
            .lock()
            .tokens
            .append(&mut self.tokens);
    }
}
