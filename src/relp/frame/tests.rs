use proptest::prelude::*;

use super::*;
use crate::fuzzing::tests::replay::replay;

#[test]
fn connections_are_the_same_frames_however_they_are_cut() {
    replay("relp_frames", fuzzing::relp_frames);
}

/// Takes the bytes of a connection. Returns its frames, and whether all of it was read.
fn taken(bytes: &[u8], piece: usize) -> (Vec<(u32, String, Vec<u8>)>, bool) {
    let mut decoder = Decoder::default();
    let mut frames = Vec::new();
    let mut push = |f: &Frame<'_>| frames.push((f.number, f.command.to_owned(), f.data.to_vec()));
    let taken = bytes
        .chunks(piece)
        .try_for_each(|piece| decoder.take(piece, &mut push));
    let is_whole = taken.is_ok() && !decoder.is_within_a_frame();
    (frames, is_whole)
}

#[test]
fn frames_of_librelp_are_read() {
    let bytes = b"1 open 52 relp_version=0\nrelp_software=librelp\ncommands=syslog\n2 syslog 4 a\nb\n\n999999999 close 0\n";
    let (frames, is_whole) = taken(bytes, bytes.len());
    assert!(is_whole);
    let offers = b"relp_version=0\nrelp_software=librelp\ncommands=syslog".to_vec();
    assert_eq!(
        frames,
        [
            (1, "open".to_owned(), offers),
            (2, "syslog".to_owned(), b"a\nb\n".to_vec()),
            (999_999_999, "close".to_owned(), vec![]),
        ]
    );
}

#[test]
fn bytes_that_are_no_frame_end_the_connection() {
    for bytes in [
        "x",
        " ",
        "1234567890 ",
        "1\n",
        "1 \n",
        "1  ",
        "1 op3n ",
        "1 open x",
        "1 open \n",
        "1 open 1234567890",
        "1 open 1\n",
        "1 open 0 ",
        "1 open 1 ab",
        "1 open\n",
        "GET / HTTP/1.1\r\n",
        "1 abcdefghijklmnopqrstuvwxyzabcdefg",
    ] {
        let mut decoder = Decoder::default();
        let taken = decoder.take(bytes.as_bytes(), &mut |f| panic!("{f:?}"));
        assert_eq!(taken, Err(NoFrame), "{bytes}");
    }
}

#[test]
fn long_data_keep_their_beginning_in_bounded_memory() {
    let long = "x".repeat(3 * KEPT_BYTES_MAX);
    let bytes = format!("1 syslog {} {long}\n2 close 0\n", long.len());
    let (frames, is_whole) = taken(bytes.as_bytes(), 4096);
    assert!(is_whole);
    let lengths: Vec<usize> = frames.iter().map(|(.., data)| data.len()).collect();
    assert_eq!(lengths, [KEPT_BYTES_MAX, 0]);
}

proptest! {
    #[test]
    fn written_frames_come_back(
        sent in proptest::collection::vec((0..1_000_000_000_u32, "[a-zA-Z]{1,32}", "\\PC{0,20}\n?"), 1..8),
        piece in 1..30_usize,
    ) {
        let mut out = String::new();
        for (number, command, data) in &sent {
            put(&mut out, *number, command, data);
        }
        let (frames, is_whole) = taken(out.as_bytes(), piece);
        prop_assert!(is_whole);
        let expected: Vec<_> = sent.into_iter().map(|(n, c, d)| (n, c, d.into_bytes())).collect();
        prop_assert_eq!(frames, expected);
    }
}
