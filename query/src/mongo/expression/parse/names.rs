//! Arguments by name.

use bson::{Bson, Document};

use crate::mongo::error::{QueryError, Result};

/// The name under which a branch has its codes.
pub(super) const BRANCH: &str = "a branch of $switch";

/// The names of the arguments of an operator.
#[derive(Debug, Clone, Copy)]
pub(super) struct ArgumentNames {
    necessary: &'static [&'static str],
    optional: &'static [&'static str],
}

impl ArgumentNames {
    pub(super) const fn new(
        necessary: &'static [&'static str],
        optional: &'static [&'static str],
    ) -> Self {
        Self {
            necessary,
            optional,
        }
    }

    /// Returns all names, the necessary ones first.
    pub(super) fn all(&self) -> impl Iterator<Item = &'static str> {
        self.necessary.iter().chain(self.optional).copied()
    }

    /// Returns the arguments of an operator, after refusing those that it does not know.
    pub(super) fn check<'a>(&self, operator: &str, argument: &'a Bson) -> Result<&'a Document> {
        let codes = ArgumentCodes::of(operator);
        let Bson::Document(arguments) = argument else {
            let names: Vec<&str> = self.all().collect();
            let message = format!("{operator} needs an object of {}", names.join(", "));
            return Err(QueryError::located(codes.object, message));
        };
        let is_known = |name: &str| self.all().any(|known| known == name);
        if let Some(other) = arguments.keys().find(|name| !is_known(name)) {
            let names: Vec<&str> = self.all().collect();
            let message = format!("{operator} has no '{other}'; it takes {}", names.join(", "));
            return Err(QueryError::located(codes.unknown, message));
        }
        let mut necessary = self.necessary.iter();
        if let Some(name) = necessary.find(|name| !arguments.contains_key(**name)) {
            let message = format!("{operator} needs '{name}'");
            return Err(QueryError::located(codes.missing(name), message));
        }
        Ok(arguments)
    }
}

/// The codes of the server for arguments by name.
#[derive(Debug)]
struct ArgumentCodes {
    object: i32,
    unknown: i32,
    missing: i32,
}

impl ArgumentCodes {
    fn of(operator: &str) -> Self {
        let (object, unknown, missing) = match operator {
            "$map" => (16878, 16879, 16880),
            "$filter" => (28646, 28647, 28648),
            "$reduce" => (40075, 40076, 40077),
            "$let" => (16874, 16875, 16876),
            "$switch" => (40060, 40067, 40068),
            BRANCH => (40062, 40063, 40064),
            "$cond" => (17080, 17083, 17080),
            "$zip" => (34460, 34464, 34465),
            "$sortArray" => (2942500, 2942501, 2942502),
            "$getField" => (3041701, 3041702, 3041703),
            "$dateToString" => (18629, 18534, 18628),
            "$dateFromString" => (40540, 40541, 40542),
            "$dateToParts" => (40524, 40520, 40522),
            "$dateFromParts" => (40519, 40518, 40516),
            "$dateTrunc" => (5439007, 5439008, 5439009),
            "$dateDiff" => (5166301, 5166302, 5166303),
            "$dateAdd" | "$dateSubtract" => (5166400, 5166401, 5166402),
            "$regexMatch" | "$regexFind" | "$regexFindAll" => (51103, 31024, 31022),
            "$replaceOne" | "$replaceAll" => (51751, 51750, 51749),
            "$trim" | "$ltrim" | "$rtrim" => (50696, 50694, 50695),
            "$convert" => (9, 9, 9),
            _ => (40536, 40535, 40539),
        };
        Self {
            object,
            unknown,
            missing,
        }
    }

    /// Returns the code of an argument that is missing; some operators have one for each.
    fn missing(&self, name: &str) -> i32 {
        self.missing
            + match (self.missing, name) {
                (17080, "then") | (16876, "in") | (40077, "initialValue") | (40064, "then") => 1,
                (17080, "else") | (16880, "in") | (28648, "cond") | (40077, "in") => 2,
                _ => 0,
            }
    }
}
