//! Peers that the conditions of a question rule out: the key by which a stream is divided among
//! shards sends no event that meets them to such a peer.
//!
//! # Invariant
//! A peer is ruled out only if none of its rows passes the first filters of a fragment, or none of
//! its cells those of a level. The reason is that peer's own: its division holds for all events
//! that it has or had (`storage::Division`) in the state that the question reads, whatever other
//! peers have. The filters demand one of a few values of each field of the key, in a column whose
//! values have the texts that the key hashes: so it is in columns of texts and of integers, if the
//! stores agree upon that type.

use std::sync::Arc;

use aggregator::{Filter, KeyValue, OTHER};
use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::{BinaryExpr, Expr, Operator};
use storage::{ColumnType, ID, Name, StreamKind};

use super::fragment::{Fragment, FragmentStep};
use super::peer::Peer;
use crate::tables::level::Rollup;

/// Returns the peers that may have rows of a fragment.
pub(crate) fn may_have_rows(fragment: &Fragment, peers: &[Arc<dyn Peer>]) -> Vec<Arc<dyn Peer>> {
    let filters: Vec<&Expr> = fragment.steps.iter().map_while(filter_of).collect();
    let Some(name) = Name::new(&fragment.stream)
        .ok()
        .filter(|_| !filters.is_empty())
    else {
        return peers.to_vec();
    };
    with_a_place(peers, &name, |field, stored| {
        let (_, agreed) = fragment.columns.iter().find(|(name, _)| name == field)?;
        let mut filters = filters.iter();
        let values = filters.find_map(|filter| demanded(filter, field))?;
        let texts = values.into_iter();
        texts.map(|value| text_of(value, stored, agreed)).collect()
    })
}

/// Returns the peers that may have cells of a rollup's level which pass a filter.
pub(crate) fn may_have_cells(
    rollup: &Rollup,
    filter: &Filter,
    peers: &[Arc<dyn Peer>],
) -> Vec<Arc<dyn Peer>> {
    let keys = rollup.definition.by().iter().zip(&filter.keys);
    let demanded: Vec<(&str, &Vec<KeyValue>)> = keys
        // The values of an expression are not those of the field of its name.
        .filter(|(key, _)| key.expr.is_none())
        .filter_map(|(key, wanted)| Some((key.name.as_str(), wanted.as_ref()?)))
        .collect();
    if demanded.is_empty() {
        return peers.to_vec();
    }
    with_a_place(peers, &rollup.meta.stream, |field, stored| {
        let (_, values) = demanded.iter().find(|(name, _)| *name == field)?;
        let text_of = |value: &KeyValue| match (value, stored) {
            // Cells of this key count events of any others.
            (KeyValue::Text(text), _) if text == OTHER => None,
            (KeyValue::Text(text), ColumnType::Text) => Some(text.clone()),
            (KeyValue::Int(number), ColumnType::Int16 | ColumnType::Int64) => {
                Some(number.to_string())
            }
            _ => None,
        };
        values.iter().map(text_of).collect()
    })
}

/// Returns the peers that may have events of a stream with some texts. `texts` returns those of a
/// field whose column has this type at the peer; `None` for any.
fn with_a_place(
    peers: &[Arc<dyn Peer>],
    stream: &Name,
    texts: impl Fn(&str, ColumnType) -> Option<Vec<String>>,
) -> Vec<Arc<dyn Peer>> {
    let may_have = |peer: &&Arc<dyn Peer>| {
        let tables = peer.tables();
        let (division, stored) = (tables.divisions.get(stream), tables.streams.get(stream));
        let (Some(division), Some(stored)) = (division, stored) else {
            return true;
        };
        division.may_have(|field| {
            // Columns of these names are computed from others.
            if field == ID || (stored.kind == StreamKind::Access && field == "request") {
                return None;
            }
            let mut columns = stored.columns.iter();
            let column = columns.find(|column| &*column.name == field)?;
            texts(field, column.column_type)
        })
    };
    peers.iter().filter(may_have).cloned().collect()
}

fn filter_of(step: &FragmentStep) -> Option<&Expr> {
    match step {
        FragmentStep::Filter(predicate) => Some(predicate),
        _ => None,
    }
}

/// Returns the values of a column one of which an expression demands; `None` if it lets others
/// pass, too.
fn demanded<'a>(filter: &'a Expr, field: &str) -> Option<Vec<&'a ScalarValue>> {
    let is_column = |expr: &Expr| matches!(expr, Expr::Column(column) if column.name == field);
    match filter {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => match (op, &**left, &**right) {
            (Operator::Eq, column, Expr::Literal(value, _))
            | (Operator::Eq, Expr::Literal(value, _), column)
                if is_column(column) =>
            {
                Some(vec![value])
            }
            (Operator::And, left, right) => {
                demanded(left, field).or_else(|| demanded(right, field))
            }
            (Operator::Or, left, right) => {
                let mut either = demanded(left, field)?;
                either.extend(demanded(right, field)?);
                Some(either)
            }
            _ => None,
        },
        Expr::InList(list) if !list.negated && is_column(&list.expr) => {
            let values = list.list.iter().map(|expr| match expr {
                Expr::Literal(value, _) => Some(value),
                _ => None,
            });
            values.collect()
        }
        _ => None,
    }
}

/// Returns the text that the key hashes of a column's value that equals this one.
fn text_of(value: &ScalarValue, stored: ColumnType, agreed: &DataType) -> Option<String> {
    match (stored, agreed) {
        (ColumnType::Text, DataType::Utf8 | DataType::Utf8View | DataType::LargeUtf8) => {
            value.try_as_str().flatten().map(str::to_owned)
        }
        (ColumnType::Int16 | ColumnType::Int64, DataType::Int16 | DataType::Int64) => match value {
            ScalarValue::Int16(Some(number)) => Some(number.to_string()),
            ScalarValue::Int64(Some(number)) => Some(number.to_string()),
            _ => None,
        },
        _ => None,
    }
}
