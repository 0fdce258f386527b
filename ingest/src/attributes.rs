//! Attributes: texts that a source has of each record beside the record, such as the key of a
//! record in a queue.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema};
use storage::REST;

use crate::anonymise::Anonymiser;
use crate::error::Result;
use crate::parsed::Parsed;
use crate::select::Selection;

impl Parsed {
    /// Returns whether each record is an event: with the index of the record among those of the
    /// call.
    pub fn are_events(&self) -> impl Iterator<Item = bool> {
        let mut bad = self.quarantine.iter().map(|bad| bad.rank).peekable();
        let items = u32::try_from(self.events.num_rows() + self.quarantine.len());
        let items = items.expect("BUG: ranks have 32 bits");
        (0..items).map(move |rank| bad.next_if_eq(&rank).is_none())
    }

    /// Adds a column of texts, one for each event, as far as the stream stores the field and
    /// without the person behind it where the stream says so. A field of the events with this
    /// name stays as it is: the attribute is dropped.
    ///
    /// # Errors
    /// Errors of Arrow; there are none known.
    pub fn add_attribute(
        &mut self,
        name: &str,
        texts: Vec<Option<String>>,
        selection: &Selection,
        anonymiser: &Anonymiser,
    ) -> Result<()> {
        let schema = self.events.schema_ref();
        let is_taken = schema.column_with_name(name).is_some();
        if !selection.takes(name) || is_taken || texts.iter().all(Option::is_none) {
            return Ok(());
        }
        let rule = anonymiser.rule(name).map(|(_, rule)| rule);
        let rule = rule.or_else(|| anonymiser.rule_above(name));
        let hidden = |text: String| match rule {
            Some(rule) => rule.apply(&text),
            None => text,
        };
        let texts: StringArray = texts.into_iter().map(|text| text.map(hidden)).collect();
        let mut fields = schema.fields().to_vec();
        let mut columns = self.events.columns().to_vec();
        // `_rest` comes last.
        let rest = fields.iter().position(|field| field.name() == REST);
        let at = rest.unwrap_or(fields.len());
        fields.insert(at, Arc::new(Field::new(name, DataType::Utf8, true)));
        columns.insert(at, Arc::new(texts) as ArrayRef);
        self.events = RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
