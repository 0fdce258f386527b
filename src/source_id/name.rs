//! The beginning of a source that is in the name of its producer.

/// The longest beginning by which a growing file is named.
const BEGINNING_BYTES: usize = 1024;

/// Returns the length and hash of a window in a name.
pub(super) fn fingerprint(name: &str) -> Option<(usize, u64)> {
    let window = name.split_once('#').map_or(name, |(window, nth)| {
        // Only a number may follow.
        if nth.bytes().all(|b| b.is_ascii_digit()) {
            window
        } else {
            ""
        }
    });
    let (len, hash) = window.split_once('-')?;
    let hash = (hash.len() == 16).then(|| u64::from_str_radix(hash, 16).ok())??;
    Some((len.parse().ok()?, hash))
}

/// Returns the length of a beginning that stays the same while its file grows: up to the first line
/// that is no comment. Comments are the same in all files of a kind (W3C's, for example).
pub(super) fn beginning(head: &[u8]) -> usize {
    let head = &head[..head.len().min(BEGINNING_BYTES)];
    first_line(head).unwrap_or(head.len())
}

/// Returns whether a growing file has the beginning by which it is named.
pub(crate) fn has_beginning(head: &[u8]) -> bool {
    head.len() >= BEGINNING_BYTES || first_line(head).is_some()
}

/// Returns the end of the first line that is no comment.
fn first_line(head: &[u8]) -> Option<usize> {
    let mut from = 0;
    for end in memchr::memchr_iter(b'\n', head) {
        if head[from] != b'#' {
            return Some(end + 1);
        }
        from = end + 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_carry_a_length_and_a_hash() {
        assert_eq!(fingerprint("100-00000000000000ff"), Some((100, 255)));
        assert_eq!(fingerprint("100-00000000000000ff#12"), Some((100, 255)));
        for wrong in [
            "",
            "100",
            "100-ff",
            "-00000000000000ff",
            "100-00000000000000ff#a",
            "shop:100-00000000000000ff",
            "100-00000000000000fg",
        ] {
            assert_eq!(fingerprint(wrong), None, "{wrong}");
        }
    }
}
