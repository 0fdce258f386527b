SELECT {bucket} AS {t}, {visitors} AS visitors
FROM {events(bucket, visitors_state)}
GROUP BY 1
