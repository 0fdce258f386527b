//! Amount of freed memory that the C library keeps for later allocations.
//!
//! A server keeps little: what a query has taken goes back. A command that imports asks for the
//! same again with each block; pages that went back are then given, and cleared, by the kernel each
//! time: 1.23 million times for ten million lines, 0.25 million times since they are kept.

/// Bytes that are kept.
#[derive(Debug, Clone, Copy)]
struct Kept {
    /// Pieces of memory from this size on are of the kernel's own, and go back to it when they are
    /// freed.
    mapping_bytes: i32,
    /// Free memory at the end of one of the C library's arenas, of which there are eight for a
    /// core, that is not given back.
    end_bytes: i32,
}

/// Bounds what is kept: if it is not told, the C library keeps twice as much in each arena as the
/// largest piece that was ever freed, up to 64 MiB.
pub(crate) fn keep_little() {
    keep(Kept {
        mapping_bytes: 4 << 20,
        end_bytes: 4 << 20,
    });
}

/// For an import: its blocks, their columns and records have 4 to 8 MiB.
pub(crate) fn keep_blocks() {
    keep(Kept {
        mapping_bytes: 16 << 20,
        end_bytes: 32 << 20,
    });
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn keep(kept: Kept) {
    for (setting, bytes) in [
        (libc::M_MMAP_THRESHOLD, kept.mapping_bytes),
        (libc::M_TRIM_THRESHOLD, kept.end_bytes),
    ] {
        #[allow(unsafe_code, reason = "nothing else reaches it")]
        // SAFETY: it locks what it sets, and refuses what it does not know.
        unsafe {
            libc::mallopt(setting, bytes);
        }
    }
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn keep(_: Kept) {}
