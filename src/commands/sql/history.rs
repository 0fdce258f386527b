//! The file of the history: its place, and its protection from other users.

use std::ffi::OsString;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Returns the place of the history from the variables `XDG_STATE_HOME` and `HOME`; `None` without
/// a home. A relative `XDG_STATE_HOME` is ignored, as the XDG Base Directory Specification says.
pub(super) fn place(state_home: Option<OsString>, home: Option<OsString>) -> Option<PathBuf> {
    let absolute = |folder: OsString| Some(PathBuf::from(folder)).filter(|f| f.is_absolute());
    let state = state_home.and_then(absolute);
    let of_home = || Some(home.and_then(absolute)?.join(".local/state"));
    Some(state.or_else(of_home)?.join("logmill/history"))
}

/// Creates the file if it does not exist. Only its owner may read it: statements contain addresses
/// and names.
///
/// # Errors
/// When the folder or the file cannot be created or protected.
pub(super) fn prepare(file: &Path) -> std::io::Result<()> {
    if let Some(folder) = file.parent() {
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)?;
    }
    let mut options = std::fs::OpenOptions::new();
    let opened = options.append(true).create(true).mode(0o600).open(file)?;
    opened.set_permissions(std::fs::Permissions::from_mode(0o600))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_history_is_in_the_state_directory() {
        let of = |state: Option<&str>, home: Option<&str>| {
            let found = place(state.map(Into::into), home.map(Into::into));
            found.map(|path| path.display().to_string())
        };
        let expected = |text: &str| Some(text.to_owned());
        assert_eq!(of(Some("/s"), Some("/h")), expected("/s/logmill/history"));
        let in_home = "/h/.local/state/logmill/history";
        assert_eq!(of(None, Some("/h")), expected(in_home));
        assert_eq!(of(Some("s"), Some("/h")), expected(in_home));
        assert_eq!(of(Some(""), None), None);
    }

    #[test]
    fn only_the_owner_reads_the_history() {
        let temp = tempfile::tempdir().expect("a temporary directory");
        let file = temp.path().join("a/b/history");
        for _ in 0..2 {
            prepare(&file).expect("a new or existing file");
            let mode = file.metadata().expect("the file").permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
            let open = std::fs::Permissions::from_mode(0o644);
            std::fs::set_permissions(&file, open).expect("our own file");
        }
    }
}
