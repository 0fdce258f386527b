// Sends numbered records through pino and pino-loki to Logmill's push API of Loki:
//
//     NODE_PATH=…/node_modules node tests/clients/pino_loki.cjs URL COUNT [paced]
//
// Needs pino and pino-loki; prints `skipped: …` where they are not installed, and at the end
// `sent COUNT`. Record N has the message `record N` and the structured metadata `n`; the stream is
// `of_pino`.
//
// The transport runs in a worker, as its documentation recommends, which pushes all records as one
// batch when it ends. With `paced` it runs in this process instead: 20 records come every 10 ms and
// are pushed every 50 ms. Each push is told in a line: `stored FIRST COUNT` if the server answered
// with success, otherwise `failed FIRST COUNT`, whatever the server did with it. pino-loki pushes a
// batch once, and writes a failure to the standard error.

const { once } = require('node:events');
const { setTimeout: sleep } = require('node:timers/promises');

function load(name) {
  try {
    return require(name);
  } catch (error) {
    if (error.code !== 'MODULE_NOT_FOUND') throw error;
    console.log(`skipped: pino_loki needs the package ${name}`);
    process.exit(0);
  }
}

const pino = load('pino');
const { pinoLoki } = load('pino-loki');

// Seconds between two pushes; a buffer without a bound, which otherwise drops the oldest records.
const optionsOf = (host, interval) => ({
  host, labels: { stream: 'of_pino' }, batching: { interval, maxBufferSize: 0 },
});

function log(logger, n) {
  const level = ['info', 'warn', 'error'][n % 3];
  logger[level]({ meta: { n } }, `record ${n}`);
}

async function end(stream) {
  const closed = once(stream, 'close');
  stream.end();
  await closed;
}

// A worker that ends waits for its last push and for no earlier one: the interval is longer than
// the run, so that there is one push.
async function sendFromWorker(url, count) {
  const transport = pino.transport({ target: 'pino-loki', options: optionsOf(url, 600) });
  await once(transport, 'ready');
  const logger = pino(transport);
  for (let n = 0; n < count; n += 1) log(logger, n);
  // A worker that is ready no longer keeps the process running.
  transport.ref();
  await end(transport);
}

// Tells the records of each push and its outcome.
function watchPushes() {
  const push = globalThis.fetch;
  globalThis.fetch = async (url, request) => {
    const entries = JSON.parse(request.body).streams.flatMap((stream) => stream.values);
    const told = (outcome) => console.log(`${outcome} ${entries[0][2].n} ${entries.length}`);
    try {
      const response = await push(url, request);
      told(response.ok ? 'stored' : 'failed');
      return response;
    } catch (error) {
      told('failed');
      throw error;
    }
  };
}

async function sendPaced(url, count) {
  watchPushes();
  const transport = pinoLoki(optionsOf(url, 0.05));
  const logger = pino(transport);
  for (let n = 0; n < count; n += 1) {
    log(logger, n);
    if (n % 20 === 19) await sleep(10);
  }
  await end(transport);
}

const [url, count, form] = process.argv.slice(2);
const send = form === 'paced' ? sendPaced : sendFromWorker;
send(url, Number(count)).then(() => {
  // The process ends when every push has its answer.
  process.on('exit', () => console.log(`sent ${count}`));
});
