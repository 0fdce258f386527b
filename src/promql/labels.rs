//! The labels of a series.

use std::collections::BTreeMap;
use std::sync::Arc;

use promql_parser::label::METRIC_NAME;
use promql_parser::parser::LabelModifier;

/// Labels by name. An empty value is the same as no label, so none is held.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Labels(Arc<BTreeMap<String, String>>);

impl FromIterator<(String, String)> for Labels {
    fn from_iter<I: IntoIterator<Item = (String, String)>>(labels: I) -> Self {
        let labels = labels.into_iter().filter(|(_, value)| !value.is_empty());
        Self(Arc::new(labels.collect()))
    }
}

impl Labels {
    /// Returns the value of a label; empty where there is none.
    pub(crate) fn get(&self, name: &str) -> &str {
        self.0.get(name).map_or("", String::as_str)
    }

    /// Returns the labels in the order of their names.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        let pairs = self.0.iter();
        pairs.map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Returns these labels with one of them set, or removed by an empty value.
    pub(crate) fn with(&self, name: &str, value: &str) -> Self {
        let mut labels = BTreeMap::clone(&self.0);
        match value {
            "" => labels.remove(name),
            value => labels.insert(name.to_owned(), value.to_owned()),
        };
        Self(Arc::new(labels))
    }

    /// Returns these labels without the name of the metric.
    pub(super) fn nameless(&self) -> Self {
        if self.get(METRIC_NAME).is_empty() {
            return self.clone();
        }
        self.with(METRIC_NAME, "")
    }

    /// Returns the labels that pass `keep`.
    pub(super) fn filtered(&self, keep: impl Fn(&str) -> bool) -> Self {
        let pairs = self.iter().filter(|(name, _)| keep(name));
        pairs
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect()
    }

    /// Returns the labels of the group of `by` or `without`; of no modifier, none.
    pub(super) fn grouped(&self, modifier: Option<&LabelModifier>) -> Self {
        match modifier {
            None => Self::default(),
            Some(LabelModifier::Include(by)) => {
                self.filtered(|name| by.labels.iter().any(|label| label == name))
            }
            Some(LabelModifier::Exclude(without)) => self.filtered(|name| {
                name != METRIC_NAME && !without.labels.iter().any(|label| label == name)
            }),
        }
    }
}
