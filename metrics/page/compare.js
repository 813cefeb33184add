// --- what a comparison of schedules found: in words, as a table, as mean curves, and seed by seed

import { make, known, short, slide, ticks, tickText, crop, minus } from './base.js';
import { saveMenu, openSaveMenu, standalone } from './save.js';
import { Span, LineChart, dashes, dot } from './lines.js';
import { axesOf, meanLine, lineOf, isShare, titleOfMetric } from './curves.js';
import { byName } from './find.js';

// looks gives each row its line: a hue for its schedule, and other dashes where hues are used again and for further rows
// of that schedule in the same chart.
export function looks(rows) {
  const schedules = [...new Set(rows.map(r => r.schedule))].sort(byName); // as on the board
  const before = new Map(); // rows of a schedule at a point
  return rows.map(r => {
    const key = r.point + '\n' + r.schedule;
    const n = before.get(key) || 0;
    before.set(key, n + 1);
    const place = schedules.indexOf(r.schedule);
    return { colour: 'line-' + place % 8, dash: dashes[(n + Math.floor(place / 8)) % dashes.length] };
  });
}

// referenceOf is the schedule with which most rows are compared: controls are compared with what they control.
const referenceOf = compared => compared.rows.find(d => d.against)?.against;

// differenceTable shows how each row differs from the reference: the verdict and the interval first, then how sure they are.
function differenceTable(compared, rows, rowLooks) {
  const head = ['schedule', 'difference', 'verdict', compared.title];
  const reference = referenceOf(compared);
  const cells = compared.rows.map((d, i) => {
    const sure = [d.p && d.p !== '-' ? 'Holm’s p ' + d.p : '', d.decided && (d.decided === 'not decided' ? 'controls do not decide it' : 'decided by ' + d.decided)].filter(Boolean).join('; ');
    const difference = d.against
      ? make('td', { class: 'number', 'data-value': d.mean }, minus(d.text).replace('± ', '±\u00a0'), d.against === reference ? '' : make('small', {}, 'from ' + d.against))
      : make('td', { class: 'number quiet' }, 'reference');
    return make('tr', {}, make('th', { scope: 'row', class: rows[i].name.length < 20 ? 'short' : null }, dot(rowLooks[i]), rows[i].name, make('small', {}, rows[i].point)), difference,
      make('td', { class: 'verdict' }, d.verdict, make('small', {}, sure)), make('td', { class: 'number wide-only' }, minus(d.value)));
  });
  return make('table', { class: 'answer' }, make('thead', {}, make('tr', {}, ...head.map((h, i) => make('th', { scope: 'col', class: i === 3 ? 'number wide-only' : i === 1 ? 'number' : null }, h)))),
    make('tbody', {}, ...cells));
}

// jitter is how far the dot of the n-th seed is from the middle of its row, between -1 and 1: multiples of the golden
// ratio are spread evenly however many there are.
export const jitter = n => 2 * (n * 0.6180339887498949 % 1) - 1;

const comparedHeight = 46;
const dotSpread = 8; // pixels above and below the middle of a row
const labelHeight = 15;
const axisHeight = 40;

// PairedDifferences draws paired differences: a row for each comparison, with a dot for each seed, the mean with its interval,
// and a line at zero. Its drawing is a slider over the rows for those who use keys.
class PairedDifferences {
  constructor(compared, rows, rowLooks, place) {
    const id = 'differences-' + place;
    this.title = compared.title;
    this.rows = compared.rows.map((d, i) => ({ ...d, label: [rows[i].name, rows[i].point].filter(Boolean).join('; '), look: rowLooks[i] })).filter(d => known(d.mean));
    this.cursor = -1;
    this.reading = make('p', { class: 'reading' });
    this.svg = make('svg:svg', { tabindex: 0, role: 'slider', 'aria-labelledby': id + '-title', 'aria-valuemin': 0, 'aria-valuemax': this.rows.length - 1, height: this.rows.length * comparedHeight + axisHeight });
    this.figure = make('figure', { id }, make('figcaption', {}, make('h2', { id: id + '-title' }, `Paired differences in ${compared.title}`),
      saveMenu(`Paired differences in ${compared.title}`, () => standalone(this.svg, `Paired differences in ${compared.title}`), () => this.table()),
      make('p', { class: 'quiet small' }, 'A dot for each seed, and the mean with its 95 % interval.')), make('div', { class: 'rows' }, this.svg), this.reading);
    slide(this.svg, () => this.rows.length, () => this.cursor, to => this.mark(to));
    this.svg.addEventListener('keydown', e => { if (e.key === 's') { e.preventDefault(); openSaveMenu(this.figure); } });
    this.svg.addEventListener('pointermove', e => this.mark(Math.min(this.rows.length - 1, Math.floor((e.clientY - this.svg.getBoundingClientRect().top) / comparedHeight))));
    new ResizeObserver(() => this.draw()).observe(this.svg);
    this.mark(-1);
  }

  // table has a row for each pair of runs, for a file.
  table() {
    return [['schedule', 'against', 'seed', 'difference', 'mean', 'half of the 95 % interval'],
      ...this.rows.flatMap(d => d.seeds.map(s => [d.label, d.against, s.seed, s.value, d.mean, d.half]))];
  }

  draw() {
    const width = this.svg.clientWidth;
    if (!width || width === this.width) return;
    this.width = width;
    const bottom = this.rows.length * comparedHeight;
    const values = this.rows.flatMap(d => [d.mean - (d.half || 0), d.mean + (d.half || 0), ...d.seeds.map(s => s.value)]).filter(known);
    const low = Math.min(0, ...values);
    const high = Math.max(0, ...values);
    const px = v => 12 + (width - 24) * (high > low ? (v - low) / (high - low) : 0.5);
    const line = (name, x1, x2, y1, y2, more) => make('svg:line', { class: name, x1, x2, y1, y2, ...more });
    const list = ticks(low, high, Math.max(2, Math.floor(width / 90)));
    const text = tickText(list);
    const out = list.flatMap(v => [line('gridline', px(v), px(v), 0, bottom),
      make('svg:text', { x: px(v), y: bottom + 16, 'text-anchor': px(v) < 30 ? 'start' : px(v) > width - 30 ? 'end' : 'middle' }, (v > 0 ? '+' : '') + text(v))]);
    out.push(make('svg:text', { class: 'name', x: width / 2, y: bottom + 34, 'text-anchor': 'middle' }, 'difference between runs with the same seed'));
    this.rows.forEach((d, i) => {
      const middle = i * comparedHeight + labelHeight + 15;
      const stroke = `var(--${d.look.colour})`;
      out.push(line('zero', px(0), px(0), i * comparedHeight + labelHeight + 3, (i + 1) * comparedHeight)); // not through the labels
      out.push(make('svg:text', { class: 'name', x: 4, y: i * comparedHeight + labelHeight - 1 }, crop(`${d.label} − ${d.against}`, Math.floor(width / 8))));
      d.seeds.forEach((s, n) => known(s.value) && out.push(make('svg:circle', { class: 'seed', fill: stroke, cx: px(s.value), cy: middle + dotSpread * jitter(n + 1), r: 3.5 },
        make('svg:title', {}, `seed ${s.seed}: ${short(s.value, 4)}`))));
      if (d.half) out.push(line('interval', px(d.mean - d.half), px(d.mean + d.half), middle, middle, { stroke }));
      out.push(line('mean', px(d.mean), px(d.mean), middle - 9, middle + 9, { stroke }));
    });
    this.svg.setAttribute('viewBox', `0 0 ${width} ${bottom + axisHeight}`);
    this.svg.replaceChildren(...out);
  }

  // mark says what a row shows.
  mark(to) {
    this.cursor = to;
    const d = this.rows[to];
    const words = d ? `${d.label} − ${d.against}: ${minus(d.text)}, ${d.verdict}; by seed: ${d.seeds.filter(s => known(s.value)).map(s => `${s.seed} ${short(s.value, 3)}`).join(', ')}`
      : `${this.rows.length} ${this.rows.length === 1 ? 'comparison' : 'comparisons'} in ${this.title}`;
    this.reading.textContent = words;
    this.svg.setAttribute('aria-valuenow', Math.max(0, to));
    this.svg.setAttribute('aria-valuetext', words);
  }
}

// Comparison is the section above the runs: its words and tables are there at once, and its curves as soon as they are
// read.
export class Comparison {
  constructor(found) {
    this.found = found;
    this.looks = looks(found.rows);
    this.points = found.column ? [...new Set(found.rows.filter(r => r.folders.length).map(r => r.point))] : [];
    this.span = new Span();
    const quantity = found.column === 'window_loss' ? 'Training loss' : 'Validation ' + titleOfMetric(found.column.replace('validation_', ''));
    const several = found.rows.some(r => r.folders.length > 1);
    this.charts = this.points.map((point, i) => new LineChart(this.span, 'mean-' + i, point ? `${quantity}: ${point}` : quantity,
      { sorted: true, legend: true, height: 280, waits: true, share: isShare(found.column), about: several ? 'Mean over seeds with its 95 % interval.' : 'One run of each schedule.' }));
    const pairs = found.comparisons.map((c, i) => new PairedDifferences(c, found.rows, this.looks, i)).filter(d => d.rows.some(r => r.half));
    const [head, ...rows] = found.table;
    const all = make('table', { class: 'runs' }, make('thead', {}, make('tr', {}, ...head.map(h => make('th', { scope: 'col' }, h)))),
      make('tbody', {}, ...rows.map(([name, ...cells]) => make('tr', {}, make('th', { scope: 'row' }, name), ...cells.map(c => make('td', {}, minus(c)))))));
    this.section = make('section', { class: 'comparison', 'aria-labelledby': 'answer-title' },
      make('h2', { id: 'answer-title' }, found.headline),
      found.details?.length ? make('ul', {}, ...found.details.map(d => make('li', {}, d))) : null,
      ...found.notes.map(n => make('p', { class: 'note' }, n)),
      make('div', { class: 'charts' }, ...found.comparisons.map((c, i) => make('section', { class: 'card', 'aria-labelledby': 'compared-' + i },
        make('h3', { id: 'compared-' + i }, `Difference in ${c.title} from ${referenceOf(c)}, same seeds`), differenceTable(c, found.rows, this.looks)))),
      make('div', { class: 'charts' }, ...this.charts.map(c => c.figure)),
      make('div', { class: 'charts' }, ...pairs.map(d => d.figure)),
      make('details', { class: 'card' }, make('summary', {}, make('h3', {}, 'All means')), make('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': 'All means' }, all)));
  }

  // draw draws the mean curve of each row. curvesOf returns the curves of the run in a folder, undefined if it has none.
  draw(curvesOf) {
    const { rows, column } = this.found;
    const lines = rows.map((r, i) => {
      const each = r.folders.map(curvesOf).filter(Boolean).map(c => lineOf(c, axesOf(c.columns)[0], column));
      const line = each.length > 1 ? meanLine(each) : each[0];
      return line && { ...line, ...this.looks[i], name: r.name, wide: true, point: r.point };
    });
    const some = lines.filter(l => l && l.x.length);
    this.span.most = Math.max(0, ...some.map(l => l.x[l.x.length - 1]));
    this.points.forEach((point, i) => this.charts[i].set(some.filter(l => l.point === point)));
  }
}
