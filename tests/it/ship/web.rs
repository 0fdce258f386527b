//! nginx and Apache write their own logs under load while logrotate rotates them each second, and
//! both ends are killed. The truth is what lies in the logs in the end.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::{Shipper, wait_for};
use crate::shippers::{Background, installed};
use crate::support::{Home, Server, finish};

/// Duration of the load; each second the log is rotated.
const SECONDS: u64 = 6;

/// Starts a web server that writes `logs/access.log` in the format `combined`, on this port.
type StartWeb = fn(home: &Home, program: &Path, port: u16) -> Web;

/// A running web server.
struct Web(Background);

impl Drop for Web {
    fn drop(&mut self) {
        self.0.terminate();
    }
}

fn nginx(home: &Home, program: &Path, port: u16) -> Web {
    let home_path = home.path("");
    let config = format!(
        "user root;\ndaemon off;\npid {home_path}web.pid;\nerror_log {home_path}error.log;\nevents {{}}\nhttp {{\n  access_log {home_path}logs/access.log combined;\n  server {{ listen 127.0.0.1:{port}; location / {{ return 204; }} }}\n}}\n"
    );
    let config = home.file("nginx.conf", config);
    let mut command = Command::new(program);
    command.args(["-p", &home_path, "-c", &config]);
    Web(Background::start(home, &mut command))
}

fn apache(home: &Home, program: &Path, port: u16) -> Web {
    let home_path = home.path("");
    let modules = "/usr/lib/apache2/modules";
    let config = format!(
        "ServerRoot {home_path}\nServerName localhost\nListen 127.0.0.1:{port}\nPidFile {home_path}web.pid\nUser nobody\nGroup nogroup\nErrorLog {home_path}error.log\nLoadModule mpm_event_module {modules}/mod_mpm_event.so\nLoadModule authz_core_module {modules}/mod_authz_core.so\nLogFormat \"%h %l %u %t \\\"%r\\\" %>s %O \\\"%{{Referer}}i\\\" \\\"%{{User-Agent}}i\\\"\" combined\nCustomLog {home_path}logs/access.log combined\nGracefulShutdownTimeout 2\n"
    );
    let config = home.file("apache.conf", config);
    let mut command = Command::new(program);
    command.args(["-D", "FOREGROUND", "-f", &config]);
    Web(Background::start(home, &mut command))
}

/// Rotates the log as the packages of nginx and Apache do: the old file is compressed at the next
/// rotation, since the server writes into it until it has read the signal.
fn rotate(home: &Home, logrotate: &Path, signal: &str) {
    let config = format!(
        "{}logs/access.log {{\n  rotate 1000\n  missingok\n  notifempty\n  compress\n  delaycompress\n  sharedscripts\n  postrotate\n    kill -{signal} $(cat {}web.pid)\n  endscript\n}}\n",
        home.path(""),
        home.path(""),
    );
    let config = home.file("logrotate.conf", config);
    let state = home.path("logrotate.state");
    let told = finish(
        Command::new(logrotate).args(["--force", "--state", &state, &config]),
        &[],
    );
    assert_eq!(told.code, 0, "{}", told.stderr);
}

/// Sends requests for as long as the test rotates, each with a number of its own.
fn load(home: &Home, wrk: &Path, port: u16) -> Background {
    let script = home.file(
        "numbers.lua",
        "local n = 0\nrequest = function()\n  n = n + 1\n  return wrk.format('GET', '/request/' .. n)\nend\n",
    );
    let url = format!("http://127.0.0.1:{port}");
    let seconds = format!("{SECONDS}s");
    Background::start(
        home,
        Command::new(wrk).args(["-t1", "-c8", "-d", &seconds, "-s", &script, &url]),
    )
}

/// Returns the paths in all files of the log, sorted.
fn logged(home: &Home) -> Vec<String> {
    let folder = std::fs::read_dir(home.path("logs")).expect("the logs");
    let files: Vec<PathBuf> = folder.map(|entry| entry.expect("a log").path()).collect();
    let mut paths = Vec::new();
    for file in files {
        let bytes = std::fs::read(&file).expect("a log");
        let mut text = String::new();
        match file.extension().is_some_and(|e| e == "gz") {
            true => flate2::read::MultiGzDecoder::new(&*bytes).read_to_string(&mut text),
            false => (&*bytes).read_to_string(&mut text),
        }
        .expect("text");
        let path = |line: &str| line.split(' ').nth(6).expect("a path").to_owned();
        paths.extend(text.lines().map(path));
    }
    paths.sort_unstable();
    paths
}

/// Returns a port that is free now.
fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("an address").port()
}

fn every_request_comes_once(program: &str, signal: &str, start: StartWeb) {
    let programs = [program, "wrk", "logrotate"].map(installed);
    let [Some(program), Some(wrk), Some(logrotate)] = programs else {
        return;
    };
    let home = Home::new();
    std::fs::create_dir(home.path("logs")).expect("a folder");
    let mut server = Server::start(&home.data);
    let (url, address) = (server.url.clone(), server.address.clone());
    let log = home.path("logs/access.log");
    let mut shipper = Shipper::start(&home, &log, &url);
    let port = free_port();
    let web = start(&home, &program, port);
    crate::shippers::wait_for(|| std::net::TcpStream::connect(("127.0.0.1", port)).is_ok());
    let wrk = load(&home, &wrk, port);
    for second in 0..SECONDS {
        std::thread::sleep(Duration::from_secs(1));
        rotate(&home, &logrotate, signal);
        match second {
            1 => {
                shipper.kill();
                shipper = Shipper::start(&home, &log, &url);
            }
            3 => {
                server.kill();
                server = Server::start_at(&home.data, &address, &[]);
            }
            _ => {}
        }
    }
    wrk.ended();
    drop(web);
    let logged = logged(&home);
    wait_for(&server, logged.len() as u64);
    // Lines that came twice would come late.
    std::thread::sleep(Duration::from_secs(2));
    let stored = server.sql("SELECT path FROM access ORDER BY path");
    let stored: Vec<&str> = stored
        .iter()
        .map(|r| r["path"].as_str().expect("a path"))
        .collect();
    println!(
        "{} requests in {SECONDS} s, as many rotations",
        logged.len()
    );
    assert!(logged.len() > 1000, "{} requests", logged.len());
    assert!(
        stored == logged,
        "{} lines stored of {}",
        stored.len(),
        logged.len()
    );
    assert_eq!(shipper.stop(), 0);
}

#[test]
fn nginx_under_load_with_logrotate() {
    every_request_comes_once("nginx", "USR1", nginx);
}

#[test]
fn apache_under_load_with_logrotate() {
    every_request_comes_once("apache2", "USR1", apache);
}
