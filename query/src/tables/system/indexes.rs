//! The table `system.indexes`.

use storage::{Snapshot, index_use};

use super::{SystemColumn, int, of, stamp, text};
use crate::tables::stream::indexed::Heads;

/// Access path to rows: the order in which parts are sorted, or an index of a column.
struct IndexRow {
    stream: String,
    field: String,
    kind: String,
    parts: u64,
    parts_indexed: u64,
    parts_waiting: u64,
    rows: u64,
    /// Bytes in memory and on disk. `None` for an order, which takes no space beyond the parts.
    bytes: Option<(u64, u64)>,
    last_used_us: Option<i64>,
}

/// Builds one row for the order of each stream, and one for each index.
pub(super) fn indexes(snapshot: &Snapshot, heads: &Heads) -> Vec<SystemColumn> {
    let orders = snapshot.streams().iter().map(|(stream, meta)| {
        let (mut parts, mut rows) = (0, 0);
        for part in snapshot.manifest().parts_of(stream) {
            (parts, rows) = (parts + 1, rows + part.rows);
        }
        IndexRow {
            stream: stream.to_string(),
            field: meta.order_by.join(", "),
            kind: "order".to_owned(),
            parts,
            parts_indexed: parts,
            parts_waiting: 0,
            rows,
            bytes: None,
            last_used_us: None,
        }
    });
    let indexes = index_use(snapshot).into_iter().map(|index| {
        let (memory_bytes, last_used_us) = heads.usage(snapshot.data_dir(), &index.name);
        let kind = index.name.kind.to_string();
        IndexRow {
            stream: index.name.stream.to_string(),
            field: index.name.field,
            kind,
            parts: index.parts,
            parts_indexed: index.parts_indexed,
            parts_waiting: index.parts_waiting,
            rows: index.rows,
            bytes: Some((memory_bytes, index.disk_bytes)),
            last_used_us,
        }
    });
    let mut rows: Vec<IndexRow> = orders.chain(indexes).collect();
    rows.sort_by(|a, b| (&a.stream, &b.kind, &a.field).cmp(&(&b.stream, &a.kind, &b.field)));
    vec![
        text("stream", of(&rows, |r| Some(r.stream.clone()))),
        text("field", of(&rows, |r| Some(r.field.clone()))),
        text("kind", of(&rows, |r| Some(r.kind.clone()))),
        int("parts", of(&rows, |r| Some(r.parts))),
        int("parts_indexed", of(&rows, |r| Some(r.parts_indexed))),
        int("parts_waiting", of(&rows, |r| Some(r.parts_waiting))),
        int("rows", of(&rows, |r| Some(r.rows))),
        int("memory_bytes", of(&rows, |r| r.bytes.map(|b| b.0))),
        int("disk_bytes", of(&rows, |r| r.bytes.map(|b| b.1))),
        stamp("last_used", of(&rows, |r| r.last_used_us)),
    ]
}
