SELECT {hits} AS hits, {bytes} AS bytes
FROM {events(hits, bytes_exact)}
