//! A stream of several stores as one table.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::{DFSchema, Result, internal_err};
use datafusion::datasource::{TableProvider, TableType};
use datafusion::logical_expr::{EmptyRelation, LogicalPlan, Projection};
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown};
use datafusion::physical_plan::ExecutionPlan;
use storage::{Name, RollupMeta, Snapshot, StreamMeta};

use super::agreed::{Agreed, LastAgreed};
use super::fragment::{ReadHints, is_of_rows};
use super::peer::{GonePeer, Peer};
use crate::error::Error;
use crate::question::{Sources, StreamMetas};
use crate::tables::level::Rollup;
use crate::tables::stream::{stored_schema, view};

/// The peers of a question, and the streams of all its stores.
#[derive(Debug)]
pub(crate) struct Shards {
    peers: Vec<Arc<dyn Peer>>,
    /// Peers that are gone.
    gone: Vec<GonePeer>,
    /// The question does without them.
    partial: bool,
    agreed: Arc<Agreed>,
}

impl Shards {
    /// Brings the tables of a question's stores together; `None` for those of one store. A question
    /// that is `partial` does without the peers that are gone.
    ///
    /// # Errors
    /// If a peer has a rollup whose definition cannot be read.
    pub(crate) fn of(
        sources: &Sources,
        partial: bool,
        last: &LastAgreed,
    ) -> Result<Option<Self>, Error> {
        if sources.peers.is_empty() && sources.gone.is_empty() {
            return Ok(None);
        }
        Ok(Some(Self {
            peers: sources.peers.clone(),
            gone: sources.gone.clone(),
            partial,
            agreed: last.of(sources.snapshot.streams(), &sources.peers)?,
        }))
    }

    /// Checks that no peer is gone whose part of an answer would be missing.
    ///
    /// # Errors
    /// [`Error::Peer`] for the first that is.
    pub(crate) fn check(&self) -> Result<()> {
        match self.gone.first() {
            Some(gone) if !self.partial => Err(Error::Peer {
                peer: gone.name.clone(),
                why: gone.why.clone(),
            }
            .into()),
            _ => Ok(()),
        }
    }

    /// Returns the peers that answer.
    pub(super) fn peers(&self) -> &[Arc<dyn Peer>] {
        &self.peers
    }

    /// Returns the addresses of the peers without which a partial question is answered.
    pub(crate) fn missing(&self) -> impl Iterator<Item = String> {
        self.gone.iter().map(|gone| gone.name.clone())
    }

    /// Returns the streams that a peer has.
    pub(crate) fn streams(&self) -> &StreamMetas {
        &self.agreed.of_peers
    }

    /// Returns the streams of all stores.
    pub(crate) fn all_streams(&self) -> &StreamMetas {
        &self.agreed.all
    }

    /// Returns the rollups that a peer has.
    pub(crate) fn rollups(&self) -> impl Iterator<Item = &Rollup> {
        self.agreed.rollups.values()
    }

    /// Returns a rollup that a peer has.
    pub(crate) fn rollup(&self, name: &str) -> Option<&Rollup> {
        self.agreed.rollups.get(name)
    }

    /// Returns a rollup as all stores have it, and the peers whose cells are part of its levels. A
    /// level begins where the retention of no store has dropped cells.
    ///
    /// # Errors
    /// [`Error::Invalid`] if a store has the stream without the rollup, or the rollup under another
    /// definition: its events would be missing in the levels.
    pub(crate) fn of_all(
        &self,
        rollup: &Rollup,
        snapshot: &Snapshot,
        own: &BTreeMap<Name, Rollup>,
    ) -> Result<(Rollup, Vec<Arc<dyn Peer>>)> {
        let (name, stream) = (&rollup.meta.name, &rollup.meta.stream);
        let mut all = rollup.clone();
        let mut add = |at: &str, theirs: Option<&RollupMeta>| {
            let why = match theirs {
                Some(theirs) if is_alike(theirs, &rollup.meta) => {
                    for (level, floor) in &theirs.floors {
                        let known = all.meta.floors.entry(level.clone()).or_insert(*floor);
                        known.from_us = known.from_us.max(floor.from_us);
                    }
                    return Ok(());
                }
                Some(_) => "has another definition of it than this one or another store",
                None => "has its stream without it",
            };
            let alike = "define it alike in all stores";
            let why = format!("rollup {name}: {at} {why}; {alike}");
            Err(Error::invalid(why))
        };
        if snapshot.streams().contains_key(stream) {
            add("this store", own.get(name).map(|rollup| &rollup.meta))?;
        }
        let having = self.peers.iter();
        let having = having.filter(|peer| peer.tables().streams.contains_key(stream));
        for peer in having.clone() {
            let mut rollups = peer.tables().rollups.iter();
            let theirs = rollups.find(|rollup| rollup.name == *name);
            add(&format!("peer {}", peer.name()), theirs)?;
        }
        Ok((all, having.cloned().collect()))
    }

    /// Returns the table of a stream of several stores, of which `own` is that of this store, in
    /// the state `snapshot`. `None` if no store has it.
    pub(crate) fn stream(
        &self,
        name: &Name,
        (own, snapshot): (Option<Arc<dyn TableProvider>>, &Snapshot),
        with_seq: bool,
        hints: ReadHints,
    ) -> Result<Option<Arc<dyn TableProvider>>> {
        if let Some(why) = self.agreed.unlike.get(name) {
            return Err(Error::invalid(why.as_str()).into());
        }
        let Some(meta) = self.agreed.of_peers.get(name) else {
            return Ok(own);
        };
        let having = |peer: &&Arc<dyn Peer>| peer.tables().streams.contains_key(name);
        let peers = self.peers.iter().filter(having).cloned();
        // A store that has given no number has no rows, as that of a node: the plan needs no part
        // of its own.
        let own = own.filter(|_| snapshot.next_seq() > 0);
        Ok(Some(Arc::new(ShardedTable {
            name: name.to_string(),
            schema: shown(meta, with_seq)?,
            own,
            peers: peers.collect(),
            hints,
        })))
    }
}

/// Returns whether two generations of a rollup have the same cells for the same events.
fn is_alike(one: &RollupMeta, other: &RollupMeta) -> bool {
    one.definition == other.definition
        && one.stream == other.stream
        && one.levels == other.levels
        && one.zone_data == other.zone_data
}

/// Returns the columns that queries see of a stream with these columns.
fn shown(meta: &StreamMeta, with_seq: bool) -> Result<SchemaRef> {
    // The prefix is part of the values of `_id`, not of its type.
    let exprs = view(meta, [0; 6], None, with_seq);
    let stored = DFSchema::try_from(stored_schema(meta))?;
    let rows = LogicalPlan::EmptyRelation(EmptyRelation {
        produce_one_row: false,
        schema: Arc::new(stored),
    });
    let seen = Projection::try_new(exprs, Arc::new(rows))?;
    Ok(Arc::clone(seen.schema.inner()))
}

/// A stream of several stores, or a system table of a peer. Plans over it are divided among the
/// stores before they run.
#[derive(Debug)]
pub(crate) struct ShardedTable {
    pub(crate) name: String,
    pub(super) schema: SchemaRef,
    /// The table of this store; `None` if it does not have the stream.
    pub(crate) own: Option<Arc<dyn TableProvider>>,
    /// The peers that have the stream.
    pub(crate) peers: Vec<Arc<dyn Peer>>,
    pub(crate) hints: ReadHints,
}

impl ShardedTable {
    /// Returns the table behind a provider, if it is one of several stores.
    pub(crate) fn of(provider: &dyn TableProvider) -> Option<&Self> {
        (provider as &dyn Any).downcast_ref()
    }
}

#[async_trait]
impl TableProvider for ShardedTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
    fn table_type(&self) -> TableType {
        TableType::Base
    }
    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> Result<Vec<TableProviderFilterPushDown>> {
        let of = |filter: &&Expr| match is_of_rows(filter) {
            true => TableProviderFilterPushDown::Exact,
            false => TableProviderFilterPushDown::Unsupported,
        };
        Ok(filters.iter().map(of).collect())
    }
    async fn scan(
        &self,
        _: &dyn Session,
        _: Option<&Vec<usize>>,
        _: &[Expr],
        _: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        internal_err!("{} was not divided among its stores", self.name)
    }
}
