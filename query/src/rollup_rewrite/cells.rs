//! Expressions that have one value for all events of a cell: made of a rollup's keys, and of `time`
//! where a whole bucket gives one value.

use std::collections::HashMap;
use std::sync::Arc;

use aggregator::{Definition, Level};
use arrow::array::{
    ArrayRef, DynComparator, RecordBatch, TimestampMicrosecondArray, make_comparator,
};
use arrow::compute::SortOptions;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::execution::context::ExecutionProps;
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{BinaryExpr, Expr, cast};
use datafusion::physical_expr::create_physical_expr;
use storage::TIME;

use crate::stream::prune::TimeRange;
use crate::stream::source::{is_comparison, plain};

/// Buckets of a level that are tried before it is given up for a question.
const BUCKETS_TRIED: usize = 50_000;
/// Instants of a bucket that are tried, but for its last one.
const INSTANTS: i64 = 8;

/// The keys of a rollup that are columns of its stream.
pub(super) struct Keys {
    /// By name, the types of the stream's column and of the rollup's.
    types: HashMap<String, (DataType, DataType)>,
}

impl Keys {
    /// The keys of a definition that hold exactly what the stream's column holds.
    pub(super) fn of(definition: &Definition, stream: &Schema) -> Self {
        let keys = definition.by().iter().filter(|key| key.expr.is_none());
        let types = keys.filter_map(|key| {
            let stored = stream.field_with_name(&key.name).ok()?.data_type();
            let own = key.key_type.arrow();
            let is_text = |t: &DataType| matches!(t, DataType::Utf8 | DataType::Utf8View);
            let same = *stored == own || (is_text(stored) && is_text(&own));
            same.then(|| (key.name.clone(), (stored.clone(), own)))
        });
        Self {
            types: types.collect(),
        }
    }

    /// Whether an expression over the stream's columns needs no others than keys and `time`.
    pub(super) fn are_enough_for(&self, expr: &Expr) -> bool {
        let columns = expr.column_refs();
        columns
            .iter()
            .all(|c| c.name == TIME || self.types.contains_key(&c.name))
    }

    /// Whether it needs some key.
    pub(super) fn are_needed_for(&self, expr: &Expr) -> bool {
        expr.column_refs().iter().any(|c| c.name != TIME)
    }

    /// Whether a key holds integers.
    pub(super) fn is_integer(&self, key: &str) -> bool {
        let types = self.types.get(key);
        types.is_some_and(|(stored, _)| stored.is_integer())
    }

    /// The same expression over the columns of a level.
    pub(super) fn over_level(&self, expr: &Expr) -> datafusion::common::Result<Expr> {
        let over = expr.clone().transform_down(|e| {
            // Where a key is compared with constants these take its type: such a comparison can be
            // pushed into the reading of the level.
            if let Some(compared) = self.compared(&e) {
                return Ok(Transformed::new(compared, true, TreeNodeRecursion::Jump));
            }
            Ok(match e {
                Expr::Column(column) if column.name == TIME => Transformed::yes(plain("bucket")),
                Expr::Column(column) => {
                    let (stored, own) = &self.types[&column.name];
                    let key = plain(&column.name);
                    Transformed::new(
                        if stored == own {
                            key
                        } else {
                            cast(key, stored.clone())
                        },
                        true,
                        TreeNodeRecursion::Jump,
                    )
                }
                other => Transformed::no(other),
            })
        });
        Ok(over?.data)
    }

    fn compared(&self, expr: &Expr) -> Option<Expr> {
        let key = |expr: &Expr| match expr {
            Expr::Column(column) => {
                let (_, own) = self.types.get(&column.name)?;
                Some((plain(&column.name), own.clone()))
            }
            _ => None,
        };
        let constant = |expr: &Expr, own: &DataType| match expr {
            Expr::Literal(value, _) => {
                let text = value.try_as_str().flatten()?;
                (*own == DataType::Utf8)
                    .then(|| Expr::Literal(ScalarValue::Utf8(Some(text.to_owned())), None))
            }
            _ => None,
        };
        match expr {
            Expr::BinaryExpr(BinaryExpr { left, op, right }) if is_comparison(*op) => {
                let (left, right) = if let Some((column, own)) = key(left) {
                    (column, constant(right, &own)?)
                } else {
                    let (column, own) = key(right)?;
                    (constant(left, &own)?, column)
                };
                Some(Expr::BinaryExpr(BinaryExpr::new(
                    Box::new(left),
                    *op,
                    Box::new(right),
                )))
            }
            Expr::InList(list) => {
                let (column, own) = key(&list.expr)?;
                let values = list.list.iter().map(|value| constant(value, &own));
                Some(Expr::InList(InList::new(
                    Box::new(column),
                    values.collect::<Option<_>>()?,
                    list.negated,
                )))
            }
            Expr::IsNull(inner) => Some(Expr::IsNull(Box::new(key(inner)?.0))),
            Expr::IsNotNull(inner) => Some(Expr::IsNotNull(Box::new(key(inner)?.0))),
            _ => None,
        }
    }
}

/// The largest parts of an expression that depend on `time` alone.
pub(super) fn parts_of_time(expr: &Expr, parts: &mut Vec<Expr>) {
    let columns = expr.column_refs();
    if columns.iter().any(|c| c.name == TIME) && columns.iter().all(|c| c.name == TIME) {
        if !parts.contains(expr) {
            parts.push(expr.clone());
        }
        return;
    }
    let walked = expr.apply_children(|child| {
        parts_of_time(child, parts);
        Ok(TreeNodeRecursion::Continue)
    });
    walked.expect("BUG: walking does not fail");
}

/// Whether each of these expressions over `time` has one value in every bucket of a level that meets the
/// range.
pub(super) fn are_constant(
    parts: &[Expr],
    definition: &Definition,
    level: Level,
    range: TimeRange,
) -> bool {
    let unknown: Vec<&Expr> = {
        let mut unknown = Vec::new();
        for part in parts {
            match truncates(part, definition, level) {
                Some(true) => {}
                Some(false) => return false,
                None => unknown.push(part),
            }
        }
        unknown
    };
    unknown.is_empty()
        || probes(definition, level, range, INSTANTS).is_some_and(|probes| {
            unknown
                .iter()
                .all(|part| probes.agree(part).unwrap_or(false))
        })
}

/// Whether an expression over `time` has another value in each bucket of a level that meets the range; it is
/// known to have one in each.
pub(super) fn tells_apart(
    expr: &Expr,
    definition: &Definition,
    level: Level,
    range: TimeRange,
) -> bool {
    let columns = expr.column_refs();
    if columns.is_empty() || columns.iter().any(|c| c.name != TIME) {
        return false;
    }
    match truncated_to(expr, definition) {
        Some(to) => to == level,
        None => probes(definition, level, range, 0)
            .is_some_and(|probes| probes.rise(expr).unwrap_or(false)),
    }
}

/// The level to which `date_trunc` in UTC cuts, for a rollup in UTC.
fn truncated_to(expr: &Expr, definition: &Definition) -> Option<Level> {
    match unit_of(expr, definition)?.as_str() {
        "minute" => Some(Level::Minute),
        "hour" => Some(Level::Hour),
        "day" => Some(Level::Day),
        "month" => Some(Level::Month),
        "year" => Some(Level::Year),
        _ => None,
    }
}

/// What is known without trying: `date_trunc` in UTC against the levels of a rollup in UTC.
fn truncates(part: &Expr, definition: &Definition, level: Level) -> Option<bool> {
    Some(match unit_of(part, definition)?.as_str() {
        "minute" => level == Level::Minute,
        "hour" => level <= Level::Hour,
        "day" => level <= Level::Day,
        "month" | "quarter" | "year" if level <= Level::Day => true,
        "month" | "quarter" => level == Level::Month,
        "year" => matches!(level, Level::Month | Level::Year),
        _ => return None,
    })
}

/// The unit of `date_trunc` in UTC, for a rollup in UTC.
fn unit_of(expr: &Expr, definition: &Definition) -> Option<String> {
    let Expr::ScalarFunction(call) = expr else {
        return None;
    };
    let [Expr::Literal(unit, _), Expr::Column(_)] = call.args.as_slice() else {
        return None;
    };
    if call.func.name() != "date_trunc" || definition.timezone() != chrono_tz::UTC {
        return None;
    }
    Some(unit.try_as_str().flatten()?.to_ascii_lowercase())
}

/// Instants of the buckets of a level in a range: of each the first, and maybe the last and some between.
struct Probes {
    schema: SchemaRef,
    times: RecordBatch,
    /// How many instants belong to one bucket.
    each: usize,
}

/// Of each bucket the first instant, and unless `more` is 0 so many, and the last.
fn probes(definition: &Definition, level: Level, range: TimeRange, more: i64) -> Option<Probes> {
    if range.first == i64::MIN || range.last == i64::MAX {
        return None;
    }
    let calendar = definition.calendar();
    let mut times = Vec::new();
    let mut at_us = range.first;
    let mut buckets = 0;
    while at_us <= range.last {
        let bucket = calendar.bucket(level, at_us);
        if bucket.end_us <= at_us || buckets == BUCKETS_TRIED {
            return None;
        }
        let width = bucket.end_us - bucket.start_us;
        times.push(bucket.start_us);
        if more > 0 {
            times.extend((1..more).map(|nth| bucket.start_us + width / more * nth));
            times.push(bucket.end_us - 1);
        }
        at_us = bucket.end_us;
        buckets += 1;
    }
    let times: ArrayRef = Arc::new(TimestampMicrosecondArray::from(times).with_timezone("UTC"));
    let schema = Arc::new(Schema::new(vec![Field::new(
        TIME,
        times.data_type().clone(),
        false,
    )]));
    Some(Probes {
        times: RecordBatch::try_new(Arc::clone(&schema), vec![times]).ok()?,
        schema,
        each: if more > 0 { more as usize + 1 } else { 1 },
    })
}

impl Probes {
    /// Whether an expression has one value for all instants of each bucket.
    fn agree(&self, expr: &Expr) -> datafusion::common::Result<bool> {
        let compare = self.compare(expr)?;
        let firsts = (0..self.times.num_rows()).step_by(self.each);
        Ok(firsts
            .flat_map(|first| (first + 1..first + self.each).map(move |other| (first, other)))
            .all(|(first, other)| compare(first, other).is_eq()))
    }

    /// Whether it grows from each instant to the next.
    fn rise(&self, expr: &Expr) -> datafusion::common::Result<bool> {
        let compare = self.compare(expr)?;
        Ok((1..self.times.num_rows()).all(|nth| compare(nth - 1, nth).is_lt()))
    }

    /// Compares the values of an expression at two instants.
    fn compare(&self, expr: &Expr) -> datafusion::common::Result<DynComparator> {
        let schema = DFSchema::try_from(Arc::clone(&self.schema))?;
        let compiled = create_physical_expr(
            expr,
            &schema,
            &ExecutionProps::new(),
            &PhysicalPlanningContext::default(),
        )?;
        let rows = self.times.num_rows();
        let values = compiled.evaluate(&self.times)?.into_array(rows)?;
        Ok(make_comparator(&values, &values, SortOptions::default())?)
    }
}
