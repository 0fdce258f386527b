SELECT $__timeGroup(bucket, $__interval, 0) AS {t}, sum(hits) AS hits
FROM {counts(bucket, hits)}
GROUP BY 1
