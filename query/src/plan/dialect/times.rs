//! Functions of times in PostgreSQL's spelling.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{Expr, Function, FunctionArguments, Value, VisitorMut};

use super::{arguments, call, parts};

/// PostgreSQL's template patterns for `to_char` of times (its documentation, "Data Type Formatting
/// Functions"), with those of DataFusion. A pattern comes before those that it begins with. Names
/// of days and months are not padded with blanks.
const PATTERNS: [(&str, &str); 30] = [
    ("HH24", "%H"),
    ("HH12", "%I"),
    ("HH", "%I"),
    ("MI", "%M"),
    ("SS", "%S"),
    ("MS", "%3f"),
    ("US", "%6f"),
    ("AM", "%p"),
    ("PM", "%p"),
    ("am", "%P"),
    ("pm", "%P"),
    ("YYYY", "%Y"),
    ("YY", "%y"),
    ("IYYY", "%G"),
    ("IY", "%g"),
    ("FMMonth", "%B"),
    ("Month", "%B"),
    ("FMMM", "%-m"),
    ("MM", "%m"),
    ("Mon", "%b"),
    ("DDD", "%j"),
    ("FMDD", "%-d"),
    ("DD", "%d"),
    ("FMDay", "%A"),
    ("Day", "%A"),
    ("Dy", "%a"),
    ("IW", "%V"),
    ("ID", "%u"),
    ("TZ", "%Z"),
    ("OF", "%:z"),
];

/// Rewrites calls of these functions.
pub(super) struct Times;

impl VisitorMut for Times {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::Function(function) = expr
            && let Some(known) = known(function)
        {
            *expr = known;
        }
        ControlFlow::Continue(())
    }
}

/// Returns the form of a call that DataFusion knows.
fn known(function: &Function) -> Option<Expr> {
    let FunctionArguments::List(list) = &function.args else {
        return None;
    };
    let args = arguments(&list.args)?;
    match (parts(&function.name)?.pop()?.as_str(), args.as_slice()) {
        ("timezone", [zone @ Expr::Value(_), time]) => Some(Expr::AtTimeZone {
            timestamp: Box::new(Expr::Nested(Box::new(time.clone()))),
            time_zone: Box::new(zone.clone()),
        }),
        ("to_char", [time, Expr::Value(format)]) => {
            let Value::SingleQuotedString(format) = &format.value else {
                return None;
            };
            let format = Value::SingleQuotedString(translated(format)?);
            Some(call("to_char", [time.clone(), Expr::Value(format.into())]))
        }
        _ => None,
    }
}

/// Translates a format; `None` for one that is DataFusion's own, or has no pattern.
fn translated(format: &str) -> Option<String> {
    if format.contains('%') {
        return None;
    }
    let (mut out, mut left, mut any) = (String::new(), format, false);
    while let Some(first) = left.chars().next() {
        if let Some((quoted, after)) = left.strip_prefix('"').and_then(|rest| rest.split_once('"'))
        {
            out.push_str(quoted);
            left = after;
            continue;
        }
        match PATTERNS
            .iter()
            .find(|(pattern, _)| left.starts_with(pattern))
        {
            Some((pattern, ours)) => {
                out.push_str(ours);
                left = &left[pattern.len()..];
                any = true;
            }
            None => {
                out.push(first);
                left = &left[first.len_utf8()..];
            }
        }
    }
    any.then_some(out)
}

#[cfg(test)]
mod tests {
    use super::translated;

    #[test]
    fn formats_of_postgresql_become_those_of_datafusion() {
        for (format, expected) in [
            ("YYYY-MM-DD", Some("%Y-%m-%d")),
            (
                "YYYY-MM-DD\"T\"HH24:MI:SS.MS",
                Some("%Y-%m-%dT%H:%M:%S.%3f"),
            ),
            ("Dy, DD Mon YYYY HH12:MI am", Some("%a, %d %b %Y %I:%M %P")),
            ("IYYY-IW-ID", Some("%G-%V-%u")),
            ("FMDD FMMonth", Some("%-d %B")),
            ("%Y-%m", None),
            ("ä-", None),
        ] {
            assert_eq!(translated(format).as_deref(), expected, "{format}");
        }
    }
}
