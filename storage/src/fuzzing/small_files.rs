//! The small files beside the manifest.

use std::path::Path;

use super::{DATA, STORE, choice, disk};
use crate::access_file;
use crate::birth::{self, Birth};
use crate::env::Fs;
use crate::journal::fuzzing::{MARK, marked};
use crate::sim::SimFs;

/// Reads one of the small files, which the first byte chooses: users and tokens, the birth of the
/// store, the mark of the journal, the secret of its writer. A file that is accepted is the one
/// that the store writes for its content.
pub fn small_files(bytes: &[u8]) {
    let (which, rest) = choice(bytes);
    let data = Path::new(DATA);
    match which % 4 {
        0 => {
            let fs = disk(&[(access_file::FILE, rest)]);
            if let Ok(Some(text)) = access_file::read(&fs, data) {
                access_file::replace(&fs, data, &text, 1).expect("a disk without faults");
                assert_eq!(read(&fs, access_file::FILE), rest);
            }
        }
        1 => {
            let fs = disk(&[(birth::FILE, &with_crc("logmill id ", rest))]);
            let before = read(&fs, birth::FILE);
            if let Some(born) = Birth::read(&fs, data) {
                fs.remove(&data.join(birth::FILE)).expect("removed");
                born.keep(&fs, data).expect("a disk without faults");
                assert_eq!(read(&fs, birth::FILE), before);
            }
        }
        2 => {
            let file = with_crc("logmill journal ", rest);
            let segment = marked(&disk(&[(MARK, &file)]), data, STORE);
            if segment > 0 {
                let words = format!("{STORE} {segment:x}");
                assert_eq!(words.as_bytes(), rest);
            }
        }
        _ => {
            let fs = disk(&[("OPERATOR", rest)]);
            let secret = access_file::operator_secret(&fs, data);
            assert_eq!(secret.as_deref(), std::str::from_utf8(rest).ok());
        }
    }
}

fn read(fs: &SimFs, path: &str) -> Vec<u8> {
    fs.read(&Path::new(DATA).join(path)).expect("a file")
}

/// Returns a line of a small file, with the checksum of its words.
fn with_crc(head: &str, words: &[u8]) -> Vec<u8> {
    let crc = format!(" {:08x}\n", crc32c::crc32c(words));
    [head.as_bytes(), words, crc.as_bytes()].concat()
}
