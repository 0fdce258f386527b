"""Sends numbered records with a real client of a protocol.

    python3 shippers.py URL CLIENT COUNT

Prints `sent COUNT` once the client was told that all of them are stored, or `skipped: …` where the
client's package is not installed. The records have the field `n` and go to the stream `of_CLIENT`.
"""

import logging
import sys
import time
import urllib.request


def actions(first, count):
    for n in range(first, first + count):
        yield {"_op_type": "create", "_index": "of_elasticsearch", "n": n, "message": f"record {n}"}


def elasticsearch(url, count):
    from elasticsearch import Elasticsearch, helpers

    client = Elasticsearch(url)
    assert client.info()["tagline"] == "You Know, for Search"
    done, errors = helpers.bulk(client, actions(0, count), chunk_size=70)
    assert (done, errors) == (count, []), (done, errors)


def elasticsearch_retrying(url, count):
    from elasticsearch import Elasticsearch, helpers
    from elastic_transport import ConnectionError as Broken
    from elasticsearch import ApiError

    client = Elasticsearch(url, max_retries=0, request_timeout=20)
    step, deadline = 100, time.monotonic() + 110
    for first in range(0, count, step):
        keyed = client.options(headers={"Idempotency-Key": f"chunk-{first}"})
        while True:
            try:
                done, errors = helpers.bulk(keyed, actions(first, step), chunk_size=step)
                assert (done, errors) == (step, []), (done, errors)
                break
            except (Broken, ApiError) as error:
                status = getattr(error, "status_code", None)
                assert status in (None, 429, 503), error
                assert time.monotonic() < deadline, error
                time.sleep(0.05)


def opensearch(url, count):
    from opensearchpy import OpenSearch, helpers

    client = OpenSearch(url)
    lines = ({**action, "_index": "of_opensearch"} for action in actions(0, count))
    done, errors = helpers.bulk(client, lines, chunk_size=70)
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


def main():
    url, client, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
    send = {
        "elasticsearch": elasticsearch,
        "elasticsearch-retrying": elasticsearch_retrying,
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
