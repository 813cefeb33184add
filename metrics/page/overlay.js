// --- many long curves

// A line is { x, y, colour, dash, name, low, high }: columns of the same length, x ascending,
// NaN where nothing was measured. low and high make a band.

const blockSize = 16;
const mostStroked = 1500; // points of a chart that are drawn as strokes

// blocks are the least and the greatest y of every 16 successive points, made once a column.
const blockCache = new WeakMap();
function blocks(y) {
  let b = blockCache.get(y);
  if (!b) {
    const n = Math.ceil(y.length / blockSize);
    b = { low: new Float64Array(n), high: new Float64Array(n) };
    for (let i = 0; i < n; i++) {
      let low = Infinity, high = -Infinity;
      for (let j = i * blockSize, end = Math.min(y.length, j + blockSize); j < end; j++) {
        const v = y[j];
        if (v < low) low = v;
        if (v > high) high = v;
      }
      b.low[i] = low;
      b.high[i] = high;
    }
    blockCache.set(y, b);
  }
  return b;
}

// firstAfter is the first place of a sorted column with a value above v.
function firstAfter(x, v) {
  let a = 0, b = x.length;
  while (a < b) {
    const m = (a + b) >> 1;
    if (x[m] <= v) a = m + 1; else b = m;
  }
  return a;
}

// within is the part of a line from low to high, with a neighbour on either side.
function within(line, low, high) {
  return [Math.max(0, firstAfter(line.x, low) - 1), Math.min(line.x.length, firstAfter(line.x, high) + 1)];
}

// reach is the least and the greatest y of a line between two places.
function reach(y, from, to) {
  const b = blocks(y);
  let low = Infinity, high = -Infinity;
  const take = (l, h) => { if (l < low) low = l; if (h > high) high = h; };
  let i = from;
  for (; i < to && i % blockSize; i++) take(y[i], y[i]);
  for (; i + blockSize <= to; i += blockSize) take(b.low[i / blockSize], b.high[i / blockSize]);
  for (; i < to; i++) take(y[i], y[i]);
  return { low, high };
}

// Overlay is a chart of many lines over an axis that it shares with others. The board says
// what the axis shows; a drawing is a slider for those who use keys, as Chart is.
class Overlay {
  constructor(board, id, title, options) {
    this.board = board;
    this.id = id;
    this.options = options || {};
    this.log = !!this.options.log;
    this.height = 260;
    this.lines = [];
    this.cursor = null; // a value of x
    this.heading = make('h2', { id: id + '-title', title: this.options.help }, title);
    this.scale = make('button', { type: 'button', class: 'toggle', 'aria-pressed': String(this.log), title: 'Logarithmic scale' }, 'log');
    this.canvas = make('canvas', { class: 'drawing' });
    this.front = make('canvas', {
      class: 'front', tabindex: 0, role: 'slider', 'aria-labelledby': id + '-title', 'aria-valuemin': 0, 'aria-valuemax': 100, 'aria-valuenow': 100,
      'aria-valuetext': 'nothing yet', 'aria-orientation': 'horizontal',
    });
    this.reading = make('output', { class: 'reading', 'aria-live': 'off' });
    this.table = make('table');
    this.details = make('details', {}, make('summary', {}, 'The same as a table'),
      make('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': title + ', table' }, this.table));
    this.figure = make('figure', { id }, make('figcaption', {}, this.heading, this.scale),
      make('div', { class: 'plot canvas' }, this.canvas, this.front), this.reading, this.details);
    this.scale.addEventListener('click', () => {
      this.log = !this.log;
      this.scale.setAttribute('aria-pressed', String(this.log));
      this.draw();
    });
    this.details.addEventListener('toggle', () => this.fillTable());
    this.listen();
    this.visible = false;
    new IntersectionObserver(entries => {
      this.visible = entries[entries.length - 1].isIntersecting;
      if (this.visible && this.stale) this.draw();
    }, { rootMargin: '200px' }).observe(this.figure);
    new ResizeObserver(() => { if (this.canvas.clientWidth !== this.width) this.draw(); }).observe(this.canvas);
  }

  set(lines) {
    this.lines = lines;
    this.figure.hidden = !lines.some(l => l.x.length);
    this.draw();
    if (this.details.open) this.fillTable();
  }

  // draw draws the lines in the board's range of x. What is out of sight waits.
  draw() {
    this.stale = true;
    if (!this.visible || this.figure.hidden || !this.canvas.clientWidth) return;
    this.stale = false;
    const ratio = window.devicePixelRatio || 1, width = this.width = this.canvas.clientWidth, height = this.height;
    for (const c of [this.canvas, this.front]) {
      if (c.width !== Math.round(width * ratio) || c.height !== Math.round(height * ratio)) {
        c.width = Math.round(width * ratio);
        c.height = Math.round(height * ratio);
        c.style.height = height + 'px';
      }
    }
    const g = this.canvas.getContext('2d');
    g.setTransform(ratio, 0, 0, ratio, 0, 0);
    g.clearRect(0, 0, width, height);
    const { low, high } = this.board.range();
    this.frame(g, low, high);
    g.save();
    g.beginPath();
    g.rect(this.box.left, this.box.top - 4, this.box.right - this.box.left, this.box.bottom - this.box.top + 8);
    g.clip();
    for (const line of this.lines) this.band(g, line, low, high);
    const parts = this.lines.map(line => within(line, low, high)), points = parts.reduce((n, [from, to]) => n + to - from, 0);
    if (points > mostStroked) this.dense(g, ratio, parts); else for (const line of this.lines) this.line(g, line, low, high);
    g.restore();
    this.marks(g, low, high);
    this.mark();
  }

  // extents are the least and the greatest y in sight.
  extents(low, high) {
    let least = Infinity, most = -Infinity;
    for (const line of this.lines) {
      const [from, to] = within(line, low, high);
      for (const y of line.low ? [line.low, line.high] : [line.y]) {
        const r = reach(y, from, to);
        least = Math.min(least, r.low);
        most = Math.max(most, r.high);
      }
    }
    return most >= least ? { low: least, high: most } : null;
  }

  // frame draws the axes and sets the scales.
  frame(g, low, high) {
    const range = this.extents(low, high), log = this.log && range && range.low > 0;
    let y;
    if (log) {
      const a = range.low, b = range.high > range.low ? range.high : range.low * 1.1;
      const list = logTicks(a, b, 6);
      y = { low: a, high: b, ticks: list.length > 1 ? list : [a, b] };
    } else {
      y = range ? rounded(range, 4, this.options.fromZero, this.options.integers) : { low: 0, high: 1, ticks: [0, 1] };
    }
    const text = log ? v => short(v, 2) : tickText(y.ticks);
    g.font = '12px ' + getComputedStyle(document.body).fontFamily;
    const left = 10 + Math.max(...y.ticks.map(t => g.measureText(text(t)).width));
    const box = this.box = { left, right: this.width - 8, top: 16, bottom: this.height - 36 };
    const of = log ? Math.log : v => v, y0 = of(y.low), y1 = of(y.high);
    this.px = v => box.left + (box.right - box.left) * (high > low ? (v - low) / (high - low) : 0.5);
    this.py = v => box.bottom - (box.bottom - box.top) * (y1 > y0 ? (of(v) - y0) / (y1 - y0) : 0.5);
    const ink = paint();
    g.lineWidth = 1;
    g.textBaseline = 'middle';
    g.textAlign = 'right';
    for (const t of y.ticks) {
      g.strokeStyle = ink.grid;
      g.beginPath();
      g.moveTo(box.left, Math.round(this.py(t)) + 0.5);
      g.lineTo(box.right, Math.round(this.py(t)) + 0.5);
      g.stroke();
      g.fillStyle = ink.quiet;
      g.fillText(text(t), box.left - 6, this.py(t));
    }
    const axis = this.board.axis(), unit = axis.seconds ? timeUnit(high) : { size: 1, name: axis.unit || '' };
    const list = ticks(low / unit.size, high / unit.size, Math.max(2, Math.floor((box.right - box.left) / 80)), axis.integers);
    const xText = tickText(list);
    g.textBaseline = 'alphabetic';
    g.strokeStyle = ink.line;
    g.beginPath();
    g.moveTo(box.left, box.bottom + 0.5);
    g.lineTo(box.right, box.bottom + 0.5);
    for (const t of list) {
      const at = Math.round(this.px(t * unit.size)) + 0.5, words = xText(t), half = g.measureText(words).width / 2;
      g.moveTo(at, box.bottom);
      g.lineTo(at, box.bottom + 5);
      g.textAlign = at + half > this.width ? 'right' : 'center';
      g.fillText(words, Math.min(at, g.textAlign === 'right' ? this.width : at), box.bottom + 18);
    }
    g.stroke();
    g.textAlign = 'center';
    g.fillText(axis.name + (unit.name ? ', ' + unit.name : ''), (box.left + box.right) / 2, this.height - 4);
  }

  // line draws a line as one stroke.
  line(g, line, low, high) {
    const [from, to] = within(line, low, high), { px, py } = this;
    g.strokeStyle = g.fillStyle = line.colour;
    g.lineWidth = line.wide ? 2 : 1.5;
    g.lineJoin = 'round';
    g.setLineDash(line.dash || []);
    g.beginPath();
    let pen = false, lastY = 0;
    for (let i = from; i < to; i++) {
      if (line.y[i] !== line.y[i]) continue;
      const x = px(line.x[i]), y = py(line.y[i]);
      if (!pen) g.moveTo(x, y); else { if (this.options.steps) g.lineTo(x, lastY); g.lineTo(x, y); }
      pen = true;
      lastY = y;
    }
    g.stroke();
    g.setLineDash([]);
    if (to - from <= 60) {
      g.fillStyle = line.colour;
      for (let i = from; i < to; i++) {
        if (line.y[i] === line.y[i]) {
          g.beginPath();
          g.arc(px(line.x[i]), py(line.y[i]), 2, 0, 7);
          g.fill();
        }
      }
    }
  }

  // dense draws lines of very many points. It sets pixels itself, a run in each column: strokes
  // take the browser several times as long.
  dense(g, ratio, parts) {
    const { px, py, box } = this;
    const left = Math.floor(box.left * ratio), width = Math.ceil(box.right * ratio) - left, height = Math.ceil((box.bottom + 4) * ratio);
    const picture = new ImageData(width, height), pixels = new Uint32Array(picture.data.buffer);
    this.lines.forEach((line, n) => {
      const [from, to] = parts[n], b = (to - from) / blockSize >= width ? blocks(line.y) : null, size = b ? blockSize : 1;
      const colour = pixel(line.colour), thick = Math.max(1, Math.round(ratio * (line.wide ? 2 : 1)));
      const [on, off] = line.dash && line.dash.length ? line.dash : [1, 0], period = Math.round((on + off) * ratio), shown = Math.round(on * ratio);
      const run = (x, a, b) => { // column x from a down to b
        if (x < 0 || x >= width || period > 1 && x % period >= shown) return;
        for (let y = Math.max(0, a), end = Math.min(height - 1, b + thick - 1); y <= end; y++) {
          for (let at = x; at < x + thick && at < width; at++) pixels[y * width + at] = colour;
        }
      };
      let lastX = NaN, lastY = NaN; // where the pen is
      for (let i = Math.floor(from / size) * size; i < to; i += size) {
        const least = b ? b.low[i / size] : line.y[i], most = b ? b.high[i / size] : least;
        if (!(most >= least)) continue;
        const x = Math.round(px(line.x[i]) * ratio) - left, high = Math.round(py(most) * ratio), low = Math.round(py(least) * ratio), y = high + low >> 1;
        if (x - lastX > 1) { // to there on a straight line, or a step
          const slope = this.options.steps ? 0 : (y - lastY) / (x - lastX);
          for (let c = Math.max(lastX + 1, 0), end = Math.min(x, width); c < end; c++) {
            const a = Math.round(lastY + slope * (c - 1 - lastX)), z = Math.round(lastY + slope * (c - lastX));
            run(c, Math.min(a, z), Math.max(a, z));
          }
          if (this.options.steps) run(x, Math.min(lastY, high), Math.max(lastY, low)); else run(x, high, low);
        } else {
          run(x, Math.min(high, lastY === lastY ? lastY : high), Math.max(low, lastY === lastY ? lastY : low));
        }
        lastX = x;
        lastY = y;
      }
    });
    const sheet = document.createElement('canvas');
    sheet.width = width;
    sheet.height = height;
    sheet.getContext('2d').putImageData(picture, 0, 0);
    g.drawImage(sheet, left / ratio, 0, width / ratio, height / ratio);
  }

  // band fills what lies between low and high.
  band(g, line, low, high) {
    if (!line.low) return;
    const [from, to] = within(line, low, high), { px, py } = this;
    g.fillStyle = line.colour;
    g.globalAlpha = 0.16;
    for (let i = from; i < to; i++) {
      if (line.low[i] !== line.low[i]) continue;
      const first = i;
      while (i + 1 < to && line.low[i + 1] === line.low[i + 1]) i++;
      g.beginPath();
      for (let j = first; j <= i; j++) g.lineTo(px(line.x[j]), py(line.high[j]));
      for (let j = i; j >= first; j--) g.lineTo(px(line.x[j]), py(line.low[j]));
      g.fill();
    }
    g.globalAlpha = 1;
  }

  // marks draws what happened above the curves: a triangle a checkpoint, a cross a lost device, a
  // square a change of K_r.
  marks(g, low, high) {
    for (const m of this.board.marks()) {
      if (m.x < low || m.x > high) continue;
      const x = this.px(m.x), y = 7;
      g.strokeStyle = g.fillStyle = m.colour;
      g.lineWidth = 1.5;
      g.beginPath();
      if (m.kind === 'checkpoint') { g.moveTo(x, y - 4); g.lineTo(x + 4, y + 3); g.lineTo(x - 4, y + 3); g.fill(); }
      else if (m.kind === 'device') { g.moveTo(x - 4, y - 4); g.lineTo(x + 4, y + 4); g.moveTo(x + 4, y - 4); g.lineTo(x - 4, y + 4); g.stroke(); }
      else g.fillRect(x - 3, y - 3, 6, 6);
    }
  }

  // mark draws the cursor and says what is there.
  mark() {
    const ratio = window.devicePixelRatio || 1, g = this.front.getContext('2d');
    g.setTransform(ratio, 0, 0, ratio, 0, 0);
    g.clearRect(0, 0, this.width, this.height);
    const { low, high } = this.board.range(), drag = this.drag;
    if (drag && drag.zoom) {
      g.fillStyle = paint().accent;
      g.globalAlpha = 0.15;
      g.fillRect(Math.min(drag.from, drag.to), this.box.top, Math.abs(drag.to - drag.from), this.box.bottom - this.box.top);
      g.globalAlpha = 1;
    }
    this.front.setAttribute('aria-valuenow', this.cursor === null || !(high > low) ? 100 : Math.round(100 * (this.cursor - low) / (high - low)));
    if (this.cursor === null || !this.box) {
      this.reading.replaceChildren(this.describe());
      this.front.setAttribute('aria-valuetext', this.describe());
      return;
    }
    g.strokeStyle = paint().quiet;
    g.setLineDash([3, 3]);
    g.beginPath();
    g.moveTo(this.px(this.cursor), this.box.top);
    g.lineTo(this.px(this.cursor), this.box.bottom);
    g.stroke();
    g.setLineDash([]);
    const values = this.values(this.cursor);
    for (const v of values) {
      g.fillStyle = v.line.colour;
      g.beginPath();
      g.arc(this.px(v.x), this.py(v.y), 4, 0, 7);
      g.fill();
    }
    const words = [axisText(this.board.axis(), this.cursor), ...values.slice(0, 12).map(v => `${v.line.name} ${short(v.y, 4)}`)];
    if (values.length > 12) words.push(`and ${values.length - 12} more`);
    this.front.setAttribute('aria-valuetext', words.join(', '));
    this.reading.replaceChildren(words[0]);
    for (const v of values.slice(0, 12)) this.reading.append(' · ', dot(v.line), v.line.name + ' ', make('b', {}, short(v.y, 4)));
    if (values.length > 12) this.reading.append(' · ' + words[words.length - 1]);
  }

  // values are what the lines have at x, the best reading first: the highest.
  values(x) {
    const out = [];
    for (const line of this.lines) {
      let i = firstAfter(line.x, x) - 1;
      while (i >= 0 && line.y[i] !== line.y[i]) i--;
      if (i >= 0 && (x <= line.x[line.x.length - 1] || i === line.x.length - 1)) out.push({ line, x: line.x[i], y: line.y[i] });
    }
    return out.sort((a, b) => b.y - a.y);
  }

  describe() {
    const n = this.lines.filter(l => l.x.length).length;
    const { low, high } = this.board.range(), r = this.extents(low, high);
    return r ? `${count(n, 'curve', 'curves')}, from ${short(r.low, 4)} to ${short(r.high, 4)}` : 'Nothing was measured here.';
  }

  fillTable() {
    if (!this.details.open) return;
    const { low, high } = this.board.range(), rows = [];
    for (let i = 0; i <= 20; i++) {
      const x = low + (high - low) * i / 20, at = new Map(this.values(x).map(v => [v.line, v.y]));
      rows.push(make('tr', {}, make('td', {}, axisText(this.board.axis(), x)), ...this.lines.map(l => make('td', {}, at.has(l) ? short(at.get(l), 6) : '–'))));
    }
    this.table.replaceChildren(make('thead', {}, make('tr', {}, make('th', { scope: 'col' }, this.board.axis().name), ...this.lines.map(l => make('th', { scope: 'col' }, l.name)))),
      make('tbody', {}, ...rows));
  }

  // listen: the pointer reads; a drag chooses a range, with Shift it moves the range; the wheel with
  // Ctrl zooms, sideways it moves. Keys do the same.
  listen() {
    const front = this.front, board = this.board;
    const at = e => e.clientX - front.getBoundingClientRect().left;
    const value = px => {
      const { low, high } = board.range();
      return low + (high - low) * Math.max(0, Math.min(1, (px - this.box.left) / (this.box.right - this.box.left)));
    };
    front.addEventListener('pointerdown', e => {
      if (!this.box || e.button > 0) return;
      this.drag = { from: at(e), to: at(e), zoom: e.pointerType === 'mouse' && !e.shiftKey && !board.moves(), range: board.range() };
      if (e.pointerType === 'mouse' || board.zoomed()) front.setPointerCapture(e.pointerId);
    });
    front.addEventListener('pointermove', e => {
      if (!this.box) return;
      const d = this.drag;
      if (d) {
        d.to = at(e);
        if (!d.zoom && board.zoomed()) {
          const per = (d.range.high - d.range.low) / (this.box.right - this.box.left);
          board.move(d.range, (d.from - d.to) * per);
          return;
        }
      }
      board.point(value(at(e)));
    });
    const done = () => {
      const d = this.drag;
      this.drag = null;
      if (d && d.zoom && Math.abs(d.to - d.from) > 5) board.zoom(value(Math.min(d.from, d.to)), value(Math.max(d.from, d.to)));
      else if (this.box) this.mark();
    };
    front.addEventListener('pointerup', done);
    front.addEventListener('pointercancel', () => { this.drag = null; });
    front.addEventListener('pointerleave', e => { if (!this.drag && e.pointerType === 'mouse' && document.activeElement !== front) board.point(null); });
    front.addEventListener('dblclick', () => board.zoom(null));
    front.addEventListener('wheel', e => {
      const { low, high } = board.range();
      if (e.ctrlKey) {
        e.preventDefault();
        board.scale(Math.exp(e.deltaY / 300), value(at(e)));
      } else if (board.zoomed() && Math.abs(e.deltaX) > Math.abs(e.deltaY)) {
        e.preventDefault();
        board.move({ low, high }, (high - low) * e.deltaX / 800);
      }
    }, { passive: false });
    front.addEventListener('focus', () => { if (this.cursor === null && front.matches(':focus-visible')) board.point(board.range().high); });
    front.addEventListener('blur', () => board.point(null));
    front.addEventListener('keydown', e => {
      if (e.ctrlKey || e.metaKey || e.altKey) return;
      const { low, high } = board.range(), from = this.cursor === null ? high : this.cursor, step = (high - low) / 100;
      const keys = {
        ArrowLeft: () => e.shiftKey ? board.move({ low, high }, -10 * step) : board.point(Math.max(low, from - step)),
        ArrowRight: () => e.shiftKey ? board.move({ low, high }, 10 * step) : board.point(Math.min(high, from + step)),
        PageDown: () => board.point(Math.max(low, from - 10 * step)), PageUp: () => board.point(Math.min(high, from + 10 * step)),
        Home: () => board.point(low), End: () => board.point(high),
        '+': () => board.scale(0.5, from), '=': () => board.scale(0.5, from), '-': () => board.scale(2, from),
        '0': () => board.zoom(null), Escape: () => board.zoom(null),
      };
      if (keys[e.key]) { e.preventDefault(); keys[e.key](); }
    });
  }
}

// paint is the colours of the scheme that the reader prefers; a Board forgets them when that
// changes.
let painted = null;
function paint() {
  if (!painted) {
    const s = getComputedStyle(document.documentElement), of = name => s.getPropertyValue('--' + name).trim();
    painted = { grid: of('grid'), quiet: of('quiet'), line: of('line'), accent: of('accent'), ink: of('ink'), lines: Array.from({ length: 8 }, (_, i) => of('line-' + i)) };
  }
  return painted;
}

const dashes = [[], [7, 4], [2, 3], [9, 3, 2, 3]];

// pixel is a colour, #rrggbb, as a pixel of ImageData.
const pixel = colour => { const v = parseInt(colour.slice(1), 16); return (0xff000000 | (v & 0xff) << 16 | v & 0xff00 | v >> 16) >>> 0; };

// look is the colour and the dashes of the n-th line.
const look = n => ({ colour: paint().lines[n % 8], dash: dashes[Math.floor(n / 8) % dashes.length] });

// dot is a line's sample among words.
function dot(line) {
  const s = make('svg:svg', { width: 18, height: 8, 'aria-hidden': 'true', class: 'dot-line' });
  const l = make('svg:line', { x1: 0, x2: 18, y1: 4, y2: 4, 'stroke-width': 2.5, stroke: line.colour });
  if (line.dash && line.dash.length) l.setAttribute('stroke-dasharray', line.dash.join(' '));
  s.append(l, ' ');
  return s;
}

const axisText = (axis, v) => axis.seconds ? duration(v) : (axis.integers ? whole(Math.round(v)) : short(v, 4)) + ' ' + (axis.unit || axis.name);

// smoothed is an exponential moving average over the measured values, free of the pull of its
// start: weight w on what was before (Adam's correction of the bias).
function smoothed(y, w) {
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

// mean is the mean of several lines at so many places, with the 95 % interval of the mean, as far
// as all of them go.
function meanLine(lines, places = 500) {
  const whole = lines.filter(l => l.x.length);
  const n = whole.length, low = Math.max(...whole.map(l => l.x[0])), high = Math.min(...whole.map(l => l.x[l.x.length - 1]));
  const out = { x: new Float64Array(places), y: new Float64Array(places), low: new Float64Array(places), high: new Float64Array(places) };
  if (!n || !(high >= low)) return { x: new Float64Array(0), y: new Float64Array(0) };
  const at = whole.map(() => 0);
  for (let i = 0; i < places; i++) {
    const x = out.x[i] = low + (high - low) * i / (places - 1);
    let sum = 0, squares = 0, known = 0;
    whole.forEach((l, k) => {
      while (at[k] + 1 < l.x.length && l.x[at[k] + 1] <= x) at[k]++;
      const v = l.y[at[k]];
      if (v === v) { sum += v; squares += v * v; known++; }
    });
    const mean = known === n ? sum / n : NaN;
    const spread = n > 1 ? studentT(n - 1) * Math.sqrt(Math.max(0, squares / n - mean * mean) / (n - 1)) : 0;
    out.y[i] = mean;
    out.low[i] = mean - spread;
    out.high[i] = mean + spread;
  }
  if (n < 2) delete out.low, delete out.high;
  return out;
}
