//! A query's rows beside those of the oracle.
//!
//! Without an order the rows are equal as multisets. With an order only the keys are fixed: each
//! row must be one of those that the oracle has in its place, with a limit some of them.

use arrow::compute::SortOptions;
use datafusion::sql::parser::{DFParserBuilder, Statement};
use datafusion::sql::sqlparser::ast::{
    Expr, Ident, LimitClause, OrderByKind, Query, SelectItem, SetExpr, Statement as Sql, Value,
};

use crate::ask::random_questions::rows::{AnswerRows, Cell, alike, not_among};

/// The oracle's form of a query, and the way in which its rows are read.
pub(super) struct Asked {
    pub(super) oracle: Statement,
    /// Columns by which the rows are ordered, those after the query's own included, and their
    /// directions.
    keys: Vec<(Key, SortOptions)>,
    /// The number of rows to skip, and the most that follow.
    window: (usize, usize),
}

enum Key {
    /// A column of the query.
    Own(usize),
    /// A column that only the oracle shows, counted from the first after the query's.
    Added(usize),
}

pub(super) fn parse(sql: &str) -> Result<Statement, String> {
    let parsed = DFParserBuilder::new(sql)
        .build()
        .and_then(|mut p| p.parse_statements());
    let mut statement = parsed.map_err(|e| e.to_string())?.pop_front();
    if let Some(statement) = &mut statement {
        crate::plan::datafusion_fixes::mend(statement);
    }
    statement.ok_or_else(|| "no statement".to_owned())
}

/// The query of a statement.
pub(super) fn query_of(statement: &mut Statement) -> Option<&mut Query> {
    match statement {
        Statement::Statement(sql) => match &mut **sql {
            Sql::Query(query) => Some(query),
            _ => None,
        },
        _ => None,
    }
}

impl Asked {
    /// Returns the query without its limit, with its keys as columns.
    pub(super) fn of(sql: &str) -> Result<Self, String> {
        let mut oracle = parse(sql)?;
        let query = query_of(&mut oracle).ok_or("no query")?;
        let number = |e: &Expr| e.to_string().parse::<usize>().ok();
        let (mut skip, mut take) = (0, usize::MAX);
        if let Some(LimitClause::LimitOffset { limit, offset, .. }) = query.limit_clause.take() {
            take = limit.as_ref().and_then(number).unwrap_or(take);
            skip = offset.and_then(|o| number(&o.value)).unwrap_or(0);
        }
        let mut keys = Vec::new();
        let order = query.order_by.take().map(|order| order.kind);
        if let Some(OrderByKind::Expressions(exprs)) = order {
            let mut added = 0;
            for key in exprs {
                let descending = key.options.asc == Some(false);
                let options = SortOptions {
                    descending,
                    nulls_first: key.options.nulls_first.unwrap_or(descending),
                };
                let position = match &key.expr {
                    Expr::Value(value) if matches!(value.value, Value::Number(..)) => {
                        number(&key.expr)
                    }
                    _ => None,
                };
                if let Some(position) = position {
                    keys.push((Key::Own(position - 1), options));
                } else if let SetExpr::Select(select) = &mut *query.body {
                    select.projection.push(SelectItem::ExprWithAlias {
                        expr: key.expr,
                        alias: Ident::new(format!("_key{added}")),
                    });
                    keys.push((Key::Added(added), options));
                    added += 1;
                }
            }
        }
        Ok(Self {
            oracle,
            keys,
            window: (skip, take),
        })
    }

    /// Returns the oracle's columns to sort by, where the query has `own` columns.
    pub(super) fn sorted(&self, own: usize) -> Vec<(usize, SortOptions)> {
        let keys = self.keys.iter();
        let place = |key: &Key| match key {
            Key::Own(nth) => *nth,
            Key::Added(nth) => own + nth,
        };
        keys.map(|(key, options)| (place(key), *options)).collect()
    }

    /// Returns the number of columns that the oracle has beyond those of the query.
    pub(super) fn added(&self) -> usize {
        let added = |key: &&(Key, SortOptions)| matches!(key.0, Key::Added(_));
        self.keys.iter().filter(added).count()
    }

    /// Describes the difference from the oracle's rows; nothing when there is none.
    pub(super) fn difference(&self, found: &AnswerRows, expected: &AnswerRows) -> Option<String> {
        let own = found.kinds.len();
        if expected.kinds.len() < own || expected.kinds[..own] != found.kinds[..] {
            return Some(format!(
                "columns {:?} for {:?}",
                found.kinds, expected.kinds
            ));
        }
        let (skip, take) = self.window;
        let all = &expected.rows;
        let end = skip.saturating_add(take).min(all.len());
        let start = skip.min(end);
        if found.rows.len() != end - start {
            return Some(format!("{} rows for {}", found.rows.len(), end - start));
        }
        let key = |row: &Vec<Cell>| -> Vec<Cell> {
            let cells = self.keys.iter().map(|(key, _)| match key {
                Key::Own(nth) => row[*nth].clone(),
                Key::Added(nth) => row[own + nth].clone(),
            });
            cells.collect()
        };
        // Each round compares the rows of one key, from the first to the last.
        let mut from = 0;
        while from < all.len() {
            let of_key = key(&all[from]);
            let same = all[from..]
                .iter()
                .take_while(|row| alike(&key(row), &of_key));
            let to = from + same.count();
            let (first, last) = (from.max(start), to.min(end));
            if first < last {
                let members = all[from..to].iter().map(|row| &row[..own]);
                let rows = found.rows[first - start..last - start].iter();
                let lost = not_among(rows.map(|row| &row[..]), members);
                if let Some(row) = lost {
                    return Some(format!("a row too many: {row:?} of the key {of_key:?}"));
                }
            }
            from = to;
        }
        None
    }
}
