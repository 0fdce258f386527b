//! An explanation as text for a terminal.

use std::fmt;

use super::Explanation;
use crate::formats::Format;

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}: {}", self.name, self.format)?;
        if let Some(dialect) = self.dialect {
            writeln!(f, "  dialect: {dialect}")?;
        }
        writeln!(f, "  why: {}", self.why)?;
        if self.detection.format.is_some() {
            writeln!(f, "  auto: {}", self.detection.sureness())?;
        }
        write!(f, "  lines: {} = {} events", self.lines, self.events)?;
        write!(
            f,
            " + {} quarantined + {} empty",
            self.quarantined, self.empty
        )?;
        for (rank, (reason, count)) in self.reasons.iter().enumerate() {
            write!(f, "{}{reason} {count}", if rank == 0 { " (" } else { ", " })?;
        }
        writeln!(f, "{}", if self.reasons.is_empty() { "" } else { ")" })?;
        if !self.fields.is_empty() {
            writeln!(f, "\nfields")?;
        }
        let width = self
            .fields
            .iter()
            .map(|field| field.name.chars().count())
            .max()
            .unwrap_or(0);
        for field in &self.fields {
            let place = if field.in_rest { ", in _rest" } else { "" };
            writeln!(
                f,
                "  {:width$}  {:8} {} values{place}",
                field.name, field.field_type, field.values
            )?;
        }
        if let Some(event) = &self.first_event {
            writeln!(f, "\nfirst event")?;
            let width = event
                .keys()
                .map(|name| name.chars().count())
                .max()
                .unwrap_or(0);
            for (name, value) in event {
                writeln!(f, "  {name:width$}  {value}")?;
            }
        }
        if let Some(bad) = &self.first_bad {
            writeln!(
                f,
                "\nfirst bad line: line {}, byte {}, column {}",
                bad.line, bad.byte, bad.column
            )?;
            writeln!(f, "  {}: {}", bad.reason, bad.detail)?;
            writeln!(f, "  {}", bad.text)?;
            writeln!(f, "  {:caret$}^", "", caret = bad.caret)?;
        }
        if self.format == Format::Auto && self.events == 0 && self.lines > self.empty {
            writeln!(
                f,
                "\nno format fits; --format plain takes every line as it is"
            )?;
        }
        Ok(())
    }
}
