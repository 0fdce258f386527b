//! Subqueries in SELECT that look one row up in `pg_catalog`, as left joins: they may compare in
//! ways that the planner knows for joins alone.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, Join, JoinConstraint, JoinOperator, Query, Select, SelectItem, TableFactor,
    TableWithJoins, VisitorMut,
};

use super::expressions::is_aggregate;
use super::selects::{is_of_catalog, tables_of};
use super::{column, normal, parts, plain_select};

/// Rewrites selects of one table or join over `pg_catalog`.
pub(super) struct Lookups;

impl VisitorMut for Lookups {
    type Break = ();

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        let is_grouped = matches!(
            &select.group_by,
            datafusion::sql::sqlparser::ast::GroupByExpr::Expressions(by, _) if by.is_empty()
        );
        if select.from.len() != 1 || !is_grouped || !tables_of(select).all(is_of_catalog) {
            return ControlFlow::Continue(());
        }
        let mut names: BTreeSet<String> = tables_of(select).filter_map(name).collect();
        for at in 0..select.projection.len() {
            let Some(expr) = column(&mut select.projection[at]) else {
                continue;
            };
            let Expr::Subquery(query) = expr else {
                continue;
            };
            if let Some((value, join, own)) = looked_up(query)
                && own.is_disjoint(&names)
            {
                names.extend(own);
                *expr = value;
                if let SelectItem::UnnamedExpr(expr) = &select.projection[at] {
                    let alias = datafusion::sql::sqlparser::ast::Ident::with_quote('"', "?column?");
                    let expr = expr.clone();
                    select.projection[at] = SelectItem::ExprWithAlias { expr, alias };
                }
                select.from[0].joins.push(join);
            }
        }
        ControlFlow::Continue(())
    }
}

/// Returns the name by which a select knows a table.
fn name(factor: &TableFactor) -> Option<String> {
    match factor {
        TableFactor::Table {
            alias: Some(alias), ..
        } => Some(normal(&alias.name)),
        TableFactor::Table { name, .. } => parts(name)?.pop(),
        _ => None,
    }
}

/// Returns the value of a subquery, the join that finds it, and the names of its tables.
fn looked_up(query: &Query) -> Option<(Expr, Join, BTreeSet<String>)> {
    let mut query = query.clone();
    let select = plain_select(&mut query)?;
    let is_lookup = tables_of(select).all(is_of_catalog) && !is_aggregate(select);
    if !is_lookup || select.from.iter().any(|from| !from.joins.is_empty()) {
        return None;
    }
    let names: BTreeSet<String> = tables_of(select).filter_map(name).collect();
    let condition = select.selection.take()?;
    let value = column(select.projection.first_mut()?)?.clone();
    let mut tables = std::mem::take(&mut select.from)
        .into_iter()
        .map(|from| from.relation);
    let first = tables.next()?;
    let others = tables.map(|relation| Join {
        relation,
        global: false,
        join_operator: JoinOperator::CrossJoin(JoinConstraint::None),
    });
    let others: Vec<Join> = others.collect();
    let relation = match others.is_empty() {
        true => first,
        false => TableFactor::NestedJoin {
            table_with_joins: Box::new(TableWithJoins {
                relation: first,
                joins: others,
            }),
            alias: None,
        },
    };
    let join = Join {
        relation,
        global: false,
        join_operator: JoinOperator::LeftOuter(JoinConstraint::On(condition)),
    };
    Some((value, join, names))
}
