//! Rewrites `EXTRACT(year FROM t)` to the function `date_part('YEAR', t)`, under the same name.
//! The planner would call DataFusion's own function, not the one with which a session replaces
//! it.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentList, FunctionArguments, Ident,
    ObjectName, Value, VisitorMut,
};

pub(super) struct Extract;

impl VisitorMut for Extract {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::Extract {
            field, expr: of, ..
        } = expr
        {
            let field = Value::SingleQuotedString(field.to_string());
            let of = of.as_ref().clone();
            *expr = call("date_part", vec![Expr::Value(field.into()), of]);
        }
        ControlFlow::Continue(())
    }
}

/// Returns a call of a scalar function.
pub(super) fn call(name: &str, args: Vec<Expr>) -> Expr {
    let args = args.into_iter().map(FunctionArgExpr::Expr);
    Expr::Function(Function {
        name: ObjectName::from(vec![Ident::new(name)]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(FunctionArgumentList {
            duplicate_treatment: None,
            args: args.map(FunctionArg::Unnamed).collect(),
            clauses: Vec::new(),
        }),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    })
}
