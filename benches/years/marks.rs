//! Marks that must hold. All of them are measured; the missed ones are reported at the end.

use std::sync::Mutex;

static MISSED: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Prints a figure with its mark, and remembers it when it is beyond.
pub(crate) fn at_most(what: &str, found: f64, mark: f64, unit: &str) {
    let word = if found <= mark { "holds" } else { "MISSED" };
    let line = format!("{what}: {found:.1} {unit}, at most {mark:.0}");
    println!("  {word}: {line}");
    if found > mark {
        MISSED
            .lock()
            .expect("BUG: nobody panics with it")
            .push(line);
    }
}

/// Ends the program when a mark was missed.
pub(crate) fn conclude() {
    let missed = MISSED.lock().expect("BUG: nobody panics with it");
    assert!(missed.is_empty(), "missed: {}", missed.join("; "));
}
