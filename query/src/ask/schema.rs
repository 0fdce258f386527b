//! The fields of a stream: its columns, and the values in `_rest` under their names and others.
//!
//! Counts are exact, of one state of the stores: a column by its values, `_rest` by a scan of that
//! column alone.

use std::collections::BTreeMap;

use arrow::array::AsArray;
use arrow::datatypes::{Int64Type, TimestampMicrosecondType};
use serde::{Deserialize, Serialize};
use storage::{Name, REST, StreamMeta, TIME};

use crate::answer::output::type_name;
use crate::ask::sql_text::quoted;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::question::{Parameters, Session, Sources};
use crate::tables::sharded::agreed_stream;
use crate::tables::stream::{shown, stored_schema};

/// Maximum columns that one query counts.
const COLUMNS_AT_ONCE: usize = 64;
/// Maximum fields listed that are in `_rest` alone, the most frequent first.
pub const REST_FIELDS_MAX: usize = 1000;

/// One field of a stream.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FieldInfo {
    /// Dotted name.
    pub name: String,
    /// Type of the column; for a field without a column, the type of most of its values.
    #[serde(rename = "type")]
    pub field_type: String,
    /// True for a field without a column: `attr(_rest, …)` reads it.
    pub in_rest: bool,
    /// Events that have a value of the field, of whatever type.
    pub values: u64,
    /// Share of `values` in all events.
    pub share: f64,
    /// Values of other types than `type`, by type: `attr_type(_rest, …)` returns them.
    pub conflicts: BTreeMap<String, u64>,
    /// Arrival of the batch that added the column, microseconds since 1970, where this store has
    /// it; for a field without a column, the least time of an event that has it.
    pub first_us: Option<i64>,
}

/// The fields of a stream.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SchemaInfo {
    /// Name of the stream.
    pub stream: String,
    /// Number of its events.
    pub events: u64,
    /// Fields: the columns in their order, then the fields of `_rest`.
    pub fields: Vec<FieldInfo>,
    /// Number of fields in `_rest` that are not listed.
    pub fields_omitted: u64,
}

/// Values in `_rest` under one name.
#[derive(Debug, Default)]
struct InRest {
    types: BTreeMap<String, u64>,
    first_us: Option<i64>,
}

/// Describes a stream; `None` when no stream has this name.
///
/// # Errors
/// The errors of the queries that count.
pub async fn schema(
    engine: &Engine,
    session: &Session,
    sources: Sources,
    stream: &Name,
) -> Result<Option<SchemaInfo>> {
    let own = sources.snapshot.streams().get(stream).cloned();
    let peers = sources.peers().iter();
    let theirs = peers.filter_map(|peer| peer.tables().streams.get(stream));
    let Some(meta) = agreed_stream(own.as_ref(), theirs)? else {
        return Ok(None);
    };
    let asked = StreamState {
        engine,
        session,
        sources,
        stream,
    };
    let own_names = own.as_ref().map(shown).unwrap_or_default();
    let names: Vec<String> = shown(&meta).into_iter().filter(|n| n != REST).collect();
    let (events, counts) = asked.counts(&names).await?;
    let mut rest = match meta.column_type(REST) {
        Some(_) => asked.rest().await?,
        None => BTreeMap::new(),
    };
    let columns = names.iter().zip(counts);
    let mut fields: Vec<FieldInfo> = columns
        .map(|(name, count)| {
            let mut field = of_column(&meta, name, count, rest.remove(name).unwrap_or_default());
            field.first_us = field.first_us.filter(|_| own_names.contains(name));
            field
        })
        .collect();
    let mut others: Vec<FieldInfo> = rest.into_iter().map(|(name, r)| of_rest(name, r)).collect();
    others.sort_by(|a, b| b.values.cmp(&a.values).then_with(|| a.name.cmp(&b.name)));
    let fields_omitted = others.len().saturating_sub(REST_FIELDS_MAX) as u64;
    others.truncate(REST_FIELDS_MAX);
    fields.append(&mut others);
    for field in &mut fields {
        field.share = field.values as f64 / events.max(1) as f64;
    }
    Ok(Some(SchemaInfo {
        stream: stream.to_string(),
        events,
        fields,
        fields_omitted,
    }))
}

fn of_column(meta: &StreamMeta, name: &str, count: u64, rest: InRest) -> FieldInfo {
    let schema = stored_schema(meta);
    let data_type = schema
        .field_with_name(name)
        .map(|f| type_name(f.data_type()));
    let first_us = meta.columns.iter().find(|c| &*c.name == name);
    // Every event has a time, even one whose own `time` was not valid and is in `_rest`.
    let others = if name == TIME {
        0
    } else {
        rest.types.values().sum()
    };
    FieldInfo {
        name: name.to_owned(),
        field_type: data_type.map(|t| t.to_string()).unwrap_or_default(),
        in_rest: false,
        values: count + others,
        share: 0.0,
        conflicts: rest.types,
        first_us: Some(first_us.and_then(|c| c.first_us).unwrap_or(meta.created_us)),
    }
}

fn of_rest(name: String, mut rest: InRest) -> FieldInfo {
    let values = rest.types.values().sum();
    let most = rest.types.iter().max_by_key(|(_, count)| **count);
    let field_type = most.map(|(kind, _)| kind.clone()).unwrap_or_default();
    rest.types.remove(&field_type);
    FieldInfo {
        name,
        field_type,
        in_rest: true,
        values,
        share: 0.0,
        conflicts: rest.types,
        first_us: rest.first_us,
    }
}

/// One stream in one state of its stores.
struct StreamState<'a> {
    engine: &'a Engine,
    session: &'a Session,
    sources: Sources,
    stream: &'a Name,
}

impl StreamState<'_> {
    async fn ask(&self, sql: &str) -> Result<arrow::array::RecordBatch> {
        let (sources, none) = (self.sources.clone(), Parameters::None);
        let answer = self.engine.ask(sources, self.session, sql.into(), none);
        let answer = answer.await?;
        let (schema, batches, _) = answer.collect().await?;
        arrow::compute::concat_batches(&schema, &batches).map_err(|e| Error::Execution(e.into()))
    }

    /// Returns the number of events, and of the values of each column.
    async fn counts(&self, names: &[String]) -> Result<(u64, Vec<u64>)> {
        let mut counts = Vec::with_capacity(names.len());
        let mut events = 0;
        for names in names.chunks(COLUMNS_AT_ONCE) {
            let asked: Vec<String> = names
                .iter()
                .enumerate()
                .map(|(i, name)| format!(", count({}) AS c{i}", quoted(name)))
                .collect();
            let sql = format!(
                "SELECT count(*) AS n{} FROM {}",
                asked.concat(),
                self.stream
            );
            let row = self.ask(&sql).await?;
            let numbers = row.columns().iter().map(|c| c.as_primitive::<Int64Type>());
            let mut numbers = numbers.map(|c| c.value(0).cast_unsigned());
            events = numbers.next().unwrap_or(0);
            counts.extend(numbers);
        }
        Ok((events, counts))
    }

    async fn rest(&self) -> Result<BTreeMap<String, InRest>> {
        let sql = format!(
            "SELECT arrow_cast(name, 'Utf8') AS name, arrow_cast(kind, 'Utf8') AS kind, \
             count(*) AS n, min(time) AS first FROM (SELECT name, attr_type(_rest, name) AS kind, time \
             FROM (SELECT _rest, time, unnest(attr_fields(_rest)) AS name FROM {})) GROUP BY 1, 2",
            self.stream
        );
        let rows = self.ask(&sql).await?;
        let (names, kinds) = (
            rows.column(0).as_string::<i32>(),
            rows.column(1).as_string::<i32>(),
        );
        let counts = rows.column(2).as_primitive::<Int64Type>();
        let firsts = rows.column(3).as_primitive::<TimestampMicrosecondType>();
        let mut found: BTreeMap<String, InRest> = BTreeMap::new();
        for row in 0..rows.num_rows() {
            let field = found.entry(names.value(row).to_owned()).or_default();
            let count = counts.value(row).cast_unsigned();
            field.types.insert(kinds.value(row).to_owned(), count);
            let first = firsts.value(row);
            field.first_us = Some(field.first_us.map_or(first, |known| known.min(first)));
        }
        Ok(found)
    }
}
