//! Removes repeated group expressions. As in PostgreSQL, `GROUP BY x, x` is `GROUP BY x`, and
//! `CUBE(x, x)` is the grouping sets `(x), (x), (x), ()`. DataFusion rejects an expression that
//! occurs twice in a grouping (<https://github.com/apache/datafusion/issues/6090>).

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, GroupByExpr, Select, SelectItem, SetExpr, Value, VisitorMut,
};

/// Maximum grouping sets. More are left to DataFusion, which rejects them.
const SETS_MAX: usize = 1 << 12;

/// Removes repeated expressions from each grouping.
pub(super) struct RepeatedGroups;

impl VisitorMut for RepeatedGroups {
    type Break = ();

    fn pre_visit_query(
        &mut self,
        query: &mut datafusion::sql::sqlparser::ast::Query,
    ) -> ControlFlow<()> {
        selects(&mut query.body);
        ControlFlow::Continue(())
    }
}

/// Handles each SELECT of a set operation. A SELECT in parentheses is a query of its own.
fn selects(body: &mut SetExpr) {
    match body {
        SetExpr::Select(select) => mend(select),
        SetExpr::SetOperation { left, right, .. } => {
            selects(left);
            selects(right);
        }
        _ => {}
    }
}

fn mend(select: &mut Select) {
    let Select {
        group_by: GroupByExpr::Expressions(groups, modifiers),
        projection,
        ..
    } = select
    else {
        return;
    };
    if !modifiers.is_empty() {
        return;
    }
    let is_plain = |expr: &Expr| {
        !matches!(
            expr,
            Expr::Cube(_) | Expr::Rollup(_) | Expr::GroupingSets(_)
        )
    };
    if groups.iter().all(is_plain) {
        // Groups given by position stay as they are written.
        let mut known = Vec::new();
        groups.retain(|group| is_new(meaning(group, projection), &mut known));
        return;
    }
    let named = groups.iter().map(|group| names(group, projection));
    let named: Vec<Expr> = named.flatten().collect();
    let mut known = Vec::new();
    if named.into_iter().all(|name| is_new(name, &mut known)) {
        return;
    }
    if let Some(sets) = sets(groups, projection) {
        *groups = vec![Expr::GroupingSets(sets)];
    }
}

fn is_new(expr: Expr, known: &mut Vec<Expr>) -> bool {
    let is_new = !known.contains(&expr);
    known.push(expr);
    is_new
}

/// Returns the expression at a position of the projection; any other expression unchanged.
pub(super) fn meaning(expr: &Expr, projection: &[SelectItem]) -> Expr {
    let item = match expr {
        Expr::Value(value) => match &value.value {
            Value::Number(number, _) => number.to_string().parse::<usize>().ok(),
            _ => None,
        },
        Expr::Nested(inner) => return meaning(inner, projection),
        _ => None,
    };
    let item = item.and_then(|at| projection.get(at.checked_sub(1)?));
    match item {
        Some(SelectItem::UnnamedExpr(meant) | SelectItem::ExprWithAlias { expr: meant, .. }) => {
            meant.clone()
        }
        _ => expr.clone(),
    }
}

/// Returns the expressions of a grouping, as often as they occur in it. For grouping sets, an
/// expression is repeated once for each set that contains it twice.
fn names(group: &Expr, projection: &[SelectItem]) -> Vec<Expr> {
    let all = |lists: &[Vec<Expr>]| -> Vec<Expr> {
        let exprs = lists.iter().flatten();
        exprs.map(|e| meaning(e, projection)).collect()
    };
    match group {
        Expr::Cube(lists) | Expr::Rollup(lists) => all(lists),
        Expr::GroupingSets(lists) => {
            let mut names: Vec<Expr> = Vec::new();
            for list in lists {
                let mut known = Vec::new();
                for expr in list {
                    let expr = meaning(expr, projection);
                    let twice = !is_new(expr.clone(), &mut known);
                    if twice || !names.contains(&expr) {
                        names.push(expr);
                    }
                }
            }
            names
        }
        plain => vec![meaning(plain, projection)],
    }
}

/// Returns the grouping sets that all elements of a GROUP BY form together.
fn sets(groups: &[Expr], projection: &[SelectItem]) -> Option<Vec<Vec<Expr>>> {
    let mut all: Vec<Vec<Expr>> = vec![Vec::new()];
    for group in groups {
        let of_group = sets_of(group)?;
        if all.len().saturating_mul(of_group.len()) > SETS_MAX {
            return None;
        }
        let with = |set: &Vec<Expr>| -> Vec<Vec<Expr>> {
            let more = of_group.iter();
            more.map(|other| [set.as_slice(), other].concat()).collect()
        };
        all = all.iter().flat_map(with).collect();
    }
    let once = |set: Vec<Expr>| -> Vec<Expr> {
        let mut known = Vec::new();
        let meant = set.iter().map(|expr| meaning(expr, projection));
        meant.filter(|e| is_new(e.clone(), &mut known)).collect()
    };
    Some(all.into_iter().map(once).collect())
}

fn sets_of(group: &Expr) -> Option<Vec<Vec<Expr>>> {
    Some(match group {
        Expr::GroupingSets(sets) => sets.clone(),
        Expr::Rollup(lists) => (0..=lists.len())
            .rev()
            .map(|taken| lists[..taken].concat())
            .collect(),
        Expr::Cube(lists) if lists.len() <= SETS_MAX.ilog2() as usize => {
            let of = |chosen: usize| -> Vec<Expr> {
                let lists = lists.iter().enumerate();
                let lists = lists.filter(|(nth, _)| chosen >> nth & 1 == 1);
                lists.flat_map(|(_, list)| list.clone()).collect()
            };
            (0..1_usize << lists.len()).rev().map(of).collect()
        }
        Expr::Cube(_) => return None,
        plain => vec![vec![plain.clone()]],
    })
}
