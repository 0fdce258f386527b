
use super::support::*;
use storage::StreamKind;
#[tokio::test(flavor = "multi_thread")]
async fn measure() {
    let f = Fixture::with_defaults();
    let start = 971_049_600_000_000;
    let hosts: Vec<&'static str> = (0..20_000).map(|i| &*Box::leak(format!("host{i}.example.net").into_boxed_str())).collect();
    for day in 0..4i64 {
        for b in 0..25usize {
            let mut e = mixture(10_000, start + day * DAY_US + b as i64 * DAY_US / 25, DAY_US / 250_000);
            let mut x: u64 = 12345 + (day as u64 * 25 + b as u64) * 7919;
            for ev in &mut e { x = x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407); let u = (x >> 40) as usize; ev.host = hosts[(u % 20_000) * (u % 97) / 97]; ev.path = Some(format!("/page/{}", (u / 7 % 5000) * (u % 89) / 89)); }
            f.write("access", StreamKind::Access, batch(&e));
        }
        if day < 3 { let t = std::time::Instant::now(); f.store.seal().unwrap(); println!("seal {:?}", t.elapsed()); }
    }
    for sql in [
        "SELECT * FROM access WHERE host = 'host77.example.net' AND time >= '2000-10-10' AND time < '2000-10-11'",
        "SELECT * FROM access WHERE path = '/page/77'",
        "SELECT count(*) FROM access WHERE time >= '2000-10-10' AND time < '2000-10-11'",
        "SELECT count(*) FROM access",
        "SELECT * FROM access WHERE time >= '2000-10-10' AND time < '2000-10-11' ORDER BY time LIMIT 1000",
        "SELECT host, date_trunc('day', time), count(*), sum(response_size) FROM access GROUP BY 1, 2",
        "SELECT path, sum(hits) FROM stats.hourly WHERE bucket >= '2000-10-10' GROUP BY 1 ORDER BY 2 DESC LIMIT 20",
        "SELECT bucket, hits FROM stats.minutely WHERE path = '/page/77' AND bucket >= '2000-10-11T23:00:00Z'",
        "SELECT bucket, size_p50, size_p99 FROM traffic.hourly",
        "SELECT bucket, sum(hits) FROM traffic.minutely GROUP BY 1 ORDER BY 1",
        "SELECT count(*) FROM access WHERE request LIKE '%page/77 %'",
    ] {
        for _ in 0..2 {
            let (rows, fig) = f.try_query(sql).await.unwrap();
            println!("{:5} ms rows {} {}", fig.elapsed_ms, rows.len(), serde_json::to_string(&fig).unwrap());
        }
        println!("  ^ {sql}");
    }
    for r in f.rows("EXPLAIN ANALYZE SELECT * FROM access WHERE host = 'host77.example.net' AND time >= '2000-10-10' AND time < '2000-10-11T12:00:00Z'").await { println!("{}", r["plan"].as_str().unwrap()); }
}
