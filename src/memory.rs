//! Amount of freed memory that the C library keeps for later allocations.
//!
//! A server keeps little, so that the memory of a query returns to the system. An import allocates
//! the same again for each block. Pages that it had returned would be mapped and zeroed by the
//! kernel again each time: 1.23 million times for ten million lines, 0.25 million times if they
//! are kept.

/// Bytes that the C library keeps.
#[derive(Debug, Clone, Copy)]
struct Kept {
    /// Allocations of at least this size are mappings of their own, which are unmapped when they
    /// are freed.
    mapping_bytes: i32,
    /// Free memory that is kept at the end of an arena. The C library has eight arenas per core.
    end_bytes: i32,
}

/// Bounds the kept memory. By default, the C library keeps in each arena twice the size of the
/// largest allocation that was ever freed, up to 64 MiB.
pub(crate) fn keep_little() {
    keep(Kept {
        mapping_bytes: 4 << 20,
        end_bytes: 4 << 20,
    });
}

/// Keeps the memory of an import: its blocks, their columns and records have 4 to 8 MiB.
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
        // SAFETY: `mallopt` locks the settings that it changes, and rejects unknown ones.
        unsafe {
            libc::mallopt(setting, bytes);
        }
    }
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn keep(_: Kept) {}
