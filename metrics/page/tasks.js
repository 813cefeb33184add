// --- what clients did in a round, and for which of them rounds waited: rows of bars in SVG

import { make, setText, changed, fillRows, slide, known, whole, short, count, crop, duration, percent, timeUnit, ticks, tickText } from './base.js';
import { saveMenu, openSaveMenu, standalone } from './save.js';
import { dot } from './lines.js';

const top = 26, rowHeight = 19; // pixels
const phases = ['download', 'compute', 'upload', 'waiting'];

// share is how much of something was wasted.
export const share = v => v && v.useful + v.wasted > 0 ? v.wasted / (v.useful + v.wasted) : null;

// filled is how a bar is; one that was planned is dashed.
const filled = colour => colour === 'planned' ? { class: colour } : { fill: `var(--${colour})` };
const swatch = colour => make('svg:svg', { width: 22, height: 12, 'aria-hidden': 'true' }, make('svg:rect', { x: 1, y: 1, width: 20, height: 10, rx: 2, ...filled(colour) }));

// Timeline draws what clients of a round did, a row each. Its drawing is a slider: the arrows go from task to
// task, and each is read out.
export class Timeline {
  constructor() {
    this.cursor = -1;
    this.row = make('svg:rect', { class: 'row-on', x: 0, width: '100%', rx: 4 });
    this.heading = make('h2', { id: 'timeline-title' }, 'The last round');
    this.legend = make('div', { class: 'legend' });
    this.svg = make('svg:svg', { tabindex: 0, role: 'slider', 'aria-labelledby': 'timeline-title', 'aria-valuemin': 0, 'aria-orientation': 'vertical' });
    this.reading = make('output', { class: 'reading', 'aria-live': 'off' });
    this.table = make('table');
    this.details = make('details', {}, make('summary', {}, 'Data table'), make('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': 'Tasks of the round, table' }, this.table));
    this.figure = make('figure', { id: 'timeline', class: 'wide', hidden: '' }, make('figcaption', {}, this.heading, this.legend, saveMenu('Client timeline', () => standalone(this.svg, this.heading.textContent), () => this.rows())), make('div', { class: 'rows' }, this.svg), this.reading, this.details);
    this.details.addEventListener('toggle', () => this.fillTable());
    slide(this.svg, () => this.round.tasks.length, () => this.cursor, to => this.move(to));
    this.svg.addEventListener('keydown', e => { if (e.key === 's') { e.preventDefault(); openSaveMenu(this.figure); } });
    for (const kind of ['pointermove', 'pointerdown']) {
      this.svg.addEventListener(kind, e => this.move(Math.max(0, Math.min(this.round.tasks.length - 1, Math.floor((e.clientY - this.svg.getBoundingClientRect().top - top) / rowHeight)))));
    }
    new ResizeObserver(() => { if (this.svg.clientWidth !== this.width) this.draw(); }).observe(this.svg);
  }

  set(round) {
    this.figure.hidden = !round.tasks.length;
    if (this.figure.hidden) return;
    this.round = round;
    this.cursor = Math.min(this.cursor, round.tasks.length - 1);
    setText(this.heading, round.round ? `Round ${whole(round.round)}: client timeline` : 'The last round');
    this.draw();
    this.fillTable();
  }

  // rows are the tasks with all that is known of them, for a file.
  rows() {
    const columns = ['client', 'name', 'class', 'kind', 'outcome', 'local_steps', 'start', 'download', 'compute', 'upload', 'waiting', 'planned'];
    return [columns, ...this.round.tasks.map(t => columns.map(c => t[c]))];
  }

  move(to) { if (to !== this.cursor) { this.cursor = to; this.mark(); } }

  describe() {
    const r = this.round, ended = Object.entries(r.outcomes).filter(o => o[1] > 0).map(o => `${whole(o[1])} ${o[0]}`).join(', ');
    const of = why => r.tasks.filter(t => t.why === why).length;
    const shown = [of('real') ? count(of('real'), 'real device', 'real devices') : '', of('slow') ? `the slowest ${whole(of('slow'))}` : '', of('sample') ? `${whole(of('sample'))} of the others` : ''];
    return `${count(r.cohort, 'task', 'tasks')} in ${duration(r.seconds)}: ${ended}. Shown: ${shown.filter(Boolean).join(' and ')}.`;
  }

  read(t) {
    return [`${t.kind === 'real' ? 'device' : 'client'} ${t.name || t.client}${t.class ? ` (${t.class})` : ''}`, `${t.probe ? 'was asked,' : 'was'} ${t.outcome}`, `download ${duration(t.download)}`,
      `compute ${duration(t.compute)}${t.probe ? '' : ` (${count(t.local_steps, 'step', 'steps')})`}`, `upload ${duration(t.upload)}`, ...(t.waiting > 0 ? [`waiting ${duration(t.waiting)}`] : [])];
  }

  mark() {
    const t = this.round.tasks[this.cursor], text = t ? this.read(t).join(' · ') : this.describe(), svg = this.svg;
    this.row.setAttribute('y', top + this.cursor * rowHeight);
    this.row.setAttribute('height', t ? rowHeight : 0);
    setText(this.reading, text);
    svg.setAttribute('aria-valuemax', this.round.tasks.length - 1);
    svg.setAttribute('aria-valuenow', Math.max(0, this.cursor));
    svg.setAttribute('aria-valuetext', text);
  }

  fillTable() {
    if (!this.details.open || !this.round) return;
    const tasks = this.round.tasks;
    fillRows(this.table, ['client', tasks.some(t => t.class) ? 'class' : 'kind', 'outcome', 'start, s', 'download, s', 'compute, s', 'upload, s', 'steps'],
      tasks.map(t => [t.name || String(t.client), t.class || t.kind, t.outcome, short(t.start), short(t.download), short(t.compute), short(t.upload), whole(t.local_steps)]));
  }

  draw() {
    const v = this.round, width = this.width = this.svg.clientWidth;
    if (!v || !width) return;
    const narrow = width < 560, end = t => t.start + t.download + t.compute + t.upload + t.waiting, height = top + v.tasks.length * rowHeight + 40;
    const low = Math.min(0, ...v.tasks.map(t => t.start)), high = Math.max(v.seconds, known(v.deadline) ? v.deadline * 1.02 : 0, ...v.tasks.map(end)) || 1;
    const endings = v.tasks.map(t => narrow && t.outcome === 'accepted' ? '✓' : t.outcome);
    const names = v.tasks.map(t => crop(t.name || (t.kind === 'real' ? 'device ' : narrow ? '' : 'client ') + t.client, narrow ? 9 : 24));
    const left = Math.max(narrow ? 48 : 70, 12 + Math.max(...names.map(n => n.length)) * 7.4), right = width - 12 - Math.max(...endings.map(w => w.length)) * 7.6, bottom = height - 36;
    const px = s => left + (right - left) * (s - low) / (high - low), y = i => top + i * rowHeight, bar = (name, from, to, i, more = 3) => make('svg:rect', { ...filled(name), x: from, y: y(i) + more, width: to - from, height: rowHeight - 2 * more });
    const unit = timeUnit(high - low), list = ticks(low / unit.size, high / unit.size, Math.max(2, Math.floor((right - left) / 78))), text = tickText(list);
    const out = document.createDocumentFragment(), classes = [...new Set(v.tasks.map(t => t.class).filter(Boolean))].sort();
    out.append(this.row, make('svg:line', { class: 'axis', x1: left, x2: right, y1: bottom, y2: bottom }), make('svg:text', { x: (left + right) / 2, y: height - 3, 'text-anchor': 'middle' }, `after the round’s start (virtual), ${unit.name}`));
    for (const t of list) {
      const at = px(t * unit.size);
      out.append(make('svg:line', { class: 'axis', x1: at, x2: at, y1: bottom, y2: bottom + 5 }), make('svg:text', { x: at, y: bottom + 18, 'text-anchor': 'middle' }, text(t)));
    }
    v.tasks.forEach((t, i) => {
      out.append(make('svg:text', { class: t.kind === 'real' ? 'name' : '', x: left - 8, y: y(i) + 13, 'text-anchor': 'end' }, names[i]));
      if (t.class) out.append(bar('line-' + classes.indexOf(t.class) % 8, left - 5, left - 1, i));
      const planned = px(Math.min(t.start + t.planned, high));
      if (planned - px(end(t)) > 2) out.append(bar('planned', px(end(t)), planned, i, 4.5));
      let from = t.start;
      for (const phase of phases) {
        if (t[phase] > 0) out.append(bar(phase, px(from), Math.max(px(from) + 0.75, px(from + t[phase])), i));
        from += t[phase];
      }
      out.append(make('svg:text', { class: 'ended ' + t.outcome, x: right + 7, y: y(i) + 13 }, endings[i]));
    });
    const line = (name, s) => out.append(make('svg:line', { class: name, x1: px(s), x2: px(s), y1: top - 4, y2: y(v.tasks.length) + 2 }));
    line('close', v.seconds);
    if (known(v.deadline)) {
      line('deadline', v.deadline);
      out.append(make('svg:text', { class: 'deadline-text', x: Math.min(px(v.deadline), right), y: 13, 'text-anchor': 'end' }, 'deadline ' + duration(v.deadline)));
    }
    this.svg.setAttribute('height', height);
    this.svg.setAttribute('viewBox', `0 0 ${width} ${height}`);
    this.svg.replaceChildren(out);
    const shown = [...phases.filter(p => v.tasks.some(t => t[p] > 0)).map(p => [p, p]), ...(v.tasks.some(t => t.planned > end(t) - t.start) ? [['planned', 'not done']] : []), ...classes.slice(0, 8).map((c, i) => ['line-' + i, crop(c, 20)])];
    this.legend.replaceChildren(...shown.map(([colour, name]) => make('span', {}, swatch(colour), name)));
    this.mark();
  }
}

// showWaiting fills a card that says for which clients runs waited. runs are { part, of }, where of is a snapshot; part has the
// name and look of a line, null where there is one run: then each class has a bar, and otherwise each run.
export function showWaiting(card, title, runs) {
  const rows = runs.filter(r => r.of && r.of.waits && r.of.waits.rounds).map(({ part, of: { waits, summary, spent } }) => (
    { part, waits, share: (summary || waits).straggler_share, wasted: share((summary || spent).client_seconds), energy: summary && summary.energy_joules }));
  card.hidden = rows.length === 0;
  if (!rows.length || !changed(card, rows.map(r => [r.part && [r.part.name, r.part.colour], r.waits, r.share, r.wasted, r.energy]))) return;
  const sum = c => phases.reduce((a, p) => a + c[p], 0);
  const byWait = r => [...r.waits.classes].sort((a, b) => sum(b) - sum(a));
  const bars = rows.flatMap(r => r.part ? [{ row: r, name: [dot(r.part), r.part.name], of: Object.fromEntries(phases.map(p => [p, r.waits.classes.reduce((a, c) => a + c[p], 0)])) }]
    : byWait(r).slice(0, 8).map(c => ({ row: r, name: [c.class], of: c, only: c })));
  const most = Math.max(...bars.map(b => sum(b.of)));
  const slowest = (c, w) => `${c.class} ${w.alike ? '' : `slowest in ${percent(c.rounds / w.rounds)} of rounds, `}${c.late ? `late in ${percent(c.late / w.rounds)} of rounds, ` : ''}mostly ${phases.reduce((a, b) => c[b] > c[a] ? b : a)}`;
  // A class that takes 1/1.1 of its time makes rounds shorter by no more than what its slowest tasks gain, which is nothing for those that are late all the same.
  const gain = (c, w) => {
    const all = w.classes.reduce((a, c) => a + sum(c), 0);
    return `; 10 % faster, rounds are up to ${percent(c.faster / all)} shorter${c.alone ? `; without it, up to ${percent(c.alone / all)}` : ''}`;
  };
  // sentence says which clients hold a run up, and by which phase.
  const sentence = (c, w) => {
    const phase = { download: 'the download', compute: 'local steps', upload: 'the upload', waiting: 'silence' }[phases.reduce((a, b) => c[b] > c[a] ? b : a)];
    const late = c.late ? `, and late at the deadline in ${percent(c.late / w.rounds)} of rounds` : '';
    const slowest = (w.alike ? 'All clients are of one class' : `Rounds wait for clients of the class ${c.class}: one was the slowest in ${percent(c.rounds / w.rounds)} of rounds`) + late;
    return `${slowest}. Most of the slowest client’s time went into ${phase}.`;
  };
  const facts = r => [known(r.share) ? `${percent(r.share)} of a round spent waiting from the median client to the slowest` : null, known(r.wasted) ? `${percent(r.wasted)} of clients’ time wasted` : null,
    r.energy ? short((r.energy.useful + r.energy.wasted) / 1000, 4) + ' kJ' : null].filter(Boolean).join('; ');
  const out = bars.flatMap(b => {
    const bar = make('svg:svg', { role: 'img', 'aria-label': phases.map(p => `${p} ${duration(b.of[p])}`).join(', '), preserveAspectRatio: 'none', viewBox: '0 0 1000 14' });
    let x = 0;
    for (const phase of phases) {
      const width = most ? 1000 * b.of[phase] / most : 0;
      if (width > 0) bar.append(make('svg:rect', { ...filled(phase), x, y: 0, width, height: 14 }));
      x += width;
    }
    const says = b.only ? slowest(b.only, b.row.waits).slice(b.only.class.length + 1) + gain(b.only, b.row.waits) : slowest(byWait(b.row)[0], b.row.waits);
    return [make('span', { class: 'who' }, ...b.name), make('span', { class: 'of' }, bar), make('span', { title: b.only ? null : facts(b.row) }, b.only ? says : `${known(b.row.share) ? percent(b.row.share) + ' of a round; ' : ''}${says}`)];
  });
  const legend = make('span', { class: 'legend' }, ...phases.slice(0, 3).map(p => make('span', {}, swatch(p), p)));
  const about = rows.length === 1 && !rows[0].part ? `${sentence(byWait(rows[0])[0], rows[0].waits)} ${facts(rows[0])}.` : 'What each round’s slowest task took, and the share of a round spent waiting from the median client to the slowest.';
  card.replaceChildren(make('figcaption', {}, make('h2', { id: title }, 'Bottleneck clients'), legend), make('p', { class: 'quiet small' }, about), make('div', { class: 'waits', tabindex: 0, role: 'group', 'aria-labelledby': title }, ...out));
}
