//! Sorts of documents ("sort()" and "Comparison/Sort Order" in MongoDB's manual).

use std::cmp::Ordering;

use bson::{Bson, Document};

use super::error::{QueryError, Result};
use super::path::FieldPath;
use super::value::{BsonNumber, compare};

/// Maximum fields of a sort, as in MongoDB.
const FIELDS_MAX: usize = 32;

/// A sort by fields.
#[derive(Debug)]
pub struct Sort {
    fields: Vec<(FieldPath, bool)>,
}

/// The values by which a document is sorted.
#[derive(Debug, Clone)]
struct SortKey(Vec<Bson>);

impl Sort {
    /// Reads a sort.
    ///
    /// # Errors
    /// The reason for which it cannot be understood, with MongoDB's code.
    pub fn parse(sort: &Document) -> Result<Self> {
        if sort.len() > FIELDS_MAX {
            let message = format!("too many compound keys: a sort has at most {FIELDS_MAX}");
            return Err(QueryError::located(13103, message));
        }
        let fields = sort.iter().map(|(name, direction)| {
            let number = BsonNumber::of(direction).and_then(|number| number.to_integer());
            match number {
                _ if name.is_empty() || name.split('.').any(str::is_empty) => Err(
                    QueryError::located(15998, "FieldPath field names may not be empty strings."),
                ),
                _ if name.starts_with('$') => {
                    let message =
                        format!("FieldPath field names may not start with '$', as '{name}'");
                    Err(QueryError::located(16410, message))
                }
                Some(1) => Ok((FieldPath::new(name), false)),
                Some(-1) => Ok((FieldPath::new(name), true)),
                Some(_) => Err(QueryError::located(
                    15975,
                    "$sort key ordering must be 1 (for ascending) or -1 (for descending)",
                )),
                None => Err(QueryError::located(
                    15974,
                    format!("Illegal key in $sort specification: {name}: {direction}"),
                )),
            }
        });
        Ok(Self {
            fields: fields.collect::<Result<_>>()?,
        })
    }

    /// Returns the names of the fields, each with whether it is descending.
    pub fn fields(&self) -> impl Iterator<Item = (&str, bool)> {
        self.fields
            .iter()
            .map(|(path, descending)| (path.as_str(), *descending))
    }

    fn key(&self, document: &Document) -> SortKey {
        let values = self
            .fields
            .iter()
            .map(|(path, descending)| extreme(path, *descending, document));
        SortKey(values.collect())
    }

    fn compare(&self, a: &SortKey, b: &SortKey) -> Ordering {
        let pairs = a.0.iter().zip(&b.0).zip(&self.fields);
        let orders = pairs.map(|((a, b), (_, descending))| match descending {
            true => compare(b, a),
            false => compare(a, b),
        });
        orders
            .into_iter()
            .find(|order| order.is_ne())
            .unwrap_or(Ordering::Equal)
    }
}

/// Returns the least value of a path, or the greatest of a descending one. An array counts by its
/// elements, an empty one less than null, and a missing value as null.
fn extreme(path: &FieldPath, descending: bool, document: &Document) -> Bson {
    let mut found: Option<Bson> = None;
    path.any(document, &mut |value, _| {
        let value = match value {
            None => &Bson::Null,
            Some(Bson::Array(items)) if items.is_empty() => &Bson::Undefined,
            // Its elements follow.
            Some(Bson::Array(_)) => return false,
            Some(value) => value,
        };
        let is_better = found.as_ref().is_none_or(|found| match descending {
            true => compare(value, found).is_gt(),
            false => compare(value, found).is_lt(),
        });
        if is_better {
            found = Some(value.clone());
        }
        false
    });
    found.unwrap_or(Bson::Null)
}

/// The first documents of a sort, of bounded size. Documents with equal keys keep their order.
#[derive(Debug)]
pub struct TopK {
    sort: Sort,
    limit: usize,
    bytes_max: usize,
    held: Vec<(SortKey, Document)>,
    bytes: usize,
}

impl TopK {
    /// Begins with a limit of documents, and one of the bytes that are held.
    pub fn new(sort: Sort, limit: Option<usize>, bytes_max: usize) -> Self {
        Self {
            sort,
            limit: limit.unwrap_or(usize::MAX),
            bytes_max,
            held: Vec::new(),
            bytes: 0,
        }
    }

    /// Takes a document.
    ///
    /// # Errors
    /// If more bytes would have to be held than the limit allows.
    pub fn push(&mut self, document: Document) -> Result<()> {
        let key = self.sort.key(&document);
        self.bytes += document.to_vec().map_or(0, |bytes| bytes.len());
        self.held.push((key, document));
        // Twice as many are held, so that a document costs a logarithm.
        if self.held.len() / 2 > self.limit.max(1024) || self.bytes > self.bytes_max {
            self.cut();
        }
        if self.bytes > self.bytes_max {
            let mib = self.bytes_max >> 20;
            let message = format!(
                "Sort exceeded memory limit of {mib} MiB; ask for fewer documents with a filter or a limit"
            );
            return Err(QueryError::located(292, message));
        }
        Ok(())
    }

    fn cut(&mut self) {
        let sort = &self.sort;
        self.held.sort_by(|(a, _), (b, _)| sort.compare(a, b));
        if self.held.len() > self.limit {
            self.held.truncate(self.limit);
            let sizes = self
                .held
                .iter()
                .map(|(_, d)| d.to_vec().map_or(0, |b| b.len()));
            self.bytes = sizes.sum();
        }
    }

    /// Returns the documents in their order.
    pub fn finish(mut self) -> Vec<Document> {
        self.cut();
        self.held
            .into_iter()
            .map(|(_, document)| document)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use bson::doc;

    use super::*;

    fn sorted(sort: &Document, limit: Option<usize>, documents: &[Document]) -> Vec<i32> {
        let mut top = TopK::new(Sort::parse(sort).unwrap(), limit, 1 << 20);
        for document in documents {
            top.push(document.clone()).unwrap();
        }
        let ids = top.finish().into_iter().map(|d| d.get_i32("_id").unwrap());
        ids.collect()
    }

    #[test]
    fn arrays_sort_by_their_least_or_greatest_element() {
        let documents = [
            doc! { "_id": 0, "a": 3 },
            doc! { "_id": 1, "a": [1, 9] },
            doc! { "_id": 2, "a": [] },
            doc! { "_id": 3 },
            doc! { "_id": 4, "a": null },
            doc! { "_id": 5, "a": "x" },
            doc! { "_id": 6, "a": 3.0 },
        ];
        assert_eq!(
            sorted(&doc! { "a": 1 }, None, &documents),
            [2, 3, 4, 1, 0, 6, 5]
        );
        assert_eq!(
            sorted(&doc! { "a": -1 }, None, &documents),
            [5, 1, 0, 6, 3, 4, 2]
        );
        assert_eq!(
            sorted(&doc! { "a": 1, "_id": -1_i64 }, Some(3), &documents),
            [2, 4, 3]
        );
    }

    #[test]
    fn the_first_of_very_many_are_found() {
        let document = |n: i32| doc! { "_id": n, "a": n.wrapping_mul(7919) % 10_007 };
        let documents: Vec<Document> = (0..10_007).map(document).collect();
        let mut expected: Vec<(i32, i32)> = documents
            .iter()
            .map(|d| (d.get_i32("a").unwrap(), d.get_i32("_id").unwrap()))
            .collect();
        expected.sort_unstable();
        let expected: Vec<i32> = expected[..10].iter().map(|(_, id)| *id).collect();
        assert_eq!(sorted(&doc! { "a": 1 }, Some(10), &documents), expected);
    }

    #[test]
    fn a_sort_that_cannot_be_understood_is_refused() {
        for (sort, code) in [
            (doc! { "a": 2 }, 15975),
            (doc! { "a": "x" }, 15974),
            (doc! { "$a": 1 }, 16410),
            (doc! { "a..b": 1 }, 15998),
        ] {
            assert_eq!(Sort::parse(&sort).unwrap_err().code, code, "{sort}");
        }
        let mut top = TopK::new(Sort::parse(&doc! { "a": 1 }).unwrap(), None, 1000);
        let pushed = (0..100).try_for_each(|n| top.push(doc! { "a": n }));
        assert_eq!(pushed.unwrap_err().code, 292);
    }
}
