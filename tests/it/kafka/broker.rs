//! A broker of its own process, with storage of its own, while servers are killed:
//! `tests/clients/kafka.py`.

use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::shippers::wait_for;
use crate::support::{BINARY, finish, knob, seed};

/// A running broker; killed when dropped.
struct Broker(Child);

impl Drop for Broker {
    fn drop(&mut self) {
        let _ended = self.0.kill().and_then(|()| self.0.wait());
    }
}

impl Broker {
    /// Starts Tansu in memory, and returns its address.
    fn start(program: &str) -> (Self, String) {
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let address = free.local_addr().expect("its address").to_string();
        drop(free);
        let url = format!("tcp://{address}");
        let broker = Command::new(program)
            .args(["broker", "--storage-engine", "memory://tansu/"])
            .args(["--listener-url", &url, "--advertised-listener-url", &url])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let broker = Self(broker.expect("the broker starts"));
        wait_for(|| TcpStream::connect(&address).is_ok());
        (broker, address)
    }
}

#[test]
fn a_real_broker_has_each_record_stored_once_though_servers_are_killed() {
    let Ok(python) = std::env::var("LOGMILL_CLIENTS_PYTHON") else {
        println!("skipped: LOGMILL_CLIENTS_PYTHON names no Python with confluent-kafka");
        return;
    };
    let Ok(program) = std::env::var("LOGMILL_KAFKA_BROKER") else {
        println!("skipped: LOGMILL_KAFKA_BROKER names no program of the broker Tansu");
        return;
    };
    let (_broker, address) = Broker::start(&program);
    let kills = knob("LOGMILL_KILLS", 4);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/kafka.py");
    let mut client = Command::new(python);
    client.arg(script).args([&*address, BINARY]);
    client.args(["--kills", &kills.to_string(), "--pace", "2"]);
    client.args(["--records", &(kills * 10_000).to_string()]);
    client.args(["--seed", &seed().to_string()]);
    let told = finish(&mut client, &[]).code(0).stdout;
    println!("{told}");
    assert!(told.contains(&format!("{kills} kills")), "{told}");
}
