//! Filters: the conditions of `find` and `$match` ("Query and Projection Operators" in MongoDB's
//! manual).
//!
//! One rule differs from MongoDB's: documents outside arrays are equal whatever the order of their
//! fields, for events keep none.
//!
//! # Invariants
//! * A filter has at most [`DEPTH_MAX`] levels and [`CONDITIONS_MAX`] conditions, and its values at
//!   most [`DEPTH_MAX`] levels. Parsing and matching need a stack of that depth and no more.
//! * [`Filter::conjuncts`] hold for each document that matches.

mod comparison;
mod operands;
mod parse;
mod pattern;
mod predicate;
mod work;

use std::collections::{BTreeMap, BTreeSet};

use bson::{Bson, Document};

use self::comparison::ComparedBy;
use self::parse::FilterParser;
use self::predicate::{ElementCondition, Predicate};
use self::work::MatchWork;
use crate::mongo::error::Result;
use crate::mongo::expression::{Expression, ExpressionContext, ExpressionScope, FieldUses};
use crate::mongo::path::{DottedPath, PathRoot};

/// Maximum levels of a filter, and of a value in it.
const DEPTH_MAX: usize = 100;
/// Maximum conditions of a filter: each document meets all of them.
const CONDITIONS_MAX: usize = 10_000;
/// Maximum regular expressions of a filter: each may need a mebibyte.
const PATTERNS_MAX: usize = 256;

/// A filter of documents.
#[derive(Debug)]
pub struct Filter {
    root: DocumentCondition,
}

/// A condition on a document.
#[derive(Debug)]
enum DocumentCondition {
    All(Vec<Self>),
    Any(Vec<Self>),
    None(Vec<Self>),
    /// All of the conditions on one field.
    Field(DottedPath, Vec<Predicate>),
    /// `$expr`, at the top of a filter alone.
    Expression(Expression),
}

/// A condition on one field that each matching document meets.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Conjunct<'a> {
    /// The dotted name of the field.
    pub(super) path: &'a str,
    /// The condition.
    pub(super) test: ConjunctTest<'a>,
}

/// The condition of a [`Conjunct`]. One of its values in the document meets it, as the elements of
/// an array may.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum ConjunctTest<'a> {
    /// `$eq`; null is equal to a missing field too.
    Eq(&'a Bson),
    /// `$gt`
    Gt(&'a Bson),
    /// `$gte`
    Gte(&'a Bson),
    /// `$lt`
    Lt(&'a Bson),
    /// `$lte`
    Lte(&'a Bson),
    /// `$in`, its values sorted.
    In(&'a [Bson]),
}

impl Filter {
    /// Reads a filter.
    ///
    /// # Errors
    /// The reason for which it cannot be understood, with MongoDB's code.
    pub fn parse(filter: &Document) -> Result<Self> {
        Self::parse_in(filter, &ExpressionScope::default())
    }

    /// Reads a filter whose `$expr` may name the variables of a query.
    ///
    /// # Errors
    /// As those of [`Filter::parse`].
    pub fn parse_in(filter: &Document, scope: &ExpressionScope) -> Result<Self> {
        let root = FilterParser::new(scope).document(filter, 1)?;
        Ok(Self { root })
    }

    /// Returns whether a document matches. The surroundings are those of `$expr`, and have the
    /// deadline.
    ///
    /// # Errors
    /// The failures of the expressions, 50 after the deadline, and 51156 if a regular expression
    /// would take too long for a text.
    pub fn matches(&self, document: &Document, context: &ExpressionContext) -> Result<bool> {
        let mut work = MatchWork::new(document, context);
        let is_match = self.root.matches(PathRoot::Document(document), &mut work);
        work.finish(is_match)
    }

    /// Returns the names of the fields on which a match depends; `None` if it may depend on all.
    pub fn fields(&self) -> Option<BTreeSet<String>> {
        let mut names = BTreeSet::new();
        self.root.add_fields(&mut names).then_some(names)
    }

    /// Returns whether a document matches if it meets all conjuncts.
    pub(super) fn is_conjunction(&self) -> bool {
        self.root.is_conjunction()
    }

    /// Returns conditions on single fields that hold for each document that matches. A document
    /// that meets all of them may still not match.
    pub(super) fn conjuncts(&self) -> Vec<Conjunct<'_>> {
        let mut conjuncts = Vec::new();
        self.root.add_conjuncts(&mut conjuncts);
        conjuncts
    }
}

/// The operand of `$elemMatch`, for projections of an array's first matching element.
#[derive(Debug)]
pub(super) struct ElementFilter {
    condition: ElementCondition,
}

impl ElementFilter {
    /// Reads the operand.
    ///
    /// # Errors
    /// The reason for which it cannot be understood, with MongoDB's code.
    pub(super) fn parse(operand: &Bson) -> Result<Self> {
        let condition = FilterParser::default().element(operand, 1)?;
        Ok(Self { condition })
    }

    /// Returns the first element that matches.
    ///
    /// # Errors
    /// As those of [`Filter::matches`].
    pub(super) fn first<'a>(
        &self,
        items: &'a [Bson],
        context: &ExpressionContext,
    ) -> Result<Option<&'a Bson>> {
        let nothing = Document::new();
        let mut work = MatchWork::new(&nothing, context);
        let found = items
            .iter()
            .find(|item| self.condition.is_met(item, &mut work));
        work.finish(found)
    }
}

impl DocumentCondition {
    fn matches(&self, root: PathRoot<'_>, work: &mut MatchWork<'_>) -> bool {
        if !work.goes_on() {
            return true;
        }
        match self {
            Self::All(conditions) => conditions.iter().all(|c| c.matches(root, work)),
            Self::Any(conditions) => conditions.iter().any(|c| c.matches(root, work)),
            Self::None(conditions) => !conditions.iter().any(|c| c.matches(root, work)),
            Self::Field(path, predicates) => predicates.iter().all(|p| p.holds(path, root, work)),
            Self::Expression(expression) => work.is_true(expression),
        }
    }

    /// Adds the names of the fields that are read; returns false if they may be all.
    fn add_fields(&self, into: &mut BTreeSet<String>) -> bool {
        let first = |path: &str| path.split('.').next().unwrap_or(path).to_owned();
        match self {
            Self::All(conditions) | Self::Any(conditions) | Self::None(conditions) => {
                conditions.iter().all(|c| c.add_fields(into))
            }
            Self::Field(path, _) => {
                into.insert(first(path.as_str()));
                true
            }
            Self::Expression(expression) => {
                let mut uses = FieldUses::default();
                expression.add_uses(&mut uses);
                let fields = uses.fields();
                into.extend(
                    fields
                        .into_iter()
                        .flat_map(BTreeMap::keys)
                        .map(|path| first(path)),
                );
                fields.is_some()
            }
        }
    }

    fn is_conjunction(&self) -> bool {
        match self {
            Self::All(conditions) => conditions.iter().all(Self::is_conjunction),
            Self::Field(_, predicates) => predicates.iter().all(Predicate::is_conjunction),
            Self::Any(_) | Self::None(_) | Self::Expression(_) => false,
        }
    }

    fn add_conjuncts<'a>(&'a self, into: &mut Vec<Conjunct<'a>>) {
        match self {
            Self::All(conditions) => conditions.iter().for_each(|c| c.add_conjuncts(into)),
            Self::Field(path, predicates) => {
                let path = path.as_str();
                for predicate in predicates {
                    predicate.add_conjuncts(path, into);
                }
            }
            Self::Any(_) | Self::None(_) | Self::Expression(_) => {}
        }
    }
}

impl Predicate {
    fn is_conjunction(&self) -> bool {
        match self {
            Self::Compare(..) => true,
            Self::In { patterns, .. } => patterns.is_empty(),
            Self::Each(predicates) => predicates.iter().all(Self::is_conjunction),
            _ => false,
        }
    }

    fn add_conjuncts<'a>(&'a self, path: &'a str, into: &mut Vec<Conjunct<'a>>) {
        let test = match self {
            Self::Compare(ComparedBy::Eq, value) => ConjunctTest::Eq(value),
            Self::Compare(ComparedBy::Gt, value) => ConjunctTest::Gt(value),
            Self::Compare(ComparedBy::Gte, value) => ConjunctTest::Gte(value),
            Self::Compare(ComparedBy::Lt, value) => ConjunctTest::Lt(value),
            Self::Compare(ComparedBy::Lte, value) => ConjunctTest::Lte(value),
            Self::In { values, patterns } if patterns.is_empty() => {
                ConjunctTest::In(values.values())
            }
            Self::Each(predicates) => {
                for predicate in predicates {
                    predicate.add_conjuncts(path, into);
                }
                return;
            }
            _ => return,
        };
        into.push(Conjunct { path, test });
    }
}

#[cfg(test)]
mod tests;
