use futures::StreamExt;
use futures::stream;

use super::*;

fn limits() -> Limits {
    Limits {
        time_max: Duration::from_secs(3600),
        pace_min: 1,
        grace: Duration::from_secs(3600),
        body_bytes_max: 40,
        bytes_max: 100,
    }
}

/// Returns a body of pieces of ten bytes; a silent sender then stops sending without ending the
/// body.
fn body(pieces: usize, silent: bool) -> Body {
    let pieces = stream::iter((0..pieces).map(|_| Ok::<_, std::io::Error>(vec![7; 10])));
    match silent {
        true => Body::from_stream(pieces.chain(stream::pending())),
        false => Body::from_stream(pieces),
    }
}

async fn read(body: Body) -> Result<usize, axum::Error> {
    let mut body = body.into_data_stream();
    let mut len = 0;
    while let Some(piece) = body.next().await {
        len += piece?.len();
    }
    Ok(len)
}

/// Returns the status of the response to a request whose body failed.
fn refusal(watch: &Watch) -> Option<u16> {
    watch.refusal().map(|response| response.status().as_u16())
}

#[tokio::test]
async fn a_body_passes_as_it_is_and_counts_until_its_request_is_answered() {
    let bodies = Bodies::new(limits());
    let (watched, watch) = bodies.watch(body(4, false), &serve::Share::default());
    assert_eq!(read(watched).await.expect("a body"), 40);
    assert_eq!((bodies.held(), refusal(&watch)), (40, None));
    drop(watch);
    assert_eq!(bodies.held(), 0);
}

#[tokio::test]
async fn a_body_in_pieces_counts_until_they_are_stored() {
    let bodies = Bodies::new(limits());
    let (watched, watch) = bodies.watch(body(4, false), &serve::Share::default());
    let pieces = watch.pieces();
    pieces.begin();
    assert_eq!(read(watched).await.expect("a body"), 40);
    pieces.stored(25);
    assert_eq!(bodies.held(), 15);
    // No more than there are.
    pieces.stored(25);
    assert_eq!(bodies.held(), 0);
    drop((pieces, watch));
    assert_eq!(bodies.held(), 0);
}

#[tokio::test]
async fn a_silent_sender_is_cut_off_for_its_pace_and_for_its_time() {
    let none = Duration::ZERO;
    let paced = Limits {
        grace: none,
        pace_min: 1 << 40,
        ..limits()
    };
    let timed = Limits {
        time_max: none,
        ..limits()
    };
    for (limits, said) in [
        (paced, "more slowly than"),
        (timed, "did not end within 0s"),
    ] {
        let bodies = Bodies::new(limits);
        let (watched, watch) = bodies.watch(body(2, true), &serve::Share::default());
        let error = read(watched).await.expect_err("cut off");
        assert!(error.to_string().contains(said), "{error}");
        assert_eq!(refusal(&watch), Some(408));
    }
}

#[tokio::test]
async fn bytes_of_all_bodies_are_bounded() {
    let bodies = Bodies::new(limits());
    let mut held = Vec::new();
    for _ in 0..2 {
        let (watched, watch) = bodies.watch(body(4, false), &serve::Share::default());
        read(watched).await.expect("a body");
        held.push(watch);
    }
    let (watched, watch) = bodies.watch(body(3, false), &serve::Share::default());
    read(watched).await.expect_err("no room");
    assert_eq!(refusal(&watch), Some(503));
    assert_eq!(
        bodies.held(),
        100,
        "what has come counts until it is answered"
    );
    drop(watch);
    held.pop();
    let (watched, watch) = bodies.watch(body(3, false), &serve::Share::default());
    assert_eq!(read(watched).await.expect("room again"), 30);
    drop((watch, held));
    assert_eq!(bodies.held(), 0);
}

#[tokio::test]
async fn a_body_that_says_that_there_is_no_room_for_it_is_not_read() {
    let bodies = Bodies::new(Limits {
        bytes_max: 40,
        ..limits()
    });
    let (watched, first) = bodies.watch(Body::from(vec![7; 30]), &serve::Share::default());
    read(watched).await.expect("room");
    let (_, second) = bodies.watch(Body::from(vec![7; 20]), &serve::Share::default());
    assert_eq!(refusal(&second), Some(503));
    // A body that is too long for its route is refused there, whatever length it announces.
    drop((first, second));
    let (watched, watch) = bodies.watch(Body::from(vec![7; 1000]), &serve::Share::default());
    assert_eq!(read(watched).await.expect("read and thrown away"), 1000);
    assert_eq!((bodies.held(), refusal(&watch)), (40, None));
}

#[tokio::test]
async fn a_broken_body_says_why() {
    let bodies = Bodies::new(limits());
    let pieces = [Ok(vec![7; 10]), Err(std::io::Error::other("no chunk"))];
    let (watched, watch) = bodies.watch(
        Body::from_stream(stream::iter(pieces)),
        &serve::Share::default(),
    );
    let error = read(watched).await.expect_err("broken");
    assert!(error.to_string().contains("no chunk"), "{error}");
    assert_eq!(refusal(&watch), Some(400));
}

#[test]
fn the_pace_counts_over_the_whole_body() {
    let limits = Limits {
        pace_min: 1000,
        grace: Duration::from_secs(10),
        time_max: Duration::from_secs(60),
        ..limits()
    };
    let began = Instant::now();
    let due = |received| (limits.due(began, received) - began).as_secs();
    assert_eq!((due(0), due(5_000), due(1_000_000)), (10, 15, 60));
}
