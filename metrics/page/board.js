// --- many runs

import { $, make, setText, known, whole, fixed, short, crop, duration, percent, count } from './base.js';
import { Span, LineChart, firstAfter, look, dot } from './lines.js';
import { decode, axesOf, chartsOf, lineOf, meanLine } from './curves.js';
import { configOf, differing, matches, names } from './find.js';
import { showWaiting, share } from './tasks.js';
import { Sweep, showDifferences } from './sweep.js';
import { time, take, scrub, status, stateTexts } from './run.js';

// Where a library's runs are read: a server, or this page.
export const served = {
  live: true,
  async get(path) {
    const r = await fetch(path);
    if (!r.ok) throw new Error(await r.text());
    return r;
  },
  async list() { return (await this.get('runs.json')).json(); },
  async curves(id) { return (await this.get('curves.bin?run=' + id)).arrayBuffer(); },
  async snapshot(id) { return (await this.get('snapshot.json?run=' + id)).json(); },
  async round(id, n) { return (await this.get(`round.json?run=${id}&round=${n}`)).json(); },
};
export const kept = {
  live: false,
  async unpack(id) {
    const bytes = Uint8Array.from(atob($(id).textContent), c => c.charCodeAt(0));
    return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip')));
  },
  async list() { return JSON.parse($('runs').textContent); },
  async curves(id) { return (await this.unpack('curves-' + id)).arrayBuffer(); },
  async snapshot(id) { return (await this.unpack('snapshot-' + id)).json(); },
};

// The columns of the list: what a run has, and how it is shown. The first are what it is, the others what came of it.
const listColumns = [
  { id: 'name', name: 'run', of: r => r.name },
  { id: 'state', name: 'state', of: r => r.state },
  { id: 'task', name: 'task', of: r => r.task },
  { id: 'schedule', name: 'schedule', of: r => (r.schedule === 'expression' && r.config?.get('schedule.k.formula')) || r.schedule },
  { id: 'seed', name: 'seed', of: r => Number(r.seed), text: r => r.seed },
  { id: 'best', name: 'best', number: true, of: r => r.summary?.metrics?.find(m => m.name === r.quality.name)?.best, text: (r, v) => `${fixed(v, 4)}${r.quality.name === 'accuracy' ? '' : ' ' + r.quality.name}` },
  { id: 'loss', name: 'best training loss', number: true, of: r => r.summary && r.summary.best_training_loss, text: (_, v) => fixed(v, 4) },
  { id: 'rounds', name: 'rounds', number: true, of: r => r.rounds, text: (_, v) => whole(v) },
  { id: 'time', name: 'virtual time', number: true, of: r => r.virtual_seconds, text: (_, v) => duration(v) },
  { id: 'steps', name: 'SGD steps', number: true, of: r => r.summary && r.summary.sgd_steps, text: (_, v) => whole(v) },
  { id: 'stragglers', name: 'straggler share', number: true, of: r => r.summary && r.summary.straggler_share, text: (_, v) => percent(v) },
  { id: 'wasted', name: 'wasted', number: true, of: r => share(r.summary && r.summary.client_seconds), text: (_, v) => percent(v) },
  { id: 'energy', name: 'energy', number: true, of: r => r.summary && r.summary.energy_joules ? r.summary.energy_joules.useful + r.summary.energy_joules.wasted : null, text: (_, v) => short(v / 1000, 4) + ' kJ' },
  { id: 'tags', name: 'tags', of: r => (r.tags || []).join(' ') || null, values: r => r.tags || [] },
  { id: 'note', name: 'note', of: r => r.note || null },
];
const cellText = (c, r, v) => !known(v) ? '–' : c.text ? c.text(r, v) : String(v);

const mostListed = 500, mostAtFirst = 20;

// Board lists the runs of a library and draws those that are chosen. What is shown stands in the address.
export class Board {
  constructor(source) {
    this.source = source;
    this.runs = [];
    this.chosen = null; // ids; null: the first of those that are listed
    this.data = new Map(); // by id: { stamp, curves }
    this.views = new Map(); // snapshots by id, with their stamp
    this.charts = new Map();
    this.columns = []; // of all runs that were read, once each
    this.span = new Span();
    this.span.changed = () => this.remember();
    this.build();
  }

  // --- what is shown, as the address says it

  // remember writes it into the address, so that a reload or a link shows the same: when it has come to rest, since
  // browsers limit how often.
  remember() {
    clearTimeout(this.resting);
    this.resting = setTimeout(() => { if (!this.view) history.replaceState(null, '', '#' + this.address()); }, 150);
  }

  address(run) {
    const { part } = this.span, p = new URLSearchParams(), logs = [...this.charts.values()].filter(c => c.log).map(c => c.options.column);
    const say = (key, value, usual) => { if (value && value !== usual) p.set(key, value); };
    say('run', run);
    say('q', this.filter.value);
    say('on', this.chosen && ([...this.chosen].join('.') || 'none'));
    say('x', this.axisChoice.value, 'virtual_seconds');
    say('zoom', part && `${part.low},${part.high}`);
    say('show', this.groupChoice.value);
    say('smooth', this.smooth.value, '0');
    say('base', this.baseChoice.value);
    say('sort', (this.sort.down ? '-' : '') + this.sort.id, 'name');
    say('log', logs.join('.'));
    return p.toString();
  }

  // recall reads the address.
  recall() {
    const p = new URLSearchParams(location.hash.slice(1)), of = (key, usual = '') => p.get(key) || usual, zoom = of('zoom').split(',').map(Number);
    this.filter.value = of('q');
    this.chosen = p.has('on') ? new Set(of('on').split('.')) : null;
    this.wanted = { axis: of('x', 'virtual_seconds'), base: of('base'), logs: of('log').split('.') };
    this.axisChoice.value = this.wanted.axis;
    this.baseChoice.value = this.wanted.base;
    this.groupChoice.value = of('show');
    this.smooth.value = of('smooth', '0');
    this.sort = { id: of('sort', 'name').replace(/^-/, ''), down: of('sort').startsWith('-') };
    this.span.part = zoom.length === 2 && zoom[1] > zoom[0] ? { low: zoom[0], high: zoom[1] } : null;
    this.span.bar.lastChild.disabled = !this.span.part;
    for (const c of this.charts.values()) c.log = this.wanted.logs.includes(c.options.column);
    return of('run');
  }

  // --- elements

  build() {
    const field = (label, e) => make('label', { class: 'field' }, make('span', {}, label), e);
    const choice = (id, ...options) => {
      const s = make('select', { id }, ...options.map(([value, text]) => make('option', { value }, text)));
      s.addEventListener('change', () => { if (id === 'axis') this.span.part = null; this.changed(); });
      return s;
    };
    this.sort = { id: 'name', down: false };
    this.filter = make('input', { type: 'search', id: 'filter', placeholder: 'best>0.4 schedule.k=fixed -word', autocomplete: 'off', spellcheck: 'false', 'aria-describedby': 'list-note' });
    this.filter.addEventListener('input', () => { this.list(); this.changed(); });
    this.axisChoice = choice('axis');
    this.groupChoice = choice('group', ['', 'each run'], ['seeds', 'mean over seeds, 95 % interval']);
    this.baseChoice = choice('baseline', ['', 'none']);
    this.smooth = make('input', { type: 'range', id: 'smoothing', min: 0, max: 0.99, step: 0.01, value: 0 });
    this.smooth.addEventListener('input', () => this.changed());
    this.all = make('input', { type: 'checkbox', id: 'all', 'aria-label': 'Draw all runs that are listed' });
    this.all.addEventListener('change', () => this.choose(this.listed().filter(r => !r.why), this.all.checked));
    this.listBox = make('ul', { class: 'runs', 'aria-label': 'Runs' });
    this.note = make('p', { class: 'quiet small', id: 'list-note' });
    this.table = make('table', { class: 'runs' });
    const details = (id, title, ...content) => make('details', { class: 'card', id }, make('summary', {}, make('h2', {}, title)), ...content);
    this.sweep = new Sweep();
    this.differences = make('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': 'Configurations' });
    $('board').append(
      make('div', { class: 'main' },
        make('div', { class: 'controls', role: 'group', 'aria-label': 'How curves are drawn' }, field('Against', this.axisChoice), field('Show', this.groupChoice), field('Baseline', this.baseChoice), field('Smoothing', this.smooth), this.span.tools()),
        this.legend = make('p', { class: 'legend', id: 'legend' }),
        this.grid = make('div', { class: 'charts' }),
        this.waits = make('section', { id: 'board-waits', class: 'card', 'aria-labelledby': 'board-waits-title', hidden: '' }),
        this.sweep.section,
        details('configurations', 'Configurations: what differs first', this.differences),
        make('section', { class: 'card', 'aria-labelledby': 'numbers-title' }, make('h2', { id: 'numbers-title' }, 'What came of them'),
          make('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': 'What came of the runs' }, this.table))),
      make('section', { class: 'side', 'aria-labelledby': 'runs-title' }, make('h2', { id: 'runs-title', class: 'hidden' }, 'Runs'),
        field('Find', this.filter), make('p', { class: 'head' }, this.all, this.note), this.listBox));
    $('configurations').addEventListener('toggle', () => this.compare());
  }

  changed() { this.remember(); return this.load(); }

  choose(runs, on) {
    this.chosen ||= new Set(this.drawn().map(r => r.id));
    for (const r of runs) if (on) this.chosen.add(r.id); else this.chosen.delete(r.id);
    this.list();
    this.changed();
  }

  // --- the list

  config(r) { return r.config ||= configOf(r, this.library.defaults); }

  // valueOf is what a run has by a word of a search.
  valueOf(r, key) {
    const c = listColumns.find(c => c.id === key || c.name === key.replaceAll('_', ' ')), config = this.config(r);
    return c ? (c.values || c.of)(r) : ['', '.rule'].map(end => config.get(key + end) ?? config.get(`schedule.${key}${end}`)).find(known);
  }

  listed() {
    const by = listColumns.find(c => c.id === this.sort.id) || listColumns[0];
    const order = (a, b) => {
      const x = by.of(a), y = by.of(b);
      if (!known(x) || !known(y)) return known(x) ? -1 : known(y) ? 1 : 0;
      return (typeof x === 'number' && typeof y === 'number' ? x - y : String(x).localeCompare(String(y), 'en', { numeric: true })) * (this.sort.down ? -1 : 1);
    };
    return this.runs.filter(r => matches(r, this.filter.value, (r, key) => this.valueOf(r, key))).sort((a, b) => order(a, b) || a.folder.localeCompare(b.folder, 'en', { numeric: true }));
  }

  // drawn are the runs that are listed and chosen.
  drawn() {
    const list = this.listed().filter(r => !r.why);
    return this.chosen ? list.filter(r => this.chosen.has(r.id)) : list.slice(0, mostAtFirst);
  }

  // call gives runs their names, by what sets them apart from the others that are listed, and their looks.
  call() {
    const list = this.listed(), called = names(list, list.map(r => this.config(r)));
    list.forEach((r, i) => { r.name = called[i]; r.look = null; });
    const used = new Map(); // by colour
    for (const r of this.drawn().sort((a, b) => a.place - b.place)) {
      const colour = r.place % 8, n = used.get(colour) || 0;
      r.look = look(colour + 8 * n);
      used.set(colour, n + 1);
    }
  }

  list() {
    this.call();
    const listed = this.listed(), on = new Set(this.drawn().map(r => r.id)), best = listColumns.find(c => c.id === 'best'), focused = document.activeElement.id;
    const name = (r, where) => {
      const a = make('a', { id: where + r.id, href: '#' + this.address(r.id) }, r.name);
      a.addEventListener('click', () => { a.href = '#' + this.address(r.id); }); // which may be zoomed by now
      return r.why ? r.name : a;
    };
    this.listBox.replaceChildren(...listed.slice(0, mostListed).map(r => {
      const box = make('input', { type: 'checkbox', id: 'draw-' + r.id, 'aria-label': 'Draw ' + r.name, 'data-run': r.id });
      box.checked = on.has(r.id);
      box.disabled = !!r.why;
      box.addEventListener('change', () => this.choose([r], box.checked));
      return make('li', { 'data-run': r.id, title: r.folder }, box, dot(this.lookOf(r)), name(r, 'list-'),
        make('span', { class: 'quiet small' }, make('span', { class: 'state ' + r.state, title: r.why }, r.state), ` · ${cellText(best, r, best.of(r))}`, ...(r.tags || []).map(t => make('span', { class: 'tag' }, t))));
    }));
    const damaged = listed.filter(r => r.why);
    setText(this.note, `${count(listed.length, 'run', 'runs')}${listed.length < this.runs.length ? ' of ' + whole(this.runs.length) : ''}, ${whole(on.size)} drawn` +
      (listed.length > mostListed ? `; the first ${mostListed} are listed` : '') + (damaged.length ? `. ${damaged[0].name}: ${damaged[0].why}` : ''));
    this.all.checked = on.size > 0 && on.size === listed.length - damaged.length;
    this.all.indeterminate = on.size > 0 && !this.all.checked;
    const base = this.baseChoice.value || this.wanted.base;
    this.baseChoice.replaceChildren(make('option', { value: '' }, 'none'), ...this.runs.filter(r => !r.why).map(r => make('option', { value: r.id }, r.name || r.folder)));
    this.baseChoice.value = this.runs.some(r => r.id === base) ? base : '';
    this.tabulate(listed, name);
    $(focused)?.focus({ preventScroll: true }); // which was made anew
  }

  // tabulate fills the table of all that came of the runs.
  tabulate(listed, name) {
    const some = listColumns.filter(c => c.id === 'name' || listed.some(r => { const v = c.of(r); return known(v) && v !== ''; }));
    const head = some.map(c => {
      const b = make('button', { type: 'button', class: 'sort', id: 'sort-' + c.id }, c.name);
      b.addEventListener('click', () => { this.sort = { id: c.id, down: this.sort.id === c.id ? !this.sort.down : !!c.number }; this.list(); this.changed(); });
      return make('th', { scope: 'col', class: c.number ? null : 'text', 'aria-sort': this.sort.id === c.id ? (this.sort.down ? 'descending' : 'ascending') : null }, b);
    });
    const rows = listed.slice(0, mostListed).map(r => make('tr', { 'data-run': r.id }, ...some.map(c => {
      const v = c.of(r), text = cellText(c, r, v);
      if (c.id === 'name') return make('th', { scope: 'row', title: r.folder }, name(r, 'table-'));
      return make('td', { class: c.number ? null : 'text ' + (c.id === 'state' ? 'state ' + r.state : ''), title: c.id === 'state' ? r.why : null, 'data-value': known(v) ? v : null }, text);
    })));
    this.table.replaceChildren(make('thead', {}, make('tr', {}, ...head)), make('tbody', {}, ...rows));
  }

  // --- reading

  async start() {
    this.take(await this.source.list());
    if (this.source.live) setInterval(() => this.follow(), 2000);
  }

  take(library) {
    this.text = JSON.stringify(library); // as it came
    this.library = library;
    this.runs = library.runs;
    this.runs.forEach((r, i) => { r.place = i; r.name = r.folder; });
    this.call();
  }

  // follow looks again while somebody looks.
  async follow() {
    if (document.hidden || this.busy) return;
    this.busy = true;
    try {
      const now = await this.source.list();
      this.lost = false;
      if (JSON.stringify(now) !== this.text) {
        this.take(now);
        await this.load();
        if (this.runs.some(r => r.id === this.view && r.stamp !== this.shown)) await this.open(this.view, true);
      }
    } catch {
      this.lost = true;
    }
    this.busy = false;
    this.say();
  }

  say() {
    if (this.view) return;
    const running = this.runs.filter(r => r.state === 'running').length;
    if (this.lost) status('lost', 'Connection lost, trying again');
    else status(running ? 'running' : 'completed', running ? count(running, 'run goes on', 'runs go on') : this.source.live ? 'Nothing runs' : 'A copy');
  }

  // load reads the curves of the drawn runs that are new or have grown, and draws.
  async load() {
    const base = this.runs.filter(r => r.id === (this.baseChoice.value || this.wanted.base));
    const wanted = [...new Set([...this.drawn(), ...base])];
    await this.read(wanted);
    this.know();
    this.show();
    for (const r of wanted) await this.fresh(this.views, r, async () => ({ snapshot: await this.source.snapshot(r.id).catch(() => null) }));
    this.showWaits();
  }

  // fresh reads what is kept of a run again if its files have changed.
  async fresh(kept, r, read) {
    if (kept.get(r.id)?.stamp !== r.stamp) kept.set(r.id, { stamp: r.stamp, ...await read() });
  }

  // read reads the curves of runs.
  async read(runs) {
    await Promise.all(runs.map(r => this.fresh(this.data, r, async () => ({ curves: decode(await this.source.curves(r.id)) }))));
  }

  // know takes the columns of the runs that were read.
  know() {
    const before = this.columns.length;
    for (const { curves } of this.data.values()) {
      for (const c of curves.columns) if (!this.columns.some(k => k.name === c.name)) this.columns.push(c);
    }
    if (this.columns.length === before) return;
    const at = this.axisChoice.value || this.wanted.axis;
    this.axisChoice.replaceChildren(...axesOf(this.columns).map(a => make('option', { value: a.id }, a.name)));
    this.axisChoice.value = at;
    if (this.axisChoice.selectedIndex < 0) this.axisChoice.selectedIndex = 0;
  }

  // --- drawing

  // lookOf is a run's colour, by its place in the library whatever else is listed, and dashes where another that is drawn
  // has that colour.
  lookOf(r) { return r.look || look(r.place % 8); }

  // parts are the drawn runs, or their groups of seeds, with their colours.
  parts() {
    const runs = this.drawn().filter(r => this.data.has(r.id)), several = this.groupChoice.value === 'seeds', groups = new Map();
    for (const r of runs) {
      const key = several ? JSON.stringify([r.task, (r.settings || []).filter(s => !s.startsWith('seed='))]) : r.id;
      const group = groups.get(key) ?? groups.set(key, []).get(key), of = several && !key.includes('"devices.names=') ? group.findIndex(o => o.seed === r.seed) : -1;
      if (of < 0 || r.rounds > group[of].rounds) group.splice(of < 0 ? group.length : of, 1, r); // a run that was started twice is one seed
    }
    const list = [...groups.values()], called = names(list.map(g => g[0]), list.map(g => this.config(g[0])), several ? ['seed'] : []);
    return list.map((g, i) => ({ runs: g, ...this.lookOf(g[0]), name: (several ? called[i] : g[0].name) + (g.length > 1 ? ` (${g.length})` : '') }));
  }

  // line is a run's column against the axis, kept until the axis or the smoothing changes.
  line(r, axis, column, steps) {
    const { curves } = this.data.get(r.id), lines = curves.lines ||= {}, weight = steps ? 0 : Number(this.smooth.value), key = `${axis.id} ${weight}`;
    if (lines[column]?.key !== key) {
      lines[column] = { key, ...lineOf(curves, axis, column, weight, steps) };
    }
    return lines[column];
  }

  show() {
    const parts = this.parts(), all = axesOf(this.columns), axis = all.find(a => a.id === this.axisChoice.value) || all[0], several = this.groupChoice.value === 'seeds';
    const base = this.runs.find(r => r.id === this.baseChoice.value && this.data.has(r.id));
    this.span.axis = axis;
    this.span.most = Math.max(0, ...[...parts.flatMap(p => p.runs), ...(base ? [base] : [])].map(r => { const x = axis.of(this.data.get(r.id).curves); return x && x.length ? x[x.length - 1] : 0; }));
    const drawn = base ? [...parts.filter(p => several || p.runs[0] !== base), { name: 'baseline: ' + base.name, runs: [base], colour: 'ink', dash: [], base: true }] : parts;
    const list = chartsOf(this.columns);
    for (const c of list) {
      let chart = this.charts.get(c.column);
      if (!chart) {
        this.charts.set(c.column, chart = new LineChart(this.span, 'over-' + c.column, c.title, { ...c, sorted: true, log: this.wanted.logs.includes(c.column), height: 250 }));
        chart.scale.addEventListener('click', () => this.remember());
        const next = list.slice(list.indexOf(c) + 1).find(c => this.charts.has(c.column));
        if (next) this.charts.get(next.column).figure.before(chart.figure); else this.grid.append(chart.figure);
      }
      chart.set(drawn.map(p => {
        const lines = p.runs.map(r => this.line(r, axis, c.column, c.steps));
        return { ...(lines.length > 1 ? meanLine(lines) : lines[0]), name: p.name, colour: p.colour, dash: p.dash, wide: several || p.base, base: p.base };
      }));
    }
    this.showLegend(drawn, axis);
    this.list();
    this.showWaits();
    this.sweep.show(parts.flatMap(p => p.runs.map(r => ({ name: r.name, look: p, base: r === base, of: c => c.config ? this.config(r).get(c.id) : c.of(r) }))), this.sweepColumns());
    this.compare();
    document.body.dataset.drawn = String(parts.length);
    this.say();
  }

  // sweepColumns are what a sweep is drawn over: keys that differ, then what came of the runs.
  sweepColumns() {
    return [...differing(this.drawn().map(r => this.config(r))).differ.map(k => ({ id: k, name: k, config: true })),
      ...listColumns.filter(c => c.number).map(c => ({ id: c.id, name: c.name, of: c.of, text: v => cellText(c, { quality: { name: 'accuracy' } }, v) }))];
  }

  compare() {
    if (!$('configurations').open) return;
    showDifferences(this.differences, this.drawn().map(r => ({ name: r.name, look: this.lookOf(r), config: this.config(r) })));
  }

  showLegend(parts, axis) {
    this.span.marks = parts.length > 6 ? [] : parts.flatMap(p => p.runs.slice(0, 1).flatMap(r => {
      const c = this.data.get(r.id).curves, x = axis.of(c);
      return x ? (c.marks || []).map(m => ({ kind: m.kind, colour: p.colour, x: x[Math.max(0, Math.min(x.length - 1, firstAfter(c.column.round, m.round) - 1))] })) : [];
    }));
    const kinds = [['checkpoint', '▲ checkpoint'], ['device', '✕ device lost'], ['decay', '■ K_r changes']].filter(k => this.span.marks.some(m => m.kind === k[0])).map(k => k[1]);
    const unknown = parts.filter(p => p.runs.every(r => !axis.of(this.data.get(r.id).curves)));
    const thinned = parts.some(p => p.runs.some(r => this.data.get(r.id).curves.thinned));
    this.legend.replaceChildren(...(parts.length > 12 ? [] : parts).map(p => make('span', {}, dot(p), p.name)), ...kinds.map(k => make('span', {}, k)),
      ...(unknown.length ? [make('span', {}, `Not known of ${unknown.map(p => p.name).slice(0, 4).join(', ')}${unknown.length > 4 ? ' …' : ''}: ${axis.name}.`)] : []),
      ...(thinned ? [make('span', {}, 'Long curves are thinned in this file.')] : []));
  }

  // showWaits says who made the drawn runs wait.
  showWaits() {
    showWaiting(this.waits, 'board-waits-title', this.parts().map(part => ({ part, of: this.views.get(part.runs[0].id)?.snapshot })));
  }

  // --- one run

  async open(id, again) {
    const run = this.runs.find(r => r.id === id);
    if (!run) { location.hash = ''; return; }
    Object.assign(this, { view: id, shown: run.stamp });
    $('back').firstChild.href = '#' + this.address();
    const next = await this.source.snapshot(id);
    if (this.view !== id) return;
    status(next.state, stateTexts[next.state]);
    next.curves.from = 0;
    Object.assign(next.run, { name: run.name, folder: run.folder });
    take(next);
    if (again) return; // who reads it keeps the range, the round and what was written
    time.part = null;
    this.showNotes(run);
    scrub(this.source.round ? n => this.source.round(id, n) : null);
  }

  // showNotes shows what somebody says of a run; where a server shows it, it can be edited.
  showNotes(run) {
    const tags = make('input', { type: 'text', value: (run.tags || []).join(' '), spellcheck: 'false' }), note = make('textarea', { rows: 2, maxlength: 4000 }, run.note || '');
    const save = make('button', { type: 'submit' }, 'keep'), says = make('output', { class: 'quiet small' }), form = make('form', { class: 'notes' }, make('label', { class: 'field' }, 'Tags', tags), make('label', { class: 'field' }, 'Note', note), save, says);
    form.addEventListener('submit', async e => {
      e.preventDefault();
      const notes = { tags: tags.value.split(/[\s,]+/).filter(Boolean), note: note.value };
      const answer = await fetch('notes.json?run=' + run.id, { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(notes) }).catch(() => null);
      setText(says, !answer ? 'The server does not answer.' : answer.ok ? 'Kept in notes.json.' : await answer.text());
      if (answer && answer.ok) Object.assign(run, notes);
    });
    const text = [(run.tags || []).join(' '), run.note].filter(Boolean).join(': ');
    $('notes').hidden = !this.source.live && !text;
    $('notes').replaceChildren(this.source.live ? form : text);
  }

  close() {
    this.view = null;
    setText($('name'), this.title || 'Runs');
    setText($('about'), crop([...new Set(this.library?.folders.map((f, _, all) => all.length > 3 ? f.replace(/\/[^/]+$/, '') : f))].join(', '), 100));
    setText($('foot'), this.library ? `fedpace ${this.library.version}`.trim() : '');
    document.title = (this.title || 'Runs') + ' · fedpace';
    document.body.dataset.state = 'board';
    this.say();
    this.span.redraw();
  }
}
