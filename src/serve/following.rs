//! Questions that precede tails, and the events that come from then on.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use axum::body::Bytes;
use crossbeam_channel::Receiver;
use query::{Answer, GonePeer, Parameters, Question, Session, Sources, StreamColumns, TailFilter};
use storage::{Arrived, Name, StreamKind};

use super::{Client, Serving};
use crate::cluster::PeerFrames;

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

/// A stream of several stores.
#[derive(Debug, Clone, Default)]
pub(crate) struct StreamOfAll {
    /// The columns upon which the stores agree; `None` if none has the stream.
    pub(crate) columns: Option<StreamColumns>,
    /// Peers that have the stream and are no shards of a cluster that finds its own.
    pub(crate) beside_shards: Vec<String>,
}

impl Serving {
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
        let ask = |sources: Sources, session, question| async move {
            let peers = sources.peers().iter();
            let positions = Positions {
                own,
                peers: peers
                    .map(|peer| (peer.name().to_owned(), peer.end_seq()))
                    .collect(),
            };
            let none = Parameters::None;
            let asked = self.engine.ask(sources, &session, question, none);
            Ok((positions, asked.await?))
        };
        let asked_by = (client, snapshot, Session::default());
        self.over_all(asked_by, question, ask).await
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

    /// Returns the streams of this store and of its peers by name, and a peer that is gone, if one
    /// is.
    pub(crate) async fn streams_of_all(&self) -> (BTreeMap<Name, StreamKind>, Option<GonePeer>) {
        let snapshot = self.store.snapshot();
        let own = snapshot.streams().iter();
        let mut all: BTreeMap<_, _> = own.map(|(name, meta)| (name.clone(), meta.kind)).collect();
        let Some(peers) = &self.peers else {
            return (all, None);
        };
        let store = &snapshot.manifest().store_id;
        let (states, missing) = peers.states_beside_shards(store).await;
        for (name, columns) in states.iter().flat_map(|peer| &peer.tables().streams) {
            all.entry(name.clone()).or_insert(columns.kind);
        }
        (all, missing.gone().pop())
    }

    /// Returns the columns of a stream upon which this store and its peers agree; `None` if no
    /// store has it, and without peers.
    ///
    /// # Errors
    /// The errors of [`Serving::stream_of_all`].
    pub(crate) async fn agreed(&self, stream: &Name) -> query::Result<Option<StreamColumns>> {
        Ok(self.stream_of_all(stream).await?.columns)
    }

    /// Returns a stream as this store and its peers have it.
    ///
    /// # Errors
    /// [`query::Error::Peer`] if a peer is gone, and the errors of [`query::agreed_stream`].
    pub(crate) async fn stream_of_all(&self, stream: &Name) -> query::Result<StreamOfAll> {
        let Some(peers) = &self.peers else {
            return Ok(StreamOfAll::default());
        };
        let snapshot = self.store.snapshot();
        let store = &snapshot.manifest().store_id;
        let told = peers.states_by_shard(store, self.stop.heard()).await;
        let states =
            told.map_err(|GonePeer { name: peer, why }| query::Error::Peer { peer, why })?;
        let having = states.iter().filter_map(|(shard, peer)| {
            let columns = peer.tables().streams.get(stream)?;
            Some((shard, peer.name(), columns))
        });
        let having: Vec<_> = having.collect();
        let theirs = having.iter().map(|(.., columns)| *columns);
        let agreed = query::agreed_stream(snapshot.streams().get(stream), theirs)?;
        let others = having.iter().filter(|(shard, ..)| shard.is_none());
        Ok(StreamOfAll {
            columns: agreed.map(|meta| StreamColumns {
                kind: meta.kind,
                columns: meta.columns,
            }),
            beside_shards: others.map(|(_, name, _)| (*name).to_owned()).collect(),
        })
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
}
