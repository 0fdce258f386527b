SELECT {bucket} AS {t}, {p50} AS p50, {p90} AS p90, {p99} AS p99
FROM {events(bucket, size)}
GROUP BY 1
