// Draws panels as a page of HTML, to be looked at: each at its place in its dashboard, with the frames, names and
// texts of Grafana's own package.
//
//     LOGMILL_PANELS=DIR cargo test --test it grafana::every_panel      # writes DIR/1.json, …
//     NODE_PATH=…/node_modules node tests/clients/grafana_draw.cjs < DIR/1.json > 1.html
//
// An empty panel says so in red.

const { grafana, theme, frameOf, dataOf, textOf, readPanels } = require('./grafana_frames.cjs');

const { time: TIME, number: NUMBER } = grafana.FieldType;
const ROW_PX = 36;
const COLUMN_PX = 66;
const TABLE_ROWS = 12;
const EDGE = { left: 70, right: 8, top: 6, bottom: 18 };

const escaped = (text) => String(text).replace(/[&<>"]/g, (c) => `&#${c.charCodeAt(0)};`);
const color = (nth) => theme.visualization.getColorByName(theme.visualization.palette[nth % theme.visualization.palette.length]);

const nameIn = (data) => (field, frame) => grafana.getFieldDisplayName(field, frame, data);

function legend(names) {
  return `<p class="legend">${names.map((name, nth) => `<b style="color:${color(nth)}">■</b> ${escaped(name)}`).join(' ')}</p>`;
}

// The numbers of frames over places from 0 to 1: times, or positions of categories.
function seriesOf(data) {
  const name = nameIn(data);
  const times = data.flatMap((frame) => frame.fields.filter((field) => field.type === TIME).flatMap((field) => field.values));
  const [first, last] = [Math.min(...times), Math.max(...times)];
  const all = data.flatMap((frame) => {
    const time = frame.fields.find((field) => field.type === TIME);
    const place = (nth) => (time ? (time.values[nth] - first) / (last - first || 1) : (nth + 0.5) / frame.length);
    return frame.fields.filter((field) => field.type === NUMBER).map((field) => ({
      name: name(field, frame), text: textOf(field),
      points: field.values.map((value, nth) => ({ at: place(nth), value: value === null ? null : Number(value) })),
    }));
  });
  const category = data[0]?.fields.find((field) => field.type !== NUMBER && field.type !== TIME);
  const ends = times.length > 0
    ? [first, last].map((ms) => new Date(ms).toISOString())
    : [category?.values[0] ?? '', category?.values.at(-1) ?? ''];
  return { all, ends };
}

// Lines, or bars that stand on each other.
function chart(data, width, height, areBars) {
  const { all, ends } = seriesOf(data);
  const stack = all[0]?.points.map((_, nth) => all.reduce((sum, one) => sum + (one.points[nth]?.value ?? 0), 0)) ?? [];
  const values = areBars ? stack : all.flatMap((one) => one.points.map((point) => point.value)).filter((value) => value !== null);
  const most = Math.max(...values, 0) || 1;
  const x = (at) => EDGE.left + at * (width - EDGE.left - EDGE.right);
  const y = (value) => height - EDGE.bottom - (value / most) * (height - EDGE.top - EDGE.bottom);
  const grid = [0, 0.5, 1].map((part) => {
    const at = y(most * part);
    return `<line x1="${EDGE.left}" x2="${width}" y1="${at}" y2="${at}" stroke="#ddd"/>`
      + `<text x="${EDGE.left - 4}" y="${at + 4}" text-anchor="end">${escaped(all[0]?.text(most * part) ?? '')}</text>`;
  });
  const feet = [];
  const marks = all.map((one, nth) => {
    if (areBars) {
      const wide = (width - EDGE.left - EDGE.right) / one.points.length * 0.8;
      return one.points.map((point, at) => {
        const foot = feet[at] ?? 0;
        feet[at] = foot + (point.value ?? 0);
        return `<rect x="${x(point.at) - wide / 2}" width="${wide}" y="${y(feet[at])}" height="${y(foot) - y(feet[at])}" fill="${color(nth)}"/>`;
      }).join('');
    }
    const line = one.points.filter((point) => point.value !== null).map((point) => `${x(point.at)},${y(point.value)}`);
    return `<polyline points="${line.join(' ')}" fill="none" stroke="${color(nth)}"/>`;
  });
  const feetOf = [['start', EDGE.left, ends[0]], ['end', width, ends[1]]].map(([anchor, at, text]) =>
    `<text x="${at}" y="${height - 4}" text-anchor="${anchor}">${escaped(text)}</text>`);
  return `<svg width="${width}" height="${height}">${[...grid, ...marks, ...feetOf].join('')}</svg>${legend(all.map((one) => one.name))}`;
}

// The values of a stat: the fields that it names, reduced as it says.
function stat(panel, data) {
  const { calcs = ['lastNotNull'], fields = '' } = panel.options.reduceOptions;
  const wanted = fields === '' ? null : grafana.stringToJsRegex(fields);
  const name = nameIn(data);
  const shown = data.flatMap((frame) => frame.fields
    .filter((field) => (wanted ? wanted.test(name(field, frame)) || wanted.test(field.name) : field.type === NUMBER))
    .flatMap((field) => calcs.map((calc) => {
      const value = grafana.reduceField({ field, reducers: [calc] })[calc];
      return `<p class="stat">${escaped(textOf(field)(value))} <small>${escaped(name(field, frame))}</small></p>`;
    })));
  return shown.join('');
}

function table(data) {
  const name = nameIn(data);
  return data.map((frame) => {
    const fields = frame.fields.filter((field) => !field.config.custom?.hidden);
    const heads = fields.map((field) => `<th>${escaped(name(field, frame))}</th>`);
    const texts = fields.map((field) => field.values.slice(0, TABLE_ROWS).map((value) => (value === null ? '' : textOf(field)(value))));
    const rows = Array.from({ length: Math.min(frame.length, TABLE_ROWS) }, (_, row) =>
      `<tr>${texts.map((column) => `<td>${escaped(column[row].slice(0, 60))}</td>`).join('')}</tr>`);
    return `<table><tr>${heads.join('')}</tr>${rows.join('')}</table>`;
  }).join('');
}

async function draw(one) {
  const { panel } = one;
  const { x, y, w, h } = panel.gridPos;
  const place = `grid-column:${x + 1}/span ${w};grid-row:${y + 1}/span ${h}`;
  const data = await dataOf(panel, frameOf(one));
  const size = [w * COLUMN_PX - 24, h * ROW_PX - 70];
  const inside = () => {
    if (one.rows.length === 0) return '<p class="empty">no rows</p>';
    switch (panel.type) {
      case 'timeseries': return chart(data, ...size, false);
      case 'barchart': return chart(data, ...size, true);
      case 'stat': return stat(panel, data);
      default: return table(data);
    }
  };
  return `<section style="${place}"><h2>${escaped(panel.title)}</h2>${inside()}</section>`;
}

async function main() {
  const panels = await readPanels();
  const pages = [];
  for (const title of new Set(panels.map((one) => one.dashboard))) {
    const drawn = await Promise.all(panels.filter((one) => one.dashboard === title).map(draw));
    pages.push(`<h1>${escaped(title)}</h1><main>${drawn.join('\n')}</main>`);
  }
  console.log(`<!doctype html><meta charset="utf-8"><title>Panels</title><style>
body{font:12px sans-serif;width:${24 * COLUMN_PX}px}
main{display:grid;grid-template-columns:repeat(24,${COLUMN_PX}px);grid-auto-rows:${ROW_PX}px}
section{border:1px solid #ccc;margin:2px;padding:4px;overflow:hidden}
h2{font-size:13px;margin:0 0 4px}table{border-collapse:collapse}td,th{border-bottom:1px solid #eee;padding:1px 6px;text-align:left;white-space:nowrap}
.stat{font-size:24px;margin:4px 28px 4px 4px;display:inline-block}.legend{margin:2px}.empty{color:#c00;font-weight:bold}text{font-size:10px}
</style>${pages.join('\n')}`);
}

main();
