// Panels and their answers, read with Grafana's own frames, formats and transformations:
//
//     NODE_PATH=…/node_modules node tests/clients/grafana.cjs < panels.json
//
// Needs @grafana/data with react, react-dom and rxjs. panels.json is a list of
// {"panel": …, "columns": [[name, type], …], "rows": [{name: value}, …]}: the panel as the dashboard has it and
// the answer of POST /api/v1/sql. The frames are those that the PostgreSQL data source makes of such columns.
// Prints each fault in a line, and at the end how many panels and values it has seen.

const { grafana, units, properties, frameOf, dataOf, textOf, readPanels } = require('./grafana_frames.cjs');

const faults = [];
let values = 0;

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
  const data = await dataOf(panel, frames);
  const shown = [];
  for (const frame of data) {
    for (const field of frame.fields) {
      const name = grafana.getFieldDisplayName(field, frame, data);
      if (!(panel.targets[0].format === 'time_series' && field.type === grafana.FieldType.time)) shown.push(name);
      const show = textOf(field);
      for (const value of field.values) {
        values += 1;
        const text = show(value);
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
  const panels = await readPanels();
  for (const one of panels) await check(one);
  faults.forEach((fault) => console.log(fault));
  console.log(`${panels.length} panels, ${values} values, ${faults.length} faults`);
  process.exitCode = faults.length > 0 ? 1 : 0;
}

main();
