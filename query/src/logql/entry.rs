//! A line with its labels, as the stages of a pipeline see it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Labels by name.
pub type Labels = BTreeMap<String, String>;

/// The label of an error that a stage met.
pub(super) const ERROR: &str = "__error__";
/// The label of the error's text.
pub(super) const ERROR_DETAILS: &str = "__error_details__";

/// A line with its labels of three kinds. A name occurs in one of them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogEntry {
    /// The line.
    pub line: String,
    /// Labels of the stream.
    pub stream: Labels,
    /// Structured metadata: the other columns of the event.
    pub metadata: Labels,
    /// Labels that stages have made.
    pub parsed: Labels,
}

impl LogEntry {
    /// Returns the value of a label.
    pub fn get(&self, label: &str) -> Option<&str> {
        let kinds = [&self.parsed, &self.metadata, &self.stream];
        kinds
            .into_iter()
            .find_map(|kind| kind.get(label))
            .map(String::as_str)
    }

    /// Removes a label and returns its value.
    pub(super) fn remove(&mut self, label: &str) -> Option<String> {
        let kinds = [&mut self.parsed, &mut self.metadata, &mut self.stream];
        kinds
            .into_iter()
            .filter_map(|kind| kind.remove(label))
            .next()
    }

    /// Sets a label to the value that a stage has made. An empty one removes it.
    pub(super) fn set(&mut self, label: &str, value: String) {
        self.remove(label);
        if !value.is_empty() {
            self.parsed.insert(label.to_owned(), value);
        }
    }

    /// Notes an error of a stage, unless an earlier stage met one.
    pub(super) fn fail(&mut self, class: &str, details: &str) {
        if !self.parsed.contains_key(ERROR) {
            self.parsed.insert(ERROR.to_owned(), class.to_owned());
            if !details.is_empty() {
                self.parsed
                    .insert(ERROR_DETAILS.to_owned(), details.to_owned());
            }
        }
    }

    /// Returns all labels of the three kinds.
    pub fn all(&self) -> Labels {
        let kinds = [&self.stream, &self.metadata, &self.parsed];
        let all = kinds.into_iter().flatten();
        all.map(|(name, value)| (name.clone(), value.clone()))
            .collect()
    }
}
