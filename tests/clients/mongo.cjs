// Writes and reads through MongoDB's driver for Node: node mongo.cjs ADDRESS

const assert = require("node:assert/strict");
let mongodb;
try {
    mongodb = require("mongodb");
} catch {
    console.log("skipped: the driver mongodb is not installed");
    process.exit(0);
}

async function main() {
    const client = new mongodb.MongoClient(`mongodb://${process.argv[2]}/?serverSelectionTimeoutMS=20000`);
    const events = client.db("logs").collection("events");
    const time = (hour) => new Date(Date.UTC(2000, 9, 10, hour));

    const made = Array.from({ length: 2500 }, (_, n) => ({
        host: `192.0.2.${n % 3}`,
        n,
        time: time(n % 48),
        inside: { list: [n, null, "x"], long: mongodb.Long.fromString("1099511627776") },
    }));
    const inserted = await events.insertMany(made, { writeConcern: { w: "majority", j: true } });
    assert.equal(inserted.insertedCount, 2500);

    const day = { $gte: time(0), $lt: time(24) };
    const found = await events.find({ host: "192.0.2.1", time: day }).sort({ n: -1 }).toArray();
    const expected = made.filter((one) => one.n % 3 === 1 && one.n % 48 < 24).reverse();
    assert.deepEqual(found.map((one) => one.n), expected.map((one) => one.n));
    assert.deepEqual(found[0]._id, expected[0]._id);
    assert.deepEqual(found[0].inside.list, expected[0].inside.list);

    let read = 0;
    for await (const one of events.find().batchSize(100)) {
        read += one.n >= 0 ? 1 : 0;
    }
    assert.equal(read, 2500);
    assert.equal(await events.countDocuments({ n: { $lt: 100 } }), 100);
    assert.equal(await events.estimatedDocumentCount(), 2500);
    assert.deepEqual((await events.distinct("host")).sort(), ["192.0.2.0", "192.0.2.1", "192.0.2.2"]);

    const hits = await events
        .aggregate([
            { $group: { _id: { host: "$host", day: { $dayOfMonth: "$time" } }, n: { $sum: 1 } } },
            { $sort: { "_id.host": 1, "_id.day": 1 } },
        ])
        .toArray();
    assert.equal(hits.length, 6);
    assert.equal(hits.reduce((sum, one) => sum + one.n, 0), 2500);

    const counters = client.db("logs").collection("counters");
    for (let n = 0; n < 3; n++) {
        await counters.updateOne({ _id: "a" }, { $inc: { "hourly.3": 1, all: 2 } }, { upsert: true });
    }
    assert.deepEqual(await counters.findOne({ _id: "a" }), { _id: "a", hourly: { 3: 3 }, all: 6 });
    await assert.rejects(events.updateOne({ n: 1 }, { $set: { n: 2 } }), { code: 115 });

    const names = (await client.db("logs").listCollections().toArray()).map((one) => one.name);
    assert.ok(names.includes("events") && names.includes("counters"), names.join());
    await client.close();
    console.log("stored 2500");
}

main();
