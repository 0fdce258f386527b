//! Statistics of the data that a query read, gathered from the plan after it ran.

use std::sync::Arc;

use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::metrics::{MetricValue, MetricsSet};

use crate::plan::top_k::NarrowedExec;
use crate::plan_node::PlanNode;
use crate::stats::{Count, OperatorTime, QueryStats, ScanProgress};
use crate::tables::level;
use crate::tables::sharded::peers_of;
use crate::tables::stream::chunks::is_chunks;
use crate::tables::stream::exec::{ROWS_EXAMINED, looked};
use crate::tables::stream::read::BYTES_READ;
use crate::tables::stream::slices::{self, SliceExec};

impl QueryStats {
    /// Adds up the metrics of a plan. `reads_tables` is true if the query names a table at all.
    pub(crate) fn gather(plan: &Arc<dyn ExecutionPlan>, reads_tables: bool) -> Self {
        let mut figures = Self::default();
        figures.add(&**plan);
        if figures.answered_by.is_empty() && reads_tables {
            figures.answered_by.push("manifest".to_owned());
        }
        figures
    }

    fn answered(&mut self, by: &str) {
        if !self.answered_by.iter().any(|known| known == by) {
            self.answered_by.push(by.to_owned());
        }
    }

    fn add(&mut self, plan: &dyn ExecutionPlan) {
        if let Some(narrowed) = PlanNode::<NarrowedExec>::of(plan) {
            self.add(&*narrowed.inputs[0]);
            let mut looked = Self::default();
            narrowed.inputs[1..]
                .iter()
                .for_each(|plan| looked.add(&**plan));
            self.look_before(&looked);
            return;
        }
        peers_of(plan).for_each(|peer| self.answered(&format!("peer {peer}")));
        for level in level::exec::looked(plan) {
            let peers = level.peers.iter();
            peers.for_each(|peer| self.answered(&format!("peer {peer}")));
            self.answered(&level.answered_by);
            self.partitions += level.partitions;
            self.parts += level.parts;
            self.row_groups += level.sections;
            self.rows_examined += level.cells;
            self.bytes_read += level.bytes;
        }
        if let Some(looked) = looked(plan) {
            looked.answered_by.iter().for_each(|by| self.answered(by));
            self.partitions += looked.partitions;
            self.parts += looked.parts;
        } else if let Some(metrics) = plan.metrics() {
            if is_chunks(plan) {
                self.rows_examined += sum(&metrics, ROWS_EXAMINED);
            } else if PlanNode::<SliceExec>::of(plan).is_some() {
                self.add_slices(&metrics);
            } else if plan.name() == "DataSourceExec" {
                self.add_parquet(&metrics);
            }
        }
        for child in plan.children() {
            self.add(&**child);
        }
    }

    /// Adds the statistics of the plans that narrowed this one, which read the same tables.
    fn look_before(&mut self, before: &Self) {
        before.answered_by.iter().for_each(|by| self.answered(by));
        for (count, before) in [
            (&mut self.partitions, before.partitions),
            (&mut self.parts, before.parts),
            (&mut self.row_groups, before.row_groups),
        ] {
            count.total = count.total.max(before.examined);
            count.examined = count.examined.max(before.examined);
        }
        self.pages += before.pages;
        self.rows_examined += before.rows_examined;
        self.bytes_read += before.bytes_read;
    }

    fn add_slices(&mut self, metrics: &MetricsSet) {
        let count = |[total, examined]: [&str; 2]| Count {
            total: sum(metrics, total),
            examined: sum(metrics, examined),
        };
        self.row_groups += count(slices::ROW_GROUPS);
        self.pages += count(slices::PAGES);
        self.rows_examined += sum(metrics, ROWS_EXAMINED);
        self.bytes_read += sum(metrics, BYTES_READ);
    }

    fn add_parquet(&mut self, metrics: &MetricsSet) {
        let groups = pruning(metrics, "row_groups_pruned_statistics");
        let blooms = pruning(metrics, "row_groups_pruned_bloom_filter");
        let limited = pruning(metrics, "limit_pruned_row_groups");
        let late = sum(metrics, "row_groups_pruned_dynamic_filter");
        self.row_groups.total += groups.0 + groups.1;
        self.row_groups.examined += groups.1.saturating_sub(blooms.0 + limited.0 + late);
        let pages = pruning(metrics, "page_index_pages_pruned");
        self.pages += Count {
            total: pages.0 + pages.1,
            examined: pages.1,
        };
        let filtered = sum(metrics, "pushdown_rows_pruned") + sum(metrics, "pushdown_rows_matched");
        let out = metrics.output_rows().unwrap_or(0) as u64;
        self.rows_examined += filtered.max(out);
        self.bytes_read += sum(metrics, BYTES_READ);
    }
}

impl ScanProgress {
    pub(crate) fn of(plan: &Arc<dyn ExecutionPlan>) -> Self {
        let figures = QueryStats::gather(plan, false);
        let (mut rows, mut files) = (0, 0);
        walk(&**plan, &mut |node| {
            rows += looked(node).map_or(0, |looked| looked.rows);
            let metrics = node.metrics();
            files += metrics.map_or(0, |metrics| sum(&metrics, slices::FILES));
        });
        let examined = figures.rows_examined;
        let share = examined as f64 / rows as f64;
        Self {
            partitions: figures.partitions,
            parts: Count {
                total: figures.parts.examined,
                // A large part is read in pieces.
                examined: figures.parts.examined.min(files),
            },
            rows_examined: examined,
            rows_total: rows,
            bytes_read: figures.bytes_read,
            percent: (rows > 0).then_some((share * 100.0).min(100.0)),
        }
    }
}

/// Returns the operators of a plan that took time.
pub(crate) fn operators(plan: &dyn ExecutionPlan) -> Vec<OperatorTime> {
    let mut operators: Vec<OperatorTime> = Vec::new();
    walk(plan, &mut |node| {
        let Some(metrics) = node.metrics() else {
            return;
        };
        // A scan of parts counts its decoding under this name.
        let decoding = sum(&metrics, "time_elapsed_processing");
        let ns = decoding + metrics.elapsed_compute().unwrap_or(0) as u64;
        let rows = metrics.output_rows().unwrap_or(0) as u64;
        if ns < 1000 {
            return;
        }
        let name = node.name();
        match operators.iter_mut().find(|known| known.operator == name) {
            Some(known) => {
                known.rows += rows;
                known.us += ns / 1000;
            }
            None => operators.push(OperatorTime {
                operator: name.to_owned(),
                rows,
                us: ns / 1000,
            }),
        }
    });
    operators.sort_by_key(|took| std::cmp::Reverse(took.us));
    operators
}

fn walk(node: &dyn ExecutionPlan, visit: &mut dyn FnMut(&dyn ExecutionPlan)) {
    visit(node);
    for child in node.children() {
        walk(&**child, visit);
    }
}

/// Returns the sum of a counter over partitions and files.
fn sum(metrics: &MetricsSet, name: &str) -> u64 {
    metrics
        .sum(|m| m.value().name() == name)
        .map_or(0, |v| v.as_usize() as u64)
}

/// Returns (pruned, matched), added up over partitions and files.
fn pruning(metrics: &MetricsSet, name: &str) -> (u64, u64) {
    let mut all = (0, 0);
    for metric in metrics.iter() {
        if let MetricValue::PruningMetrics {
            name: found,
            pruning_metrics,
        } = metric.value()
            && found == name
        {
            all.0 += pruning_metrics.pruned() as u64;
            all.1 += pruning_metrics.matched() as u64;
        }
    }
    all
}
