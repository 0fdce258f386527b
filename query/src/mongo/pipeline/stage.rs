//! Stages that are understood.

use std::sync::Arc;

use super::{FieldsProjection, GroupSpec, UnwindSpec};
use crate::mongo::expression::Expression;
use crate::mongo::filter::Filter;
use crate::mongo::sort::Sort;

/// The stages of each facet, with its name.
pub(in crate::mongo) type FacetStages = Vec<(String, Vec<PipelineStage>)>;

/// A stage.
#[derive(Debug)]
pub(in crate::mongo) enum PipelineStage {
    /// `$match`
    Match(Arc<Filter>),
    /// `$project`, `$addFields`, `$set` or `$unset`.
    Project(Arc<FieldsProjection>),
    /// `$group`, or what stands for one: `$bucket`, `$sortByCount`.
    Group(Arc<GroupSpec>),
    /// `$sort`
    Sort(Arc<Sort>),
    /// `$limit`
    Limit(u64),
    /// `$skip`
    Skip(u64),
    /// `$unwind`
    Unwind(Arc<UnwindSpec>),
    /// `$count`, with the name of its field.
    Count(Arc<str>),
    /// `$replaceRoot` or `$replaceWith`
    ReplaceRoot(Arc<Expression>),
    /// `$facet`
    Facet(Arc<FacetStages>),
}
