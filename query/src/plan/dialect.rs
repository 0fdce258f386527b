//! Forms of PostgreSQL's dialect that DataFusion does not plan, rewritten before it sees them, so
//! that one text has one answer over every protocol.
//!
//! | form | becomes |
//! |---|---|
//! | `pg_class` | `pg_catalog.pg_class`, unless the schema of the session has that table |
//! | `pg_catalog.f(…)`, `OPERATOR(pg_catalog.~)` | `f(…)`, `~` |
//! | `x::regclass` and its relatives | `regclass(x)`: a number for a name, a name for a number |
//! | `FROM f(…) AS x` of a scalar function | `FROM (SELECT f(…) AS x) AS x` |
//! | `ARRAY(SELECT …)` | a subquery with `array_agg` |
//! | `x = ANY ('{a,b}')`, `roles = '{0}'` | a comparison with an array |
//! | `(SELECT c FROM pg_… WHERE …)` | `(SELECT max(c) …)`: the planner needs one row |
//! | `SELECT f(…)`, `SELECT NULL, NULL` | with the names that PostgreSQL gives to columns |
//! | `(SELECT c FROM pg_… WHERE …)` in SELECT | a left join, where its names allow it |
//! | `x LIKE p ESCAPE '/'` | `x LIKE like_escape(p, '/')`, escaped by `\` |
//! | `x.tableoid` | the number of the table |
//! | `generate_subscripts(a, 1)`, `_pg_expandarray(a)` | `unnest` of a function |
//! | `(f(x)).n` | `get_field(f(x), 'n')` |
//! | `ORDER BY x IN (SELECT …)` | the same with an array |
//! | `timezone('…', t)`, `to_char(t, 'YYYY')` | `t AT TIME ZONE '…'`, `to_char(t, '%Y')` |
//! | `SELECT time::date … ORDER BY time` | `SELECT time::date AS time … ORDER BY time` |
//! | `SELECT status, status` | `SELECT status, status AS "status:2"` |
//! | subqueries beside a table that is always empty | null, as the row that they are for never is |

mod arrays;
mod expressions;
mod lookups;
mod relations;
mod selects;
mod times;
pub(crate) mod type_names;

use datafusion::sql::parser::{DFParser, Statement};
use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentList, FunctionArguments, Ident,
    ObjectName, ObjectNamePart, Query, Select, SelectItem, SetExpr, ShowStatementFilter,
    Statement as SqlStatement,
};

use crate::plan::statement::visit;
use crate::tables::catalog::Catalog;

/// Rewrites a statement as this module's header says. `schema` is that of tables without one.
pub(crate) fn rewrite(statement: &mut Statement, catalog: &Catalog, schema: &str) {
    if let Some(shown) = shown(statement) {
        *statement = shown;
    }
    visit(statement, &mut times::Times);
    let mut ctes = relations::CommonTables::default();
    visit(statement, &mut ctes);
    let mut relations = relations::Relations::new(catalog, schema, ctes);
    visit(statement, &mut relations);
    visit(statement, &mut selects::Selects);
    visit(statement, &mut lookups::Lookups);
    visit(statement, &mut expressions::Expressions);
}

/// Makes `user` the name of the session's user, where no table has a column of that name.
pub(crate) fn user_is_a_function(statement: &mut Statement) {
    let mut aliases = expressions::UserAlias(false);
    visit(statement, &mut aliases);
    if !aliases.0 {
        visit(statement, &mut expressions::UserFunction);
    }
}

/// Returns the query that answers SHOW TABLES or SHOW FUNCTIONS.
fn shown(statement: &Statement) -> Option<Statement> {
    let Statement::Statement(sql) = statement else {
        return None;
    };
    let query = match &**sql {
        SqlStatement::ShowTables { show_options, .. }
            if show_options.filter_position.is_none() && show_options.show_in.is_none() =>
        {
            "SELECT table_catalog, table_schema, table_name, table_type \
             FROM information_schema.tables WHERE table_schema <> 'pg_catalog'"
                .to_owned()
        }
        SqlStatement::ShowFunctions { filter } => {
            let all = "SELECT routine_name AS function_name, routine_type AS function_type \
                       FROM information_schema.routines";
            match filter {
                None => all.to_owned(),
                Some(ShowStatementFilter::Like(like)) => {
                    let like = like.replace('\'', "''");
                    format!("{all} WHERE routine_name LIKE '{like}'")
                }
                Some(_) => return None,
            }
        }
        _ => return None,
    };
    let mut parsed = DFParser::parse_sql(&query).ok()?;
    parsed.pop_front()
}

/// Returns the name of an identifier as DataFusion reads it.
fn normal(ident: &Ident) -> String {
    match ident.quote_style {
        Some(_) => ident.value.clone(),
        None => ident.value.to_lowercase(),
    }
}

/// Returns the parts of a name; `None` for a name with a call in it.
fn parts(name: &ObjectName) -> Option<Vec<String>> {
    let parts = name.0.iter();
    parts.map(|part| Some(normal(part.as_ident()?))).collect()
}

/// Returns a call of a function.
fn call(name: &str, args: impl IntoIterator<Item = Expr>) -> Expr {
    let args = args.into_iter();
    let args = args.map(|arg| FunctionArg::Unnamed(FunctionArgExpr::Expr(arg)));
    Expr::Function(Function {
        name: ObjectName(vec![ObjectNamePart::Identifier(Ident::new(name))]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(FunctionArgumentList {
            duplicate_treatment: None,
            args: args.collect(),
            clauses: Vec::new(),
        }),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    })
}

/// Returns the arguments of a call, if each is a plain expression.
fn arguments(args: &[FunctionArg]) -> Option<Vec<Expr>> {
    let plain = args.iter().map(|arg| match arg {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr.clone()),
        _ => None,
    });
    plain.collect()
}

/// Returns the select of a query with one column, no groups, and no part that counts its rows.
fn plain_select(query: &mut Query) -> Option<&mut Select> {
    let is_plain = query.with.is_none() && query.limit_clause.is_none() && query.fetch.is_none();
    match &mut *query.body {
        SetExpr::Select(select)
            if is_plain
                && select.projection.len() == 1
                && select.distinct.is_none()
                && select.having.is_none() =>
        {
            Some(select)
        }
        _ => None,
    }
}

/// Returns the expression of a column of a select.
fn column(item: &mut SelectItem) -> Option<&mut Expr> {
    match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => Some(expr),
        _ => None,
    }
}
