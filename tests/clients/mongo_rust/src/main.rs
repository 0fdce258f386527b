//! Writes and reads through MongoDB's driver for Rust.
//!
//!     mongo-rust ADDRESS

use futures::TryStreamExt;
use mongodb::bson::{Bson, DateTime, Document, doc};
use mongodb::options::{Acknowledgment, CursorType, IndexOptions, WriteConcern};
use mongodb::{Client, Collection, IndexModel};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

const DOCUMENTS: i32 = 2500;
/// 2026-03-01, milliseconds since 1970.
const BEGIN_MS: i64 = 1_772_323_200_000;

#[tokio::main]
async fn main() -> Result<()> {
    let address = std::env::args().nth(1).ok_or("mongo-rust ADDRESS")?;
    let client = Client::with_uri_str(format!("mongodb://{address}")).await?;
    let events = client.database("logs").collection("rust");
    insert(&events).await?;
    find(&events).await?;
    aggregate(&events).await?;
    follow(&events).await?;
    count(&client.database("logs").collection("rust_hits")).await?;
    refuse(&events).await?;
    println!("stored {DOCUMENTS}");
    Ok(())
}

async fn insert(events: &Collection<Document>) -> Result<()> {
    let made = (0..DOCUMENTS).map(|n| {
        let time = DateTime::from_millis(BEGIN_MS + 1000 * i64::from(n));
        doc! { "_id": n, "time": time, "host": format!("10.0.0.{}", n % 7), "n": n, "list": [n, Bson::Null] }
    });
    let concern = WriteConcern::builder()
        .w(Acknowledgment::Majority)
        .journal(true)
        .build();
    let done = events.insert_many(made).write_concern(concern).await?;
    assert_eq!(done.inserted_ids.len(), DOCUMENTS as usize);
    let index = IndexModel::builder()
        .keys(doc! { "host": 1 })
        .options(IndexOptions::default())
        .build();
    assert_eq!(events.create_index(index).await?.index_name, "host_1");
    Ok(())
}

async fn find(events: &Collection<Document>) -> Result<()> {
    let wanted = doc! { "host": "10.0.0.3", "n": { "$gte": 1000 } };
    let cursor = events
        .find(wanted.clone())
        .sort(doc! { "n": -1 })
        .batch_size(10)
        .await?;
    let found: Vec<Document> = cursor.try_collect().await?;
    let expected: Vec<i32> = (1000..DOCUMENTS).filter(|n| n % 7 == 3).rev().collect();
    let numbers: Vec<i32> = found
        .iter()
        .map(|one| one.get_i32("n"))
        .collect::<std::result::Result<_, _>>()?;
    assert_eq!(numbers, expected);
    let first = &found[0];
    assert_eq!(first.get_array("list")?.len(), 2);
    let counted = events.count_documents(wanted).await?;
    assert_eq!(counted, expected.len() as u64);
    assert_eq!(events.estimated_document_count().await?, DOCUMENTS as u64);
    assert_eq!(events.distinct("host", doc! {}).await?.len(), 7);
    let one = events
        .find_one(doc! { "_id": 17 })
        .projection(doc! { "n": 1 })
        .await?;
    assert_eq!(one, Some(doc! { "_id": 17, "n": 17 }));
    Ok(())
}

async fn aggregate(events: &Collection<Document>) -> Result<()> {
    let day = doc! { "$dateToString": { "date": "$time", "format": "%Y-%m-%d" } };
    let pipeline = [
        doc! { "$group": { "_id": { "host": "$host", "day": day }, "hits": { "$sum": 1 } } },
        doc! { "$sort": { "_id.host": 1 } },
    ];
    let groups: Vec<Document> = events.aggregate(pipeline).await?.try_collect().await?;
    let hits: Vec<i32> = groups
        .iter()
        .map(|one| one.get_i32("hits"))
        .collect::<std::result::Result<_, _>>()?;
    assert_eq!(hits, [358, 357, 357, 357, 357, 357, 357]);
    Ok(())
}

async fn follow(events: &Collection<Document>) -> Result<()> {
    let wanted = doc! { "n": { "$gte": DOCUMENTS - 1 } };
    let mut cursor = events
        .find(wanted)
        .cursor_type(CursorType::TailableAwait)
        .await?;
    for n in DOCUMENTS - 1..DOCUMENTS + 3 {
        let found = cursor.try_next().await?.ok_or("the cursor has ended")?;
        assert_eq!(found.get_i32("n")?, n);
        events.insert_one(doc! { "n": n + 1 }).await?;
    }
    Ok(())
}

async fn count(hits: &Collection<Document>) -> Result<()> {
    for _ in 0..3 {
        let change = doc! { "$inc": { "daily": 1, "hourly.14": 1 } };
        let done = hits
            .update_one(doc! { "_id": "20260301/a" }, change)
            .upsert(true)
            .await?;
        assert_eq!(
            done.matched_count + u64::from(done.upserted_id.is_some()),
            1
        );
    }
    let found = hits.find_one(doc! { "_id": "20260301/a" }).await?;
    let expected = doc! { "_id": "20260301/a", "daily": 3, "hourly": { "14": 3 } };
    assert_eq!(found, Some(expected));
    Ok(())
}

async fn refuse(events: &Collection<Document>) -> Result<()> {
    let refused = events.delete_one(doc! { "_id": 1 }).await;
    let error = refused.err().ok_or("an event was deleted")?;
    assert!(error.to_string().contains("immutable"), "{error}");
    Ok(())
}
