//! Names casts apart from their operands. In DataFusion a cast has the name of its operand:
//! `GROUP BY CAST(time AS DATE), time` is two groups of one name. Some rules reject that, others
//! confuse the two groups (<https://github.com/apache/datafusion/issues/4478>). Such a cast is
//! rewritten to `coalesce(CAST(…))`, which has the same value and a name of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, FunctionArguments, GroupByExpr, Ident, ObjectNamePart,
    OrderBy, OrderByKind, Query, Select, SelectItem, SetExpr, TableFactor, TableWithJoins,
    VisitMut, VisitorMut, visit_expressions,
};

use super::extract::call;
use super::repeated_groups::meaning;

/// Gives casts among the groups of a SELECT names of their own where another group has the same
/// name, and where the SELECT groups the rows of a sub-query: DataFusion knows the groups of the
/// sub-query to be unique by their names, and a cast of one of them is not unique. Casts in calls
/// that differ only by a cast are renamed too.
#[derive(Default)]
pub(super) struct Casts {
    /// Names of the WITH clauses seen so far. A table of the same name elsewhere only leads to an
    /// unnecessary rename.
    ctes: BTreeSet<String>,
}

impl VisitorMut for Casts {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let ctes = query.with.iter().flat_map(|with| &with.cte_tables);
        let ctes = ctes.map(|cte| cte.alias.name.value.to_lowercase());
        self.ctes.extend(ctes);
        selects(&mut query.body, &mut query.order_by, &self.ctes);
        ControlFlow::Continue(())
    }
}

fn selects(body: &mut SetExpr, order: &mut Option<OrderBy>, ctes: &BTreeSet<String>) {
    match body {
        SetExpr::Select(select) => mend(select, order, ctes),
        SetExpr::SetOperation { left, right, .. } => {
            selects(left, &mut None, ctes);
            selects(right, &mut None, ctes);
        }
        _ => {}
    }
}

fn mend(select: &mut Select, order: &mut Option<OrderBy>, ctes: &BTreeSet<String>) {
    let GroupByExpr::Expressions(groups, _) = &select.group_by else {
        return;
    };
    let mut meant = Vec::new();
    for group in groups {
        match group {
            Expr::Cube(lists) | Expr::Rollup(lists) | Expr::GroupingSets(lists) => {
                meant.extend(lists.iter().flatten().map(|e| meant_by(e, select)));
            }
            plain => meant.push(meant_by(plain, select)),
        }
    }
    let mut casts = of_one_name(&meant);
    if reads_a_query(select, ctes) {
        casts.extend(meant.iter().filter(|expr| is_cast(expr)).cloned());
    }
    if select.having.is_some() {
        casts.extend(of_one_name(&calls(select, order)));
    }
    let mut named = Named(Vec::new());
    for mut cast in casts {
        let _: ControlFlow<()> = VisitMut::visit(&mut cast, &mut WithoutNames);
        if !named.0.contains(&cast) {
            named.0.push(cast);
        }
    }
    if named.0.is_empty() {
        return;
    }
    let repeats = |cast: &Expr| meant.iter().any(|e| e != cast && bare(e) == bare(cast));
    for item in &mut select.projection {
        match item {
            SelectItem::UnnamedExpr(expr) if is_cast(expr) => {
                let alias = match repeats(expr) {
                    true => expr.to_string(),
                    false => bare(expr),
                };
                let alias = Ident::with_quote('"', alias);
                let mut expr = expr.clone();
                named.visit(&mut expr);
                *item = SelectItem::ExprWithAlias { expr, alias };
            }
            SelectItem::UnnamedExpr(expr) => {
                let (was, alias) = (expr.clone(), expr.to_string());
                named.visit(expr);
                if *expr != was {
                    let (expr, alias) = (expr.clone(), Ident::with_quote('"', alias));
                    *item = SelectItem::ExprWithAlias { expr, alias };
                }
            }
            SelectItem::ExprWithAlias { expr, .. } => named.visit(expr),
            _ => {}
        }
    }
    if let GroupByExpr::Expressions(groups, _) = &mut select.group_by {
        groups.iter_mut().for_each(|group| named.visit(group));
    }
    select.having.iter_mut().for_each(|expr| named.visit(expr));
    if let Some(OrderByKind::Expressions(keys)) = order.as_mut().map(|order| &mut order.kind) {
        keys.iter_mut().for_each(|key| named.visit(&mut key.expr));
    }
}

/// Returns the casts in expressions that only differ by casts, as `time::date` and `time` or
/// `max(time::date)` and `max(time)`: the planner has one name for both.
fn of_one_name(exprs: &[Expr]) -> Vec<Expr> {
    let mut by_name = BTreeMap::<String, BTreeSet<&Expr>>::new();
    for expr in exprs {
        by_name.entry(bare(expr)).or_default().insert(expr);
    }
    let mut casts = Vec::new();
    for expr in by_name.values().filter(|same| same.len() > 1).flatten() {
        let _ = visit_expressions(*expr, |expr| {
            casts.extend(is_cast(expr).then(|| expr.clone()));
            ControlFlow::<()>::Continue(())
        });
    }
    casts
}

/// Returns the calls in the columns, the HAVING and the order of a SELECT.
fn calls(select: &Select, order: &Option<OrderBy>) -> Vec<Expr> {
    let mut calls = Vec::new();
    let mut add = |expr: &Expr| {
        calls.extend(matches!(expr, Expr::Function(_)).then(|| expr.clone()));
        ControlFlow::<()>::Continue(())
    };
    let _ = visit_expressions(&select.projection, &mut add);
    let _ = visit_expressions(&select.having, &mut add);
    let _ = visit_expressions(order, &mut add);
    calls
}

/// Returns the planner's name of an expression, without casts and tables. More expressions may
/// share this name than share the planner's, which only leads to an unnecessary rename.
fn bare(expr: &Expr) -> String {
    let mut bare = expr.clone();
    let _: ControlFlow<()> = VisitMut::visit(&mut bare, &mut WithoutCasts);
    bare.to_string()
}

struct WithoutCasts;

impl VisitorMut for WithoutCasts {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::Cast { expr: inner, .. }
        | Expr::Nested(inner)
        | Expr::AtTimeZone {
            timestamp: inner, ..
        } = expr
        {
            *expr = inner.as_ref().clone();
        }
        if let Expr::CompoundIdentifier(parts) = expr
            && let Some(column) = parts.pop()
        {
            *expr = Expr::Identifier(column);
        }
        if let Expr::Identifier(column) = expr {
            *column = Ident::new(column.value.to_lowercase());
        }
        ControlFlow::Continue(())
    }
}

/// Returns whether a SELECT reads a sub-query.
fn reads_a_query(select: &Select, ctes: &BTreeSet<String>) -> bool {
    let is_query = |relation: &TableFactor| match relation {
        TableFactor::Table { name, .. } => {
            let [ObjectNamePart::Identifier(name)] = name.0.as_slice() else {
                return false;
            };
            ctes.contains(&name.value.to_lowercase())
        }
        _ => true,
    };
    let joined = |table: &TableWithJoins| table.joins.iter().any(|join| is_query(&join.relation));
    let mut tables = select.from.iter();
    tables.any(|table| is_query(&table.relation) || joined(table))
}

/// Returns the expression of a group that is a position or the alias of a column.
fn meant_by(group: &Expr, select: &Select) -> Expr {
    if let Expr::Identifier(name) = group {
        let aliased = select.projection.iter().find_map(|item| match item {
            SelectItem::ExprWithAlias { expr, alias } if alias == name => Some(expr),
            _ => None,
        });
        if let Some(expr) = aliased {
            return expr.clone();
        }
    }
    match meaning(group, &select.projection) {
        Expr::Nested(inner) => *inner,
        other => other,
    }
}

fn is_cast(expr: &Expr) -> bool {
    matches!(expr, Expr::Cast { .. } | Expr::AtTimeZone { .. })
}

/// Casts that are rewritten to have names of their own.
struct Named(Vec<Expr>);

impl Named {
    fn visit(&mut self, expr: &mut Expr) {
        let _: ControlFlow<()> = VisitMut::visit(expr, self);
    }
}

impl VisitorMut for Named {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if !is_cast(expr) {
            return ControlFlow::Continue(());
        }
        // A cast within this one may have been rewritten by now.
        let mut was = expr.clone();
        let _: ControlFlow<()> = VisitMut::visit(&mut was, &mut WithoutNames);
        // Each cast is wrapped a different number of times, because two casts of one column would
        // otherwise have one name again.
        if let Some(nth) = self.0.iter().position(|cast| *cast == was) {
            for _ in 0..=nth {
                *expr = call("coalesce", vec![expr.clone()]);
            }
        }
        ControlFlow::Continue(())
    }
}

/// Removes the calls of `coalesce` around casts again.
struct WithoutNames;

impl VisitorMut for WithoutNames {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::Function(function) = expr
            && function.name.to_string() == "coalesce"
            && let FunctionArguments::List(list) = &mut function.args
            && let [FunctionArg::Unnamed(FunctionArgExpr::Expr(named))] = list.args.as_slice()
            && is_cast(named)
        {
            *expr = named.clone();
        }
        ControlFlow::Continue(())
    }
}
