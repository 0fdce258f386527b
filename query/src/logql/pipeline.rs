//! The stages of a query, compiled, over one entry at a time.

use super::ast::{
    Comparison, Conversion, FilterValue, FormatValue, LabelFilter, LineOp, LogQuery, MatchOp,
    Matcher, Named, Stage, Unwrap,
};
use super::duration::{bytes, duration_ns};
use super::entry::{ERROR, ERROR_DETAILS, Labels, LogEntry};
use super::pattern::{LinePattern, Regex, anchored, compiled};
use super::stages;
use super::template::Template;

/// The compiled stages of a log query.
#[derive(Debug, Clone)]
pub struct Pipeline {
    matchers: Vec<(String, Test)>,
    steps: Vec<Step>,
    unwrap: Option<Unwrap>,
    after: Vec<Condition>,
}

/// A condition on a text.
#[derive(Debug, Clone)]
pub(super) enum Test {
    Is(String),
    IsNot(String),
    Fits(Regex),
    FitsNot(Regex),
}

impl Test {
    /// Compiles a comparison with a whole text.
    pub(super) fn new(op: MatchOp, value: &str) -> Result<Self, String> {
        Ok(match op {
            MatchOp::Equal => Self::Is(value.to_owned()),
            MatchOp::NotEqual => Self::IsNot(value.to_owned()),
            MatchOp::Matches => Self::Fits(compiled(&anchored(value))?),
            MatchOp::NotMatches => Self::FitsNot(compiled(&anchored(value))?),
        })
    }

    /// Returns whether a text passes; a missing one is empty.
    pub(super) fn passes(&self, text: &str) -> bool {
        match self {
            Self::Is(value) => text == value,
            Self::IsNot(value) => text != value,
            Self::Fits(regex) => regex.is_match(text),
            Self::FitsNot(regex) => !regex.is_match(text),
        }
    }
}

#[derive(Debug, Clone)]
enum Condition {
    Text(String, Test),
    Compare(String, Comparison, FilterValue),
    And(Box<Condition>, Box<Condition>),
    Or(Box<Condition>, Box<Condition>),
}

#[derive(Debug, Clone)]
enum Step {
    Contains(Vec<String>, bool),
    Matches(Vec<Regex>, bool),
    Json(Vec<(String, String)>),
    Logfmt(Vec<(String, String)>),
    Pattern(LinePattern),
    Regexp(Regex),
    Label(Condition),
    LineFormat(Template),
    LabelFormat(Vec<(String, CompiledFormat)>),
    Drop(Vec<(String, Option<Test>)>),
    Keep(Vec<(String, Option<Test>)>),
}

#[derive(Debug, Clone)]
enum CompiledFormat {
    Rename(String),
    Template(Template),
}

impl Pipeline {
    /// Compiles the selector and the stages of a query, with the label whose value is wanted.
    ///
    /// # Errors
    /// When a regular expression, a pattern or a template is not valid; a parsed query has none.
    pub fn new(query: &LogQuery, unwrap: Option<&Unwrap>) -> Result<Self, String> {
        let matchers = query.matchers.iter().map(|matcher| {
            let test = Test::new(matcher.op, &matcher.value)?;
            Ok((matcher.label.clone(), test))
        });
        let after = unwrap.map_or(&[][..], |unwrap| &unwrap.filters);
        Ok(Self {
            matchers: matchers.collect::<Result<_, String>>()?,
            steps: query.stages.iter().map(step).collect::<Result<_, _>>()?,
            unwrap: unwrap.cloned(),
            after: after.iter().map(condition).collect::<Result<_, _>>()?,
        })
    }

    /// Returns whether the labels of a stream pass the selector.
    pub fn selects(&self, stream: &Labels) -> bool {
        self.matchers
            .iter()
            .all(|(label, test)| test.passes(stream.get(label).map_or("", String::as_str)))
    }

    /// Runs the stages; `None` if a filter drops the entry.
    pub fn run(&self, mut entry: LogEntry) -> Option<LogEntry> {
        let passes = self.steps.iter().all(|step| step.run(&mut entry));
        passes.then_some(entry)
    }

    /// Returns the value of the unwrapped label and removes the label; `None` if the entry has
    /// none, or a filter behind `unwrap` drops it. A text that is no number is an error of the
    /// entry, with the value 0.
    pub(super) fn value(&self, entry: &mut LogEntry) -> Option<f64> {
        let Some(unwrap) = &self.unwrap else {
            return Some(1.0);
        };
        let text = entry.remove(&unwrap.label)?;
        let value = match unwrap.conversion {
            None => text.parse().ok(),
            Some(Conversion::Duration) => duration_ns(&text).map(|ns| ns as f64 / 1e9),
            Some(Conversion::Bytes) => bytes(&text).map(|bytes| bytes as f64),
        };
        if value.is_none() {
            let details = format!("{text:?} of {} is no number", unwrap.label);
            entry.fail("SampleExtractionErr", &details);
        }
        let passes = self.after.iter().all(|after| after.passes(entry));
        passes.then_some(value.unwrap_or(0.0))
    }
}

fn step(stage: &Stage) -> Result<Step, String> {
    Ok(match stage {
        Stage::Line { op, texts } => match op {
            LineOp::Contains | LineOp::Lacks => {
                Step::Contains(texts.clone(), *op == LineOp::Contains)
            }
            LineOp::Matches | LineOp::NotMatches => {
                let regexes = texts.iter().map(|text| compiled(text));
                Step::Matches(regexes.collect::<Result<_, _>>()?, *op == LineOp::Matches)
            }
        },
        Stage::Json(named) => Step::Json(extractions(named)),
        Stage::Logfmt(named) => Step::Logfmt(extractions(named)),
        Stage::Pattern(text) => Step::Pattern(LinePattern::parse(text)?),
        Stage::Regexp(text) => Step::Regexp(compiled(text)?),
        Stage::Label(filter) => Step::Label(condition(filter)?),
        Stage::LineFormat(text) => Step::LineFormat(Template::parse(text)?),
        Stage::LabelFormat(formats) => {
            let formats = formats.iter().map(|(label, value)| {
                let value = match value {
                    FormatValue::Rename(from) => CompiledFormat::Rename(from.clone()),
                    FormatValue::Template(text) => CompiledFormat::Template(Template::parse(text)?),
                };
                Ok((label.clone(), value))
            });
            Step::LabelFormat(formats.collect::<Result<_, String>>()?)
        }
        Stage::Drop(named) => Step::Drop(tests(named)?),
        Stage::Keep(named) => Step::Keep(tests(named)?),
    })
}

/// Returns each label with the name of its field.
fn extractions(named: &[Named]) -> Vec<(String, String)> {
    let each = named.iter().map(|one| {
        let field = one.value.as_ref().map_or(&one.label, |(_, field)| field);
        (one.label.clone(), field.clone())
    });
    each.collect()
}

fn tests(named: &[Named]) -> Result<Vec<(String, Option<Test>)>, String> {
    let each = named.iter().map(|one| {
        let test = one.value.as_ref().map(|(op, value)| Test::new(*op, value));
        Ok((one.label.clone(), test.transpose()?))
    });
    each.collect()
}

fn condition(filter: &LabelFilter) -> Result<Condition, String> {
    Ok(match filter {
        LabelFilter::Text(Matcher { label, op, value }) => {
            Condition::Text(label.clone(), Test::new(*op, value)?)
        }
        LabelFilter::Compare { label, op, value } => Condition::Compare(label.clone(), *op, *value),
        LabelFilter::And(left, right) => {
            Condition::And(Box::new(condition(left)?), Box::new(condition(right)?))
        }
        LabelFilter::Or(left, right) => {
            Condition::Or(Box::new(condition(left)?), Box::new(condition(right)?))
        }
    })
}

impl Condition {
    fn passes(&self, entry: &mut LogEntry) -> bool {
        match self {
            Self::Text(label, test) => test.passes(entry.get(label).unwrap_or_default()),
            Self::And(left, right) => left.passes(entry) && right.passes(entry),
            Self::Or(left, right) => left.passes(entry) || right.passes(entry),
            Self::Compare(label, op, value) => {
                // As in Loki, an entry with an error passes, so that the error is seen.
                if entry.get(ERROR).is_some() {
                    return true;
                }
                let Some(text) = entry.get(label) else {
                    return false;
                };
                let ordering = match value {
                    FilterValue::Number(number) => {
                        text.parse().ok().map(|v: f64| v.partial_cmp(number))
                    }
                    FilterValue::Duration(ns) => duration_ns(text).map(|v| Some(v.cmp(ns))),
                    FilterValue::Bytes(size) => bytes(text).map(|v| Some(v.cmp(size))),
                };
                let Some(ordering) = ordering else {
                    let details = format!("{text:?} of {label} cannot be compared");
                    entry.fail("LabelFilterErr", &details);
                    return true;
                };
                match (op, ordering) {
                    (Comparison::NotEqual, None) => true,
                    (_, None) => false,
                    (Comparison::Equal, Some(order)) => order.is_eq(),
                    (Comparison::NotEqual, Some(order)) => order.is_ne(),
                    (Comparison::Above, Some(order)) => order.is_gt(),
                    (Comparison::AtLeast, Some(order)) => order.is_ge(),
                    (Comparison::Below, Some(order)) => order.is_lt(),
                    (Comparison::AtMost, Some(order)) => order.is_le(),
                }
            }
        }
    }
}

impl Step {
    /// Changes the entry; returns whether it passes.
    fn run(&self, entry: &mut LogEntry) -> bool {
        match self {
            Self::Contains(texts, wanted) => {
                return texts.iter().any(|text| entry.line.contains(text.as_str())) == *wanted;
            }
            Self::Matches(regexes, wanted) => {
                return regexes.iter().any(|regex| regex.is_match(&entry.line)) == *wanted;
            }
            Self::Label(condition) => return condition.passes(entry),
            Self::Json(named) => stages::json(entry, named),
            Self::Logfmt(named) => stages::logfmt(entry, named),
            Self::Pattern(pattern) => stages::pattern(entry, pattern),
            Self::Regexp(regex) => stages::regexp(entry, regex),
            Self::LineFormat(template) => entry.line = template.text(entry),
            Self::LabelFormat(formats) => {
                for (label, format) in formats {
                    let value = match format {
                        CompiledFormat::Rename(from) => entry.remove(from),
                        CompiledFormat::Template(template) => Some(template.text(entry)),
                    };
                    if let Some(value) = value {
                        entry.set(label, value);
                    }
                }
            }
            Self::Drop(named) => {
                for (label, test) in named {
                    if fits(test.as_ref(), entry.get(label)) {
                        entry.remove(label);
                        if label == ERROR {
                            entry.remove(ERROR_DETAILS);
                        }
                    }
                }
            }
            Self::Keep(named) => {
                let keeps = |label: &String, value: &String| {
                    let mut kept = named.iter().filter(|(name, _)| name == label);
                    label.starts_with("__error")
                        || kept.any(|(_, test)| fits(test.as_ref(), Some(value)))
                };
                for kind in [&mut entry.stream, &mut entry.metadata, &mut entry.parsed] {
                    kind.retain(|label, value| keeps(label, value));
                }
            }
        }
        true
    }
}

fn fits(test: Option<&Test>, value: Option<&str>) -> bool {
    test.is_none_or(|test| test.passes(value.unwrap_or_default()))
}
