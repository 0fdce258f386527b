//! The classes of attacks with their bounds.
//!
//! The bounds of memory are sums of the server's own limits, so that a limit that does not hold
//! shows: a connection has buffers of 16 KiB at most while it is slow, all bodies together have
//! 256 MiB, and all queries together half of that unless the configuration says otherwise.

use super::stage::Class;
use super::{bombs, floods, oversized, slow, smuggling};

pub(crate) fn all() -> Vec<Class> {
    vec![
        Class {
            name: "slow headers",
            needs_tls: false,
            on_both: true,
            seconds: 25,
            memory_mib: 128.0,
            accepted: &["held"],
            run: slow::headers,
        },
        Class {
            name: "slow bodies",
            needs_tls: false,
            on_both: true,
            seconds: 25,
            memory_mib: 128.0,
            accepted: &["held"],
            run: slow::bodies,
        },
        Class {
            name: "idle connections",
            needs_tls: false,
            on_both: true,
            seconds: 25,
            memory_mib: 128.0,
            accepted: &["held"],
            run: slow::idle,
        },
        Class {
            name: "half handshakes",
            needs_tls: true,
            on_both: false,
            seconds: 25,
            memory_mib: 128.0,
            accepted: &["held"],
            run: slow::handshakes,
        },
        Class {
            name: "bombs of zeros",
            needs_tls: false,
            on_both: false,
            seconds: 15,
            memory_mib: 512.0,
            accepted: &["415"],
            run: bombs::zeros,
        },
        Class {
            name: "bombs of short lines",
            needs_tls: false,
            on_both: false,
            seconds: 15,
            memory_mib: 1024.0,
            accepted: &["200"],
            run: bombs::short_lines,
        },
        Class {
            name: "failed logins",
            needs_tls: false,
            on_both: true,
            seconds: 15,
            memory_mib: 64.0,
            accepted: &["401", "unanswered at the end"],
            run: floods::logins,
        },
        Class {
            name: "flood of requests",
            needs_tls: false,
            on_both: true,
            seconds: 15,
            memory_mib: 128.0,
            accepted: &["200", "unanswered at the end"],
            run: floods::requests,
        },
        Class {
            name: "flood of queries",
            needs_tls: false,
            on_both: false,
            seconds: 15,
            memory_mib: 512.0,
            accepted: &["200", "unanswered at the end"],
            run: floods::queries,
        },
        Class {
            name: "pipelined requests",
            needs_tls: false,
            on_both: true,
            seconds: 15,
            memory_mib: 128.0,
            accepted: &["200"],
            run: floods::pipeline,
        },
        Class {
            name: "smuggled requests",
            needs_tls: false,
            on_both: false,
            seconds: 10,
            memory_mib: 128.0,
            accepted: &[
                "200",
                "200 and 200",
                "waits",
                "401",
                "404",
                "405",
                "411",
                "414",
                "421",
                "431",
                "501",
                "505",
            ],
            run: smuggling::run,
        },
        Class {
            name: "oversized requests",
            needs_tls: false,
            on_both: false,
            seconds: 15,
            memory_mib: 768.0,
            accepted: &["200", "401", "414", "431"],
            run: oversized::run,
        },
    ]
}
