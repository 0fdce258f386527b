//! The stages of a query as a function of the columns of an event.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, Float64Array, StringArray, StructArray};
use arrow::buffer::NullBuffer;
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Fields};
use datafusion::common::Result;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use storage::{ID, REST, SEQ, TIME};

use super::text_at;
use crate::answer::output::json_texts;
use crate::error::Error;
use crate::functions::arrays::over_arrays;
use crate::logql::entry::{ERROR, ERROR_DETAILS, Labels, LogEntry};
use crate::logql::evaluate::SeriesLabels;
use crate::logql::labels::{
    ColumnKind, Columns, DETECTED_LEVEL, STATUS_CLASS, STREAM, class_of, detected, named,
};
use crate::logql::pipeline::Pipeline;

/// The result of the function.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum EntryOutput {
    /// The entry as JSON; null if the stages drop it.
    Entry,
    /// A struct of `labels`, as JSON, and `value`; null if the stages drop the entry.
    Sample {
        labels: SeriesLabels,
        /// The value is the length of the line, in bytes.
        is_bytes: bool,
    },
}

/// Returns the function over the columns of a stream. `wanted` are the columns that the stages
/// read; `None` for all. `text` is the query, by which functions are told apart.
pub(crate) fn entry_function(
    columns: &Columns,
    wanted: Option<&[String]>,
    needs_line: bool,
    (pipeline, text): (Pipeline, String),
    output: EntryOutput,
) -> Expr {
    let renders = needs_line && columns.line().is_none();
    let is_named = |name: &str| {
        wanted.is_none_or(|wanted| {
            wanted
                .iter()
                .any(|one| columns.column_of(one) == Some(name))
        })
    };
    let is_wanted = |name: &str| match columns.kind_of(name) {
        _ if renders => ![ID, SEQ].contains(&name),
        ColumnKind::Hidden => needs_line && columns.line() == Some(name),
        _ => is_named(name),
    };
    // The time comes first, so that the function has an argument in any case.
    let read = columns
        .columns
        .iter()
        .filter(|(name, _)| name == TIME || is_wanted(name));
    let read: Vec<(String, DataType)> = read.cloned().collect();
    let args = read.iter().map(|(name, _)| named(name)).collect();
    let function = ScalarUDF::new_from_impl(EntryFunction {
        read,
        columns: columns.clone(),
        needs_line,
        text,
        pipeline,
        output,
        // A filter on an immutable function moves below the projection that computes it, so that
        // it is computed twice.
        signature: Signature::variadic_any(Volatility::Volatile),
    });
    function.call(args)
}

#[derive(Debug)]
pub(crate) struct EntryFunction {
    /// The arguments.
    read: Vec<(String, DataType)>,
    columns: Columns,
    needs_line: bool,
    text: String,
    pipeline: Pipeline,
    output: EntryOutput,
    signature: Signature,
}

impl EntryFunction {
    fn key(&self) -> (&[(String, DataType)], &Columns, bool, &str, &EntryOutput) {
        (
            &self.read,
            &self.columns,
            self.needs_line,
            &self.text,
            &self.output,
        )
    }

    fn fields() -> Fields {
        Fields::from(vec![
            Field::new("labels", DataType::Utf8, true),
            Field::new("value", DataType::Float64, true),
        ])
    }
}

impl PartialEq for EntryFunction {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for EntryFunction {}

impl Hash for EntryFunction {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.key().hash(state);
    }
}

impl ScalarUDFImpl for EntryFunction {
    fn name(&self) -> &str {
        "logql_stages"
    }
    fn signature(&self) -> &Signature {
        &self.signature
    }
    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(match self.output {
            EntryOutput::Entry => DataType::Utf8,
            EntryOutput::Sample { .. } => DataType::Struct(Self::fields()),
        })
    }
    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        over_arrays(args, |arrays| {
            let events = Events::new(self, arrays)?;
            let rows = arrays[0].len();
            let entries = (0..rows).map(|row| self.pipeline.run(events.entry(row)));
            match &self.output {
                EntryOutput::Entry => {
                    let texts = entries
                        .map(|entry| entry.map(|entry| serde_json::json!(entry).to_string()));
                    Ok(Arc::new(texts.collect::<StringArray>()) as ArrayRef)
                }
                EntryOutput::Sample { labels, is_bytes } => {
                    let samples = entries.map(|entry| {
                        entry.map_or(Ok(None), |entry| self.sample(entry, labels, *is_bytes))
                    });
                    samples_array(samples)
                }
            }
        })
    }
}

impl EntryFunction {
    /// Creates the function over all columns of rows, in their order.
    pub(crate) fn over_rows(columns: Columns, pipeline: Pipeline) -> Self {
        Self {
            read: columns.columns.clone(),
            columns,
            needs_line: true,
            text: String::new(),
            pipeline,
            output: EntryOutput::Entry,
            signature: Signature::variadic_any(Volatility::Volatile),
        }
    }

    /// Returns the entry of each row that the selector and the stages let pass.
    pub(crate) fn entries(&self, arrays: &[ArrayRef]) -> Result<Vec<Option<LogEntry>>> {
        let events = Events::new(self, arrays)?;
        let rows = arrays.first().map_or(0, |array| array.len());
        let passing = (0..rows).map(|row| {
            let entry = events.entry(row);
            let is_selected = self.pipeline.selects(&entry.stream);
            is_selected.then(|| self.pipeline.run(entry)).flatten()
        });
        Ok(passing.collect())
    }

    /// Returns the labels and the value of an entry; `None` if it has no value.
    fn sample(
        &self,
        mut entry: LogEntry,
        labels: &SeriesLabels,
        is_bytes: bool,
    ) -> Result<Option<(String, f64)>> {
        let Some(value) = self.pipeline.value(&mut entry) else {
            return Ok(None);
        };
        if let Some(error) = entry.get(ERROR) {
            let details = entry.get(ERROR_DETAILS).unwrap_or_default();
            let message = format!(
                "a line fails with {error}: {details}; to leave out such lines, add | __error__=\"\""
            );
            return Err(Error::invalid(message).into());
        }
        let value = if is_bytes {
            entry.line.len() as f64
        } else {
            value
        };
        let named = |names: &[String]| -> Labels {
            let each = names.iter();
            let each = each.filter_map(|name| Some((name.clone(), entry.get(name)?.to_owned())));
            each.collect()
        };
        let labels = match labels {
            SeriesLabels::Only(names) => named(names),
            SeriesLabels::With(metadata) => {
                let mut labels = named(metadata);
                labels.extend(entry.stream);
                labels.extend(entry.parsed);
                labels
            }
        };
        Ok(Some((serde_json::json!(labels).to_string(), value)))
    }
}

fn samples_array(samples: impl Iterator<Item = Result<Option<(String, f64)>>>) -> Result<ArrayRef> {
    let samples = samples.collect::<Result<Vec<_>>>()?;
    let labels: StringArray = samples.iter().map(|s| s.as_ref().map(|s| &s.0)).collect();
    let values: Float64Array = samples.iter().map(|s| s.as_ref().map(|s| s.1)).collect();
    let nulls: NullBuffer = samples.iter().map(Option::is_some).collect();
    let fields = EntryFunction::fields();
    let columns: Vec<ArrayRef> = vec![Arc::new(labels), Arc::new(values)];
    Ok(Arc::new(StructArray::try_new(
        fields,
        columns,
        Some(nulls),
    )?))
}

/// A column that becomes a label.
struct LabelColumn {
    name: String,
    kind: ColumnKind,
    texts: StringArray,
}

/// The events of a batch.
struct Events<'a> {
    stream: &'a str,
    has_status: bool,
    labels: Vec<LabelColumn>,
    /// The column of the line, if there is one and it is needed.
    line: Option<StringArray>,
    /// The columns of the rendered line as JSON, if it is needed.
    rendered: Vec<(&'a str, StringArray)>,
}

impl<'a> Events<'a> {
    fn new(function: &'a EntryFunction, arrays: &[ArrayRef]) -> Result<Self> {
        let columns = &function.columns;
        let mut events = Self {
            stream: &columns.stream,
            has_status: columns.has_status(),
            labels: Vec::new(),
            line: None,
            rendered: Vec::new(),
        };
        let renders = function.needs_line && columns.line().is_none();
        for ((name, data_type), array) in function.read.iter().zip(arrays) {
            let kind = columns.kind_of(name);
            let json = || -> Result<StringArray> {
                let field = Field::new(name, data_type.clone(), true);
                Ok(json_texts(&field, array)?)
            };
            if let Some(name) = columns
                .label_of(name)
                .filter(|_| kind != ColumnKind::Hidden)
            {
                let texts = match data_type.is_string() {
                    true => text_array(array)?,
                    false => {
                        let json = json()?;
                        let present = json.iter().map(|text| text.filter(|text| *text != "null"));
                        present
                            .map(|text| text.map(|text| text.trim_matches('"')))
                            .collect()
                    }
                };
                events.labels.push(LabelColumn { name, kind, texts });
            }
            if function.needs_line && columns.line() == Some(name.as_str()) {
                events.line = Some(text_array(array)?);
            }
            if renders && ![ID, SEQ, TIME].contains(&name.as_str()) {
                events.rendered.push((name, json()?));
            }
        }
        Ok(events)
    }

    fn entry(&self, row: usize) -> LogEntry {
        let mut entry = LogEntry::default();
        entry
            .stream
            .insert(STREAM.to_owned(), self.stream.to_owned());
        for column in &self.labels {
            let Some(text) = text_at(&column.texts, row).filter(|text| !text.is_empty()) else {
                continue;
            };
            let kind = match column.kind {
                ColumnKind::Label => &mut entry.stream,
                _ => &mut entry.metadata,
            };
            kind.insert(column.name.clone(), text.to_owned());
        }
        derive(&mut entry, self.has_status);
        if let Some(lines) = &self.line {
            entry.line = text_at(lines, row).unwrap_or_default().to_owned();
        }
        if !self.rendered.is_empty() {
            let fields = self.rendered.iter();
            let fields = fields.map(|(name, json)| (*name, text_at(json, row).unwrap_or("null")));
            entry.line = rendered(fields);
        }
        entry
    }
}

fn text_array(array: &ArrayRef) -> Result<StringArray> {
    let texts = cast(array, &DataType::Utf8)?;
    Ok(arrow::array::AsArray::as_string::<i32>(&texts).clone())
}

/// Adds the labels that follow from others.
pub(crate) fn derive(entry: &mut LogEntry, has_status: bool) {
    let status = entry.metadata.get("status").filter(|_| has_status);
    if let Some(class) = status.and_then(|status| class_of(status)) {
        entry.stream.insert(STATUS_CLASS.to_owned(), class);
    }
    let level = detected(entry.stream.get("level").map(String::as_str)).to_owned();
    entry.metadata.insert(DETECTED_LEVEL.to_owned(), level);
}

/// Renders an event as JSON, without nulls. Fields of the overflow column are fields of the
/// object.
pub(crate) fn rendered<'a>(fields: impl Iterator<Item = (&'a str, &'a str)>) -> String {
    let mut line = String::from("{");
    for (name, json) in fields.filter(|(_, json)| *json != "null") {
        let separator = if line.len() > 1 { "," } else { "" };
        if name == REST {
            let inside = json
                .strip_prefix('{')
                .and_then(|json| json.strip_suffix('}'));
            if let Some(inside) = inside.filter(|inside| !inside.is_empty()) {
                line.push_str(separator);
                line.push_str(inside);
            }
        } else {
            line.push_str(separator);
            line.push_str(&serde_json::Value::from(name).to_string());
            line.push(':');
            line.push_str(json);
        }
    }
    line.push('}');
    line
}
