//! Random expressions over the columns of a query's tables, by the kind of their value.

use super::forms::{CONDITIONS, DATES, FRACTIONS, INTEGERS, ON_TIME, TEXTS, TIMES};
use super::values::Values;

/// Type of an expression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Time,
    Date,
    Text,
    Integer,
    Fraction,
    Condition,
}

use Kind::{Condition, Date, Fraction, Integer, Text, Time};

impl Kind {
    fn of_place(name: &str) -> Option<Self> {
        Some(match name {
            "t" => Time,
            "d" => Date,
            "s" => Text,
            "i" => Integer,
            "f" => Fraction,
            "b" => Condition,
            _ => return None,
        })
    }
}

/// The columns that a query can name.
#[derive(Debug, Clone, Default)]
pub(super) struct Scope {
    pub(super) columns: Vec<(String, Kind)>,
}

impl Scope {
    pub(super) fn of(columns: &[(&str, Kind)]) -> Self {
        let columns = columns
            .iter()
            .map(|(name, kind)| ((*name).to_owned(), *kind));
        Self {
            columns: columns.collect(),
        }
    }

    /// Returns the same columns with the name of their table before them.
    pub(super) fn under(&self, alias: &str) -> Self {
        let columns = self.columns.iter();
        let columns = columns.map(|(name, kind)| (format!("{alias}.{name}"), *kind));
        Self {
            columns: columns.collect(),
        }
    }

    pub(super) fn and(mut self, other: Self) -> Self {
        self.columns.extend(other.columns);
        self
    }

    pub(super) fn column(&self, values: &mut Values, kind: Kind) -> Option<String> {
        let known: Vec<&String> = self
            .columns
            .iter()
            .filter(|(_, of)| *of == kind)
            .map(|(name, _)| name)
            .collect();
        (!known.is_empty()).then(|| known[values.below(known.len())].clone())
    }

    /// Returns any column and its kind.
    pub(super) fn any(&self, values: &mut Values) -> (String, Kind) {
        self.columns[values.below(self.columns.len())].clone()
    }

    /// Returns an expression of a kind, made of at most so many functions within one another.
    pub(super) fn expression(&self, values: &mut Values, kind: Kind, depth: usize) -> String {
        let column = self.column(values, kind);
        if depth == 0 || (column.is_some() && values.below(20) < 13) {
            return column.unwrap_or_else(|| self.leaf(values, kind));
        }
        let forms: &[&str] = match kind {
            Time => &TIMES,
            Date => &DATES,
            Text => &TEXTS,
            Integer => &INTEGERS,
            Fraction => &FRACTIONS,
            Condition => return format!("({})", self.term(values, depth - 1)),
        };
        let form = values.of(forms);
        self.fill(values, form, depth - 1)
    }

    /// Returns a literal for a kind of which no column exists.
    fn leaf(&self, values: &mut Values, kind: Kind) -> String {
        match kind {
            Time => values.stamp(),
            Date => match self.column(values, Time) {
                Some(time) => format!("CAST({time} AS DATE)"),
                None => values.day(),
            },
            Text => values.text(),
            Integer => values.number(),
            Fraction => match self.column(values, Integer) {
                Some(column) => format!("CAST({column} AS DOUBLE)"),
                None => "2.5".to_owned(),
            },
            Condition => {
                let (column, _) = self.any(values);
                format!("({column} IS NOT NULL)")
            }
        }
    }

    /// Returns a form with its places filled.
    fn fill(&self, values: &mut Values, form: &str, depth: usize) -> String {
        let mut filled = String::with_capacity(form.len() + 32);
        let mut rest = form;
        while let Some((before, after)) = rest.split_once('{') {
            let (name, after) = after.split_once('}').expect("a place has an end");
            filled.push_str(before);
            match Kind::of_place(name) {
                Some(kind) => filled.push_str(&self.expression(values, kind, depth)),
                None => {
                    let constant = values.constant(name);
                    filled.push_str(&constant.unwrap_or_else(|| panic!("no place {name}")));
                }
            }
            rest = after;
        }
        filled.push_str(rest);
        filled
    }

    /// Returns one comparison or test.
    fn term(&self, values: &mut Values, depth: usize) -> String {
        let has_time = self.columns.iter().any(|(_, kind)| *kind == Time);
        match values.below(10) {
            0..4 if has_time => {
                let form = values.of(&ON_TIME);
                self.fill(values, form, depth)
            }
            // An expression is compared with its value at some other moment.
            4 | 5 if has_time => self.as_at_a_moment(values, depth.max(1)),
            _ => {
                let form = values.of(&CONDITIONS);
                self.fill(values, form, depth)
            }
        }
    }

    fn as_at_a_moment(&self, values: &mut Values, depth: usize) -> String {
        const TIME: &str = "\u{1}";
        let of_time = Self::of(&[(TIME, Time)]);
        let kind = values.of(&[Time, Date, Text, Integer]);
        let forms: &[&str] = match kind {
            Time => &TIMES,
            Date => &DATES,
            Text => &TEXTS[..11],
            _ => &INTEGERS[..9],
        };
        let form = values.of(forms);
        let form = of_time.fill(values, form, depth - 1);
        let column = self.column(values, Time).expect("there is one");
        let (compared, moment) = (values.constant("cmp"), values.stamp());
        format!(
            "{} {} {}",
            form.replace(TIME, &column),
            compared.unwrap_or_default(),
            form.replace(TIME, &moment)
        )
    }

    /// Returns a condition: one term, or several with AND, OR and NOT.
    pub(super) fn condition(&self, values: &mut Values, depth: usize) -> String {
        if depth > 0 && values.below(5) < 2 {
            let (left, right) = (
                self.condition(values, depth - 1),
                self.condition(values, depth - 1),
            );
            return match values.below(5) {
                0 | 1 => format!("{left} AND {right}"),
                2 | 3 => format!("({left} OR {right})"),
                _ => format!("NOT ({left} AND {right})"),
            };
        }
        let term = self.term(values, depth.min(2));
        match values.below(10) {
            0 => format!("NOT ({term})"),
            1..4 => format!("({term})"),
            _ => term,
        }
    }
}
