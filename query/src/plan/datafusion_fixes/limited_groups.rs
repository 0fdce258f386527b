//! Prevents groups from being left out that a limit above does not leave out.
//!
//! Where rows are ordered by a key of groups and limited, a rule keeps no more groups than rows.
//! From the sort it goes down to the groups through every operator that does not reduce the
//! number of rows, and follows the sort's column by its name. Its answers are wrong
//! * above the groups of a window function, whose values depend on all of them,
//! * where a projection gives the key's name to another value, as in
//!   `SELECT -k AS k FROM (SELECT k FROM t GROUP BY k) ORDER BY k LIMIT 3`.
//!
//! Nothing is proved either for the inputs of a union, subqueries, and groups below the groups.

use arrow::datatypes::Schema;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::execution_plan::CardinalityEffect;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;

/// The groups that the rule may reach from a sort.
#[derive(Clone, Copy)]
enum Proved<'a> {
    /// The groups with this column, which the rule follows by this name.
    Column(usize, &'a str),
    /// The groups of each partition, from which such groups are made.
    Partial,
    None,
}

/// Returns whether a node is a limited sort from which the rule may reach groups that are not
/// proved to be ordered by the sort's column.
pub(super) fn may_leave_groups_out(node: &dyn ExecutionPlan) -> bool {
    let sort = node.downcast_ref::<SortExec>();
    let Some(sort) = sort.filter(|sort| sort.fetch().is_some()) else {
        return false;
    };
    let key = sort.expr().first().expr.downcast_ref::<Column>();
    let proved = key.map_or(Proved::None, |key| Proved::Column(key.index(), key.name()));
    reaches_others(&**sort.input(), proved)
}

fn reaches_others(node: &dyn ExecutionPlan, proved: Proved<'_>) -> bool {
    let below = match node.downcast_ref::<AggregateExec>() {
        Some(groups) => match proved {
            Proved::Column(at, name) if is_alone(&groups.schema(), at, name) => {
                match groups.mode() {
                    AggregateMode::Final | AggregateMode::FinalPartitioned => Proved::Partial,
                    _ => Proved::None,
                }
            }
            Proved::Partial => Proved::None,
            Proved::Column(..) | Proved::None => return true,
        },
        None if is_passed(node) => proved,
        None => match (node.downcast_ref::<ProjectionExec>(), proved) {
            (Some(projection), Proved::Column(at, name)) => below(projection, at, name),
            _ => Proved::None,
        },
    };
    // The rule ends where a node may reduce the rows.
    let goes_on = node.is::<AggregateExec>()
        || matches!(
            node.cardinality_effect(),
            CardinalityEffect::Equal | CardinalityEffect::GreaterEqual
        );
    let mut children = node.children().into_iter();
    goes_on && children.any(|child| reaches_others(&**child, below))
}

/// Returns whether a node passes on the rows of its input, each with the same columns.
fn is_passed(node: &dyn ExecutionPlan) -> bool {
    node.is::<RepartitionExec>()
        || node.is::<CoalescePartitionsExec>()
        || node.is::<SortPreservingMergeExec>()
        || node.is::<SortExec>()
}

/// Returns what is proved below a projection: the rule replaces the name by that of each column
/// that has it there, one after the other.
fn below<'a>(projection: &'a ProjectionExec, at: usize, name: &'a str) -> Proved<'a> {
    let mut followed = name;
    for column in projection.expr() {
        if let Some(source) = column.expr.downcast_ref::<Column>()
            && column.alias == followed
        {
            followed = source.name();
        }
    }
    let source = projection.expr().get(at);
    match source.and_then(|column| column.expr.downcast_ref::<Column>()) {
        Some(source) => Proved::Column(source.index(), followed),
        None => Proved::None,
    }
}

/// Returns whether a name stands for a column, and for no other one.
fn is_alone(schema: &Schema, at: usize, name: &str) -> bool {
    let fields = schema.fields().iter().enumerate();
    let mut named = fields.filter(|(_, field)| field.name() == name);
    named.next().is_some_and(|(first, _)| first == at) && named.next().is_none()
}
