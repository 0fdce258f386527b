// Frames of panels, made with Grafana's own package: those that the PostgreSQL data source makes of an answer, and
// what a panel makes of them.

// The package expects a browser's global objects.
globalThis.window ??= {};
globalThis.navigator ??= { language: 'en-GB', languages: ['en-GB'] };
const grafana = require('@grafana/data');
const { firstValueFrom } = require('rxjs');

const theme = grafana.createTheme();

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

// The frames of a panel after its transformations, with units and names as its overrides set them.
async function dataOf(panel, frames) {
  const transformed = await firstValueFrom(grafana.transformDataFrame(panel.transformations ?? [], frames));
  return grafana.applyFieldOverrides({
    data: transformed, fieldConfig: panel.fieldConfig, fieldConfigRegistry: registry,
    replaceVariables: (text) => text, theme, timeZone: 'utc',
  });
}

// The text of a value, as the panel shows it.
function textOf(field) {
  const display = field.display ?? grafana.getDisplayProcessor({ field, theme, timeZone: 'utc' });
  return (value) => grafana.formattedValueToString(display(value));
}

async function readPanels() {
  let text = '';
  for await (const piece of process.stdin) text += piece;
  return JSON.parse(text);
}

module.exports = { grafana, theme, units, properties, frameOf, dataOf, textOf, readPanels };
