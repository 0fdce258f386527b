//! The sample: the last events of a stream's newest day, as numbers for the values that they have.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use aggregator::{Cursor, Definition, Key, Level};
use arrow::array::{AsArray, RecordBatch, StringArray};
use arrow::datatypes::{Int64Type, TimestampMicrosecondType, UInt64Type};
use futures::StreamExt;
use storage::{Name, Snapshot, StreamMeta, shard_hash};

use crate::ask::sql_text::{quoted, stamp};
use crate::engine::Engine;
use crate::error::{Error, Fault, Result};
use crate::tables::system::SystemInfo;

/// The most events of a sample. That of tests is small, so that theirs are cut.
const EVENTS_MAX: u64 = if cfg!(test) { 3_000 } else { 200_000 };
/// The most bytes of all values of a sample, each counted once.
const VALUE_BYTES_MAX: usize = 256 << 20;
/// The longest value that is kept whole, bytes; of longer ones a hash.
const KEPT_BYTES_MAX: usize = 256;
/// Bytes of a value beside its text.
const VALUE_BYTES: usize = 64;
/// Microseconds of a minute and of a day.
const MINUTE_US: i64 = 60_000_000;
const DAY_US: i64 = 86_400_000_000;
/// The levels whose buckets a sample can fill.
const LEVELS: [Level; 3] = [Level::Minute, Level::Hour, Level::Day];

/// The values of a field or of an expression, each as a number from 0.
#[derive(Debug, Default)]
pub(super) struct ValueColumn {
    /// The values in the order of their numbers.
    pub(super) values: Vec<Option<Arc<str>>>,
    /// The number of each event's value.
    pub(super) rows: Vec<u32>,
    numbers: HashMap<Option<Arc<str>>, u32>,
}

impl ValueColumn {
    /// Adds the value of an event. Returns the bytes that it takes.
    fn push(&mut self, value: Option<&str>) -> usize {
        let value: Option<Arc<str>> = value.map(|text| match text.len() <= KEPT_BYTES_MAX {
            true => text.into(),
            false => {
                let head: String = text.chars().take(KEPT_BYTES_MAX / 8).collect();
                format!("{head}… {:016x}", shard_hash(0, Some(text.as_bytes()))).into()
            }
        });
        let mut bytes = 0;
        let number = *self.numbers.entry(value).or_insert_with_key(|value| {
            bytes = VALUE_BYTES + value.as_ref().map_or(0, |text| text.len());
            self.values.push(value.clone());
            self.values.len() as u32 - 1
        });
        self.rows.push(number);
        bytes
    }
}

/// The events of a sample. All columns have one value for each event.
#[derive(Debug)]
pub(super) struct EventSample {
    range: (i64, i64),
    /// The number of the minute of each event.
    pub(super) minutes: Vec<u32>,
    /// The number of the hour of each event, since 1970.
    pub(super) hours: Vec<i64>,
    pub(super) seqs: Vec<u64>,
    /// The events in the order of their arrival.
    pub(super) arrival: Vec<u32>,
    pub(super) fields: BTreeMap<String, ValueColumn>,
    /// The cell of each event as a number from 0, for each level of each rollup.
    pub(super) cells: Vec<(Level, Vec<u32>)>,
}

impl EventSample {
    /// Makes the sample of rows with these fields, and the cells of these rollups.
    pub(super) fn new(
        rows: SampleRows,
        fields: &BTreeSet<String>,
        rollups: &[Arc<Definition>],
    ) -> Self {
        let SampleRows {
            range,
            expressions,
            times,
            seqs,
            columns,
        } = rows;
        let by_expression = {
            let names = expressions.iter().map(String::as_str);
            names.zip(&columns).collect()
        };
        let cells = cells(&times, rollups, &by_expression);
        let mut arrival: Vec<u32> = (0..times.len() as u32).collect();
        arrival.sort_unstable_by_key(|row| seqs[*row as usize]);
        let minutes = times.iter().map(|time| time.div_euclid(MINUTE_US));
        let first = minutes.clone().min().unwrap_or(0);
        Self {
            range,
            minutes: minutes.map(|minute| (minute - first) as u32).collect(),
            hours: times.iter().map(|t| t.div_euclid(60 * MINUTE_US)).collect(),
            seqs,
            arrival,
            fields: fields.iter().cloned().zip(columns).collect(),
            cells,
        }
    }

    /// Returns the times of the sample, half-open.
    pub(super) fn range(&self) -> (i64, i64) {
        self.range
    }

    pub(super) fn events(&self) -> u64 {
        self.seqs.len() as u64
    }
}

/// Returns the cells of events at each level of each rollup: numbers that are equal where bucket
/// and keys are.
fn cells(
    times: &[i64],
    rollups: &[Arc<Definition>],
    columns: &HashMap<&str, &ValueColumn>,
) -> Vec<(Level, Vec<u32>)> {
    let mut found = Vec::new();
    for definition in rollups {
        let by = definition.by().iter();
        let by: Vec<_> = by.filter_map(|key| columns.get(&*spelled(key))).collect();
        for level in LEVELS {
            if !definition.levels().contains(&level) {
                continue;
            }
            let mut cursor = Cursor::new(definition.calendar());
            let mut numbers: HashMap<(i64, Vec<u32>), u32> = HashMap::new();
            let cell = |(row, time): (usize, &i64)| {
                let bucket = cursor.bucket(level, *time).start_us;
                let next = numbers.len() as u32;
                let keys = by.iter().map(|column| column.rows[row]).collect();
                *numbers.entry((bucket, keys)).or_insert(next)
            };
            found.push((level, times.iter().enumerate().map(cell).collect()));
        }
    }
    found
}

/// Returns the values of a key as SQL.
fn spelled(key: &Key) -> String {
    match &key.expr {
        Some(expression) => expression.to_string(),
        None => quoted(&key.name),
    }
}

/// The rows of a sample as they are read.
pub(super) struct SampleRows {
    range: (i64, i64),
    /// The columns as SQL: the fields, then the other keys of rollups.
    expressions: Vec<String>,
    times: Vec<i64>,
    seqs: Vec<u64>,
    columns: Vec<ValueColumn>,
}

impl SampleRows {
    /// Reads the sample of a stream that exists, with these fields and the keys of its rollups.
    pub(super) async fn read(
        engine: &Engine,
        (snapshot, system): (Arc<Snapshot>, Arc<dyn SystemInfo>),
        (stream, meta): (&Name, &StreamMeta),
        fields: &BTreeSet<String>,
        rollups: &[Arc<Definition>],
    ) -> Result<Self> {
        let reader = SampleReader {
            engine,
            snapshot,
            system,
            stream: quoted(stream.as_str()),
        };
        let mut expressions: Vec<String> = fields.iter().map(|field| quoted(field)).collect();
        let keys = rollups.iter().flat_map(|definition| definition.by());
        // Without a column, all its values are null and tell no cells apart.
        for key in keys.filter(|key| meta.column_type(key.value().field()).is_some()) {
            let expression = spelled(key);
            if !expressions.contains(&expression) {
                expressions.push(expression);
            }
        }
        let range = reader.range().await?;
        reader.rows(range, expressions).await
    }
}

struct SampleReader<'a> {
    engine: &'a Engine,
    snapshot: Arc<Snapshot>,
    system: Arc<dyn SystemInfo>,
    stream: String,
}

impl SampleReader<'_> {
    async fn ask(&self, sql: &str, mut take: impl FnMut(&RecordBatch) -> Result<()>) -> Result<()> {
        let (snapshot, system) = (Arc::clone(&self.snapshot), Arc::clone(&self.system));
        let mut answer = self.engine.sql(snapshot, system, sql, None).await?;
        while let Some(batch) = answer.stream.next().await {
            take(&batch?)?;
        }
        Ok(())
    }

    /// Returns the last minutes of the newest day that have [`EVENTS_MAX`] events at most, and the
    /// newest minute in any case.
    async fn range(&self) -> Result<(i64, i64)> {
        let mut last = None;
        let newest = format!("SELECT max(time) FROM {}", self.stream);
        self.ask(&newest, |batch| {
            let times = batch.column(0).as_primitive::<TimestampMicrosecondType>();
            last = times.iter().flatten().next().or(last);
            Ok(())
        })
        .await?;
        let Some(last) = last else {
            return Ok((0, 0));
        };
        let day = last.div_euclid(DAY_US) * DAY_US;
        let minutes = format!(
            "SELECT date_trunc('minute', time) AS minute, count(*) AS n FROM {} \
             WHERE time >= {} GROUP BY 1",
            self.stream,
            stamp(day)
        );
        let mut counts = BTreeMap::new();
        self.ask(&minutes, |batch| {
            let minutes = batch.column(0).as_primitive::<TimestampMicrosecondType>();
            let numbers = batch.column(1).as_primitive::<Int64Type>();
            let rows = minutes.values().iter().zip(numbers.values());
            counts.extend(rows.map(|(minute, n)| (*minute, n.cast_unsigned())));
            Ok(())
        })
        .await?;
        let mut newest_first = counts.into_iter().rev();
        let (mut from, mut events) = newest_first.next().unwrap_or((last, 0));
        for (minute, n) in newest_first {
            events += n;
            if events > EVENTS_MAX {
                break;
            }
            from = minute;
        }
        Ok((from, last + 1))
    }

    async fn rows(&self, range: (i64, i64), expressions: Vec<String>) -> Result<SampleRows> {
        // In their stored order, the first rows can be those of a few hosts.
        let texts = expressions.iter().enumerate();
        let texts = texts.map(|(n, e)| format!(", arrow_cast({e}, 'Utf8') AS value{n}"));
        let sql = format!(
            "SELECT time, _seq{} FROM {} WHERE time >= {} AND time < {} \
             ORDER BY _seq DESC LIMIT {EVENTS_MAX}",
            texts.collect::<String>(),
            self.stream,
            stamp(range.0),
            stamp(range.1)
        );
        let (mut times, mut seqs, mut bytes) = (Vec::new(), Vec::new(), 0);
        let mut columns: Vec<ValueColumn> = Vec::new();
        columns.resize_with(expressions.len(), ValueColumn::default);
        self.ask(&sql, |batch| {
            let time = batch.column(0).as_primitive::<TimestampMicrosecondType>();
            times.extend_from_slice(time.values());
            seqs.extend_from_slice(batch.column(1).as_primitive::<UInt64Type>().values());
            for (column, values) in columns.iter_mut().zip(&batch.columns()[2..]) {
                let values: &StringArray = values.as_string();
                bytes += values.iter().map(|value| column.push(value)).sum::<usize>();
            }
            match bytes > VALUE_BYTES_MAX {
                true => Err(Error::of_fault(
                    Fault::Other,
                    "the values of the keys take too much memory; measure a stream with shorter ones",
                )),
                false => Ok(()),
            }
        })
        .await?;
        Ok(SampleRows {
            range,
            expressions,
            times,
            seqs,
            columns,
        })
    }
}
