//! The columns of a level table, from the keys and measures of its rollup.

use arrow::datatypes::{DataType, Field, TimeUnit};

use super::key::Key;
use super::measure::{Measure, MeasureKind};
use crate::calendar::Level;
use crate::state::{STATE, StateKind};

/// The quantiles of a histogram that have a column.
pub(crate) const QUANTILES: [(&str, f64); 4] =
    [("p50", 0.5), ("p90", 0.9), ("p95", 0.95), ("p99", 0.99)];

/// Returns the columns of a level in the order of `SELECT *`: `bucket`, `bucket_end`, the keys,
/// then those of each measure that the level has.
pub(crate) fn columns_at(by: &[Key], measures: &[Measure], level: Level) -> Vec<Field> {
    let time = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
    let mut fields = vec![
        Field::new("bucket", time.clone(), false),
        Field::new("bucket_end", time, false),
    ];
    let keys = by.iter();
    fields.extend(keys.map(|k| Field::new(&k.name, k.key_type.arrow(), true)));
    let measures = measures.iter().filter(|m| level >= m.from);
    fields.extend(measures.flat_map(columns_of));
    fields
}

/// Returns a column of states, marked with their kind.
fn state_field(name: String, kind: StateKind) -> Field {
    let mark = (STATE.to_owned(), kind.name().to_owned());
    Field::new(name, DataType::Binary, false).with_metadata([mark].into())
}

/// Returns the columns of one measure.
pub(crate) fn columns_of(measure: &Measure) -> Vec<Field> {
    let name = &measure.name;
    let value = |scaled: bool| {
        if scaled {
            DataType::Float64
        } else {
            DataType::Int64
        }
    };
    match &measure.kind {
        MeasureKind::Count => vec![Field::new(name, DataType::Int64, false)],
        MeasureKind::Sum(f) | MeasureKind::Min(f) | MeasureKind::Max(f) => {
            vec![Field::new(name, value(f.scaled), true)]
        }
        MeasureKind::Mean(_) | MeasureKind::Variance(_) => {
            vec![Field::new(name, DataType::Float64, true)]
        }
        MeasureKind::Histogram { field, .. } => {
            let own = |suffix: &str, data_type: DataType| {
                Field::new(format!("{name}_{suffix}"), data_type, true)
            };
            let mut fields = vec![
                Field::new(format!("{name}_count"), DataType::Int64, false),
                own("sum", value(field.scaled)),
                own("mean", DataType::Float64),
                own("min", value(field.scaled)),
                own("max", value(field.scaled)),
            ];
            fields.extend(
                QUANTILES
                    .iter()
                    .map(|(suffix, _)| own(suffix, value(field.scaled))),
            );
            fields.push(Field::new(
                format!("{name}_overflow"),
                DataType::Int64,
                false,
            ));
            fields.push(state_field(name.to_string(), StateKind::Histogram));
            fields
        }
        MeasureKind::Distinct { .. } => vec![
            Field::new(name, DataType::Int64, false),
            state_field(format!("{name}_state"), StateKind::Distinct),
        ],
    }
}
