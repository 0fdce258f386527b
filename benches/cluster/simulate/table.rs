//! Aligned tables, and numbers with units.

/// A table whose first column is text.
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new(head: &[&str]) -> Self {
        let head = head.iter().map(|name| (*name).to_owned());
        Self {
            rows: vec![head.collect()],
        }
    }

    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// Prints the rows below a title.
    pub(crate) fn print(&self, title: &str) {
        println!("\n{title}\n");
        let columns = self.rows[0].len();
        let width = |at: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(at));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        for row in &self.rows {
            let cells = row.iter().zip(&widths).enumerate();
            let cells = cells.map(|(at, (cell, &width))| match at {
                0 => format!("{cell:<width$}"),
                _ => format!("{cell:>width$}"),
            });
            println!("  {}", cells.collect::<Vec<_>>().join("  ").trim_end());
        }
    }
}

/// Returns a number of three digits and a unit.
fn with_unit(value: f64, units: &[(f64, &str)]) -> String {
    let fits = |(least, _): &&(f64, &str)| value.abs() >= *least;
    let last = units.last().expect("BUG: there are units");
    let (unit, name) = units.iter().find(fits).unwrap_or(last);
    let value = value / unit;
    let digits = match value.abs() {
        v if v >= 99.95 => 0,
        v if v >= 9.995 => 1,
        _ => 2,
    };
    format!("{value:.digits$}{name}")
}

pub(crate) fn bytes(value: f64) -> String {
    let units = [
        (1e15, " PB"),
        (1e12, " TB"),
        (1e9, " GB"),
        (1e6, " MB"),
        (1e3, " kB"),
        (1.0, " B"),
    ];
    with_unit(value, &units)
}

pub(crate) fn count(value: f64) -> String {
    match value {
        v if v < 1e3 => format!("{v:.0}"),
        v => with_unit(v, &[(1e9, "G"), (1e6, "M"), (1e3, "k")]),
    }
}

pub(crate) fn ms(value: f64) -> String {
    with_unit(value, &[(60e3, " min"), (1e3, " s"), (1.0, " ms")])
}

pub(crate) fn dollars(value: f64) -> String {
    format!("${}", count(value))
}

/// Marks a figure that was scaled.
pub(crate) fn scaled(by: f64, text: String) -> String {
    if by > 1.0 { format!("~{text}") } else { text }
}
