//! Filters: the conditions of `find` and `$match` ("Query and Projection Operators" in MongoDB's
//! manual).
//!
//! One rule differs from MongoDB's: documents are equal whatever the order of their fields, for
//! events keep none.
//!
//! # Invariants
//! * A filter has at most [`DEPTH_MAX`] levels and [`NODES_MAX`] conditions, so that matching needs
//!   a bounded stack.
//! * [`Filter::conjuncts`] hold for each document that matches.

mod parse;
mod predicate;

use bson::{Bson, Document};

use self::parse::FilterParser;
use self::predicate::{ComparedBy, Predicate};
use super::error::Result;
use super::path::FieldPath;

/// Maximum levels of a filter.
const DEPTH_MAX: usize = 100;
/// Maximum conditions of a filter.
const NODES_MAX: usize = 100_000;

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
    Field(FieldPath, Predicate),
}

/// A condition on one field that each matching document meets.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Conjunct<'a> {
    /// The dotted name of the field.
    pub(super) path: &'a str,
    /// The condition.
    pub(super) test: ConjunctTest<'a>,
}

/// The condition of a [`Conjunct`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum ConjunctTest<'a> {
    /// `$eq`
    Eq(&'a Bson),
    /// `$gt`
    Gt(&'a Bson),
    /// `$gte`
    Gte(&'a Bson),
    /// `$lt`
    Lt(&'a Bson),
    /// `$lte`
    Lte(&'a Bson),
    /// `$in`
    In(&'a [Bson]),
}

impl Filter {
    /// Reads a filter.
    ///
    /// # Errors
    /// The reason for which it cannot be understood, with MongoDB's code.
    pub fn parse(filter: &Document) -> Result<Self> {
        let root = FilterParser::default().document(filter, 1)?;
        Ok(Self { root })
    }

    /// Returns whether a document matches.
    pub fn matches(&self, document: &Document) -> bool {
        self.root.matches(document)
    }

    /// Returns conditions on single fields that hold for each document that matches.
    pub(super) fn conjuncts(&self) -> Vec<Conjunct<'_>> {
        let mut conjuncts = Vec::new();
        self.root.add_conjuncts(&mut conjuncts);
        conjuncts
    }
}

impl DocumentCondition {
    fn matches(&self, document: &Document) -> bool {
        match self {
            Self::All(conditions) => conditions.iter().all(|c| c.matches(document)),
            Self::Any(conditions) => conditions.iter().any(|c| c.matches(document)),
            Self::None(conditions) => !conditions.iter().any(|c| c.matches(document)),
            Self::Field(path, predicate) => predicate.holds(path, document),
        }
    }

    fn add_conjuncts<'a>(&'a self, into: &mut Vec<Conjunct<'a>>) {
        match self {
            Self::All(conditions) => conditions.iter().for_each(|c| c.add_conjuncts(into)),
            Self::Field(path, predicate) => {
                let test = match predicate {
                    Predicate::Compare(ComparedBy::Eq, value) => ConjunctTest::Eq(value),
                    Predicate::Compare(ComparedBy::Gt, value) => ConjunctTest::Gt(value),
                    Predicate::Compare(ComparedBy::Gte, value) => ConjunctTest::Gte(value),
                    Predicate::Compare(ComparedBy::Lt, value) => ConjunctTest::Lt(value),
                    Predicate::Compare(ComparedBy::Lte, value) => ConjunctTest::Lte(value),
                    Predicate::In { values, patterns } if patterns.is_empty() => {
                        ConjunctTest::In(values)
                    }
                    _ => return,
                };
                let path = path.as_str();
                into.push(Conjunct { path, test });
            }
            Self::Any(_) | Self::None(_) => {}
        }
    }
}

#[cfg(test)]
mod tests;
