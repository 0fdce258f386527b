//! The tables of `system`, of this store alone or of several.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema};
use datafusion::common::{Column, Result};
use datafusion::datasource::TableProvider;
use datafusion::datasource::empty::EmptyTable;
use datafusion::logical_expr::{Expr, lit};
use storage::TIME;

use super::{Hidden, TablesOf};
use crate::tables::stream;
use crate::tables::system;

impl TablesOf {
    pub(super) fn system(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        let inner = &self.inner;
        if !inner.system_tables().any(|table| table == name) {
            return Ok(None);
        }
        let own = match name {
            "quarantine" => Some(self.own_quarantine()?),
            name => self.own_system(name)?,
        };
        match (own, &inner.shards) {
            (Some(own), Some(shards)) if system::is_of_store(name) => {
                shards.system(name, own, self.is_seen(name)).map(Some)
            }
            (own, _) => Ok(own),
        }
    }

    fn own_system(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        let inner = &self.inner;
        let view = system::SystemInputs {
            snapshot: &inner.snapshot,
            system: &*inner.system,
            rollups: &inner.rollups,
            queries: &inner.queries,
            heads: &inner.files.heads,
            viewer: &inner.client.viewer,
        };
        system::table(name, &view)
    }

    fn own_quarantine(&self) -> Result<Arc<dyn TableProvider>> {
        let table = self.own_stream(&system::quarantine())?;
        let none = || Arc::new(EmptyTable::new(no_quarantine(self.inner.hidden)));
        Ok(table.unwrap_or_else(|| none()))
    }

    /// Returns the condition on the rows of a table that the client sees; `None` if it sees all.
    fn is_seen(&self, table: &str) -> Option<Expr> {
        let inner = &self.inner;
        let column = match inner.client.viewer.sees_all() {
            true => None,
            false => system::owner_column(table),
        }?;
        let names: Vec<Expr> = match table {
            "tiles" => inner.rollups().map(|r| lit(r.meta.name.as_str())).collect(),
            _ => inner.streams().map(|name| lit(name.as_str())).collect(),
        };
        Some(Expr::Column(Column::from_name(column)).in_list(names, false))
    }
}

/// Returns the main columns of the quarantine, for a store in which nothing was quarantined yet.
fn no_quarantine(hidden: Hidden) -> Arc<Schema> {
    let text = |name: &str| Field::new(name, DataType::Utf8View, true);
    let int = |name: &str| Field::new(name, DataType::Int64, true);
    let mut columns = vec![
        text("_id"),
        Field::new(TIME, storage::ColumnType::Time.arrow(), false),
        text("stream"),
        text("reason"),
        text("detail"),
        text("source"),
        int("item"),
        int("line"),
        int("byte"),
        Field::new("raw", DataType::Binary, true),
        text(stream::STATE),
    ];
    if hidden.seq {
        columns.push(Field::new(storage::SEQ, DataType::UInt64, false));
    }
    Arc::new(Schema::new(columns))
}
