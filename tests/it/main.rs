//! End-to-end tests of the real binary: its command line, its server, its page, and what is left
//! of a store after `kill -9`.
//!
//! Every test works in a temporary directory and on ports that the system picks, so all of them
//! run side by side. None needs the network. Tests on real logs read the folder that
//! `LOGMILL_TEST_DATA` names and print `skipped` without it; so do those that need a Python
//! interpreter, a browser or `strace` that is not there, or that may not mount a file system. These
//! variables make the long runs:
//!
//! | variable | default | what |
//! |---|---|---|
//! | `LOGMILL_TRIALS` | 1000 | acknowledgements that `fresh` reads after |
//! | `LOGMILL_KILLS` | 4 | kills of each kind in `kill` and `faults::crash` |
//! | `LOGMILL_KAFKA_KILLS` | 2 | kills of a server that reads Kafka in `kafka` |
//! | `LOGMILL_SHIP_CYCLES` | 16 | kills and rotations under a shipper in `ship::rotation` |
//! | `LOGMILL_FILLS` | 2 | times that `full_disk` fills a disk |
//! | `LOGMILL_READER_SECONDS` | 10 | how long `reader` reads beside a server |
//! | `LOGMILL_BACKUP_SECONDS` | 4 | how long a server is backed up every second |
//! | `LOGMILL_RELOADS` | 2 | certificates that `tls` takes under load |
//! | `LOGMILL_TAILS` | 520 | clients that follow a stream at once in `starve` |
//! | `LOGMILL_CLIENTS_PYTHON` | unset | a Python with clients of `postgres`, `flight`, `kafka` … |
//! | `LOGMILL_KAFKA_BROKER` | unset | the broker Tansu, for `kafka::broker` and `kafka_journal` |
//! | `LOGMILL_GRAFANA_PYTHON` | unset | a Python with `grafana-foundation-sdk`, for `grafana` |
//! | `LOGMILL_SYSLOG_NG` | unset | the folder of an unpacked syslog-ng, for `shippers` |
//! | `LOGMILL_NODE_PATH` | unset | a folder of packages with `@grafana/data`, pino and pino-loki |
//! | `LOGMILL_SEED` | the process id | the seed of tests that pick moments, printed by each run |
//! | `LOGMILL_FULL` | unset | large logs in all scenarios of `oracle`, every minute in `faults` |

mod access;
mod anonymise;
mod backup;
mod canary;
mod check;
mod cluster;
mod concern;
mod config;
mod documents;
mod erase;
mod example;
mod faults;
mod flight;
mod format;
mod formats;
mod fresh;
mod full_disk;
mod grafana;
mod guard;
mod headed;
mod held;
mod http_ingest;
mod http_server;
mod http_sql;
mod identity;
mod import;
mod index;
mod injection;
#[cfg(feature = "kafka")]
mod kafka;
#[cfg(feature = "kafka")]
mod kafka_journal;
mod kill;
mod levels;
mod lock;
mod loki;
mod mongo;
mod names;
mod nodes;
mod objects;
mod operations;
mod oracle;
mod origin;
mod other;
mod page;
mod parameters;
mod partition;
mod pipe;
mod postgres;
mod prometheus;
mod quarantine;
mod questions;
mod reader;
mod repair;
mod repl;
mod requests;
mod rollup;
mod shapes;
mod shard_keys;
mod shards;
mod shares;
mod ship;
mod shippers;
mod shippers_http;
mod slice;
mod slt;
mod starve;
mod stop;
mod strace;
mod support;
mod tidy;
mod tls;
mod zones;
