//! Divides an aggregate: each store computes a part for each group, and the parts are merged.

use datafusion::common::Result;
use datafusion::execution::FunctionRegistry;
use datafusion::functions_aggregate::expr_fn::{count, sum};
use datafusion::logical_expr::expr::AggregateFunction;
use datafusion::logical_expr::{
    Aggregate, Expr, ExprFunctionExt, ExprSchemable, LogicalPlan, LogicalPlanBuilder, cast, lit,
    when,
};

use aggregator::EXACT_TYPE;

use crate::plan::checked_sums::{fits, label_of, mean};
use crate::tables::sharded::fragment::FragmentStep;
use crate::tables::stream::source::plain;

/// Functions of which the whole is the same function of its parts.
const OF_PARTS: [&str; 9] = [
    "min",
    "max",
    "bool_and",
    "bool_or",
    "bit_and",
    "bit_or",
    "bit_xor",
    "hist_merge",
    "distinct_merge",
];

/// An aggregate in parts.
#[derive(Debug)]
pub(super) struct Split {
    by: Vec<Expr>,
    /// The parts of all functions, as each store computes them.
    parts: Vec<Expr>,
    /// The merge of each part, by the name of its function.
    merges: Vec<&'static str>,
    finishes: Vec<Finish>,
}

/// Computation of a result from its merged parts.
#[derive(Debug)]
enum Finish {
    Same,
    /// A sum of integers, or an error with this label.
    Fits(String),
    /// 0 where no store had a row.
    Count,
    /// The first part divided by the second.
    Mean,
}

impl Split {
    /// Returns the parts of an aggregate of which a peer can compute all expressions; `None` if one
    /// of its functions has no parts.
    pub(super) fn of(aggregate: &Aggregate) -> Result<Option<Self>> {
        let by = aggregate.group_expr.iter().enumerate();
        let by = by.map(|(nth, expr)| expr.clone().unalias().alias(key_name(nth)));
        let mut split = Self {
            by: by.collect(),
            parts: Vec::new(),
            merges: Vec::new(),
            finishes: Vec::new(),
        };
        for expr in &aggregate.aggr_expr {
            let Expr::AggregateFunction(function) = expr.clone().unalias() else {
                return Ok(None);
            };
            if !split.add(&function, aggregate)? {
                return Ok(None);
            }
        }
        Ok(Some(split))
    }

    /// Adds a function. Returns false if it cannot be divided.
    fn add(&mut self, function: &AggregateFunction, aggregate: &Aggregate) -> Result<bool> {
        let params = &function.params;
        if params.distinct || !params.order_by.is_empty() || params.null_treatment.is_some() {
            return Ok(false);
        }
        let with = |part: Expr| match &params.filter {
            Some(filter) => part.filter((**filter).clone()).build(),
            None => Ok(part),
        };
        let schema = aggregate.input.schema();
        match (function.func.name(), params.args.as_slice()) {
            ("count", _) => {
                let part = Expr::AggregateFunction(function.clone());
                self.push(part, "sum", Finish::Count);
            }
            ("sum", [arg]) if arg.get_type(schema)?.is_signed_integer() => {
                let part = with(sum(cast(arg.clone(), EXACT_TYPE)))?;
                self.push(part, "sum", Finish::Fits(label_of(arg)));
            }
            // A sum of unsigned integers names its argument where it exceeds 64 bits: not a part.
            ("sum", [arg]) if arg.get_type(schema)?.is_unsigned_integer() => return Ok(false),
            ("sum", [arg]) if arg.get_type(schema)?.is_numeric() => {
                self.push(with(sum(arg.clone()))?, "sum", Finish::Same);
            }
            ("avg", [arg]) if arg.get_type(schema)?.is_floating() => {
                self.push(with(sum(arg.clone()))?, "sum", Finish::Mean);
                self.parts.push(with(count(arg.clone()))?);
                self.merges.push("sum");
            }
            (name, [_]) => match OF_PARTS.into_iter().find(|known| *known == name) {
                Some(name) => {
                    let part = Expr::AggregateFunction(function.clone());
                    self.push(part, name, Finish::Same);
                }
                None => return Ok(false),
            },
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn push(&mut self, part: Expr, merge: &'static str, finish: Finish) {
        self.parts.push(part);
        self.merges.push(merge);
        self.finishes.push(finish);
    }

    /// Returns the step that computes the parts.
    pub(super) fn step(&self) -> FragmentStep {
        let parts = self.parts.iter().enumerate();
        FragmentStep::Group {
            by: self.by.clone(),
            aggregates: parts
                .map(|(nth, part)| part.clone().alias(part_name(nth)))
                .collect(),
        }
    }

    /// Merges the parts in the rows of all stores to the columns of the aggregate.
    pub(super) fn finish(
        &self,
        aggregate: &Aggregate,
        rows: LogicalPlan,
        functions: &dyn FunctionRegistry,
    ) -> Result<LogicalPlan> {
        let keys = (0..self.by.len()).map(|nth| plain(&key_name(nth)));
        let merges = self.merges.iter().enumerate().map(|(nth, merge)| {
            let merge = functions.udaf(merge)?;
            let part = plain(&part_name(nth));
            Ok(merge.call(vec![part]).alias(part_name(nth)))
        });
        let merges = merges.collect::<Result<Vec<_>>>()?;
        let merged = LogicalPlanBuilder::from(rows).aggregate(keys.clone(), merges)?;
        let mut parts = (0..).map(|nth| plain(&part_name(nth)));
        let mut out: Vec<Expr> = keys.collect();
        for finish in &self.finishes {
            let mut part = || parts.next().expect("BUG: the parts do not end");
            out.push(match finish {
                Finish::Same => part(),
                Finish::Fits(label) => fits(part(), label),
                Finish::Count => {
                    let part = part();
                    when(part.clone().is_null(), lit(0_i64)).otherwise(part)?
                }
                Finish::Mean => mean(part(), part())?,
            });
        }
        let named = out.into_iter().zip(aggregate.schema.iter());
        let named = named.map(|(expr, (relation, field))| {
            let expr = match expr.get_type(merged.schema())? == *field.data_type() {
                true => expr,
                false => cast(expr, field.data_type().clone()),
            };
            Ok(expr.alias_qualified(relation.cloned(), field.name()))
        });
        let named = named.collect::<Result<Vec<_>>>()?;
        merged.project(named)?.build()
    }
}

fn key_name(nth: usize) -> String {
    format!("__key_{nth}")
}

fn part_name(nth: usize) -> String {
    format!("__part_{nth}")
}
