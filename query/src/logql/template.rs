//! Templates of `line_format` and `label_format`: `{{.label}}` and `{{__line__}}` in text.

use super::entry::LogEntry;

#[derive(Debug, Clone, PartialEq, Eq)]
enum TemplatePiece {
    Text(String),
    Label(String),
    Line,
}

/// A parsed template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Template(Vec<TemplatePiece>);

impl Template {
    /// Parses a template.
    ///
    /// # Errors
    /// Naming an action that is not supported.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let mut pieces = Vec::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("{{") {
            let Some((action, next)) = after.split_once("}}") else {
                return Err("the template has {{ without }}".into());
            };
            let (mut before, mut next) = (before, next);
            let mut action = action;
            if let Some(trimmed) = action.strip_prefix("- ") {
                (action, before) = (trimmed, before.trim_end());
            }
            if let Some(trimmed) = action.strip_suffix(" -") {
                (action, next) = (trimmed, next.trim_start());
            }
            pieces.push(TemplatePiece::Text(before.to_owned()));
            let action = action.trim();
            let label = action.strip_prefix('.').filter(|label| {
                !label.is_empty()
                    && label
                        .bytes()
                        .all(|b| b.is_ascii_alphanumeric() || b == b'_')
            });
            pieces.push(match (label, action) {
                (Some(label), _) => TemplatePiece::Label(label.to_owned()),
                (None, "__line__") => TemplatePiece::Line,
                (None, _) => {
                    return Err(format!(
                        "the template action {{{{{action}}}}} is not supported; write {{{{.label}}}}"
                    ));
                }
            });
            rest = next;
        }
        pieces.push(TemplatePiece::Text(rest.to_owned()));
        Ok(Self(pieces))
    }

    /// Returns the text for an entry. A missing label is empty.
    pub(super) fn text(&self, entry: &LogEntry) -> String {
        let pieces = self.0.iter().map(|piece| match piece {
            TemplatePiece::Text(text) => text.as_str(),
            TemplatePiece::Label(label) => entry.get(label).unwrap_or_default(),
            TemplatePiece::Line => entry.line.as_str(),
        });
        pieces.collect()
    }

    /// Returns the labels that the template reads, and whether it reads the line.
    pub(super) fn reads(&self) -> (Vec<&str>, bool) {
        let labels = self.0.iter().filter_map(|piece| match piece {
            TemplatePiece::Label(label) => Some(label.as_str()),
            _ => None,
        });
        (labels.collect(), self.0.contains(&TemplatePiece::Line))
    }
}
