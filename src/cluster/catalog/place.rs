//! The place of the catalog: the object store of the cluster, or else the directory of the first
//! shard, whose server the others ask.

use std::fmt::Debug;
use std::sync::Arc;

use axum::body::Bytes;
use serde::{Deserialize, Serialize};
use storage::{Depot, Store, Swap, Tag};

use crate::cluster::CATALOG;
use crate::cluster::shards::Owners;

/// The outcome of a replacement.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::cluster) enum Replaced {
    /// It happened; the tag of the new version.
    Done(String),
    /// Another version is there.
    Other,
}

/// The place of the catalog. Errors are clauses about it.
pub(in crate::cluster) trait CatalogPlace: Debug + Send + Sync {
    /// Returns the text with its tag; `None` if there is none yet. Blocks.
    ///
    /// # Errors
    /// If it cannot be read.
    fn load(&self) -> Result<Option<(String, String)>, String>;

    /// Returns whether it is read in a millisecond or two.
    fn is_near(&self) -> bool;

    /// Replaces the text if its tag is still `expected`. Blocks.
    ///
    /// # Errors
    /// If the outcome is not known.
    fn replace(&self, expected: Option<&str>, text: &str) -> Result<Replaced, String>;
}

/// The catalog in an object store.
#[derive(Debug)]
pub(in crate::cluster) struct ObjectCatalog(pub(in crate::cluster) Arc<dyn Depot>);

impl CatalogPlace for ObjectCatalog {
    fn load(&self) -> Result<Option<(String, String)>, String> {
        let Some((bytes, Tag(tag))) = self.0.load_current().map_err(|e| e.to_string())? else {
            return Ok(None);
        };
        let text = String::from_utf8(bytes.to_vec());
        Ok(Some((text.map_err(|e| e.to_string())?, tag)))
    }

    fn is_near(&self) -> bool {
        false
    }

    fn replace(&self, expected: Option<&str>, text: &str) -> Result<Replaced, String> {
        let expected = expected.map(|tag| Tag(tag.to_owned()));
        let content = Bytes::copy_from_slice(text.as_bytes());
        let swapped = self.0.swap_current(expected.as_ref(), &content);
        match swapped.map_err(|e| e.to_string())? {
            Swap::Done(Tag(tag)) => Ok(Replaced::Done(tag)),
            Swap::Refused => Ok(Replaced::Other),
        }
    }
}

/// The catalog in the directory of this server's store, which is the first shard. The text is its
/// own tag.
#[derive(Debug)]
pub(in crate::cluster) struct OwnCatalog(pub(in crate::cluster) Arc<Store>);

impl CatalogPlace for OwnCatalog {
    fn load(&self) -> Result<Option<(String, String)>, String> {
        let text = self.0.catalog().map_err(|e| e.to_string())?;
        Ok(text.map(|text| (text.clone(), text)))
    }

    fn is_near(&self) -> bool {
        true
    }

    fn replace(&self, expected: Option<&str>, text: &str) -> Result<Replaced, String> {
        let replaced = self.0.replace_catalog(expected, text);
        Ok(match replaced.map_err(|e| e.to_string())? {
            true => Replaced::Done(text.to_owned()),
            false => Replaced::Other,
        })
    }
}

/// A replacement of the catalog, for the server of the first shard.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CatalogChange {
    pub(crate) expected: Option<String>,
    pub(crate) text: String,
}

/// The catalog at the server of the first shard.
#[derive(Debug)]
pub(in crate::cluster) struct FirstShard(pub(in crate::cluster) Arc<Owners>);

impl CatalogPlace for FirstShard {
    fn load(&self) -> Result<Option<(String, String)>, String> {
        let text: Option<String> = self.0.get(0, CATALOG)?;
        Ok(text.map(|text| (text.clone(), text)))
    }

    fn is_near(&self) -> bool {
        true
    }

    fn replace(&self, expected: Option<&str>, text: &str) -> Result<Replaced, String> {
        let change = CatalogChange {
            expected: expected.map(str::to_owned),
            text: text.to_owned(),
        };
        let change = serde_json::to_vec(&change).expect("BUG: plain values");
        let is_done: bool = self.0.put(0, CATALOG, change.into())?;
        Ok(match is_done {
            true => Replaced::Done(text.to_owned()),
            false => Replaced::Other,
        })
    }
}
