//! Options of `logmill serve` for the listeners that log shippers send to.

use clap::Args;

use crate::config::Config;

#[derive(Debug, Args)]
pub(crate) struct ShipperArgs {
    /// The address for OTLP over gRPC, with TLS too with a certificate, or off.
    #[arg(long, value_name = "ADDR")]
    otlp_grpc: Option<String>,
    /// The address for syslog over UDP and TCP, and over TLS with a certificate, or off.
    #[arg(long, value_name = "ADDR", conflicts_with_all = ["syslog_udp", "syslog_tcp"])]
    syslog: Option<String>,
    /// The address for syslog over UDP, or off.
    #[arg(long, value_name = "ADDR")]
    syslog_udp: Option<String>,
    /// The address for syslog over TCP, and over TLS with a certificate, or off.
    #[arg(long, value_name = "ADDR")]
    syslog_tcp: Option<String>,
    /// The address for RELP, with TLS too with a certificate, or off.
    #[arg(long, value_name = "ADDR")]
    relp: Option<String>,
    /// The address for Fluent's forward protocol, with TLS too with a certificate, or off.
    #[arg(long, value_name = "ADDR")]
    fluent: Option<String>,
}

impl ShipperArgs {
    /// Overlays the configuration.
    pub(crate) fn apply(self, config: &mut Config) {
        let set = |place: &mut String, given: Option<String>| {
            if let Some(address) = given {
                *place = address;
            }
        };
        set(&mut config.server.otlp_grpc, self.otlp_grpc);
        set(&mut config.syslog.udp, self.syslog.clone());
        set(&mut config.syslog.tcp, self.syslog);
        set(&mut config.syslog.udp, self.syslog_udp);
        set(&mut config.syslog.tcp, self.syslog_tcp);
        set(&mut config.relp.listen, self.relp);
        set(&mut config.fluent.listen, self.fluent);
    }
}
