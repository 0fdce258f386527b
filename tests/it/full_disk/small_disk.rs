//! A file system of a few megabytes in memory, with a ballast that fills it.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// A mounted file system; unmounted when dropped, on a panic too.
pub(super) struct SmallDisk {
    pub(super) path: String,
}

impl SmallDisk {
    /// Mounts a file system of `bytes`; returns `None` where that is not allowed.
    pub(super) fn mount(path: &str, bytes: u64) -> Option<Self> {
        std::fs::create_dir(path).expect("a directory to mount on");
        let size = format!("size={bytes}");
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &size, "logmill-it", path])
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|status| status.success());
        if !mounted {
            println!("skipped: a file system can be mounted by root only");
            return None;
        }
        Some(Self {
            path: path.to_owned(),
        })
    }

    /// Returns the free bytes.
    pub(super) fn free(&self) -> u64 {
        let stat = rustix::fs::statvfs(&self.path).expect("a mounted file system");
        stat.f_bavail * stat.f_frsize
    }

    fn ballast(&self) -> PathBuf {
        PathBuf::from(&self.path).join("ballast")
    }

    /// Fills the file system to the last byte.
    pub(super) fn fill(&self) {
        let ballast = OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.ballast());
        let mut ballast = ballast.expect("the ballast");
        let piece = vec![b'm'; 64 << 10];
        loop {
            // A write that reaches the end is a short one before it is an error.
            match ballast.write(&piece) {
                Ok(_) => {}
                Err(full) if full.kind() == ErrorKind::StorageFull => return,
                Err(other) => panic!("the ballast: {other}"),
            }
        }
    }

    /// Frees the space again.
    pub(super) fn empty(&self) {
        std::fs::remove_file(self.ballast()).expect("the ballast");
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // The unmount is lazy: after a panic a server may have files open here for a moment longer.
        let unmounted = Command::new("umount").args(["-l", &self.path]).status();
        if !unmounted.is_ok_and(|status| status.success()) {
            eprintln!("{} is still mounted", self.path);
        }
    }
}
