//! `$out` and `$merge`: where the results of a pipeline go.

use bson::{Bson, Document};

use crate::mongo::error::{QueryError, Result};

/// Where the results of a pipeline go.
#[derive(Debug, Clone, PartialEq)]
pub enum PipelineSink {
    /// `$out`: they become the collection.
    Out(SinkCollection),
    /// `$merge`: they are put into the collection.
    Merge {
        /// The collection.
        into: SinkCollection,
        /// The fields by which documents are the same; `_id` if the client names none.
        on: Vec<String>,
        /// The change of a document that is the same.
        when_matched: WhenMatched,
        /// The effect of a result without such a document.
        when_not_matched: WhenNotMatched,
    },
}

/// A collection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SinkCollection {
    /// The database; `None` for the one of the pipeline.
    pub database: Option<String>,
    /// The collection.
    pub collection: String,
}

/// The change of a document that is there.
#[derive(Debug, Clone, PartialEq)]
pub enum WhenMatched {
    /// The result takes its place.
    Replace,
    /// It stays as it is.
    KeepExisting,
    /// It gets the fields of the result.
    Merge,
    /// The pipeline fails.
    Fail,
    /// Stages make the new document of the old one.
    Pipeline {
        /// The stages.
        stages: Vec<Document>,
        /// The expressions of `let`, over the result; without any, `$$new` is the result.
        variables: Option<Document>,
    },
}

/// The effect of a result whose document is not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhenNotMatched {
    /// It is inserted.
    Insert,
    /// It is left out.
    Discard,
    /// The pipeline fails.
    Fail,
}

impl PipelineSink {
    /// Reads `$out`.
    pub(super) fn parse_out(spec: &Bson) -> Result<Self> {
        let refuse = || {
            let message =
                format!("$out needs a collection, or an object of 'db' and 'coll', but got {spec}");
            QueryError::located(16990, message)
        };
        Ok(Self::Out(target(spec).ok_or_else(refuse)?))
    }

    /// Reads `$merge`.
    pub(super) fn parse_merge(spec: &Bson) -> Result<Self> {
        let nothing = Document::new();
        let (into, options) = match spec {
            Bson::String(_) => (Some(spec), &nothing),
            Bson::Document(options) => (options.get("into"), options),
            _ => {
                let message =
                    format!("$merge needs a collection, or an object with 'into', but got {spec}");
                return Err(QueryError::located(51182, message));
            }
        };
        let known = ["into", "on", "let", "whenMatched", "whenNotMatched"];
        if let Some(other) = options.keys().find(|name| !known.contains(&name.as_str())) {
            let message = format!(
                "$merge has no option '{other}'; it takes {}",
                known.join(", ")
            );
            return Err(QueryError::located(40415, message));
        }
        let into = into.and_then(target).ok_or_else(|| {
            let message =
                "the 'into' of $merge needs a collection, or an object of 'db' and 'coll'";
            QueryError::located(51178, message)
        })?;
        Ok(Self::Merge {
            into,
            on: on(options.get("on"))?,
            when_matched: when_matched(options.get("whenMatched"), options.get("let"))?,
            when_not_matched: when_not_matched(options.get("whenNotMatched"))?,
        })
    }
}

fn target(spec: &Bson) -> Option<SinkCollection> {
    let (database, collection) = match spec {
        Bson::String(collection) => (None, collection),
        Bson::Document(spec) => {
            if spec
                .keys()
                .any(|name| !matches!(name.as_str(), "db" | "coll"))
            {
                return None;
            }
            let database = match spec.get("db") {
                None => None,
                Some(database) => Some(database.as_str()?.to_owned()),
            };
            match spec.get("coll") {
                Some(Bson::String(collection)) => (database, collection),
                _ => return None,
            }
        }
        _ => return None,
    };
    let collection = collection.clone();
    (!collection.is_empty()).then_some(SinkCollection {
        database,
        collection,
    })
}

fn on(given: Option<&Bson>) -> Result<Vec<String>> {
    let names: Option<Vec<String>> = match given {
        None => Some(vec!["_id".to_owned()]),
        Some(Bson::String(name)) => Some(vec![name.clone()]),
        Some(Bson::Array(names)) if !names.is_empty() => names
            .iter()
            .map(|name| name.as_str().map(str::to_owned))
            .collect(),
        Some(_) => None,
    };
    names.ok_or_else(|| {
        let message = "the 'on' of $merge needs the name of a field, or an array of names";
        QueryError::located(51186, message)
    })
}

fn when_matched(given: Option<&Bson>, variables: Option<&Bson>) -> Result<WhenMatched> {
    let variables = match variables {
        None => None,
        Some(Bson::Document(variables)) => Some(variables.clone()),
        Some(_) => {
            let message = "the 'let' of $merge needs an object of names and expressions";
            return Err(QueryError::type_mismatch(message));
        }
    };
    if variables.is_some() && !matches!(given, Some(Bson::Array(_))) {
        let message = "the 'let' of $merge stands without stages in 'whenMatched'";
        return Err(QueryError::located(51199, message));
    }
    match given {
        None => Ok(WhenMatched::Merge),
        Some(Bson::String(mode)) => match mode.as_str() {
            "replace" => Ok(WhenMatched::Replace),
            "keepExisting" => Ok(WhenMatched::KeepExisting),
            "merge" => Ok(WhenMatched::Merge),
            "fail" => Ok(WhenMatched::Fail),
            other => Err(unknown("whenMatched", other)),
        },
        Some(Bson::Array(stages)) => {
            let stages = stages.iter().map(|stage| stage.as_document().cloned());
            let stages: Option<Vec<Document>> = stages.collect();
            let message = "each stage of the 'whenMatched' of $merge needs an object";
            let stages = stages.ok_or_else(|| QueryError::type_mismatch(message))?;
            Ok(WhenMatched::Pipeline { stages, variables })
        }
        Some(_) => {
            let message = "the 'whenMatched' of $merge needs the name of a mode, or stages";
            Err(QueryError::located(51191, message))
        }
    }
}

fn when_not_matched(given: Option<&Bson>) -> Result<WhenNotMatched> {
    match given.map(Bson::as_str) {
        None | Some(Some("insert")) => Ok(WhenNotMatched::Insert),
        Some(Some("discard")) => Ok(WhenNotMatched::Discard),
        Some(Some("fail")) => Ok(WhenNotMatched::Fail),
        Some(Some(other)) => Err(unknown("whenNotMatched", other)),
        Some(None) => {
            let message = "the 'whenNotMatched' of $merge needs the name of a mode";
            Err(QueryError::type_mismatch(message))
        }
    }
}

fn unknown(field: &str, mode: &str) -> QueryError {
    let message = format!("the '{field}' of $merge has no mode '{mode}'");
    QueryError::bad_value(message)
}
