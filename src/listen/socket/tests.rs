use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;

#[tokio::test]
async fn a_peer_that_reads_nothing_is_given_up() {
    let (ours, _theirs) = tokio::io::duplex(8);
    let mut socket = Socket::new(ours, Duration::ZERO);
    socket.write_all(&[7; 8]).await.expect("there is room");
    let error = socket.write_all(&[7; 8]).await.expect_err("given up");
    assert_eq!(error.kind(), io::ErrorKind::TimedOut);
}

#[tokio::test]
async fn a_peer_that_reads_gets_everything() {
    let (ours, mut theirs) = tokio::io::duplex(8);
    let mut socket = Socket::new(ours, Duration::from_secs(3600));
    let writing = tokio::spawn(async move {
        socket.write_all(&[7; 1000]).await.expect("taken");
        socket.shutdown().await.expect("ended");
    });
    let mut got = Vec::new();
    theirs.read_to_end(&mut got).await.expect("read");
    writing.await.expect("written");
    assert_eq!(got, [7; 1000]);
}
