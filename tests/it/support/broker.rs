//! The broker Tansu in a process of its own.

use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};

use futures::executor::block_on;
use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;

use crate::shippers::wait_for;

/// A running broker; killed when dropped.
pub(crate) struct Broker {
    child: Child,
    /// `127.0.0.1:port`
    pub(crate) address: String,
}

impl Drop for Broker {
    fn drop(&mut self) {
        let _ended = self.child.kill().and_then(|()| self.child.wait());
    }
}

impl Broker {
    /// Starts it with its topics in memory, if it is installed.
    pub(crate) fn start() -> Option<Self> {
        let Ok(program) = std::env::var("LOGMILL_KAFKA_BROKER") else {
            println!("skipped: LOGMILL_KAFKA_BROKER names no program of the broker Tansu");
            return None;
        };
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let address = free.local_addr().expect("its address").to_string();
        drop(free);
        let url = format!("tcp://{address}");
        let child = Command::new(program)
            .args(["broker", "--storage-engine", "memory://tansu/"])
            .args(["--listener-url", &url, "--advertised-listener-url", &url])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let child = child.expect("the broker starts");
        let broker = Self { child, address };
        wait_for(|| TcpStream::connect(&broker.address).is_ok());
        Some(broker)
    }

    /// Creates a topic of one partition.
    #[track_caller]
    pub(crate) fn create_topic(&self, topic: &str, config: &[(&str, &str)]) {
        self.create_partitions(topic, 1, config);
    }

    /// Creates a topic of several partitions.
    pub(crate) fn create_partitions(&self, topic: &str, number: i32, config: &[(&str, &str)]) {
        let admin: AdminClient<DefaultClientContext> = ClientConfig::new()
            .set("bootstrap.servers", &self.address)
            .create()
            .expect("a client");
        let mut new = NewTopic::new(topic, number, TopicReplication::Fixed(1));
        for (key, value) in config {
            new = new.set(key, value);
        }
        let created = block_on(admin.create_topics([&new], &AdminOptions::new()));
        created.expect("an answer")[0].as_ref().expect("a topic");
    }
}
