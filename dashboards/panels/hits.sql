SELECT {bucket} AS {t}, {hits} AS hits
FROM {events(bucket, hits)}
GROUP BY 1
