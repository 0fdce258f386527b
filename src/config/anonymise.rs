//! `anonymise` of the sections `[stream.NAME]`.

use std::collections::BTreeMap;

use super::Config;

impl Config {
    /// Builds `anonymise` of all streams.
    pub(super) fn anonymisers_of_streams(
        &self,
    ) -> Result<BTreeMap<String, ingest::Anonymiser>, String> {
        let key = self.ingest.hash_key()?;
        let mut all = BTreeMap::new();
        for (name, stream) in &self.stream {
            let mut anonymiser = ingest::Anonymiser::default();
            for (field, method) in &stream.anonymise {
                let wrong = |why: &str| format!("[stream.{name}] anonymise: {field}: {why}");
                if field.is_empty() || field.starts_with('_') || field == storage::TIME {
                    return Err(wrong("this field cannot be changed"));
                }
                let method = ingest::Method::of_name(method)
                    .ok_or_else(|| wrong("write \"truncate\" or \"hash\""))?;
                let added = anonymiser.with(field, method, key.as_ref());
                anonymiser = added.map_err(|e| wrong(&e.to_string()))?;
            }
            if stream.anonymise.is_empty() {
                continue;
            }
            if stream.raw_line {
                return Err(format!(
                    "[stream.{name}] raw_line would keep what anonymise removes; unset one of them"
                ));
            }
            if self.format(name) == ingest::Format::Plain {
                return Err(format!(
                    "[stream.{name}] anonymise: lines of the format plain have no fields; drop the line, or name another format"
                ));
            }
            all.insert(name.clone(), anonymiser);
        }
        Ok(all)
    }

    /// Returns `anonymise` of a stream.
    pub(crate) fn anonymiser(&self, stream: &str) -> ingest::Anonymiser {
        self.anonymisers.get(stream).cloned().unwrap_or_default()
    }
}
