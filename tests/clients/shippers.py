"""Sends numbered records with a real client of a protocol.

    python3 shippers.py URL CLIENT COUNT
    python3 shippers.py URL CLIENT COUNT FIRST

The first form prints `sent COUNT` once the client was told that all of them are stored, or `skipped: …`
where the client's package is not installed. The second form sends the records from FIRST on in chunks,
each with a key and again until it is told to be stored, and prints `stored N` when all before N are.
The records have the field `n` and go to the stream `of_CLIENT`.
"""

import logging
import sys
import time
import urllib.request


CHUNK = 40


def actions(first, count, index="of_elasticsearch"):
    for n in range(first, first + count):
        yield {"_op_type": "create", "_index": index, "n": n, "message": f"record {n}"}


def elasticsearch(url, count):
    from elasticsearch import Elasticsearch, helpers

    client = Elasticsearch(url)
    assert client.info()["tagline"] == "You Know, for Search"
    done, errors = helpers.bulk(client, actions(0, count), chunk_size=70)
    assert (done, errors) == (count, []), (done, errors)


def opensearch(url, count):
    from opensearchpy import OpenSearch, helpers

    client = OpenSearch(url)
    done, errors = helpers.bulk(client, actions(0, count, "of_opensearch"), chunk_size=70)
    assert (done, errors) == (count, []), (done, errors)


def otlp(url, count):
    from opentelemetry.exporter.otlp.proto.http import Compression
    from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
    from opentelemetry.sdk._logs import LoggerProvider, LoggingHandler
    from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
    from opentelemetry.sdk.resources import Resource

    resource = Resource.create({"service.name": "of-otlp", "host.name": "web1"})
    provider = LoggerProvider(resource=resource)
    exporter = OTLPLogExporter(endpoint=url + "/v1/logs", compression=Compression.Gzip)
    processor = BatchLogRecordProcessor(exporter, max_export_batch_size=64)
    provider.add_log_record_processor(processor)
    logger = logging.getLogger("otlp")
    logger.setLevel(logging.INFO)
    logger.addHandler(LoggingHandler(logger_provider=provider))
    for n in range(count):
        logger.info("record %d", n, extra={"n": n, "shop.cart": {"items": [n]}})
    assert provider.force_flush()
    provider.shutdown()


def otlp_grpc(url, count):
    from grpc import Compression
    from opentelemetry.exporter.otlp.proto.grpc._log_exporter import OTLPLogExporter
    from opentelemetry.sdk._logs import LoggerProvider, LoggingHandler
    from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
    from opentelemetry.sdk.resources import Resource

    resource = Resource.create({"service.name": "of-otlp-grpc"})
    provider = LoggerProvider(resource=resource)
    exporter = OTLPLogExporter(endpoint=url, insecure=True, compression=Compression.Gzip)
    processor = BatchLogRecordProcessor(exporter, max_export_batch_size=64)
    provider.add_log_record_processor(processor)
    logger = logging.getLogger("otlp_grpc")
    logger.setLevel(logging.INFO)
    logger.addHandler(LoggingHandler(logger_provider=provider))
    for n in range(count):
        logger.info("record %d", n, extra={"n": n})
    assert provider.force_flush()
    provider.shutdown()


def loki(url, count):
    import logging_loki

    handler = logging_loki.LokiHandler(
        url=url + "/loki/api/v1/push", tags={"stream": "of_loki"}, version="1"
    )
    failures = []
    handler.handleError = failures.append
    logger = logging.getLogger("loki")
    logger.setLevel(logging.INFO)
    logger.addHandler(handler)
    for n in range(count):
        logger.info("record", extra={"tags": {"n": str(n)}})
    assert not failures, failures


def hec(url, count):
    events = "".join(f'{{"event":{{"n":{n}}},"index":"of_hec"}}' for n in range(count))
    request = urllib.request.Request(
        url + "/services/collector/event", events.encode(), {"Authorization": "Splunk x"}
    )
    with urllib.request.urlopen(request) as answer:
        assert answer.read() == b'{"text":"Success","code":0}'


def elasticsearch_chunk(url):
    from elasticsearch import Elasticsearch, helpers

    client = Elasticsearch(url, max_retries=0, request_timeout=20)

    def send(first, key):
        keyed = client.options(headers={"Idempotency-Key": key})
        return helpers.bulk(keyed, actions(first, CHUNK), chunk_size=CHUNK) == (CHUNK, [])

    return send


def opensearch_chunk(url):
    from opensearchpy import OpenSearch, helpers

    client = OpenSearch(url, max_retries=0, timeout=20)

    def send(first, key):
        lines = actions(first, CHUNK, "of_opensearch")
        done = helpers.bulk(client, lines, chunk_size=CHUNK, headers={"Idempotency-Key": key})
        return done == (CHUNK, [])

    return send


def exporter_chunk(name, exporter):
    """Exports the records of a chunk by an exporter that `exporter(key)` makes.

    Their times are fixed, since the same key must come with the same body.
    """
    from opentelemetry.sdk._logs import _internal
    from opentelemetry.sdk._logs import LoggerProvider, LoggingHandler
    from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor
    from opentelemetry.sdk.resources import Resource

    _internal.time_ns = lambda: 1709251200_000000000
    memory = InMemoryLogRecordExporter()
    provider = LoggerProvider(resource=Resource({"service.name": name}))
    provider.add_log_record_processor(SimpleLogRecordProcessor(memory))
    logger = logging.getLogger(name)
    logger.setLevel(logging.INFO)
    logger.propagate = False
    logger.addHandler(LoggingHandler(logger_provider=provider))

    def send(first, key):
        memory.clear()
        for n in range(first, first + CHUNK):
            record = logger.makeRecord(name, logging.INFO, "", 0, "record %d", (n,), None, extra={"n": n})
            record.created = 1709251200.0
            logger.handle(record)
        return exporter(key).export(memory.get_finished_logs()).name == "SUCCESS"

    return send


def otlp_chunk(url):
    from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter

    def exporter(key):
        return OTLPLogExporter(endpoint=url + "/v1/logs", headers={"Idempotency-Key": key}, timeout=5)

    return exporter_chunk("of_otlp", exporter)


def otlp_grpc_chunk(url):
    from opentelemetry.exporter.otlp.proto.grpc._log_exporter import OTLPLogExporter

    def exporter(key):
        return OTLPLogExporter(endpoint=url, insecure=True, headers={"idempotency-key": key}, timeout=5)

    return exporter_chunk("of_otlp_grpc", exporter)


def loki_chunk(url):
    import types

    import logging_loki

    # The time of a record is that of its sending; the same key must come with the same body.
    logging_loki.emitter.time = types.SimpleNamespace(time=lambda: 1709251200.0)
    handler = logging_loki.LokiHandler(
        url=url + "/loki/api/v1/push", tags={"stream": "of_loki"}, version="1"
    )
    failures = []
    handler.handleError = failures.append
    unsent = {}

    def send(first, key):
        # A record is a request; those that failed are sent again.
        for n in unsent.pop(first, range(first, first + CHUNK)):
            handler.emitter.session.headers["Idempotency-Key"] = f"{key}-{n}"
            record = logging.LogRecord("loki", logging.INFO, "", 0, "record", (), None)
            record.tags = {"n": str(n)}
            handler.emit(record)
            if failures:
                failures.clear()
                unsent.setdefault(first, []).append(n)
        return first not in unsent

    return send


def send_chunks(client, url, count, first):
    chunk = {
        "elasticsearch": elasticsearch_chunk,
        "opensearch": opensearch_chunk,
        "otlp": otlp_chunk,
        "otlp_grpc": otlp_grpc_chunk,
        "loki": loki_chunk,
    }[client](url)
    deadline = time.monotonic() + 110
    for first in range(first, count, CHUNK):
        while True:
            try:
                if chunk(first, f"{client}-{first}"):
                    break
                why = "not stored"
            except Exception as error:
                why = error
            assert time.monotonic() < deadline, why
            time.sleep(0.05)
        print(f"stored {first + CHUNK}", flush=True)


def main():
    url, client, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
    if len(sys.argv) > 4:
        try:
            send_chunks(client, url, count, int(sys.argv[4]))
        except ModuleNotFoundError as missing:
            print(f"skipped: {client} needs the package {missing.name}")
        return
    send = {
        "elasticsearch": elasticsearch,
        "opensearch": opensearch,
        "otlp": otlp,
        "otlp_grpc": otlp_grpc,
        "loki": loki,
        "hec": hec,
    }[client]
    try:
        send(url, count)
    except ModuleNotFoundError as missing:
        print(f"skipped: {client} needs the package {missing.name}")
        return
    print(f"sent {count}")


main()
