//! Functions, casts, operators and subqueries in expressions.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    AccessExpr, BinaryOperator, CastKind, DataType as SqlType, Expr, Function, FunctionArguments,
    Ident, ObjectName, ObjectNamePart, Query, Select, SelectItem, TableAlias, TableFactor, Value,
    VisitMut, VisitorMut,
};

use super::selects::{is_of_catalog, tables_of};
use super::{arrays, call, column, parts, plain_select};
use crate::postgres::tables::{INFORMATION_SCHEMA, PG_CATALOG};

/// Rewrites expressions, the inner ones first.
pub(super) struct Expressions;

impl VisitorMut for Expressions {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        if let Some(order) = &mut query.order_by {
            let _: ControlFlow<()> =
                VisitMut::visit(order, &mut arrays::InArrays { of_catalog: false });
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        match expr {
            Expr::Function(function) => {
                unqualify(function);
                if let Some(made) = arrays::of_subquery(function).or_else(|| rows(function)) {
                    *expr = made;
                }
            }
            Expr::Cast {
                kind: CastKind::Cast | CastKind::DoubleColon,
                expr: inner,
                data_type,
                ..
            } => match reference_type(data_type) {
                Some(name) => *expr = call(name, [(**inner).clone()]),
                None => arrays::read(expr),
            },
            Expr::Collate {
                expr: inner,
                collation,
            } if is_by_bytes(collation) => *expr = (**inner).clone(),
            Expr::Subquery(query) => one_row(query),
            Expr::Case { conditions, .. } => {
                for condition in conditions {
                    let in_arrays = &mut arrays::InArrays { of_catalog: true };
                    let _: ControlFlow<()> = VisitMut::visit(&mut condition.condition, in_arrays);
                }
            }
            Expr::Like {
                pattern,
                escape_char,
                ..
            }
            | Expr::ILike {
                pattern,
                escape_char,
                ..
            } => {
                if let Some(escape) = escape_char.take_if(|escape| !is_backslash(&escape.value)) {
                    **pattern = call("like_escape", [(**pattern).clone(), Expr::Value(escape)]);
                }
            }
            Expr::BinaryOp { left, op, right } => {
                if let BinaryOperator::PGCustomBinaryOperator(names) = op
                    && let Some(known) = names.last().and_then(|name| operator(name))
                {
                    *op = known;
                }
                arrays::compare(left, op, right);
            }
            Expr::AnyOp { right, .. } | Expr::AllOp { right, .. } => arrays::read(right),
            Expr::CompoundFieldAccess { root, access_chain } => {
                if let (Some(root), [AccessExpr::Dot(Expr::Identifier(member))]) =
                    (computed(root), access_chain.as_slice())
                {
                    let member = Value::SingleQuotedString(super::normal(member));
                    *expr = call("get_field", [root, Expr::Value(member.into())]);
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

fn is_backslash(escape: &Value) -> bool {
    matches!(escape, Value::SingleQuotedString(text) if text == "\\")
}

/// Returns the form of a function that returns a row for each element.
fn rows(function: &Function) -> Option<Expr> {
    let FunctionArguments::List(list) = &function.args else {
        return None;
    };
    let args = super::arguments(&list.args)?;
    let list = match (parts(&function.name)?.pop()?.as_str(), args.as_slice()) {
        ("_pg_expandarray", [_]) => Expr::Function(function.clone()),
        ("generate_subscripts", [array, dimension]) => {
            let bound = |name| call(name, [array.clone(), dimension.clone()]);
            call("generate_series", ["array_lower", "array_upper"].map(bound))
        }
        _ => return None,
    };
    Some(call("unnest", [list]))
}

/// Returns the inner expression of `(…)`, if it is more than a name.
fn computed(root: &Expr) -> Option<Expr> {
    match root {
        Expr::Nested(inner) => Some((**inner).clone()),
        _ => None,
    }
}

/// Removes the schema from the name of a function.
fn unqualify(function: &mut Function) {
    if let Some([schema, _]) = parts(&function.name).as_deref()
        && [PG_CATALOG, INFORMATION_SCHEMA].contains(&schema.as_str())
    {
        function.name.0.remove(0);
    }
}

/// Returns the function that stands for a cast to a reference to an object.
pub(super) fn reference_type(data_type: &SqlType) -> Option<&'static str> {
    const REFERENCES: [&str; 6] = [
        "regclass",
        "regtype",
        "regproc",
        "regprocedure",
        "regnamespace",
        "regrole",
    ];
    let name = match data_type {
        SqlType::Regclass => return Some("regclass"),
        SqlType::Custom(name, _) => parts(name)?.pop()?,
        _ => return None,
    };
    REFERENCES.into_iter().find(|known| *known == name)
}

/// Returns whether a collation orders texts by their bytes, as every comparison here does.
fn is_by_bytes(collation: &ObjectName) -> bool {
    let name = parts(collation).and_then(|mut parts| parts.pop());
    matches!(name.as_deref(), Some("default" | "C" | "c" | "POSIX"))
}

/// Returns the operator of a name within `OPERATOR(…)`.
fn operator(name: &str) -> Option<BinaryOperator> {
    Some(match name {
        "~" => BinaryOperator::PGRegexMatch,
        "~*" => BinaryOperator::PGRegexIMatch,
        "!~" => BinaryOperator::PGRegexNotMatch,
        "!~*" => BinaryOperator::PGRegexNotIMatch,
        "~~" => BinaryOperator::PGLikeMatch,
        "~~*" => BinaryOperator::PGILikeMatch,
        "!~~" => BinaryOperator::PGNotLikeMatch,
        "!~~*" => BinaryOperator::PGNotILikeMatch,
        "=" => BinaryOperator::Eq,
        "<>" | "!=" => BinaryOperator::NotEq,
        "<" => BinaryOperator::Lt,
        "<=" => BinaryOperator::LtEq,
        ">" => BinaryOperator::Gt,
        ">=" => BinaryOperator::GtEq,
        "+" => BinaryOperator::Plus,
        "-" => BinaryOperator::Minus,
        "*" => BinaryOperator::Multiply,
        "/" => BinaryOperator::Divide,
        "||" => BinaryOperator::StringConcat,
        _ => return None,
    })
}

/// Makes an aggregate of a subquery over `pg_catalog`, whose rows clients know to be one at most.
fn one_row(query: &mut Query) {
    let Some(select) = plain_select(query) else {
        return;
    };
    let is_catalog = !select.from.is_empty() && tables_of(select).all(is_of_catalog);
    if !is_catalog || is_aggregate(select) {
        return;
    }
    if let Some(value) = select.projection.first_mut().and_then(column) {
        *value = call("max", [value.clone()]);
        query.order_by = None;
    }
}

/// Returns whether the one column of a select is an aggregate.
pub(super) fn is_aggregate(select: &Select) -> bool {
    const AGGREGATES: [&str; 9] = [
        "array_agg",
        "avg",
        "bool_and",
        "bool_or",
        "count",
        "max",
        "min",
        "string_agg",
        "sum",
    ];
    let first = select.projection.first();
    let Some(
        SelectItem::UnnamedExpr(Expr::Function(function))
        | SelectItem::ExprWithAlias {
            expr: Expr::Function(function),
            ..
        },
    ) = first
    else {
        return false;
    };
    let name = parts(&function.name).and_then(|mut parts| parts.pop());
    name.is_some_and(|name| AGGREGATES.contains(&name.as_str()))
}

/// Finds out whether the statement itself gives the name `user` to something.
pub(super) struct UserAlias(pub(super) bool);

fn is_user(ident: &Ident) -> bool {
    ident.value.eq_ignore_ascii_case("user")
}

impl VisitorMut for UserAlias {
    type Break = ();

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        self.0 |= select.projection.iter().any(|item| match item {
            SelectItem::ExprWithAlias { alias, .. } => is_user(alias),
            _ => false,
        });
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        let of_alias = |alias: &TableAlias| {
            is_user(&alias.name) || alias.columns.iter().any(|column| is_user(&column.name))
        };
        if let TableFactor::Table { alias, .. } | TableFactor::Derived { alias, .. } = factor {
            self.0 |= alias.as_ref().is_some_and(of_alias);
        }
        ControlFlow::Continue(())
    }
}

/// Replaces `user` by `current_user`.
pub(super) struct UserFunction;

impl VisitorMut for UserFunction {
    type Break = ();

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        for item in &mut select.projection {
            if let SelectItem::UnnamedExpr(expr @ Expr::Function(_)) = item
                && expr.to_string().eq_ignore_ascii_case("user")
            {
                *item = SelectItem::ExprWithAlias {
                    expr: expr.clone(),
                    alias: Ident::with_quote('"', "user"),
                };
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::Function(function) = expr
            && matches!(function.args, FunctionArguments::None)
            && let [ObjectNamePart::Identifier(ident)] = function.name.0.as_mut_slice()
            && ident.quote_style.is_none()
            && is_user(ident)
        {
            *ident = Ident::new("current_user");
        }
        ControlFlow::Continue(())
    }
}
