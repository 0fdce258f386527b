//! Comments on tables and columns: their meaning and their units.

use aggregator::{Definition, Level, Measure, MeasureKind, Number};
use storage::{ID, Name, REST, SEQ, StreamKind, StreamMeta, TIME};

/// Returns the comment on a column of a stream.
pub(crate) fn stream_column(kind: StreamKind, name: &str) -> Option<&'static str> {
    match name {
        ID => return Some("Identifier of the event"),
        TIME => return Some("Time of the event"),
        SEQ => return Some("Number of the event in the order of the journal"),
        REST => return Some("Fields without a column of their own, as one document"),
        _ if kind != StreamKind::Access => return None,
        _ => {}
    }
    Some(match name {
        "host" => "Address or name of the client",
        "logname" => "Identity of the client by RFC 1413",
        "user" => "Name with which the client was authenticated",
        "method" => "Method of the request",
        "path" => "Path of the request, without its query",
        "query" => "Query of the request, after the question mark",
        "protocol" => "Protocol of the request",
        "request" => "First line of the request",
        "status" => "Status code of the response",
        "response_size" => "Size of the response, bytes",
        "referrer" => "Page that led to the request",
        "user_agent" => "Program of the client",
        "site" => "Virtual host that was asked",
        "extra" => "Rest of the line",
        _ => return None,
    })
}

/// Returns the comment on a stream.
pub(crate) fn stream(name: &Name, meta: &StreamMeta) -> String {
    match meta.kind {
        StreamKind::Access => format!("Events of the stream {name}, an access log"),
        _ => format!("Events of the stream {name}"),
    }
}

/// Returns the comment on the schema of a rollup.
pub(crate) fn rollup(definition: &Definition) -> String {
    format!("Rollup of the stream {}", definition.stream())
}

/// Returns the comment on a level of a rollup.
pub(crate) fn level(definition: &Definition, level: Level) -> String {
    format!(
        "Counts of the stream {} by {}, calendar of {}",
        definition.stream(),
        level.as_str(),
        definition.timezone()
    )
}

/// Returns the comment on a column of a level.
pub(crate) fn level_column(definition: &Definition, column: &str) -> Option<String> {
    match column {
        "bucket" => return Some("Start of the calendar interval".to_owned()),
        "bucket_end" => return Some("End of the calendar interval, exclusive".to_owned()),
        _ => {}
    }
    if definition.by().iter().any(|key| key.name == column) {
        return Some("Key: each of its values is counted by itself".to_owned());
    }
    let measure = |measure: &&Measure| {
        let rest = column.strip_prefix(measure.name.as_str());
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('_'))
    };
    let measures = definition.measures().iter().filter(measure);
    let measure = measures.max_by_key(|measure| measure.name.len())?;
    let suffix = column[measure.name.len()..].trim_start_matches('_');
    let meaning = of_measure(&measure.kind, suffix)?;
    Some(match &measure.filter {
        Some(_) => format!("{meaning}, of the events that meet the measure's condition"),
        None => meaning,
    })
}

fn of_measure(kind: &MeasureKind, suffix: &str) -> Option<String> {
    let exact = if suffix == "exact" {
        ", beyond 64 bits too"
    } else {
        ""
    };
    Some(match kind {
        MeasureKind::Count => "Number of events".to_owned(),
        MeasureKind::Sum(number) => format!("Sum of {}{exact}", field(number)),
        MeasureKind::Min(number) => format!("Smallest {}", field(number)),
        MeasureKind::Max(number) => format!("Largest {}", field(number)),
        MeasureKind::Mean(number) => format!("Mean of {}", field(number)),
        MeasureKind::Variance(number) => format!("Sample variance of {}", number.field),
        MeasureKind::Distinct { field } => match suffix {
            "state" => format!("Mergeable state of the distinct values of {field}"),
            _ => format!("Estimated number of distinct values of {field}"),
        },
        MeasureKind::Histogram { field: number, .. } => of_histogram(number, suffix)?,
        _ => return None,
    })
}

fn of_histogram(number: &Number, suffix: &str) -> Option<String> {
    let of = field(number);
    Some(match suffix {
        "" => format!("Mergeable histogram of {of}"),
        "count" => format!("Number of values of {}", number.field),
        "sum" => format!("Sum of {of}"),
        "sum_exact" => format!("Sum of {of}, beyond 64 bits too"),
        "mean" => format!("Mean of {of}"),
        "min" => format!("Smallest {of}"),
        "max" => format!("Largest {of}"),
        other => {
            let percent = other.strip_prefix('p')?;
            percent.parse::<u32>().ok()?;
            format!("Quantile of {of}: {percent} % of the values are at most this")
        }
    })
}

/// Returns the name of a field, with its unit where the field has one.
fn field(number: &Number) -> String {
    match number.field.as_str() {
        "response_size" => "response_size, bytes".to_owned(),
        other => other.to_owned(),
    }
}
