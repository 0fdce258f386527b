//! A question after binding: its columns and parameters are known, no rule has run.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use arrow::datatypes::{DataType, SchemaRef};
use datafusion::execution::SessionState;
use datafusion::logical_expr::LogicalPlan;

use super::rules;
use crate::error::{Error, Result};
use crate::tables::catalog::Catalog;

/// A question whose names are columns of its snapshot. Its parameters may have no values yet.
pub(crate) struct Bound {
    pub(super) logical: LogicalPlan,
    pub(super) state: SessionState,
    /// The state differs from that of other queries and is not pooled.
    pub(super) is_changed: bool,
    pub(super) catalog: Arc<Catalog>,
    pub(super) top_k: Option<bool>,
}

impl fmt::Debug for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bound").finish_non_exhaustive()
    }
}

impl Bound {
    /// Returns the columns of the answer. Binding alone does not know their types: the analyzer
    /// finds the one type of the branches of a CASE, and the sides of a UNION. It needs types for
    /// parameters too; where the question implies none, the types of binding remain.
    pub(crate) fn schema(&self) -> SchemaRef {
        let analyzed = rules::analyze(self.logical.clone(), &self.state);
        let analyzed = analyzed.as_ref().unwrap_or(&self.logical);
        Arc::clone(analyzed.schema().inner())
    }

    /// Returns the parameters by name (`$1`), each with its type if the question implies one.
    pub(crate) fn parameters(&self) -> Result<BTreeMap<String, Option<DataType>>> {
        let types = self.logical.get_parameter_types();
        let types = types.map_err(|e| Error::of(e, Vec::new))?;
        Ok(types.into_iter().collect())
    }
}
