//! Writes a query as text that parses to the same tree.

use std::fmt::{Display, Formatter, Result};

use super::ast::{
    BinaryOp, Comparison, Conversion, Expr, FilterValue, FormatValue, LabelFilter, LabelGrouping,
    LineOp, LogQuery, MatchOp, Matcher, Metric, Named, RangeAggregation, Stage, Unwrap,
};

/// A text in quotes, with the escapes that the lexer reads.
struct Quoted<'a>(&'a str);

impl Display for Quoted<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.write_str("\"")?;
        for c in self.0.chars() {
            match c {
                '"' => f.write_str("\\\"")?,
                '\\' => f.write_str("\\\\")?,
                c if c.is_control() => write!(f, "\\U{:08x}", u32::from(c))?,
                c => write!(f, "{c}")?,
            }
        }
        f.write_str("\"")
    }
}

/// Writes items with commas between them.
fn list<T>(
    f: &mut Formatter<'_>,
    all: &[T],
    each: impl Fn(&T, &mut Formatter<'_>) -> Result,
) -> Result {
    for (nth, item) in all.iter().enumerate() {
        f.write_str(if nth > 0 { ", " } else { "" })?;
        each(item, f)?;
    }
    Ok(())
}

impl Display for Expr {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Self::Log(query) => write!(f, "{query}"),
            Self::Metric(metric) => write!(f, "{metric}"),
        }
    }
}

impl Display for LogQuery {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.write_str("{")?;
        list(f, &self.matchers, |matcher, f| write!(f, "{matcher}"))?;
        f.write_str("}")?;
        self.stages
            .iter()
            .try_for_each(|stage| write!(f, " {stage}"))
    }
}

impl Display for MatchOp {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.write_str(match self {
            Self::Equal => "=",
            Self::NotEqual => "!=",
            Self::Matches => "=~",
            Self::NotMatches => "!~",
        })
    }
}

impl Display for Matcher {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "{}{}{}", self.label, self.op, Quoted(&self.value))
    }
}

impl Display for Stage {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let named = |f: &mut Formatter<'_>, name: &str, all: &[Named]| {
            write!(f, "| {name}{}", if all.is_empty() { "" } else { " " })?;
            list(f, all, |one, f| match &one.value {
                Some((op, value)) => write!(f, "{}{op}{}", one.label, Quoted(value)),
                None => f.write_str(&one.label),
            })
        };
        match self {
            Self::Line { op, texts } => {
                let op = match op {
                    LineOp::Contains => "|=",
                    LineOp::Lacks => "!=",
                    LineOp::Matches => "|~",
                    LineOp::NotMatches => "!~",
                };
                write!(f, "{op} ")?;
                for (nth, text) in texts.iter().enumerate() {
                    write!(f, "{}{}", if nth > 0 { " or " } else { "" }, Quoted(text))?;
                }
                Ok(())
            }
            Self::Json(all) => named(f, "json", all),
            Self::Logfmt(all) => named(f, "logfmt", all),
            Self::Drop(all) => named(f, "drop", all),
            Self::Keep(all) => named(f, "keep", all),
            Self::Pattern(text) => write!(f, "| pattern {}", Quoted(text)),
            Self::Regexp(text) => write!(f, "| regexp {}", Quoted(text)),
            Self::Label(filter) => write!(f, "| {filter}"),
            Self::LineFormat(text) => write!(f, "| line_format {}", Quoted(text)),
            Self::LabelFormat(all) => {
                f.write_str("| label_format ")?;
                list(f, all, |(label, value), f| match value {
                    FormatValue::Rename(from) => write!(f, "{label}={from}"),
                    FormatValue::Template(text) => write!(f, "{label}={}", Quoted(text)),
                })
            }
        }
    }
}

impl Display for LabelFilter {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Self::Text(matcher) => write!(f, "{matcher}"),
            Self::Compare { label, op, value } => {
                let op = match op {
                    Comparison::Equal => "==",
                    Comparison::NotEqual => "!=",
                    Comparison::Above => ">",
                    Comparison::AtLeast => ">=",
                    Comparison::Below => "<",
                    Comparison::AtMost => "<=",
                };
                match value {
                    FilterValue::Number(number) => write!(f, "{label} {op} {number}"),
                    FilterValue::Duration(ns) => write!(f, "{label} {op} {ns}ns"),
                    FilterValue::Bytes(bytes) => write!(f, "{label} {op} {bytes}B"),
                }
            }
            Self::And(left, right) => write!(f, "({left}) and ({right})"),
            Self::Or(left, right) => write!(f, "({left}) or ({right})"),
        }
    }
}

impl Display for Unwrap {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self.conversion {
            None => write!(f, "| unwrap {}", self.label)?,
            Some(Conversion::Duration) => write!(f, "| unwrap duration({})", self.label)?,
            Some(Conversion::Bytes) => write!(f, "| unwrap bytes({})", self.label)?,
        }
        self.filters
            .iter()
            .try_for_each(|filter| write!(f, " | {filter}"))
    }
}

impl Display for LabelGrouping {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let word = if self.is_without { "without" } else { "by" };
        write!(f, " {word} ({})", self.labels.join(", "))
    }
}

impl Display for RangeAggregation {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "{}(", self.function.text())?;
        if let Some(quantile) = self.quantile {
            write!(f, "{quantile}, ")?;
        }
        write!(f, "{}", self.of)?;
        if let Some(unwrap) = &self.unwrap {
            write!(f, " {unwrap}")?;
        }
        write!(f, " [{}ns]", self.range_ns)?;
        if self.offset_ns != 0 {
            write!(f, " offset {}ns", self.offset_ns)?;
        }
        f.write_str(")")?;
        self.grouping
            .iter()
            .try_for_each(|grouping| write!(f, "{grouping}"))
    }
}

impl Display for Metric {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::Vector(number) => write!(f, "vector({number})"),
            Self::Range(range) => write!(f, "{range}"),
            Self::Aggregate {
                function,
                count,
                grouping,
                of,
            } => {
                f.write_str(function.text())?;
                if let Some(grouping) = grouping {
                    write!(f, "{grouping} ")?;
                }
                f.write_str("(")?;
                if let Some(count) = count {
                    write!(f, "{count}, ")?;
                }
                write!(f, "{of})")
            }
            Self::Binary {
                op,
                is_bool,
                left,
                right,
            } => {
                let is_bool = if *is_bool { " bool" } else { "" };
                write!(f, "({left}) {}{is_bool} ({right})", BinaryOp::text(*op))
            }
        }
    }
}
