//! Builds the text of random questions from the columns that a rollup knows.

use aggregator::{Definition, KeyType, MeasureKind};

use super::Draw;
use super::rows::Cell;
use crate::ask::sql_text::{quoted, stamp};

/// Rows from which values of keys are taken.
const SAMPLED: usize = 16;

/// Zones of functions of time, besides the zone of the rollup.
const ZONES: [&str; 3] = ["Europe/Berlin", "Asia/Kolkata", "Australia/Lord_Howe"];
const UNITS: [&str; 5] = ["minute", "hour", "day", "week", "month"];
const WIDTHS: [&str; 5] = ["15 minutes", "1 hour", "6 hours", "1 day", "1 week"];

/// The columns, values and times that a question may contain.
pub(super) struct Ground {
    stream: String,
    /// Range of time, half-open.
    range: (i64, i64),
    keys: Vec<KeyWords>,
    /// Columns of integers that the rollup aggregates.
    numbers: Vec<String>,
    zone: String,
}

struct KeyWords {
    column: String,
    is_text: bool,
    /// Some values of the key, as constants.
    values: Vec<String>,
}

impl Ground {
    pub(super) fn of(definition: &Definition, range: (i64, i64)) -> Self {
        let keys = definition.by().iter().filter(|key| key.expr.is_none());
        let keys = keys.map(|key| KeyWords {
            column: quoted(&key.name),
            is_text: key.key_type == KeyType::Text,
            values: Vec::new(),
        });
        let measures = definition.measures().iter();
        let numbers = measures.filter_map(|measure| match &measure.kind {
            MeasureKind::Sum(number)
            | MeasureKind::Min(number)
            | MeasureKind::Max(number)
            | MeasureKind::Histogram { field: number, .. } => {
                (!number.scaled).then(|| quoted(&number.field))
            }
            _ => None,
        });
        Self {
            stream: quoted(definition.stream().as_str()),
            range,
            keys: keys.collect(),
            numbers: numbers.collect(),
            zone: definition.timezone().name().to_owned(),
        }
    }

    /// Returns the statement that reads some values of the keys, if there are keys.
    pub(super) fn sample(&self) -> Option<String> {
        let columns: Vec<&str> = self.keys.iter().map(|k| k.column.as_str()).collect();
        (!columns.is_empty()).then(|| {
            format!(
                "SELECT {} {} FROM {} WHERE {} LIMIT {SAMPLED}",
                super::RAW,
                columns.join(", "),
                self.stream,
                self.within()
            )
        })
    }

    pub(super) fn learn(&mut self, rows: Vec<Vec<Cell>>) {
        for row in rows {
            for (key, cell) in self.keys.iter_mut().zip(row) {
                let value = match cell {
                    Cell::Other(text) if key.is_text => format!("'{}'", text.replace('\'', "''")),
                    Cell::Other(number) => number,
                    _ => continue,
                };
                if !key.values.contains(&value) {
                    key.values.push(value);
                }
            }
        }
    }

    fn within(&self) -> String {
        let (from, to) = (stamp(self.range.0), stamp(self.range.1));
        format!("time >= {from} AND time < {to}")
    }

    fn zone<'a>(&'a self, draw: &mut Draw) -> &'a str {
        match draw.below(2) {
            0 => &self.zone,
            _ => ZONES[draw.below(ZONES.len())],
        }
    }

    /// Returns an expression over time.
    fn of_time(&self, draw: &mut Draw, time: &str) -> String {
        let (unit, width, zone) = (*draw.of(&UNITS), *draw.of(&WIDTHS), self.zone(draw));
        match draw.below(9) {
            0..3 => format!("date_trunc('{unit}', {time})"),
            3 => format!("date_trunc('{unit}', {time} AT TIME ZONE '{zone}')"),
            4 => format!("time_bucket('{width}', {time})"),
            5 => format!("time_bucket('{width}', {time}, '{zone}')"),
            6 => format!("date_bin(INTERVAL '{width}', {time})"),
            7 => format!("CAST({time} AS DATE)"),
            _ => format!("date_part('{unit}', {time})"),
        }
    }

    /// Returns a comparison of time.
    fn on_time(&self, draw: &mut Draw) -> String {
        let width = self.range.1.saturating_sub(self.range.0).max(1);
        let mut moment = || {
            let within = draw.wide(u64::try_from(width).unwrap_or(1));
            stamp(
                self.range
                    .0
                    .saturating_add(i64::try_from(within).unwrap_or(0)),
            )
        };
        let (moment, other) = (moment(), moment());
        let number = draw.below(24);
        match draw.below(8) {
            0 => format!("time >= {moment}"),
            1 => format!("time NOT BETWEEN {moment} AND {other}"),
            2 => format!("extract(hour FROM time) = {number}"),
            3 => format!("extract(minute FROM time) >= {number}"),
            4 => format!("to_char(time, '%H') <> '{number:02}'"),
            5 => format!("CAST(time AS DATE) = CAST({moment} AS DATE)"),
            _ => {
                let compared = *draw.of(&["=", "=", "<>", "<", ">="]);
                let seed = draw.0;
                let left = self.of_time(draw, "time");
                let right = self.of_time(&mut Draw(seed), &moment);
                format!("{left} {compared} {right}")
            }
        }
    }

    fn on_key(&self, draw: &mut Draw) -> Option<String> {
        if self.keys.is_empty() {
            return None;
        }
        let KeyWords {
            column,
            is_text,
            values,
        } = draw.of(&self.keys);
        if values.is_empty() {
            return Some(format!("{column} IS NULL"));
        }
        let (value, other) = (draw.of(values), draw.of(values));
        Some(match draw.below(8) {
            0..3 => format!("{column} = {value}"),
            3 => format!("{column} <> {value}"),
            4 => format!("{column} IN ({value}, {other})"),
            5 => format!("{column} IS NOT NULL"),
            6 if *is_text => format!("{column} LIKE '%1%'"),
            _ => format!("{column} >= {value}"),
        })
    }

    fn condition(&self, draw: &mut Draw) -> String {
        let term = |draw: &mut Draw| match draw.below(2) {
            0 => self.on_time(draw),
            _ => self.on_key(draw).unwrap_or_else(|| self.on_time(draw)),
        };
        let first = term(draw);
        match draw.below(6) {
            0 => format!("({first} OR {})", term(draw)),
            1 => format!("NOT ({first} AND {})", term(draw)),
            2 => format!("{first} AND {}", term(draw)),
            _ => first,
        }
    }

    fn aggregate(&self, draw: &mut Draw) -> String {
        let number = match self.numbers.is_empty() {
            true => None,
            false => Some(draw.of(&self.numbers)),
        };
        match (draw.below(9), number) {
            (0, Some(number)) => format!("sum({number})"),
            (1, Some(number)) => format!("min({number})"),
            (2, Some(number)) => format!("max({number})"),
            (3, Some(number)) => format!("count({number})"),
            (4, _) => format!("count(*) FILTER (WHERE {})", self.condition(draw)),
            (5, _) => format!("sum(CASE WHEN {} THEN 1 ELSE 0 END)", self.condition(draw)),
            _ => "count(*)".to_owned(),
        }
    }
}

/// Returns a statement whose two answers have to be equal.
pub(super) fn question(ground: &Ground, draw: &mut Draw) -> String {
    let mut columns = Vec::new();
    for _ in 0..draw.below(3) {
        columns.push(match draw.below(2) {
            1 if !ground.keys.is_empty() => draw.of(&ground.keys).column.clone(),
            _ => ground.of_time(draw, "time"),
        });
    }
    let groups: Vec<String> = (1..=columns.len()).map(|n| n.to_string()).collect();
    for _ in 0..1 + draw.below(2) {
        columns.push(ground.aggregate(draw));
    }
    let columns = columns.iter().enumerate();
    let columns: Vec<String> = columns.map(|(nth, c)| format!("{c} AS c{nth}")).collect();
    let mut sql = format!(
        "SELECT {} FROM {} WHERE {}",
        columns.join(", "),
        ground.stream,
        ground.within()
    );
    if draw.below(3) > 0 {
        sql += &format!(" AND {}", ground.condition(draw));
    }
    if !groups.is_empty() {
        sql += &format!(" GROUP BY {}", groups.join(", "));
    }
    sql
}
