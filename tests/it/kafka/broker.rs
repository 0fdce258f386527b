//! A broker of its own process, with storage of its own, while servers are killed:
//! `tests/clients/kafka.py`.

use std::path::Path;
use std::process::Command;

use crate::support::{BINARY, Broker, finish, knob, seed};

#[test]
fn a_real_broker_has_each_record_stored_once_though_servers_are_killed() {
    let Ok(python) = std::env::var("LOGMILL_CLIENTS_PYTHON") else {
        println!("skipped: LOGMILL_CLIENTS_PYTHON names no Python with confluent-kafka");
        return;
    };
    let Some(broker) = Broker::start() else {
        return;
    };
    let kills = knob("LOGMILL_KILLS", 4);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/kafka.py");
    let mut client = Command::new(python);
    client.arg(script).args([&*broker.address, BINARY]);
    client.args(["--kills", &kills.to_string(), "--pace", "2"]);
    client.args(["--records", &(kills * 10_000).to_string()]);
    client.args(["--seed", &seed().to_string()]);
    let told = finish(&mut client, &[]).code(0).stdout;
    println!("{told}");
    assert!(told.contains(&format!("{kills} kills")), "{told}");
}
