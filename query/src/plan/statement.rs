//! Changes a statement before DataFusion plans it.
//!
//! * A query may name `_seq`, but `*` does not include it. Only statements that mention `_seq`
//!   see the column at all; in those, `*` over streams becomes `* EXCEPT (_seq)`.
//! * A nested field is a column with a dotted name: `a.b.c` becomes `"a.b.c"` where a stream of
//!   the statement has that column and nothing in it is called `a`.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    AccessExpr, ExceptSelectItem, Expr, FunctionArguments, Ident, ObjectName, ObjectNamePart,
    Query, Select, SelectItem, SelectItemQualifiedWildcardKind, Statement as SqlStatement,
    TableFactor, VisitMut, VisitorMut, WildcardAdditionalOptions,
};
use storage::SEQ;

use crate::question::StreamMetas;

/// Returns whether a query's text may mention an exact column of a level.
pub(crate) fn mentions_exact(sql: &str) -> bool {
    sql.to_ascii_lowercase().contains("_exact")
}

/// Returns whether a query's text may mention `_seq`.
pub(crate) fn mentions_seq(sql: &str) -> bool {
    sql.to_ascii_lowercase().contains(SEQ)
}

/// Rewrites a statement as described in this module's header.
pub(crate) fn rewrite(statement: &mut Statement, streams: &StreamMetas, with_seq: bool) {
    let mut names = Names {
        streams,
        tables: BTreeSet::new(),
        ctes: BTreeSet::new(),
        dotted: BTreeSet::new(),
    };
    visit(statement, &mut names);
    let Names {
        ctes,
        tables,
        dotted,
        ..
    } = names;
    if with_seq {
        visit(
            statement,
            &mut HideSeq {
                streams,
                ctes: &ctes,
            },
        );
    }
    if !dotted.is_empty() {
        visit(
            statement,
            &mut QuoteDotted {
                tables: &tables,
                dotted: &dotted,
            },
        );
    }
}

/// Visits a statement, and the statement within an EXPLAIN.
pub(crate) fn visit<V: VisitorMut>(statement: &mut Statement, visitor: &mut V) {
    match statement {
        Statement::Statement(sql) => {
            let _: ControlFlow<V::Break> = VisitMut::visit(&mut **sql, visitor);
        }
        Statement::Explain(explain) => visit(&mut explain.statement, visitor),
        _ => {}
    }
}

/// Returns an identifier as DataFusion reads it: lower case unless quoted.
fn normal(ident: &Ident) -> String {
    if ident.quote_style.is_some() {
        ident.value.clone()
    } else {
        ident.value.to_lowercase()
    }
}

/// Returns the stream that a table name means, if it means one.
fn stream_of(name: &ObjectName, streams: &StreamMetas, ctes: &BTreeSet<String>) -> Option<String> {
    let parts: Vec<String> = name
        .0
        .iter()
        .map(|p| p.as_ident().map(normal))
        .collect::<Option<_>>()?;
    let stream = match parts.as_slice() {
        [table] if !ctes.contains(table) => table,
        [schema, table] if schema == crate::tables::catalog::PUBLIC => table,
        [schema, table] if schema == "system" && table == "quarantine" => {
            return Some(storage::QUARANTINE.to_owned());
        }
        [catalog, schema, table]
            if catalog == crate::tables::catalog::CATALOG
                && schema == crate::tables::catalog::PUBLIC =>
        {
            table
        }
        _ => return None,
    };
    streams
        .contains_key(stream.as_str())
        .then(|| stream.clone())
}

/// Collects the names that a statement uses.
struct Names<'a> {
    streams: &'a StreamMetas,
    tables: BTreeSet<String>,
    ctes: BTreeSet<String>,
    dotted: BTreeSet<String>,
}

impl VisitorMut for Names<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        for cte in query.with.iter().flat_map(|w| &w.cte_tables) {
            self.ctes.insert(normal(&cte.alias.name));
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        let (name, alias) = match factor {
            TableFactor::Table { name, alias, .. } => (Some(name), alias),
            TableFactor::Derived { alias, .. } | TableFactor::NestedJoin { alias, .. } => {
                (None, alias)
            }
            _ => return ControlFlow::Continue(()),
        };
        self.tables.extend(alias.iter().map(|a| normal(&a.name)));
        if let Some(name) = name {
            self.tables
                .extend(name.0.iter().filter_map(|p| p.as_ident()).map(normal));
            let stream = stream_of(name, self.streams, &self.ctes)
                .and_then(|s| self.streams.get(s.as_str()));
            let columns = stream.iter().flat_map(|meta| &meta.columns);
            self.dotted.extend(
                columns
                    .filter(|c| c.name.contains('.'))
                    .map(|c| c.name.to_string()),
            );
        }
        ControlFlow::Continue(())
    }
}

/// Excludes `_seq` from `*`.
struct HideSeq<'a> {
    streams: &'a StreamMetas,
    ctes: &'a BTreeSet<String>,
}

impl HideSeq<'_> {
    /// Returns each table in a FROM clause: its name or alias, and whether it is a stream.
    fn sources(&self, select: &Select) -> Vec<(Option<ObjectName>, bool)> {
        let factors = select.from.iter().flat_map(|from| {
            std::iter::once(&from.relation).chain(from.joins.iter().map(|join| &join.relation))
        });
        factors
            .map(|factor| match factor {
                TableFactor::Table { name, alias, .. } => {
                    let called = alias
                        .as_ref()
                        .map_or_else(|| name.clone(), |a| vec![a.name.clone()].into());
                    (
                        Some(called),
                        stream_of(name, self.streams, self.ctes).is_some(),
                    )
                }
                TableFactor::Derived { alias, .. } => {
                    (alias.as_ref().map(|a| vec![a.name.clone()].into()), false)
                }
                _ => (None, false),
            })
            .collect()
    }
}

fn hide(options: &mut WildcardAdditionalOptions) {
    let seq = Ident::new(SEQ);
    match &mut options.opt_except {
        Some(except) => {
            let known = std::iter::once(&except.first_element).chain(&except.additional_elements);
            if !known.map(normal).any(|name| name == SEQ) {
                except.additional_elements.push(seq);
            }
        }
        none => {
            *none = Some(ExceptSelectItem {
                first_element: seq,
                additional_elements: Vec::new(),
            })
        }
    }
}

impl VisitorMut for HideSeq<'_> {
    type Break = ();

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        let sources = self.sources(select);
        if !sources.iter().any(|(_, stream)| *stream) {
            return ControlFlow::Continue(());
        }
        let mut projection = Vec::with_capacity(select.projection.len());
        for mut item in std::mem::take(&mut select.projection) {
            match &mut item {
                SelectItem::Wildcard(options) if sources.len() == 1 => hide(options),
                // Several tables may each have a `_seq`, so `*` becomes one wildcard for each
                // table.
                SelectItem::Wildcard(options) if sources.iter().all(|(name, _)| name.is_some()) => {
                    for (name, stream) in &sources {
                        let mut options = options.clone();
                        if *stream {
                            hide(&mut options);
                        }
                        let name = name.clone().expect("BUG: every source has a name");
                        let kind = SelectItemQualifiedWildcardKind::ObjectName(name);
                        projection.push(SelectItem::QualifiedWildcard(kind, options));
                    }
                    continue;
                }
                SelectItem::QualifiedWildcard(
                    SelectItemQualifiedWildcardKind::ObjectName(name),
                    options,
                ) => {
                    let last = |n: &ObjectName| n.0.last().and_then(|p| p.as_ident()).map(normal);
                    let meant = |called: &Option<ObjectName>| {
                        called.as_ref().is_some_and(|c| last(c) == last(name))
                    };
                    if sources
                        .iter()
                        .any(|(called, stream)| *stream && meant(called))
                    {
                        hide(options);
                    }
                }
                _ => {}
            }
            projection.push(item);
        }
        select.projection = projection;
        ControlFlow::Continue(())
    }
}

/// Turns `a.b` into `"a.b"`.
struct QuoteDotted<'a> {
    tables: &'a BTreeSet<String>,
    dotted: &'a BTreeSet<String>,
}

impl VisitorMut for QuoteDotted<'_> {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        let Some(parts) = path(expr) else {
            return ControlFlow::Continue(());
        };
        let quoted = |parts: &[Ident]| {
            let written = parts
                .iter()
                .map(|p| p.value.as_str())
                .collect::<Vec<_>>()
                .join(".");
            let lower = parts.iter().map(normal).collect::<Vec<_>>().join(".");
            [written, lower]
                .into_iter()
                .find(|name| self.dotted.contains(name))
                .map(|name| Ident::with_quote('"', name))
        };
        match parts.as_slice() {
            [table, rest @ ..] if rest.len() > 1 && self.tables.contains(&normal(table)) => {
                if let Some(column) = quoted(rest) {
                    *expr = Expr::CompoundIdentifier(vec![table.clone(), column]);
                }
            }
            [first, ..] if !self.tables.contains(&normal(first)) => {
                if let Some(column) = quoted(&parts) {
                    *expr = Expr::Identifier(column);
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

/// Returns the names of `a.b.c`. Where one of them is also a function without parentheses
/// (`user.id`), the parser takes the rest for a member of that function's result.
fn path(expr: &Expr) -> Option<Vec<Ident>> {
    let name = |expr: &Expr| match expr {
        Expr::Identifier(ident) => Some(ident.clone()),
        Expr::Function(call) if matches!(call.args, FunctionArguments::None) => {
            match call.name.0.as_slice() {
                [ObjectNamePart::Identifier(ident)] => Some(ident.clone()),
                _ => None,
            }
        }
        _ => None,
    };
    match expr {
        Expr::CompoundIdentifier(parts) => Some(parts.clone()),
        Expr::CompoundFieldAccess { root, access_chain } => {
            let mut parts = path(root).or_else(|| Some(vec![name(root)?]))?;
            for access in access_chain {
                match access {
                    AccessExpr::Dot(member) => parts.push(name(member)?),
                    AccessExpr::Subscript(_) => return None,
                }
            }
            Some(parts)
        }
        _ => None,
    }
}

/// Returns whether a statement only reads. Other statements are rejected before planning, with a
/// clear message.
pub(crate) fn only_reads(statement: &Statement) -> bool {
    match statement {
        Statement::Statement(sql) => matches!(
            **sql,
            SqlStatement::Query(_)
                | SqlStatement::Explain { .. }
                | SqlStatement::ExplainTable { .. }
                | SqlStatement::ShowTables { .. }
                | SqlStatement::ShowColumns { .. }
                | SqlStatement::ShowVariable { .. }
                | SqlStatement::ShowFunctions { .. }
        ),
        Statement::Explain(explain) => only_reads(&explain.statement),
        _ => false,
    }
}
