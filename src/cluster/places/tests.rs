use std::sync::atomic::{AtomicU64, Ordering};

use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tokio::time::sleep;

use super::*;
use crate::cluster::Peers;
use crate::cluster::connect::PeerConnector;
use crate::cluster::tests::{peer_with, serve};

/// An object store that names a server, or does not answer.
#[derive(Debug, Default)]
pub(in crate::cluster) struct Told {
    address: Mutex<Option<String>>,
    is_away: Mutex<bool>,
    readings: AtomicU64,
}

impl Told {
    /// Returns the place of shard 3.
    pub(in crate::cluster) fn place(self: &Arc<Self>) -> PeerPlace {
        let told = Arc::clone(self);
        let address: AddressOf = Arc::new(move || {
            told.readings.fetch_add(1, Ordering::SeqCst);
            if *told.is_away.lock() {
                return Err(storage::Error::Closed);
            }
            Ok(told.address.lock().clone())
        });
        let connector = PeerConnector::trusting(None).expect("no file to read");
        let http = PeerHttp::new(connector, Handle::current());
        PeerPlace::Shard(Arc::new(ShardPlace::new(3, address, http, None)))
    }

    pub(in crate::cluster) fn name(&self, address: &str) {
        *self.address.lock() = Some(address.to_owned());
    }

    fn readings(&self) -> u64 {
        self.readings.load(Ordering::SeqCst)
    }
}

async fn fresh(place: &PeerPlace) -> Result<String, String> {
    let server = place.fresh_server().await?;
    Ok(server.name().to_owned())
}

#[tokio::test]
async fn a_question_asks_the_server_that_was_named_within_a_second() {
    let told = Arc::<Told>::default();
    let place = told.place();
    let nowhere = fresh(&place).await.expect_err("no server has it");
    assert!(nowhere.contains("no server has it yet"), "{nowhere}");
    told.name("http://a:7100");
    let began = Instant::now();
    assert_eq!(fresh(&place).await.as_deref(), Ok("http://a:7100"));
    let before = told.readings();
    told.name("http://b:7100");
    let again = fresh(&place).await;
    // A busy machine may have made a pause.
    if began.elapsed() < FRESH_FOR {
        assert_eq!(again.as_deref(), Ok("http://a:7100"));
        assert_eq!(told.readings(), before, "it was read a moment ago");
    }
    assert!(!place.is_old() || began.elapsed() > FRESH_FOR);
    sleep(FRESH_FOR).await;
    assert!(place.is_old());
    // A batch is safe at any server: one without the shard does not take it.
    let known = place.server().await.expect("it is known");
    assert!(began.elapsed() > 2 * FRESH_FOR || known.name() == "http://a:7100");
    // The reading may be late on such a machine, too.
    while fresh(&place).await.as_deref() != Ok("http://b:7100") {
        assert!(began.elapsed() < KNOWN_FOR, "it is not read anew");
    }
    assert_eq!(place.shard(), Some(3));
}

#[tokio::test]
async fn a_server_that_does_not_answer_is_looked_for_anew() {
    let told = Arc::<Told>::default();
    let place = told.place();
    told.name("http://a:7100");
    let first = place.server().await.expect("it is told");
    told.name("http://b:7100");
    place.forget(&first);
    let second = place.server().await.expect("it is told");
    assert_eq!(second.name(), "http://b:7100");
    // An answer about a server that was known before says nothing about the next one.
    place.forget(&first);
    *told.is_away.lock() = true;
    assert!(Arc::ptr_eq(&place.server().await.expect("known"), &second));
}

#[tokio::test]
async fn a_known_server_counts_for_a_while_without_the_object_store() {
    let told = Arc::<Told>::default();
    let place = told.place();
    told.name("http://a:7100");
    assert_eq!(fresh(&place).await.as_deref(), Ok("http://a:7100"));
    *told.is_away.lock() = true;
    sleep(FRESH_FOR).await;
    assert_eq!(fresh(&place).await.as_deref(), Ok("http://a:7100"));
    let PeerPlace::Shard(shard) = &place else {
        panic!("a shard's place");
    };
    if let Some(known) = &mut *shard.known.lock() {
        known.read_at -= KNOWN_FOR;
    }
    fresh(&place)
        .await
        .expect_err("it may have been taken over");
}

/// Returns the number of the states that are told, and of the peers that are gone.
async fn states(peers: &Peers, patience: Duration) -> (usize, usize) {
    let (states, missing) = peers.awaited_states("s0", sleep(patience)).await;
    (states.len(), missing.gone().len())
}

#[tokio::test]
async fn questions_wait_for_a_shard_that_moves_and_look_for_it_together() {
    let told = Arc::<Told>::default();
    // A server that closes each connection.
    let closing = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = closing.local_addr().expect("an address");
    told.name(&format!("http://{address}"));
    let connections = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&connections);
    tokio::spawn(async move {
        while closing.accept().await.is_ok() {
            counted.fetch_add(1, Ordering::SeqCst);
        }
    });
    let peers = Arc::new(Peers(vec![told.place()]));
    // The first question finds it missing.
    let without_waiting = peers.states("s0").await;
    assert_eq!(without_waiting.1.gone().len(), 1);
    let ask = || {
        let peers = Arc::clone(&peers);
        tokio::spawn(async move { states(&peers, MOVED_WITHIN).await })
    };
    let asked: Vec<_> = (0..40).map(|_| ask()).collect();
    sleep(Duration::from_millis(1500)).await;
    assert!(asked.iter().all(|asked| !asked.is_finished()));
    // Each asks for a state or two, and one of them every tenth of a second whether it lives.
    let connections = connections.load(Ordering::SeqCst);
    assert!(connections < 200, "{connections}");
    let (url, _) = serve(peer_with("s1", None)).await;
    told.name(&url);
    for asked in asked {
        assert_eq!(asked.await.expect("no panic"), (1, 0));
    }
    assert!(!peers.0[0].is_awaited(), "it has a server");
}

#[tokio::test]
async fn nobody_waits_for_a_shard_that_is_missed_for_long() {
    let told = Arc::<Told>::default();
    let peers = Peers(vec![told.place()]);
    let began = Instant::now();
    assert_eq!(states(&peers, Duration::from_millis(500)).await, (0, 1));
    assert!(
        began.elapsed() >= Duration::from_millis(500),
        "patience ends"
    );
    let PeerPlace::Shard(place) = &peers.0[0] else {
        panic!("a shard's place");
    };
    let missed_since = *place.missed_since.lock();
    *place.missed_since.lock() = missed_since.map(|since| since - MOVED_WITHIN);
    let still = || timeout(MOVED_WITHIN / 2, states(&peers, MOVED_WITHIN));
    assert_eq!(still().await, Ok((0, 1)));
    // Once it was there, its next move is waited for.
    let (url, _) = serve(peer_with("s1", None)).await;
    told.name(&url);
    assert_eq!(still().await, Ok((1, 0)));
    *told.address.lock() = None;
    peers.0[0].forget(&peers.0[0].server().await.expect("known"));
    assert!(still().await.is_err(), "it is waited for");
}

/// It would be asked again and again, and refuses since it is busy.
#[tokio::test]
async fn a_server_that_refuses_is_not_waited_for() {
    let told = Arc::<Told>::default();
    let refusal = "HTTP/1.1 429 Too Many Requests\r\nContent-Length: 0\r\n\r\n";
    let (url, _) = serve(Box::new(move |_| Some(refusal.to_owned()))).await;
    told.name(&url);
    let peers = Peers(vec![told.place()]);
    let asked = timeout(MOVED_WITHIN / 2, states(&peers, MOVED_WITHIN)).await;
    assert_eq!(asked, Ok((0, 1)));
}

#[tokio::test]
async fn a_peer_of_the_configuration_is_not_waited_for() {
    let told = Arc::<Told>::default();
    let connector = PeerConnector::trusting(None).expect("no file to read");
    let http = PeerHttp::new(connector, Handle::current());
    let gone = PeerPlace::At(http.server("http://127.0.0.1:9", None));
    let peers = Peers(vec![told.place(), gone]);
    let asked = timeout(MOVED_WITHIN / 2, states(&peers, MOVED_WITHIN)).await;
    assert_eq!(asked, Ok((0, 2)));
}
