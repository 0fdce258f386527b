//! Arrays: of subqueries, and of texts as PostgreSQL writes them.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::LazyLock;

use arrow::datatypes::DataType;
use datafusion::sql::sqlparser::ast::{
    Array, BinaryOperator, DataType as SqlType, Expr, Function, FunctionArgumentClause,
    FunctionArguments, LambdaFunction, LambdaFunctionParameter, LambdaSyntax, OneOrManyWithParens,
    Query, TableFactor, Value, VisitorMut,
};

use super::selects::{is_of_catalog, tables_of};
use super::{call, column, parts, plain_select};
use crate::postgres::tables::definitions;

/// The names of columns of `pg_catalog` that are arrays.
static ARRAYS: LazyLock<BTreeSet<&'static str>> = LazyLock::new(|| {
    let fields = definitions()
        .iter()
        .flat_map(|table| table.columns.fields());
    let lists = fields.filter(|field| matches!(field.data_type(), DataType::List(_)));
    lists.map(|field| field.name().as_str()).collect()
});

/// Returns the form of `ARRAY(SELECT …)` that the planner knows; `None` for other functions.
pub(super) fn of_subquery(function: &mut Function) -> Option<Expr> {
    let is_array = parts(&function.name)? == ["array"];
    let FunctionArguments::Subquery(query) = &mut function.args else {
        return None;
    };
    if !is_array {
        return None;
    }
    if let Some(mapped) = mapped(query) {
        return Some(mapped);
    }
    let mut query = query.clone();
    let order = query.order_by.take();
    let value = column(plain_select(&mut query)?.projection.first_mut()?)?;
    let mut gathered = call("array_agg", [value.clone()]);
    if let (Expr::Function(gathered), Some(order)) = (&mut gathered, order)
        && let datafusion::sql::sqlparser::ast::OrderByKind::Expressions(mut orders) = order.kind
        && let FunctionArguments::List(list) = &mut gathered.args
    {
        for order in &mut orders {
            // The one column is the first.
            if matches!(order.expr, Expr::Value(_)) {
                order.expr = value.clone();
            }
        }
        list.clauses.push(FunctionArgumentClause::OrderBy(orders));
    }
    *value = gathered;
    Some(Expr::Subquery(query))
}

/// Returns `ARRAY(SELECT f(x) FROM unnest(list) x)` as a function over the list.
fn mapped(query: &Query) -> Option<Expr> {
    let mut query = query.clone();
    let select = plain_select(&mut query)?;
    let [from] = select.from.as_slice() else {
        return None;
    };
    let (list, name) = match &from.relation {
        TableFactor::UNNEST {
            array_exprs, alias, ..
        } => (array_exprs.first()?.clone(), alias.as_ref()?.name.clone()),
        TableFactor::Derived {
            subquery, alias, ..
        } => {
            let mut inner = subquery.clone();
            let unnested = column(plain_select(&mut inner)?.projection.first_mut()?)?;
            let Expr::Function(function) = unnested else {
                return None;
            };
            let FunctionArguments::List(list) = &function.args else {
                return None;
            };
            let list = super::arguments(&list.args)?;
            if parts(&function.name)? != ["unnest"] {
                return None;
            }
            (list.into_iter().next()?, alias.as_ref()?.name.clone())
        }
        _ => return None,
    };
    if !from.joins.is_empty() || select.selection.is_some() {
        return None;
    }
    let body = column(select.projection.first_mut()?)?.clone();
    let parameter = LambdaFunctionParameter {
        name,
        data_type: None,
    };
    let lambda = Expr::Lambda(LambdaFunction {
        params: OneOrManyWithParens::One(parameter),
        body: Box::new(body),
        syntax: LambdaSyntax::Arrow,
    });
    Some(call("array_transform", [list, lambda]))
}

/// Rewrites `x IN (SELECT …)`, which the planner does not take in ORDER BY and CASE.
pub(super) struct InArrays {
    /// Only over functions and tables of the catalog, which have no nulls here: the comparison with
    /// an array gives another answer for them.
    pub(super) of_catalog: bool,
}

impl InArrays {
    fn takes(&self, query: &Query) -> bool {
        let mut query = query.clone();
        let is_known = |factor: &TableFactor| {
            let is_function = matches!(
                factor,
                TableFactor::Function { .. } | TableFactor::Table { args: Some(_), .. }
            );
            is_function || matches!(factor, TableFactor::Derived { .. }) || is_of_catalog(factor)
        };
        !self.of_catalog
            || plain_select(&mut query).is_some_and(|select| tables_of(select).all(is_known))
    }
}

impl VisitorMut for InArrays {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::InSubquery {
            expr: value,
            subquery,
            negated: false,
        } = expr
            && self.takes(subquery)
        {
            let mut query = subquery.clone();
            let gathered = plain_select(&mut query)
                .and_then(|select| column(select.projection.first_mut()?))
                .map(|item| *item = call("array_agg", [item.clone()]));
            if gathered.is_some() {
                *expr = call("array_has", [Expr::Subquery(query), (**value).clone()]);
            }
        }
        ControlFlow::Continue(())
    }
}

/// Makes an array of the text on one side of a comparison, if the other side is an array.
pub(super) fn compare(left: &mut Expr, op: &BinaryOperator, right: &mut Expr) {
    if !matches!(op, BinaryOperator::Eq | BinaryOperator::NotEq) {
        return;
    }
    let is_array = |expr: &Expr| match expr {
        Expr::Identifier(ident) => ARRAYS.contains(ident.value.as_str()),
        Expr::CompoundIdentifier(idents) => {
            let last = idents.last();
            last.is_some_and(|ident| ARRAYS.contains(ident.value.as_str()))
        }
        _ => false,
    };
    if is_array(left) {
        read(right);
    } else if is_array(right) {
        read(left);
    }
}

/// Makes an array of a text like `'{a,b}'`, with or without a cast to an array.
pub(super) fn read(expr: &mut Expr) {
    let text = match &*expr {
        Expr::Value(value) => &value.value,
        Expr::Cast {
            expr,
            data_type: SqlType::Array(_),
            ..
        } => match &**expr {
            Expr::Value(value) => &value.value,
            _ => return,
        },
        Expr::Nested(inner) => {
            let mut inner = inner.clone();
            read(&mut inner);
            *expr = Expr::Nested(inner);
            return;
        }
        _ => return,
    };
    let Value::SingleQuotedString(text) = text else {
        return;
    };
    let Some(inner) = text.strip_prefix('{').and_then(|t| t.strip_suffix('}')) else {
        return;
    };
    let elements = inner.split(',').filter(|element| !element.is_empty());
    let elements = elements.map(|element| {
        let element = element.trim().trim_matches('"');
        let value = match element.parse::<i64>() {
            Ok(_) => Value::Number(element.to_owned(), false),
            Err(_) => Value::SingleQuotedString(element.to_owned()),
        };
        Expr::Value(value.into())
    });
    let array = Array {
        elem: elements.collect(),
        named: true,
    };
    match expr {
        Expr::Cast { expr: inner, .. } => **inner = Expr::Array(array),
        other => *other = Expr::Array(array),
    }
}
