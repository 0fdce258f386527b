SELECT {bucket} AS {t}, {bytes} AS bytes
FROM {events(bucket, bytes_exact)}
GROUP BY 1
