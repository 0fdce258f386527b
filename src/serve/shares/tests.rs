use std::time::Duration;

use futures::FutureExt as _;

use super::*;
use crate::config::Config;
use crate::serve::Places;
use crate::serve::parsing::Parsing;

const PARTS: Parts = Parts {
    // In the order of `Resource`.
    counted: [2, 3, 1, 100, 50],
    queries_running: 1,
    queries_waiting: 1,
    parsing_short: 1,
    parsing_long: 1,
    computing: 1,
    decoded_kib: 8,
    per_second: None,
};

fn shares() -> Shares {
    Shares::new(PARTS, &[])
}

fn address(last: u8) -> IpAddr {
    IpAddr::from([127, 0, 0, last])
}

fn share(shares: &Shares, name: &str) -> Share {
    let who = Principal::reader(name);
    let share = shares.request(address(1), Some(&who));
    share.expect("a share")
}

#[test]
fn half_of_what_there_is_is_the_default_and_one_body_always_fits() {
    let mut config = Config::default();
    config.query.running_max = 5;
    config.query.queued_max = 64;
    // The descriptors allow fewer connections than the configuration.
    let places = Places::within(config.server.connections_max, Some(1024));
    let parts = Parts::of(&config, places);
    let half = [224, 224, 112, 128 << 20, 32 << 20];
    assert_eq!(parts.counted, half);
    assert_eq!((parts.queries_running, parts.queries_waiting), (3, 64));
    assert_eq!(parts.parsing_short, 4);
    config.server.client_share = 0.001;
    let parts = Parts::of(&config, places);
    assert_eq!((parts.counted[0], parts.parsing_short), (1, 1));
    let body = config.server.batch_bytes_max.0;
    assert_eq!((parts.counted[3], parts.counted[4]), (body, body));
}

#[test]
fn each_address_has_its_connections_and_each_ends_with_its_guard() {
    let shares = Shares::new(PARTS, &[address(9)]);
    let connect = |last| shares.connection(address(last));
    let held: Vec<_> = (0..2).map(|_| connect(1)).collect();
    assert!(held.iter().all(Result::is_ok));
    let refused = connect(1).map(drop);
    assert_eq!(refused, Err(Exceeded::new("connections", 2)));
    assert!(connect(2).is_ok());
    drop(held);
    assert!(connect(1).is_ok());
    let of_proxy: Vec<_> = (0..9).map(|_| connect(9)).collect();
    assert!(of_proxy.iter().all(Result::is_ok));
    let mapped = "::ffff:127.0.0.9".parse().expect("an address");
    assert!(shares.connection(mapped).expect("a proxy").is_none());
}

#[test]
fn one_client_of_ipv6_has_all_addresses_of_a_64() {
    let shares = shares();
    let at = |text: &str| text.parse::<IpAddr>().expect("an address");
    let _one = shares.connection(at("2001:db8::1")).expect("a place");
    let _two = shares.connection(at("2001:db8::2")).expect("a place");
    assert!(shares.connection(at("2001:db8::3")).is_err());
    assert!(shares.connection(at("2001:db8:0:1::3")).is_ok());
}

#[test]
fn bytes_end_with_their_body_and_others_have_their_own() {
    let shares = shares();
    let share = |last| shares.request(address(last), None).expect("a share");
    let (one, other) = (share(1), share(2));
    let body = one.body(90).expect("room").expect("a share");
    assert_eq!(body.grow(90), Ok(()));
    let full = Exceeded::new("bytes of bodies under way", 100);
    assert_eq!(body.grow(11), Err(full));
    assert_eq!(one.body(11).map(drop), Err(full), "it is announced");
    let of_other = other.body(100).expect("room").expect("a share");
    assert_eq!(of_other.grow(100), Ok(()));
    drop(body);
    assert!(one.body(100).is_ok());
}

#[test]
fn tails_and_unacknowledged_bytes_are_bounded_for_each() {
    let shares = shares();
    let (one, other) = (share(&shares, "ann"), share(&shares, "bob"));
    for (resource, most) in [(Resource::Tails, 1), (Resource::UnacknowledgedBytes, 50)] {
        let held = one.take(resource, most).expect("the whole share");
        let refused = one.take(resource, 1).map(drop);
        assert_eq!(refused, Err(Exceeded::new(resource.name(), most)));
        assert!(other.take(resource, most).is_ok());
        drop(held);
        assert!(one.take(resource, most).is_ok());
    }
}

#[test]
fn requests_under_way_and_a_second_are_bounded_for_each() {
    let shares = shares();
    let held: Vec<_> = (0..3).map(|_| shares.request(address(1), None)).collect();
    assert!(held.iter().all(Result::is_ok));
    let refused = shares.request(address(1), None).map(drop);
    assert_eq!(refused, Err(Exceeded::new("requests under way", 3)));
    assert!(shares.request(address(2), None).is_ok());

    let per_second = NonZeroU32::new(2);
    let shares = Shares::new(
        Parts {
            per_second,
            ..PARTS
        },
        &[],
    );
    let ask = |last| shares.request(address(last), None).map(drop);
    assert_eq!((ask(1), ask(1)), (Ok(()), Ok(())));
    let refused = ask(1).expect_err("the third of a second");
    assert_eq!((refused.resource, refused.most), ("requests a second", 2));
    assert!(refused.wait > Duration::ZERO && refused.wait <= Duration::from_millis(500));
    assert_eq!(ask(2), Ok(()));
    // The address has nothing left for those without an account, and the accounts have theirs.
    let who = Principal::reader("ann");
    assert!(shares.request(address(1), Some(&who)).is_ok());
}

#[test]
fn an_account_has_one_share_at_all_its_addresses_and_the_operator_none() {
    let shares = shares();
    let who = Principal::reader("ann");
    let held: Vec<_> = (1..=3)
        .map(|last| shares.request(address(last), Some(&who)))
        .collect();
    assert!(held.iter().all(Result::is_ok));
    assert!(shares.request(address(4), Some(&who)).is_err());
    let other = Principal::reader("bob");
    assert!(shares.request(address(1), Some(&other)).is_ok());
    let all: Vec<_> = (0..3).map(|_| shares.request(address(1), None)).collect();
    assert!(
        all.iter().all(Result::is_ok),
        "accounts took of the address"
    );
    let operator = Principal::open();
    assert!((0..9).all(|_| shares.request(address(1), Some(&operator)).is_ok()));
}

#[tokio::test]
async fn work_beyond_the_running_share_waits_and_beyond_the_line_is_refused() {
    let shares = shares();
    let one = share(&shares, "ann");
    let running = one.work().await.expect("a place");
    let mut waiting = Box::pin(one.work());
    assert!((&mut waiting).now_or_never().is_none());
    let refused = one.work().await.map(drop).expect_err("a full line");
    assert_eq!(refused.kind(), query::Kind::ShareBusy, "{refused}");
    let other = share(&shares, "bob");
    assert!(other.work().now_or_never().is_some());
    drop(running);
    let second = (&mut waiting).await.expect("its turn");
    drop(second);
    assert!(one.work().now_or_never().is_some_and(|place| place.is_ok()));
}

#[tokio::test]
async fn a_client_parses_its_share_and_has_one_bulk_request_in_the_line() {
    let shares = shares();
    let (one, other) = (share(&shares, "ann"), share(&shares, "bob"));
    let parses = one.parse(Length::Short).await;
    let bulk = one.bulk().await;
    assert!(one.parse(Length::Short).now_or_never().is_none());
    assert!(one.bulk().now_or_never().is_none());
    assert!(other.parse(Length::Short).now_or_never().is_some());
    assert!(other.bulk().now_or_never().is_some());
    drop((parses, bulk));
    assert!(one.parse(Length::Short).now_or_never().is_some());
    assert!(one.bulk().now_or_never().is_some());
}

#[tokio::test]
async fn requests_of_a_peer_do_not_wait_for_its_queries() {
    let shares = shares();
    let ann = share(&shares, "ann");
    let queries = ann.line().expect("a line");
    let held = std::iter::from_fn(|| queries.place().now_or_never());
    let held: Vec<_> = held.map_while(Result::ok).collect();
    assert!(!held.is_empty());
    let of_peers = ann.peer_line().expect("a line");
    assert!(of_peers.place().now_or_never().is_some());
}

#[tokio::test]
async fn a_client_rests_behind_a_body_that_was_refused_and_others_do_not() {
    let (shares, parsing) = (shares(), Parsing::start().expect("threads"));
    let (ann, bob) = (share(&shares, "ann"), share(&shares, "bob"));
    let (tell, told) = tokio::sync::oneshot::channel();
    let place = parsing.place(&ann, Length::Long).await;
    parsing.run_and_rest(place, move || {
        tell.send(()).expect("it is awaited");
        Duration::from_secs(3600)
    });
    told.await.expect("it ran");
    parsing.place(&bob, Length::Long).await;
    parsing.place(&ann, Length::Short).await;
    let again = parsing.place(&ann, Length::Long).now_or_never();
    assert!(again.is_none(), "it does not rest");
}

#[tokio::test]
async fn commands_that_one_client_decodes_have_its_share_and_a_longer_one_has_it_alone() {
    let shares = shares();
    let (one, other) = (share(&shares, "ann"), share(&shares, "bob"));
    let decoded = one.decode(5).await;
    assert!(one.decode(4).now_or_never().is_none());
    assert!(one.decode(3).now_or_never().is_some());
    assert!(other.decode(1000).now_or_never().is_some());
    drop(decoded);
    let alone = one.decode(1000).await;
    assert!(one.decode(1).now_or_never().is_none());
    drop(alone);
    assert!(one.decode(8).now_or_never().is_some());
}

#[tokio::test]
async fn only_clients_with_nothing_under_way_are_forgotten() {
    let shares = shares();
    let request = share(&shares, "ann");
    let parses = share(&shares, "bob").parse(Length::Short).await;
    let queries = share(&shares, "eve").work().await;
    for n in 0..3000_u32 {
        let address = IpAddr::from(n.to_be_bytes());
        drop(shares.request(address, None));
    }
    assert!(shares.clients.lock().known.len() <= SWEPT_AT + 1);
    assert!(
        share(&shares, "bob")
            .parse(Length::Short)
            .now_or_never()
            .is_none()
    );
    assert!(share(&shares, "eve").work().now_or_never().is_none());
    let _more = [share(&shares, "ann"), share(&shares, "ann")];
    let who = Principal::reader("ann");
    assert!(
        shares.request(address(1), Some(&who)).is_err(),
        "ann is new"
    );
    drop((request, parses, queries));

    // Where all are used, a sweep finds nothing, and the next comes at twice as many.
    let clients = (0..3000_u32).map(|n| shares.request(IpAddr::from(n.to_be_bytes()), None));
    let held: Vec<_> = clients.collect();
    let swept_at = shares.clients.lock().swept_at;
    assert!(swept_at >= 2 * SWEPT_AT, "{swept_at}");
    drop(held);
}
