//! The stages of a pipeline.

use super::{LogqlParser, Parse, check_pattern, check_regex};
use crate::logql::ast::{
    Comparison, Conversion, FilterValue, FormatValue, LabelFilter, LineOp, MatchOp, Matcher, Named,
    Stage, Unwrap,
};
use crate::logql::lexer::{LogqlToken, TextFault};
use crate::logql::pattern::LinePattern;
use crate::logql::template::Template;

/// Stages of Loki that are not supported.
const UNSUPPORTED: [&str; 3] = ["decolorize", "distinct", "unpack"];
/// Everything that may follow a `|`.
const STAGES: &str =
    "json, logfmt, pattern, regexp, line_format, label_format, drop, keep, unwrap or a label";

impl LogqlParser {
    pub(super) fn stages(&mut self) -> Parse<Vec<Stage>> {
        let mut stages = Vec::new();
        while let Some(stage) = self.stage()? {
            self.count()?;
            stages.push(stage);
        }
        Ok(stages)
    }

    /// Parses a stage; `None` where none follows, or `| unwrap`.
    fn stage(&mut self) -> Parse<Option<Stage>> {
        let op = match self.peek() {
            LogqlToken::Sign("|=") => LineOp::Contains,
            LogqlToken::Sign("!=") => LineOp::Lacks,
            LogqlToken::Sign("|~") => LineOp::Matches,
            LogqlToken::Sign("!~") => LineOp::NotMatches,
            LogqlToken::Sign("|") => return self.named_stage(),
            LogqlToken::Sign(sign @ ("|>" | "!>")) => {
                return self.fault(format!(
                    "the line filter {sign} is not supported; use |~ with a regular expression"
                ));
            }
            _ => return Ok(None),
        };
        // `{…}[5m] != 1`: an operator between metric queries.
        if !matches!(
            self.peek_second(),
            LogqlToken::Text(_) | LogqlToken::Word(_)
        ) {
            return Ok(None);
        }
        self.advance();
        let mut texts = Vec::new();
        loop {
            self.count()?;
            if let LogqlToken::Word(function) = self.peek() {
                return self.fault(format!("{function}() in a line filter is not supported"));
            }
            let at = self.at();
            let text = self.text("a text in quotes")?;
            if matches!(op, LineOp::Matches | LineOp::NotMatches) {
                check_regex(&text, at)?;
            }
            texts.push(text);
            if !self.takes_word("or") {
                return Ok(Some(Stage::Line { op, texts }));
            }
        }
    }

    fn named_stage(&mut self) -> Parse<Option<Stage>> {
        let LogqlToken::Word(name) = self.peek_second().clone() else {
            if self.peek_second() == &LogqlToken::Sign("(") {
                self.advance();
                return self.label_filter().map(|filter| Some(Stage::Label(filter)));
            }
            self.advance();
            return Err(self.unexpected(STAGES));
        };
        if name == "unwrap" {
            return Ok(None);
        }
        self.advance();
        let at = self.at();
        let is_compared = matches!(
            self.peek_second(),
            LogqlToken::Sign("=" | "!=" | "=~" | "!~" | "==" | ">" | ">=" | "<" | "<=")
        );
        if is_compared && !matches!(name.as_str(), "json" | "logfmt") {
            return self.label_filter().map(|filter| Some(Stage::Label(filter)));
        }
        if UNSUPPORTED.contains(&name.as_str()) {
            return self.fault(format!("the stage {name} is not supported"));
        }
        self.advance();
        Ok(Some(match name.as_str() {
            "json" => Stage::Json(self.extractions(&name)?),
            "logfmt" => Stage::Logfmt(self.extractions(&name)?),
            "pattern" => {
                let text = self.checked_text(|text| LinePattern::parse(text).map(|_| ()))?;
                Stage::Pattern(text)
            }
            "regexp" => Stage::Regexp(self.named_captures()?),
            "line_format" => {
                Stage::LineFormat(self.checked_text(|text| Template::parse(text).map(|_| ()))?)
            }
            "label_format" => Stage::LabelFormat(self.formats()?),
            "drop" => Stage::Drop(self.conditions()?),
            "keep" => Stage::Keep(self.conditions()?),
            _ => {
                return Err(TextFault::new(
                    at,
                    format!("unknown stage {name}; after | comes {STAGES} with a comparison"),
                ));
            }
        }))
    }

    fn checked_text(&mut self, check: impl Fn(&str) -> Result<(), String>) -> Parse<String> {
        let at = self.at();
        let text = self.text("a text in quotes")?;
        match check(&text) {
            Ok(()) => Ok(text),
            Err(why) => Err(TextFault::new(at, why)),
        }
    }

    fn named_captures(&mut self) -> Parse<String> {
        let at = self.at();
        let text = self.text("a regular expression in quotes")?;
        check_regex(&text, at)?;
        match text.contains("(?P<") || text.contains("(?<") {
            true => Ok(text),
            false => Err(TextFault::new(
                at,
                "regexp needs a named group: (?P<name>…)",
            )),
        }
    }

    /// Parses the list of a parser: `a="x.y", b`. A flag of Loki's is refused.
    fn extractions(&mut self, stage: &str) -> Parse<Vec<Named>> {
        if self.is_sign("-") {
            return self.fault(format!(
                "the flags of {stage} (--strict, --keep-empty) are not supported"
            ));
        }
        let mut named = Vec::new();
        if !matches!(self.peek(), LogqlToken::Word(_)) {
            return Ok(named);
        }
        loop {
            self.count()?;
            let label = self.word("a label")?;
            let value = match self.takes("=") {
                true => Some((MatchOp::Equal, self.text("a field in quotes")?)),
                false => None,
            };
            named.push(Named { label, value });
            if !self.takes(",") {
                return Ok(named);
            }
        }
    }

    /// Parses the list of `drop` and `keep`.
    fn conditions(&mut self) -> Parse<Vec<Named>> {
        let mut named = Vec::new();
        loop {
            self.count()?;
            let label = self.word("a label")?;
            let value = match self.match_op() {
                Some(op) => {
                    let at = self.at();
                    let value = self.text("a text in quotes")?;
                    check_pattern(op, &value, at)?;
                    Some((op, value))
                }
                None => None,
            };
            named.push(Named { label, value });
            if !self.takes(",") {
                return Ok(named);
            }
        }
    }

    fn formats(&mut self) -> Parse<Vec<(String, FormatValue)>> {
        let mut formats = Vec::new();
        loop {
            self.count()?;
            let label = self.word("a label")?;
            self.expect("=")?;
            let value = match self.peek() {
                LogqlToken::Word(_) => FormatValue::Rename(self.word("a label")?),
                _ => {
                    let text = self.checked_text(|text| Template::parse(text).map(|_| ()))?;
                    FormatValue::Template(text)
                }
            };
            formats.push((label, value));
            if !self.takes(",") {
                return Ok(formats);
            }
        }
    }

    /// Parses conditions on labels: `or` binds less tightly than `and`; a comma or nothing between
    /// two conditions is an `and`.
    pub(super) fn label_filter(&mut self) -> Parse<LabelFilter> {
        let mut filter = self.all_of()?;
        while self.takes_word("or") {
            self.count()?;
            filter = LabelFilter::Or(Box::new(filter), Box::new(self.all_of()?));
        }
        Ok(filter)
    }

    fn all_of(&mut self) -> Parse<LabelFilter> {
        let mut filter = self.one_filter()?;
        while self.takes_word("and") || self.takes(",") || self.is_filter() {
            self.count()?;
            filter = LabelFilter::And(Box::new(filter), Box::new(self.one_filter()?));
        }
        Ok(filter)
    }

    /// Returns whether a condition comes next.
    fn is_filter(&self) -> bool {
        match self.peek() {
            LogqlToken::Word(word) => word != "or",
            token => *token == LogqlToken::Sign("("),
        }
    }

    fn one_filter(&mut self) -> Parse<LabelFilter> {
        if self.takes("(") {
            let filter = self.deeper(Self::label_filter)?;
            self.expect(")")?;
            return Ok(filter);
        }
        let label = self.word("a label")?;
        let LogqlToken::Sign(sign) = *self.peek() else {
            return Err(self.unexpected("a comparison"));
        };
        if matches!(self.peek_second(), LogqlToken::Text(_)) {
            let Some(op) = self.match_op() else {
                return Err(self.unexpected("=, !=, =~ or !~ before a text"));
            };
            let at = self.at();
            let value = self.text("a text in quotes")?;
            check_pattern(op, &value, at)?;
            return Ok(LabelFilter::Text(Matcher { label, op, value }));
        }
        let op = match sign {
            "=" | "==" => Comparison::Equal,
            "!=" => Comparison::NotEqual,
            ">" => Comparison::Above,
            ">=" => Comparison::AtLeast,
            "<" => Comparison::Below,
            "<=" => Comparison::AtMost,
            _ => return Err(self.unexpected("a comparison")),
        };
        self.advance();
        let is_negative = self.takes("-");
        let value = match (self.peek(), is_negative) {
            (LogqlToken::Number(number), false) => FilterValue::Number(*number),
            (LogqlToken::Number(number), true) => FilterValue::Number(-number),
            (LogqlToken::Duration(ns), false) => FilterValue::Duration(*ns),
            (LogqlToken::Duration(ns), true) => FilterValue::Duration(-ns),
            (LogqlToken::Bytes(bytes), false) => FilterValue::Bytes(*bytes),
            (LogqlToken::Word(function), _) => {
                return self.fault(format!("{function}() in a label filter is not supported"));
            }
            _ => return Err(self.unexpected("a text, a number, a duration or a size")),
        };
        self.advance();
        Ok(LabelFilter::Compare { label, op, value })
    }

    /// Parses `| unwrap duration(x) | __error__=""`, if it follows.
    pub(super) fn unwrap(&mut self) -> Parse<Option<Unwrap>> {
        if !self.is_sign("|") {
            return Ok(None);
        }
        self.advance();
        self.advance();
        let at = self.at();
        let mut label = self.word("a label")?;
        let mut conversion = None;
        if self.takes("(") {
            conversion = Some(match label.as_str() {
                "duration" | "duration_seconds" => Conversion::Duration,
                "bytes" => Conversion::Bytes,
                other => {
                    let message =
                        format!("unwrap {other}() is not supported; use duration() or bytes()");
                    return Err(TextFault::new(at, message));
                }
            });
            label = self.word("a label")?;
            self.expect(")")?;
        }
        let mut filters = Vec::new();
        while self.takes("|") {
            self.count()?;
            filters.push(self.label_filter()?);
        }
        Ok(Some(Unwrap {
            label,
            conversion,
            filters,
        }))
    }
}
