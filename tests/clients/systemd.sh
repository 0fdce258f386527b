#!/bin/bash
# Runs docs/cluster/logmill-node.service under systemd itself: starts that fail at once, one while the
# broker and the object store are away, a kill of the main process, a restart and a stop.
#
#     bash tests/clients/systemd.sh PROGRAM TANSU PYTHON
#
# needs root, systemd, curl, bc, and a Python with moto[server]. A systemd of its own runs in new
# namespaces: it sees the root read-only, with copies of /etc and /var and an empty /tmp, and has no
# network but its loopback. Prints what is seen; the last line is `passed`.
set -euo pipefail

# Outside: makes the namespaces, and shows the log of the unit that tests.
if [ "${1:-}" != inside ]; then
    program=$(realpath "$1") tansu=$(realpath "$2") python=$(realpath -s "$3") here=$(realpath "$(dirname "$0")/../..")
    mkdir -p "$here/target"
    shared=$(mktemp -d "$here/target/systemd-XXXXXX")
    trap 'rm -rf "$shared"' EXIT
    install -m 755 "$program" "$shared/logmill"
    timeout 180 unshare --mount --pid --fork --kill-child --uts --net --mount-proc \
        bash "$0" inside "$shared" "$here" "$tansu" "$python" >"$shared/boot" 2>&1 &
    for _ in $(seq 1800); do
        grep -qs '^passed\|^failed' "$shared/out" && break
        kill -0 $! 2>/dev/null || break
        sleep 0.1
    done
    kill $! 2>/dev/null || true
    cat "$shared/out" || cat "$shared/boot"
    tail -n 1 "$shared/out" | grep -q '^passed'
    exit
fi

# Inside, as the first process.
shared=$2 here=$3 tansu=$4 python=$5
ip link set lo up
mount --make-rprivate /
mount --bind "$shared" "$shared"
mount -o remount,bind,ro /
mount -t tmpfs tmpfs /tmp
umount -l -R /sys/fs/cgroup
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mkdir -p /sys/fs/cgroup/logmill-test
echo $$ >/sys/fs/cgroup/logmill-test/cgroup.procs
for folder in etc var; do
    mkdir -p "/tmp/$folder" "/tmp/$folder-work"
    mount -t overlay overlay -o "lowerdir=/$folder,upperdir=/tmp/$folder,workdir=/tmp/$folder-work" "/$folder"
done
mount -t tmpfs tmpfs /run
mkdir -p /run/lock
mount -t tmpfs -o mode=755 tmpfs /usr/local/bin
install -m 755 "$shared/logmill" /usr/local/bin/logmill
useradd -r logmill
rm -f /etc/systemd/system/*.wants/*
mkdir -p /etc/logmill /etc/systemd/system/multi-user.target.wants /etc/systemd/journald.conf.d
printf '[Journal]\nStorage=volatile\nReadKMsg=no\n' >/etc/systemd/journald.conf.d/test.conf
cp "$here/docs/cluster/logmill-node.service" /etc/systemd/system/
cat >/etc/logmill/logmill.toml <<'END'
[server]
http = "127.0.0.1:7370"
[storage]
objects = "s3://logs/store"
[cluster]
group = "logmill"
shards = 3
shard_ports = 7371
address = "127.0.0.1"
kafka = "127.0.0.1:7390"
[stream.access]
shard_key = "host"
END
printf 'AWS_ACCESS_KEY_ID=test\nAWS_SECRET_ACCESS_KEY=test\nAWS_REGION=us-east-1\nAWS_ENDPOINT_URL=http://127.0.0.1:7391\n' \
    >/etc/logmill/environment
cat >/tmp/test <<END
exec >$shared/out 2>&1
set -eu
trap 'journalctl --no-pager -u logmill-node | tail -n 40; echo failed' EXIT
seconds() { date +%s.%N; }
since() { echo "\$1: \$(echo "\$(seconds) - \$2" | bc) s"; }
wait_whole() {
    for _ in \$(seq 300); do
        curl -s -m 5 http://127.0.0.1:7370/api/v1/cluster/status | grep -q '"missing":\[\]' && return
        sleep 0.1
    done
    echo "the cluster is not whole"; exit 1
}
count() {
    n=\$(curl -s -m 30 -d 'SELECT count(*) AS n FROM access' http://127.0.0.1:7370/api/v1/sql | grep -o '"n":[0-9]*' | head -n 1)
    [ "\$n" = "\"n\":\$1" ] || { echo "\$n instead of \$1"; exit 1; }
}
send() { curl -sf -m 60 --data-binary @/tmp/lines http://127.0.0.1:7370/api/v1/ingest/access >/dev/null; }
shows() { systemctl show logmill-node -p "\$1" | grep -q "=\$2\$" || { systemctl show logmill-node -p "\$1"; exit 1; }; }
servers() { [ "\$(pgrep -c -f -- --shard)" = "\$1" ] || { pgrep -af -- --shard; exit 1; }; }
for n in 1 2 3 4 5; do echo "192.0.2.\$n - - [01/May/2024:00:00:0\$n +0000] \"GET /a HTTP/1.1\" 200 5 \"-\" \"-\""; done >/tmp/lines

mv /etc/logmill/logmill.toml /etc/logmill/away
systemctl start logmill-node || true
sleep 12
echo "without a configuration, after 12 s: \$(systemctl show logmill-node -p ActiveState -p NRestarts | paste -sd' ')"
mv /etc/logmill/away /etc/logmill/logmill.toml
sleep 15
echo "without broker and object store, after 15 s: \$(systemctl show logmill-node -p ActiveState -p NRestarts | paste -sd' ')"
$python -m moto.server -H 127.0.0.1 -p 7391 >/dev/null 2>&1 &
url=tcp://127.0.0.1:7390
$tansu broker --storage-engine memory://tansu/ --listener-url \$url --advertised-listener-url \$url >/dev/null 2>&1 &
for port in 7390 7391; do until (echo >/dev/tcp/127.0.0.1/\$port) 2>/dev/null; do sleep 0.1; done; done
curl -s -X PUT http://127.0.0.1:7391/logs >/dev/null
$tansu topic create --broker \$url --partitions 3 logmill.journal >/dev/null
at=\$(seconds); wait_whole; since "whole, once they are there" \$at
send; count 5
at=\$(seconds); systemctl kill -s KILL --kill-whom=main logmill-node; sleep 3; wait_whole
since "whole after a kill of the main process" \$at
count 5; servers 3; send; count 10
at=\$(seconds); systemctl restart logmill-node; since "restarted" \$at; wait_whole; since "whole" \$at
count 10; send; count 15
at=\$(seconds); systemctl stop logmill-node; since "stopped" \$at
shows Result success; shows ExecMainStatus 0; servers 0
systemctl start logmill-node; wait_whole; count 15; systemctl stop logmill-node; servers 0
trap - EXIT
echo passed
END
cat >/etc/systemd/system/logmill-test.service <<'END'
[Unit]
DefaultDependencies=no
[Service]
Type=oneshot
ExecStart=/bin/bash /tmp/test
END
ln -s ../logmill-test.service /etc/systemd/system/multi-user.target.wants/
# No service of this machine's own; nothing that looks for devices, and nothing that cleans up.
for unit in systemd-udevd.service systemd-udev-trigger.service systemd-modules-load.service systemd-sysctl.service getty.target \
    systemd-tmpfiles-setup.service systemd-tmpfiles-setup-dev.service systemd-remount-fs.service systemd-random-seed.service \
    systemd-journal-flush.service systemd-logind.service systemd-firstboot.service systemd-sysusers.service dbus.service \
    timers.target swap.target; do
    ln -sf /dev/null "/etc/systemd/system/$unit"
done
exec unshare --cgroup --ipc env -i container=logmill-test PATH=/usr/sbin:/usr/bin:/sbin:/bin \
    /lib/systemd/systemd --system --unit=multi-user.target --log-target=null --show-status=false
