//! The table of classes: figures of normal clients, of the server, and outcomes of attackers.

use std::collections::BTreeMap;
use std::time::Duration;

use super::normal::{KINDS, Taken};

pub(crate) struct Row<'a> {
    pub(crate) name: &'static str,
    pub(crate) quiet: &'a Taken,
    pub(crate) taken: &'a Taken,
    /// The peak of resident memory over that before the class.
    pub(crate) over_mib: f64,
    /// The peak of resident memory over that at the start.
    pub(crate) peak_mib: f64,
    /// Resident memory after the class over that at the start.
    pub(crate) left_mib: f64,
    /// Growth of the log a second.
    pub(crate) log_mib: f64,
    /// Time from the end of the attack until nothing of it is felt.
    pub(crate) calm: Duration,
    /// Open descriptors before the attack and after it.
    pub(crate) descriptors: (usize, usize),
    pub(crate) outcomes: BTreeMap<String, u64>,
    pub(crate) broken: Vec<String>,
}

pub(crate) fn begin(has_tls: bool, quiet: &Taken, start_mib: f64) {
    let port = if has_tls { "with" } else { "without" };
    let figures = KINDS.iter().zip(quiet.p99);
    let figures: Vec<_> = figures
        .map(|(kind, ms)| format!("{kind} {ms:.1}"))
        .collect();
    println!(
        "\na port {port} TLS, quiet: 99th percentile of normal clients, ms: {}; {start_mib:.0} MiB{}",
        figures.join(", "),
        refusals(quiet)
    );
    println!(
        "class                   send ms ratio   sync ms ratio    sql ms ratio health ms ratio   find ms ratio  +MiB  peak  left calm s  open files"
    );
}

impl Row<'_> {
    pub(crate) fn print(&self) {
        let mut line = format!("{:<22}", self.name);
        for (now, quiet) in self.taken.p99.iter().zip(self.quiet.p99) {
            line += &format!(" {now:>8.1} {:>5.1}", now / quiet);
        }
        let (before, after) = self.descriptors;
        println!(
            "{line} {:>5.0} {:>5.0} {:>5.0} {:>6.1} {:>11}",
            self.over_mib,
            self.peak_mib,
            self.left_mib,
            self.calm.as_secs_f64(),
            format!("{before} > {after}")
        );
        let outcomes = self.outcomes.iter();
        let outcomes: Vec<_> = outcomes.map(|(what, n)| format!("{what}: {n}")).collect();
        println!("    {}{}", outcomes.join(", "), refusals(self.taken));
        for what in &self.broken {
            println!("    BROKEN: {what}");
        }
    }
}

fn refusals(taken: &Taken) -> String {
    let refused = taken.refused.iter();
    let refused: Vec<_> = refused.map(|(what, n)| format!("{what}: {n}")).collect();
    match refused.is_empty() {
        true => String::new(),
        false => format!("; refused to normal clients: {}", refused.join(", ")),
    }
}
