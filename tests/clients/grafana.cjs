// Panels and their answers, read with Grafana's own frames, formats and transformations:
//
//     NODE_PATH=…/node_modules node tests/clients/grafana.cjs < panels.json
//
// Needs @grafana/data with react, react-dom and rxjs. panels.json is a list of
// {"panel": …, "columns": [[name, type], …], "rows": [{name: value}, …]}: the panel as the dashboard has it and
// the answer of POST /api/v1/sql. The frames are those that the PostgreSQL data source makes of such columns.
// Prints each fault in a line, and at the end how many panels and values it has seen.

// The package expects a browser's global objects.
globalThis.window ??= {};
globalThis.navigator ??= { language: 'en-GB', languages: ['en-GB'] };
const grafana = require('@grafana/data');
const { firstValueFrom } = require('rxjs');

const theme = grafana.createTheme();
const faults = [];
let values = 0;

// What Grafana registers when it starts, as far as dashboards name it.
// One of them has two names there.
const transformers = [...new Set(Object.values(grafana.standardTransformers))];
grafana.standardTransformersRegistry.setInit(() =>
  transformers.map((one) => ({ id: one.id, name: one.name, transformation: one })));
const properties = ['unit', 'decimals', 'displayName', 'min', 'max', 'noValue', 'color', 'thresholds', 'mappings', 'links'];
const property = (id, isCustom) => ({
  id: isCustom ? `custom.${id}` : id, path: id, name: id, isCustom,
  process: (value) => value, shouldApply: () => true, settings: {},
});
const registry = new grafana.FieldConfigOptionsRegistry(() => properties.map((id) => property(id, false)));
const units = new Set(grafana.getValueFormats().flatMap((group) => group.submenu.map((unit) => unit.value)));

const NUMBERS = /int|double|float|real|numeric|decimal|bigint/i;
const TIMES = /timestamp/i;

// A time series format makes the first column the time, whatever it is; a column of texts becomes a label.
function frameOf({ panel, columns, rows }) {
  const series = panel.targets[0].format === 'time_series';
  const made = columns.map(([name, type], nth) => {
    const raw = rows.map((row) => row[name]);
    if (series && nth === 0) {
      const ms = raw.map((value) => (typeof value === 'number' ? value * 1000 : Date.parse(value)));
      return { name, type: grafana.FieldType.time, values: ms, config: {} };
    }
    if (TIMES.test(type)) {
      return { name, type: grafana.FieldType.time, values: raw.map((v) => (v === null ? null : Date.parse(v))), config: {} };
    }
    const isNumber = NUMBERS.test(type);
    return { name, type: isNumber ? grafana.FieldType.number : grafana.FieldType.string, values: raw, config: {} };
  });
  const labels = series ? made.filter((field) => field.type === grafana.FieldType.string) : [];
  if (labels.length === 0) return [grafana.toDataFrame({ refId: 'A', fields: made })];
  // Long to wide: one frame for each set of labels.
  const groups = new Map();
  rows.forEach((_, row) => {
    const key = JSON.stringify(labels.map((label) => label.values[row]));
    groups.set(key, [...(groups.get(key) ?? []), row]);
  });
  return [...groups.values()].map((of) => grafana.toDataFrame({
    refId: 'A',
    fields: made.filter((field) => !labels.includes(field)).map((field) => ({
      ...field,
      values: of.map((row) => field.values[row]),
      labels: field.type === grafana.FieldType.time ? undefined
        : Object.fromEntries(labels.map((label) => [label.name, label.values[of[0]]])),
    })),
  }));
}

async function check(one) {
  const { panel } = one;
  const fault = (text) => faults.push(`${panel.title}: ${text}`);
  const { defaults, overrides } = panel.fieldConfig;
  for (const { matcher, properties: set } of overrides) {
    if (!grafana.fieldMatchers.getIfExists(matcher.id)) fault(`no matcher is called ${matcher.id}`);
    for (const { id } of set) {
      if (!id.startsWith('custom.') && !properties.includes(id)) fault(`no property is called ${id}`);
    }
  }
  const named = [defaults.unit, ...overrides.flatMap((o) => o.properties.filter((p) => p.id === 'unit').map((p) => p.value))];
  for (const unit of named.filter(Boolean)) {
    if (!units.has(unit) && !/^(time|prefix|suffix|currency|count|short):/.test(unit)) fault(`no unit is called ${unit}`);
  }
  for (const calc of panel.options?.reduceOptions?.calcs ?? []) {
    if (!grafana.fieldReducers.getIfExists(calc)) fault(`no calculation is called ${calc}`);
  }
  for (const { id } of panel.transformations ?? []) {
    if (!grafana.standardTransformersRegistry.getIfExists(id)) return fault(`no transformation is called ${id}`);
  }
  const frames = frameOf(one);
  for (const { matcher } of overrides) {
    const found = frames.some((frame) => frame.fields.some((field) =>
      grafana.fieldMatchers.get(matcher.id).get(matcher.options)(field, frame, frames)));
    if (!found && frames.length > 0 && one.rows.length > 0) fault(`an override of ${matcher.options} matches no field`);
  }
  const transformed = await firstValueFrom(grafana.transformDataFrame(panel.transformations ?? [], frames));
  const data = grafana.applyFieldOverrides({
    data: transformed, fieldConfig: panel.fieldConfig, fieldConfigRegistry: registry,
    replaceVariables: (text) => text, theme, timeZone: 'utc',
  });
  const shown = [];
  for (const frame of data) {
    for (const field of frame.fields) {
      const name = grafana.getFieldDisplayName(field, frame, data);
      if (!(panel.targets[0].format === 'time_series' && field.type === grafana.FieldType.time)) shown.push(name);
      const display = field.display ?? grafana.getDisplayProcessor({ field, theme, timeZone: 'utc' });
      for (const value of field.values) {
        values += 1;
        const text = grafana.formattedValueToString(display(value));
        if (value !== null && (text === '' ? value !== '' : /NaN|Invalid|undefined|\[object/.test(text) && !String(value).includes(text))) {
          fault(`${name} shows ${JSON.stringify(value)} as ${JSON.stringify(text)}`);
          break;
        }
        if (field.type === grafana.FieldType.number && value !== null && !Number.isFinite(Number(value))) {
          fault(`${name} is a number, and has ${JSON.stringify(value)}`);
          break;
        }
      }
      const isNumber = field.type === grafana.FieldType.number;
      if (isNumber && panel.type === 'timeseries' && !field.config.unit && !defaults.unit) fault(`${name} has no unit`);
    }
  }
  const repeated = shown.filter((name, nth) => shown.indexOf(name) !== nth);
  if (repeated.length > 0) fault(`the name ${repeated[0]} is shown twice`);
}

async function main() {
  let text = '';
  for await (const piece of process.stdin) text += piece;
  const panels = JSON.parse(text);
  for (const one of panels) await check(one);
  faults.forEach((fault) => console.log(fault));
  console.log(`${panels.length} panels, ${values} values, ${faults.length} faults`);
  process.exitCode = faults.length > 0 ? 1 : 0;
}

main();
