//! `anonymise` of the sections `[stream.NAME]`.

use std::collections::BTreeMap;

use ingest::{Anonymiser, HashKey, Method};

use super::ingest_section::read_hash_key;
use super::{Config, Stream};
use crate::failure::Failure;

/// The key of hashes: none where no stream hashes, or the reason why it is not there.
type ReadKey = Result<Option<HashKey>, String>;

impl Config {
    /// Builds `anonymise` of all streams.
    ///
    /// The key of hashes is read where a stream hashes. If this user may not read it, that is no
    /// problem of the configuration: a query needs no key. Batches are then refused.
    pub(super) fn anonymisers_of_streams(&mut self, problems: &mut Vec<String>) {
        let mut methods = self.stream.values().flat_map(|s| s.anonymise.values());
        let key = match methods.any(|method| Method::of_name(method) == Some(Method::Hash)) {
            true => self.hash_key(problems),
            false => Ok(None),
        };
        let mut anonymisers = BTreeMap::new();
        for (name, stream) in &self.stream {
            let anonymiser = anonymiser_of(name, stream, &key, problems);
            anonymisers.insert(name.clone(), anonymiser);
        }
        self.anonymisers = anonymisers;
    }

    /// Returns `anonymise` of a stream.
    pub(crate) fn anonymiser(&self, stream: &str) -> Anonymiser {
        self.anonymisers.get(stream).cloned().unwrap_or_default()
    }

    /// Checks that every batch can be anonymised, for a server.
    ///
    /// # Errors
    /// If this user may not read the key of hashes: all batches of the streams that hash would be
    /// refused.
    pub(crate) fn check_anonymisers(&self) -> Result<(), Failure> {
        let mut refusals = self.anonymisers.values().filter_map(Anonymiser::refusal);
        match refusals.next() {
            None => Ok(()),
            Some(why) => Err(Failure::config(why.to_owned())),
        }
    }

    fn hash_key(&mut self, problems: &mut Vec<String>) -> ReadKey {
        let Some(file) = &self.ingest.hash_key_file else {
            return Ok(None);
        };
        match read_hash_key(file) {
            Ok((key, warning)) => {
                self.warnings.extend(warning);
                Ok(Some(key))
            }
            Err(bad) => {
                let told = match bad.is_problem {
                    true => problems,
                    false => &mut self.warnings,
                };
                told.push(bad.why.clone());
                Err(bad.why)
            }
        }
    }
}

fn anonymiser_of(
    name: &str,
    stream: &Stream,
    key: &ReadKey,
    problems: &mut Vec<String>,
) -> Anonymiser {
    let mut anonymiser = Anonymiser::default();
    for (field, method) in &stream.anonymise {
        let wrong = |why: &str| format!("[stream.{name}] anonymise: {field}: {why}");
        if field.is_empty() || field.starts_with('_') || field == storage::TIME {
            problems.push(wrong("this field cannot be changed"));
            continue;
        }
        let Some(method) = Method::of_name(method) else {
            problems.push(wrong("write \"truncate\" or \"hash\""));
            continue;
        };
        let key = match key {
            Ok(key) => key.as_ref(),
            Err(why) if method == Method::Hash => {
                anonymiser = anonymiser.refusing(why);
                continue;
            }
            Err(_) => None,
        };
        match anonymiser.clone().with(field, method, key) {
            Ok(added) => anonymiser = added,
            Err(error) => problems.push(wrong(&error.to_string())),
        }
    }
    if stream.raw_line && !stream.anonymise.is_empty() {
        problems.push(format!(
            "[stream.{name}] raw_line would keep what anonymise removes; unset one of them"
        ));
    }
    match stream.quarantine_raw {
        true => anonymiser.keeping_quarantined(),
        false => anonymiser,
    }
}
