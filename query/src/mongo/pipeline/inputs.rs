//! The fields on which the results of a pipeline depend.
//!
//! A pipeline of projections and a group whose accumulators do not mind the order gives the same
//! results for one document that counts several times as for these documents.
//!
//! # Invariants
//! * Documents without arrays whose fields of [`Pipeline::counted_inputs`] are equal, dates up to
//!   their grain, are in one group and change its accumulators in the same way.

use super::projection::{FieldNode, FieldTree};
use super::{FieldsProjection, Pipeline, PipelineStage, ProjectionMode};
use crate::mongo::expression::{DateGrain, FieldUses};

impl Pipeline {
    /// Returns the fields on which the results depend, if documents with equal ones can be counted
    /// as one; `None` if each document must be pushed. The stages before `first_stage` are left
    /// out.
    pub fn counted_inputs(&self, first_stage: usize) -> Option<FieldUses> {
        let stages = self.stages.get(first_stage..)?;
        let is_projection = |stage: &&PipelineStage| matches!(stage, PipelineStage::Project(_));
        let projections = stages.iter().take_while(is_projection).count();
        let mut uses = FieldUses::default();
        match stages.get(projections)? {
            PipelineStage::Count(_) => {}
            PipelineStage::Group(group) => {
                group.by.add_uses(&mut uses);
                for (_, accumulator) in &group.fields {
                    if !accumulator.counts_equal_values() {
                        return None;
                    }
                    accumulator.argument().add_uses(&mut uses);
                }
            }
            _ => return None,
        }
        for stage in stages[..projections].iter().rev() {
            if let PipelineStage::Project(projection) = stage {
                uses = projection.inputs(&uses)?;
            }
        }
        uses.fields().is_some().then_some(uses)
    }
}

impl FieldsProjection {
    /// Returns the fields on which those of its results depend, and whether it fails; `None` if
    /// these are all.
    fn inputs(&self, uses: &FieldUses) -> Option<FieldUses> {
        let mut inputs = FieldUses::default();
        // A value that nobody reads may have no result.
        add_computed(&self.fields, &mut inputs);
        for (path, grain) in uses.fields()? {
            let names: Vec<&str> = path.split('.').collect();
            self.add_inputs(&self.fields, &names, 0, *grain, &mut inputs);
        }
        Some(inputs)
    }

    /// Adds the fields that one of the results depends on. `fields` is the tree of the names from
    /// `depth` on.
    fn add_inputs(
        &self,
        fields: &FieldTree,
        names: &[&str],
        depth: usize,
        grain: DateGrain,
        inputs: &mut FieldUses,
    ) {
        let Some(name) = names.get(depth) else {
            return;
        };
        match fields.get(name) {
            None if self.mode == ProjectionMode::Inclusion => {}
            None => inputs.add(names.join("."), grain),
            Some(FieldNode::Named) if self.mode == ProjectionMode::Exclusion => {}
            Some(FieldNode::Named) => inputs.add(names.join("."), grain),
            Some(FieldNode::Compute(expression)) => expression.add_uses(inputs),
            Some(FieldNode::Inside(inside)) => {
                // It becomes an array or a document by the value that is there.
                inputs.add(names[..=depth].join("."), DateGrain::Exact);
                match depth + 1 < names.len() {
                    true => self.add_inputs(inside, names, depth + 1, grain, inputs),
                    false => add_computed(inside, inputs),
                }
            }
        }
    }
}

fn add_computed(fields: &FieldTree, inputs: &mut FieldUses) {
    for (_, node) in fields.iter() {
        match node {
            FieldNode::Named => {}
            FieldNode::Compute(expression) => expression.add_uses(inputs),
            FieldNode::Inside(inside) => add_computed(inside, inputs),
        }
    }
}
