//! Words DataFusion's messages for users: without the parts for its developers, and with the names
//! that SQL has for types.

use datafusion::common::SchemaError;
use datafusion::error::DataFusionError;

/// Extracts the error of a filter that was evaluated during the read of a part. Such an error
/// arrives as the debug form of the original error, which begins with the name of its type.
pub(super) fn of_filter(text: &str) -> Option<String> {
    let (_, why) = text.split_once("Error evaluating filter predicate: ")?;
    if why.starts_with("Internal(") {
        return None;
    }
    let why = match why.split_once("(\"") {
        Some((_, quoted)) => quoted.trim_end_matches(['"', ')']),
        None => why,
    };
    Some(format!("a filter could not be evaluated: {why}"))
}

/// Words an internal error. DataFusion's own text asks users to report it to DataFusion's
/// developers.
pub(super) fn of_internal(error: &DataFusionError) -> String {
    let text = error.strip_backtrace();
    let text = without_report(&text);
    let text = text.trim_end_matches('.');
    match error.find_root() {
        DataFusionError::Internal(_) => {
            format!("{text}; this is a fault of Logmill: please report it with the query")
        }
        _ => text.to_owned(),
    }
}

/// Removes the request to report an error to DataFusion's developers. It is in the middle of the
/// text if one error contains another.
fn without_report(text: &str) -> String {
    const BEGINS: &str = "\nThis issue was likely caused by a bug in DataFusion";
    const ENDS: &str = "datafusion/issues";
    let mut out = text.replace("Internal error: ", "");
    while let Some(begin) = out.find(BEGINS) {
        let end = out[begin..].find(ENDS).map(|at| begin + at + ENDS.len());
        out.replace_range(begin..end.unwrap_or(out.len()), "");
    }
    out
}

/// Extracts the fault of a regular expression. DataFusion reports it as a failed rule, or as an
/// internal error.
pub(super) fn of_pattern(text: &str) -> Option<String> {
    let told = ["regex parse error:", "Regular expression did not compile: "];
    let why = told
        .iter()
        .find_map(|told| Some(text.split_once(told)?.1))?;
    let why = why.split("\nThis issue was likely").next().unwrap_or(why);
    let why = match why.split_once("error: ") {
        // The text before it is the pattern and a mark below the fault, which mean nothing without
        // the line breaks.
        Some((_, error)) => error.to_owned(),
        None => match why.split_once("CompiledTooBig(") {
            Some((_, bytes)) => format!(
                "compiled it would take more than {} bytes; make its repetitions smaller",
                bytes.trim_end_matches(['.', ')'])
            ),
            None => why.to_owned(),
        },
    };
    Some(format!(
        "the regular expression cannot be used: {}",
        why.trim()
    ))
}

/// Returns DataFusion's message without its prefixes and backtrace, with the SQL names of types.
pub(super) fn plain(error: &DataFusionError) -> String {
    match error {
        // DataFusion prints the debug form of this error; its display form is the message.
        DataFusionError::SQL(parser, _) => {
            return parser.to_string().replace("sql parser error: ", "SQL: ");
        }
        // The hint lists the existing columns.
        DataFusionError::SchemaError(schema, _) => {
            if let SchemaError::FieldNotFound { field, .. } = &**schema {
                return format!("there is no column {}", field.quoted_flat_name());
            }
        }
        _ => {}
    }
    let text = without_report(&error.strip_backtrace());
    let mut text = text.as_str();
    for prefix in [
        "Error during planning: ",
        "Execution error: ",
        "SQL error: ",
        "Schema error: ",
        "Arrow error: ",
    ] {
        if let Some(rest) = text.strip_prefix(prefix) {
            text = rest;
            break;
        }
    }
    // Users name tables without the catalog and without the default schema.
    let table = text.strip_prefix("table 'logmill.");
    let table = table.map(|table| table.strip_prefix("public.").unwrap_or(table));
    match table {
        Some(table) => format!("table '{table}"),
        None => in_sql_words(text),
    }
}

/// Replaces Arrow's names of types by those of SQL. Quoted text is the user's own and stays,
/// unless it is a call.
pub(super) fn in_sql_words(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(next) = rest.chars().next() {
        if let Some(quoted) = quoted(rest) {
            out.push_str(quoted);
            rest = &rest[quoted.len()..];
            continue;
        }
        let in_word = |c: char| c.is_alphanumeric() || c == '_';
        let of_type = TYPES.iter().find(|(name, _)| {
            let after = rest.strip_prefix(name);
            after.is_some_and(|after| !after.starts_with(in_word)) && !out.ends_with(in_word)
        });
        match of_type {
            Some((name, sql)) => {
                out.push_str(sql);
                rest = &rest[name.len()..];
            }
            None => {
                out.push(next);
                rest = &rest[next.len_utf8()..];
            }
        }
    }
    out
}

/// Returns the quoted text that begins here, with its quotes.
fn quoted(text: &str) -> Option<&str> {
    let open = text.chars().next().filter(|c| matches!(c, '\'' | '"'))?;
    let end = text[1..].find(open)? + 2;
    Some(&text[..end]).filter(|quoted| !quoted.contains('('))
}

/// SQL names of Arrow types. Longer names come first, as a shorter one may be a part of a longer
/// one.
const TYPES: [(&str, &str); 24] = [
    ("Timestamp(Microsecond, Some(\"UTC\"))", "timestamp"),
    ("Timestamp(µs, \"UTC\")", "timestamp"),
    ("Timestamp(Nanosecond, None)", "timestamp"),
    ("Timestamp(ns)", "timestamp"),
    ("Timestamp(µs)", "timestamp"),
    ("Interval(MonthDayNano)", "interval"),
    ("LargeBinary", "bytea"),
    ("BinaryView", "bytea"),
    ("Binary", "bytea"),
    ("LargeUtf8", "text"),
    ("Utf8View", "text"),
    ("Utf8", "text"),
    ("Float64", "double precision"),
    ("Float32", "real"),
    ("Boolean", "boolean"),
    ("Date32", "date"),
    ("UInt64", "bigint"),
    ("UInt32", "bigint"),
    ("UInt16", "integer"),
    ("UInt8", "smallint"),
    ("Int64", "bigint"),
    ("Int32", "integer"),
    ("Int16", "smallint"),
    ("Int8", "smallint"),
];
