// --- many runs

import { $, make, setText, groupBy, known, whole, fixed, short, crop, duration, percent, count } from './base.js';
import { saveCSV, copyAddress } from './save.js';
import { Span, LineChart, firstAfter, legendOf, look, dot, isConstant } from './lines.js';
import { decode, axesOf, chartsOf, lineOf, meanLine, titleOfMetric } from './curves.js';
import { configOf, differing, matches, apart, besides, legendNames, tails, groupsBySeed, byName, hueOrder } from './find.js';
import { showWaiting, share } from './tasks.js';
import { Sweep, Differing } from './sweep.js';
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

const sum = split => split ? split.useful + split.wasted : null;

// The columns of the table: how a run is known, and how that is shown. A column that is equal in all runs and marked so
// is left out.
const listColumns = [
  { id: 'name', name: 'run', of: r => r.name },
  { id: 'state', name: 'state', equal: true, of: r => r.state },
  { id: 'best', name: 'best', number: true, of: r => r.summary?.metrics?.find(m => m.name === r.quality.name)?.best, text: (r, v) => `${fixed(v, 4)}${r.quality.name === 'accuracy' ? '' : ' ' + titleOfMetric(r.quality.name)}` },
  { id: 'loss', name: 'best training loss', number: true, of: r => r.summary && r.summary.best_training_loss, text: (_, v) => fixed(v, 4) },
  { id: 'rounds', name: 'rounds', number: true, of: r => r.rounds, text: (_, v) => whole(v) },
  { id: 'time', name: 'virtual time', number: true, of: r => r.virtual_seconds, text: (_, v) => duration(v) },
  { id: 'steps', name: 'SGD steps', number: true, of: r => r.summary && r.summary.sgd_steps, text: (_, v) => whole(v) },
  { id: 'stragglers', name: 'straggler share', number: true, of: r => r.summary && r.summary.straggler_share, text: (_, v) => percent(v) },
  { id: 'wasted', name: 'wasted', number: true, of: r => share(r.summary && r.summary.client_seconds), text: (_, v) => percent(v) },
  { id: 'energy', name: 'energy', number: true, of: r => sum(r.summary && r.summary.energy_joules), text: (_, v) => short(v / 1000, 4) + ' kJ' },
  { id: 'task', name: 'task', equal: true, of: r => r.task },
  { id: 'schedule', name: 'schedule', equal: true, of: r => (r.schedule === 'expression' && r.config?.get('schedule.k.formula')) || r.schedule },
  { id: 'seed', name: 'seed', equal: true, of: r => Number(r.seed), text: r => r.seed },
  { id: 'tags', name: 'tags', of: r => (r.tags || []).join(' ') || null, values: r => r.tags || [] },
  { id: 'note', name: 'note', of: r => r.note || null },
];
const columnOf = id => listColumns.find(c => c.id === id);
const cellText = (c, r, v) => !known(v) ? '–' : c.text ? c.text(r, v) : String(v);

const maxListed = 500;
const maxReads = 16; // at a time
const maxLines = 20; // that are drawn before somebody chooses

// How runs become lines, beside the keys of the configuration.
const bySeeds = '';
const eachRun = 'run';

// Board lists the runs of a library and draws those that are chosen. What is shown stands in the address.
export class Board {
  constructor(source) {
    this.source = source;
    this.runs = [];
    this.chosen = null; // ids; null: the first of those that are listed
    this.data = new Map(); // by id: { stamp, curves }
    this.views = new Map(); // snapshots by id, with their stamp
    this.reads = new Map(); // what is being read, by what it is
    this.charts = new Map();
    this.columns = []; // of all runs that were read, once each
    this.wanted = {};
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
    const { part } = this.span;
    const p = new URLSearchParams();
    const say = (key, value, usual) => { if (value && value !== usual) p.set(key, value); };
    say('run', run);
    say('q', this.filter.value);
    say('on', this.chosen && ([...this.chosen].join('.') || 'none'));
    say('x', this.axisChoice.value, 'virtual_seconds');
    say('zoom', part && `${part.low},${part.high}`);
    say('group', this.groupChoice.value);
    say('colour', this.colourChoice.value);
    say('smooth', this.smooth.value, '0');
    say('base', this.baseChoice.value);
    say('sort', (this.sort.down ? '-' : '') + this.sort.id, 'name');
    say('log', [...this.charts.values()].filter(c => c.log).map(c => c.options.column).join('.'));
    say('wide', $('board').classList.contains('wide') && '1');
    return p.toString();
  }

  // recall reads the address.
  recall() {
    const p = new URLSearchParams(location.hash.slice(1));
    const value = (key, usual = '') => p.get(key) || usual;
    const zoom = value('zoom').split(',').map(Number);
    this.filter.value = value('q');
    this.chosen = p.has('on') ? new Set(value('on').split('.')) : null;
    this.wanted = { axis: value('x', 'virtual_seconds'), base: value('base'), group: value('group'), colour: value('colour'), logs: value('log').split('.') };
    this.axisChoice.value = this.wanted.axis;
    this.smooth.value = value('smooth', '0');
    this.sort = { id: value('sort', 'name').replace(/^-/, ''), down: value('sort').startsWith('-') };
    this.span.part = zoom.length === 2 && zoom[1] > zoom[0] ? { low: zoom[0], high: zoom[1] } : null;
    this.span.showZoom();
    this.widen(value('wide') === '1');
    for (const c of this.charts.values()) c.log = this.wanted.logs.includes(c.options.column);
    this.fillChoices(this.wanted);
    return value('run');
  }

  // --- elements

  build() {
    const field = (label, e) => make('label', { class: 'field' }, make('span', {}, label), e);
    const choice = id => {
      const s = make('select', { id });
      s.addEventListener('change', () => { if (id === 'axis') this.span.part = null; this.list(); this.changed(); });
      return s;
    };
    this.sort = { id: 'name', down: false };
    this.filter = make('input', { type: 'search', id: 'filter', placeholder: 'best>0.4 schedule.k=fixed -word', autocomplete: 'off', spellcheck: 'false', 'aria-describedby': 'list-note' });
    this.filter.addEventListener('input', () => { this.list(); this.changed(); });
    [this.axisChoice, this.groupChoice, this.colourChoice, this.baseChoice] = ['axis', 'group', 'colour', 'baseline'].map(choice);
    this.smooth = make('input', { type: 'range', id: 'smoothing', min: 0, max: 0.99, step: 0.01, value: 0 });
    this.smooth.addEventListener('input', () => this.changed());
    this.all = make('input', { type: 'checkbox', id: 'all', 'aria-label': 'Draw all runs that are listed' });
    this.all.addEventListener('change', () => this.choose(this.listed().filter(r => !r.why), this.all.checked));
    this.note = make('p', { class: 'quiet small', id: 'list-note' });
    this.table = make('table', { class: 'runs' });
    this.sweep = new Sweep();
    this.differing = new Differing();
    this.says = make('output', { class: 'quiet small' });
    const actions = this.span.tools(
      { text: 'Wide table', title: 'The table above the charts, not beside them', act: () => { this.widen(!$('board').classList.contains('wide')); this.remember(); } },
      { text: 'Save table', title: 'All listed runs as CSV', act: () => saveCSV('runs', this.rows()) },
      { text: 'Copy link', title: 'The address has what is found, chosen, grouped, coloured, zoomed and sorted', act: () => { history.replaceState(null, '', '#' + this.address()); copyAddress(this.says); } });
    this.wide = actions.children[3];
    $('board').append(
      make('section', { class: 'side', 'aria-labelledby': 'runs-title' }, make('h2', { id: 'runs-title', class: 'hidden' }, 'Runs'),
        field('Search runs', this.filter), make('p', { class: 'head' }, this.all, this.note),
        make('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-labelledby': 'runs-title' }, this.table)),
      make('div', { class: 'main' },
        make('div', { class: 'controls', role: 'group', 'aria-label': 'How curves are drawn' }, field('X axis', this.axisChoice), field('Group by', this.groupChoice), field('Colour by', this.colourChoice),
          field('Baseline', this.baseChoice), field('Smoothing', this.smooth)),
        actions, this.says,
        this.legend = make('p', { class: 'legend', id: 'legend' }),
        this.grid = make('div', { class: 'charts' }),
        this.constants = make('p', { class: 'quiet small', id: 'constants' }),
        this.sweep.section,
        this.differing.section,
        this.waits = make('section', { id: 'board-waits', class: 'card', 'aria-labelledby': 'board-waits-title', hidden: '' })));
  }

  // widen has the table above the charts, or beside them.
  widen(wide) {
    $('board').classList.toggle('wide', wide);
    this.wide.setAttribute('aria-pressed', String(wide));
  }

  // fillChoices offers what runs can be grouped and coloured by, and keeps what was chosen.
  fillChoices({ group = this.groupChoice.value, colour = this.colourChoice.value, base = this.baseChoice.value } = {}) {
    const keys = [...new Set(['task', 'schedule', 'state', 'tags', ...differing(this.runs.map(r => this.config(r))).differ])].filter(k => k !== 'schedule.k.rule');
    const fill = (select, value, options) => {
      const text = JSON.stringify(options);
      if (select.dataset.options !== text) select.replaceChildren(...options.map(([v, name]) => make('option', { value: v }, name)));
      select.dataset.options = text;
      select.value = options.some(o => o[0] === value) ? value : '';
    };
    fill(this.groupChoice, group, [[bySeeds, 'seeds (mean)'], [eachRun, 'each run'], ...keys.map(k => [k, k])]);
    fill(this.colourChoice, colour, [['', 'line'], ...keys.map(k => [k, k])]);
    fill(this.baseChoice, base, [['', 'none'], ...this.runs.filter(r => !r.why).map(r => [r.id, r.name])]);
  }

  changed() { this.remember(); return this.load().catch(e => status('lost', e.message)); }

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
    const c = listColumns.find(c => c.id === key || c.name === key.replaceAll('_', ' '));
    if (c) return (c.values || c.of)(r);
    const config = this.config(r);
    return ['', '.rule'].map(end => config.get(key + end) ?? config.get(`schedule.${key}${end}`)).find(known);
  }

  listed() {
    const by = columnOf(this.sort.id) || listColumns[0];
    const order = (a, b) => {
      const x = by.of(a);
      const y = by.of(b);
      if (!known(x) || !known(y)) return known(x) ? -1 : known(y) ? 1 : 0;
      const less = typeof x === 'number' && typeof y === 'number' ? x - y : String(x).localeCompare(String(y), 'en', { numeric: true });
      return this.sort.down ? -less : less;
    };
    return this.runs.filter(r => matches(r, this.filter.value, (r, key) => this.valueOf(r, key)))
      .sort((a, b) => order(a, b) || a.folder.localeCompare(b.folder, 'en', { numeric: true }));
  }

  // drawn are the runs that are listed and chosen, or else those of the first lines.
  drawn() {
    const list = this.listed().filter(r => !r.why);
    if (this.chosen) return list.filter(r => this.chosen.has(r.id));
    return [...this.groups(list).values()].slice(0, maxLines).flat();
  }

  // groups gathers the runs that become one line.
  groups(runs) {
    const by = this.groupChoice.value;
    if (by === bySeeds) return groupsBySeed(runs);
    return groupBy(runs, by === eachRun ? r => r.id : r => String(this.valueOf(r, by) ?? '–'));
  }

  // distinct leaves one run of each seed in a group: a run that was started twice is one, unless real devices make each
  // run another.
  distinct(settings, runs) {
    if (this.groupChoice.value !== bySeeds || settings.includes('"devices.names=')) return runs;
    return [...groupBy(runs, r => r.seed).values()].map(same => same.reduce((a, b) => b.rounds > a.rounds ? b : a));
  }

  // looks gives each run that is drawn the look of its line: a colour by its place among all lines of the library, so that
  // it stays when others are chosen, or by the value of a key; other dashes for further lines of that colour.
  looks(runs) {
    const by = this.colourChoice.value;
    const value = r => by ? String(this.valueOf(r, by) ?? '–') : r.line;
    const lines = [...this.groups(this.runs.filter(r => !r.why)).values()].map(group => ({ schedule: group[0].schedule, folder: group[0].folder, group }));
    hueOrder(lines).forEach(({ group }, place) => { for (const r of group) r.line = place; });
    const colours = by ? [...new Set(this.listed().map(value))].sort(byName) : null;
    const used = new Map(); // by colour
    for (const r of this.runs) r.look = null;
    for (const group of [...this.groups(runs).values()].sort((a, b) => a[0].line - b[0].line)) {
      let colour = (colours ? colours.indexOf(value(group[0])) : group[0].line) % 8;
      // While colours are free, no two lines share one.
      while (!colours && used.size < 8 && used.has(colour)) colour = (colour + 1) % 8;
      const n = used.get(colour) || 0;
      used.set(colour, n + 1);
      for (const r of group) r.look = look(colour + 8 * n);
    }
  }

  // nameLink leads to a run's own page; where stands for the place of the link.
  nameLink(r, where) {
    if (r.why) return r.name;
    const name = r.name.split(/(?<=[,/])/).flatMap(part => [part, make('wbr')]); // a long one is not cut but has more lines
    const a = make('a', { id: where + r.id, href: '#' + this.address(r.id) }, ...name);
    a.addEventListener('click', () => { a.href = '#' + this.address(r.id); }); // which may be zoomed by now
    return a;
  }

  list() {
    const listed = this.listed();
    const drawn = this.drawn();
    const on = new Set(drawn.map(r => r.id));
    const focused = document.activeElement.id;
    apart(listed, listed.map(r => this.config(r))).forEach((text, i) => { listed[i].apart = besides(listed[i].name, text); });
    this.looks(drawn);
    const damaged = listed.filter(r => r.why);
    setText(this.note, `${count(listed.length, 'run', 'runs')}${listed.length < this.runs.length ? ' of ' + whole(this.runs.length) : ''}, ${whole(on.size)} drawn` +
      (listed.length > maxListed ? `; the first ${maxListed} are listed` : '') + (damaged.length ? `. ${damaged[0].name}: ${damaged[0].why}` : ''));
    this.all.checked = on.size > 0 && on.size === listed.length - damaged.length;
    this.all.indeterminate = on.size > 0 && !this.all.checked;
    this.tabulate(listed, on);
    $(focused)?.focus({ preventScroll: true }); // which was made anew
  }

  // shownColumns are the columns that say something of the listed runs.
  shownColumns(listed) {
    return listColumns.filter(c => {
      const values = new Set(listed.map(r => c.of(r)).filter(v => known(v) && v !== ''));
      return c.id === 'name' || values.size > (c.equal && listed.length > 1 ? 1 : 0) || c.id === 'state' && listed.some(r => r.state !== 'complete');
    });
  }

  // tabulate fills the table. on are the ids of the runs that are drawn.
  tabulate(listed, on) {
    const some = this.shownColumns(listed);
    const head = some.map(c => {
      const b = make('button', { type: 'button', class: 'sort', id: 'sort-' + c.id }, c.name);
      b.addEventListener('click', () => { this.sort = { id: c.id, down: this.sort.id === c.id ? !this.sort.down : !!c.number }; this.list(); this.changed(); });
      return make('th', { scope: 'col', class: c.number ? null : 'text', 'aria-sort': this.sort.id === c.id ? (this.sort.down ? 'descending' : 'ascending') : null }, b);
    });
    const rows = listed.slice(0, maxListed).map(r => {
      const box = make('input', { type: 'checkbox', id: 'draw-' + r.id, 'aria-label': 'Draw ' + r.name });
      box.checked = on.has(r.id);
      box.disabled = !!r.why;
      box.addEventListener('change', () => this.choose([r], box.checked));
      const named = make('th', { scope: 'row', title: r.folder }, box, dot(r.look || { colour: 'line' }), this.nameLink(r, 'table-'), make('small', {}, r.apart));
      return make('tr', { 'data-run': r.id }, named, ...some.slice(1).map(c => {
        const v = c.of(r);
        const state = c.id === 'state';
        return make('td', { class: c.number ? null : 'text ' + (state ? 'state ' + r.state : ''), title: state ? r.why : null, 'data-value': known(v) ? v : null }, cellText(c, r, v));
      }));
    });
    this.table.replaceChildren(make('thead', {}, make('tr', {}, ...head)), make('tbody', {}, ...rows));
  }

  // rows are the listed runs for a file.
  rows() {
    const listed = this.listed();
    const some = this.shownColumns(listed);
    return [['folder', ...some.map(c => c.name)], ...listed.map(r => [r.folder, ...some.map(c => c.of(r))])];
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
    tails(this.runs.map(r => r.folder)).forEach((name, i) => { this.runs[i].name = name; });
    this.fillChoices();
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
    else status(running ? 'running' : 'completed', running ? count(running, 'run is running', 'runs are running') : this.source.live ? 'No run is running' : 'Saved page');
  }

  // load reads the curves of the drawn runs that are new or have grown, and draws.
  async load() {
    const base = this.runs.filter(r => r.id === this.baseChoice.value);
    const wanted = [...new Set([...this.drawn(), ...base])];
    await this.read(wanted);
    this.know();
    this.show();
    for (const r of wanted) await this.fresh(this.views, r, async () => ({ snapshot: await this.source.snapshot(r.id).catch(() => null) }));
    this.showWaits();
  }

  // fresh reads what is kept of a run again if its files have changed. What is being read is not asked for again.
  fresh(kept, r, read) {
    if (kept.get(r.id)?.stamp === r.stamp) return null;
    const key = [kept === this.data, r.id, r.stamp].join(' ');
    if (!this.reads.has(key)) {
      this.reads.set(key, read().then(what => { kept.set(r.id, { stamp: r.stamp, ...what }); }).finally(() => this.reads.delete(key)));
    }
    return this.reads.get(key);
  }

  // read reads the curves of runs, some at a time: a browser has limits.
  async read(runs) {
    for (let i = 0; i < runs.length; i += maxReads) {
      await Promise.all(runs.slice(i, i + maxReads).map(r => this.fresh(this.data, r, async () => ({ curves: decode(await this.source.curves(r.id)) }))));
    }
  }

  // know takes the columns of the runs that were read.
  know() {
    const before = this.columns.length;
    for (const { curves } of this.data.values()) {
      for (const c of curves.columns) if (!this.columns.some(k => k.name === c.name)) this.columns.push(c);
    }
    if (this.columns.length === before && this.axisChoice.options.length) return;
    // Until a run is read, its axes are not known but for the usual one.
    const axes = this.columns.length ? axesOf(this.columns) : [{ id: this.wanted.axis, name: 'virtual time' }];
    const at = this.axisChoice.value || this.wanted.axis;
    this.axisChoice.replaceChildren(...axes.map(a => make('option', { value: a.id }, a.name)));
    this.axisChoice.value = at;
    if (this.axisChoice.selectedIndex < 0) this.axisChoice.selectedIndex = 0;
  }

  // --- drawing

  // parts are the lines: the drawn runs, or groups of them, with their looks and names. A group of one has the run's name.
  parts() {
    const by = this.groupChoice.value;
    const groups = [...this.groups(this.drawn().filter(r => this.data.has(r.id)))].map(([key, runs]) => [key, this.distinct(key, runs)]);
    const called = legendNames(groups.map(([, runs]) => runs), groups.map(([, runs]) => this.config(runs[0])), this.library.folders);
    return groups.map(([key, runs], i) => {
      const name = by && by !== eachRun ? `${by}=${key}` : called[i];
      return { runs, ...runs[0].look, name: runs.length > 1 ? `${name} (${runs.length})` : runs[0].name };
    });
  }

  // line is a run's column against the axis, kept until the axis or the smoothing changes.
  line(r, axis, column, steps) {
    const { curves } = this.data.get(r.id);
    const lines = curves.lines ||= {};
    const weight = steps ? 0 : Number(this.smooth.value);
    const key = `${axis.id} ${weight}`;
    if (lines[column]?.key !== key) lines[column] = { key, ...lineOf(curves, axis, column, weight, steps) };
    return lines[column];
  }

  show() {
    const parts = this.parts();
    const all = axesOf(this.columns);
    const axis = all.find(a => a.id === this.axisChoice.value) || all[0];
    const base = this.runs.find(r => r.id === this.baseChoice.value && this.data.has(r.id));
    this.span.axis = axis;
    this.span.most = Math.max(0, ...[...parts.flatMap(p => p.runs), ...(base ? [base] : [])].map(r => { const x = axis.of(this.data.get(r.id).curves); return x && x.length ? x[x.length - 1] : 0; }));
    const others = parts.filter(p => p.runs.length > 1 || p.runs[0] !== base);
    const drawn = base ? [...others, { name: 'baseline: ' + base.name, runs: [base], colour: 'ink', dash: [], base: true }] : parts;
    const constant = [];
    for (const c of chartsOf(this.columns)) {
      const lines = drawn.map(p => {
        const each = p.runs.map(r => this.line(r, axis, c.column, c.steps));
        return { ...(each.length > 1 ? meanLine(each) : each[0]), name: p.name, colour: p.colour, dash: p.dash, wide: each.length > 1 || p.base, base: p.base };
      }).filter(l => l.x.length);
      const flat = lines.length && lines.every(isConstant);
      if (flat) constant.push(`${c.title} ${[...new Set(lines.map(l => short(l.y[0], 4)))].slice(0, 6).join(', ')}`);
      this.chart(c).set(flat ? [] : lines);
    }
    const nothing = !this.listed().length ? 'No run is found: the search finds none of these.' : !drawn.length ? 'No run is drawn: choose some in the list.' : '';
    setText(this.constants, nothing || (constant.length ? `Constant, and not drawn: ${constant.join('; ')}.` : ''));
    this.showLegend(drawn, axis);
    this.list();
    this.showWaits();
    this.sweep.show(parts.flatMap(p => p.runs.map(r => ({ name: r.name, look: p, base: r === base, of: c => c.config ? this.config(r).get(c.id) : c.of(r) }))), this.sweepColumns());
    this.differing.show(this.drawn().map(r => ({ id: r.id, name: r.name, config: this.config(r) })));
    document.body.dataset.drawn = String(parts.length);
    document.body.dataset.ready = '1';
    this.say();
  }

  // chart is the chart of a column, made in its place when a run first has the column.
  chart(c) {
    const made = this.charts.get(c.column);
    if (made) return made;
    const chart = new LineChart(this.span, 'over-' + c.column, c.title, { ...c, sorted: true, log: this.wanted.logs.includes(c.column), height: 220 });
    chart.scale.addEventListener('click', () => this.remember());
    this.charts.set(c.column, chart);
    const order = chartsOf(this.columns).map(c => c.column);
    const next = order.slice(order.indexOf(c.column) + 1).find(column => this.charts.has(column));
    if (next) this.charts.get(next).figure.before(chart.figure); else this.grid.append(chart.figure);
    return chart;
  }

  // sweepColumns are what a sweep is drawn over: keys that differ, then what came of the runs.
  sweepColumns() {
    return [...differing(this.drawn().map(r => this.config(r))).differ.map(k => ({ id: k, name: k, config: true })),
      ...listColumns.filter(c => c.number).map(c => ({ id: c.id, name: c.name, of: c.of, text: v => cellText(c, { quality: { name: 'accuracy' } }, v) }))];
  }

  showLegend(parts, axis) {
    this.span.marks = parts.length > 6 ? [] : parts.flatMap(p => p.runs.slice(0, 1).flatMap(r => {
      const c = this.data.get(r.id).curves;
      const x = axis.of(c);
      return x ? (c.marks || []).map(m => ({ kind: m.kind, colour: p.colour, x: x[Math.max(0, Math.min(x.length - 1, firstAfter(c.column.round, m.round) - 1))] })) : [];
    }));
    const kinds = [['checkpoint', '▲ checkpoint'], ['device', '✕ device lost'], ['decay', '■ K_r changes']].filter(k => this.span.marks.some(m => m.kind === k[0])).map(k => k[1]);
    const unknown = parts.filter(p => p.runs.every(r => !axis.of(this.data.get(r.id).curves)));
    const thinned = parts.some(p => p.runs.some(r => this.data.get(r.id).curves.thinned));
    this.legend.replaceChildren(...legendOf(this.span, parts.length > maxLines ? [] : parts), ...kinds.map(k => make('span', {}, k)),
      ...(unknown.length ? [make('span', {}, `Not known of ${unknown.map(p => p.name).slice(0, 4).join(', ')}${unknown.length > 4 ? ' …' : ''}: ${axis.name}.`)] : []),
      ...(thinned ? [make('span', {}, 'Long curves are thinned in this file.')] : []));
  }

  // showWaits says which clients the drawn runs waited for.
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
    const tags = make('input', { type: 'text', value: (run.tags || []).join(' '), spellcheck: 'false' });
    const note = make('textarea', { rows: 2, maxlength: 4000 }, run.note || '');
    const says = make('output', { class: 'quiet small' });
    const form = make('form', { class: 'notes' }, make('label', { class: 'field' }, 'Tags', tags), make('label', { class: 'field' }, 'Note', note), make('button', { type: 'submit' }, 'Save'), says);
    form.addEventListener('submit', async e => {
      e.preventDefault();
      const notes = { tags: tags.value.split(/[\s,]+/).filter(Boolean), note: note.value };
      const answer = await fetch('notes.json?run=' + run.id, { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(notes) }).catch(() => null);
      setText(says, !answer ? 'The server does not answer.' : answer.ok ? 'Saved in notes.json.' : await answer.text());
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
