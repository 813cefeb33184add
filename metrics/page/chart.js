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
    const unit = v.by ? null : timeUnit(last);
    const { box, px, py, out } = this.frame({ low: 0, high: last || 1, label: v.by || 'virtual time', unit }, y);
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
    const classes = [...new Set(v.tasks.map(t => t.class).filter(Boolean))].sort();
    v.tasks.forEach((t, i) => {
      out.append(make('svg:text', { class: t.kind === 'real' ? 'name' : '', x: left - 8, y: y(i) + 13, 'text-anchor': 'end' }, names[i]));
      if (t.class) out.append(make('svg:rect', { class: 'class-' + classes.indexOf(t.class) % 8, x: left - 5, y: y(i) + 3, width: 4, height: rowHeight - 6 }));
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
    phases.push(['close', '', 'round closed'], ...classes.slice(0, 8).map((c, i) => ['box', 'class-' + i, crop(c, 20)]));
    this.setLegend(phases);
    this.mark();
  }

  drawCursor(g) {
    g.append(make('svg:rect', { class: 'row-on', x: 0, width: this.width, y: this.rows.y(this.cursor), height: this.rows.height, rx: 4 }));
  }
}

