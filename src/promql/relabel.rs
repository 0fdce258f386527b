//! `label_replace` and `label_join`.

use promql_parser::label::{MatchOp, Matcher};
use promql_parser::parser::token::T_EQL_REGEX;
use promql_parser::parser::{Call, Expr};

use super::error::{PromqlError, Result};
use super::evaluate::{Evaluator, PromqlValue, VectorSample, unique};
use super::function::label_name;

fn texts(call: &Call) -> Result<Vec<&str>> {
    let arguments = call.args.args.iter().skip(1);
    let texts = arguments.map(|argument| match &**argument {
        Expr::StringLiteral(text) => Ok(text.val.as_str()),
        _ => Err(PromqlError::execution(format!(
            "{} takes texts after its vector",
            call.func.name
        ))),
    });
    texts.collect()
}

/// Checks the texts of a call.
pub(super) fn check(call: &Call) -> Result<()> {
    match &texts(call)?[..] {
        [label, _, _, pattern] if call.func.name == "label_replace" => {
            label_name(label)?;
            compiled(pattern).map(drop)
        }
        [label, _, ..] if call.func.name == "label_join" => label_name(label).map(drop),
        _ => Err(PromqlError::execution(format!(
            "{} has too few arguments",
            call.func.name
        ))),
    }
}

/// Returns the matcher of a pattern, which has to match a whole text.
fn compiled(pattern: &str) -> Result<Matcher> {
    let matcher = Matcher::new_matcher(T_EQL_REGEX, String::new(), pattern.to_owned());
    matcher.map_err(|_| {
        PromqlError::execution(format!(
            "invalid regular expression in label_replace(): {pattern}"
        ))
    })
}

/// Returns the value of a call at an instant.
pub(super) fn value(evaluator: &Evaluator, call: &Call, t: i64) -> Result<PromqlValue> {
    let Some(vector) = call.args.args.first() else {
        return Err(PromqlError::execution("a vector is missing"));
    };
    let samples = evaluator.vector(vector, t)?;
    let texts = texts(call)?;
    let out: Vec<VectorSample> = match &texts[..] {
        [label, replacement, source, pattern] if call.func.name == "label_replace" => {
            let matcher = compiled(pattern)?;
            let MatchOp::Re(regex) = &matcher.op else {
                return Err(PromqlError::execution("BUG: the matcher has no pattern"));
            };
            let change = |sample: VectorSample| match regex.captures(sample.labels.get(source)) {
                None => sample,
                Some(captures) => {
                    let mut text = String::new();
                    captures.expand(replacement, &mut text);
                    let labels = sample.labels.with(label, &text);
                    VectorSample { labels, ..sample }
                }
            };
            samples.into_iter().map(change).collect()
        }
        [label, separator, sources @ ..] => {
            let change = |sample: VectorSample| {
                let parts: Vec<&str> = sources.iter().map(|s| sample.labels.get(s)).collect();
                let labels = sample.labels.with(label, &parts.join(separator));
                VectorSample { labels, ..sample }
            };
            samples.into_iter().map(change).collect()
        }
        _ => samples,
    };
    evaluator.count(out.len())?;
    Ok(PromqlValue::Vector(unique(out)?))
}
