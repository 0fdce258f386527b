//! Groups of rows whose fields are columns, without a document for each row.
//!
//! A pipeline of projections and a group becomes shapes ([`FieldShape`]): the `_id` and the values
//! of a row are made of its columns, and the group is found by the `_id` in BSON.
//!
//! # Invariants
//! * The results are those of the documents of the rows, in the same order.
//! * Equal `_id`s have equal bytes: a value that has more than one spelling in BSON is not taken.
//!   The rows from there on are documents again, and the groups go on as those of a stage.

#[cfg(any(test, fuzzing))]
pub(in crate::mongo) mod documents;
mod function;
mod row;
mod shapes;
mod table;

use std::ops::Range;

use bson::raw::{RawBsonRef, cstr};

use self::function::{ColumnFunction, REMEMBERED_BYTES_MAX};
use self::row::{BoundRows, ShapedRow};
use self::shapes::{ColumnShape, ShapeColumns};
pub use self::table::GroupResults;
use self::table::GroupTable;
use super::group::{GroupSpec, GroupStage};
use super::{Pipeline, PipelineContext, PipelineRun, PipelineStage};
use crate::mongo::encoding::put_element;
use crate::mongo::error::Result;
use crate::mongo::expression::{FieldShape, ShapedFields, check_deadline};
use crate::mongo::size::check_value_bytes;

/// Rows whose fields are read one by one.
pub trait FieldRows {
    /// Returns the place of a field in all rows; `None` if it may be a document or an array in one
    /// of them.
    fn field(&self, name: &str) -> Option<FieldPlace>;

    /// Returns the value of a field in a row; `None` if it is missing there.
    fn value(&self, place: usize, row: usize) -> Option<RawBsonRef<'_>>;
}

/// The place of a field in rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldPlace {
    /// No row has it.
    Nowhere,
    /// [`FieldRows::value`] reads it here.
    At(usize),
}

/// `$group` at work on columns, with the projections before it.
#[derive(Debug)]
pub struct ColumnGroups<'a> {
    pipeline: &'a Pipeline,
    first_stage: usize,
    /// The stage of the group.
    stage: usize,
    group: &'a GroupSpec,
    context: PipelineContext,
    /// The names of the columns that are read.
    columns: Vec<String>,
    functions: Vec<ColumnFunction<'a>>,
    /// A buffer of the functions.
    key: Vec<u8>,
    by: ColumnShape,
    /// The values of the accumulators.
    values: Vec<ColumnShape>,
    table: GroupTable,
}

impl Pipeline {
    /// Starts the stages up to a group, over columns; `None` if they need documents. The pipeline
    /// has [`counted_inputs`](Self::counted_inputs), from `first_stage` on.
    pub fn start_columns(
        &self,
        first_stage: usize,
        context: &PipelineContext,
    ) -> Option<ColumnGroups<'_>> {
        let stages = self.stages.get(first_stage..)?;
        let mut fields = ShapedFields::unchanged();
        for (nth, stage) in stages.iter().enumerate() {
            match stage {
                PipelineStage::Project(projection) => projection.shape(&mut fields)?,
                PipelineStage::Group(group) => {
                    let place = (first_stage, first_stage + nth);
                    return ColumnGroups::new((self, place), group, fields, context);
                }
                _ => return None,
            }
        }
        None
    }
}

impl<'a> ColumnGroups<'a> {
    fn new(
        (pipeline, (first_stage, stage)): (&'a Pipeline, (usize, usize)),
        group: &'a GroupSpec,
        mut fields: ShapedFields<'a>,
        context: &PipelineContext,
    ) -> Option<Self> {
        if group.buckets.is_some() {
            return None;
        }
        let by = fields.expression(&group.by)?;
        let accumulators = group.fields.iter();
        let values = accumulators.map(|(_, of)| fields.expression(of.argument()));
        let values = values.collect::<Option<Vec<_>>>()?;
        let mut columns = ShapeColumns::default();
        let parts = fields.into_parts();
        for name in &parts.scalars {
            columns.column(name);
        }
        let bytes_max = REMEMBERED_BYTES_MAX / parts.functions.len().max(1);
        let functions = parts.functions.into_iter().map(|function| {
            let column = columns.column(&function.field);
            ColumnFunction::new(function, column, bytes_max)
        });
        let functions: Vec<_> = functions.collect();
        let by = columns.shape(by)?;
        let values = values.into_iter().map(|shape| match shape {
            FieldShape::Object(_) => None,
            shape => columns.shape(shape),
        });
        let values = values.collect::<Option<Vec<_>>>()?;
        // A function that is not evaluated cannot fail, as it does in a projection.
        if (0..functions.len()).any(|function| !columns.functions.contains(&function)) {
            return None;
        }
        let names = group.fields.iter().map(|(name, _)| name);
        Some(Self {
            table: GroupTable::new(names)?,
            pipeline,
            first_stage,
            stage,
            group,
            context: context.clone(),
            columns: columns.names,
            functions,
            key: Vec::new(),
            by,
            values,
        })
    }

    /// Takes rows that count several times each, or not at all. Returns the first row that it does
    /// not take: the end of the range, or a row that needs a document.
    ///
    /// # Errors
    /// As those of [`PipelineRun::push`].
    pub fn push(
        &mut self,
        rows: &impl FieldRows,
        range: Range<usize>,
        times: &[u64],
    ) -> Result<usize> {
        let places = self.columns.iter().map(|name| rows.field(name));
        let Some(places) = places.collect::<Option<Vec<_>>>() else {
            return Ok(range.start);
        };
        let rows = BoundRows { rows, places };
        if let Some(deadline) = self.context.expressions.deadline {
            check_deadline(deadline)?;
        }
        let mut id = Vec::new();
        for row in range.clone() {
            if times[row] == 0 {
                continue;
            }
            id.clear();
            if !self.put_id(&rows, row, &mut id)? {
                return Ok(row);
            }
            self.add(&rows, row, (&id, times[row]))?;
        }
        Ok(range.end)
    }

    /// Appends the element `_id` of a row; returns false if it may have other bytes too.
    fn put_id(
        &mut self,
        rows: &BoundRows<'_, impl FieldRows>,
        row: usize,
        out: &mut Vec<u8>,
    ) -> Result<bool> {
        let mut shaped = ShapedRow {
            rows,
            row,
            functions: &mut self.functions,
            key: &mut self.key,
            context: &self.context,
        };
        let name = cstr!("_id");
        if !shaped.put(&self.by, name, out)? {
            return Ok(false);
        }
        if out.is_empty() {
            put_element(out, name, RawBsonRef::Null);
        }
        check_value_bytes(out.len())?;
        Ok(true)
    }

    /// Adds the values of a row to the group of an `_id`.
    fn add(
        &mut self,
        rows: &BoundRows<'_, impl FieldRows>,
        row: usize,
        (id, times): (&[u8], u64),
    ) -> Result<()> {
        let accumulators = self.group.fields.iter().map(|(_, of)| of);
        let (place, bytes) = self.table.place(id, accumulators);
        self.table.keep(bytes, &self.context.kept)?;
        let mut shaped = ShapedRow {
            rows,
            row,
            functions: &mut self.functions,
            key: &mut self.key,
            context: &self.context,
        };
        for (nth, value) in self.values.iter().enumerate() {
            let value = shaped.value(value)?;
            let bytes = self.table.add((place, nth), value, times)?;
            self.table.keep(bytes, &self.context.kept)?;
        }
        Ok(())
    }

    /// Returns the bytes that the functions remember.
    #[cfg(test)]
    pub(in crate::mongo) fn remembered_bytes(&self) -> usize {
        let functions = self.functions.iter();
        functions.map(ColumnFunction::remembered_bytes).sum()
    }

    /// Ends the columns: the run takes documents, beside the groups that there are.
    ///
    /// # Errors
    /// 292 if the groups are too large as those of a stage.
    pub fn into_run(mut self) -> Result<PipelineRun> {
        let grown = self.table.release(&self.context.kept);
        let PipelineStage::Group(group) = &self.pipeline.stages[self.stage] else {
            unreachable!("BUG: it was a group");
        };
        let mut stage = GroupStage::new(group, &self.context);
        for (id, states) in self.table.into_groups() {
            stage.put(id, states)?;
        }
        stage.keep(grown)?;
        let stages = &self.pipeline.stages[self.first_stage..];
        let nth = self.stage - self.first_stage;
        Ok(PipelineRun::with_stage(stages, nth, stage, &self.context))
    }

    /// Returns the results of the group, and the stages behind it; `None` if there are none.
    pub fn finish(self) -> (GroupResults, Option<PipelineRun>) {
        let behind = self.stage + 1;
        let run = (behind < self.pipeline.stages.len())
            .then(|| self.pipeline.start(behind, &self.context));
        (self.table.finish(self.context.kept), run)
    }
}
