//! The plan node above all sources of a stream. It reports in `EXPLAIN` and in the query's
//! statistics what was read.

use std::fmt;
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::stats::Precision;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::ExecutionPlan;

use super::dynamic_filters::has_its_columns;
use crate::plan_node::{NodeKind, PlanNode};
use crate::stats::Count;

/// Name of the counter of rows read from chunks, or of cells, before any filter.
pub(crate) const ROWS_EXAMINED: &str = "rows_examined";

/// Sources of a stream that are left after pruning by the manifest.
#[derive(Debug, Clone, Default)]
pub(crate) struct ScanStats {
    /// Name of the stream.
    pub(crate) table: String,
    /// Sources, such as `parts of access` and `memtable of access`.
    pub(crate) answered_by: Vec<String>,
    pub(crate) partitions: Count,
    pub(crate) parts: Count,
    /// Rows to read in parts and in the memtable.
    pub(crate) rows: u64,
}

/// Passes its input through, and reports the sources that are left after pruning.
#[derive(Debug)]
pub(crate) struct StreamScanExec(pub(crate) ScanStats);

impl NodeKind for StreamScanExec {
    const NAME: &'static str = "StreamScan";
    const PASSES_ROWS: bool = true;

    fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ScanStats {
            table,
            answered_by,
            partitions,
            parts,
            ..
        } = &self.0;
        write!(
            f,
            "StreamScan: {table}, answered_by=[{}], partitions={partitions}, parts={parts}",
            answered_by.join(", ")
        )
    }
    fn passes_filters(filters: &[Arc<dyn PhysicalExpr>]) -> Result<bool> {
        for filter in filters {
            if !has_its_columns(filter)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Returns the statistics of a stream scan; `None` for other plan nodes.
pub(crate) fn looked(plan: &dyn ExecutionPlan) -> Option<&ScanStats> {
    PlanNode::<StreamScanExec>::of(plan).map(|scan| &scan.kind.0)
}

/// Converts a number of rows to an exact statistic.
pub(crate) fn exact(rows: u64) -> Precision<usize> {
    usize::try_from(rows).map_or(Precision::Absent, Precision::Exact)
}
