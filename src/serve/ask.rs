//! The way of listeners to answers: questions over the present state of the store.

use std::mem;
use std::ops::Deref;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use futures::stream::BoxStream;
use query::{
    Answer, Engine, Parameters, Peer, Prepared, QueryInfo, Question, SchemaInfo, Session,
    ShardKeyInfo, Sources, Viewer,
};
use storage::{Name, ShardKey, Snapshot};
use tokio::time::timeout;

use super::{Serving, Share};
use crate::access::{Action, Principal, Target};
use crate::cluster::ShardedIntake;
use crate::wiring::StoreInfo;

/// A client of a request: a principal within its share. There is no other way to ask a question.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    who: Arc<Principal>,
    share: Arc<Share>,
}

impl Deref for Client {
    type Target = Principal;

    fn deref(&self) -> &Principal {
        &self.who
    }
}

impl Client {
    /// Returns the client of a request.
    pub(crate) fn new(who: Arc<Principal>, share: Arc<Share>) -> Self {
        Self { who, share }
    }

    /// Returns the principal.
    pub(crate) fn principal(&self) -> &Arc<Principal> {
        &self.who
    }

    /// Returns the share of the client.
    pub(crate) fn share(&self) -> &Share {
        &self.share
    }

    /// Returns a session with the rights and the share of the client.
    fn session(&self, snapshot: &Snapshot, base: Session) -> Session {
        Session {
            viewer: self.viewer(snapshot),
            line: self.share.line(),
            ..base
        }
    }

    /// Lets a viewer see the streams of peers that the client may read.
    fn show(&self, viewer: &mut Viewer, peers: &[Arc<dyn Peer>]) {
        if let Some(seen) = &mut viewer.streams {
            let streams = peers.iter().flat_map(|peer| peer.tables().streams.keys());
            let may_read = |name: &&Name| self.may(Action::Read, Target::Stream(name.as_str()));
            Arc::make_mut(seen).extend(streams.filter(may_read).cloned());
        }
    }
}

impl Serving {
    /// Returns the data of system tables for the present state of the store.
    pub(crate) fn info(&self) -> StoreInfo {
        let mut info = StoreInfo::of_store(&self.store, self.scrub.last_error.lock().clone());
        self.sources.add_to(&mut info.sources);
        self.arrivals.add_to(&mut info.sources);
        let shards = self.shards.as_ref().map(ShardedIntake::seen);
        info.with_shards(shards.unwrap_or_default())
            .with_access(&self.access)
    }

    /// Checks that the server has events itself, for what one store answers alone.
    ///
    /// # Errors
    /// The reason, at a node of a cluster: an answer about its own empty store would be taken for
    /// one about the cluster.
    pub(crate) fn has_events(&self) -> Result<(), &'static str> {
        match self.config.cluster.is_node() {
            false => Ok(()),
            true => Err(
                "this server is a node of a cluster and has no events itself; send the request to the server of each shard, as `logmill cluster status` lists them",
            ),
        }
    }

    /// Returns a state of the store alone, for questions that must agree with each other.
    fn sources_at(&self, snapshot: Arc<Snapshot>) -> Sources {
        self.intake.note_foreground();
        Sources::one(snapshot, Arc::new(self.info()))
    }

    /// Asks a question over a state of the store and the present ones of the peers, in the session
    /// of a client with the settings of `base`. While a shard that it needs is on its way to
    /// another node, it waits and asks again; so it does, once, where a peer fails that has told
    /// its state.
    ///
    /// # Errors
    /// The errors of `ask`.
    pub(super) async fn over_all<T, F>(
        &self,
        (client, snapshot, base): (&Client, Arc<Snapshot>, Session),
        mut question: Question,
        ask: impl Fn(Sources, Session, Question) -> F,
    ) -> query::Result<T>
    where
        F: Future<Output = query::Result<T>>,
    {
        let mut session = client.session(&snapshot, base);
        let own = self.sources_at(Arc::clone(&snapshot));
        let Some(peers) = &self.peers else {
            return ask(own, session, question).await;
        };
        let store = &snapshot.manifest().store_id;
        let mut patience = pin!(self.patience(session.time_max));
        let (mut is_patient, mut may_fail) = (!session.partial, true);
        loop {
            // A question that can be asked but once waits before, though it may not need them all.
            let again = question.again();
            let (states, missing) = match is_patient && again.is_none() {
                true => peers.awaited_states(store, patience.as_mut()).await,
                false => peers.states(store).await,
            };
            client.show(&mut session.viewer, &states);
            let (awaited, has_all) = (is_patient && missing.are_awaited(), missing.is_empty());
            let sources = own.clone().with_peers(states, missing.gone());
            match (ask(sources, session.clone(), question).await, again) {
                (Err(query::Error::Peer { .. }), Some(again)) if awaited => question = again,
                (Err(query::Error::Peer { .. }), Some(again))
                    if has_all && mem::take(&mut may_fail) =>
                {
                    question = again;
                    continue;
                }
                (asked, _) => return asked,
            }
            is_patient = tokio::select! {
                () = missing.wait() => true,
                () = &mut patience => false,
            };
        }
    }

    /// Lasts while a question may wait for stores of others: for the time that it may take, and
    /// until the server stops.
    async fn patience(&self, time_max: Option<Duration>) {
        let limit = self.config.query.limits().time;
        match time_max.into_iter().chain(limit).min() {
            Some(most) => drop(timeout(most, self.stop.heard()).await),
            None => self.stop.heard().await,
        }
    }

    /// Starts a question on the present state of the store, with the settings of `base`.
    ///
    /// # Errors
    /// The errors of [`query::Engine::ask`].
    pub(crate) async fn ask(
        &self,
        client: &Client,
        base: Session,
        question: Question,
        parameters: Parameters,
    ) -> query::Result<Answer> {
        let asked_by = (client, self.store.snapshot(), base);
        let ask = |sources, session, question| {
            let parameters = parameters.clone();
            async move {
                let asked = self.engine.ask(sources, &session, question, parameters);
                self.begun(asked.await?).await
            }
        };
        self.over_all(asked_by, question, ask).await
    }

    /// Answers the request of a peer over a state that it has asked for before.
    pub(crate) fn answer_peer(
        &self,
        client: &Client,
        snapshot: Arc<Snapshot>,
        request: Bytes,
    ) -> BoxStream<'static, Bytes> {
        let session = Session {
            line: client.share.peer_line(),
            ..client.session(&snapshot, Session::default())
        };
        let sources = self.sources_at(snapshot);
        self.engine.answer_peer(sources, &session, request)
    }

    /// Starts one of several questions of a request, on the state of the store that all of them
    /// read.
    ///
    /// # Errors
    /// The errors of [`query::Engine::ask`].
    pub(crate) async fn ask_at(
        &self,
        client: &Client,
        snapshot: Arc<Snapshot>,
        base: Session,
        question: Question,
    ) -> query::Result<Answer> {
        let ask = |sources, session, question| async move {
            let asked = self
                .engine
                .ask(sources, &session, question, Parameters::None);
            self.begun(asked.await?).await
        };
        self.over_all((client, snapshot, base), question, ask).await
    }

    /// Waits for the first rows of an answer where peers may fail: until then it can be asked for
    /// again.
    async fn begun(&self, answer: Answer) -> query::Result<Answer> {
        match self.peers {
            Some(_) => answer.begun().await,
            None => Ok(answer),
        }
    }

    /// Starts a question of the server itself, which sees all streams.
    ///
    /// # Errors
    /// The errors of [`query::Engine::ask`].
    pub(crate) async fn ask_itself(&self, question: Question) -> query::Result<Answer> {
        let sources = self.sources_at(self.store.snapshot());
        let (session, none) = (Session::default(), Parameters::None);
        self.engine.ask(sources, &session, question, none).await
    }

    /// Binds a question to the present state of the store, with the settings of `base`.
    ///
    /// # Errors
    /// The errors of [`query::Engine::prepare`].
    pub(crate) async fn prepare(
        &self,
        client: &Client,
        base: Session,
        question: Question,
    ) -> query::Result<Prepared> {
        let asked_by = (client, self.store.snapshot(), base);
        let prepare = |sources, session, question| async move {
            self.engine.prepare(sources, &session, question).await
        };
        self.over_all(asked_by, question, prepare).await
    }

    /// Returns the engine for questions of a client.
    pub(crate) fn engine_of(&self, client: &Client, snapshot: &Snapshot) -> Engine {
        self.engine
            .within(client.session(snapshot, Session::default()))
    }

    /// Returns the queries that wait or run, oldest first.
    pub(crate) fn queries(&self) -> Vec<QueryInfo> {
        self.engine.queries()
    }

    /// Returns the queries that a client sees.
    pub(crate) fn queries_for(&self, client: &Client) -> Vec<QueryInfo> {
        let viewer = client.viewer(&self.store.snapshot());
        self.engine.queries_for(&viewer)
    }

    /// Cancels a query that a client sees. Returns whether there is one of that number.
    pub(crate) fn cancel(&self, client: &Client, id: u64) -> bool {
        let is_seen = self.queries_for(client).iter().any(|query| query.id == id);
        is_seen && self.engine.cancel(id)
    }

    /// Returns the fields of a stream; `None` if there is no such stream.
    ///
    /// # Errors
    /// The errors of [`query::schema`].
    pub(crate) async fn schema(
        &self,
        client: &Client,
        stream: &Name,
    ) -> query::Result<Option<SchemaInfo>> {
        let snapshot = self.store.snapshot();
        let mut session = client.session(&snapshot, Session::default());
        let mut sources = self.sources_at(Arc::clone(&snapshot));
        if let Some(peers) = &self.peers {
            let store = &snapshot.manifest().store_id;
            let (states, missing) = peers.awaited_states(store, self.stop.heard()).await;
            client.show(&mut session.viewer, &states);
            sources = sources.with_peers(states, missing.gone());
        }
        query::schema(&self.engine, &session, sources, stream).await
    }

    /// Measures the shard keys of a stream; `None` if there is no such stream.
    ///
    /// # Errors
    /// The errors of [`query::shard_keys`].
    pub(crate) async fn shard_keys(
        &self,
        client: &Client,
        stream: &Name,
        shards: u16,
        also: &[ShardKey],
    ) -> query::Result<Option<ShardKeyInfo>> {
        let (snapshot, system) = (self.store.snapshot(), Arc::new(self.info()));
        let engine = self.engine_of(client, &snapshot);
        query::shard_keys(&engine, (snapshot, system), stream, shards, also).await
    }

    /// Counts the received events of a stream before a question needs their counts.
    ///
    /// # Errors
    /// The errors of [`query::make_cells`].
    pub(crate) fn make_cells(&self, stream: &Name) -> query::Result<()> {
        let _permit = self.intake.background_permit();
        query::make_cells(&self.store.snapshot(), stream)
    }
}
