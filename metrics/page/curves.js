// --- the curves of a run, from what its server or its file has

import { duration } from './base.js';
import { corners, measured, valueAt } from './lines.js';

// isShare says whether a column is a share of samples, from 0 to 1.
export const isShare = name => /^(validation_)?(accuracy|balanced_accuracy|majority_share|f1_macro|auroc)$/.test(name);

// How metrics are written that have a name of their own in the field.
const written = { majority_share: 'majority baseline', f1_macro: 'F1 (macro)', auroc: 'AUROC', r2: 'R²' };
export const titleOfMetric = name => written[name] || name.replaceAll('_', ' ');

export const isWhole = c => c.kind === 'count' || c.kind === 'total';

// decode reads a run's columns: a head in JSON, then a Float64Array each.
export function decode(buffer) {
  const length = new DataView(buffer).getUint32(0, true);
  const head = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
  const column = {};
  let at = Math.ceil((4 + length) / 8) * 8;
  for (const { name } of head.columns || []) {
    column[name] = new Float64Array(buffer, at, head.rounds);
    at += 8 * head.rounds;
  }
  return { columns: head.columns || [], column, marks: head.marks, costs: head.costs, thinned: head.thinned };
}

// axesOf are the quantities that an axis can show: columns, and what progress.csv adds. The virtual
// time comes first. Energy, which some runs have as a column, too, is that of progress.csv, as all runs have it.
export const axesOf = columns => [
  ...columns.filter(c => c.axis && c.axis !== 'energy').sort((a, b) => (b.kind === 'time') - (a.kind === 'time')).map(c => (
    { id: c.name, name: c.axis, seconds: c.kind === 'time', integers: isWhole(c), of: curves => curves.column[c.name] })),
  { id: 'energy', name: 'energy', unit: 'kJ', of: c => cost(c, 'energy_joules', 1e-3) },
  { id: 'wall', name: 'wall time', seconds: true, of: c => cost(c, 'wall_seconds', 1) },
];

const rank = c => (c.steps || c.fromZero ? 2 : /^validation_(?!loss$)/.test(c.column) ? 0 : 1);

// chartsOf are the charts of columns: metrics first, then losses.
export const chartsOf = columns => columns.filter(c => c.title).map(c => ({ column: c.name, title: c.title, help: c.help, steps: c.at_start, share: isShare(c.name), integers: isWhole(c), fromZero: isWhole(c) || c.kind === 'time', seconds: c.kind === 'time', ...(c.kind === 'time' ? { text: duration } : {}) }))
  .sort((a, b) => rank(a) - rank(b));

// cost is a quantity of progress.csv at each round, between its rows on a straight line; null
// where it is not known.
function cost(c, name, factor) {
  const rounds = c.costs.round, values = c.costs[name];
  if (!rounds || !rounds.length || !(values[values.length - 1] > 0)) return null;
  const out = new Float64Array(c.column.round.length);
  let j = 0;
  for (let i = 0; i < out.length; i++) {
    const r = c.column.round[i];
    while (j < rounds.length && rounds[j] < r) j++;
    const before = j ? [rounds[j - 1], values[j - 1]] : [0, 0], after = j < rounds.length ? [rounds[j], values[j]] : before;
    const share = after[0] > before[0] ? Math.min(1, (r - before[0]) / (after[0] - before[0])) : 0;
    out[i] = factor * (before[1] + share * (after[1] - before[1]));
  }
  return out;
}

// smoothed is an exponential moving average over the measured values, free of the pull of its
// start: weight w on what was before (Adam's correction of the bias).
export function smoothed(y, w) {
  if (!w) return y;
  const out = new Float64Array(y.length);
  let mean = 0, weight = 0;
  for (let i = 0; i < y.length; i++) {
    if (y[i] === y[i]) {
      mean = w * mean + (1 - w) * y[i];
      weight = w * weight + (1 - w);
    }
    out[i] = y[i] === y[i] ? mean / weight : NaN;
  }
  return out;
}

// studentT is the 97.5 % quantile of Student's t with so many degrees of freedom.
const studentT = (list => n => list[Math.min(n, list.length) - 1] || 1.96)([12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.16, 2.145,
  2.131, 2.12, 2.11, 2.101, 2.093, 2.086, 2.08, 2.074, 2.069, 2.064, 2.06, 2.056, 2.052, 2.048, 2.045, 2.042]);

// lineOf is a run's column against an axis, as far as both were measured. weight is that of the smoothing; steps hold
// their value instead.
export function lineOf(curves, axis, column, weight = 0, steps = false) {
  const x = axis.of(curves);
  const y = curves.column[column];
  const m = x && y ? measured(x, y) : { x: [], y: [] };
  const line = steps ? corners(m.x, m.y) : { x: m.x, y: smoothed(m.y, weight) };
  return { ...line, end: x?.[x.length - 1] };
}

// valueOn is what a line says at x: of steps the value that holds, else on the straight line between two measurements.
function valueOn(line, x) {
  const i = valueAt(line, x);
  const isBetween = !line.steps && i >= 0 && i + 1 < line.x.length;
  if (!isBetween) return i < 0 ? NaN : line.y[i];
  return line.y[i] + (line.y[i + 1] - line.y[i]) * (x - line.x[i]) / (line.x[i + 1] - line.x[i]);
}

// meanLine is the mean of several lines at so many places, with the 95 % interval of the mean. It begins where all of
// them have, and ends where fewer than two are left; counts are the lines that are left at each place. The interval of two runs is loose: it is 13 standard errors wide on either side.
export function meanLine(lines, places = 250) {
  const whole = lines.filter(l => l.x.length);
  const n = whole.length, low = Math.max(...whole.map(l => l.x[0]));
  const ends = whole.map(l => l.x[l.x.length - 1]).sort((a, b) => b - a);
  const high = ends[Math.min(1, n - 1)];
  const out = { x: new Float64Array(places), y: new Float64Array(places), low: new Float64Array(places), high: new Float64Array(places), counts: new Uint32Array(places), end: high };
  if (!n || !(high >= low)) return { x: new Float64Array(0), y: new Float64Array(0) };
  for (let i = 0; i < places; i++) {
    const x = out.x[i] = i === places - 1 ? high : low + (high - low) * i / (places - 1);
    let sum = 0, squares = 0, known = 0, left = 0;
    for (const l of whole) {
      if (x > l.x[l.x.length - 1]) continue;
      left++;
      const v = valueOn(l, x);
      if (v === v) { sum += v; squares += v * v; known++; }
    }
    const mean = known === left ? sum / left : NaN;
    const spread = left > 1 ? studentT(left - 1) * Math.sqrt(Math.max(0, squares / left - mean * mean) / (left - 1)) : 0;
    out.counts[i] = left;
    out.y[i] = mean;
    out.low[i] = mean - spread;
    out.high[i] = mean + spread;
  }
  if (n < 2) return { x: out.x, y: out.y, end: high };
  return n < 3 ? { ...out, loose: true } : out;
}
