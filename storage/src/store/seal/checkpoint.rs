//! Checkpoints of identities: a seal writes those that were remembered since the last one, since
//! it drops the journal that holds them.

use super::Frozen;
use crate::env::IoContext;
use crate::error::Result;
use crate::file::FileRef;
use crate::identity;
use crate::manifest::{Manifest, Pending};
use crate::store::Shared;
use crate::store::staged_files::StagedFiles;

/// Change of the manifest's checkpoint files: none, one more, or one that replaces all others.
pub(super) enum Checkpoint {
    Nothing,
    Add(FileRef),
    Replace(FileRef),
}

impl Checkpoint {
    /// Writes the identities of a seal; with those of all earlier files when there are many.
    pub(super) fn write(
        shared: &Shared,
        frozen: &Frozen,
        written: &mut StagedFiles,
    ) -> Result<Self> {
        if frozen.fresh.is_empty() {
            return Ok(Self::Nothing);
        }
        let known = &frozen.sealed.manifest.identities;
        let merge = known.len() >= identity::FILES_MAX;
        let mut entries = Vec::new();
        if merge {
            for file in known {
                let bytes = file.read(shared.fs(), &shared.data)?;
                entries.extend(identity::decode(&shared.data, file, &bytes)?);
            }
        }
        entries.extend(frozen.fresh.iter().cloned());
        if merge {
            entries = identity::still_needed(entries);
        }
        let bytes = identity::encode(&entries);
        let directory = shared.data.join("identities");
        let path = format!("identities/{}.json.zst", shared.new_file());
        let file = written.write(shared, path, &bytes)?;
        shared.fs().sync_dir(&directory).at("sync", &directory)?;
        Ok(if merge {
            Self::Replace(file)
        } else {
            Self::Add(file)
        })
    }

    /// Adds the written file to a manifest.
    pub(super) fn add_to(self, manifest: &mut Manifest) {
        let since = manifest.version + 1;
        let file = match self {
            Self::Nothing => return,
            Self::Add(file) => file,
            Self::Replace(file) => {
                let old = manifest.identities.drain(..);
                manifest.pending.extend(old.map(|f| Pending {
                    path: f.path,
                    since,
                }));
                file
            }
        };
        manifest.identities.push(file);
    }
}
