//! Progress of a query, as one line on a terminal.

use std::io::IsTerminal;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use indicatif::ProgressBar;
use query::{QueryInfo, QueryState};

use crate::units::{grouped, human_bytes};

/// Time before the first progress line: most queries end earlier.
const SHOW_AFTER: Duration = Duration::from_millis(500);
const INTERVAL: Duration = Duration::from_millis(200);

/// Shows a query's progress until it is dropped, which clears the line.
#[derive(Debug)]
pub(super) struct ProgressLine(Option<(Sender<()>, JoinHandle<()>)>);

impl ProgressLine {
    /// Starts the display; `find` finds the query.
    pub(super) fn start(find: impl Fn() -> Option<QueryInfo> + Send + 'static) -> Self {
        Self(std::io::stderr().is_terminal().then(|| {
            let (stop, stopped) = channel();
            (stop, std::thread::spawn(move || show(&find, &stopped)))
        }))
    }
}

impl Drop for ProgressLine {
    fn drop(&mut self) {
        if let Some((stop, thread)) = self.0.take() {
            drop(stop);
            // The line is cleared by the time the thread has ended.
            let _panicked = thread.join();
        }
    }
}

fn show(find: &dyn Fn() -> Option<QueryInfo>, stopped: &Receiver<()>) {
    let waits = |time| stopped.recv_timeout(time) == Err(RecvTimeoutError::Timeout);
    if !waits(SHOW_AFTER) {
        return;
    }
    let bar = ProgressBar::new_spinner();
    loop {
        if let Some(query) = find() {
            bar.set_message(line(&query));
            bar.tick();
        }
        if !waits(INTERVAL) {
            break;
        }
    }
    bar.finish_and_clear();
}

fn line(query: &QueryInfo) -> String {
    let seconds = query.elapsed_ms / 1000;
    if query.state == QueryState::Queued {
        return format!("waiting for other queries, {seconds} s");
    }
    let done = query.done;
    let percent = done.percent.map(|p| format!("{p:.0} %, "));
    format!(
        "{}{} of {} parts, {} rows examined, {} read, {seconds} s",
        percent.unwrap_or_default(),
        done.parts.examined,
        done.parts.total,
        grouped(done.rows_examined),
        human_bytes(done.bytes_read),
    )
}

#[cfg(test)]
mod tests {
    use query::ScanProgress;

    use super::*;

    #[test]
    fn a_line_says_how_far_a_query_is() {
        let mut query = QueryInfo {
            id: 1,
            tag: None,
            client: None,
            sql: "SELECT 1".into(),
            state: QueryState::Queued,
            started_us: 0,
            elapsed_ms: 3100,
            rows_returned: 0,
            done: ScanProgress::default(),
            cancelled: false,
        };
        assert_eq!(line(&query), "waiting for other queries, 3 s");
        query.state = QueryState::Running;
        query.done.parts = query::Count {
            total: 4,
            examined: 1,
        };
        query.done.rows_examined = 12_345;
        query.done.percent = Some(25.4);
        let shown = line(&query);
        assert!(
            shown.starts_with("25 %, 1 of 4 parts, 12,345 rows"),
            "{shown}"
        );
    }
}
