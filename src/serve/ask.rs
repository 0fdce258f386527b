//! The way of listeners to answers: questions over the present state of the store, and the events
//! that come from now on.

use std::collections::HashMap;
use std::ops::Deref;
use std::sync::Arc;

use axum::body::Bytes;
use crossbeam_channel::Receiver;
use futures::stream::BoxStream;
use query::{
    Answer, Engine, GonePeer, Parameters, Peer, Prepared, QueryInfo, Question, SchemaInfo, Session,
    ShardKeyInfo, Sources, StreamColumns, TailFilter, Viewer,
};
use storage::{Arrived, Name, ShardKey, Snapshot};
use tokio::time::timeout;

use super::{Serving, Share};
use crate::access::{Action, Principal, Target};
use crate::cluster::{PeerFrames, ShardedIntake};
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

/// A condition compiled for the columns that a stream had then.
#[derive(Debug, Clone)]
pub(crate) struct CompiledFilter {
    /// The number of those of this store.
    pub(crate) columns: usize,
    pub(crate) filter: Arc<TailFilter>,
}

/// The exclusive ends of the sequence numbers of a state, of this store and of its peers by their
/// addresses.
#[derive(Debug, Clone, Default)]
pub(crate) struct Positions {
    pub(crate) own: u64,
    pub(crate) peers: HashMap<String, u64>,
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

    /// Returns a state of the store and the present ones of the peers, and the session in which a
    /// client asks about them.
    async fn all_sources_at(
        &self,
        client: &Client,
        snapshot: Arc<Snapshot>,
        base: Session,
    ) -> (Sources, Session) {
        let mut session = client.session(&snapshot, base);
        let Some(peers) = &self.peers else {
            return (self.sources_at(snapshot), session);
        };
        let store = &snapshot.manifest().store_id;
        let (states, gone) = match session.partial {
            true => peers.states(store).await,
            false => peers.awaited_states(store, self.patience(&session)).await,
        };
        client.show(&mut session.viewer, &states);
        let sources = self.sources_at(snapshot).with_peers(states, gone);
        (sources, session)
    }

    /// Lasts while a question may wait for stores of others: for the time that it may take, and
    /// until the server stops.
    async fn patience(&self, session: &Session) {
        let limit = self.config.query.limits().time;
        match session.time_max.into_iter().chain(limit).min() {
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
        let all = self.all_sources_at(client, self.store.snapshot(), base);
        let (sources, session) = all.await;
        let asked = self.engine.ask(sources, &session, question, parameters);
        asked.await
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
        let (sources, session) = self.all_sources_at(client, snapshot, base).await;
        let none = Parameters::None;
        let asked = self.engine.ask(sources, &session, question, none);
        asked.await
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
        let all = self.all_sources_at(client, self.store.snapshot(), base);
        let (sources, session) = all.await;
        self.engine.prepare(sources, &session, question).await
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
        let all = self.all_sources_at(client, self.store.snapshot(), Session::default());
        let (sources, session) = all.await;
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

    /// Returns every event that becomes visible from now on, in batches.
    pub(crate) fn follow(&self) -> Receiver<Arrived> {
        self.store.follow()
    }

    /// Starts a question on a state of all stores. Returns the ends of their states, too: followed
    /// events from there on are the ones that come after them.
    ///
    /// # Errors
    /// The errors of [`query::Engine::ask`].
    pub(crate) async fn ask_before_following(
        &self,
        client: &Client,
        question: Question,
    ) -> query::Result<(Positions, Answer)> {
        let snapshot = self.store.snapshot();
        let own = snapshot.next_seq();
        let all = self.all_sources_at(client, snapshot, Session::default());
        let (sources, session) = all.await;
        let peers = sources.peers().iter();
        let positions = Positions {
            own,
            peers: peers
                .map(|peer| (peer.name().to_owned(), peer.tables().end_seq))
                .collect(),
        };
        let asked = self
            .engine
            .ask(sources, &session, question, Parameters::None);
        Ok((positions, asked.await?))
    }

    /// Returns whether the stores of other servers take part in questions.
    pub(crate) fn has_peers(&self) -> bool {
        self.peers.is_some()
    }

    /// Follows the new events of all peers that pass a choice.
    ///
    /// # Errors
    /// [`query::Error::Peer`] for the first that does not follow.
    pub(crate) async fn follow_peers(&self, choice: Bytes) -> query::Result<Vec<PeerFrames>> {
        let Some(peers) = &self.peers else {
            return Ok(Vec::new());
        };
        let following = peers.follow(choice).await;
        following.map_err(|GonePeer { name: peer, why }| query::Error::Peer { peer, why })
    }

    /// Returns the columns of a stream upon which this store and its peers agree; `None` if no
    /// store has it, and without peers.
    ///
    /// # Errors
    /// [`query::Error::Peer`] if a peer is gone, and the errors of [`query::agreed_stream`].
    pub(crate) async fn agreed(&self, stream: &Name) -> query::Result<Option<StreamColumns>> {
        let Some(peers) = &self.peers else {
            return Ok(None);
        };
        let snapshot = self.store.snapshot();
        let store = &snapshot.manifest().store_id;
        let (states, gone) = peers.awaited_states(store, self.stop.heard()).await;
        if let Some(GonePeer { name: peer, why }) = gone.into_iter().next() {
            return Err(query::Error::Peer { peer, why });
        }
        let own = snapshot.streams().get(stream);
        let theirs = states.iter();
        let theirs = theirs.filter_map(|peer| peer.tables().streams.get(stream));
        let agreed = query::agreed_stream(own, theirs)?;
        Ok(agreed.map(|meta| StreamColumns {
            kind: meta.kind,
            columns: meta.columns,
        }))
    }

    /// Compiles a condition for the present columns of a stream, and those upon which other stores
    /// agree; `None` if there is no such stream.
    ///
    /// # Errors
    /// The errors of [`TailFilter::new`], and of [`query::agreed_stream`].
    pub(crate) fn filter(
        &self,
        stream: &Name,
        condition: Option<&str>,
        agreed: Option<&StreamColumns>,
    ) -> query::Result<Option<CompiledFilter>> {
        let snapshot = self.store.snapshot();
        let own = snapshot.streams().get(stream);
        let Some(meta) = query::agreed_stream(own, agreed)? else {
            return Ok(None);
        };
        let id_prefix = snapshot.manifest().id_prefix();
        let filter = TailFilter::new(&self.engine, &meta, id_prefix, condition)?;
        Ok(Some(CompiledFilter {
            columns: own.map_or(0, |own| own.columns.len()),
            filter: Arc::new(filter),
        }))
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
