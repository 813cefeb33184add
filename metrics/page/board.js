// --- many runs

// Where a library's runs are read: a server, or this page.
const served = {
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
const kept = {
  live: false,
  async unpack(id) {
    const text = atob($(id).textContent), bytes = new Uint8Array(text.length);
    for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
    return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip')));
  },
  async list() { return JSON.parse($('runs').textContent); },
  async curves(id) { return (await this.unpack('curves-' + id)).arrayBuffer(); },
  async snapshot(id) { return (await this.unpack('snapshot-' + id)).json(); },
  round: null,
};

// decode reads a run's columns: a head in JSON, then a Float64Array each.
function decode(buffer) {
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
// time comes first.
const axesOf = columns => [
  ...columns.filter(c => c.axis).sort((a, b) => (b.kind === 'time') - (a.kind === 'time')).map(c => (
    { id: c.name, name: c.axis, seconds: c.kind === 'time', integers: isWhole(c), of: curves => curves.column[c.name] })),
  { id: 'energy', name: 'energy', unit: 'kJ', of: c => cost(c, 'energy_joules', 1e-3) },
  { id: 'wall', name: 'wall time', seconds: true, of: c => cost(c, 'wall_seconds', 1) },
];

const isMetric = name => name.startsWith('validation_') && name !== 'validation_loss';
const rank = c => (c.steps || c.fromZero ? 2 : isMetric(c.column) ? 0 : 1);

// chartsOf are the charts of columns: metrics first, then losses.
const chartsOf = columns => columns.filter(c => c.title).map(c => ({ column: c.name, title: c.title, help: c.help, steps: c.at_start, integers: isWhole(c), fromZero: isWhole(c) || c.kind === 'time' }))
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

const metricOf = (run, name) => run.summary && (run.summary.metrics || []).find(m => m.name === name);

// The columns of the list: what a run has, and how it is shown.
const listColumns = [
  { id: 'name', name: 'run', of: r => r.name, text: r => r.name },
  { id: 'state', name: 'state', of: r => r.state, text: r => r.state },
  { id: 'task', name: 'task', of: r => r.task, text: r => r.task },
  { id: 'schedule', name: 'schedule', of: r => r.schedule, text: r => r.schedule },
  { id: 'seed', name: 'seed', of: r => Number(r.seed), text: r => r.seed },
  { id: 'quality', name: 'best', number: true, of: r => (metricOf(r, r.quality.name) || {}).best, text: (r, v) => known(v) ? `${fixed(v, 4)}${r.quality.name === 'accuracy' ? '' : ' ' + r.quality.name}` : '–' },
  { id: 'loss', name: 'training loss', number: true, of: r => r.summary && r.summary.best_training_loss, text: (_, v) => fixed(v, 4) },
  { id: 'rounds', name: 'rounds', number: true, of: r => r.rounds, text: (_, v) => whole(v) },
  { id: 'time', name: 'virtual time', number: true, of: r => r.virtual_seconds, text: (_, v) => duration(v) },
  { id: 'steps', name: 'SGD steps', number: true, of: r => r.summary && r.summary.sgd_steps, text: (_, v) => whole(v) },
  { id: 'stragglers', name: 'straggler share', number: true, of: r => r.summary && r.summary.straggler_share, text: (_, v) => known(v) ? percent(v) : '–' },
  { id: 'waste', name: 'wasted', number: true, of: r => share(r.summary && r.summary.client_seconds), text: (_, v) => known(v) ? percent(v) : '–' },
  { id: 'energy', name: 'energy', number: true, of: r => r.summary && r.summary.energy_joules ? r.summary.energy_joules.useful + r.summary.energy_joules.wasted : null, text: (_, v) => known(v) ? short(v / 1000, 4) + ' kJ' : '–' },
  { id: 'tags', name: 'tags', of: r => (r.tags || []).join(' '), text: (_, v) => v },
];
const share = v => v && v.useful + v.wasted > 0 ? v.wasted / (v.useful + v.wasted) : null;

const mostListed = 500;

// Board lists the runs of a library and draws those that are chosen.
class Board {
  constructor(source) {
    this.source = source;
    this.runs = [];
    this.chosen = new Set();
    this.data = new Map(); // by id: { stamp, curves }
    this.views = new Map(); // snapshots by id, with their stamp
    this.charts = new Map();
    this.sort = { id: 'name', down: false };
    this.span = null; // of x; null: everything
    this.weight = 0;
    this.grouped = false;
    this.columns = []; // of all runs that were read, once each
    this.at = 'virtual_seconds';
    this.build();
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => { painted = null; this.show(); });
  }

  // --- what charts ask

  axis() { const all = axesOf(this.columns); return all.find(a => a.id === this.at) || all[0]; }
  range() { return this.span || { low: 0, high: this.most || 1 }; }
  zoomed() { return this.span !== null; }
  moves() { return this.panning; }
  marks() { return this.markList || []; }

  point(x) {
    for (const c of this.charts.values()) {
      if (c.figure.hidden || !c.visible || !c.box) { c.cursor = x; continue; }
      c.cursor = x;
      c.mark();
    }
  }

  zoom(low, high) {
    this.span = low === null || !(high > low) ? null : { low, high };
    $('whole').hidden = !this.span;
    this.redraw();
  }

  // scale changes the range by a factor around a value.
  scale(factor, around) {
    const { low, high } = this.range(), most = this.most || 1;
    const a = Math.max(0, around - (around - low) * factor), b = Math.min(most, around + (high - around) * factor);
    if (a <= 0 && b >= most) this.zoom(null); else if (b - a > most * 1e-7) this.zoom(a, b);
  }

  move(from, by) {
    const most = this.most || 1, length = from.high - from.low, low = Math.max(0, Math.min(most - length, from.low + by));
    this.zoom(low, low + length);
  }

  redraw() {
    if (this.frame) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      for (const c of this.charts.values()) c.draw();
    });
  }

  // --- elements

  build() {
    const field = (label, e) => make('label', { class: 'field' }, make('span', {}, label), e);
    this.filter = make('input', { type: 'search', id: 'filter', placeholder: 'name, task, schedule, state, key=value …', autocomplete: 'off', spellcheck: 'false' });
    this.filter.addEventListener('input', () => this.list());
    this.axisChoice = make('select', { id: 'axis' });
    this.axisChoice.addEventListener('change', () => { this.at = this.axisChoice.value; this.span = null; this.show(); });
    this.groupChoice = make('select', { id: 'group' }, make('option', { value: '' }, 'each run'), make('option', { value: 'seeds' }, 'mean over seeds, 95 % interval'));
    this.groupChoice.addEventListener('change', () => { this.grouped = this.groupChoice.value === 'seeds'; this.show(); });
    this.smooth = make('input', { type: 'range', id: 'smoothing', min: 0, max: 0.99, step: 0.01, value: 0 });
    this.smooth.addEventListener('input', () => { this.weight = Number(this.smooth.value); this.show(); });
    this.all = make('input', { type: 'checkbox', id: 'all', 'aria-label': 'Draw all runs that are listed' });
    this.all.addEventListener('change', () => {
      for (const r of this.listed()) if (this.all.checked && !r.why) this.chosen.add(r.id); else this.chosen.delete(r.id);
      this.list();
      this.load();
    });
    this.drag = make('button', { type: 'button', class: 'toggle', 'aria-pressed': 'false', title: 'A drag moves the range instead of choosing one (as with Shift)' }, 'move');
    this.drag.addEventListener('click', () => { this.panning = !this.panning; this.drag.setAttribute('aria-pressed', String(this.panning)); });
    const button = (id, text, what) => { const b = make('button', { type: 'button', id }, text); b.addEventListener('click', what); return b; };
    const middle = () => { const { low, high } = this.range(); return (low + high) / 2; };
    this.listTable = make('table', { class: 'runs' });
    this.note = make('p', { class: 'quiet small', id: 'list-note' });
    $('board').append(
      make('section', { 'aria-labelledby': 'runs-title' }, make('h2', { id: 'runs-title', class: 'hidden' }, 'Runs'),
        make('div', { class: 'controls' }, field('Filter', this.filter), this.note),
        make('div', { class: 'scroll runs', tabindex: 0, role: 'region', 'aria-label': 'Runs' }, this.listTable)),
      this.waits = make('section', { id: 'board-waits', class: 'card', 'aria-labelledby': 'board-waits-title', hidden: '' }),
      make('div', { class: 'controls', role: 'group', 'aria-label': 'How curves are drawn' }, field('Against', this.axisChoice), field('Show', this.groupChoice), field('Smoothing', this.smooth),
        make('span', { class: 'buttons' }, button('in', 'zoom in', () => this.scale(0.5, middle())), button('out', 'zoom out', () => this.scale(2, middle())), this.drag,
          button('whole', 'everything', () => this.zoom(null)))),
      this.legend = make('p', { class: 'legend', id: 'legend' }),
      this.grid = make('div', { class: 'charts' }));
    $('whole').hidden = true;
  }

  // --- the list

  listed() {
    const words = this.filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    const text = r => [r.name, r.folder, r.task, r.schedule, r.state, 'seed=' + r.seed, ...(r.tags || []), ...r.settings].join('\n').toLowerCase();
    const by = listColumns.find(c => c.id === this.sort.id);
    const order = (a, b) => {
      const x = by.of(a), y = by.of(b);
      if (!known(x) || !known(y)) return known(x) ? -1 : known(y) ? 1 : 0;
      return typeof x === 'number' && typeof y === 'number' ? x - y : String(x).localeCompare(String(y), 'en', { numeric: true });
    };
    return this.runs.filter(r => { const t = text(r); return words.every(w => t.includes(w)); })
      .sort((a, b) => (this.sort.down ? -order(a, b) : order(a, b)) || a.folder.localeCompare(b.folder, 'en', { numeric: true }));
  }

  list() {
    const listed = this.listed(), some = listColumns.filter(c => ['name', 'state'].includes(c.id) || listed.some(r => { const v = c.of(r); return known(v) && v !== ''; }));
    const head = some.map(c => {
      const b = make('button', { type: 'button', class: 'sort' }, c.name);
      b.addEventListener('click', () => { this.sort = { id: c.id, down: this.sort.id === c.id ? !this.sort.down : !!c.number }; this.list(); $('sort-' + c.id).focus(); });
      b.id = 'sort-' + c.id;
      return make('th', { scope: 'col', class: c.number ? null : 'text', 'aria-sort': this.sort.id === c.id ? (this.sort.down ? 'descending' : 'ascending') : null }, b);
    });
    const rows = listed.slice(0, mostListed).map(r => {
      const box = make('input', { type: 'checkbox', 'aria-label': 'Draw ' + r.name, 'data-run': r.id });
      box.checked = this.chosen.has(r.id);
      box.disabled = !!r.why;
      box.addEventListener('change', () => { if (box.checked) this.chosen.add(r.id); else this.chosen.delete(r.id); this.mix(); this.load(); });
      const l = this.looks && this.looks.get(r.id);
      return make('tr', { 'data-run': r.id }, make('td', {}, box), ...some.map(c => {
        const v = c.of(r), text = c.text(r, v);
        if (c.id === 'name') return make('th', { scope: 'row', title: r.folder }, l ? dot(l) : null, !!r.why ? text : make('a', { href: '#run/' + r.id }, text));
        if (c.id === 'state') return make('td', { class: 'text state ' + r.state, title: r.why || null }, text);
        return make('td', { class: c.number ? null : 'text', 'data-value': known(v) ? v : null }, text);
      }));
    });
    this.listTable.replaceChildren(make('thead', {}, make('tr', {}, make('th', {}, this.all), ...head)), make('tbody', {}, ...rows));
    const damaged = listed.filter(r => r.why);
    setText(this.note, `${count(listed.length, 'run', 'runs')}${listed.length < this.runs.length ? ' of ' + whole(this.runs.length) : ''}, ${whole(this.chosen.size)} drawn` +
      (listed.length > mostListed ? `; the first ${mostListed} are listed` : '') + (damaged.length ? `. ${damaged[0].name}: ${damaged[0].why}` : ''));
    this.mix();
  }

  // mix sets the box that stands for all.
  mix() {
    const listed = this.listed(), on = listed.filter(r => this.chosen.has(r.id)).length;
    this.all.checked = on > 0 && on === listed.filter(r => !r.why).length;
    this.all.indeterminate = on > 0 && !this.all.checked;
  }

  // --- reading

  async start() {
    const first = await this.source.list();
    this.take(first);
    for (const r of this.listed().filter(r => !r.why).slice(0, 20)) this.chosen.add(r.id);
    this.list();
    await this.load();
    if (this.source.live) this.follow();
  }

  take(library) {
    this.runs = library.runs;
    this.library = library;
    const now = new Set(this.runs.map(r => r.id));
    for (const id of this.chosen) if (!now.has(id)) this.chosen.delete(id);
  }

  // follow looks again every two seconds while somebody looks.
  follow() {
    setInterval(async () => {
      if (document.hidden || this.busy) return;
      this.busy = true;
      try {
        const before = JSON.stringify(this.runs);
        this.take(await this.source.list());
        this.lost = false;
        if (JSON.stringify(this.runs) !== before) {
          if (!$('board').contains(document.activeElement) || document.activeElement === this.filter) this.list();
          await this.load();
        }
      } catch (e) {
        this.lost = true;
      }
      this.busy = false;
      this.say();
    }, 2000);
  }

  say() {
    if (this.view) return;
    const running = this.runs.filter(r => r.state === 'running').length;
    if (this.lost) status('lost', 'Connection lost, trying again');
    else status(running ? 'running' : 'completed', running ? count(running, 'run goes on', 'runs go on') : this.source.live ? 'Nothing runs' : 'A copy');
  }

  // load reads the curves of the chosen runs that are new or have grown, and draws.
  async load() {
    const wanted = this.runs.filter(r => this.chosen.has(r.id));
    await Promise.all(wanted.map(async r => {
      const has = this.data.get(r.id);
      if (has && has.stamp === r.stamp) return;
      this.data.set(r.id, { stamp: r.stamp, curves: decode(await this.source.curves(r.id)) });
    }));
    this.know();
    this.show();
    await this.readViews(wanted);
  }

  // know takes the columns of the runs that were read.
  know() {
    const before = this.columns.length;
    for (const { curves } of this.data.values()) {
      for (const c of (curves || { columns: [] }).columns) if (!this.columns.some(k => k.name === c.name)) this.columns.push(c);
    }
    if (this.columns.length === before) return;
    this.axisChoice.replaceChildren(...axesOf(this.columns).map(a => make('option', { value: a.id }, a.name)));
    this.axisChoice.value = this.at;
  }

  // readViews reads what a run's own view knows of whom it waited for.
  async readViews(wanted) {
    for (const r of wanted) {
      const has = this.views.get(r.id);
      if (has && has.stamp === r.stamp) continue;
      try {
        this.views.set(r.id, { stamp: r.stamp, snapshot: await this.source.snapshot(r.id) });
      } catch (e) {
        this.views.set(r.id, { stamp: r.stamp, snapshot: null });
      }
    }
    this.showWaits();
  }

  // --- drawing

  // lines are the chosen runs, or their groups, with their colours.
  parts() {
    const runs = this.listed().filter(r => this.chosen.has(r.id) && this.data.has(r.id));
    const groups = new Map();
    for (const r of runs) {
      const key = this.grouped ? 'g' + r.group : r.id;
      if (!groups.has(key)) groups.set(key, { name: this.grouped ? r.group_name : r.name, runs: [] });
      groups.get(key).runs.push(r);
    }
    const several = new Set(runs.map(r => r.task)).size > 1;
    return [...groups.values()].map((g, i) => ({ ...g, ...look(i), name: (several && this.grouped ? g.runs[0].task + ' ' : '') + g.name + (g.runs.length > 1 ? ` (${g.runs.length})` : '') }));
  }

  show() {
    const parts = this.parts(), axis = this.axis();
    this.looks = new Map(parts.flatMap(p => p.runs.map(r => [r.id, p])));
    // Values in a column that was not measured in every round stand in columns of their own.
    this.dense = this.dense || new WeakMap();
    const list = chartsOf(this.columns);
    const dense = (curves, name) => {
      let all = this.dense.get(curves);
      if (!all) this.dense.set(curves, all = {});
      const key = name + ' ' + this.at + ' ' + this.weight;
      if (!all[key]) {
        const x = axis.of(curves), y = curves.column[name];
        if (!x || !y) return all[key] = { x: new Float64Array(0), y: new Float64Array(0) };
        const places = [];
        for (let i = 0; i < y.length; i++) if (y[i] === y[i]) places.push(i);
        const line = places.length === y.length ? { x, y } : { x: Float64Array.from(places, i => x[i]), y: Float64Array.from(places, i => y[i]) };
        all[key] = list.some(c => c.column === name && c.steps) ? line : { x: line.x, y: smoothed(line.y, this.weight) };
      }
      return all[key];
    };
    this.most = 0;
    for (const p of parts) for (const r of p.runs) {
      const x = axis.of(this.data.get(r.id).curves);
      if (x && x.length) this.most = Math.max(this.most, x[x.length - 1]);
    }
    const unknown = parts.filter(p => p.runs.every(r => !axis.of(this.data.get(r.id).curves)));
    for (const c of list) {
      let chart = this.charts.get(c.column);
      if (!chart) {
        chart = new Overlay(this, 'over-' + c.column, c.title, c);
        this.charts.set(c.column, chart);
        const next = list.slice(list.indexOf(c) + 1).find(c => this.charts.has(c.column));
        if (next) this.charts.get(next.column).figure.before(chart.figure); else this.grid.append(chart.figure);
      }
      chart.set(parts.map(p => {
        const lines = p.runs.map(r => dense(this.data.get(r.id).curves, c.column));
        return { ...(this.grouped && lines.length > 1 ? meanLine(lines) : lines[0]), name: p.name, colour: p.colour, dash: p.dash, wide: this.grouped };
      }).filter(l => l.x.length));
    }
    this.markList = parts.length > 6 ? [] : parts.flatMap(p => p.runs.slice(0, 1).flatMap(r => {
      const c = this.data.get(r.id).curves, x = axis.of(c);
      return x ? c.marks.map(m => ({ kind: m.kind, colour: p.colour, x: x[Math.max(0, Math.min(x.length - 1, firstAfter(c.column.round, m.round) - 1))] })) : [];
    }));
    const kinds = [['checkpoint', '▲ checkpoint'], ['device', '✕ device lost'], ['decay', '■ K_r changes']].filter(k => this.markList.some(m => m.kind === k[0])).map(k => k[1]);
    const thinned = parts.some(p => p.runs.some(r => this.data.get(r.id).curves.thinned));
    this.legend.replaceChildren(...parts.map(p => make('span', {}, dot(p), p.name)), ...kinds.map(k => make('span', {}, k)),
      ...(unknown.length ? [make('span', {}, `Not known of ${unknown.map(p => p.name).slice(0, 4).join(', ')}${unknown.length > 4 ? ' …' : ''}: ${axis.name}.`)] : []),
      ...(thinned ? [make('span', {}, 'Long curves are thinned in this file.')] : []));
    if (!this.listTable.contains(document.activeElement)) this.list();
    document.body.dataset.drawn = String(parts.length);
    this.say();
  }

  // showWaits says who made the chosen runs wait.
  showWaits() {
    const rows = [];
    for (const p of this.parts()) {
      const r = p.runs[0], v = this.views.get(r.id), w = v && v.snapshot && v.snapshot.waits;
      if (!w || !w.rounds) continue;
      rows.push({ part: p, run: r, waits: w, share: r.summary ? r.summary.straggler_share : w.straggler_share, wasted: share(r.summary && r.summary.client_seconds), energy: r.summary && r.summary.energy_joules });
    }
    showWaiting(this.waits, 'board-waits-title', rows);
  }

  // --- one run

  async open(id) {
    const run = this.runs.find(r => r.id === id);
    if (!run) { location.hash = ''; return; }
    this.view = id;
    const next = await this.source.snapshot(id);
    if (this.view !== id) return;
    status(next.state, stateTexts[next.state]);
    snapshot = null;
    next.curves.from = 0;
    take(next);
    scrub(this.source.round ? n => this.source.round(id, n) : null);
  }

  close() {
    this.view = null;
    setText($('name'), 'Runs');
    setText($('about'), this.library ? this.library.folders.join(', ') : '');
    setText($('foot'), this.library ? `fedpace ${this.library.version}`.trim() : '');
    document.title = 'Runs · fedpace';
    document.body.dataset.state = 'board';
    this.say();
    this.redraw();
  }
}
