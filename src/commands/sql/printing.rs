//! The form in which a session prints answers and statistics.

use std::io::Write;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use chrono_tz::Tz;
use query::QueryStats;
use query::output::{Output as Form, Writer};

use crate::cli::Output;
use crate::failure::Result;

impl From<Output> for Form {
    fn from(output: Output) -> Self {
        match output {
            Output::Table => Self::Table,
            Output::Json => Self::Json,
            Output::Ndjson => Self::Ndjson,
            Output::Csv => Self::Csv,
            Output::Arrow => Self::Arrow,
        }
    }
}

/// The form of answers.
#[derive(Debug, Clone)]
pub(super) struct Printing {
    pub(super) form: Form,
    /// Tables are written upright: each column on a line of its own.
    pub(super) expanded: bool,
    /// The zone of times.
    pub(super) zone: Option<Tz>,
    /// The columns of the terminal.
    pub(super) width: Option<usize>,
}

impl Printing {
    /// Returns a form that fits no terminal.
    pub(super) fn of(form: Form, zone: Option<Tz>) -> Self {
        Self {
            form,
            expanded: false,
            zone,
            width: None,
        }
    }
}

/// Writes one answer.
pub(super) struct Printed<'a> {
    printing: &'a Printing,
    out: Option<&'a mut dyn Write>,
    writer: Option<Writer<&'a mut dyn Write>>,
}

impl<'a> Printed<'a> {
    pub(super) fn new(printing: &'a Printing, out: &'a mut dyn Write) -> Self {
        Self {
            printing,
            out: Some(out),
            writer: None,
        }
    }

    /// Returns whether nothing is written before the end.
    pub(super) fn is_table(&self) -> bool {
        self.printing.form == Form::Table
    }

    pub(super) fn begin(&mut self, schema: &SchemaRef) -> Result<()> {
        if let Some(out) = self.out.take() {
            let Printing {
                form, zone, width, ..
            } = *self.printing;
            let writer = Writer::new(form, schema, out)?.within(width).in_zone(zone);
            self.writer = Some(writer.upright(self.printing.expanded));
        }
        Ok(())
    }

    pub(super) fn batch(&mut self, batch: &RecordBatch) -> Result<()> {
        if let Some(writer) = &mut self.writer {
            writer.batch(batch)?;
        }
        Ok(())
    }

    pub(super) fn end(&mut self) -> Result<()> {
        if let Some(writer) = self.writer.take() {
            writer.finish()?.flush()?;
        }
        Ok(())
    }
}

/// Prints statistics: as JSON in the JSON forms, otherwise line by line.
pub(super) fn show(figures: &QueryStats, form: Form) -> Result<()> {
    if matches!(form, Form::Json | Form::Ndjson) {
        println!(
            "{}",
            serde_json::to_string(figures).map_err(anyhow::Error::from)?
        );
        return Ok(());
    }
    println!("answered by    {}", figures.answered_by.join(", "));
    for (name, count) in [
        ("partitions", figures.partitions),
        ("parts", figures.parts),
        ("row groups", figures.row_groups),
        ("pages", figures.pages),
    ] {
        println!("{name:<14} {} of {} examined", count.examined, count.total);
    }
    println!("rows examined  {}", figures.rows_examined);
    println!("rows returned  {}", figures.rows_returned);
    println!("bytes read     {}", figures.bytes_read);
    println!("elapsed        {} ms", figures.elapsed_ms);
    let ms = |us: u64| us as f64 / 1e3;
    for took in &figures.stages {
        println!("  {:<12} {:.1} ms", took.stage.to_string(), ms(took.us));
    }
    if !figures.operators.is_empty() {
        println!("processor time by operator");
    }
    for took in &figures.operators {
        let rows = took.rows;
        println!("  {:<30} {:.1} ms, {rows} rows", took.operator, ms(took.us));
    }
    Ok(())
}
