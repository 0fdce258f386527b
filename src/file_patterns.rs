//! Patterns of paths: `*` and `?` in some of their parts.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io::ErrorKind;
use std::path::{Component, Path, PathBuf};

use wildmatch::WildMatch;

/// Returns whether a path that does not exist is a pattern.
///
/// # Errors
/// A message about `**`, which no pattern has.
pub(crate) fn is_pattern(path: &Path) -> Result<bool, String> {
    let shown = path.to_string_lossy();
    if shown.contains("**") {
        return Err(format!(
            "{shown}: ** is not supported; name each level, as in '/var/log/*/*.log'"
        ));
    }
    // A file of this very name is meant, however odd the name.
    Ok(shown.contains(['*', '?']) && !path.exists())
}

pub(crate) fn is_hidden(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(b".")
}

/// Adds the entries of a folder whose names pass; one that does not exist has none.
///
/// # Errors
/// Errors of reading the folder.
pub(crate) fn in_folder(
    folder: &Path,
    passes: impl Fn(&OsStr) -> bool,
    found: &mut BTreeSet<PathBuf>,
) -> std::io::Result<()> {
    let entries = match std::fs::read_dir(folder) {
        Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(());
        }
        entries => entries?,
    };
    for entry in entries {
        let name = entry?.file_name();
        if passes(&name) {
            found.insert(match folder == Path::new(".") {
                true => PathBuf::from(name),
                false => folder.join(name),
            });
        }
    }
    Ok(())
}

/// A folder that cannot be read.
pub(crate) type Unreadable = (PathBuf, std::io::Error);

/// Adds the paths that match a pattern, one level of folders after the other. Returns the folders
/// that cannot be read; those beside them are.
pub(crate) fn matching(pattern: &Path, found: &mut BTreeSet<PathBuf>) -> Vec<Unreadable> {
    let mut unreadable = Vec::new();
    let mut level: BTreeSet<PathBuf> = BTreeSet::from([PathBuf::new()]);
    for part in pattern.components() {
        let text = part.as_os_str().to_string_lossy();
        if !matches!(part, Component::Normal(_)) || !text.contains(['*', '?']) {
            level = level.into_iter().map(|path| path.join(part)).collect();
            continue;
        }
        let wild = WildMatch::new(&text);
        let shows_hidden = text.starts_with('.');
        let passes = |name: &OsStr| {
            (shows_hidden || !is_hidden(name)) && wild.matches(&name.to_string_lossy())
        };
        let mut next = BTreeSet::new();
        for path in level {
            let folder = match path == Path::new("") {
                true => Path::new("."),
                false => &path,
            };
            if let Err(error) = in_folder(folder, passes, &mut next) {
                unreadable.push((folder.to_owned(), error));
            }
        }
        level = next;
    }
    found.extend(level);
    unreadable
}
