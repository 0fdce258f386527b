//! Questions that every protocol answers alike.

/// Lines of the stream `documents`.
pub(crate) const DOCUMENTS: &str =
    "{\"a\":{\"b c\":[1,\"x\"]},\"n\":7}\n{\"n\":null,\"t\":\"é\",\"l\":[1,2]}\n";

/// Draws questions over the stream `access` and its rollups.
pub(crate) struct Draw(pub(crate) u64);

impl Draw {
    fn of<'a>(&mut self, some: &[&'a str]) -> &'a str {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        some[(self.0 >> 33) as usize % some.len()]
    }

    /// Returns questions, the last of which reads the stream `documents`.
    pub(crate) fn questions(&mut self, count: usize) -> Vec<String> {
        let mut questions: Vec<String> = (0..count).map(|_| self.question()).collect();
        questions.push("SELECT * FROM documents ORDER BY _id".to_owned());
        questions
    }

    fn question(&mut self) -> String {
        let key = self.of(&[
            "path",
            "host",
            "status",
            "method",
            "date_trunc('hour', time)",
            "status / 100",
            "time_bucket('2 hours', time, 'Europe/Berlin')",
            "upper(protocol)",
        ]);
        let measure = self.of(&[
            "count(*)",
            "sum(response_size)",
            "avg(response_size)",
            "max(time)",
            "min(host)",
            "count(DISTINCT host)",
            "array_sort(array_agg(DISTINCT status))",
            "sum(response_size) FILTER (WHERE status < 400)",
        ]);
        let condition = self.of(&[
            "true",
            "status >= 400",
            "path LIKE '/page/1%'",
            "host = '203.0.113.7'",
            "time < '2024-03-01T02:00:00Z'",
            "response_size % 7 = 3",
            "status IN (304, 500)",
        ]);
        match self.of(&["group", "rows", "level"]) {
            "group" => format!(
                "SELECT {key} AS k, {measure} AS m FROM access WHERE {condition} GROUP BY 1 ORDER BY 1"
            ),
            "rows" => format!("SELECT *, {key} AS k FROM access WHERE {condition} ORDER BY _seq"),
            _ => format!(
                "SELECT * FROM {} ORDER BY ALL",
                self.of(&[
                    "stats.hourly",
                    "traffic.daily",
                    "traffic.minutely",
                    "system.rollups"
                ])
            ),
        }
    }
}
