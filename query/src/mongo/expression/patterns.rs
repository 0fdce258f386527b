//! `$regexMatch`, `$regexFind` and `$regexFindAll`.

use bson::{Array, Bson, doc};
use regex::Regex;

use super::operands::misfit;
use super::{Evaluated, ExpressionNode, ExpressionVariables, is_nullish};
use crate::mongo::error::{QueryError, Result};
use crate::mongo::pattern::{BoundedRegex, COMPILED_BYTES_MAX, compile};
use crate::mongo::size::weigh;

/// An operator of regular expressions.
#[derive(Debug)]
pub(super) struct RegexOperator {
    result: RegexResult,
    input: ExpressionNode,
    source: RegexSource,
}

/// The result of an operator of regular expressions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RegexResult {
    IsMatch,
    First,
    All,
}

#[derive(Debug)]
enum RegexSource {
    /// The same for every document; `None` if it is null.
    Constant(Option<BoundedRegex>),
    Computed {
        regex: ExpressionNode,
        options: Option<ExpressionNode>,
    },
}

impl RegexOperator {
    /// Visits the nodes of the operator.
    pub(super) fn for_each_node(&self, visit: &mut dyn FnMut(&ExpressionNode)) {
        visit(&self.input);
        if let RegexSource::Computed { regex, options } = &self.source {
            visit(regex);
            options.iter().for_each(visit);
        }
    }

    pub(super) fn new(
        result: RegexResult,
        input: ExpressionNode,
        regex: ExpressionNode,
        options: Option<ExpressionNode>,
    ) -> Result<Self> {
        let source = match (&regex, &options) {
            (ExpressionNode::Literal(regex), None) => {
                RegexSource::Constant(regex_of(Some(regex), None)?)
            }
            (ExpressionNode::Literal(regex), Some(ExpressionNode::Literal(options))) => {
                RegexSource::Constant(regex_of(Some(regex), Some(options))?)
            }
            _ => RegexSource::Computed { regex, options },
        };
        Ok(Self {
            result,
            input,
            source,
        })
    }

    pub(super) fn evaluate(&self, variables: &ExpressionVariables<'_>) -> Result<Evaluated> {
        let input = self.input.evaluate(variables)?;
        if !is_nullish(&input) && !matches!(input, Some(Bson::String(_))) {
            let operand = "the 'input' of a regular expression";
            return Err(misfit(51104, operand, "a string", input.as_ref()));
        }
        let computed;
        let regex = match &self.source {
            RegexSource::Constant(regex) => regex,
            RegexSource::Computed { regex, options } => {
                let regex = regex.evaluate(variables)?;
                let options = options.as_ref();
                let options = options.map(|options| options.evaluate(variables));
                computed = regex_of(regex.as_ref(), options.transpose()?.flatten().as_ref())?;
                variables.meter.step_over(COMPILED_BYTES_MAX)?;
                &computed
            }
        };
        let operands = match (&input, regex) {
            (Some(Bson::String(text)), Some(regex)) => {
                let (regex, steps) = regex.for_text(text)?;
                variables.meter.step_over(steps)?;
                Some((regex, steps, text.as_str()))
            }
            _ => None,
        };
        Ok(Some(match self.result {
            RegexResult::IsMatch => {
                Bson::Boolean(operands.is_some_and(|(regex, _, text)| regex.is_match(text)))
            }
            RegexResult::First => {
                let found = operands.and_then(|(regex, _, text)| found_from(regex, text, 0, 0));
                found.map_or(Bson::Null, |found| found.value)
            }
            RegexResult::All => match operands {
                Some((regex, steps, text)) => Bson::Array(all((regex, steps), text, variables)?),
                None => Bson::Array(Array::new()),
            },
        }))
    }
}

/// A match, with its bytes.
#[derive(Debug)]
struct FoundMatch {
    value: Bson,
    start: usize,
    end: usize,
    /// The code points before the match.
    index: usize,
}

/// Returns the first match from a byte on, before which there are so many code points.
fn found_from(regex: &Regex, text: &str, from: usize, before: usize) -> Option<FoundMatch> {
    let captures = regex.captures_at(text, from)?;
    let whole = captures.get_match();
    let index = before + text[from..whole.start()].chars().count();
    let groups = captures.iter().skip(1).map(|group| match group {
        Some(group) => Bson::from(group.as_str()),
        None => Bson::Null,
    });
    Some(FoundMatch {
        value: Bson::Document(doc! {
            "match": whole.as_str(),
            "idx": index as i32,
            "captures": groups.collect::<Array>(),
        }),
        start: whole.start(),
        end: whole.end(),
        index,
    })
}

/// Returns all matches. After an empty one the next begins a character later.
fn all(
    (regex, steps): (&Regex, usize),
    text: &str,
    variables: &ExpressionVariables<'_>,
) -> Result<Array> {
    let (mut found, mut held) = (Array::new(), variables.meter.hold());
    let (mut from, mut before) = (0, 0);
    // Each search may read the text to its end.
    let search = |from: usize, before: usize| {
        variables.meter.step_over(steps)?;
        Ok(found_from(regex, text, from, before))
    };
    while let Some(next) = search(from, before)? {
        held.add(weigh(&next.value)?)?;
        found.push(next.value);
        let skipped = match next.start == next.end {
            true => text[next.end..].chars().next().map_or(0, char::len_utf8),
            false => 0,
        };
        before = next.index + text[next.start..next.end + skipped].chars().count();
        from = next.end + skipped;
        if from >= text.len() {
            break;
        }
    }
    Ok(found)
}

/// Compiles an expression; `None` if it is null or missing.
fn regex_of(regex: Option<&Bson>, options: Option<&Bson>) -> Result<Option<BoundedRegex>> {
    let given = match options {
        None | Some(Bson::Null | Bson::Undefined) => None,
        Some(Bson::String(options)) => Some(options.as_str()),
        other => {
            let operand = "the 'options' of a regular expression";
            return Err(misfit(51106, operand, "a string", other));
        }
    };
    let (pattern, options) = match regex {
        None | Some(Bson::Null | Bson::Undefined) => return Ok(None),
        Some(Bson::String(pattern)) => (pattern.as_str(), given.unwrap_or_default()),
        Some(Bson::RegularExpression(regex)) => {
            let own = regex.options.as_str();
            if given.is_some() && !own.is_empty() {
                let message =
                    "a regular expression has options of its own and in 'options'; give one";
                return Err(QueryError::located(51107, message));
            }
            (regex.pattern.as_str(), given.unwrap_or(own))
        }
        other => {
            let operand = "the 'regex' of an operator";
            let needs = "a string or a regular expression";
            return Err(misfit(51105, operand, needs, other));
        }
    };
    if pattern.contains('\0') || options.contains('\0') {
        let message = "a regular expression holds a NUL character";
        return Err(QueryError::located(51109, message));
    }
    compile(pattern, options, 51111).map(Some)
}
