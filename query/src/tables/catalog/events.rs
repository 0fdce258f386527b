//! Streams and rollups, of this store alone or of several.

use std::sync::Arc;

use aggregator::Level;
use datafusion::common::Result;
use datafusion::datasource::TableProvider;
use storage::Name;

use super::TablesOf;
use crate::tables::level::{DocumentTable, Form, LevelTable, Rollup, RollupUse, StreamRollups};
use crate::tables::sharded::Peer;
use crate::tables::sharded::fragment::ReadHints;
use crate::tables::stream;

impl TablesOf {
    pub(super) fn stream(&self, name: &Name) -> Result<Option<Arc<dyn TableProvider>>> {
        let own = self.own_stream(name)?;
        match &self.inner.shards {
            Some(shards) if self.inner.client.viewer.sees(name.as_str()) => {
                shards.check()?;
                let hints = ReadHints {
                    no_rollup: self.inner.answers == RollupUse::Never,
                    indexes: self.inner.files.indexes.clone(),
                };
                let own = (own, &*self.inner.snapshot);
                shards.stream(name, own, self.inner.hidden.seq, hints)
            }
            _ => Ok(own),
        }
    }

    pub(super) fn own_stream(&self, name: &Name) -> Result<Option<Arc<dyn TableProvider>>> {
        let inner = &self.inner;
        if !inner.client.viewer.sees(name.as_str()) {
            return Ok(None);
        }
        let levels = (inner.answers != RollupUse::Never).then(|| {
            let rollups = inner.rollups.values();
            let rollups = rollups.filter(|r| r.meta.stream == *name);
            Arc::new(StreamRollups {
                rollups: rollups.cloned().collect(),
                tiles: Arc::clone(&inner.tiles),
                always: inner.answers == RollupUse::Always,
            })
        });
        let (snapshot, files) = (&inner.snapshot, &inner.files);
        stream::table(snapshot, name, files, levels, inner.hidden.seq)
    }

    /// Returns a rollup as all stores have it, and the peers whose cells its levels have.
    fn of_all(&self, rollup: &Rollup) -> Result<(Rollup, Vec<Arc<dyn Peer>>)> {
        let Some(shards) = &self.inner.shards else {
            return Ok((rollup.clone(), Vec::new()));
        };
        shards.check()?;
        shards.of_all(rollup, &self.inner.snapshot, &self.inner.rollups)
    }

    pub(super) fn level(
        &self,
        rollup: &Rollup,
        name: &str,
    ) -> Result<Option<Arc<dyn TableProvider>>> {
        let levels = rollup.definition.levels();
        let Some(level) = Level::from_table(name).filter(|l| levels.contains(l)) else {
            return Ok(None);
        };
        self.inner
            .asked
            .lock()
            .push((rollup.definition.clone(), level));
        let (snapshot, tiles) = (self.inner.snapshot.clone(), self.inner.tiles.clone());
        let (rollup, peers) = self.of_all(rollup)?;
        let table = LevelTable::new(snapshot, rollup, level, tiles).with_peers(peers);
        Ok(Some(Arc::new(match self.inner.hidden.exact {
            true => table.with_exact(),
            false => table,
        })))
    }

    /// Returns a table of documents. If the rollup lacks a requirement, the error names it.
    pub(super) fn documents(
        &self,
        rollup: &Rollup,
        form: Form,
    ) -> Result<Option<Arc<dyn TableProvider>>> {
        let (snapshot, tiles) = (&self.inner.snapshot, &self.inner.tiles);
        let (rollup, peers) = self.of_all(rollup)?;
        let table = DocumentTable::new(form, snapshot, &rollup, tiles, &peers)?;
        Ok(Some(Arc::new(table)))
    }
}
