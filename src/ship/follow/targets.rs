//! The arguments of a shipper: files, folders and patterns, and the paths that they stand for.
//!
//! A file stands for itself and for its rotated files, as logrotate names them: `access.log.1`,
//! `access.log.2.gz`, `access.log-20261126`. So lines that a rotation moved while no shipper ran
//! are found. A folder stands for the regular files in it, a pattern for the files that match it.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use crate::file_patterns::{Unreadable, in_folder, is_hidden, is_pattern, matching};

/// Endings of compressed files.
const COMPRESSED: [&str; 4] = [".gz", ".zst", ".bz2", ".xz"];
/// The most files that all arguments together stand for.
const FILES_MAX: usize = 100_000;

/// An argument.
#[derive(Debug, Clone)]
pub(crate) enum ShipTarget {
    /// A file or a folder, which need not exist yet.
    Path(PathBuf),
    /// A path with `*` or `?` in some of its parts.
    Pattern(PathBuf),
}

impl ShipTarget {
    /// Reads an argument.
    pub(crate) fn new(text: PathBuf) -> Result<Self, String> {
        Ok(match is_pattern(&text)? {
            true => Self::Pattern(text),
            false => Self::Path(text),
        })
    }

    /// Returns the argument as it was given.
    pub(crate) fn path(&self) -> &Path {
        match self {
            Self::Path(path) | Self::Pattern(path) => path,
        }
    }

    /// Adds its paths. Returns the folders that cannot be read.
    fn find(&self, found: &mut BTreeSet<PathBuf>) -> Vec<Unreadable> {
        let (folder, read) = match self {
            Self::Pattern(pattern) => return matching(pattern, found),
            Self::Path(path) if path.is_dir() => (
                path.as_path(),
                in_folder(path, |name| !is_hidden(name), found),
            ),
            Self::Path(path) => {
                found.insert(path.clone());
                let Some(base) = path.file_name() else {
                    return Vec::new();
                };
                let folder = folder_of(path);
                let rotated = in_folder(folder, |name| is_rotation_of(name, base), found);
                (folder, rotated)
            }
        };
        let failed = read.err().map(|error| (folder.to_owned(), error));
        failed.into_iter().collect()
    }
}

/// Returns the paths of all arguments, and the folders that cannot be read, or stand for too many
/// files; a folder that does not exist has no files.
pub(crate) fn paths(targets: &[ShipTarget]) -> (BTreeSet<PathBuf>, Vec<Unreadable>) {
    let (mut found, mut unreadable) = (BTreeSet::new(), Vec::new());
    for target in targets {
        let mut more = BTreeSet::new();
        unreadable.extend(target.find(&mut more));
        match found.len() + more.len() > FILES_MAX {
            true => unreadable.push((
                target.path().to_owned(),
                std::io::Error::other(format!(
                    "the arguments stand for more than {FILES_MAX} files; name fewer"
                )),
            )),
            false => found.append(&mut more),
        }
    }
    (found, unreadable)
}

/// Returns whether the name of a file says that it was rotated away: no program appends to it for
/// long.
pub(crate) fn is_rotation(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    let plain = without_compression(&name);
    if plain.len() < name.len() {
        return true;
    }
    let end = plain.rsplit(['.', '-']).next().unwrap_or_default();
    end.len() < plain.len() && is_stamp(end)
}

/// Returns whether a file is a rotated one of another.
fn is_rotation_of(name: &OsStr, base: &OsStr) -> bool {
    let (name, base) = (name.to_string_lossy(), base.to_string_lossy());
    let Some(end) = name.strip_prefix(&*base) else {
        return false;
    };
    let end = without_compression(end);
    let stamp = end.strip_prefix(['.', '-']);
    // `access.log.gz` alone is no name that logrotate gives, but some scripts do.
    stamp.map_or(end.is_empty() && name.len() > base.len(), is_stamp)
}

fn without_compression(name: &str) -> &str {
    let ends = COMPRESSED.iter().filter_map(|end| name.strip_suffix(*end));
    ends.min_by_key(|rest| rest.len()).unwrap_or(name)
}

/// Returns whether the end of a name is a number or a date.
fn is_stamp(end: &str) -> bool {
    let is_part = |c: char| c.is_ascii_digit() || matches!(c, '-' | '_' | ':' | 'T');
    end.starts_with(|c: char| c.is_ascii_digit()) && end.chars().all(is_part)
}

fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rotated_files_are_those_that_logrotate_names() {
        for name in [
            "a.log.1",
            "a.log.12.gz",
            "a.log-20261126",
            "a.log-20261126.zst",
            "a.log-20261126-1764151200.xz",
            "a.log.2026-11-26T10:00",
            "a.log.gz",
        ] {
            assert!(
                is_rotation_of(OsStr::new(name), OsStr::new("a.log")),
                "{name}"
            );
            assert!(is_rotation(OsStr::new(name)), "{name}");
        }
        for name in [
            "a.log",
            "b.log.1",
            "a.log.bak",
            "a.log.old",
            "a.log1",
            "a.log.1x",
        ] {
            assert!(
                !is_rotation_of(OsStr::new(name), OsStr::new("a.log")),
                "{name}"
            );
        }
        for name in ["a.log", "syslog", "app-live.log", "2026"] {
            assert!(!is_rotation(OsStr::new(name)), "{name}");
        }
    }

    #[test]
    fn arguments_stand_for_files_folders_and_patterns() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let at = |name: &str| dir.path().join(name);
        for folder in ["web", "db"] {
            std::fs::create_dir(at(folder)).expect("a folder");
            for file in ["a.log", "a.log.1", "b.txt", ".hidden.log"] {
                std::fs::write(at(folder).join(file), "").expect("a file");
            }
        }
        let found = |argument: &str| -> Vec<String> {
            let target = ShipTarget::new(at(argument)).expect("an argument");
            let (paths, unreadable) = paths(&[target]);
            assert!(unreadable.is_empty());
            let inner = paths
                .iter()
                .map(|p| p.strip_prefix(dir.path()).expect("inside"));
            inner.map(|p| p.display().to_string()).collect()
        };
        assert_eq!(found("web/a.log"), ["web/a.log", "web/a.log.1"]);
        assert_eq!(found("web"), ["web/a.log", "web/a.log.1", "web/b.txt"]);
        assert_eq!(found("*/*.log"), ["db/a.log", "web/a.log"]);
        assert_eq!(found("w?b/.*.log"), ["web/.hidden.log"]);
        // One folder that cannot be read holds up no other.
        std::os::unix::fs::symlink("loop", at("loop")).expect("a link");
        let target = ShipTarget::new(at("*/*.log")).expect("an argument");
        let (all, unreadable) = paths(&[target]);
        assert_eq!((all.len(), unreadable.len()), (2, 1));
        std::fs::remove_file(at("loop")).expect("a link");
        assert_eq!(found("none/x.log"), ["none/x.log"]);
        assert_eq!(found("none/*.log"), [""; 0]);
        assert!(ShipTarget::new(at("**/x")).is_err());
    }
}
