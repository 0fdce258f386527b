//! The objects of a catalog, for the schemas `pg_catalog` and `information_schema`.

use std::sync::Arc;

use aggregator::Level;
use arrow::datatypes::FieldRef;
use datafusion::catalog::SchemaProvider;
use datafusion::datasource::{TableProvider, TableType};
use storage::{Name, Snapshot};

use super::{Catalog, Inner, SYSTEM, SchemaKind, TablesOf};
use crate::postgres::comments;
use crate::postgres::objects::{ColumnObject, Objects, TableObject};

impl Inner {
    /// Returns all schemas, tables and columns that the client sees.
    pub(super) fn objects(self: &Arc<Self>) -> Arc<Objects> {
        let objects = self.objects.get_or_init(|| Arc::new(made(self)));
        Arc::clone(objects)
    }
}

impl Catalog {
    /// Returns the names of a rollup's keys; `None` when there is none of that name.
    pub(crate) fn keys_of(&self, rollup: &str) -> Option<Vec<String>> {
        let keys = self.inner.rollup(rollup)?.definition.by().iter();
        Some(keys.map(|key| key.name.clone()).collect())
    }
}

fn made(inner: &Arc<Inner>) -> Objects {
    let public = inner.public_name();
    let mut schemas = vec![
        (public.to_owned(), Some("Streams of events".to_owned())),
        (SYSTEM.to_owned(), Some("State of the store".to_owned())),
    ];
    let mut tables = Vec::new();
    tables.extend(of(inner, SchemaKind::Streams, public));
    tables.extend(of(inner, SchemaKind::System, SYSTEM));
    for rollup in inner.rollups() {
        let name = rollup.meta.name.to_string();
        let kind = SchemaKind::Rollup(Box::new(rollup.clone()));
        tables.extend(of(inner, kind, &name));
        schemas.push((name, Some(comments::rollup(&rollup.definition))));
    }
    Objects::new(schemas, tables)
}

/// Returns the tables of a schema. A table that cannot be read now is not listed.
fn of(inner: &Arc<Inner>, kind: SchemaKind, schema: &str) -> Vec<TableObject> {
    let tables = TablesOf {
        inner: Arc::clone(inner),
        kind,
    };
    let names = tables.table_names().into_iter();
    let provided = names.filter_map(|name| {
        let table = tables.named(&name).ok().flatten()?;
        Some((name, table))
    });
    provided
        .map(|(name, table)| object(inner, &tables.kind, schema, (name, &table)))
        .collect()
}

fn object(
    inner: &Inner,
    kind: &SchemaKind,
    schema: &str,
    (name, table): (String, &Arc<dyn TableProvider>),
) -> TableObject {
    let mut object = TableObject {
        oid: 0,
        schema: schema.to_owned(),
        // A stream is stored, although some of its columns are computed when it is read.
        is_view: matches!(kind, SchemaKind::Rollup(_)) && table.table_type() != TableType::Base,
        columns: Vec::new(),
        comment: None,
        rows: None,
        bytes: 0,
        name,
    };
    let fields = table.schema();
    let columns = |comment: &dyn Fn(&FieldRef) -> Option<String>| {
        let fields = fields.fields().iter();
        fields.map(|f| ColumnObject::new(f, comment(f))).collect()
    };
    match kind {
        SchemaKind::Streams => {
            let meta = inner.snapshot.streams().iter();
            let mut meta = meta.filter(|(name, _)| name.as_str() == object.name);
            let Some((name, meta)) = meta.next() else {
                object.columns = columns(&|_| None);
                return object;
            };
            object.columns = columns(&|field| {
                let comment = comments::stream_column(meta.kind, field.name());
                comment.map(str::to_owned)
            });
            object.comment = Some(comments::stream(name, meta));
            (object.rows, object.bytes) = sizes(&inner.snapshot, name);
        }
        SchemaKind::Rollup(rollup) => {
            let definition = &rollup.definition;
            object.columns = columns(&|f| comments::level_column(definition, f.name()));
            object.comment =
                Level::from_table(&object.name).map(|level| comments::level(definition, level));
            object.bytes = match Level::from_table(&object.name) {
                Some(level) => level_bytes(&inner.snapshot, rollup.meta.id, level),
                None => 0,
            };
        }
        SchemaKind::System | SchemaKind::Own(_) => object.columns = columns(&|_| None),
    }
    object
}

/// Returns the rows of a stream, and the bytes of its files and its memtable.
fn sizes(snapshot: &Snapshot, stream: &Name) -> (Option<u64>, u64) {
    let (mut rows, mut bytes) = (0, 0);
    for part in snapshot.manifest().parts_of(stream) {
        rows += part.rows;
        bytes += part.file.len;
    }
    for chunk in snapshot.chunks(stream.as_str()) {
        rows += chunk.events.num_rows() as u64;
        bytes += chunk.bytes() as u64;
    }
    (Some(rows), bytes)
}

/// Returns the bytes of the sections of a level.
fn level_bytes(snapshot: &Snapshot, rollup: u32, level: Level) -> u64 {
    let tiles = snapshot.manifest().tiles.iter();
    let files = tiles
        .filter(|tile| tile.rollup == rollup)
        .flat_map(|tile| &tile.files);
    let sections = files.flat_map(|file| &file.sections);
    let of_level = sections.filter(|section| section.level == level.as_str());
    of_level.map(|section| section.len).sum()
}
