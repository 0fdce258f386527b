//! Tables of PostgreSQL's catalog schemas.

use std::sync::Arc;

use datafusion::catalog::information_schema::InformationSchemaProvider;
use datafusion::catalog::{MemoryCatalogProviderList, SchemaProvider};
use datafusion::common::Result;
use datafusion::datasource::{MemTable, TableProvider};
use futures::FutureExt;

use super::{SETTINGS, TablesOf};
use crate::postgres::tables::{self as postgres, CatalogInputs, INFORMATION_SCHEMA};

impl TablesOf {
    /// Returns a table of `pg_catalog` or `information_schema`.
    pub(super) fn own(&self, schema: &str, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        let inner = &self.inner;
        if (schema, name) == (INFORMATION_SCHEMA, SETTINGS) {
            let no_catalogs = Arc::new(MemoryCatalogProviderList::new());
            let settings = InformationSchemaProvider::new(no_catalogs);
            return settings.table(SETTINGS).now_or_never().unwrap_or(Ok(None));
        }
        let Some(table) = postgres::named(schema, name) else {
            return Ok(None);
        };
        let inputs = CatalogInputs {
            objects: &inner.objects(),
            session: &inner.client.session,
            queries: &inner.queries,
            functions: &inner.client.functions,
        };
        let rows = postgres::rows(table, &inputs)?;
        let table = MemTable::try_new(Arc::clone(&table.columns), vec![vec![rows]])?;
        Ok(Some(Arc::new(table)))
    }
}
