//! Tables and functions in FROM.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use datafusion::sql::parser::DFParser;
use datafusion::sql::sqlparser::ast::{
    Expr, Ident, ObjectName, ObjectNamePart, Query, SelectItem, SetExpr, Statement as SqlStatement,
    TableAlias, TableFactor, Value, VisitorMut,
};

use super::{arguments, call, normal, parts};
use crate::postgres::tables::{PG_CATALOG, named};
use crate::tables::catalog::Catalog;

/// The names of common tables.
#[derive(Default)]
pub(super) struct CommonTables(BTreeSet<String>);

impl VisitorMut for CommonTables {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let tables = query.with.iter().flat_map(|with| &with.cte_tables);
        self.0.extend(tables.map(|table| normal(&table.alias.name)));
        ControlFlow::Continue(())
    }
}

/// Gives tables of `pg_catalog` their schema, and makes subqueries of functions.
pub(super) struct Relations<'a> {
    catalog: &'a Catalog,
    schema: &'a str,
    ctes: CommonTables,
}

impl<'a> Relations<'a> {
    pub(super) fn new(catalog: &'a Catalog, schema: &'a str, ctes: CommonTables) -> Self {
        Self {
            catalog,
            schema,
            ctes,
        }
    }

    /// Returns whether a name without a schema means a table of `pg_catalog`.
    fn is_of_catalog(&self, table: &str) -> bool {
        let own = || self.catalog.table(self.schema, table);
        !self.ctes.0.contains(table)
            && named(PG_CATALOG, table).is_some()
            && matches!(own(), Ok(None))
    }
}

impl VisitorMut for Relations<'_> {
    type Break = ();

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        match factor {
            TableFactor::Table {
                name,
                alias,
                args: None,
                ..
            } => {
                if let Some([table]) = parts(name).as_deref()
                    && self.is_of_catalog(table)
                {
                    alias.get_or_insert_with(|| alias_of(Ident::new(table)));
                    let schema = ObjectNamePart::Identifier(Ident::new(PG_CATALOG));
                    name.0.insert(0, schema);
                }
            }
            TableFactor::Table {
                name,
                alias,
                args: Some(args),
                with_ordinality: false,
                ..
            } => {
                if let Some(args) = arguments(&args.args)
                    && let Some(made) = of_call(name, alias.as_ref(), args, false)
                {
                    *factor = made;
                }
            }
            TableFactor::Function {
                lateral,
                name,
                args,
                with_ordinality: false,
                alias,
            } => {
                if let Some(args) = arguments(args)
                    && let Some(made) = of_call(name, alias.as_ref(), args, *lateral)
                {
                    *factor = made;
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

fn alias_of(name: Ident) -> TableAlias {
    TableAlias {
        explicit: true,
        name,
        columns: Vec::new(),
        at: None,
    }
}

/// Returns the subquery that a function in FROM stands for; `None` for a table function of
/// constants, which the engine has.
fn of_call(
    name: &ObjectName,
    alias: Option<&TableAlias>,
    args: Vec<Expr>,
    lateral: bool,
) -> Option<TableFactor> {
    let names = parts(name)?;
    let (function, is_qualified) = match names.as_slice() {
        [function] => (function, false),
        [schema, function] if schema == PG_CATALOG => (function, true),
        _ => return None,
    };
    let is_constant = |arg: &Expr| match arg {
        Expr::Value(value) => !matches!(value.value, Value::Placeholder(_)),
        Expr::UnaryOp { expr, .. } => matches!(**expr, Expr::Value(_)),
        Expr::Interval(_) | Expr::TypedString(_) => true,
        _ => false,
    };
    let rows = match function.as_str() {
        "range" | "generate_series" if !is_qualified && args.iter().all(is_constant) => {
            return None;
        }
        "range" | "generate_series" => call("unnest", [call(function, args)]),
        _ => call(function, args),
    };
    let alias = alias.cloned();
    let mut alias = alias.unwrap_or_else(|| alias_of(Ident::new(function.as_str())));
    let named = alias.columns.first().map(|column| column.name.clone());
    let column = named.unwrap_or_else(|| alias.name.clone());
    alias.columns.clear();
    Some(TableFactor::Derived {
        lateral,
        subquery: select_of(rows, column)?,
        alias: Some(alias),
        sample: None,
    })
}

/// Returns `SELECT expr AS alias`.
fn select_of(expr: Expr, alias: Ident) -> Option<Box<Query>> {
    let mut parsed = DFParser::parse_sql("SELECT 1 AS one").ok()?;
    let datafusion::sql::parser::Statement::Statement(sql) = parsed.pop_front()? else {
        return None;
    };
    let SqlStatement::Query(mut query) = *sql else {
        return None;
    };
    let SetExpr::Select(select) = &mut *query.body else {
        return None;
    };
    select.projection = vec![SelectItem::ExprWithAlias { expr, alias }];
    Some(query)
}
