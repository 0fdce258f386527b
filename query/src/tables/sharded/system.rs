//! A system table of several stores as one: the rows of each, with its server.

use std::sync::Arc;

use datafusion::common::{Column, Result};
use datafusion::datasource::{TableProvider, ViewTable, provider_as_source};
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, Union, lit};

use super::fragment::ReadHints;
use super::streams::{ShardedTable, Shards};

/// The column of the address of a row's server, the last one.
const SERVER: &str = "server";
/// The address of the server that is asked.
const OWN: &str = "this server";

impl Shards {
    /// Returns a table of the schema `system` with the rows of all stores, of which `own` has those
    /// of this one; only those that `is_seen` accepts.
    ///
    /// # Errors
    /// If a peer is gone whose rows would be missing.
    pub(crate) fn system(
        &self,
        name: &str,
        own: Arc<dyn TableProvider>,
        is_seen: Option<Expr>,
    ) -> Result<Arc<dyn TableProvider>> {
        self.check()?;
        let name = format!("system.{name}");
        let schema = own.schema();
        let mut all = vec![Arc::new(of_server(&name, own, OWN)?)];
        for peer in self.peers() {
            let rows = ShardedTable {
                name: name.clone(),
                schema: Arc::clone(&schema),
                own: None,
                peers: vec![Arc::clone(peer)],
                hints: ReadHints::default(),
            };
            all.push(Arc::new(of_server(&name, Arc::new(rows), peer.name())?));
        }
        let all = LogicalPlan::Union(Union::try_new(all)?);
        let all = match is_seen {
            Some(is_seen) => LogicalPlanBuilder::from(all).filter(is_seen)?.build()?,
            None => all,
        };
        Ok(Arc::new(ViewTable::new(all, None)))
    }
}

/// Returns the rows of a table with the address of their server.
fn of_server(name: &str, rows: Arc<dyn TableProvider>, server: &str) -> Result<LogicalPlan> {
    let schema = rows.schema();
    let columns = schema.fields().iter();
    let columns = columns.map(|field| Expr::Column(Column::from_name(field.name())));
    let columns = columns.chain([lit(server).alias(SERVER)]);
    let rows = LogicalPlanBuilder::scan(name, provider_as_source(rows), None)?;
    rows.project(columns)?.build()
}
