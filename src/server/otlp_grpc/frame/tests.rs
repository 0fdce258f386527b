use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

/// Returns the message of a call that comes in these pieces, or the reason why it has none.
fn read(pieces: Vec<Vec<u8>>) -> Result<(bool, Vec<u8>), String> {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    runtime.expect("a runtime").block_on(async {
        let pieces = pieces
            .into_iter()
            .map(|piece| Ok::<_, axum::Error>(Bytes::from(piece)));
        let body = Body::from_stream(futures::stream::iter(pieces));
        let sent = Sent::read(body)
            .await
            .map_err(|status| status.to_string())?;
        let message = axum::body::to_bytes(sent.body, usize::MAX).await;
        let message = message.map_err(|error| error.to_string())?;
        Ok((sent.is_compressed, message.to_vec()))
    })
}

proptest! {
    #[test]
    fn a_message_is_whole_or_an_error(
        message in vec(any::<u8>(), 0..300),
        is_compressed: bool,
        cuts in vec(0_usize..400, 0..6),
        missing in 0_usize..20,
        more in vec(any::<u8>(), 0..3),
    ) {
        let mut frame = vec![u8::from(is_compressed)];
        let length = u32::try_from(message.len()).expect("a short message");
        frame.extend_from_slice(&length.to_be_bytes());
        frame.extend_from_slice(&message);
        frame.truncate(frame.len() - missing.min(frame.len()));
        if missing == 0 {
            frame.extend_from_slice(&more);
        }
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(frame.len())).collect();
        cuts.extend([0, frame.len()]);
        cuts.sort_unstable();
        let pieces = cuts.windows(2).map(|ends| frame[ends[0]..ends[1]].to_vec());
        let found = read(pieces.collect());
        match missing == 0 && more.is_empty() {
            true => prop_assert_eq!(found, Ok((is_compressed, message))),
            false => prop_assert!(found.is_err(), "{:?}", found),
        }
    }
}
