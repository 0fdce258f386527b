//! Peers that the conditions of a question rule out: the key by which a stream is divided among
//! shards sends no event that meets them to such a peer.
//!
//! # Invariant
//! A peer is ruled out only if none of its rows passes the first filters of a fragment, or none of
//! its cells those of a level. The reason is that peer's own: its division holds for all events
//! that it has or had (`storage::Division`) in the state that the question reads, whatever other
//! peers have. The filters let a few values of each field of the key pass, in a column whose values
//! have the texts that the key hashes: so it is in columns of texts and of integers, if the stores
//! agree upon that type.

use std::sync::Arc;

use aggregator::{Filter, KeyValue, OTHER};
use datafusion::logical_expr::Expr;
use datafusion::logical_expr::utils::split_conjunction;
use storage::{ColumnType, ID, Name, StreamKind};

use super::fragment::{Fragment, FragmentStep};
use super::peer::Peer;
use crate::tables::level::{Rollup, key_filter};

/// The values of a column that pass a filter.
type PassingValues<'a> = (&'a str, Vec<KeyValue>);

/// Returns the peers that may have rows of a fragment.
pub(crate) fn may_have_rows(fragment: &Fragment, peers: &[Arc<dyn Peer>]) -> Vec<Arc<dyn Peer>> {
    let Ok(stream) = Name::new(&fragment.stream) else {
        return peers.to_vec();
    };
    let has_texts = |name: &str| {
        let mut columns = fragment.columns.iter();
        columns
            .any(|(column, agreed)| column == name && (agreed.is_string() || agreed.is_integer()))
    };
    let filters = fragment.steps.iter().map_while(filter_of);
    let passing = filters.flat_map(split_conjunction).filter_map(key_filter);
    let passing = passing.filter(|(name, _)| has_texts(name));
    with_a_place(peers, &stream, &passing.collect::<Vec<_>>())
}

/// Returns the peers that may have cells of a rollup's level which pass a filter.
pub(crate) fn may_have_cells(
    rollup: &Rollup,
    filter: &Filter,
    peers: &[Arc<dyn Peer>],
) -> Vec<Arc<dyn Peer>> {
    let keys = rollup.definition.by().iter().zip(&filter.keys);
    let passing = keys
        // The values of an expression are not those of the field of its name.
        .filter(|(key, _)| key.expr.is_none())
        .filter_map(|(key, values)| Some((key.name.as_str(), values.clone()?)));
    with_a_place(peers, &rollup.meta.stream, &passing.collect::<Vec<_>>())
}

/// Returns the peers that may have events of a stream whose values pass.
fn with_a_place(
    peers: &[Arc<dyn Peer>],
    stream: &Name,
    passing: &[PassingValues<'_>],
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
            let (_, values) = passing.iter().find(|(name, _)| *name == field)?;
            let mut columns = stored.columns.iter();
            let column = columns.find(|column| &*column.name == field)?;
            let texts = values.iter();
            texts
                .map(|value| text_of(value, column.column_type))
                .collect()
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

/// Returns the text that the key hashes of a value in a column of this type.
fn text_of(value: &KeyValue, stored: ColumnType) -> Option<String> {
    match (value, stored) {
        // Cells of this key count events of any others.
        (KeyValue::Text(text), _) if text == OTHER => None,
        (KeyValue::Text(text), ColumnType::Text) => Some(text.clone()),
        (KeyValue::Int(number), ColumnType::Int16 | ColumnType::Int64) => Some(number.to_string()),
        // A null may be a value that does not fit its column.
        _ => None,
    }
}
