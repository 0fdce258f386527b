use futures::FutureExt as _;

use super::*;

const PARTS: Parts = Parts {
    connections: 2,
    requests: 3,
    queries: 2,
    queries_running: 1,
    parsing: 1,
    bytes: 100,
    per_second: None,
};

fn address(last: u8) -> IpAddr {
    IpAddr::from([127, 0, 0, last])
}

#[test]
fn half_of_everything_is_the_default_and_one_body_always_fits() {
    let mut config = Config::default();
    config.query.running_max = 5;
    config.query.queued_max = 64;
    let parts = Parts::of(&config, 8);
    assert_eq!((parts.connections, parts.requests), (500, 500));
    assert_eq!((parts.queries, parts.queries_running), (35, 3));
    assert_eq!((parts.parsing, parts.bytes), (4, 128 << 20));
    config.server.client_share = 0.001;
    let parts = Parts::of(&config, 8);
    assert_eq!((parts.connections, parts.parsing), (1, 1));
    assert_eq!(parts.bytes, config.server.batch_bytes_max.0);
}

#[test]
fn each_address_has_its_connections_and_each_ends_with_its_guard() {
    let shares = Shares::new(PARTS);
    let held: Vec<_> = (0..2).map(|_| shares.connection(address(1))).collect();
    assert!(held.iter().all(Option::is_some));
    assert!(shares.connection(address(1)).is_none());
    assert!(shares.connection(address(2)).is_some());
    drop(held);
    assert!(shares.connection(address(1)).is_some());
}

#[test]
fn one_client_of_ipv6_has_all_addresses_of_a_64() {
    let shares = Shares::new(PARTS);
    let at = |text: &str| text.parse::<IpAddr>().expect("an address");
    let _one = shares.connection(at("2001:db8::1")).expect("a place");
    let _two = shares.connection(at("2001:db8::2")).expect("a place");
    assert!(shares.connection(at("2001:db8::3")).is_none());
    assert!(shares.connection(at("2001:db8:0:1::3")).is_some());
}

#[test]
fn bytes_end_with_their_request_and_others_have_their_own() {
    let shares = Shares::new(PARTS);
    let one = shares.request(address(1), None).expect("a share");
    assert_eq!(one.take_bytes(90), Ok(()));
    assert_eq!(
        one.take_bytes(11),
        Err(Exceeded::new("bytes of bodies under way", 100))
    );
    let other = shares.request(address(2), None).expect("a share");
    assert_eq!(other.take_bytes(100), Ok(()));
    drop(one);
    let again = shares.request(address(1), None).expect("a share");
    assert_eq!(again.take_bytes(100), Ok(()));
}

#[test]
fn requests_under_way_and_a_second_are_bounded_for_each() {
    let shares = Shares::new(PARTS);
    let held: Vec<_> = (0..3).map(|_| shares.request(address(1), None)).collect();
    assert!(held.iter().all(Result::is_ok));
    let refused = shares.request(address(1), None).map(drop);
    assert_eq!(refused, Err(Exceeded::new("requests under way", 3)));
    assert!(shares.request(address(2), None).is_ok());

    let shares = Shares::new(Parts {
        per_second: NonZeroU32::new(2),
        ..PARTS
    });
    let ask = |last| shares.request(address(last), None).map(drop);
    assert_eq!((ask(1), ask(1)), (Ok(()), Ok(())));
    let refused = ask(1).expect_err("the third of a second");
    assert_eq!((refused.resource, refused.most), ("requests a second", 2));
    assert!(refused.wait > Duration::ZERO && refused.wait <= Duration::from_millis(500));
    assert_eq!(ask(2), Ok(()));
}

#[test]
fn an_account_has_one_share_at_all_its_addresses_and_the_operator_none() {
    let shares = Shares::new(PARTS);
    let who = Principal::reader("ann");
    let held: Vec<_> = (1..=3)
        .map(|last| shares.request(address(last), Some(&who)))
        .collect();
    assert!(held.iter().all(Result::is_ok));
    assert!(shares.request(address(4), Some(&who)).is_err());
    assert!(shares.request(address(4), None).is_ok());
    let operator = Principal::open();
    assert!((0..9).all(|_| shares.request(address(1), Some(&operator)).is_ok()));
}

#[tokio::test]
async fn queries_beyond_the_running_share_wait_and_beyond_the_whole_are_refused() {
    let shares = Shares::new(PARTS);
    let share = shares.request(address(1), None).expect("a share");
    let running = share.query().await.expect("a place");
    let mut waiting = Box::pin(share.query());
    assert!((&mut waiting).now_or_never().is_none());
    let refused = share.query().await.map(drop);
    assert_eq!(refused, Err(Exceeded::new("queries under way", 2)));
    let other = shares.request(address(2), None).expect("a share");
    assert!(other.query().now_or_never().is_some());
    drop(running);
    let second = (&mut waiting).await.expect("its turn");
    drop(second);
    assert!(share.query().now_or_never().is_some_and(|q| q.is_ok()));
    // A client that goes while it waits gives back its place.
    let running = share.query().await.expect("a place");
    {
        let gone = share.query();
        assert!(gone.now_or_never().is_none());
    }
    drop(running);
    assert!(share.query().now_or_never().is_some_and(|q| q.is_ok()));
}

#[test]
fn clients_with_nothing_under_way_are_forgotten() {
    let shares = Shares::new(PARTS);
    let kept = shares.request(address(1), None).expect("a share");
    for n in 0..3000_u32 {
        let address = IpAddr::from(n.to_be_bytes());
        drop(shares.request(address, None));
    }
    assert!(shares.clients.lock().len() <= SWEPT_AT + 1);
    assert_eq!(kept.take_bytes(100), Ok(()));
    let same = shares.request(address(1), None).expect("a share");
    assert!(same.take_bytes(1).is_err(), "the sweep forgot a client");
}
