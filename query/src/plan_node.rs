//! Base of our plan nodes. [`PlanNode`] answers DataFusion's optimizer, [`NodeKind`] has what is
//! a node's own: mostly its rows.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, Statistics, internal_err};
use datafusion::config::ConfigOptions;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::execution_plan::CardinalityEffect;
use datafusion::physical_plan::filter_pushdown::{
    ChildFilterDescription, ChildPushdownResult, FilterDescription, FilterPushdownPhase,
    FilterPushdownPropagation,
};
use datafusion::physical_plan::metrics::MetricsSet;
use datafusion::physical_plan::statistics::{ChildStats, StatisticsArgs};
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};

/// A plan node of one kind. A node without inputs is a source of rows. Other nodes have their
/// rows from the first input.
#[derive(Debug)]
pub(crate) struct PlanNode<K> {
    pub(crate) kind: Arc<K>,
    pub(crate) inputs: Vec<Arc<dyn ExecutionPlan>>,
    properties: Arc<PlanProperties>,
}

/// Behaviour in which a plan node differs from others.
pub(crate) trait NodeKind: fmt::Debug + Send + Sync + Sized + 'static {
    /// Name of the node in plans.
    const NAME: &'static str;
    /// The node returns every row of its input, in the same order. So the optimizer may move
    /// limits below the node, and inserts no repartitioning there.
    const PASSES_ROWS: bool = false;

    /// Writes the node's line in `EXPLAIN`.
    fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result;

    /// Returns the rows of a partition: by default those of the input.
    fn execute(
        &self,
        node: &PlanNode<Self>,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        node.inputs[0].execute(partition, context)
    }

    /// Derives the properties of the rows from those of the first input.
    fn properties(input: &Arc<dyn ExecutionPlan>) -> Arc<PlanProperties> {
        Arc::clone(input.properties())
    }

    fn metrics(&self) -> Option<MetricsSet> {
        None
    }

    /// Returns the statistics of a partition, or of all rows; `None` if nothing is known. `input`
    /// has the statistics of the first input.
    fn statistics(
        &self,
        input: Option<&Arc<Statistics>>,
        _partition: Option<usize>,
    ) -> Option<Arc<Statistics>> {
        input.filter(|_| Self::PASSES_ROWS).cloned()
    }

    /// Checks whether the first input may evaluate these filters, which stand above the node.
    fn passes_filters(_filters: &[Arc<dyn PhysicalExpr>]) -> Result<bool> {
        Ok(false)
    }

    /// Returns which filters above the node are superfluous: by default those that its inputs
    /// evaluate.
    fn evaluated(
        &self,
        filters: ChildPushdownResult,
    ) -> FilterPushdownPropagation<Arc<dyn ExecutionPlan>> {
        FilterPushdownPropagation::if_all(filters)
    }
}

impl<K: NodeKind> PlanNode<K> {
    /// Creates a node without inputs.
    pub(crate) fn source(kind: K, properties: PlanProperties) -> Self {
        Self {
            kind: Arc::new(kind),
            inputs: Vec::new(),
            properties: Arc::new(properties),
        }
    }

    /// Creates a node above an input. `others` are inputs that only plans show.
    pub(crate) fn over(
        kind: K,
        input: Arc<dyn ExecutionPlan>,
        others: impl IntoIterator<Item = Arc<dyn ExecutionPlan>>,
    ) -> Self {
        Self {
            kind: Arc::new(kind),
            properties: K::properties(&input),
            inputs: std::iter::once(input).chain(others).collect(),
        }
    }

    /// Returns the node behind a plan, if it is of this kind.
    pub(crate) fn of(plan: &dyn ExecutionPlan) -> Option<&Self> {
        (plan as &dyn Any).downcast_ref()
    }
}

impl<K: NodeKind> DisplayAs for PlanNode<K> {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.kind.describe(f)
    }
}

impl<K: NodeKind> ExecutionPlan for PlanNode<K> {
    fn name(&self) -> &'static str {
        K::NAME
    }
    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }
    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.inputs.iter().collect()
    }
    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }
    fn with_new_children(
        self: Arc<Self>,
        inputs: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let (name, expected, given) = (K::NAME, self.inputs.len(), inputs.len());
        if given != expected {
            return internal_err!("BUG: {name} has {expected} inputs and was given {given}");
        }
        Ok(match inputs.first() {
            None => self,
            Some(first) => Arc::new(Self {
                kind: Arc::clone(&self.kind),
                properties: K::properties(first),
                inputs,
            }),
        })
    }
    fn maintains_input_order(&self) -> Vec<bool> {
        vec![K::PASSES_ROWS; self.inputs.len()]
    }
    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![!K::PASSES_ROWS; self.inputs.len()]
    }
    fn supports_limit_pushdown(&self) -> bool {
        K::PASSES_ROWS
    }
    fn cardinality_effect(&self) -> CardinalityEffect {
        match K::PASSES_ROWS {
            true => CardinalityEffect::Equal,
            false => CardinalityEffect::Unknown,
        }
    }
    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        self.kind.execute(self, partition, context)
    }
    fn metrics(&self) -> Option<MetricsSet> {
        self.kind.metrics()
    }
    fn child_stats_requests(&self, partition: Option<usize>) -> Vec<ChildStats> {
        let mut requests = vec![ChildStats::Skip; self.inputs.len()];
        if let Some(first) = requests.first_mut() {
            *first = ChildStats::At(partition);
        }
        requests
    }
    fn statistics_from_inputs(
        &self,
        inputs: &[Arc<Statistics>],
        args: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        let known = self.kind.statistics(inputs.first(), args.partition());
        Ok(known.unwrap_or_else(|| Arc::new(Statistics::new_unknown(&self.schema()))))
    }
    fn gather_filters_for_pushdown(
        &self,
        _: FilterPushdownPhase,
        filters: Vec<Arc<dyn PhysicalExpr>>,
        _: &ConfigOptions,
    ) -> Result<FilterDescription> {
        if !K::passes_filters(&filters)? {
            return Ok(FilterDescription::all_unsupported(
                &filters,
                &self.children(),
            ));
        }
        let filters = ChildFilterDescription::from_child(&filters, &self.inputs[0])?;
        Ok(FilterDescription::new().with_child(filters))
    }
    fn handle_child_pushdown_result(
        &self,
        _: FilterPushdownPhase,
        filters: ChildPushdownResult,
        _: &ConfigOptions,
    ) -> Result<FilterPushdownPropagation<Arc<dyn ExecutionPlan>>> {
        Ok(self.kind.evaluated(filters))
    }
}
