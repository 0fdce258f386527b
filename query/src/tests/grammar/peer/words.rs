//! Random queries in two spellings: ours, and DuckDB's where it differs.

use super::super::values::Values;

/// The same text in both spellings.
#[derive(Debug, Clone)]
pub(super) struct Both {
    pub(super) ours: String,
    pub(super) theirs: String,
}

impl From<&str> for Both {
    fn from(text: &str) -> Self {
        Self {
            ours: text.to_owned(),
            // DuckDB's times have no zone.
            theirs: text.replace("Z'", "'"),
        }
    }
}

impl From<String> for Both {
    fn from(text: String) -> Self {
        text.as_str().into()
    }
}

fn join(parts: &[Both], with: &str) -> Both {
    let of = |side: &dyn Fn(&Both) -> &str| parts.iter().map(side).collect::<Vec<_>>().join(with);
    Both {
        ours: of(&|b| &b.ours),
        theirs: of(&|b| &b.theirs),
    }
}

/// Returns text in which each `{}` is one of the parts.
fn with(form: (&str, &str), parts: &[Both]) -> Both {
    let fill = |form: &str, side: &dyn Fn(&Both) -> &str| {
        let mut filled = form.to_owned();
        for part in parts {
            filled = filled.replacen("{}", side(part), 1);
        }
        filled
    };
    Both {
        ours: fill(form.0, &|b| &b.ours),
        theirs: fill(form.1, &|b| &b.theirs),
    }
}

fn same(form: &str, parts: &[Both]) -> Both {
    with((form, form), parts)
}

const UNITS: [&str; 7] = ["minute", "hour", "day", "week", "month", "quarter", "year"];
const PARTS: [&str; 10] = [
    "minute", "hour", "day", "dow", "isodow", "doy", "week", "month", "quarter", "year",
];
const WIDTHS: [&str; 5] = ["5 minutes", "15 minutes", "30 minutes", "1 hour", "6 hours"];
const FORMATS: [&str; 7] = ["%Y-%m-%d", "%H", "%H:%M", "%a", "%Y-%m", "%d", "%j"];
const TEXTS: [&str; 8] = [
    "host", "path", "method", "user", "query", "protocol", "request", "referrer",
];
const NUMBERS: [&str; 2] = ["status", "response_size"];
const COMPARED: [&str; 7] = ["=", "=", "<>", "<", "<=", ">", ">="];

/// Builds expressions over one table, whose name stands before each column.
struct Over<'a> {
    values: &'a mut Values,
    table: &'static str,
}

impl Over<'_> {
    fn column(&mut self, of: &[&str]) -> Both {
        format!("{}.{}", self.table, self.values.of(of)).into()
    }

    fn constant(&mut self, name: &str) -> Both {
        self.values.constant(name).unwrap_or_default().into()
    }

    fn time(&mut self, depth: usize) -> Both {
        let column: Both = format!("{}.time", self.table).into();
        if depth == 0 || self.values.once_in(2) {
            return column;
        }
        let inner = self.time(depth - 1);
        match self.values.below(5) {
            0..3 => {
                let unit = self.values.of(&UNITS);
                same(&format!("date_trunc('{unit}', {{}})"), &[inner])
            }
            3 => {
                let width = self.values.of(&WIDTHS);
                let ours = format!("time_bucket('{width}', {{}})");
                let theirs = format!("time_bucket(INTERVAL '{width}', {{}})");
                with((&ours, &theirs), &[inner])
            }
            _ => same("({} + INTERVAL '17 minutes')", &[inner]),
        }
    }

    fn date(&mut self, depth: usize) -> Both {
        let time = self.time(depth);
        same("CAST({} AS DATE)", &[time])
    }

    fn integer(&mut self, depth: usize) -> Both {
        if depth == 0 || self.values.once_in(2) {
            return self.column(&NUMBERS);
        }
        let (part, small) = (self.values.of(&PARTS), self.constant("positive"));
        match self.values.below(14) {
            0..3 => {
                let time = self.time(depth - 1);
                same(&format!("extract({part} FROM {{}})"), &[time])
            }
            3 => {
                let zone = self.values.of(&super::super::values::ZONES);
                let time = self.time(0);
                let ours = format!("extract({part} FROM {{}} AT TIME ZONE '{zone}')");
                let theirs =
                    format!("extract({part} FROM timezone('{zone}', timezone('UTC', {{}})))");
                with((&ours, &theirs), &[time])
            }
            4 => same("length({})", &[self.text(depth - 1)]),
            5 => same("strpos({}, 'a')", &[self.text(depth - 1)]),
            6 => same("({} + {})", &[self.integer(depth - 1), small]),
            7 => same("({} - {})", &[self.integer(depth - 1), small]),
            8 => same("({} % {})", &[self.integer(depth - 1), small]),
            9 => same("abs({} - 300)", &[self.integer(depth - 1)]),
            10 => same("coalesce({}, {})", &[self.integer(depth - 1), small]),
            11 => same("nullif({}, 200)", &[self.integer(depth - 1)]),
            12 => {
                let column = self.column(&["status"]);
                with(("({} / 100)", "({} // 100)"), &[column])
            }
            _ => {
                let (condition, integer) = (self.term(0), self.integer(depth - 1));
                same(
                    "CASE WHEN {} THEN {} ELSE {} END",
                    &[condition, integer, small],
                )
            }
        }
    }

    fn text(&mut self, depth: usize) -> Both {
        if depth == 0 || self.values.once_in(2) {
            return self.column(&TEXTS);
        }
        let inner = self.text(depth - 1);
        let (small, positive) = (self.constant("small"), self.constant("positive"));
        match self.values.below(18) {
            0 => same("lower({})", &[inner]),
            1 => same("upper({})", &[inner]),
            2 => same("reverse({})", &[inner]),
            3 => same("trim({})", &[inner]),
            4 => same("substr({}, {}, {})", &[inner, positive, small]),
            5 => same("left({}, {})", &[inner, small]),
            6 => same("right({}, {})", &[inner, small]),
            7 => same("replace({}, 'a', 'bc')", &[inner]),
            8 => same("concat({}, '-', {})", &[inner, self.text(0)]),
            9 => same("({} || '!')", &[inner]),
            10 => same("lpad({}, {}, '*')", &[inner, positive]),
            11 => same("split_part({}, 'p', 1)", &[inner]),
            12 => same("repeat({}, 2)", &[inner]),
            13 => same("coalesce({}, '-')", &[inner]),
            14 => same("nullif({}, 'GET')", &[inner]),
            15 => same("CAST({} AS VARCHAR)", &[self.integer(depth - 1)]),
            _ => {
                let (format, time) = (self.values.of(&FORMATS), self.time(depth - 1));
                let (ours, theirs) = (
                    format!("to_char({{}}, '{format}')"),
                    format!("strftime({{}}, '{format}')"),
                );
                with((&ours, &theirs), &[time])
            }
        }
    }

    /// Returns one comparison or test.
    fn term(&mut self, depth: usize) -> Both {
        let compared: Both = self.values.of(&COMPARED).into();
        let not: Both = self.values.of(&["", "NOT "]).into();
        let (stamp, other) = (self.constant("stamp"), self.constant("stamp"));
        let (text, number) = (self.constant("text"), self.constant("number"));
        match self.values.below(18) {
            0 | 1 => same("{} {} {}", &[self.time(depth), compared, stamp]),
            2 => same(
                "{} {}BETWEEN {} AND {}",
                &[self.time(depth), not, stamp, other],
            ),
            3 | 4 => {
                let day = self.constant("day");
                same("{} {} {}", &[self.date(depth), compared, day])
            }
            5 => {
                let days = self.constant("daylist");
                same("{} {}IN ({})", &[self.date(depth), not, days])
            }
            6 | 7 => same("{} {} {}", &[self.integer(depth), compared, number]),
            8 => {
                let numbers = self.constant("numbers");
                same("{} {}IN ({})", &[self.integer(depth), not, numbers])
            }
            9 => same("{} IS {}NULL", &[self.integer(depth), not]),
            10 => same("{} {} {}", &[self.text(depth), compared, text]),
            11 => {
                let texts = self.constant("texts");
                same("{} {}IN ({})", &[self.text(depth), not, texts])
            }
            12 => {
                let like = self.constant("like");
                same("{} {}LIKE '{}'", &[self.text(depth), not, like])
            }
            13 => {
                let like = self.constant("like");
                same("{} {}ILIKE '{}'", &[self.text(depth), not, like])
            }
            14 => {
                let regex = self.constant("regex");
                let forms = ("regexp_like({}, '{}')", "regexp_matches({}, '{}')");
                with(forms, &[self.text(depth), regex])
            }
            15 => same("{} IS {}NULL", &[self.text(depth), not]),
            16 => same("{} IS {}DISTINCT FROM {}", &[self.text(depth), not, text]),
            _ => same("starts_with({}, '/p')", &[self.text(depth)]),
        }
    }

    fn condition(&mut self, depth: usize) -> Both {
        if depth > 0 && self.values.below(5) < 2 {
            let sides = [self.condition(depth - 1), self.condition(depth - 1)];
            let form = self
                .values
                .of(&["{} AND {}", "({} OR {})", "NOT ({} AND {})"]);
            return same(form, &sides);
        }
        self.term(1)
    }

    fn any(&mut self) -> Both {
        match self.values.below(5) {
            0 | 1 => self.time(2),
            2 => self.date(1),
            3 => self.integer(2),
            _ => self.text(2),
        }
    }

    fn aggregate(&mut self) -> Both {
        match self.values.below(12) {
            0..3 => "count(*)".into(),
            3 => same("CAST(sum({}) AS BIGINT)", &[self.integer(1)]),
            4 => same("avg({})", &[self.column(&NUMBERS)]),
            5 => same("min({})", &[self.any()]),
            6 => same("max({})", &[self.any()]),
            7 => same("count(DISTINCT {})", &[self.any()]),
            8 => same("count({})", &[self.text(2)]),
            9 => same(
                "CAST(sum(CASE WHEN {} THEN 1 ELSE 0 END) AS BIGINT)",
                &[self.condition(1)],
            ),
            10 => same("count(*) FILTER (WHERE {})", &[self.condition(1)]),
            _ => same("stddev({})", &[self.column(&NUMBERS)]),
        }
    }

    fn filter(&mut self) -> Both {
        match self.values.below(6) {
            0 => "".into(),
            1 => {
                let asked = self.asked();
                same(" WHERE {} AND {}", &[self.condition(2), asked])
            }
            _ => same(" WHERE {}", &[self.condition(2)]),
        }
    }

    /// Returns a condition with a sub-query.
    fn asked(&mut self) -> Both {
        let (table, form) = (self.table, self.values.below(4));
        let condition = Over {
            values: &mut *self.values,
            table: "z",
        }
        .condition(1);
        let form = match form {
            0 => format!("{table}.path IN (SELECT z.path FROM access z WHERE {{}})"),
            1 => format!("{table}.host NOT IN (SELECT z.host FROM access z WHERE {{}})"),
            2 => format!("EXISTS (SELECT 1 FROM access z WHERE z.time = {table}.time AND {{}})"),
            _ => format!("{table}.status >= (SELECT avg(z.status) FROM access z WHERE {{}})"),
        };
        same(&form, &[condition])
    }
}

fn named(columns: &[Both]) -> Both {
    let columns = columns.iter().enumerate();
    let columns: Vec<Both> = columns
        .map(|(nth, column)| same(&format!("{{}} AS c{nth}"), std::slice::from_ref(column)))
        .collect();
    join(&columns, ", ")
}

/// Returns a random query.
pub(super) fn question(values: &mut Values) -> Both {
    match values.below(12) {
        0..6 => grouped(values, "access", "access"),
        6..8 => rows(values),
        8 => joined(values),
        9 => united(values),
        10 => of_level(values),
        _ => windowed(values),
    }
}

fn grouped(values: &mut Values, table: &'static str, from: &str) -> Both {
    let groups = values.of(&[0, 1, 1, 2, 2]);
    let mut over = Over { values, table };
    let groups: Vec<Both> = (0..groups).map(|_| over.any()).collect();
    let mut columns = groups.clone();
    for _ in 0..2 {
        columns.push(over.aggregate());
    }
    let filter = over.filter();
    let by = match (groups.is_empty(), over.values.below(8)) {
        (true, _) => "".into(),
        (_, 0) => same(" GROUP BY ROLLUP({})", &[join(&groups, ", ")]),
        (_, 1) => same(" GROUP BY CUBE({})", &[join(&groups, ", ")]),
        (_, 2) => {
            let all = join(&groups, ", ");
            same(
                " GROUP BY GROUPING SETS (({}), ({}), ())",
                &[all, groups[0].clone()],
            )
        }
        _ => same(" GROUP BY {}", &[join(&groups, ", ")]),
    };
    let having: Both = match values.once_in(6) {
        true => " HAVING count(*) > 2".into(),
        false => "".into(),
    };
    let form = format!("SELECT {{}} FROM {from}{{}}{{}}{{}}");
    same(&form, &[named(&columns), filter, by, having])
}

fn rows(values: &mut Values) -> Both {
    let direction = values.of(&["ASC NULLS LAST", "DESC NULLS LAST", "ASC NULLS FIRST"]);
    let (limit, skip) = (values.below(40), values.below(5));
    let mut over = Over {
        values,
        table: "access",
    };
    let columns: Vec<Both> = (0..3).map(|_| over.any()).collect();
    let (key, filter) = (over.any(), over.filter());
    let key = match over.values.once_in(2) {
        true => "access.time".into(),
        false => key,
    };
    let form = format!(
        "SELECT {{}} FROM access{{}} ORDER BY {{}} {direction}, access._id LIMIT {limit} OFFSET {skip}"
    );
    same(&form, &[named(&columns), filter, key])
}

fn joined(values: &mut Values) -> Both {
    let how = values.of(&["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"]);
    let on = values.of(&[
        "a._id = b._id",
        "a.time = b.time",
        "a.host = b.host AND a.path = b.path AND date_trunc('day', a.time) = date_trunc('day', b.time)",
    ]);
    let more = Over {
        values: &mut *values,
        table: "b",
    }
    .condition(1);
    let from = format!("access a {how} access b ON {on} AND {{}}");
    let query = grouped(values, "a", "FROM_BOTH");
    let from = same(&from, &[more]);
    Both {
        ours: query.ours.replace("FROM_BOTH", &from.ours),
        theirs: query.theirs.replace("FROM_BOTH", &from.theirs),
    }
}

fn united(values: &mut Values) -> Both {
    let how = values.of(&["UNION", "UNION ALL", "INTERSECT", "EXCEPT"]);
    let mut side = || {
        let mut over = Over {
            values: &mut *values,
            table: "access",
        };
        let columns = [over.date(2), over.text(2)];
        let filter = over.filter();
        same("SELECT {} FROM access{}", &[named(&columns), filter])
    };
    let sides = [side(), side()];
    same(&format!("{{}} {how} {{}}"), &sides)
}

fn of_level(values: &mut Values) -> Both {
    let unit = values.of(&UNITS);
    let stamp: Both = values.stamp().into();
    let form = values.of(&[
        "SELECT date_trunc('UNIT', bucket) AS c0, CAST(sum(hits) AS BIGINT) AS c1 FROM stats.hourly WHERE bucket >= {} GROUP BY 1",
        "SELECT path AS c0, CAST(sum(bytes) AS BIGINT) AS c1, count(*) AS c2 FROM stats.daily WHERE bucket <> {} GROUP BY 1",
        "SELECT host AS c0, min(least) AS c1, max(most) AS c2 FROM coarse.daily WHERE bucket < {} GROUP BY 1",
    ]);
    same(&form.replace("UNIT", unit), &[stamp])
}

fn windowed(values: &mut Values) -> Both {
    let function = values.of(&[
        "row_number()",
        "rank()",
        "lag(access.status)",
        "count(*)",
        "max(access.time)",
        "first_value(access.host)",
    ]);
    let mut over = Over {
        values,
        table: "access",
    };
    let (by, condition) = (over.any(), over.condition(1));
    let form = format!(
        "SELECT access._id AS c0, {function} OVER (PARTITION BY {{}} ORDER BY access._id) AS c1 FROM access WHERE {{}}"
    );
    same(&form, &[by, condition])
}
