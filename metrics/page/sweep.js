// --- a sweep: parallel coordinates, a scatter plot, and the difference between two configurations

import { make, fillRows, slide, known, short, ticks, tickText, crop } from './base.js';
import { saveMenu, openSaveMenu, standalone } from './save.js';
import { differing, order } from './find.js';

// shorter is a number's text without zeros at its end, as ticks have it.
const shorter = text => text.replace(/(\.\d*?)0+$/, '$1').replace(/\.$/, '');

// axisOf places the values of a column between 0 and 1: numbers by their size, words in their order.
export function axisOf(column, values) {
  const some = values.filter(v => known(v) && v !== ''), numbers = some.map(Number);
  if (some.length && numbers.every(v => Number.isFinite(v))) {
    const low = Math.min(...numbers), high = Math.max(...numbers), each = [...new Set(numbers)].sort((a, b) => a - b), list = each.length < 6 ? each : ticks(low, high, 4, numbers.every(Number.isInteger)), own = column.text, text = own && new Set(list.map(own)).size === list.length ? v => shorter(own(v)) : tickText(list);
    const at = v => high > low ? (Number(v) - low) / (high - low) : 0.5;
    return { at: v => known(v) && v !== '' ? at(v) : null, ticks: list.map(v => [at(v), text(v)]), text: v => known(v) && v !== '' ? (column.text || (v => short(Number(v), 4)))(Number(v)) : '–' };
  }
  const names = [...new Set(some)].sort((a, b) => String(a).localeCompare(String(b), 'en', { numeric: true })), at = v => names.length > 1 ? names.indexOf(v) / (names.length - 1) : 0.5;
  return { at: v => names.includes(v) ? at(v) : null, ticks: names.map(v => [at(v), String(v)]), text: v => known(v) ? String(v) : '–' };
}

// lettersAt is how many letters a label of axis i has room for, of so many between two axes. The labels of the last two axes
// share a gap: what one does not need, the other may take. longest are the longest labels.
export function lettersAt(i, room, longest) {
  const last = longest.length - 1;
  if (i + 1 < last) return Math.max(4, room);
  const beside = longest[i === last ? last - 1 : last] ?? 0;
  return Math.max(4, Math.floor(room / 2), room - beside);
}

const sweepHeight = 260, head = 34, foot = 232; // pixels
const tickHeight = 13; // of a label at an axis, in pixels

// Sweep is a drawing of runs over their columns. It is a slider over the runs for those who use keys.
export class Sweep {
  constructor() {
    const choose = id => { const s = make('select', { 'aria-label': id }); s.addEventListener('change', () => this.draw()); return s; };
    this.x = choose('X axis');
    this.y = choose('Y axis');
    this.drawings = ['parallel', 'scatter'].map(kind => {
      const svg = make('svg:svg', { tabindex: 0, role: 'slider', 'aria-valuemin': 0, 'aria-labelledby': kind + '-title', height: sweepHeight });
      slide(svg, () => this.runs.length, () => this.cursor, to => this.mark(to));
      svg.addEventListener('pointermove', e => this.mark(Number(e.target.dataset.at ?? -1)));
      svg.addEventListener('keydown', e => { if (e.key === 's') { e.preventDefault(); openSaveMenu(svg.closest('figure')); } });
      new ResizeObserver(() => { if (svg.clientWidth !== this[kind + 'Width']) this.draw(); }).observe(svg);
      return svg;
    });
    this.reading = make('p', { class: 'reading' });
    const figure = (id, title, svg, ...more) => make('figure', { id }, make('figcaption', {}, make('h2', { id: id + '-title' }, title),
      saveMenu(title, () => standalone(svg, title), () => this.rows())), make('div', { class: 'rows' }, svg), ...more);
    this.section = make('div', { class: 'charts sweep' }, figure('parallel', 'Parallel coordinates', this.drawings[0], this.reading),
      figure('scatter', 'Scatter plot', this.drawings[1], make('span', { class: 'fields' }, this.y, 'against', this.x)));
    this.cursor = -1;
  }

  // rows are the runs with all columns, for a file.
  rows() { return [['run', ...this.columns.map(c => c.name)], ...this.runs.map(r => [r.name, ...this.columns.map(c => r.of(c))])]; }

  // show draws runs { name, look, of } over those of the columns in which they vary; one run is no sweep.
  show(runs, columns) {
    const key = JSON.stringify([columns.map(c => c.id), runs.map(r => [r.name, r.look.colour, r.base, ...columns.map(c => r.of(c))])]);
    const varying = columns.filter(c => new Set(runs.map(r => r.of(c)).filter(known)).size > 1);
    this.section.hidden = runs.length < 2 || varying.length < 2;
    if (key === this.key || this.section.hidden) return;
    Object.assign(this, { key, runs, columns: varying });
    // The plot opens on what was set against what came of it; a seed is the last that one would look at.
    const set = varying.filter(c => c.config && c.id !== 'seed').sort((a, b) => order(a.id) - order(b.id));
    const results = varying.filter(c => !c.config);
    const y = results.find(c => c.id === 'best') || results[0] || varying[1];
    const spread = c => new Set(runs.filter(r => known(r.of(y))).map(r => r.of(c)).filter(known)).size;
    const x = [...set, ...results].find(c => c !== y && spread(c) > 1) || varying.find(c => c !== y);
    const fill = (select, usual) => {
      const before = varying.some(c => c.id === select.value) ? select.value : usual.id;
      select.replaceChildren(...varying.map(c => make('option', { value: c.id }, c.name)));
      select.value = before;
    };
    fill(this.x, x);
    fill(this.y, y);
    this.draw();
  }

  draw() {
    if (!this.runs || this.section.hidden) return;
    this.cursor = -1;
    this.axes = new Map(this.columns.map(c => [c.id, axisOf(c, this.runs.map(r => r.of(c)))]));
    this.drawParallel();
    this.drawScatter();
    this.mark(-1);
  }

  frame(kind, svg) {
    const width = this[kind + 'Width'] = svg.clientWidth;
    svg.setAttribute('viewBox', `0 0 ${Math.max(1, width)} ${sweepHeight}`);
    svg.setAttribute('aria-valuemax', this.runs.length - 1);
    svg.replaceChildren();
    return width;
  }

  drawParallel() {
    const svg = this.drawings[0], width = this.frame('parallel', svg), most = Math.max(2, Math.floor(width / 90));
    const set = this.columns.filter(c => c.config).sort((a, b) => order(a.id) - order(b.id)), room = Math.max(1, Math.min(4, most - set.length)), got = this.columns.filter(c => !c.config && ['best', 'loss', 'time', 'steps'].includes(c.id)).slice(0, room);
    const list = [...set.slice(0, Math.max(1, most - got.length)), ...got].slice(0, most), px = i => list.length > 1 ? 36 + i * (width - 80) / (list.length - 1) : width / 2;
    this.runs.forEach((r, n) => {
      const points = list.map((c, i) => [px(i), this.axes.get(c.id).at(r.of(c))]).filter(p => p[1] !== null).map(([x, at]) => `${x.toFixed(1)},${(foot - at * (foot - head)).toFixed(1)}`).join(' ');
      const line = more => make('svg:polyline', { points, fill: 'none', 'data-at': n, ...more });
      svg.append(line({ class: r.base ? 'way base' : 'way', stroke: `var(--${r.look.colour})`, 'stroke-dasharray': r.look.dash.length ? r.look.dash.join(' ') : null }), line({ class: 'hit' }));
    });
    list.forEach((c, i) => {
      const x = px(i), end = i === list.length - 1;
      const gap = list.length > 1 ? px(1) - px(0) : width;
      const letters = lettersAt(i, Math.floor((gap - 12) / 7), list.map(c => Math.max(0, ...this.axes.get(c.id).ticks.map(t => t[1].length))));
      svg.append(make('svg:line', { class: 'axis', x1: x, x2: x, y1: head, y2: foot }), make('svg:text', { class: 'name', x, y: i % 2 ? 24 : 10, 'text-anchor': i === 0 ? 'start' : end ? 'end' : 'middle' }, crop(c.name, 22)));
      this.axes.get(c.id).ticks.slice(0, 12).sort((a, b) => a[0] - b[0]).reduce((above, [at, text]) => { // what would run into the label below is left out
        const y = foot - at * (foot - head) + 4;
        if (y > above) return above;
        svg.append(make('svg:text', { x: end ? x - 5 : x + 5, y, 'text-anchor': end ? 'end' : 'start' }, crop(text, letters)));
        return y - tickHeight;
      }, sweepHeight);
    });
  }

  drawScatter() {
    const svg = this.drawings[1], width = this.frame('scatter', svg), of = s => this.columns.find(c => c.id === s.value), cx = of(this.x), cy = of(this.y);
    const ax = this.axes.get(cx.id), ay = this.axes.get(cy.id), left = 14 + 7 * Math.min(14, Math.max(...ay.ticks.map(t => t[1].length))), px = at => left + 10 + at * (width - left - 30), py = at => foot - 22 - at * (foot - 42);
    for (const [at, text] of ay.ticks) svg.append(make('svg:line', { class: 'gridline', x1: left, x2: width, y1: py(at), y2: py(at) }), make('svg:text', { x: left - 6, y: py(at) + 4, 'text-anchor': 'end' }, crop(text, 14)));
    ax.ticks.reduce((end, [at, text]) => { // a label that would run into the one before is left out
      const half = 3.5 * Math.min(14, text.length), x = Math.min(px(at), width - half);
      if (x - half < end) return end;
      svg.append(make('svg:text', { x, y: foot, 'text-anchor': 'middle' }, crop(text, 14)));
      return x + half + 6;
    }, 0);
    svg.append(make('svg:text', { class: 'name', x: (left + width) / 2, y: foot + 18, 'text-anchor': 'middle' }, cx.name));
    this.runs.forEach((r, n) => {
      const x = ax.at(r.of(cx)), y = ay.at(r.of(cy));
      if (x !== null && y !== null) svg.append(make('svg:circle', { class: 'spot', fill: `var(--${r.look.colour})`, cx: px(x), cy: py(y), r: r.base ? 7 : 5, 'data-at': n }));
    });
  }

  // mark shows one run among the others, in the drawings and in words.
  mark(at) {
    this.cursor = at;
    const r = this.runs && this.runs[at];
    const words = r ? [r.name, ...this.columns.map(c => `${c.name} ${this.axes.get(c.id).text(r.of(c))}`)].join(' · ') : `${this.runs ? this.runs.length : 0} runs`;
    this.reading.textContent = words;
    for (const svg of this.drawings) {
      for (const e of svg.querySelectorAll('[data-at]')) e.classList.toggle('on', Number(e.dataset.at) === at);
      svg.classList.toggle('one', !!r);
      svg.setAttribute('aria-valuenow', Math.max(0, at));
      svg.setAttribute('aria-valuetext', words);
    }
  }
}

// Differing is a panel of the difference between two runs' configurations: the keys in which they differ, and how many
// others are equal.
export class Differing {
  constructor() {
    const choose = label => {
      const s = make('select', { 'aria-label': label });
      s.addEventListener('change', () => this.fill());
      return s;
    };
    this.left = choose('First run');
    this.right = choose('Second run');
    this.table = make('table', { class: 'configurations' });
    this.equal = make('p', { class: 'quiet small' });
    this.section = make('section', { class: 'card', id: 'configurations', 'aria-labelledby': 'configurations-title' }, make('h2', { id: 'configurations-title' }, 'Configuration difference'),
      make('span', { class: 'fields' }, this.left, 'and', this.right), make('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-labelledby': 'configurations-title' }, this.table), this.equal);
  }

  // show offers runs { id, name, config }, and keeps those that were chosen.
  show(runs) {
    this.runs = runs;
    this.section.hidden = runs.length < 2;
    if (this.section.hidden) return;
    // Two runs that differ in more than their seed are the first to be compared.
    const keys = r => differing([runs[0].config, r.config]).differ.filter(k => k !== 'seed').length;
    const usual = [runs[0], runs.find((r, i) => i > 0 && keys(r) > 0) || runs[1]];
    [this.left, this.right].forEach((select, i) => {
      const before = runs.some(r => r.id === select.value) ? select.value : usual[i].id;
      select.replaceChildren(...runs.map(r => make('option', { value: r.id }, r.name)));
      select.value = before;
    });
    this.fill();
  }

  fill() {
    const [a, b] = [this.left, this.right].map(select => this.runs.find(r => r.id === select.value));
    const { differ, same } = differing([a.config, b.config]);
    fillRows(this.table, ['key', a.name, b.name], differ.map(k => [k, a.config.get(k) ?? '–', b.config.get(k) ?? '–']));
    this.equal.textContent = `${differ.length ? '' : 'No key differs. '}${same.length} other keys are equal.`;
  }
}
