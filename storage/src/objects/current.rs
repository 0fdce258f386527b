//! The content of `CURRENT`: the newest manifest, and the writer that committed it.
//!
//! ```text
//! logmill current <crc32c of the JSON, hex>
//! {"format":1,"version":7,"epoch":3,"nonce":"...","store_id":"...","owner":"...",...}
//! ```

use bytes::Bytes;
use serde::{Deserialize, Serialize};

const FORMAT: u32 = 1;
const HEAD: &str = "logmill current ";

/// The newest manifest of a store in an object store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Current {
    format: u32,
    /// Version of the manifest.
    pub(crate) version: u64,
    /// Epoch of the writer.
    pub(crate) epoch: u32,
    /// Random number of the commit, 32 hex digits: no two contents are equal.
    pub(crate) nonce: String,
    /// Id of the store.
    pub(crate) store_id: String,
    /// Id of the data directory whose writer committed it, 32 hex digits.
    pub(crate) owner: String,
    /// Name of the machine of that writer, for messages.
    pub(crate) host: String,
    /// URL of its server, where it tells one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) address: Option<String>,
    /// The object with the manifest.
    pub(crate) body: ManifestBody,
}

/// An object that holds a version of the manifest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ManifestBody {
    pub(crate) name: String,
    /// Length in bytes.
    pub(crate) len: u64,
    /// crc32c of the whole object.
    pub(crate) crc: u32,
}

impl ManifestBody {
    /// Names an object that no other commit names.
    pub(crate) fn of(version: u64, nonce: &str, bytes: &[u8]) -> Self {
        Self {
            name: format!("manifest/{version:016x}-{nonce}.manifest"),
            len: bytes.len() as u64,
            crc: crc32c::crc32c(bytes),
        }
    }
}

/// Version of a claim: a data directory brings its store to the prefix, and nothing is there yet.
const CLAIM: u64 = 0;

impl Current {
    /// Returns the content by which a data directory claims a prefix that holds nothing.
    pub(crate) fn claim(nonce: &str, (owner, host): (&str, &str)) -> Self {
        let nothing = ManifestBody {
            name: String::new(),
            len: 0,
            crc: 0,
        };
        Self::new((CLAIM, 0), (nonce, ""), (owner, host), nothing)
    }

    /// Returns whether no manifest is there yet.
    pub(crate) fn is_claim(&self) -> bool {
        self.version == CLAIM
    }

    pub(crate) fn new(
        (version, epoch): (u64, u32),
        (nonce, store_id): (&str, &str),
        (owner, host): (&str, &str),
        body: ManifestBody,
    ) -> Self {
        Self {
            format: FORMAT,
            version,
            epoch,
            nonce: nonce.to_owned(),
            store_id: store_id.to_owned(),
            owner: owner.to_owned(),
            host: host.to_owned(),
            address: None,
            body,
        }
    }

    pub(crate) fn encode(&self) -> Bytes {
        let json = serde_json::to_string(self).expect("BUG: plain fields have JSON");
        format!("{HEAD}{:08x}\n{json}\n", crc32c::crc32c(json.as_bytes())).into()
    }

    /// Reads the content of `CURRENT`.
    ///
    /// # Errors
    /// Says what is wrong with it.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, String> {
        let text = std::str::from_utf8(bytes).map_err(|_| "it is no text".to_owned())?;
        let (head, json) = text.split_once('\n').ok_or("it has no head line")?;
        let json = json.trim_end();
        let crc = head.strip_prefix(HEAD).ok_or("it has another head line")?;
        if u32::from_str_radix(crc, 16).ok() != Some(crc32c::crc32c(json.as_bytes())) {
            return Err("its checksum is wrong".into());
        }
        let format: FormatOnly = serde_json::from_str(json).map_err(|e| e.to_string())?;
        if format.format > FORMAT {
            let found = format.format;
            return Err(format!(
                "it has format {found}, this program reads up to {FORMAT}; use a newer logmill"
            ));
        }
        serde_json::from_str(json).map_err(|e| e.to_string())
    }
}

#[derive(Deserialize)]
struct FormatOnly {
    format: u32,
}
