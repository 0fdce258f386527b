//! The view that queries see under a stream's name: the stored columns, and columns computed from
//! them.
//!
//! The view of a stream is cached until the stream's columns change, because most queries need
//! the same view as the last one. To name, type and check two dozen expressions takes longer than
//! a small query.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use datafusion::common::{Column as PlanColumn, DFSchema, DFSchemaRef, Result, TableReference};
use datafusion::datasource::{TableProvider, ViewTable, provider_as_source};
use datafusion::functions::core::expr_fn::coalesce;
use datafusion::logical_expr::{
    EmptyRelation, Expr, LogicalPlan, Projection, ScalarUDF, TableScan,
};
use parking_lot::Mutex;
use storage::{
    Column, ColumnType, ID, Name, REST, SEQ, Snapshot, StreamKind, StreamMeta, TIME, access_fields,
};

use super::derive::{ObjectIdOf, RequestLine};
use super::settled::{STATE, StateOf};
use super::{Files, StreamTable};
use crate::marks::document_mark;
use crate::tables::level::StreamRollups;

/// Largest number of cached views.
const KEPT: usize = 256;

/// Returns the Arrow type in which queries see a column.
fn query_type(column: ColumnType) -> DataType {
    match column {
        ColumnType::Text => DataType::Utf8View,
        other => other.arrow(),
    }
}

/// Returns a stored column as queries read it. The overflow column is marked: its documents are
/// written as JSON under every name.
fn stored_field(column: &Column) -> Field {
    let field = Field::new(
        &*column.name,
        query_type(column.column_type),
        &*column.name != TIME,
    );
    match &*column.name {
        REST => field.with_metadata(document_mark()),
        _ => field,
    }
}

/// Returns the stored columns as queries read them: those that every access log has, the stream's
/// own, and `_seq`.
pub(crate) fn stored_schema(meta: &StreamMeta) -> SchemaRef {
    let mut seen = BTreeSet::new();
    let fixed = if meta.kind == StreamKind::Access {
        access_fields()
    } else {
        Vec::new()
    };
    let mut fields: Vec<Field> = fixed
        .iter()
        .chain(&meta.columns)
        .filter(|c| &*c.name != SEQ && seen.insert(c.name.clone()))
        .map(stored_field)
        .collect();
    if !seen.contains(TIME) {
        fields.push(Field::new(
            TIME,
            DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
            false,
        ));
    }
    fields.push(Field::new(SEQ, DataType::UInt64, false));
    Arc::new(Schema::new(fields))
}

/// Returns the columns of `SELECT *` in order, without `_id`.
pub(crate) fn shown(meta: &StreamMeta) -> Vec<String> {
    let stored = stored_schema(meta);
    let names = || stored.fields().iter().map(|f| f.name().as_str());
    let last = [ID, REST, SEQ];
    let mut shown: Vec<String> = Vec::new();
    if meta.kind != StreamKind::Access {
        shown.push(TIME.to_owned());
    }
    shown.extend(
        names()
            .filter(|n| !last.contains(n) && (meta.kind == StreamKind::Access || *n != TIME))
            .map(str::to_owned),
    );
    shown.extend(names().filter(|n| *n == REST).map(str::to_owned));
    shown
}

/// Returns the number of columns that queries see of a stream, with `_id`.
pub fn column_count(meta: &StreamMeta) -> usize {
    shown(meta).len() + 1
}

/// Returns the expressions of the view over a stream's stored columns, in the order of `SELECT
/// *`; `_seq` is last if `with_seq`.
pub(crate) fn view(
    meta: &StreamMeta,
    prefix: [u8; 6],
    relation: Option<&TableReference>,
    with_seq: bool,
) -> Vec<Expr> {
    let column = |name: &str| Expr::Column(PlanColumn::new(relation.cloned(), name));
    let made = ScalarUDF::new_from_impl(ObjectIdOf::new(prefix)).call(vec![column(SEQ)]);
    let id = if meta.column_type(ID).is_some() {
        coalesce(vec![column(ID), made])
    } else {
        made
    };
    let mut exprs = vec![id.alias(ID)];
    for name in shown(meta) {
        if meta.kind == StreamKind::Access && name == "request" {
            let parts = ["request", "method", "path", "query", "protocol"]
                .map(column)
                .to_vec();
            exprs.push(
                ScalarUDF::new_from_impl(RequestLine::new())
                    .call(parts)
                    .alias("request"),
            );
        } else {
            exprs.push(column(&name));
        }
    }
    if with_seq {
        exprs.push(column(SEQ));
    }
    exprs
}

/// Cache of views. It is emptied when it is full.
#[derive(Debug, Default)]
pub(crate) struct Views {
    /// Views by name of the stream, and by whether `_seq` is visible.
    known: Mutex<HashMap<(Name, bool), Arc<StreamView>>>,
}

/// View of one stream.
#[derive(Debug)]
struct StreamView {
    /// Kind, columns and ID prefix from which the view was built.
    kind: StreamKind,
    columns: Vec<Column>,
    id_prefix: [u8; 6],
    relation: TableReference,
    stored: SchemaRef,
    /// The stored columns, qualified with the stream's name.
    scanned: DFSchemaRef,
    exprs: Vec<Expr>,
    seen: DFSchemaRef,
}

impl StreamView {
    fn new(
        snapshot: &Arc<Snapshot>,
        name: &Name,
        meta: &StreamMeta,
        with_seq: bool,
    ) -> Result<Self> {
        let relation = TableReference::bare(name.as_str());
        let id_prefix = snapshot.manifest().id_prefix();
        let mut exprs = view(meta, id_prefix, Some(&relation), with_seq);
        if meta.kind == StreamKind::Quarantine {
            let seq = Expr::Column(PlanColumn::new(Some(relation.clone()), SEQ));
            let state = ScalarUDF::new_from_impl(StateOf::new(snapshot));
            exprs.push(state.call(vec![seq]).alias(STATE));
        }
        let stored = stored_schema(meta);
        let scanned = DFSchema::try_from_qualified_schema(relation.clone(), &stored)?;
        let scanned = Arc::new(scanned);
        let rows = LogicalPlan::EmptyRelation(EmptyRelation {
            produce_one_row: false,
            schema: Arc::clone(&scanned),
        });
        Ok(Self {
            kind: meta.kind,
            columns: meta.columns.clone(),
            id_prefix,
            relation,
            stored,
            scanned,
            seen: Projection::try_new(exprs.clone(), Arc::new(rows))?.schema,
            exprs,
        })
    }

    fn is_of(&self, snapshot: &Snapshot, meta: &StreamMeta) -> bool {
        self.kind == meta.kind
            && self.columns == meta.columns
            && self.id_prefix == snapshot.manifest().id_prefix()
    }

    /// Returns the plan of the view over a scan of the stored rows.
    fn over(&self, stored: StreamTable) -> Result<LogicalPlan> {
        // The node is the same as DataFusion's builder makes, but with a cached schema.
        let scan = TableScan {
            table_name: self.relation.clone(),
            source: provider_as_source(Arc::new(stored)),
            projection: None,
            projected_schema: Arc::clone(&self.scanned),
            filters: Vec::new(),
            fetch: None,
            statistics_requests: BTreeSet::new(),
        };
        let scan = Arc::new(LogicalPlan::TableScan(scan));
        let (exprs, seen) = (self.exprs.clone(), Arc::clone(&self.seen));
        let seen = Projection::try_new_with_schema(exprs, scan, seen)?;
        Ok(LogicalPlan::Projection(seen))
    }
}

impl Views {
    fn of(
        &self,
        snapshot: &Arc<Snapshot>,
        name: &Name,
        meta: &StreamMeta,
        with_seq: bool,
    ) -> Result<Arc<StreamView>> {
        // The state of quarantined items depends on the snapshot, so this view is not cached.
        if meta.kind == StreamKind::Quarantine {
            return Ok(Arc::new(StreamView::new(snapshot, name, meta, with_seq)?));
        }
        let which = (name.clone(), with_seq);
        if let Some(view) = self.known.lock().get(&which)
            && view.is_of(snapshot, meta)
        {
            return Ok(Arc::clone(view));
        }
        let view = Arc::new(StreamView::new(snapshot, name, meta, with_seq)?);
        let mut known = self.known.lock();
        if known.len() >= KEPT {
            known.clear();
        }
        known.insert(which, Arc::clone(&view));
        Ok(view)
    }
}

/// Returns the table that queries see under a stream's name; `None` if there is no such stream.
pub(crate) fn table(
    snapshot: &Arc<Snapshot>,
    name: &Name,
    files: &Files,
    levels: Option<Arc<StreamRollups>>,
    with_seq: bool,
) -> Result<Option<Arc<dyn TableProvider>>> {
    let Some(meta) = snapshot.streams().get(name) else {
        return Ok(None);
    };
    let view = files.views.of(snapshot, name, meta, with_seq)?;
    let plan = view.over(StreamTable {
        snapshot: snapshot.clone(),
        name: name.clone(),
        schema: Arc::clone(&view.stored),
        files: files.clone(),
        levels,
    })?;
    Ok(Some(Arc::new(ViewTable::new(plan, None))))
}
