//! The parser, by recursive descent. Each rule checks at once whether an operand is a value, a
//! literal or a condition, so that an error names the position.

use std::fmt::Display;

use super::lexer::{Token, is_reserved, tokens};
use super::{Condition, Expression, Literal, Operator, Pattern, TextFunction};

/// Length limit of an expression, bytes.
const TEXT_MAX: usize = 4_096;
/// Limit of nested brackets.
const DEPTH_MAX: usize = 32;
/// Functions that take more than a text.
const WITH_ARGUMENTS: [&str; 3] = ["path_prefix", "regexp_capture", "url_extract_parameter"];

/// The result of a grammar rule.
enum Term {
    Value(Expression),
    Literal(Literal),
    Condition(Condition),
}

/// A term and the byte at which it begins.
type Placed = (usize, Term);
/// An error: its byte and its message.
type Problem = (usize, String);

impl Expression {
    /// Parses a value.
    ///
    /// # Errors
    /// A message with the fault and its position.
    pub fn parse(text: &str) -> Result<Self, String> {
        parse(text, value)
    }
}

impl Condition {
    /// Parses a condition.
    ///
    /// # Errors
    /// A message with the fault and its position.
    pub fn parse(text: &str) -> Result<Self, String> {
        parse(text, condition)
    }
}

fn parse<T: Display>(
    text: &str,
    convert: impl Fn(Placed) -> Result<T, Problem>,
) -> Result<T, String> {
    check_len("an expression", text)?;
    let read = || {
        let mut parser = Parser {
            tokens: tokens(text)?,
            next: 0,
            depth: 0,
        };
        let term = parser.any()?;
        match parser.peek() {
            Token::End => convert(term),
            _ => Err(parser.unexpected("and, or, or the end")),
        }
    };
    let read = read().map_err(|(at, what): Problem| {
        let place = text[..at].chars().count() + 1;
        format!("{what} at character {place} of {text:?}")
    })?;
    // The store keeps the canonical spelling and parses it at each start.
    check_len("an expression in its canonical spelling", &read.to_string())?;
    Ok(read)
}

fn check_len(what: &str, text: &str) -> Result<(), String> {
    match text.len() {
        len if len > TEXT_MAX => Err(format!(
            "{what} has at most {TEXT_MAX} bytes, this one {len}"
        )),
        _ => Ok(()),
    }
}

fn value((at, term): Placed) -> Result<Expression, Problem> {
    match term {
        Term::Value(value) => Ok(value),
        Term::Literal(_) => Err((at, "a field is expected, not a literal,".to_owned())),
        Term::Condition(_) => Err((at, "a value is expected, not a condition,".to_owned())),
    }
}

fn literal((at, term): Placed) -> Result<Literal, Problem> {
    match term {
        Term::Literal(literal) => Ok(literal),
        _ => Err((
            at,
            "a number or text in single quotes is expected".to_owned(),
        )),
    }
}

fn condition((at, term): Placed) -> Result<Condition, Problem> {
    match term {
        Term::Condition(condition) => Ok(condition),
        _ => Err((
            at,
            "a condition such as status >= 500 is expected".to_owned(),
        )),
    }
}

struct Parser {
    tokens: Vec<(usize, Token)>,
    next: usize,
    depth: usize,
}

impl Parser {
    fn peek(&self) -> &Token {
        &self.tokens[self.next].1
    }

    fn at(&self) -> usize {
        self.tokens[self.next].0
    }

    fn advance(&mut self) -> Token {
        let token = self.peek().clone();
        self.next = (self.next + 1).min(self.tokens.len() - 1);
        token
    }

    fn unexpected(&self, expected: &str) -> Problem {
        let found = match self.peek() {
            Token::Word(word) => format!("{word:?}"),
            Token::Name(name) => format!("the field {name:?}"),
            Token::Text(text) => format!("the text {text:?}"),
            Token::Integer(value) => value.to_string(),
            Token::Decimal(value) => format!("{value:?}"),
            Token::Sign(sign) => format!("{sign:?}"),
            Token::End => "the end".to_owned(),
        };
        (self.at(), format!("{expected} is expected, not {found},"))
    }

    fn word(&mut self, expected: &str) -> bool {
        let found = matches!(self.peek(), Token::Word(word) if word.eq_ignore_ascii_case(expected));
        self.next += usize::from(found);
        found
    }

    fn sign(&mut self, expected: &str) -> bool {
        let found = matches!(self.peek(), Token::Sign(sign) if *sign == expected);
        self.next += usize::from(found);
        found
    }

    fn expect(&mut self, sign: &str) -> Result<(), Problem> {
        if self.sign(sign) {
            return Ok(());
        }
        Err(self.unexpected(&format!("{sign:?}")))
    }

    /// Parses a value, literal or condition up to the first token that cannot continue it.
    fn any(&mut self) -> Result<Placed, Problem> {
        let at = self.at();
        if self.depth == DEPTH_MAX {
            return Err((at, format!("more than {DEPTH_MAX} nested brackets")));
        }
        self.depth += 1;
        let first = self.all_of()?;
        let term = if matches!(self.peek(), Token::Word(w) if w.eq_ignore_ascii_case("or")) {
            let mut terms = vec![condition(first)?];
            while self.word("or") {
                terms.push(condition(self.all_of()?)?);
            }
            let flat = terms.into_iter().flat_map(|term| match term {
                Condition::Or(inner) => inner,
                other => vec![other],
            });
            (at, Term::Condition(Condition::Or(flat.collect())))
        } else {
            first
        };
        self.depth -= 1;
        Ok(term)
    }

    fn all_of(&mut self) -> Result<Placed, Problem> {
        let at = self.at();
        let first = self.negation()?;
        if !matches!(self.peek(), Token::Word(w) if w.eq_ignore_ascii_case("and")) {
            return Ok(first);
        }
        let mut terms = vec![condition(first)?];
        while self.word("and") {
            terms.push(condition(self.negation()?)?);
        }
        let flat = terms.into_iter().flat_map(|term| match term {
            Condition::And(inner) => inner,
            other => vec![other],
        });
        Ok((at, Term::Condition(Condition::And(flat.collect()))))
    }

    fn negation(&mut self) -> Result<Placed, Problem> {
        let at = self.at();
        let mut nots = 0;
        while self.word("not") {
            nots += 1;
        }
        let mut term = self.test()?;
        for _ in 0..nots {
            term = (at, Term::Condition(condition(term)?.negated()));
        }
        Ok(term)
    }

    /// Parses a value, with a comparison or another test of it if one follows.
    fn test(&mut self) -> Result<Placed, Problem> {
        let at = self.at();
        let left = self.arithmetic()?;
        if let Some(operator) = self.operator() {
            let right = self.arithmetic()?;
            return Ok((at, Term::Condition(compare(left, operator, right)?)));
        }
        if self.word("is") {
            let negated = self.word("not");
            if !self.word("null") {
                return Err(self.unexpected("null"));
            }
            return Ok(test_of(at, Condition::IsNull(value(left)?), negated));
        }
        let negated = self.word("not");
        if self.word("in") {
            self.expect("(")?;
            let mut literals = vec![literal(self.arithmetic()?)?];
            while self.sign(",") {
                literals.push(literal(self.arithmetic()?)?);
            }
            self.expect(")")?;
            return Ok(test_of(at, Condition::In(value(left)?, literals), negated));
        }
        if self.word("like") {
            let pattern = self.text("a pattern such as 'x%'")?;
            return Ok(test_of(at, Condition::Like(value(left)?, pattern), negated));
        }
        if negated {
            return Err(self.unexpected("in or like"));
        }
        Ok(left)
    }

    fn operator(&mut self) -> Option<Operator> {
        let Token::Sign(sign) = self.peek() else {
            return None;
        };
        let operator = match *sign {
            "=" | "==" => Operator::Equal,
            "<>" | "!=" => Operator::Unequal,
            "<" => Operator::Less,
            "<=" => Operator::LessOrEqual,
            ">" => Operator::Greater,
            ">=" => Operator::GreaterOrEqual,
            _ => return None,
        };
        self.next += 1;
        Some(operator)
    }

    fn arithmetic(&mut self) -> Result<Placed, Problem> {
        let at = self.at();
        let mut left = self.primary()?;
        loop {
            let make = if self.sign("/") {
                Expression::Quotient
            } else if self.sign("%") {
                Expression::Remainder
            } else {
                return Ok(left);
            };
            let of = Box::new(value(left)?);
            let by_at = self.at();
            left = match self.primary()?.1 {
                Term::Literal(Literal::Integer(by)) if by != 0 => (at, Term::Value(make(of, by))),
                _ => return Err((by_at, "an integer other than 0 is expected".to_owned())),
            };
        }
    }

    fn primary(&mut self) -> Result<Placed, Problem> {
        let at = self.at();
        if self.sign("(") {
            let term = self.any()?;
            self.expect(")")?;
            return Ok((at, term.1));
        }
        let negative = self.sign("-");
        let term = match self.peek().clone() {
            Token::Integer(value) => {
                let signed = i128::from(value) * if negative { -1 } else { 1 };
                let fits =
                    i64::try_from(signed).map_err(|_| (at, format!("{signed} exceeds 64 bits")))?;
                Term::Literal(Literal::Integer(fits))
            }
            Token::Decimal(value) => {
                let signed = if negative { -value } else { value };
                Term::Literal(Literal::Decimal(signed.to_bits()))
            }
            _ if negative => return Err(self.unexpected("a number")),
            Token::Text(text) => Term::Literal(Literal::Text(text)),
            Token::Name(name) => Term::Value(Expression::Field(name)),
            Token::Word(word) if !is_reserved(&word) => {
                self.next += 1;
                return Ok((at, Term::Value(self.field_or_function(at, word)?)));
            }
            _ => return Err(self.unexpected("a field or a literal")),
        };
        self.advance();
        Ok((at, term))
    }

    fn field_or_function(&mut self, at: usize, word: String) -> Result<Expression, Problem> {
        if !self.sign("(") {
            return Ok(Expression::Field(word));
        }
        let name = word.to_ascii_lowercase();
        let of_text = TextFunction::of_name(&name);
        if of_text.is_none() && !WITH_ARGUMENTS.contains(&&*name) {
            let functions: Vec<&str> = WITH_ARGUMENTS
                .into_iter()
                .chain(TextFunction::ALL.map(TextFunction::name))
                .collect();
            let functions = functions.join(", ");
            let what = format!("{word} is not a function; the functions are {functions};");
            return Err((at, what));
        }
        let of = Box::new(value(self.any()?)?);
        let made = match of_text {
            Some(function) => Expression::Text(function, of),
            None => self.with_arguments(&name, of)?,
        };
        self.expect(")")?;
        Ok(made)
    }

    /// Parses the arguments behind the text of one of [`WITH_ARGUMENTS`].
    fn with_arguments(&mut self, name: &str, of: Box<Expression>) -> Result<Expression, Problem> {
        self.expect(",")?;
        Ok(match name {
            "path_prefix" => Expression::PathPrefix(of, self.small("a number of segments")?),
            "url_extract_parameter" => {
                Expression::UrlParameter(of, self.text("a parameter's name in single quotes")?)
            }
            _ => {
                let (pattern, group) = self.pattern()?;
                Expression::Capture(of, pattern, group)
            }
        })
    }

    /// Parses a pattern and the number of the group to capture, 1 by default.
    fn pattern(&mut self) -> Result<(Pattern, u16), Problem> {
        let at = self.at();
        let text = self.text("a pattern in single quotes")?;
        let pattern = Pattern::new(&text).map_err(|e| (at, e))?;
        let group = if self.sign(",") {
            self.small("the number of a group")?
        } else {
            1
        };
        let groups = pattern.regex.captures_len() - 1;
        if usize::from(group) > groups {
            let what = format!("the pattern has {groups} groups (…), so no group {group},");
            return Err((at, what));
        }
        Ok((pattern, group))
    }

    fn text(&mut self, expected: &str) -> Result<String, Problem> {
        let Token::Text(text) = self.peek().clone() else {
            return Err(self.unexpected(expected));
        };
        self.next += 1;
        Ok(text)
    }

    fn small(&mut self, expected: &str) -> Result<u16, Problem> {
        let found = match self.peek() {
            Token::Integer(value) => u16::try_from(*value).ok(),
            _ => None,
        };
        let Some(value) = found else {
            return Err(self.unexpected(expected));
        };
        self.next += 1;
        Ok(value)
    }
}

/// Builds a comparison with the literal on the right; it may be written on either side.
fn compare(left: Placed, operator: Operator, right: Placed) -> Result<Condition, Problem> {
    let (value_side, operator, literal_side) = match left.1 {
        Term::Literal(_) => (right, mirrored(operator), left),
        _ => (left, operator, right),
    };
    let value = value(value_side)?;
    Ok(Condition::Compare(value, operator, literal(literal_side)?))
}

fn mirrored(operator: Operator) -> Operator {
    match operator {
        Operator::Less => Operator::Greater,
        Operator::LessOrEqual => Operator::GreaterOrEqual,
        Operator::Greater => Operator::Less,
        Operator::GreaterOrEqual => Operator::LessOrEqual,
        same => same,
    }
}

fn test_of(at: usize, condition: Condition, negated: bool) -> Placed {
    let condition = if negated {
        condition.negated()
    } else {
        condition
    };
    (at, Term::Condition(condition))
}
