//! The object store `moto`, which answers conditional puts as S3 does.

use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use super::{Output, Server};
use crate::shippers::wait_for;

/// The store's place in it.
const URL: &str = "s3://logs/store";

/// A running object store; killed when dropped.
pub(crate) struct Moto {
    child: Child,
    endpoint: String,
}

impl Drop for Moto {
    fn drop(&mut self) {
        let _ended = self.child.kill().and_then(|()| self.child.wait());
    }
}

impl Moto {
    /// Starts the server, if it is installed, and makes a bucket.
    pub(crate) fn start() -> Option<Self> {
        let Ok(python) = std::env::var("LOGMILL_CLIENTS_PYTHON") else {
            println!("skipped: LOGMILL_CLIENTS_PYTHON names no Python with moto");
            return None;
        };
        let known = Command::new(&python)
            .args(["-c", "import moto.server"])
            .stderr(Stdio::null())
            .status();
        if !known.is_ok_and(|status| status.success()) {
            println!("skipped: moto is not installed");
            return None;
        }
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let address = free.local_addr().expect("its address");
        drop(free);
        let child = Command::new(python)
            .args(["-m", "moto.server", "-H", "127.0.0.1", "-p"])
            .arg(address.port().to_string())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("moto starts");
        let endpoint = format!("http://{address}");
        let moto = Self { child, endpoint };
        wait_for(|| TcpStream::connect(address).is_ok());
        let made = ureq::put(format!("{}/logs", moto.endpoint)).send_empty();
        made.expect("a bucket");
        Some(moto)
    }

    /// Returns the variables by which a server finds it.
    pub(crate) fn environment(&self) -> Vec<(&str, &str)> {
        vec![
            ("AWS_ACCESS_KEY_ID", "test"),
            ("AWS_SECRET_ACCESS_KEY", "test"),
            ("AWS_REGION", "us-east-1"),
            ("AWS_ENDPOINT_URL", &self.endpoint),
            ("LOGMILL_STORAGE__OBJECTS", URL),
        ]
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("a signal to our own child");
    }

    #[track_caller]
    pub(crate) fn serve(&self, data: &str, flags: &[&str], besides: &[(&str, &str)]) -> Server {
        match self.try_serve(data, flags, besides) {
            Ok(server) => server,
            Err(told) => panic!("the server ends with {}: {}", told.code, told.stderr),
        }
    }

    pub(crate) fn try_serve(
        &self,
        data: &str,
        flags: &[&str],
        besides: &[(&str, &str)],
    ) -> Result<Server, Output> {
        let environment = [&self.environment()[..], besides].concat();
        Server::try_start_as(data, flags, &environment)
    }
}
