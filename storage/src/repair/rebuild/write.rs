//! Writes what a rebuilt manifest names and no file holds yet.

use std::path::Path;

use super::super::SEGMENTS;
use super::ManifestDraft;
use crate::env::{Fs, IoContext};
use crate::error::Result;
use crate::file::{FileRef, create_dir_durably};
use crate::identity;
use crate::manifest::DetachedPartition;
use crate::part;

impl ManifestDraft {
    /// Writes the rows that no part holds and the identities of the journal's batches. Afterwards
    /// every number below `sealed_seq` is in a part or lost. Returns the segment after which the
    /// journal continues.
    pub(in crate::repair) fn write(&mut self, fs: &dyn Fs, data: &Path) -> Result<u64> {
        for (stream, lists) in std::mem::take(&mut self.rest) {
            let meta = self.manifest.streams[&stream].clone();
            for chunks in lists {
                for image in part::build(&meta, &chunks)? {
                    let folder = part::partition_folder(meta.partition, image.partition_us);
                    let folder = format!("streams/{stream}/{folder}");
                    let id = self.manifest.new_file();
                    let path = format!("{folder}/{id}.parquet");
                    create_dir_durably(fs, data, &data.join(&folder))?;
                    let file = FileRef::write_new(fs, data, path, &image.bytes)?;
                    let part = image
                        .bounds
                        .part(id.number, &stream, image.partition_us, file);
                    self.manifest.parts.push(part);
                    fs.sync_dir(&data.join(&folder))
                        .at("sync", &data.join(&folder))?;
                }
            }
        }
        let fresh = self.identities.take_fresh();
        if !fresh.is_empty() {
            let dir = data.join("identities");
            create_dir_durably(fs, data, &dir)?;
            let path = format!("identities/{}.json.zst", self.manifest.new_file());
            let file = FileRef::write_new(fs, data, path, &identity::encode(&fresh))?;
            self.manifest.identities.push(file);
            fs.sync_dir(&dir).at("sync", &dir)?;
        }
        self.manifest.parts.sort_by_key(|p| p.id);
        let manifest = &mut self.manifest;
        for (name, meta) in &mut manifest.streams {
            let live = manifest.parts.iter().filter(|p| &p.stream == name);
            let detached = manifest.detached.iter().filter(|d| &d.stream == name);
            meta.sealed_events = live.map(|p| p.rows).sum::<u64>()
                + detached.map(DetachedPartition::rows).sum::<u64>();
        }
        Ok(self.last_segment + SEGMENTS)
    }
}
