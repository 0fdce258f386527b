// What somebody types into mongosh: mongosh --quiet mongodb://ADDRESS/logs --file mongosh.js

const assert = require("node:assert/strict");

for (let n = 0; n < 30; n++) {
    db.events.insertOne({ host: `192.0.2.${n % 3}`, n, time: new Date(Date.UTC(2000, 9, 10, n)) });
}
assert.equal(db.events.find({ host: "192.0.2.1" }).count(), 10);
assert.equal(db.events.find({ time: { $gte: ISODate("2000-10-11") } }).toArray().length, 6);
const byHost = [{ $group: { _id: "$host", n: { $sum: 1 } } }, { $sort: { _id: 1 } }];
const counts = db.events.aggregate(byHost).toArray().map((one) => `${one._id} ${one.n}`);
assert.equal(counts.join(), "192.0.2.0 10,192.0.2.1 10,192.0.2.2 10");
db.hits.updateOne({ _id: "20001010/a" }, { $inc: { "hourly.3": 1 } }, { upsert: true });
assert.equal(db.hits.findOne().hourly["3"], 1);
assert.ok(db.getCollectionNames().includes("events"));
assert.equal(db.events.createIndex({ host: 1 }), "host_1");
assert.ok(db.events.getIndexes().some((index) => index.name === "host_1"));
const explained = db.events.find({ host: "192.0.2.1" }).explain("executionStats");
assert.equal(explained.executionStats.nReturned, 10);
assert.ok(db.runCommand({ collStats: "events" }).count == 30 && db.serverStatus().ok === 1);
let refused = "";
try {
    db.events.deleteMany({});
} catch (error) {
    refused = error.message;
}
assert.match(refused, /immutable/);
print("typed 30");
