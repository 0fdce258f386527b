//! Passes the input of an operator on in portions that it processes quickly, and yields its
//! thread.
//!
//! A join compares each batch of its probe side with the whole other side before it yields its
//! thread: 8,192 rows with millions, for seconds in which the query cannot be stopped. The time
//! per row is not known in advance, so portions begin with one row, and grow and shrink with the
//! time that the last one took.
//!
//! An operator that keeps what it reads polls for more without yielding its thread, as long as
//! there is more. So every source of rows yields when enough time has passed, and a query can be
//! stopped then. A source of a query that is being stopped passes nothing on: what its operators
//! would make of it until they yield is memory that the query was stopped for.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use futures::{Stream, StreamExt};

use crate::functions;
use crate::plan_node::{NodeKind, PlanNode};
use crate::run::memory::Share;

/// A portion that takes longer than this was too large.
const SLOW: Duration = Duration::from_millis(10);
/// A portion that takes less than this may be larger.
const FAST: Duration = Duration::from_millis(4);
/// Rows of a whole batch.
const ROWS_MAX: usize = 8192;

/// Makes every operator yield its thread every few milliseconds. Operators that produce much from
/// one batch receive their input in portions, and their output for one portion counts as a step:
/// DataFusion counts steps, not time, and only where batches come from.
pub(crate) fn interruptible(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let interruptible = plan.transform_up(|node| {
        let probed = match node.name() {
            "HashJoinExec" | "NestedLoopJoinExec" | "CrossJoinExec" => 1,
            "UnnestExec" | "BoundedWindowAggExec" => 0,
            _ if node.children().is_empty() => {
                return Ok(Transformed::yes(Arc::new(YieldingExec::whole(node)) as _));
            }
            _ if node.children().len() < 2 && compares(&*node)? => 0,
            _ if node.children().len() < 2 => return Ok(Transformed::no(node)),
            _ => return Ok(Transformed::yes(Arc::new(CooperativeExec::new(node)) as _)),
        };
        let mut children: Vec<_> = node.children().into_iter().cloned().collect();
        children[probed] = Arc::new(YieldingExec::cut(Arc::clone(&children[probed])));
        // A child and its portions have the same properties.
        let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Keep);
        let node = node.replace_children(children, options)?;
        Ok(Transformed::yes(Arc::new(CooperativeExec::new(node)) as _))
    });
    Ok(interruptible?.data)
}

/// Returns whether a node calls functions that compare all of one argument with all of another:
/// the time that they take for a batch is not known in advance.
fn compares(node: &dyn ExecutionPlan) -> Result<bool> {
    let mut found = false;
    node.apply_expressions(&mut |root| {
        root.apply(|expr| {
            found |= functions::compares(expr);
            Ok(TreeNodeRecursion::Continue)
        })
    })?;
    Ok(found)
}

/// Passes its input on in portions, or batch by batch, and yields its thread now and then.
#[derive(Debug)]
pub(crate) struct YieldingExec {
    /// Rows of the first portion.
    rows: usize,
}

impl YieldingExec {
    /// Creates a node that cuts batches into portions, small at first.
    fn cut(input: Arc<dyn ExecutionPlan>) -> PlanNode<Self> {
        PlanNode::over(Self { rows: 1 }, input, [])
    }

    /// Creates a node that leaves batches whole.
    fn whole(input: Arc<dyn ExecutionPlan>) -> PlanNode<Self> {
        PlanNode::over(Self { rows: usize::MAX }, input, [])
    }
}

impl NodeKind for YieldingExec {
    const NAME: &'static str = "Portions";
    const PASSES_ROWS: bool = true;

    fn describe(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.rows {
            usize::MAX => write!(f, "Portions: batches"),
            _ => write!(f, "Portions"),
        }
    }
    fn execute(
        &self,
        node: &PlanNode<Self>,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let input = node.inputs[0].execute(partition, Arc::clone(&context))?;
        let share = Share::of(&context);
        Ok(Box::pin(YieldingStream::of(input, self.rows, share)))
    }
}

struct YieldingStream {
    input: SendableRecordBatchStream,
    /// Rest of the batch that is being passed on.
    rest: Option<RecordBatch>,
    /// Rows of the next portion.
    rows: usize,
    /// Time when the last portion was passed on.
    handed: Option<Instant>,
    /// Time when the first portion was passed on since the thread was last yielded.
    since: Option<Instant>,
    /// The query; `None` outside the engine.
    share: Option<Arc<Share>>,
    /// Clock: of the machine, except in tests.
    now: fn() -> Instant,
}

impl YieldingStream {
    fn of(input: SendableRecordBatchStream, rows: usize, share: Option<Arc<Share>>) -> Self {
        Self {
            share,
            input,
            rest: None,
            rows,
            handed: None,
            since: None,
            now: Instant::now,
        }
    }

    /// Sets the size of the next portion. Returns whether the thread was held for too long.
    fn measure(&mut self) -> bool {
        let Some(handed) = self.handed.take() else {
            return false;
        };
        let now = (self.now)();
        let took = now - handed;
        // Whole batches stay whole.
        if self.rows <= ROWS_MAX {
            if took > SLOW {
                self.rows = (self.rows / 2).max(1);
            } else if took < FAST {
                self.rows = (self.rows * 2).min(ROWS_MAX);
            }
        }
        self.since.is_some_and(|since| now - since > SLOW)
    }

    fn hand_over(&mut self, batch: RecordBatch) -> RecordBatch {
        let rows = self.rows.min(batch.num_rows());
        let left = batch.num_rows() - rows;
        self.rest = (left > 0).then(|| batch.slice(rows, left));
        let now = (self.now)();
        self.handed = Some(now);
        self.since.get_or_insert(now);
        batch.slice(0, rows)
    }
}

impl Stream for YieldingStream {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        if this.share.as_ref().is_some_and(|share| share.is_stopped()) {
            // Nothing wakes the task again: the answer fails with the reason, and drops the plan.
            return Poll::Pending;
        }
        if this.measure() {
            // The query can be stopped here.
            this.since = None;
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        if let Some(rest) = this.rest.take() {
            return Poll::Ready(Some(Ok(this.hand_over(rest))));
        }
        let next = this.input.poll_next_unpin(context);
        if next.is_pending() {
            this.since = None;
        }
        next.map_ok(|batch| this.hand_over(batch))
    }
}

impl RecordBatchStream for YieldingStream {
    fn schema(&self) -> SchemaRef {
        self.input.schema()
    }
}

#[cfg(test)]
mod tests;
