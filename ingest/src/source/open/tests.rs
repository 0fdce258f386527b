use std::io::Write;

use super::*;
use crate::LineBlocks;

const TEXT: &[u8] = b"one\ntwo\nthree\n";

fn compress(compression: Compression, text: &[u8]) -> Vec<u8> {
    match compression {
        Compression::None => text.to_vec(),
        Compression::Gzip => {
            let mut encoder =
                flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            encoder.write_all(text).unwrap();
            encoder.finish().unwrap()
        }
        Compression::Zstd => zstd::encode_all(text, 1).unwrap(),
        Compression::Bzip2 => {
            let mut encoder = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
            encoder.write_all(text).unwrap();
            encoder.finish().unwrap()
        }
        Compression::Xz => {
            let mut encoder = liblzma::write::XzEncoder::new(Vec::new(), 1);
            encoder.write_all(text).unwrap();
            encoder.finish().unwrap()
        }
    }
}

const ALL: [(&str, Compression); 5] = [
    ("log", Compression::None),
    ("log.gz", Compression::Gzip),
    ("log.zst", Compression::Zstd),
    ("log.bz2", Compression::Bzip2),
    ("log.xz", Compression::Xz),
];

#[test]
fn files_are_read_as_their_ending_says() {
    let folder = tempfile::tempdir().unwrap();
    for (name, compression) in ALL {
        let path = folder.path().join(name);
        assert_eq!(Compression::of(&path), compression);
        std::fs::write(&path, compress(compression, TEXT)).unwrap();
        let mut text = Vec::new();
        open(&path).unwrap().read_to_end(&mut text).unwrap();
        assert_eq!(text, TEXT, "{name}");
    }
    assert_eq!(Compression::of(Path::new("gz")), Compression::None);
}

#[test]
fn concatenated_members_are_read_to_the_end() {
    for (name, compression) in ALL {
        let twice = [compress(compression, TEXT), compress(compression, TEXT)].concat();
        let mut text = Vec::new();
        decompress(&twice[..], compression)
            .unwrap()
            .read_to_end(&mut text)
            .unwrap();
        assert_eq!(text, [TEXT, TEXT].concat(), "{name}");
    }
}

#[test]
fn a_compressed_file_that_is_cut_off_is_an_error_and_not_an_end() {
    let text: Vec<u8> = (0..20_000)
        .flat_map(|i| format!("{}\n", i * 7919 % 10_007).into_bytes())
        .collect();
    for (name, compression) in ALL.into_iter().skip(1) {
        let whole = compress(compression, &text);
        let cut = &whole[..whole.len() - 20];
        let mut blocks = LineBlocks::new(decompress(cut, compression).unwrap());
        let result = loop {
            match blocks.next_block() {
                Ok(Some(_)) => {}
                other => break other,
            }
        };
        assert!(
            matches!(result, Err(Error::Read { .. })),
            "{name}: {result:?}"
        );
    }
}

#[test]
fn a_missing_file_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let Err(error) = open(&folder.path().join("absent.gz")) else {
        panic!("opened")
    };
    assert!(error.to_string().contains("absent.gz"), "{error}");
}
