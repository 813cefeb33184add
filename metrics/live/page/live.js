// Draws a run from its snapshots. On the live page they come as server-sent
// events; in the file that a finished run leaves, one is in the page. Texts of
// the run enter the page as text nodes only.
(function () {
'use strict';

// --- elements

const SVG = 'http://www.w3.org/2000/svg';
const $ = id => document.getElementById(id);

// make is an element with attributes and children; a string is a text node.
function make(name, attributes, ...children) {
  const e = name.startsWith('svg:') ? document.createElementNS(SVG, name.slice(4)) : document.createElement(name);
  for (const key in attributes) {
    if (attributes[key] !== null && attributes[key] !== undefined) e.setAttribute(key, attributes[key]);
  }
  e.append(...children.filter(c => c !== null && c !== undefined));
  return e;
}

// setText changes a text only where it differs: a screen reader hears changes.
function setText(e, text) {
  if (e.textContent !== text) e.textContent = text;
}

// --- numbers for people

const known = v => v !== null && v !== undefined;
const grouped = new Intl.NumberFormat('en-GB');
const whole = v => known(v) ? grouped.format(v) : '–';
const fixed = (v, digits) => known(v) ? v.toFixed(digits) : '–';

// short has at most so many significant digits and no trailing zeros.
function short(v, digits = 4) {
  if (!known(v)) return '–';
  if (v === 0) return '0';
  const size = Math.abs(v);
  if (size >= 1e6 || size < 1e-4) return v.toExponential(Math.max(0, digits - 2)).replace(/\.?0+e/, 'e').replace('e+', 'e');
  return size >= 1000 ? grouped.format(Math.round(v)) : String(Number(v.toPrecision(digits)));
}

// duration is a time in its two largest units.
function duration(s) {
  if (!known(s)) return '–';
  if (s < 60) return short(s, 3) + ' s';
  const parts = [[86400, 'd'], [3600, 'h'], [60, 'min'], [1, 's']];
  const first = parts.findIndex(p => s >= p[0]);
  let rest = Math.round(s / parts[first + 1 < 4 ? first + 1 : 3][0]) * parts[first + 1 < 4 ? first + 1 : 3][0];
  let out = '';
  for (const [size, name] of parts.slice(first === 0 || rest < parts[first - 1][0] ? first : first - 1, first + 2)) {
    const n = Math.floor(rest / size);
    rest -= n * size;
    if (n > 0) out += (out ? ' ' : '') + whole(n) + ' ' + name;
  }
  return out;
}

function bytes(v) {
  const units = ['B', 'kB', 'MB', 'GB', 'TB', 'PB', 'EB'];
  let i = 0;
  for (; v >= 1000 && i < units.length - 1; i++) v /= 1000;
  return short(v, 3) + ' ' + units[i];
}

const crop = (text, most) => text.length > most ? text.slice(0, most - 1) + '…' : text;
const percent = f => short(100 * f, 3) + ' %';
const count = (n, one, many) => whole(n) + ' ' + (n === 1 ? one : many);

// timeUnit is the unit of an axis on which so many seconds are the longest.
function timeUnit(seconds) {
  for (const [size, name] of [[86400, 'days'], [3600, 'hours'], [60, 'minutes']]) {
    if (seconds >= 3 * size) return { size, name };
  }
  if (seconds > 0 && seconds < 0.05) return { size: 1e-3, name: 'milliseconds' };
  return { size: 1, name: 'seconds' };
}

// ticks are round numbers from low to high.
function ticks(low, high, most, integers) {
  if (!(high > low)) return [low];
  const rough = (high - low) / Math.max(1, most);
  const power = Math.pow(10, Math.floor(Math.log10(rough)));
  const steps = [1, 2, 2.5, 5, 10].map(m => m * power).filter(s => !integers || Number.isInteger(s));
  const step = steps.find(s => s >= rough * (1 - 1e-9)) || 1;
  const out = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; i++) out.push(i * step);
  return out;
}

// logTicks are 1, 2 and 5 of each power of ten, or the powers alone.
function logTicks(low, high, most) {
  for (const factors of [[1, 2, 5], [1]]) {
    const out = [];
    for (let p = Math.floor(Math.log10(low)); p <= Math.ceil(Math.log10(high)); p++) {
      for (const f of factors) {
        const v = f * Math.pow(10, p);
        if (v >= low * (1 - 1e-9) && v <= high * (1 + 1e-9)) out.push(v);
      }
    }
    if (out.length <= most || factors.length === 1) {
      const each = Math.ceil(out.length / Math.max(1, most));
      return out.filter((_, i) => i % each === 0);
    }
  }
}

// tickText writes a tick with as many decimals as its neighbours need.
function tickText(list) {
  const step = list.length > 1 ? Math.min(...list.slice(1).map((v, i) => v - list[i])) : Math.abs(list[0]) || 1;
  const top = Math.max(...list.map(Math.abs));
  if (top >= 1e6 || (top > 0 && top < 1e-3)) return v => v === 0 ? '0' : short(v, 3);
  let digits = Math.max(0, Math.min(6, -Math.floor(Math.log10(step) + 1e-9)));
  while (digits < 6 && list.some(v => Math.abs(Number(v.toFixed(digits)) - v) > step * 1e-3)) digits++;
  return v => top >= 10000 ? grouped.format(Number(v.toFixed(digits))) : v.toFixed(digits);
}

// --- charts

const charts = [];

// Chart is a figure with a title, a legend, a drawing, what the cursor reads
// and a table. Its drawing is a slider for those who use keys: the arrows move
// the cursor from value to value, and each is read out.
class Chart {
  constructor(id, title, options) {
    this.id = id;
    this.height = options.height || 240;
    this.options = options;
    this.cursor = -1;
    this.legend = make('div', { class: 'legend' });
    this.heading = make('h2', { id: id + '-title' }, title);
    this.svg = make('svg:svg', {
      tabindex: 0, role: 'slider', 'aria-labelledby': id + '-title', 'aria-valuemin': 0, 'aria-valuemax': 0, 'aria-valuenow': 0,
      'aria-valuetext': 'nothing yet', 'aria-orientation': 'horizontal',
    });
    this.reading = make('output', { class: 'reading', 'aria-live': 'off' });
    this.table = make('table');
    this.details = make('details', {}, make('summary', {}, 'The same as a table'), make('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': title + ', table' }, this.table));
    this.figure = make('figure', { id, class: options.wide ? 'wide' : null },
      make('figcaption', {}, this.heading, this.legend), make('div', { class: 'plot' }, this.svg), this.reading, this.details);
    $('charts').append(this.figure);
    this.details.addEventListener('toggle', () => this.fillTable());
    this.svg.addEventListener('keydown', e => this.key(e));
    this.svg.addEventListener('pointermove', e => this.point(e));
    this.svg.addEventListener('pointerdown', e => this.point(e));
    this.svg.addEventListener('pointerleave', e => { if (e.pointerType === 'mouse' && document.activeElement !== this.svg) this.move(-1); });
    this.svg.addEventListener('blur', () => this.move(-1));
    this.svg.addEventListener('focus', () => { if (this.cursor < 0 && this.svg.matches(':focus-visible')) this.move(this.length() - 1); });
    new ResizeObserver(() => {
      if (this.svg.clientWidth !== this.width) this.draw();
    }).observe(this.svg);
    charts.push(this);
  }

  set(view) {
    this.view = view;
    this.figure.hidden = !view;
    if (!view) return;
    if (this.cursor >= this.length()) this.cursor = this.length() - 1;
    this.draw();
    if (this.details.open) this.fillTable();
  }

  length() { return this.view ? this.view.length : 0; }

  key(e) {
    const far = Math.max(1, Math.round(this.length() / 10));
    const steps = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, PageDown: -far, PageUp: far, Home: -Infinity, End: Infinity };
    if (e.key === 'Escape') { this.move(-1); return; }
    if (!(e.key in steps) || e.ctrlKey || e.metaKey || e.altKey || !this.length()) return;
    e.preventDefault();
    let step = steps[e.key];
    if (this.view.vertical && (e.key === 'ArrowDown' || e.key === 'ArrowUp' || e.key.startsWith('Page'))) step = -step;
    const from = this.cursor < 0 ? this.length() : this.cursor;
    this.move(Math.max(0, Math.min(this.length() - 1, from + step)));
  }

  point(e) {
    if (!this.view || !this.find) return;
    const box = this.svg.getBoundingClientRect();
    this.move(this.find(e.clientX - box.left, e.clientY - box.top));
  }

  move(to) {
    if (to === this.cursor) return;
    this.cursor = to;
    this.mark();
  }

  // mark shows what is at the cursor, in the drawing and in words.
  mark() {
    if (this.overlay) this.overlay.replaceChildren();
    const words = this.cursor >= 0 && this.length() ? this.view.read(this.cursor) : null;
    if (words && this.overlay) this.drawCursor(this.overlay);
    const svg = this.svg;
    svg.setAttribute('aria-valuemax', Math.max(0, this.length() - 1));
    svg.setAttribute('aria-valuenow', Math.max(0, this.cursor < 0 ? this.length() - 1 : this.cursor));
    svg.setAttribute('aria-valuetext', words ? words.map(w => w.join(' ').trim()).join(', ') : this.view && this.view.describe ? this.view.describe() : 'nothing yet');
    this.reading.replaceChildren();
    if (words) {
      words.forEach(([name, value], i) => this.reading.append(i ? ' · ' : '', name ? name + ' ' : '', make('b', {}, value)));
    } else if (this.view) {
      const note = this.view.note || this.view.describe();
      this.reading.append(/^[a-z]{2}/.test(note) ? note[0].toUpperCase() + note.slice(1) : note);
    }
  }

  setLegend(entries) {
    const key = JSON.stringify(entries);
    if (key === this.legendKey) return;
    this.legendKey = key;
    this.legend.replaceChildren(...entries.map(([kind, colour, text]) => make('span', {}, swatch(kind, colour), text)));
  }

  fillTable() {
    if (!this.details.open || !this.view) return;
    const { head, rows } = this.view.table();
    this.table.replaceChildren(
      make('thead', {}, make('tr', {}, ...head.map(h => make('th', { scope: 'col' }, h)))),
      make('tbody', {}, ...rows.map(r => make('tr', {}, ...r.map(c => make('td', {}, c))))));
  }

  // frame draws axes and grid and returns the scales.
  frame(x, y, margin) {
    const width = this.width = Math.max(220, this.svg.clientWidth);
    const height = this.height;
    this.svg.setAttribute('height', height);
    this.svg.setAttribute('viewBox', `0 0 ${width} ${height}`);
    const yTicks = y.ticks;
    const yText = y.text || tickText(yTicks);
    const left = margin && margin.left || 10 + Math.max(...yTicks.map(t => yText(t).length)) * 7.2;
    const box = { left, right: width - (margin && margin.right || 10), top: margin && margin.top || 30, bottom: height - 36 };
    const logarithmic = x.logarithmic;
    const across = v => logarithmic ? Math.log(v) : v;
    const x0 = across(x.low), x1 = across(x.high);
    const px = v => box.left + (box.right - box.left) * (x1 > x0 ? (across(v) - x0) / (x1 - x0) : 0.5);
    const py = v => box.bottom - (box.bottom - box.top) * (y.high > y.low ? (v - y.low) / (y.high - y.low) : 0.5);
    const out = document.createDocumentFragment();
    if (!y.bare) {
      for (const t of yTicks) {
        out.append(make('svg:line', { class: 'gridline', x1: box.left, x2: box.right, y1: py(t), y2: py(t) }),
          make('svg:text', { x: box.left - 7, y: py(t) + 4, 'text-anchor': 'end' }, yText(t)));
      }
      out.append(make('svg:text', { x: 0, y: 11 }, y.label));
    }
    const unit = x.unit || { size: 1, name: '' };
    const most = Math.max(2, Math.floor((box.right - box.left) / 78));
    const xTicks = logarithmic ? logTicks(x.low / unit.size, x.high / unit.size, most) : ticks(x.low / unit.size, x.high / unit.size, most);
    const xText = logarithmic ? v => short(v, 3) : tickText(xTicks);
    for (const t of xTicks) {
      const at = px(t * unit.size);
      const text = xText(t);
      const half = text.length * 3.6;
      const anchor = at + half > width ? 'end' : at - half < 0 ? 'start' : 'middle';
      out.append(make('svg:line', { class: 'axis', x1: at, x2: at, y1: box.bottom, y2: box.bottom + 5 }),
        make('svg:text', { x: anchor === 'end' ? width : at, y: box.bottom + 18, 'text-anchor': anchor }, text));
    }
    out.append(make('svg:line', { class: 'axis', x1: box.left, x2: box.right, y1: box.bottom, y2: box.bottom }),
      make('svg:text', { x: (box.left + box.right) / 2, y: height - 3, 'text-anchor': 'middle' }, x.label + (unit.name ? ', ' + unit.name : '')));
    return { box, px, py, out };
  }
}

function swatch(kind, colour) {
  const svg = make('svg:svg', { width: 22, height: 12, 'aria-hidden': 'true' });
  if (kind === 'box') svg.append(make('svg:rect', { x: 1, y: 1, width: 20, height: 10, rx: 2, class: colour }));
  else svg.append(make('svg:line', { x1: 1, x2: 21, y1: 6, y2: 6, class: kind + ' ' + colour }));
  return svg;
}

// extent is the range of all values in some columns, null when there is none.
function extent(columns) {
  let low = Infinity, high = -Infinity;
  for (const c of columns) {
    for (const v of c) {
      if (known(v)) { if (v < low) low = v; if (v > high) high = v; }
    }
  }
  return high >= low ? { low, high } : null;
}

// rounded widens a range to round numbers.
function rounded(range, most, fromZero, integers) {
  let { low, high } = range;
  if (fromZero && low > 0) low = 0;
  if (high === low) {
    const pad = Math.abs(high) * 0.1 || 1;
    low = fromZero ? 0 : low - pad;
    high += pad;
  }
  const list = ticks(low, high, most, integers);
  const step = list.length > 1 ? list[1] - list[0] : high - low;
  const first = Math.floor(low / step + 1e-9), last = Math.ceil(high / step - 1e-9);
  return { low: first * step, high: last * step, ticks: Array.from({ length: last - first + 1 }, (_, i) => (first + i) * step) };
}

// nearest is the place of the value in a sorted column that is closest to v.
function nearest(column, v) {
  let a = 0, b = column.length - 1;
  while (b - a > 1) {
    const m = (a + b) >> 1;
    if (column[m] <= v) a = m; else b = m;
  }
  return b >= 0 && Math.abs(column[b] - v) < Math.abs(column[a] - v) ? b : a;
}

// Curves draws columns against virtual time.
class Curves extends Chart {
  draw() {
    const v = this.view;
    if (!v || !this.svg.clientWidth) return;
    const last = Math.max(...v.series.map(s => s.x.length ? s.x[s.x.length - 1] : 0));
    const range = extent(v.series.flatMap(s => s.band ? [s.y, s.low, s.high] : [s.y]));
    const y = range ? rounded(range, 4, v.fromZero, v.integers) : { low: 0, high: 1, ticks: [0, 1] };
    y.label = v.label;
    const unit = timeUnit(last);
    const { box, px, py, out } = this.frame({ low: 0, high: last || 1, label: 'virtual time', unit }, y);
    for (const s of v.series) {
      if (s.band) out.append(make('svg:path', { class: 'band', d: area(s, px, py) }));
    }
    for (const s of v.series) {
      if (s.x.length > 300 && !s.style) s.style = 'fine';
      out.append(make('svg:path', { class: 'curve ' + s.style + ' ' + s.colour, d: path(s, px, py) }));
      if (s.dots && s.x.length <= 40) {
        s.x.forEach((x, i) => { if (known(s.y[i])) out.append(make('svg:circle', { class: 'fill-' + s.colour, cx: px(x), cy: py(s.y[i]), r: 2.5 })); });
      } else if (s.x.length === 1 && known(s.y[0])) {
        out.append(make('svg:circle', { class: 'fill-' + s.colour, cx: px(s.x[0]), cy: py(s.y[0]), r: 3 }));
      }
    }
    this.scales = { box, px, py };
    this.find = x => nearest(v.x, (x - box.left) / (box.right - box.left) * (last || 1));
    this.overlay = make('svg:g', { 'aria-hidden': 'true' });
    out.append(this.overlay);
    this.svg.replaceChildren(out);
    this.setLegend((v.series.length > 1 ? v.series : []).map(s => ['curve ' + s.style, s.colour, s.name]).concat(v.series.some(s => s.band) ? [['box', 'band', 'range']] : []));
    this.mark();
  }

  drawCursor(g) {
    const v = this.view, { box, px, py } = this.scales, x = v.x[this.cursor];
    g.append(make('svg:line', { class: 'cursor', x1: px(x), x2: px(x), y1: box.top, y2: box.bottom }));
    for (const s of v.series) {
      const i = s.x === v.x ? this.cursor : at(s, x);
      if (i >= 0 && known(s.y[i]) && s.name) g.append(make('svg:circle', { class: 'marker fill-' + s.colour, cx: px(s.x[i]), cy: py(s.y[i]), r: 4.5 }));
    }
  }
}

// at is the last place of a series not after x, -1 when it begins later.
function at(s, x) {
  let i = nearest(s.x, x);
  if (s.x[i] > x) i--;
  return s.x.length ? i : -1;
}

// path is a series as lines, or as steps that hold a value until the next.
function path(s, px, py) {
  let d = '', pen = false, before = 0;
  for (let i = 0; i < s.x.length; i++) {
    if (!known(s.y[i])) { pen = pen && s.over; continue; }
    const x = px(s.x[i]).toFixed(1), y = py(s.y[i]).toFixed(1);
    if (!pen) d += s.steps ? `M${px(before).toFixed(1)} ${y}H${x}` : `M${x} ${y}`;
    else d += s.steps ? `V${y}H${x}` : `L${x} ${y}`; // a round's value holds from the close before to its own
    pen = true;
    before = s.x[i];
  }
  return d;
}

function area(s, px, py) {
  let up = '', down = '', d = '';
  const close = () => { if (up) d += 'M' + up.slice(1) + down + 'Z'; up = down = ''; };
  for (let i = 0; i < s.x.length; i++) {
    if (!known(s.low[i])) { close(); continue; }
    const x = px(s.x[i]).toFixed(1);
    up += `L${x} ${py(s.high[i]).toFixed(1)}`;
    down = `L${x} ${py(s.low[i]).toFixed(1)}` + down;
  }
  close();
  return d;
}

// sampleRows are places of at most so many rows: evenly spread, with the last.
function sampleRows(length, most = 50) {
  const each = Math.max(1, Math.ceil(length / most));
  const out = [];
  for (let i = 0; i < length; i += each) out.push(i);
  if (length && out[out.length - 1] !== length - 1) out.push(length - 1);
  return out;
}

// Distribution draws how many rounds took how long.
class Distribution extends Chart {
  draw() {
    const v = this.view;
    if (!v || !this.svg.clientWidth) return;
    const bars = v.bars;
    let low = bars[0].from, high = bars[bars.length - 1].to;
    if (bars.length < 3 && !v.logarithmic) { // all but alike: with air on both sides
      const pad = Math.max((high - low) * 4, high * 0.02);
      low = Math.max(0, low - pad);
      high += pad;
    }
    const unit = timeUnit(v.logarithmic ? v.middle : high);
    const y = rounded({ low: 0, high: Math.max(...bars.map(b => b.count), 1) }, 4, true, true);
    y.label = 'rounds';
    const { box, px, py, out } = this.frame({ low, high, label: 'time of a round (virtual)', unit, logarithmic: v.logarithmic }, y);
    this.columns = bars.map(b => {
      const from = px(b.from), to = px(b.to), top = b.count ? Math.min(py(b.count), box.bottom - 1.5) : box.bottom;
      const c = make('svg:rect', { class: 'column', x: from + 0.5, y: top, width: Math.max(1, to - from - 1), height: box.bottom - top });
      out.append(c);
      return c;
    });
    this.overlay = make('svg:g');
    out.append(this.overlay);
    this.find = x => {
      for (let i = 0; i < bars.length; i++) if (x < px(bars[i].to)) return i;
      return bars.length - 1;
    };
    this.svg.replaceChildren(out);
    this.setLegend([]);
    this.mark();
  }

  mark() {
    (this.columns || []).forEach((c, i) => c.setAttribute('class', i === this.cursor ? 'column on' : 'column'));
    super.mark();
  }

  drawCursor() {}
}

// Timeline draws what clients of the last round did, a row each.
class Timeline extends Chart {
  draw() {
    const v = this.view;
    if (!v || !this.svg.clientWidth) return;
    const rowHeight = 19, narrow = this.svg.clientWidth < 560;
    const end = t => t.start + t.download + t.compute + t.upload + t.waiting;
    const low = Math.min(0, ...v.tasks.map(t => t.start));
    const high = Math.max(v.seconds, known(v.deadline) ? v.deadline * 1.02 : 0, ...v.tasks.map(end)) || 1;
    this.height = 26 + v.tasks.length * rowHeight + 40;
    const endings = v.tasks.map(t => narrow && t.outcome === 'accepted' ? '✓' : t.outcome);
    const names = v.tasks.map(t => crop(t.name || (t.kind === 'real' ? 'device ' : narrow ? '' : 'client ') + t.client, narrow ? 9 : 24));
    const left = Math.max(narrow ? 48 : 70, 12 + Math.max(...names.map(n => n.length)) * 7.4);
    const { box, px, out } = this.frame({ low, high, label: 'after the round’s start (virtual)', unit: timeUnit(high - low) },
      { low: 0, high: 1, ticks: [], bare: true, text: String }, { left, right: 12 + Math.max(...endings.map(w => w.length)) * 7.6, top: 26 });
    const back = make('svg:g');
    out.prepend(back);
    const y = i => box.top + i * rowHeight;
    v.tasks.forEach((t, i) => {
      out.append(make('svg:text', { class: t.kind === 'real' ? 'name' : '', x: left - 8, y: y(i) + 13, 'text-anchor': 'end' }, names[i]));
      let from = t.start;
      if (t.planned > end(t) - t.start) {
        const to = Math.min(t.start + t.planned, high);
        if (px(to) - px(end(t)) > 2) out.append(make('svg:rect', { class: 'planned', x: px(end(t)), y: y(i) + 4.5, width: px(to) - px(end(t)), height: rowHeight - 9 }));
      }
      for (const phase of ['download', 'compute', 'upload', 'waiting']) {
        if (t[phase] > 0) {
          out.append(make('svg:rect', { class: phase, x: px(from), y: y(i) + 3, width: Math.max(0.75, px(from + t[phase]) - px(from)), height: rowHeight - 6 }));
        }
        from += t[phase];
      }
      out.append(make('svg:text', { class: 'ended ' + t.outcome, x: box.right + 7, y: y(i) + 13 }, endings[i]));
    });
    const bottom = y(v.tasks.length) + 2;
    out.append(make('svg:line', { class: 'close', x1: px(v.seconds), x2: px(v.seconds), y1: box.top - 4, y2: bottom }));
    if (known(v.deadline)) {
      const at = px(v.deadline);
      out.append(make('svg:line', { class: 'deadline', x1: at, x2: at, y1: box.top - 4, y2: bottom }),
        make('svg:text', { class: 'deadline-text', x: Math.min(at, box.right), y: 13, 'text-anchor': 'end' }, 'deadline ' + duration(v.deadline)));
    }
    this.overlay = back;
    this.rows = { y, height: rowHeight };
    this.find = (_, at) => Math.max(0, Math.min(v.tasks.length - 1, Math.floor((at - box.top) / rowHeight)));
    this.svg.replaceChildren(out);
    const phases = [['box', 'download', 'download'], ['box', 'compute', 'compute'], ['box', 'upload', 'upload']];
    if (v.tasks.some(t => t.waiting > 0)) phases.push(['box', 'waiting', 'waiting']);
    if (v.tasks.some(t => t.planned > end(t) - t.start)) phases.push(['box', 'planned', 'not done']);
    phases.push(['close', '', 'round closed']);
    this.setLegend(phases);
    this.mark();
  }

  drawCursor(g) {
    g.append(make('svg:rect', { class: 'row-on', x: 0, width: this.width, y: this.rows.y(this.cursor), height: this.rows.height, rx: 4 }));
  }
}

// --- what the charts show of a snapshot

const chart = {};
function buildCharts() {
  chart.loss = new Curves('loss', 'Loss', {});
  chart.accuracy = new Curves('accuracy', 'Validation accuracy', {});
  chart.steps = new Curves('steps', 'Local steps, K_r', {});
  chart.rate = new Curves('rate', 'Learning rate, η_r', {});
  chart.times = new Distribution('times', 'Time of rounds', {});
  chart.durations = new Curves('durations', 'Time of rounds along the run', {});
  chart.timeline = new Timeline('timeline', 'The last round', { wide: true });
}

// firstFirst are the metrics with their places, the one that is shown first in front.
const firstFirst = metrics => metrics.map((m, at) => [m, at]).sort((a, b) => b[0].first - a[0].first);

// metricChart is the chart of a metric. Those besides the accuracy are made when a run has them.
function metricChart(m) {
  if (m.name === 'accuracy') return chart.accuracy;
  const id = 'metric-' + m.name;
  if (!chart[id]) {
    chart[id] = new Curves(id, 'Validation ' + m.name, {});
    chart[m.first ? 'accuracy' : 'steps'].figure.before(chart[id].figure);
  }
  return chart[id];
}

function showCharts(s) {
  const c = s.curves, e = s.evaluations;
  const some = column => column.some(known);
  const rounds = c.each === 1 ? 'round' : `${whole(c.each)} rounds`;
  const when = (round, t) => [['round', whole(round)], ['', duration(t)]];

  chart.loss.set(some(c.loss) || some(e.loss) ? {
    label: 'loss', x: c.virtual_seconds, length: c.round.length,
    series: [
      { x: c.virtual_seconds, y: c.loss, low: c.loss_low, high: c.loss_high, band: c.each > 1, style: 'thin', colour: 'blue', over: true, name: c.each === 1 ? 'training, a round' : `training, mean of ${rounds}` },
      { x: c.virtual_seconds, y: c.window_loss, style: '', colour: 'blue', over: true, name: `mean of the last ${whole(s.run.window)}` },
      { x: e.virtual_seconds, y: e.loss, style: 'dash', colour: 'red', dots: true, name: 'validation' },
    ],
    read: i => {
      const j = at({ x: e.virtual_seconds }, c.virtual_seconds[i]);
      return [...when(c.round[i], c.virtual_seconds[i]), ['training', fixed(c.loss[i], 4)], ['window', fixed(c.window_loss[i], 4)],
        ...(j >= 0 ? [['validation', fixed(e.loss[j], 4)]] : [])];
    },
    describe: () => `training loss ${fixed(s.now.training_loss, 4)}, validation loss ${fixed(s.now.validation_loss, 4)}`,
    table: () => ({
      head: ['round', 'virtual time, s', 'training loss', 'mean of the window', 'validation loss'],
      rows: sampleRows(c.round.length).map(i => {
        const j = at({ x: e.virtual_seconds }, c.virtual_seconds[i]);
        return [whole(c.round[i]), short(c.virtual_seconds[i], 7), fixed(c.loss[i], 4), fixed(c.window_loss[i], 4), j >= 0 ? fixed(e.loss[j], 4) : '–'];
      }),
    }),
  } : null);

  for (const [m, at] of firstFirst(s.run.metrics)) {
    const y = e[m.name], now = s.now.metrics[at], best = s.now.best_metrics[at];
    metricChart(m).set(some(y) ? {
      label: m.name === 'accuracy' ? 'share correct' : m.name, x: e.virtual_seconds, length: e.round.length,
      series: [{ x: e.virtual_seconds, y, style: '', colour: 'green', dots: true, name: 'validation ' + m.name }],
      note: known(best) ? `Best so far ${fixed(best, 4)}` + (known(m.target) ? `; the run ends at ${short(m.target)}` : '') : '',
      read: i => [...when(e.round[i], e.virtual_seconds[i]), [m.name, fixed(y[i], 4)], ['loss', fixed(e.loss[i], 4)]],
      describe: () => `validation ${m.name} ${fixed(now, 4)}, best ${fixed(best, 4)}`,
      table: () => ({
        head: ['round', 'virtual time, s', m.name, 'loss'],
        rows: sampleRows(e.round.length).map(i => [whole(e.round[i]), short(e.virtual_seconds[i], 7), fixed(y[i], 4), fixed(e.loss[i], 4)]),
      }),
    } : null);
  }

  const ofRounds = (column, name, label, colour, text, integers) => c.round.length ? {
    label, integers, x: c.virtual_seconds, length: c.round.length, fromZero: true,
    series: [{ x: c.virtual_seconds, y: column, steps: true, style: '', colour, name: null }],
    read: i => [...when(c.round[i], c.virtual_seconds[i]), [name, text(column[i])]],
    describe: () => `${name} ${text(column[column.length - 1])} in round ${whole(c.round[c.round.length - 1])}`,
    table: () => ({
      head: ['round', 'virtual time, s', name],
      rows: sampleRows(c.round.length).map(i => [whole(c.round[i]), short(c.virtual_seconds[i], 7), text(column[i])]),
    }),
  } : null;
  chart.steps.set(ofRounds(c.local_steps, 'K_r', 'SGD steps a client', 'purple', whole, true));
  chart.rate.set(ofRounds(c.learning_rate, 'η_r', 'learning rate', 'purple', v => short(v, 5)));
  chart.durations.set(ofRounds(c.round_seconds, c.each === 1 ? 'took' : `mean of ${rounds}`, 'seconds a round', 'blue', duration));

  const t = s.round_times;
  chart.times.set(t.count ? {
    bars: t.bars, logarithmic: t.logarithmic, middle: t.median, length: t.bars.length,
    note: `Median ${duration(t.median)}, 90 % within ${duration(t.p90)}, 99 % within ${duration(t.p99)}, longest ${duration(t.most)}`,
    read: i => [['from', duration(t.bars[i].from)], ['to', duration(t.bars[i].to)], ['', count(t.bars[i].count, 'round', 'rounds')]],
    describe: () => `median ${duration(t.median)}, longest ${duration(t.most)}`,
    table: () => ({
      head: ['from, s', 'to, s', 'rounds'],
      rows: t.bars.filter(b => b.count).map(b => [short(b.from, 5), short(b.to, 5), whole(b.count)]),
    }),
  } : null);

  const r = s.last_round;
  setText(chart.timeline.heading, r.round ? `Round ${whole(r.round)}: who did what` : 'The last round');
  const describeTask = t => [
    [t.kind === 'real' ? 'device' : 'client', (t.name || String(t.client)) + (t.class ? ` (${t.class})` : '')], [t.probe ? 'was asked,' : 'was', t.outcome],
    ['download', duration(t.download)], ['compute', duration(t.compute) + (t.probe ? '' : ` (${count(t.local_steps, 'step', 'steps')})`)], ['upload', duration(t.upload)],
    ...(t.waiting > 0 ? [['waiting', duration(t.waiting)]] : []),
  ];
  const ended = Object.entries(r.outcomes).filter(o => o[1] > 0).map(o => `${whole(o[1])} ${o[0]}`).join(', ');
  const shown = { real: 0, slow: 0, sample: 0 };
  for (const task of r.tasks) shown[task.why]++;
  const of = [shown.real ? count(shown.real, 'real device', 'real devices') : '', shown.slow ? `the slowest ${whole(shown.slow)}` : '', shown.sample ? `${whole(shown.sample)} of the others` : ''].filter(Boolean).join(' and ');
  chart.timeline.set(r.tasks.length ? {
    ...r, length: r.tasks.length, vertical: true,
    note: `${count(r.cohort, 'task', 'tasks')}: ${ended}. Shown: ${of}.`,
    read: i => describeTask(r.tasks[i]),
    describe: () => `round ${whole(r.round)} took ${duration(r.seconds)}: ${ended}`,
    table: () => ({
      head: ['client', some(r.tasks.map(t => t.class)) ? 'class' : 'kind', 'outcome', 'start, s', 'download, s', 'compute, s', 'upload, s', 'steps'],
      rows: r.tasks.map(t => [t.name || String(t.client), t.class || t.kind, t.outcome, short(t.start), short(t.download), short(t.compute), short(t.upload), whole(t.local_steps)]),
    }),
  } : null);
}

// --- figures, tables and texts

// tile keeps one element a figure, so that nothing is made anew that stays.
const tiles = {};
function tile(id, name, value, text, beside) {
  let t = tiles[id];
  if (!t) {
    t = tiles[id] = { name: make('dt'), value: make('dd', { class: 'value', id: 'value-' + id }), beside: make('dd', { class: 'beside' }) };
    t.box = make('div', {}, t.name, t.value, t.beside);
    $('tiles').append(t.box);
  }
  setText(t.name, name);
  setText(t.value, text);
  setText(t.beside, beside || '');
  if (known(value)) t.value.dataset.value = value; else delete t.value.dataset.value;
  t.box.hidden = false;
}

function showTiles(s) {
  const end = s.summary, now = s.now;
  const from = (name, live) => end && name in end ? end[name] : live;
  const best = v => known(v) ? 'best ' + fixed(v, 4) : '';
  const rounds = from('rounds', s.progress.round), virtual = from('virtual_seconds', s.progress.virtual_seconds);
  for (const id in tiles) tiles[id].box.hidden = true;
  tile('rounds', 'Rounds', rounds, whole(rounds), s.progress.rounds ? 'of ' + whole(s.progress.rounds) : '');
  tile('virtual_seconds', 'Virtual time', virtual, duration(virtual), s.progress.virtual_total ? 'of ' + duration(s.progress.virtual_total) : '');
  if (s.run.data) {
    const loss = from('training_loss', now.training_loss), bestLoss = from('best_training_loss', now.best_training_loss);
    tile('training_loss', 'Training loss', loss, fixed(loss, 4), best(bestLoss));
    const v = from('validation_loss', now.validation_loss);
    tile('validation_loss', 'Validation loss', v, fixed(v, 4));
    for (const [m, at] of firstFirst(s.run.metrics)) {
      const last = end && (end.metrics || []).find(x => x.name === m.name) || { validation: now.metrics[at], best: now.best_metrics[at] };
      tile('validation_' + m.name, 'Validation ' + m.name, last.validation, fixed(last.validation, 4), best(last.best));
    }
  }
  tile('local_steps', 'Local steps, K_r', now.local_steps, s.progress.round ? whole(now.local_steps) : '–', s.progress.round ? 'η_r ' + short(now.learning_rate, 4) : '');
  const steps = from('sgd_steps', now.sgd_steps), relative = end ? end.relative_sgd_steps : null;
  tile('sgd_steps', 'SGD steps a client', steps, whole(steps), known(relative) ? fixed(relative, 4) + ' of fixed K’s' : '');
  tile('round_seconds', 'Last round', now.round_seconds, s.progress.round ? duration(now.round_seconds) : '–', s.round_times.count ? 'median ' + duration(s.round_times.median) : '');
}

function showProgress(s, passed) {
  const p = s.progress, ended = s.state !== 'running';
  const f = s.state === 'completed' ? 1 : p.fraction;
  const bar = $('bar');
  $('bar-done').style.width = (100 * f).toFixed(2) + '%';
  const measured = f > 0 || p.rounds || p.virtual_total;
  if (measured) bar.setAttribute('aria-valuenow', (100 * f).toFixed(0)); else bar.removeAttribute('aria-valuenow');
  const wall = p.wall_seconds + passed, idle = p.idle_seconds + passed;
  const parts = [];
  if (measured && !ended) parts.push(['b', f > 0.999 ? '99.9 %' : (100 * f).toFixed(1) + ' %']);
  parts.push(['', `${ended ? 'took' : 'running for'} ${duration(wall < 60 ? Math.round(wall * (ended ? 10 : 1)) / (ended ? 10 : 1) : wall)}`]);
  if (!ended && known(p.left_seconds) && p.left_seconds > 0) parts.push(['', 'about ' + duration(Math.max(1, Math.round(p.left_seconds - passed))) + ' left']);
  const paced = wall - (ended ? 0 : idle);
  if (p.round && paced > 0) parts.push(['', short(p.round / paced, 3) + ' rounds/s']);
  if (!ended && p.round && idle >= 10) parts.push(['', 'last round closed ' + duration(Math.round(idle)) + ' ago']);
  if (!ended && !p.round) parts.push(['', 'the first round is under way']);
  const text = $('progress-text');
  const key = JSON.stringify(parts);
  if (text.dataset.key !== key) {
    text.dataset.key = key;
    text.replaceChildren(...parts.map(([kind, words]) => kind ? make('span', {}, make(kind, {}, words)) : make('span', {}, words)));
  }
  bar.setAttribute('aria-valuetext', parts.map(x => x[1]).join(', '));
  document.title = (ended ? { completed: 'Completed', stopped: 'Stopped' }[s.state] : measured ? (100 * f).toFixed(0) + ' %' : 'round ' + whole(p.round)) + ' · ' + s.run.name + ' · fedpace';
}

function rowsOf(table, head, rows) {
  const key = JSON.stringify(rows);
  if (table.dataset.key === key) return;
  table.dataset.key = key;
  table.replaceChildren(make('thead', {}, make('tr', {}, ...head.map(h => make('th', { scope: 'col' }, h)))),
    make('tbody', {}, ...rows.map(([name, ...cells]) => make('tr', {}, make('th', { scope: 'row' }, name), ...cells.map(c => {
      if (typeof c === 'string') return make('td', {}, c);
      if ('share' in c) {
        return make('td', { class: 'share' }, make('svg:svg', { 'aria-hidden': 'true' },
          make('svg:rect', { class: 'column', width: (100 * c.share).toFixed(2) + '%', height: 8, rx: 2 })));
      }
      return make('td', { id: c.id, 'data-value': c.value }, c.text);
    })))));
}

function showTables(s) {
  const end = s.summary;
  const outcomes = end && end.outcomes || s.outcomes;
  const all = Object.values(outcomes).reduce((a, b) => a + b, 0);
  rowsOf($('outcomes'), ['outcome', 'tasks', 'share', ''], Object.entries(outcomes).map(([name, n]) =>
    [name, { id: 'outcome-' + name, value: n, text: whole(n) }, all ? percent(n / all) : '–', { share: all ? n / all : 0 }]));
  const spent = end && end.client_seconds ? { client_seconds: end.client_seconds, sgd_steps: end.sgd_steps_clients, bytes: end.bytes } : s.spent;
  const row = (name, v, text) => {
    const sum = v.useful + v.wasted;
    return [name, { text: text(v.useful), value: v.useful }, { text: text(v.wasted), value: v.wasted }, sum ? percent(v.wasted / sum) : '–'];
  };
  rowsOf($('spent'), ['', 'useful', 'wasted', 'share'], [
    row('time', spent.client_seconds, duration), row('SGD steps', spent.sgd_steps, v => short(v, 4)), row('transfer', spent.bytes, bytes)]);

  const facts = [['task', s.run.task], ['schedule', s.run.schedule], ['data', s.run.data || 'timing only, nothing is trained'],
    ['clients', [s.actors.simulated && `${whole(s.actors.simulated)} simulated`, s.actors.real && `${whole(s.actors.real)} real`].filter(Boolean).join(', ') + `; ${whole(s.run.cohort)} a round`],
    ['a round closes', s.run.closing], ['seed', s.run.seed], ['started', new Date(s.run.started).toLocaleString('en-GB')]];
  if (end) {
    facts.push(['ended', s.state === 'completed' ? 'completed' : 'stopped before its end']);
    if (known(end.time_to_target)) facts.push(['target reached', 'after ' + duration(end.time_to_target)]);
    if (known(end.straggler_share)) facts.push(['stragglers', percent(end.straggler_share) + ' of a round is spent waiting from the median client to the slowest']);
    if (known(end.energy_joules)) facts.push(['energy', short((end.energy_joules.useful + end.energy_joules.wasted) / 1000, 4) + ' kJ']);
    const p = end.prediction;
    if (p && p.draws) {
      const t = p.seconds;
      facts.push(['predicted', `${duration(t.p50)} (90 %: ${duration(t.p05)} to ${duration(t.p95)}), measured ${fixed(t.ratio, 3)} of it; ${whole(p.rounds_inside)} of ${count(p.rounds, 'round', 'rounds')} inside their interval`]);
    }
    facts.push(['fingerprint', end.fingerprint]);
    if (end.model_sha256) facts.push(['model', end.model_sha256]);
    if (end.kernel) facts.push(['kernel', end.kernel]);
    if (end.bus) facts.push(['messages', { nats: 'through NATS', memory: 'in the memory of one process, without NATS' }[end.bus]]);
  }
  const key = JSON.stringify(facts), list = $('run');
  if (list.dataset.key !== key) {
    list.dataset.key = key;
    const code = ['fingerprint', 'model', 'kernel'];
    list.replaceChildren(...facts.flatMap(([name, text]) => [make('dt', {}, name), make('dd', { class: code.includes(name) ? 'code' : null, id: 'run-' + name.replaceAll(' ', '-') }, String(text))]));
  }
}

function showNotices(s) {
  const list = s.notices.list.map(n => ({ when: n.round ? 'after round ' + whole(n.round) : 'at the start', text: n.text + (n.times > 1 ? ` (${whole(n.times)} times)` : '') }));
  if (s.notices.unseen) list.push({ when: '', text: `${count(s.notices.unseen, 'notice is', 'notices are')} not shown.` });
  if (s.empty_rounds) list.push({ when: '', warn: true, text: `In ${count(s.empty_rounds, 'round', 'rounds')} no update was accepted: the model stayed as it was.` });
  if (s.why) list.unshift({ when: '', text: 'The run stopped: ' + s.why, bad: true });
  $('notices').hidden = list.length === 0;
  const ul = $('notice-list'), key = JSON.stringify(list);
  if (ul.dataset.key === key) return;
  ul.dataset.key = key;
  ul.replaceChildren(...list.map(n => make('li', { class: n.bad ? 'bad' : n.warn ? 'warn' : null }, n.when ? make('span', { class: 'when' }, n.when) : null, n.text)));
}

// --- the page as a whole

let snapshot = null; // the newest
let received = 0; // when it came, on the page's clock
let waiting = false; // for the next animation frame

function show() {
  waiting = false;
  const s = snapshot;
  if (!s) return;
  setText($('name'), s.run.name);
  setText($('about'), [s.run.task, s.run.schedule, `${whole(s.actors.simulated + s.actors.real)} clients`, s.run.data || 'timing only'].join(' · '));
  showProgress(s, passed());
  showTiles(s);
  showNotices(s);
  showCharts(s);
  showTables(s);
  setText($('foot'), `fedpace ${s.run.version}`.trim());
  document.body.dataset.round = s.progress.round;
  document.body.dataset.state = s.state;
}

function soon() {
  if (waiting) return;
  waiting = true;
  if (document.body.dataset.round) $('bar').classList.add('moving'); // from where it was, not from nothing
  if (document.hidden) setTimeout(show, 1000); else requestAnimationFrame(show);
}

const passed = () => snapshot && snapshot.state === 'running' ? (performance.now() - received) / 1000 : 0;

function take(next) {
  if (snapshot && next.curves.from > 0) { // the end of curves that are here already
    const from = next.curves.from;
    for (const name in next.curves) {
      if (Array.isArray(next.curves[name])) next.curves[name] = snapshot.curves[name].slice(0, from).concat(next.curves[name]);
    }
    next.curves.from = 0;
  }
  snapshot = next;
  received = performance.now();
  soon();
}

const stateTexts = { running: 'Live', completed: 'Completed', stopped: 'Stopped before its end' };

function status(state, text) {
  $('status').dataset.state = state;
  setText($('status-text'), text);
}

// watch follows the run, and comes back by itself when the connection is lost.
function watch() {
  const silence = 30000; // milliseconds without a word, after which the connection is taken for lost
  let wait = 2000, heard = 0, source = null, ended = false, again = 0;

  function open() {
    clearTimeout(again);
    again = 0;
    source = new EventSource('events');
    heard = performance.now();
    const on = (name, what) => source.addEventListener(name, e => {
      heard = performance.now();
      wait = 2000;
      what(e);
    });
    const news = e => {
      ended = false;
      take(JSON.parse(e.data));
      status(snapshot.state, stateTexts[snapshot.state]);
    };
    on('full', news);
    on('more', news);
    on('beat', () => { if (snapshot) status(snapshot.state, stateTexts[snapshot.state]); });
    on('end', () => {
      ended = true;
      wait = 5000;
      retry();
    });
    source.addEventListener('error', retry);
  }

  // After its end a run may be followed by another at the same address.
  function retry() {
    source.close();
    if (again) return;
    if (!ended) status('lost', snapshot ? 'Connection lost, trying again' : 'Not connected, trying again');
    again = setTimeout(() => { if (document.hidden) { again = 0; retry(); } else open(); }, wait);
    wait = Math.min(wait * 1.5, 30000);
  }

  document.addEventListener('visibilitychange', () => { if (!document.hidden && again) open(); });
  setInterval(() => {
    if (snapshot && snapshot.state === 'running') {
      if (!again) showProgress(snapshot, passed());
      if (!again && performance.now() - heard > silence) retry();
    }
  }, 1000);
  open();
}

document.addEventListener('DOMContentLoaded', () => {
  buildCharts();
  for (const c of charts) c.figure.hidden = true;
  const kept = $('snapshot');
  if (kept) {
    take(JSON.parse(kept.textContent));
    status(snapshot.state, stateTexts[snapshot.state] || snapshot.state);
  } else {
    watch();
  }
});
})();
