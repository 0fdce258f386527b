//! The canonical spelling: parsing printed text returns an equal expression.

use std::fmt::{Display, Formatter, Result};

use super::lexer::is_plain;
use super::{Condition, Expression, Literal, Operator};

impl Display for Expression {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Self::Field(name) if is_plain(name) => f.write_str(name),
            Self::Field(name) => write!(f, "\"{}\"", name.replace('"', "\"\"")),
            Self::PathPrefix(of, n) => write!(f, "path_prefix({of}, {n})"),
            Self::Capture(of, pattern, group) => {
                write!(
                    f,
                    "regexp_capture({of}, {}, {group})",
                    quoted(&pattern.text)
                )
            }
            Self::UrlParameter(of, name) => {
                write!(f, "url_extract_parameter({of}, {})", quoted(name))
            }
            Self::Text(function, of) => write!(f, "{}({of})", function.name()),
            Self::Quotient(of, by) => write!(f, "{of} / {by}"),
            Self::Remainder(of, by) => write!(f, "{of} % {by}"),
        }
    }
}

impl Display for Condition {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Self::Compare(value, operator, literal) => write!(f, "{value} {operator} {literal}"),
            Self::In(value, literals) => {
                write!(f, "{value} in (")?;
                list(f, literals, ", ", |_| false)?;
                f.write_str(")")
            }
            Self::Like(value, pattern) => write!(f, "{value} like {}", quoted(pattern)),
            Self::IsNull(value) => write!(f, "{value} is null"),
            Self::Not(condition) => match &**condition {
                Self::In(..) | Self::Like(..) | Self::IsNull(_) | Self::Compare(..) => {
                    write!(f, "not {condition}")
                }
                _ => write!(f, "not ({condition})"),
            },
            Self::And(all) => list(f, all, " and ", |c| matches!(c, Self::Or(_))),
            Self::Or(all) => list(f, all, " or ", |_| false),
        }
    }
}

impl Display for Operator {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.write_str(match self {
            Self::Equal => "=",
            Self::Unequal => "<>",
            Self::Less => "<",
            Self::LessOrEqual => "<=",
            Self::Greater => ">",
            Self::GreaterOrEqual => ">=",
        })
    }
}

impl Display for Literal {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Self::Integer(value) => write!(f, "{value}"),
            // Debug prints 5.0 with its point, which makes it a decimal.
            Self::Decimal(bits) => write!(f, "{:?}", f64::from_bits(*bits)),
            Self::Text(text) => f.write_str(&quoted(text)),
        }
    }
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// Writes items with a separator, some in parentheses.
fn list<T: Display>(
    f: &mut Formatter<'_>,
    items: &[T],
    separator: &str,
    enclosed: impl Fn(&T) -> bool,
) -> Result {
    for (nth, item) in items.iter().enumerate() {
        if nth > 0 {
            f.write_str(separator)?;
        }
        if enclosed(item) {
            write!(f, "({item})")?;
        } else {
            write!(f, "{item}")?;
        }
    }
    Ok(())
}
