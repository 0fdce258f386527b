//! Builds the plan of an answer: the union of one piece for each level and for raw events,
//! merged.

use std::collections::BTreeSet;
use std::sync::Arc;

use aggregator::{EXACT_TYPE, Grain, Level};
use datafusion::catalog::TableProvider;
use datafusion::common::{DFSchema, Result, TableReference};
use datafusion::datasource::provider_as_source;
use datafusion::execution::FunctionRegistry;
use datafusion::logical_expr::{
    Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, Union, cast, when,
};
use storage::TIME;

use super::cells::{KeyColumns, tells_apart};
use super::cover::Piece;
use super::measures::{self, CellValue, Merged};
use super::{PIECES_MAX, Question};
use crate::tables::level::StreamRollups;
use crate::tables::level::{LevelTable, Rollup};
use crate::tables::stream::prune::TimeRange;
use crate::tables::stream::source;

/// A rollup's answer to a question: its pieces, and the columns that each piece has.
pub(super) struct Answer<'a> {
    pub(super) rollup: &'a Rollup,
    pub(super) levels: &'a StreamRollups,
    pub(super) keys: KeyColumns,
    pub(super) merged: Vec<Merged>,
    pub(super) pieces: Vec<Piece>,
}

impl Answer<'_> {
    /// Checks whether the answer can be planned: a level answers some piece, and raw events can
    /// answer the pieces that no level does.
    pub(super) fn is_possible(&self) -> bool {
        let of_level = |piece: &Piece| piece.level.is_some();
        let raw_can = |m: &Merged| m.partials.iter().all(|p| p.of_raw.is_some());
        self.pieces.len() <= PIECES_MAX
            && self.pieces.iter().any(of_level)
            && (self.merged.iter().all(raw_can) || self.pieces.iter().all(of_level))
    }

    pub(super) fn plan(
        &self,
        question: &Question<'_>,
        functions: &dyn FunctionRegistry,
    ) -> Result<LogicalPlan> {
        let pieces = self.pieces.iter().map(|piece| {
            let plan = match piece.level {
                Some(level) => self.of_level(question, level, piece.range),
                None => self.of_raw(question, piece.range),
            };
            plan.map(Arc::new)
        });
        let mut pieces = pieces.collect::<Result<Vec<_>>>()?;
        let all = match pieces.len() {
            1 => Arc::unwrap_or_clone(pieces.remove(0)),
            _ => LogicalPlan::Union(Union::try_new(pieces)?),
        };
        if self.rows_are_groups(question) {
            return self.finish(question, all, functions);
        }
        let group: Vec<Expr> = (0..question.group.len()).map(key).collect();
        let merges = self.partials().map(|(nth, partial)| {
            Ok(partial
                .merge
                .of(source::plain(&partial_name(nth)), functions)?
                .alias(partial_name(nth)))
        });
        let merges = merges.collect::<Result<Vec<_>>>()?;
        let merged = LogicalPlanBuilder::from(all)
            .aggregate(group, merges)?
            .build()?;
        self.finish(question, merged, functions)
    }

    /// Returns whether nothing is left to merge: there is one piece, and each of its rows is a
    /// group by itself.
    fn rows_are_groups(&self, question: &Question<'_>) -> bool {
        let [
            Piece {
                level: Some(level), ..
            },
        ] = self.pieces[..]
        else {
            return false;
        };
        let groups = question.group.iter();
        let alone: BTreeSet<&str> = groups
            .filter_map(|expr| match expr {
                Expr::Column(column) => Some(column.name.as_str()),
                _ => None,
            })
            .collect();
        let asked: BTreeSet<String> = self.of_cells(question).flat_map(names).collect();
        let keys_are = asked
            .iter()
            .all(|name| name == TIME || alone.contains(name.as_str()));
        let bucket_is = || {
            let mut groups = question.group.iter();
            groups.any(|e| tells_apart(e, &self.rollup.definition, level, question.events))
        };
        !question.group.is_empty() && keys_are && (!asked.contains(TIME) || bucket_is())
    }

    /// Returns the expressions that the query evaluates on cells, besides their measures.
    fn of_cells<'b>(&'b self, question: &'b Question<'_>) -> impl Iterator<Item = &'b Expr> {
        let filters = self.merged.iter().filter_map(|m| m.filter.as_ref());
        let values = self.partials().filter_map(|(_, p)| p.of_cell.over_keys());
        let predicates = question.source.predicates.iter();
        question
            .group
            .iter()
            .chain(predicates)
            .chain(filters)
            .chain(values)
    }

    /// Computes the result from the merged columns.
    fn finish(
        &self,
        question: &Question<'_>,
        merged: LogicalPlan,
        functions: &dyn FunctionRegistry,
    ) -> Result<LogicalPlan> {
        let mut out: Vec<Expr> = (0..question.group.len()).map(key).collect();
        let mut nth = 0;
        for merged in &self.merged {
            let columns =
                (nth..nth + merged.partials.len()).map(|n| source::plain(&partial_name(n)));
            out.push(merged.finish.of(&columns.collect::<Vec<_>>(), functions)?);
            nth += merged.partials.len();
        }
        let named = out.into_iter().zip(question.aggregate.schema.iter());
        let out = named.map(|(expr, (table, field))| {
            let given = expr.get_type(merged.schema())?;
            let expr = if given == *field.data_type() {
                expr
            } else {
                cast(expr, field.data_type().clone())
            };
            Ok(expr.alias_qualified(table.cloned(), field.name()))
        });
        let out = out.collect::<Result<Vec<_>>>()?;
        LogicalPlanBuilder::from(merged).project(out)?.build()
    }

    /// Returns the columns of every piece, with their numbers.
    fn partials(&self) -> impl Iterator<Item = (usize, &measures::Partial)> {
        self.merged.iter().flat_map(|m| &m.partials).enumerate()
    }

    /// Returns the types of the columns of every piece: first the groups, then the partials.
    fn types(&self, question: &Question<'_>) -> Vec<arrow::datatypes::DataType> {
        let fields = question.aggregate.schema.fields();
        let (groups, results) = fields.split_at(question.group.len());
        let groups = groups.iter().map(|field| field.data_type().clone());
        let merged = self.merged.iter().zip(results);
        let partials = merged.flat_map(|(merged, field)| {
            let own = merged.partials.iter();
            own.map(|p| {
                p.data_type
                    .clone()
                    .unwrap_or_else(|| field.data_type().clone())
            })
        });
        groups.chain(partials).collect()
    }

    fn named(
        &self,
        exprs: Vec<Expr>,
        schema: &DFSchema,
        question: &Question<'_>,
    ) -> Result<Vec<Expr>> {
        let groups = question.group.len();
        let typed = exprs.into_iter().zip(self.types(question)).enumerate();
        typed
            .map(|(nth, (expr, wanted))| {
                let name = match nth.checked_sub(groups) {
                    None => key_name(nth),
                    Some(nth) => partial_name(nth),
                };
                let expr = if expr.get_type(schema)? == wanted {
                    expr
                } else {
                    cast(expr, wanted)
                };
                Ok(expr.alias(name))
            })
            .collect()
    }

    /// Plans the piece of a level. Cells that the question does not distinguish are merged.
    fn of_level(
        &self,
        question: &Question<'_>,
        level: Level,
        range: TimeRange,
    ) -> Result<LogicalPlan> {
        let (snapshot, _) = question.source.table().of();
        let table = LevelTable::new(
            Arc::clone(snapshot),
            self.rollup.clone(),
            level,
            Arc::clone(&self.levels.tiles),
        )
        .with_exact();
        let level_schema = DFSchema::try_from(TableProvider::schema(&table))?;
        let predicates = question.source.predicates.iter();
        let predicates = predicates.map(|predicate| self.keys.over_level(predicate));
        let predicates = predicates.collect::<Result<Vec<_>>>()?;
        let (mut applied, others): (Vec<Expr>, Vec<Expr>) =
            predicates.into_iter().partition(|p| table.applies(p));
        applied.extend(range.filter(&"bucket".into()));
        let mut exprs = Vec::new();
        for group in &question.group {
            exprs.push(self.keys.over_level(group)?);
        }
        for merged in &self.merged {
            let filter = merged.filter.as_ref().map(|f| self.keys.over_level(f));
            let filter = filter.transpose()?;
            for partial in &merged.partials {
                let value = match &partial.of_cell {
                    CellValue::Measure(column) => source::plain(column),
                    CellValue::Keys(expr) => self.keys.over_level(expr)?,
                    CellValue::Times(expr, hits) => {
                        let expr = self.keys.over_level(expr)?;
                        let factor = match expr.get_type(&level_schema)? {
                            EXACT_TYPE => cast(source::plain(hits), EXACT_TYPE),
                            _ => source::plain(hits),
                        };
                        expr * factor
                    }
                };
                exprs.push(match &filter {
                    Some(filter) => when(filter.clone(), value).end()?,
                    None => value,
                });
            }
        }
        // The scan merges cells that differ in no requested column to one row.
        let asked: BTreeSet<String> = exprs.iter().chain(&others).flat_map(names).collect();
        let keys = self.rollup.definition.by().iter();
        let table = table.merged_to(Grain {
            buckets: asked.contains("bucket"),
            keys: keys.map(|key| asked.contains(&key.name)).collect(),
        });
        let schema = TableProvider::schema(&table);
        let columns = asked.iter().map(|name| schema.index_of(name));
        let columns = columns.collect::<std::result::Result<Vec<_>, _>>()?;
        let name = TableReference::partial(self.rollup.meta.name.as_str(), level.table());
        let table = provider_as_source(Arc::new(table));
        let mut plan = LogicalPlanBuilder::scan_with_filters(name, table, Some(columns), applied)?;
        for predicate in others {
            plan = plan.filter(predicate)?;
        }
        let exprs = self.named(exprs, plan.schema(), question)?;
        plan.project(exprs)?.build()
    }

    fn of_raw(&self, question: &Question<'_>, range: TimeRange) -> Result<LogicalPlan> {
        let rows = source::within(&question.aggregate.input, range)?;
        let groups = question.aggregate.group_expr.iter().enumerate();
        let groups: Vec<Expr> = groups
            .map(|(nth, expr)| expr.clone().unalias().alias(key_name(nth)))
            .collect();
        let partials = self
            .partials()
            .map(|(nth, partial)| {
                let of_raw = partial.of_raw.clone();
                of_raw
                    .expect("BUG: raw events give it, or are not asked")
                    .alias(partial_name(nth))
            })
            .collect::<Vec<_>>();
        let columns = (0..groups.len()).map(key);
        let columns =
            columns.chain((0..self.partials().count()).map(|n| source::plain(&partial_name(n))));
        let columns: Vec<Expr> = columns.collect();
        let plan = LogicalPlanBuilder::from(rows).aggregate(groups, partials)?;
        let exprs = self.named(columns, plan.schema(), question)?;
        plan.project(exprs)?.build()
    }
}

/// Prefix of the names of the columns that are merged.
pub(crate) const PARTIAL: &str = "__partial_";

fn key_name(nth: usize) -> String {
    format!("__key_{nth}")
}

fn key(nth: usize) -> Expr {
    source::plain(&key_name(nth))
}

fn partial_name(nth: usize) -> String {
    format!("{PARTIAL}{nth}")
}

/// Returns the names of the columns that an expression refers to.
fn names(expr: &Expr) -> impl Iterator<Item = String> + use<> {
    let columns = expr.column_refs().into_iter();
    let names: Vec<String> = columns.map(|column| column.name.clone()).collect();
    names.into_iter()
}
