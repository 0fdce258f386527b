//! The streams and the rollups upon which the stores of a question agree.
//!
//! # Invariants
//! * The result depends on the tables of the stores and the names of the peers alone. Few questions
//!   find other ones than the question before, so the last result is kept with all of these.

use std::collections::BTreeMap;
use std::sync::Arc;

use aggregator::Definition;
use parking_lot::Mutex;
use storage::{Column, ColumnType, Name, PartitionWidth, RollupMeta, StreamKind, StreamMeta};

use super::peer::{Peer, PeerTables, StreamColumns};
use crate::error::Error;
use crate::question::StreamMetas;
use crate::tables::level::Rollup;

/// The generation of a rollup that this store does not have: none of its own has this number.
const NO_GENERATION: u32 = u32::MAX;

/// The streams and the rollups of all stores.
#[derive(Debug, Default)]
pub(super) struct Agreed {
    /// The streams that a peer has, with the columns that all stores agree upon.
    pub(super) of_peers: StreamMetas,
    /// These, and the other streams of this store.
    pub(super) all: StreamMetas,
    /// Streams upon which the stores do not agree, and why.
    pub(super) unlike: BTreeMap<Name, String>,
    /// The rollups of peers by name, each as the first peer has it that has it.
    pub(super) rollups: BTreeMap<Name, Rollup>,
}

/// The result for the last question.
#[derive(Debug, Default)]
pub(crate) struct LastAgreed(Mutex<Option<(StoreTables, Arc<Agreed>)>>);

/// The tables of the stores of a question.
#[derive(Debug)]
struct StoreTables {
    own: StreamMetas,
    /// The tables of each peer, by its name. While they are held, no others are at their address.
    peers: Vec<(String, Arc<PeerTables>)>,
}

impl LastAgreed {
    /// Returns what this store and peers agree upon.
    ///
    /// # Errors
    /// If a peer has a rollup whose definition cannot be read.
    pub(super) fn of(
        &self,
        own: &StreamMetas,
        peers: &[Arc<dyn Peer>],
    ) -> Result<Arc<Agreed>, Error> {
        if let Some((tables, agreed)) = &*self.0.lock()
            && tables.are_those_of(own, peers)
        {
            return Ok(Arc::clone(agreed));
        }
        let agreed = Arc::new(Agreed::of(own, peers)?);
        let named = |peer: &Arc<dyn Peer>| (peer.name().to_owned(), Arc::clone(peer.tables()));
        let tables = StoreTables {
            own: own.clone(),
            peers: peers.iter().map(named).collect(),
        };
        *self.0.lock() = Some((tables, Arc::clone(&agreed)));
        Ok(agreed)
    }
}

impl StoreTables {
    fn are_those_of(&self, own: &StreamMetas, peers: &[Arc<dyn Peer>]) -> bool {
        let mut pairs = self.peers.iter().zip(peers);
        self.peers.len() == peers.len()
            && pairs.all(|((name, tables), peer)| {
                Arc::ptr_eq(tables, peer.tables()) && name == peer.name()
            })
            && self.own == *own
    }
}

impl Agreed {
    fn of(own: &StreamMetas, peers: &[Arc<dyn Peer>]) -> Result<Self, Error> {
        let mut agreed = Self::default();
        for peer in peers {
            agreed.add_streams(own, &**peer);
            for meta in &peer.tables().rollups {
                if agreed.rollups.contains_key(&meta.name) {
                    continue;
                }
                let definition = Definition::from_meta(meta).map_err(|error| Error::Peer {
                    peer: peer.name().to_owned(),
                    why: format!("rollup {}: {error}", meta.name),
                })?;
                let rollup = Rollup {
                    meta: RollupMeta {
                        id: NO_GENERATION,
                        floors: BTreeMap::new(),
                        history: None,
                        ..meta.clone()
                    },
                    definition: Arc::new(definition),
                };
                agreed.rollups.insert(meta.name.clone(), rollup);
            }
        }
        agreed.all = own.clone();
        agreed.all.extend(agreed.of_peers.clone());
        Ok(agreed)
    }

    fn add_streams(&mut self, own: &StreamMetas, peer: &dyn Peer) {
        for (name, columns) in &peer.tables().streams {
            let known = self.of_peers.get(name).or_else(|| own.get(name));
            match merged(known, columns) {
                Ok(meta) => drop(self.of_peers.insert(name.clone(), meta)),
                Err(why) => {
                    let why = format!("stream {name}: peer {}: {why}", peer.name());
                    self.unlike.entry(name.clone()).or_insert(why);
                }
            }
        }
    }
}

/// Returns a stream with the columns that this store and others agree upon; `None` if no store has
/// it.
///
/// # Errors
/// [`Error::Invalid`] if the stores have streams of two kinds under its name.
pub fn agreed_stream<'a>(
    own: Option<&StreamMeta>,
    others: impl IntoIterator<Item = &'a StreamColumns>,
) -> crate::Result<Option<StreamMeta>> {
    let mut agreed = own.cloned();
    for columns in others {
        let all = merged(agreed.as_ref(), columns);
        agreed = Some(all.map_err(|why| Error::invalid(format!("the stream is another: {why}")))?);
    }
    Ok(agreed)
}

/// Adds the columns of a store to those of others. A column of integers and of floats is one of
/// floats; a column of any other two types is one of texts.
fn merged(known: Option<&StreamMeta>, added: &StreamColumns) -> Result<StreamMeta, String> {
    let Some(known) = known else {
        return Ok(StreamMeta {
            kind: added.kind,
            partition: PartitionWidth::default(),
            order_by: Vec::new(),
            columns: added.columns.clone(),
            created_us: 0,
            sealed_events: 0,
            dropped: Vec::new(),
            columns_max: usize::MAX,
            erasures: Vec::new(),
            divided_by: None,
        });
    };
    if known.kind != added.kind {
        let kind = |kind: StreamKind| format!("{kind:?}").to_lowercase();
        let (own, theirs) = (kind(known.kind), kind(added.kind));
        return Err(format!("it holds {theirs} there and {own} elsewhere"));
    }
    let mut all = known.clone();
    for column in &added.columns {
        match all.columns.iter_mut().find(|c| c.name == column.name) {
            Some(known) => known.column_type = common(known.column_type, column.column_type),
            None => all.columns.push(Column {
                first_us: None,
                ..column.clone()
            }),
        }
    }
    Ok(all)
}

fn common(one: ColumnType, other: ColumnType) -> ColumnType {
    use ColumnType::{Float64, Int16, Int64, Text};
    match (one, other) {
        (a, b) if a == b => a,
        (Int16 | Int64, Int16 | Int64) => Int64,
        (Int16 | Int64 | Float64, Int16 | Int64 | Float64) => Float64,
        _ => Text,
    }
}
