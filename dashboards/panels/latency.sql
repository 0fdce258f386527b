SELECT $__timeGroup(time, $__interval) AS {t},
  approx_percentile_cont({latency}, 0.5) AS p50,
  approx_percentile_cont({latency}, 0.9) AS p90,
  approx_percentile_cont({latency}, 0.99) AS p99
FROM {raw}
GROUP BY 1
