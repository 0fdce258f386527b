//! Metric queries: range aggregations, vector aggregations and operators between them.

use super::{LogqlParser, Parse};
use crate::logql::ast::{
    BinaryOp, LabelGrouping, Metric, RangeAggregation, RangeFunction, VectorAggregation,
};
use crate::logql::lexer::{LogqlToken, TextFault};

/// Functions and operators of Loki that are not supported.
const UNSUPPORTED: [&str; 12] = [
    "rate_counter",
    "stddev_over_time",
    "stdvar_over_time",
    "stddev",
    "stdvar",
    "sort",
    "sort_desc",
    "approx_topk",
    "count_values",
    "quantile",
    "label_replace",
    "variants",
];

impl LogqlParser {
    pub(super) fn metric(&mut self) -> Parse<Metric> {
        self.binary(0)
    }

    /// Parses operands joined by operators of at least a precedence.
    fn binary(&mut self, least: u8) -> Parse<Metric> {
        let mut left = self.deeper(Self::operand)?;
        loop {
            if let LogqlToken::Word(word) = self.peek()
                && matches!(word.as_str(), "and" | "or" | "unless")
            {
                return self.fault(format!(
                    "the operator {word} between metric queries is not supported"
                ));
            }
            let LogqlToken::Sign(sign) = *self.peek() else {
                return Ok(left);
            };
            let Some(op) = BinaryOp::named(sign).filter(|op| op.precedence() > least) else {
                return Ok(left);
            };
            self.count()?;
            self.advance();
            let is_bool = op.compares() && self.takes_word("bool");
            if let LogqlToken::Word(word) = self.peek()
                && matches!(
                    word.as_str(),
                    "on" | "ignoring" | "group_left" | "group_right" | "bool"
                )
            {
                return self.fault(format!("the modifier {word} of {sign} is not supported"));
            }
            // Only ^ groups to the right.
            let bound = op.precedence() - u8::from(op == BinaryOp::Power);
            let right = self.deeper(|parser| parser.binary(bound))?;
            left = Metric::Binary {
                op,
                is_bool,
                left: Box::new(left),
                right: Box::new(right),
            };
        }
    }

    fn operand(&mut self) -> Parse<Metric> {
        let at = self.at();
        match self.peek().clone() {
            LogqlToken::Number(number) => {
                self.advance();
                Ok(Metric::Number(number))
            }
            LogqlToken::Sign(sign @ ("-" | "+")) => {
                self.advance();
                let number = self.number("a number")?;
                Ok(Metric::Number(if sign == "-" { -number } else { number }))
            }
            LogqlToken::Sign("(") => {
                self.advance();
                let inside = self.metric()?;
                self.expect(")")?;
                Ok(inside)
            }
            LogqlToken::Word(name) => {
                self.advance();
                self.call(&name, at)
            }
            LogqlToken::Sign("{") => self.fault(
                "a log query is no number: put it into a function, as in count_over_time({…}[5m])",
            ),
            _ => Err(self.unexpected("a function, a number or a log query in braces")),
        }
    }

    fn call(&mut self, name: &str, at: usize) -> Parse<Metric> {
        if name == "vector" {
            self.expect("(")?;
            let is_negative = self.takes("-");
            let number = self.number("a number")?;
            self.expect(")")?;
            return Ok(Metric::Vector(if is_negative { -number } else { number }));
        }
        if let Some(function) = RangeFunction::named(name) {
            return self.range_aggregation(function, at);
        }
        if let Some(function) = VectorAggregation::named(name) {
            return self.vector_aggregation(function);
        }
        Err(TextFault::new(
            at,
            match UNSUPPORTED.contains(&name) {
                true => format!("the function {name} is not supported"),
                false => format!("unknown function {name}"),
            },
        ))
    }

    fn number(&mut self, wanted: &str) -> Parse<f64> {
        match *self.peek() {
            LogqlToken::Number(number) => {
                self.advance();
                Ok(number)
            }
            _ => Err(self.unexpected(wanted)),
        }
    }

    fn vector_aggregation(&mut self, function: VectorAggregation) -> Parse<Metric> {
        let mut grouping = self.grouping()?;
        self.expect("(")?;
        let takes_count = matches!(
            function,
            VectorAggregation::TopK | VectorAggregation::BottomK
        );
        let count = match takes_count {
            false => None,
            true => {
                let at = self.at();
                let count = self.number("the number of series")?;
                if count.fract() != 0.0 || !(1.0..=1e6).contains(&count) {
                    let message = format!("{} takes a whole number from 1", function.text());
                    return Err(TextFault::new(at, message));
                }
                self.expect(",")?;
                Some(count as u64)
            }
        };
        let of = Box::new(self.deeper(Self::metric)?);
        self.expect(")")?;
        if grouping.is_none() {
            grouping = self.grouping()?;
        }
        Ok(Metric::Aggregate {
            function,
            count,
            grouping,
            of,
        })
    }

    fn grouping(&mut self) -> Parse<Option<LabelGrouping>> {
        let is_without = match () {
            () if self.takes_word("by") => false,
            () if self.takes_word("without") => true,
            () => return Ok(None),
        };
        self.expect("(")?;
        let mut labels = Vec::new();
        while !self.takes(")") {
            self.count()?;
            labels.push(self.word("a label or )")?);
            if !self.is_sign(")") {
                self.expect(",")?;
            }
        }
        Ok(Some(LabelGrouping { is_without, labels }))
    }

    fn range_aggregation(&mut self, function: RangeFunction, at: usize) -> Parse<Metric> {
        self.expect("(")?;
        let mut quantile = None;
        if function == RangeFunction::Quantile {
            quantile = Some(self.number("a quantile such as 0.99")?);
            self.expect(",")?;
        }
        let opened = (0..).take_while(|_| self.takes("(")).count();
        let matchers = self.selector()?;
        // `{…}[5m] |= "x"` and `{…} |= "x" [5m]` are the same.
        let mut range = self.range()?;
        let stages = self.stages()?;
        let unwrap = self.unwrap()?;
        for _ in 0..opened {
            self.expect(")")?;
        }
        if range.is_none() {
            range = self.range()?;
        }
        let Some((range_ns, offset_ns)) = range else {
            return Err(self.unexpected("a range such as [5m]"));
        };
        self.expect(")")?;
        let name = function.text();
        match (function.needs_values(), &unwrap) {
            (Some(true), None) => {
                let message = format!("{name} needs | unwrap with a label before its range");
                return Err(TextFault::new(at, message));
            }
            (Some(false), Some(_)) => {
                return Err(TextFault::new(
                    at,
                    format!("{name} counts lines and takes no | unwrap"),
                ));
            }
            _ => {}
        }
        let of = crate::logql::ast::LogQuery { matchers, stages };
        let grouping = self.grouping()?;
        if grouping.is_some() && function.needs_values() != Some(true) {
            let message = format!("{name} takes no grouping; write sum by (…) ({name}(…))");
            return Err(TextFault::new(at, message));
        }
        Ok(Metric::Range(Box::new(RangeAggregation {
            function,
            quantile,
            of,
            unwrap,
            range_ns,
            offset_ns,
            grouping,
        })))
    }

    /// Parses `[5m]` and `[5m] offset 1h`, if it follows.
    fn range(&mut self) -> Parse<Option<(i64, i64)>> {
        if !self.takes("[") {
            return Ok(None);
        }
        let at = self.at();
        let range_ns = self.duration()?;
        if range_ns <= 0 {
            return Err(TextFault::new(at, "a range is longer than 0"));
        }
        if self.is_sign(":") {
            return self.fault("subqueries are not supported");
        }
        self.expect("]")?;
        let offset_ns = match self.takes_word("offset") {
            true => {
                let is_negative = self.takes("-");
                let offset = self.duration()?;
                if is_negative { -offset } else { offset }
            }
            false => 0,
        };
        if self.is_sign("@") {
            return self.fault("the modifier @ is not supported");
        }
        Ok(Some((range_ns, offset_ns)))
    }

    fn duration(&mut self) -> Parse<i64> {
        match *self.peek() {
            LogqlToken::Duration(ns) => {
                self.advance();
                Ok(ns)
            }
            _ => Err(self.unexpected("a duration such as 5m")),
        }
    }
}
