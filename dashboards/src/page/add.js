// Adding data: lines to paste for each shipper, what arrives, and what went to quarantine and why.
//
// The lines name this page's own address, and the stream that is shown. Listeners beside HTTP are
// off until the server is told to open them: their lines begin with the option that does.

import { byId, bytes, count, h, span } from "./dom.js";
import { REST } from "./panel.js";
import * as ask from "./queries.js";
import { now, run, when } from "./sql.js";

const EVERY_MS = 2000;

/// What can send, and how: `lines(stream)` is the text to paste.
export function senders({ origin, hostname, protocol }) {
  const secure = protocol === "https:";
  const isLocal = hostname === "localhost" || hostname === "127.0.0.1";
  const listens = isLocal ? "127.0.0.1" : "0.0.0.0";
  const option = (flag, port) => `# start the server with: logmill serve ${flag} ${listens}:${port}\n`;
  const address = `${protocol}//${hostname}:${portOf(origin)}`;
  return [
    { name: "Log files, followed", lines: (stream) => `logmill ship /var/log/nginx/access.log --server ${origin} --stream ${stream}`, hint: "Through every rotation, each line once; --print-unit gives a service for systemd." },
    { name: "Log files, once", lines: (stream) => `logmill import /var/log/nginx/access.log* --server ${origin} --stream ${stream}`, hint: "Files, folders and patterns, compressed or not; the same command again adds what is new." },
    { name: "curl", lines: (stream) => `echo '127.0.0.1 - frank [10/Oct/2000:13:55:36 -0700] "GET /apache_pb.gif HTTP/1.0" 200 2326' \\\n  | curl --data-binary @- ${origin}/api/v1/ingest/${stream}`, hint: "Lines of an access log, JSON, syslog and others: the format is found." },
    { name: "OpenTelemetry", lines: (stream) => `export OTEL_EXPORTER_OTLP_LOGS_ENDPOINT=${origin}/v1/logs\nexport OTEL_EXPORTER_OTLP_LOGS_PROTOCOL=http/protobuf\nexport OTEL_EXPORTER_OTLP_LOGS_HEADERS=x-logmill-stream=${stream}\nexport OTEL_TRACES_EXPORTER=none OTEL_METRICS_EXPORTER=none`, hint: "Without the header the stream is the resource's service.name." },
    { name: "Filebeat", lines: (stream) => `output.elasticsearch:\n  hosts: ["${address}/elasticsearch"]\n  index: "${stream}"\nsetup.template.enabled: false\nsetup.ilm.enabled: false`, hint: "The index is the stream." },
    { name: "Grafana Alloy", lines: () => `loki.write "logmill" {\n  endpoint { url = "${origin}/loki/api/v1/push" }\n}`, hint: "The label stream, service_name, job or app names the stream." },
    { name: "Fluent Bit", lines: (stream) => `[OUTPUT]\n    Name       http\n    Match      *\n    Host       ${hostname}\n    Port       ${portOf(origin)}\n    URI        /api/v1/ingest/${stream}?format=json\n    Format     json_lines\n    Retry_Limit no_limits${secure ? "\n    tls        on" : ""}`, hint: "Or its forward output, as for Fluentd." },
    { name: "Fluentd", lines: () => `${option("--fluent", 24224)}<match **>\n  @type forward\n  require_ack_response true\n${secure ? "  transport tls\n" : ""}  <server>\n    host ${hostname}\n    port 24224\n  </server>\n</match>`, hint: "A chunk that is sent again is stored once." },
    { name: "systemd's journal", lines: () => `# /etc/systemd/journal-upload.conf\n[Upload]\nURL=${address}`, hint: "Then: systemctl enable --now systemd-journal-upload. The stream is journald." },
    { name: "rsyslog (RELP)", lines: () => `${option("--relp", 2514)}module(load="omrelp")\ntemplate(name="logmill" type="string" string="<%PRI%>1 %TIMESTAMP:::date-rfc3339% %HOSTNAME% %APP-NAME% %PROCID% %MSGID% %STRUCTURED-DATA% %msg%")\naction(type="omrelp" target="${hostname}" port="2514"${secure ? " tls=\"on\"" : ""} template="logmill"\n       action.resumeRetryCount="-1" action.resumeInterval="1"\n       queue.type="Disk" queue.filename="logmill-relp" queue.saveOnShutdown="on"\n       queue.size="10000000")`, hint: "Each message is acknowledged once it is stored." },
    { name: "syslog", lines: () => `${option(secure ? "--syslog-tcp" : "--syslog", 5514)}# rsyslog\naction(type="omfwd" target="${hostname}" port="5514" protocol="tcp" TCP_Framing="octet-counted"\n       action.resumeRetryCount="-1" action.resumeInterval="1")${secure ? "" : `\n# nginx\naccess_log syslog:server=${hostname}:5514,tag=nginx combined;`}`, hint: secure ? "With TLS, rsyslog needs its StreamDriver too: see docs/shippers/syslog.md." : "Datagrams (nginx) can be lost on their way; messages over TCP are not acknowledged." },
  ];
}

function portOf(origin) {
  const { port, protocol } = new URL(origin);
  return port || (protocol === "https:" ? "443" : "80");
}

const dialog = byId("add");
const ways = senders(location);
let shown = "access";
let timer = null;

/// Opens the dialog; `stream` is the one that the lines name.
export function showAdd(stream) {
  shown = stream ?? "access";
  write();
  dialog.showModal();
  refresh();
}

byId("add-way").replaceChildren(...ways.map((way, i) => h("option", { value: String(i), text: way.name })));
byId("add-way").addEventListener("change", write);
byId("add-close").addEventListener("click", () => dialog.close());
dialog.addEventListener("close", () => clearTimeout(timer));

function write() {
  const way = ways[Number(byId("add-way").value) || 0];
  byId("add-lines").textContent = way.lines(shown);
  byId("add-hint").textContent = way.hint;
}

async function refresh() {
  clearTimeout(timer);
  if (document.visibilityState !== "visible") {
    timer = setTimeout(refresh, EVERY_MS);
    return;
  }
  const began = performance.now();
  const problem = byId("add-problem");
  // An account of some streams may ask neither of them.
  const [arrivals, quarantined] = await Promise.allSettled([run(ask.arrivals()), run(ask.quarantined())]);
  if (arrivals.value) fillRows("add-arrivals", arrivals.value.rows.map(arrivalRow), 8, "Nothing has come since the server started.");
  if (quarantined.value) fillRows("add-quarantine", quarantined.value.rows.map(quarantineRow), 5, "Nothing is in quarantine.");
  const failed = arrivals.reason ?? quarantined.reason;
  problem.hidden = !failed;
  problem.textContent = failed?.message ?? "";
  if (dialog.open) timer = setTimeout(refresh, Math.max(EVERY_MS, REST * (performance.now() - began)));
}

function fillRows(id, rows, columns, none) {
  byId(id).replaceChildren(...(rows.length ? rows : [h("tr", {}, h("td", { colspan: columns, class: "none", text: none }))]));
}

const ago = (stamp) => (stamp === null ? "–" : `${span(Math.max(0, now() - stamp))} ago`);

function arrivalRow(row) {
  const number = (value, tone) => h("td", { class: value > 0 && tone ? `n ${tone}` : "n", text: count(value) });
  return h("tr", { title: row.error ?? undefined },
    h("td", { text: row.producer.split("/")[0] }), h("td", { text: row.stream }),
    number(row.stored), number(row.quarantined, "poor"), number(row.duplicates), number(row.refused, "poor"),
    h("td", { class: "n", text: bytes(row.bytes) }), h("td", { class: "n", text: ago(when(row.last_at)) }));
}

function quarantineRow(row) {
  return h("tr", {},
    h("td", { text: row.stream }), h("td", { text: row.reason }), h("td", { class: "n", text: count(row.items) }),
    h("td", { class: "n", text: ago(when(row.newest)) }), h("td", { text: row.detail ?? "" }));
}
