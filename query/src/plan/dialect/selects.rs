//! Names of columns, and subqueries that never have a row.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    ArrayElemTypeDef, CastKind, DataType as SqlType, Expr, FunctionArguments, Ident, JoinOperator,
    OrderByKind, Query, Select, SelectItem, SelectItemQualifiedWildcardKind, SetExpr, TableFactor,
    Value, Visit, VisitMut, Visitor, VisitorMut,
};

use super::expressions::{is_aggregate, reference_type};
use super::parts;
use crate::postgres::tables::PG_CATALOG;
use crate::postgres::{functions, tables};

/// Rewrites selects over `pg_catalog`, or of functions of PostgreSQL's clients.
pub(super) struct Selects;

impl VisitorMut for Selects {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        name_ordered_casts(query);
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        for item in select.projection.iter_mut().filter_map(super::column) {
            let _: ControlFlow<()> = VisitMut::visit(item, &mut NoSubqueries { all: false });
        }
        if is_always_empty(select) {
            for item in select.projection.iter_mut().filter_map(super::column) {
                let _: ControlFlow<()> = VisitMut::visit(item, &mut NoSubqueries { all: true });
            }
        }
        let numbers = numbers(select);
        if !numbers.is_empty() {
            let _: ControlFlow<()> = VisitMut::visit(select, &mut TableNumbers(numbers));
        }
        let over_catalog = tables_of(select).any(is_of_catalog);
        let (mut seen, mut repeated) = (HashMap::<String, usize>::new(), HashMap::new());
        let wildcards = wildcards(select);
        for item in &mut select.projection {
            let SelectItem::UnnamedExpr(expr) = item else {
                continue;
            };
            if let Expr::CompoundIdentifier(names) = expr
                && let [table, column] = names.as_slice()
                && wildcards.contains(&super::normal(table))
            {
                seen.insert(super::normal(column), 1);
            }
            let Some(name) = column_name(expr, over_catalog, &wildcards) else {
                if let Some(name) = name_again(expr, &mut repeated) {
                    *item = SelectItem::ExprWithAlias {
                        expr: expr.clone(),
                        alias: Ident::with_quote('"', name),
                    };
                }
                continue;
            };
            let count = seen.entry(name.clone()).or_default();
            *count += 1;
            let name = match count {
                1 => name,
                // Columns of one name are an error of the planner.
                more => format!("{name}:{more}"),
            };
            *item = SelectItem::ExprWithAlias {
                expr: expr.clone(),
                alias: Ident::with_quote('"', name),
            };
        }
        ControlFlow::Continue(())
    }
}

/// Returns the tables that a select joins so that it has no row where one of them has none.
fn inner_tables(select: &Select) -> impl Iterator<Item = &TableFactor> {
    select.from.iter().flat_map(|from| {
        let joined = from.joins.iter().filter(|join| {
            matches!(
                join.join_operator,
                JoinOperator::Join(_) | JoinOperator::Inner(_) | JoinOperator::CrossJoin(_)
            )
        });
        std::iter::once(&from.relation).chain(joined.map(|join| &join.relation))
    })
}

/// Returns all tables of a select.
pub(super) fn tables_of(select: &Select) -> impl Iterator<Item = &TableFactor> {
    select.from.iter().flat_map(|from| {
        std::iter::once(&from.relation).chain(from.joins.iter().map(|join| &join.relation))
    })
}

/// Returns the name of a table of `pg_catalog`.
fn catalog_name(factor: &TableFactor) -> Option<String> {
    let TableFactor::Table {
        name, args: None, ..
    } = factor
    else {
        return None;
    };
    match parts(name)?.as_slice() {
        [schema, table] if schema == PG_CATALOG => Some(table.clone()),
        _ => None,
    }
}

/// Returns whether a table is one of `pg_catalog`.
pub(super) fn is_of_catalog(factor: &TableFactor) -> bool {
    catalog_name(factor).is_some()
}

/// Returns whether a table of `pg_catalog` that never has a row leaves the select without any.
fn is_always_empty(select: &Select) -> bool {
    // An outer join may keep rows of the other side.
    let is_outer = |select: &Select| {
        let joins = select.from.iter().flat_map(|from| &from.joins);
        let mut operators = joins.map(|join| &join.join_operator);
        operators.any(|operator| {
            matches!(
                operator,
                JoinOperator::Right(_) | JoinOperator::RightOuter(_) | JoinOperator::FullOuter(_)
            )
        })
    };
    let mut names = inner_tables(select).filter_map(catalog_name);
    !is_outer(select) && names.any(|name| tables::is_always_empty(&name))
}

/// Replaces subqueries by nulls: all, or those that have no row.
struct NoSubqueries {
    all: bool,
}

impl VisitorMut for NoSubqueries {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        let has_no_row = |query: &Query| {
            let mut query = query.clone();
            let select = super::plain_select(&mut query);
            select.is_some_and(|select| is_always_empty(select) && !is_aggregate(select))
        };
        match expr {
            Expr::Subquery(query) if self.all || has_no_row(query) => {
                *expr = Expr::Value(Value::Null.into());
            }
            Expr::Function(call)
                if self.all && matches!(call.args, FunctionArguments::Subquery(_)) =>
            {
                let texts = ArrayElemTypeDef::SquareBracket(Box::new(SqlType::Text), None);
                *expr = Expr::Cast {
                    kind: CastKind::Cast,
                    expr: Box::new(Expr::Value(Value::Null.into())),
                    data_type: SqlType::Array(texts),
                    array: false,
                    format: None,
                };
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

/// Returns the names with which `*` selects all columns of one table.
fn wildcards(select: &Select) -> BTreeSet<String> {
    let names = select.projection.iter().filter_map(|item| match item {
        SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), _) => {
            parts(name)?.pop()
        }
        _ => None,
    });
    names.collect()
}

/// Returns the numbers of the tables of `pg_catalog` by the names that they have in a select.
fn numbers(select: &Select) -> BTreeMap<String, u32> {
    let numbers = tables_of(select).filter_map(|factor| {
        let name = catalog_name(factor)?;
        let oid = tables::named(PG_CATALOG, &name)?.oid;
        let TableFactor::Table {
            alias: Some(alias), ..
        } = factor
        else {
            return Some((name, oid));
        };
        Some((super::normal(&alias.name), oid))
    });
    numbers.collect()
}

/// Replaces `x.tableoid`.
struct TableNumbers(BTreeMap<String, u32>);

impl VisitorMut for TableNumbers {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::CompoundIdentifier(names) = expr
            && let [table, column] = names.as_slice()
            && column.value.eq_ignore_ascii_case("tableoid")
            && let Some(oid) = self.0.get(&super::normal(table))
        {
            *expr = Expr::Value(Value::Number(oid.to_string(), false).into());
        }
        ControlFlow::Continue(())
    }
}

/// Returns what a cast is of, and its column if it is one of a column.
fn cast_of(expr: &Expr) -> (&Expr, Option<String>) {
    let mut inner = expr;
    while let Expr::Cast { expr, .. }
    | Expr::Nested(expr)
    | Expr::AtTimeZone {
        timestamp: expr, ..
    } = inner
    {
        inner = expr;
    }
    let column = match inner {
        Expr::Identifier(column) => Some(super::normal(column)),
        Expr::CompoundIdentifier(names) => names.last().map(super::normal),
        _ => None,
    };
    (inner, column)
}

/// Returns a name for an expression that is repeated: DataFusion refuses two columns of one name.
/// It names a cast after its column. `earlier` counts the expressions of one name.
fn name_again(expr: &Expr, earlier: &mut HashMap<String, usize>) -> Option<String> {
    let (inner, column) = cast_of(expr);
    let name = column.unwrap_or_else(|| inner.to_string());
    // Columns of one name of two tables are told apart by their tables.
    let is_plain = matches!(expr, Expr::CompoundIdentifier(_));
    let key = if is_plain {
        expr.to_string()
    } else {
        name.clone()
    };
    let count = earlier.entry(key).or_insert(0_usize);
    *count += 1;
    (*count > 1).then(|| format!("{name}:{count}"))
}

/// Names a cast after its column where the query is ordered by that name: it means the cast, as in
/// PostgreSQL, and DataFusion takes the column, beside which the cast may not stand. Inside an
/// expression the name means the column, in HAVING too, but DataFusion would take the cast:
/// then the cast stays without a name.
fn name_ordered_casts(query: &mut Query) {
    let Some(OrderByKind::Expressions(order)) = query.order_by.as_ref().map(|order| &order.kind)
    else {
        return;
    };
    let mut ordered: BTreeSet<String> = BTreeSet::new();
    let mut inside = Identifiers::default();
    for item in order {
        match &item.expr {
            Expr::Identifier(name) => {
                ordered.insert(super::normal(name));
            }
            other => {
                let _: ControlFlow<()> = Visit::visit(other, &mut inside);
            }
        }
    }
    let SetExpr::Select(select) = &mut *query.body else {
        return;
    };
    for condition in [&select.having, &select.qualify].into_iter().flatten() {
        let _: ControlFlow<()> = Visit::visit(condition, &mut inside);
    }
    for item in &mut select.projection {
        if let SelectItem::UnnamedExpr(expr) = item
            && let (inner, Some(column)) = cast_of(expr)
            && !std::ptr::eq(inner, expr)
            && ordered.contains(&column)
            && !inside.0.contains(&column)
        {
            *item = SelectItem::ExprWithAlias {
                expr: expr.clone(),
                alias: Ident::with_quote('"', column),
            };
        }
    }
}

/// The last parts of all names in an expression.
#[derive(Default)]
struct Identifiers(BTreeSet<String>);

impl Visitor for Identifiers {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        self.0.extend(match expr {
            Expr::Identifier(name) => Some(super::normal(name)),
            Expr::CompoundIdentifier(names) => names.last().map(super::normal),
            _ => None,
        });
        ControlFlow::Continue(())
    }
}

/// Returns the name that PostgreSQL gives to a column of an expression, where DataFusion's own name
/// would be that of a rewritten form, or where several columns would have it.
fn column_name(expr: &Expr, over_catalog: bool, wildcards: &BTreeSet<String>) -> Option<String> {
    match expr {
        Expr::Function(function) => {
            let name = parts(&function.name)?.pop()?;
            let is_array = matches!(function.args, FunctionArguments::Subquery(_));
            let is_ours = functions::is_known(&name) && name != "version";
            (is_ours || is_array || over_catalog).then_some(name)
        }
        Expr::Cast {
            expr, data_type, ..
        } => match (&**expr, reference_type(data_type)) {
            (Expr::Identifier(column), Some(_)) => Some(super::normal(column)),
            (Expr::CompoundIdentifier(names), Some(_)) => names.last().map(super::normal),
            (_, Some(of_type)) => Some(of_type.to_owned()),
            (inner, None) => column_name(inner, over_catalog, wildcards),
        },
        Expr::Nested(inner) | Expr::Collate { expr: inner, .. } => {
            column_name(inner, over_catalog, wildcards)
        }
        Expr::Case { .. } if over_catalog => Some("case".to_owned()),
        // `*` has the column too.
        Expr::CompoundIdentifier(names) => match names.as_slice() {
            [table, column] if wildcards.contains(&super::normal(table)) => {
                Some(super::normal(column))
            }
            _ => None,
        },
        Expr::Identifier(_) => None,
        _ if over_catalog => Some("?column?".to_owned()),
        _ => None,
    }
}
