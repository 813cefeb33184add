// --- line charts: uPlot, with a range of x that several charts share

import { make, setText, fillRows, known, short, whole, count, duration, timeUnit, ticks, tickText, secondsText } from './base.js';
import { frame, saveMenu, openSaveMenu } from './save.js';

const uPlot = globalThis.uPlot;
const mostValues = 12; // that stand beside the pointer
const mostNarrow = 5; // on a phone
const narrow = 480; // pixels
const frameTime = 8; // milliseconds that charts may take of a frame
const largeHeight = 480; // pixels
const mostDashed = 6000; // points of a chart with wide and dashed lines

// firstAfter is the first place of a sorted column with a value above v.
export function firstAfter(x, v) {
  let a = 0, b = x.length;
  while (a < b) {
    const m = (a + b) >> 1;
    if (x[m] <= v) a = m + 1; else b = m;
  }
  return a;
}

// within is the part of a line from low to high, with a neighbour on either side.
const within = (line, low, high) => [Math.max(0, firstAfter(line.x, low) - 1), Math.min(line.x.length, firstAfter(line.x, high) + 1)];

// corners are the places of a column that steps need: a value holds from the close before to its own.
export function corners(x, y) {
  const cx = [], cy = [];
  for (let i = 0; i < x.length; i++) {
    if (i === 0 || y[i] === y[i - 1]) continue;
    cx.push(x[i - 1], x[i - 1]);
    cy.push(y[i - 1], y[i]);
  }
  const last = x.length - 1;
  return last < 0 ? { x, y, steps: true } : { x: Float64Array.of(x[0], ...cx, x[last]), y: Float64Array.of(y[0], ...cy, y[last]), steps: true };
}

// measured are the rows of a column that have a value, with those of a band around it.
export function measured(x, y, band) {
  const places = [];
  for (let i = 0; i < y.length; i++) if (known(y[i]) && y[i] === y[i]) places.push(i);
  const of = c => places.length === y.length ? c : Float64Array.from(places, i => c[i]);
  return { x: of(x), y: of(y), ...(band ? { low: of(band[0]), high: of(band[1]) } : {}) };
}

// isConstant says whether a line has one value alone. It is worked out once for a line's values.
const constants = new WeakMap();
export function isConstant({ y }) {
  if (!constants.has(y)) constants.set(y, y.length > 0 && y.every(v => v === y[0]));
  return constants.get(y);
}

// valueAt is the place of what a line says at x: the last measured, of steps the one that holds; -1: nothing. Behind its end,
// if it has one, a line says nothing.
export function valueAt(line, x) {
  if (x > line.end) return -1;
  const end = line.x.length - 1;
  let i = firstAfter(line.x, x) - 1;
  if (i < 0 || i === end) return i;
  if (line.steps) while (i > 0 && line.x[i - 1] === x) i--;
  return line.steps && line.x[i] < x ? i + 1 : i;
}

// meanOf says of how many runs the value of a mean is at a place, if not of all its runs; else it is empty.
export function meanOf({ counts }, at) {
  const isOfAll = !counts || !(counts[at] < counts[0]);
  return isOfAll ? '' : `mean of ${counts[at]} of ${counts[0]}, the others have ended`;
}

// --- colours, of the scheme that the reader prefers

let painted = new Map();
export function paint(name) {
  if (!painted.has(name)) painted.set(name, getComputedStyle(document.documentElement).getPropertyValue('--' + name).trim());
  return painted.get(name);
}

export const dashes = [[], [7, 4], [2, 3], [9, 3, 2, 3]];

// look is the colour and the dashes of the n-th line.
export const look = n => ({ colour: 'line-' + n % 8, dash: dashes[Math.floor(n / 8) % dashes.length] });

// dot is a line's sample among words.
export const dot = line => make('svg:svg', { width: 18, height: 8, 'aria-hidden': 'true', class: 'dot-line' },
  make('svg:line', { x1: 0, x2: 18, y1: 4, y2: 4, 'stroke-width': line.thin ? 1 : 2.5, stroke: `var(--${line.colour})`, 'stroke-dasharray': line.dash && line.dash.length ? line.dash.join(' ') : null }));

// legendOf are buttons, one a line: each hides its line in all charts of the span, and shows it again.
export const legendOf = (span, lines) => lines.map(l => {
  const b = make('button', { type: 'button', class: 'series', 'aria-pressed': String(!span.off.has(l.name)), title: 'Hide or show' }, dot(l), l.name);
  b.addEventListener('click', () => {
    const box = b.parentNode; // a chart makes its own legend anew
    span.toggle(l.name, lines.map(other => other.name));
    [...box.querySelectorAll('.series')].forEach((other, i) => other.setAttribute('aria-pressed', String(!span.off.has(lines[i].name))));
  });
  return b;
});

const all = new Set(); // charts
globalThis.matchMedia?.('(prefers-color-scheme: dark)').addEventListener('change', () => { painted = new Map(); for (const c of all) c.draw(); });
globalThis.addEventListener?.('beforeprint', () => { // paper shows what was out of sight, too
  for (const c of all) { c.visible = true; c.draw(); }
});

// Span is a range of x that charts share: who zooms, moves or reads one does so to all.
export class Span {
  constructor() {
    this.axis = { name: 'virtual time', seconds: true };
    this.most = 0; // the end of x
    this.part = null; // of x; null: everything
    this.cursor = null; // a value of x
    this.places = null; // where alone the cursor stands, and the rounds that end there
    this.changed = () => {};
    this.off = new Set(); // names of lines that the reader has hidden
    this.charts = new Set();
    this.waiting = new Set(); // those to draw
  }

  range() { return this.part || { low: this.axis.low || 0, high: this.most || 1 }; }

  zoom(low, high) {
    this.part = low === null || !(high > low) ? null : { low, high };
    this.showZoom();
    this.redraw();
    this.changed();
  }

  // scale changes the range by a factor around a value.
  scale(factor, around) {
    const { low, high } = this.range(), least = this.axis.low || 0, most = this.most || 1;
    const a = Math.max(least, around - (around - low) * factor), b = Math.min(most, around + (high - around) * factor);
    if (a <= least && b >= most) this.zoom(null); else if (b - a > most * 1e-7) this.zoom(a, b);
  }

  move(from, by) {
    const length = from.high - from.low, low = Math.max(this.axis.low || 0, Math.min((this.most || 1) - length, from.low + by));
    this.zoom(low, low + length);
  }

  // toggle hides the line of that name, or shows it again. names are those of all lines: who hides the last one sees all.
  toggle(name, names) {
    if (!this.off.delete(name)) this.off.add(name);
    if (names.every(n => this.off.has(n))) this.off.clear();
    for (const c of this.charts) c.show();
  }

  // redraw draws all charts: the one that is read in each frame, the others in turn, as many as a frame has time for.
  redraw(charts = this.charts) {
    for (const c of charts) this.waiting.add(c);
    this.frame ||= requestAnimationFrame(() => {
      const end = performance.now() + frameTime;
      this.frame = 0;
      for (const c of [...(this.waiting.has(this.reader) ? [this.reader] : []), ...this.waiting]) {
        if (!this.waiting.delete(c)) continue;
        c.draw();
        if (performance.now() > end) break;
      }
      if (this.waiting.size) this.redraw(this.waiting);
    });
  }

  // point sets the cursor for all, and one chart reads it.
  point(x, reader, height) {
    if (x !== null && this.places && this.places.x.length) {
      const i = firstAfter(this.places.x, x), at = this.places.x;
      x = i > 0 && (i === at.length || x - at[i - 1] <= at[i] - x) ? at[i - 1] : at[i];
    }
    this.cursor = x;
    this.reader = reader;
    for (const c of this.charts) c.mark(c === reader, height);
  }

  text(x) {
    const { seconds, integers, unit, name } = this.axis, at = this.places && this.places.x.indexOf(x);
    if (this.axis.text) return this.axis.text(x);
    const own = seconds ? duration(x) : `${integers ? whole(Math.round(x)) : short(x, 4)} ${unit || name}`;
    return at >= 0 && at !== null ? `round ${whole(this.places.round[at])}, ${own}` : own;
  }

  // tools are the buttons that zoom, and further ones { text, title, act }.
  tools(...more) {
    const middle = () => { const { low, high } = this.range(); return (low + high) / 2; };
    const actions = [
      { text: 'Reset zoom', title: '0, Escape, or a double click in a chart', act: () => this.zoom(null) },
      { text: 'Zoom in', title: 'Ctrl and the wheel, + and -, or a drag over a part', act: () => this.scale(0.5, middle()) },
      { text: 'Zoom out', act: () => this.scale(2, middle()) },
      ...more,
    ];
    this.bar = make('div', { class: 'buttons', role: 'group', 'aria-label': 'Actions' }, ...actions.map(({ text, title, act }) => {
      const b = make('button', { type: 'button', title }, text);
      b.addEventListener('click', () => act(b));
      return b;
    }));
    this.showZoom();
    return this.bar;
  }

  // showZoom lets the zoom be reset only if there is one.
  showZoom() { if (this.bar) this.bar.firstChild.disabled = !this.part; }
}

// LineChart is a figure of lines { name, x, y, colour, dash, wide, thin, low, high, steps, fill }: x ascends,
// low and high make a band. Its drawing is a slider for those who use keys.
export class LineChart {
  constructor(span, id, title, options = {}) {
    Object.assign(this, { span, id, options, given: [], lines: [], at: [], log: !!options.log, visible: false });
    this.heading = make('h2', { id: id + '-title', title: options.help }, title);
    this.scale = make('button', { type: 'button', class: 'toggle', tabindex: -1, 'aria-pressed': String(this.log), title: 'Logarithmic scale (L)' }, 'log');
    this.enlarge = make('button', { type: 'button', class: 'toggle', tabindex: -1, 'aria-pressed': 'false', 'aria-label': 'Enlarge', title: 'As wide as the page (F)' },
      make('svg:svg', { width: 11, height: 11, 'aria-hidden': 'true' }, make('svg:path', { d: 'M1 4V1h3M7 1h3v3M10 7v3H7M4 10H1V7', fill: 'none', stroke: 'currentColor', 'stroke-width': 1.5 })));
    this.legend = make('div', { class: 'legend' });
    this.tip = make('div', { class: 'tip', hidden: '' });
    this.plot = make('div', {
      class: 'plot', tabindex: 0, role: 'slider', 'aria-labelledby': id + '-title', 'aria-valuemin': 0, 'aria-valuemax': 100, 'aria-valuenow': 100,
      'aria-valuetext': 'nothing yet', 'aria-orientation': 'horizontal', 'aria-keyshortcuts': 'F L T S',
    }, this.tip);
    this.plot.style.minHeight = this.height() + 'px'; // also before it is drawn
    this.reading = make('p', { class: 'reading' });
    this.table = make('table');
    this.details = make('details', {}, make('summary', { tabindex: -1, title: 'T' }, 'Data table'),
      make('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': title + ', table' }, this.table));
    this.figure = make('figure', { id, hidden: options.waits ? null : '' }, make('figcaption', {}, this.heading, options.bare ? null : this.scale, this.enlarge, saveMenu(title, () => this.svg(), () => this.rows()), this.legend, options.about ? make('p', { class: 'quiet small' }, options.about) : null), this.plot, this.reading, this.details);
    this.scale.addEventListener('click', () => { this.log = !this.log; this.draw(); });
    this.enlarge.addEventListener('click', () => this.resize());
    this.details.addEventListener('toggle', () => this.fillTable());
    this.listen();
    new IntersectionObserver(entries => {
      this.visible = entries[entries.length - 1].isIntersecting;
      if (this.visible && this.stale) this.draw();
    }, { rootMargin: '50px' }).observe(this.figure);
    new ResizeObserver(entries => { // to ask for the width while others are drawn has the page laid out for each
      this.width = Math.round(entries[entries.length - 1].contentRect.width);
      this.draw();
    }).observe(this.plot);
    span.charts.add(this);
    all.add(this);
  }

  // height is the drawing's in pixels.
  height() { return this.isLarge ? largeHeight : this.options.height || 240; }

  // resize makes the chart as wide as the page and higher, or brings it back to its place.
  resize() {
    this.isLarge = !this.isLarge;
    this.enlarge.setAttribute('aria-pressed', String(this.isLarge));
    this.figure.classList.toggle('wide', this.isLarge);
    this.plot.style.minHeight = this.height() + 'px';
    this.draw();
    this.figure.scrollIntoView({ block: 'nearest' });
  }

  // set gives it lines, and what is said below them; null: nothing is known.
  set(lines, note) {
    this.given = (lines || []).filter(l => l.x.length);
    this.figure.hidden = !this.given.length;
    this.note = note;
    this.show();
  }

  // show draws the lines that are not hidden. If all of this chart's are, it shows them.
  show() {
    const { off } = this.span;
    const some = this.given.filter(l => !off.has(l.name));
    this.lines = some.length ? some : this.given;
    this.fresh = true;
    this.seen = null;
    this.name(this.given);
    this.draw();
    this.fillTable();
  }

  // name fills the legend, if the chart has its own and more than one of the lines has a name.
  name(lines) {
    const named = this.options.legend ? lines.filter(l => l.name) : [];
    const key = named.map(l => [l.name, l.colour, l.dash, this.span.off.has(l.name)]).join('\n');
    if (named.length < 2 || key === this.named) return; // a button that has the focus stays
    this.named = key;
    const focus = [...this.legend.children].indexOf(document.activeElement);
    this.legend.replaceChildren(...legendOf(this.span, named));
    if (focus >= 0) this.legend.children[focus]?.focus();
  }

  // rows are all points of all lines, for a file.
  rows() {
    const { axis } = this.span;
    const title = this.heading.textContent;
    const head = ['series', axis.name + (axis.seconds ? ', s' : axis.unit ? ', ' + axis.unit : ''), title + (this.options.seconds ? ', s' : ''), 'low', 'high'];
    return [head, ...this.given.flatMap(l => Array.from(l.x, (x, i) => [l.name || title, x, l.y[i], l.low?.[i], l.high?.[i]]))];
  }

  // svg is the chart as a file's text: what is in sight, as vectors.
  svg() {
    const { axis } = this.span;
    const { low, high } = this.span.range();
    const unit = axis.seconds ? timeUnit(high) : { size: 1, name: axis.unit || '' };
    const [least, most] = this.extent(low, high);
    const log = this.log && least > 0;
    const [bottom, top] = this.axisOf(least, most, log);
    const size = { width: 840, height: 360, left: 64, foot: 320 };
    const along = axis.log ? Math.log10 : v => v;
    const up = log ? Math.log10 : v => v;
    const px = x => size.left + (size.width - size.left) * (along(x) - along(low)) / (along(high) - along(low));
    const py = y => size.foot - size.foot * (up(y) - up(bottom)) / (up(top) - up(bottom));
    const text = (x, y, anchor, words) => make('svg:text', { x, y, 'text-anchor': anchor, fill: paint('quiet') }, words);
    const xs = axis.log ? [low, high].map(v => v / unit.size) : ticks(low / unit.size, high / unit.size, 8, axis.integers);
    const ys = log ? [bottom, top] : ticks(bottom, top, 6);
    const out = [...xs.map(v => text(px(v * unit.size), size.foot + 18, 'middle', tickText(xs)(v))),
      ...ys.flatMap(v => [make('svg:line', { x1: size.left, x2: size.width, y1: py(v), y2: py(v), stroke: paint('grid') }), text(size.left - 8, py(v) + 4, 'end', this.tickText(ys)(v))]),
      text((size.left + size.width) / 2, size.foot + 38, 'middle', [axis.name, unit.name].filter(Boolean).join(', '))];
    this.lines.forEach((l, i) => {
      const [from, to] = within(l, low, high);
      const places = Array.from({ length: to - from }, (_, n) => from + n).filter(n => l.x[n] >= low && l.x[n] <= high);
      const path = (y, order = places) => order.map(n => `${px(l.x[n]).toFixed(1)},${py(y[n]).toFixed(1)}`).join(' ');
      const colour = paint(l.colour);
      if (l.low) out.push(make('svg:polygon', { points: `${path(l.high)} ${path(l.low, [...places].reverse())}`, fill: colour, opacity: 0.16 }));
      out.push(make('svg:polyline', { points: path(l.y), fill: 'none', stroke: colour, 'stroke-width': l.thin ? 1 : 2, 'stroke-dasharray': l.dash?.length ? l.dash.join(' ') : null }));
      if (l.name) {
        out.push(make('svg:line', { x1: size.left, x2: size.left + 22, y1: size.height + 20 + 18 * i, y2: size.height + 20 + 18 * i, stroke: colour, 'stroke-width': 3, 'stroke-dasharray': l.dash?.length ? l.dash.join(' ') : null }),
          text(size.left + 30, size.height + 24 + 18 * i, 'start', l.name));
      }
    });
    return frame(size.width, size.height + 24 + 18 * this.lines.filter(l => l.name).length, this.heading.textContent, ...out);
  }

  // extent is the range of y in sight. A loose band does not count: beside it, all lines would look flat.
  extent(low, high) {
    let least = Infinity, most = -Infinity;
    for (const line of this.lines) {
      const [from, to] = within(line, low, high);
      for (const y of line.low && !line.loose ? [line.y, line.low, line.high] : [line.y]) {
        for (let i = from; i < to; i++) {
          if (y !== line.y && line.counts?.[i] < 3) continue;
          const v = this.options?.share ? Math.min(1, Math.max(0, y[i])) : y[i];
          if (v < least) least = v;
          if (v > most) most = v;
        }
      }
    }
    return most >= least ? [least, most] : [0, 1];
  }

  // tickText writes the ticks of the vertical axis, times with their unit.
  tickText(list, log) {
    const some = list.filter(known);
    if (log) return this.options.seconds ? duration : v => short(v, 2);
    return this.options.seconds ? secondsText(some) : tickText(list);
  }

  // axisOf is the axis for values of this extent. That of a share ends at 0 and 1, however wide a band is.
  axisOf(least, most, log) {
    if (log) return uPlot.rangeLog(least, most, 10, false);
    const [bottom, top] = uPlot.rangeNum(this.options.fromZero ? 0 : least, most || 1, 0.1, true);
    return this.options.share ? [Math.max(0, bottom), Math.min(1, top)] : [bottom, top];
  }

  // draw draws the lines in the shared range. What is out of sight waits.
  draw() {
    this.stale = true;
    this.scale.setAttribute('aria-pressed', String(this.log));
    if (!this.visible || !this.lines.length || !this.width) return;
    this.stale = false;
    const { low, high } = this.span.range(), [least, most] = this.seen = this.extent(low, high), log = this.log && least > 0;
    const key = JSON.stringify([log, this.span.axis.log, this.lines.map(l => [l.wide, l.thin, l.dash, !!l.low, !!l.fill])]);
    if (key !== this.key) this.build(key, log);
    const u = this.u;
    if (u.width !== this.width || u.height !== this.height()) u.setSize({ width: this.width, height: this.height() });
    const [a, b] = this.axisOf(least, most, log);
    const dense = this.lines.reduce((n, l) => { const [from, to] = within(l, low, high); return n + to - from; }, 0) > mostDashed;
    u.series.forEach((s, i) => { if (i) Object.assign(s, this.stroke(this.lines[i - 1], dense)); });
    u.batch(() => {
      if (this.fresh) u.setData(this.data(), false);
      u.setScale('x', { min: low, max: high });
      u.setScale('y', { min: a, max: b });
    });
    this.fresh = false;
    this.mark(!this.tip.hidden);
  }

  // stroke is the pen of a line: of very many points a hair's, since wide and dashed strokes take the browser ten times
  // as long.
  stroke(line, dense) {
    return dense ? { width: line.wide ? 2 : 1, dash: null } : { width: line.thin ? 1 : line.wide ? 2 : 1.5, dash: line.dash && line.dash.length ? line.dash.map(d => d * devicePixelRatio) : null };
  }

  data() { return [null, ...this.lines.map(l => [l.x, l.y])]; }

  build(key, log) {
    if (this.u) this.u.destroy();
    this.key = key;
    this.fresh = false;
    const unit = () => this.span.axis.seconds ? timeUnit(this.span.range().high) : { size: 1, name: this.span.axis.unit || '' };
    const steps = [1, 2, 2.5, 5].flatMap(m => Array.from({ length: 24 }, (_, i) => m * 10 ** (i - 9))).sort((a, b) => a - b);
    const font = '12px ' + getComputedStyle(document.body).fontFamily;
    const axis = more => ({ stroke: () => paint('quiet'), grid: { stroke: () => paint('grid'), width: 1 }, ticks: { stroke: () => paint('line'), size: 4, width: 1 }, font, labelFont: font, ...more });
    this.u = new uPlot({
      mode: 2, width: this.width, height: this.height(), padding: [10, 22, 0, 0], legend: { show: false },
      scales: { x: { time: false, auto: false, distr: this.span.axis.log ? 3 : 1 }, y: { auto: false, distr: log ? 3 : 1 } },
      axes: [
        axis({
          grid: { show: false }, label: () => [this.span.axis.name, unit().name].filter(Boolean).join(', '), labelSize: 18, size: 26, space: 70,
          incrs: this.span.axis.log ? undefined : () => steps.filter(s => !this.span.axis.integers || Number.isInteger(s)).map(s => s * unit().size),
          values: (_, splits) => { const { size } = unit(), text = tickText(splits.map(v => v / size)); return splits.map(v => v === null ? '' : text(v / size)); },
        }),
        axis({
          incrs: log ? undefined : this.options.seconds ? (_, __, low, high) => steps.map(s => s * timeUnit(high).size) : steps.filter(s => !this.options.integers || Number.isInteger(s)), space: 30,
          values: (_, splits) => { const text = this.tickText(splits, log); return splits.map(v => v === null ? '' : text(v)); },
          size: this.options.stacked ? 62 : (_, values) => 14 + 7.2 * Math.max(2, ...(values || []).map(v => v.length)),
        }),
      ],
      series: [null, ...this.lines.map((line, i) => ({
        facets: [{ scale: 'x', auto: false }, { scale: 'y', auto: false }], paths: (u, at) => this.paths(u, at), stroke: () => paint(this.lines[i].colour),
        fillTo: () => 0, fill: line.low || line.fill ? () => paint(this.lines[i].colour) + (line.fill ? 'a0' : this.lines.length > 6 ? '14' : '29') : undefined,
        points: { size: 5, fill: () => paint(this.lines[i].colour), show: true, filter: (_, at) => this.dots(at) },
      }))],
      cursor: {
        y: false, drag: { x: true, y: false, setScale: false }, points: { size: 8 }, dataIdx: (_, i) => this.at[i - 1] >= 0 ? this.at[i - 1] : null,
        bind: { dblclick: () => () => null, mousedown: (_, __, handler) => e => e.shiftKey ? null : handler(e) },
      },
      hooks: {
        setSelect: [u => {
          const { left, width } = u.select;
          u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
          if (width > 5) this.span.zoom(u.posToVal(left, 'x'), u.posToVal(left + width, 'x'));
        }],
        draw: [u => this.marks(u)],
      },
    }, this.data(), this.plot);
  }

  // paths are uPlot's own for the part in sight, with the band.
  paths(u, at) {
    const line = this.lines[at - 1], { low, high } = this.span.range(), [from, to] = within(line, low, high);
    if (to - from > 4 * this.width) return { stroke: this.columns(u, line, from, to) };
    const p = uPlot.paths.linear()(u, at, from, Math.max(from, to - 1));
    if (p && line.low) {
      p.fill = new Path2D();
      const px = i => u.valToPos(line.x[i], 'x', true), py = v => u.valToPos(v, 'y', true);
      for (let i = from; i < to; i++) p.fill.lineTo(px(i), py(line.high[i]));
      for (let i = to - 1; i >= from; i--) p.fill.lineTo(px(i), py(line.low[i]));
    }
    return p;
  }

  // columns is a line of very many points: in each column of pixels a run from its least to its greatest value. The
  // dashes are columns that are left out.
  columns(u, line, from, to) {
    const path = new Path2D(), { x, y } = line, [on, off] = line.dash && line.dash.length ? line.dash : [1, 0], period = on + off;
    const log = u.scales.y.distr === 3 ? Math.log10 : v => v, x0 = u.valToPos(x[from], 'x', true), perX = (u.valToPos(x[to - 1], 'x', true) - x0) / (x[to - 1] - x[from]);
    const { min, max } = u.scales.y, y0 = u.bbox.top + u.bbox.height, perY = u.bbox.height / (log(max) - log(min)), low = log(min);
    let column = -1, least = 0, most = 0;
    for (let i = from; i <= to; i++) {
      const at = i < to ? Math.floor(x0 + (x[i] - x[from]) * perX) : Infinity, v = i < to ? y[i] : 0;
      if (at !== column) {
        if (column >= 0 && column % period < on) {
          path.moveTo(column + 0.5, y0 - (log(most) - low) * perY);
          path.lineTo(column + 0.5, y0 - (log(least) - low) * perY + 1);
        }
        column = at;
        const last = i > from ? y[i - 1] : v;
        least = Math.min(last, v);
        most = Math.max(last, v);
      } else if (v < least) least = v; else if (v > most) most = v;
    }
    return path;
  }

  // dots are the places of few points, which are drawn as such.
  dots(at) {
    const line = this.lines[at - 1], { low, high } = this.span.range(), [from, to] = within(line, low, high);
    return line.thin || line.steps && line.x[to - 1] > line.x[from] || to - from > 60 ? null : Array.from({ length: to - from }, (_, i) => from + i);
  }

  // marks draws what happened above the curves: a triangle a checkpoint, a cross a lost device, a square a
  // change of K_r.
  marks(u) {
    const { low, high } = this.span.range(), g = u.ctx, s = devicePixelRatio;
    g.save(); // uPlot remembers the font of its axes
    Object.assign(g, { font: `${10 * s}px sans-serif`, textAlign: 'center', textBaseline: 'middle' });
    for (const m of this.span.marks || []) {
      if (m.x < low || m.x > high) continue;
      g.fillStyle = paint(m.colour);
      g.fillText({ checkpoint: '▲', device: '✕' }[m.kind] || '■', u.valToPos(m.x, 'x', true), u.bbox.top - 3 * s);
    }
    g.restore();
  }

  // mark draws the cursor; who reads says what is there, beside it.
  mark(reads, height) {
    const x = this.span.cursor, u = this.u;
    this.at = x === null ? [] : this.lines.map(l => valueAt(l, x));
    if (u && !this.stale) u.setCursor(x === null ? { left: -10, top: -10 } : { left: u.valToPos(x, 'x'), top: 10 }, false);
    this.tip.hidden = !reads || x === null || !this.lines.length;
    const says = this.describe();
    setText(this.reading, this.note || says);
    if (this.tip.hidden) {
      if (this.plot.getAttribute('aria-valuetext') !== says) this.plot.setAttribute('aria-valuetext', says);
      return;
    }
    const { low, high } = this.span.range(), own = this.options.text || (v => short(v, 4)), base = this.lines.findIndex(l => l.base), than = base < 0 ? undefined : this.lines[base].y[this.at[base]];
    const text = (v, line) => own(v) + (than === undefined || !line || line.base ? '' : ` (${v < than ? '−' : '+'}${short(Number(Math.abs(v - than).toPrecision(3)), 3)})`);
    let values = this.lines.map((line, i) => ({ line, y: line.y[this.at[i]], of: meanOf(line, this.at[i]) })).filter(v => v.y !== undefined);
    const most = this.width < narrow ? mostNarrow : mostValues, more = values.length - most;
    if (this.options.sorted) {
      const near = u && known(height) ? u.posToVal(height, 'y') : Infinity;
      if (more > 0) values = values.sort((a, b) => near === Infinity ? b.y - a.y : Math.abs(a.y - near) - Math.abs(b.y - near)).slice(0, most);
      values.sort((a, b) => b.y - a.y);
    }
    const words = [this.span.text(x), ...values.map(v => [`${v.line.name || this.heading.textContent} ${text(v.y, v.line)}`, v.of].filter(Boolean).join(', ')), ...(more > 0 && this.options.sorted ? [`and ${more} more`] : [])];
    this.plot.setAttribute('aria-valuetext', words.join(', '));
    this.plot.setAttribute('aria-valuenow', high > low ? Math.round(100 * (x - low) / (high - low)) : 100);
    this.tip.replaceChildren(make('b', {}, words[0]), ...values.map(v => make('span', {}, dot(v.line), make('b', {}, text(v.y, v.line)), ' ' + [v.line.name, v.of].filter(Boolean).join(', '))), more > 0 && this.options.sorted ? make('span', {}, `and ${more} more`) : '');
    if (!u) return;
    const left = u.bbox.left / devicePixelRatio + u.valToPos(x, 'x'), beyond = left > this.width / 2;
    Object.assign(this.tip.style, { left: beyond ? 'auto' : left + 14 + 'px', right: beyond ? this.width - left + 14 + 'px' : 'auto' });
  }

  describe() {
    const n = this.lines.length, text = this.options.text || (v => short(v, 4));
    if (!n) return 'Nothing was measured here.';
    if (!this.options.sorted) return this.lines.map(l => `${l.name || this.heading.textContent} ${text(l.y[l.y.length - 1])}`).join(', ');
    const [least, most] = this.seen || this.extent(this.span.range().low, this.span.range().high);
    const loose = this.lines.some(l => l.loose) ? '; bands of two runs go beyond the chart' : '';
    return `${count(n, 'curve', 'curves')}, from ${text(least)} to ${text(most)}${loose}`;
  }

  fillTable() {
    if (!this.details.open) return;
    const { low, high } = this.span.range(), p = this.span.places, text = this.options.text || (v => short(v, 6)), rows = [];
    const each = p ? Math.max(1, Math.ceil(p.x.length / 50)) : 0;
    const xs = p ? Array.from(p.x).filter((_, i) => i % each === 0 || i === p.x.length - 1) : Array.from({ length: 21 }, (_, i) => low + (high - low) * i / 20);
    for (const x of xs) {
      const at = this.lines.map(l => valueAt(l, x));
      rows.push([...(p ? [whole(p.round[p.x.indexOf(x)])] : []), this.span.axis.seconds ? short(x, 7) : short(x, 6), ...this.lines.map((l, i) => at[i] >= 0 ? text(l.y[at[i]]) + (meanOf(l, at[i]) && ` (${l.counts[at[i]]} of ${l.counts[0]})`) : '')]);
    }
    fillRows(this.table, [...(p ? ['round'] : []), this.span.axis.name + (this.span.axis.seconds ? ', s' : ''), ...this.lines.map(l => l.name || this.heading.textContent)], rows);
  }

  // listen: the pointer reads; a drag chooses a range, with Shift it moves the range; the wheel with
  // Ctrl zooms, sideways it moves. Keys do the same.
  listen() {
    const { plot, span } = this;
    let drag = null;
    const left = e => e.clientX - this.u.over.getBoundingClientRect().left;
    const value = e => { const { low, high } = span.range(); return Math.max(low, Math.min(high, this.u.posToVal(left(e), 'x'))); };
    plot.addEventListener('pointerdown', e => {
      if (!this.u || e.button > 0) return;
      drag = { from: left(e), range: span.range(), moves: e.pointerType !== 'mouse' || e.shiftKey };
      if (drag.moves && span.part) plot.setPointerCapture(e.pointerId);
    });
    plot.addEventListener('pointermove', e => {
      if (!this.u) return;
      if (drag && drag.moves && span.part) span.move(drag.range, (drag.from - left(e)) * (drag.range.high - drag.range.low) / this.u.over.clientWidth);
      else span.point(value(e), this, e.clientY - this.u.over.getBoundingClientRect().top);
    });
    for (const end of ['pointerup', 'pointercancel']) plot.addEventListener(end, () => { drag = null; });
    plot.addEventListener('pointerleave', e => { if (!drag && e.pointerType === 'mouse' && document.activeElement !== plot) span.point(null); });
    plot.addEventListener('dblclick', () => span.zoom(null));
    plot.addEventListener('wheel', e => {
      const { low, high } = span.range();
      if (e.ctrlKey) {
        e.preventDefault();
        span.scale(Math.exp(e.deltaY / 300), value(e));
      } else if (span.part && Math.abs(e.deltaX) > Math.abs(e.deltaY)) {
        e.preventDefault();
        span.move({ low, high }, (high - low) * e.deltaX / 800);
      }
    }, { passive: false });
    plot.addEventListener('focus', () => { if (span.cursor === null && plot.matches(':focus-visible')) span.point(span.range().high, this); });
    plot.addEventListener('blur', () => span.point(null));
    plot.addEventListener('keydown', e => {
      if (e.ctrlKey || e.metaKey || e.altKey || e.target !== plot) return;
      const { low, high } = span.range(), step = (high - low) / 100, from = span.cursor === null ? high : span.cursor;
      const to = x => span.point(Math.max(low, Math.min(high, x)), this);
      // next is the next place, or a hundredth on where places are closer.
      const next = by => {
        const x = span.places && span.places.x, i = x ? firstAfter(x, from) + (by < 0 ? -2 : 0) : -1;
        to(x && i >= 0 && i < x.length && Math.abs(x[i] - from) > step / 2 ? x[i] : from + by * step);
      };
      const keys = {
        ArrowLeft: () => e.shiftKey ? span.move({ low, high }, -10 * step) : next(-1), ArrowRight: () => e.shiftKey ? span.move({ low, high }, 10 * step) : next(1),
        PageDown: () => to(from - 10 * step), PageUp: () => to(from + 10 * step), Home: () => to(low), End: () => to(high),
        '+': () => span.scale(0.5, from), '=': () => span.scale(0.5, from), '-': () => span.scale(2, from), l: () => this.scale.click(), f: () => this.resize(), t: () => { this.details.open = !this.details.open; }, s: () => openSaveMenu(this.figure), 0: () => span.zoom(null), Escape: () => span.zoom(null),
      };
      if (keys[e.key]) { e.preventDefault(); keys[e.key](); }
    });
  }
}
