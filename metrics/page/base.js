// --- elements

export const $ = id => document.getElementById(id);

// make is an element with attributes and children; a string is a text node.
export function make(name, attributes, ...children) {
  const e = name.startsWith('svg:') ? document.createElementNS('http://www.w3.org/2000/svg', name.slice(4)) : document.createElement(name);
  for (const key in attributes) {
    if (attributes[key] !== null && attributes[key] !== undefined) e.setAttribute(key, attributes[key]);
  }
  e.append(...children.filter(c => c !== null && c !== undefined));
  return e;
}

// setText changes a text only where it differs: a screen reader hears changes.
export function setText(e, text) {
  if (e.textContent !== text) e.textContent = text;
}

// groupBy gathers items by a key, in the order in which keys come first.
export function groupBy(items, key) {
  const groups = new Map();
  for (const item of items) {
    const k = key(item);
    if (!groups.has(k)) groups.set(k, []);
    groups.get(k).push(item);
  }
  return groups;
}

// changed says whether what an element shows is another than the last time.
export function changed(e, ...what) {
  const before = e.dataset.key;
  return before !== (e.dataset.key = JSON.stringify(what));
}

// fillRows fills a table where it differs. A cell is a text, an element, or { text, id, value }; the first heads its row.
export function fillRows(table, head, rows) {
  if (!changed(table, head, rows)) return;
  const cell = c => c instanceof Node ? make('td', { class: 'share' }, c) : make('td', { id: c.id, 'data-value': c.value }, c.text ?? c);
  table.replaceChildren(make('thead', {}, make('tr', {}, ...head.map(h => make('th', { scope: 'col' }, h)))),
    make('tbody', {}, ...rows.map(([name, ...cells]) => make('tr', {}, make('th', { scope: 'row' }, name), ...cells.map(cell)))));
}

// slide makes a drawing a slider over so many things for those who use keys; place is where it stands, -1 nowhere.
export function slide(svg, many, place, move) {
  svg.addEventListener('keydown', e => {
    const last = many() - 1, from = place(), far = Math.max(1, Math.round(last / 10));
    const to = { ArrowUp: from - 1, ArrowLeft: from - 1, ArrowDown: from + 1, ArrowRight: from + 1, PageUp: from - far, PageDown: from + far, Home: 0, End: last, Escape: -1 }[e.key];
    if (to === undefined || e.ctrlKey || e.metaKey || e.altKey) return;
    e.preventDefault();
    move(e.key === 'Escape' ? -1 : Math.max(0, Math.min(last, to)));
  });
  svg.addEventListener('focus', () => { if (place() < 0 && svg.matches(':focus-visible')) move(0); });
  svg.addEventListener('blur', () => move(-1));
  svg.addEventListener('pointerleave', e => { if (e.pointerType === 'mouse' && document.activeElement !== svg) move(-1); });
}

// --- numbers for people

export const known = v => v !== null && v !== undefined;
export const grouped = new Intl.NumberFormat('en-GB');
export const whole = v => known(v) ? grouped.format(v) : '–';
export const fixed = (v, digits) => known(v) && (v === 0 || Math.abs(v) >= 10 ** -digits && Math.abs(v) < 1e6) ? minus(v.toFixed(digits)) : short(v); // which would be 0, or a row of digits

// minus writes a number that is not there as a dash, and negative ones with a minus sign in the place of a hyphen.
export const minus = text => text === '-' ? '–' : text.replace(/(?<=^|[\s(±])-(?=[\d.])/g, '−');

// short has at most so many significant digits and no trailing zeros.
export function short(v, digits = 4) {
  if (!known(v)) return '–';
  if (v === 0) return '0';
  const size = Math.abs(v);
  if (size >= 1e6 || size < 1e-4) return minus(v.toExponential(Math.max(0, digits - 2)).replace(/\.?0+e/, 'e').replace('e+', 'e'));
  return minus(size >= 1000 ? grouped.format(Math.round(v)) : String(Number(v.toPrecision(digits))));
}

// duration is a time in its two largest units.
export function duration(s) {
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

export function bytes(v) {
  const units = ['B', 'kB', 'MB', 'GB', 'TB', 'PB', 'EB'];
  let i = 0;
  for (; v >= 1000 && i < units.length - 1; i++) v /= 1000;
  return short(v, 3) + ' ' + units[i];
}

export const crop = (text, most) => text.length > most ? text.slice(0, most - 1) + '…' : text;
export const percent = f => short(100 * f, 3) + ' %';
export const count = (n, one, many) => whole(n) + ' ' + (n === 1 ? one : many);

// timeUnit is the unit of an axis on which so many seconds are the longest.
export function timeUnit(seconds) {
  for (const [size, name] of [[86400, 'days'], [3600, 'hours'], [60, 'minutes']]) {
    if (seconds >= 3 * size) return { size, name };
  }
  if (seconds > 0 && seconds < 0.05) return { size: 1e-3, name: 'milliseconds' };
  return { size: 1, name: 'seconds' };
}

// ticks are round numbers from low to high.
export function ticks(low, high, most, integers) {
  if (!(high > low)) return [low];
  const rough = (high - low) / Math.max(1, most);
  const power = Math.pow(10, Math.floor(Math.log10(rough)));
  const steps = [1, 2, 2.5, 5, 10].map(m => m * power).filter(s => !integers || Number.isInteger(s));
  const step = steps.find(s => s >= rough * (1 - 1e-9)) || 1;
  const out = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; i++) out.push(i * step);
  return out;
}

// secondsText writes ticks in seconds, in the unit in which the greatest is said.
const unitSigns = { days: 'd', hours: 'h', minutes: 'min', seconds: 's', milliseconds: 'ms' };
export function secondsText(list) {
  const unit = timeUnit(Math.max(...list));
  const text = tickText(list.map(v => v / unit.size));
  return v => v === 0 ? '0' : `${text(v / unit.size)} ${unitSigns[unit.name]}`;
}

// tickText writes a tick with as many decimals as its neighbours need.
export function tickText(list) {
  const step = list.length > 1 ? Math.min(...list.slice(1).map((v, i) => v - list[i])) : Math.abs(list[0]) || 1;
  const top = Math.max(...list.map(Math.abs));
  if (top >= 1e6 || (top > 0 && top < 1e-3)) return v => v === 0 ? '0' : short(v, 3);
  let digits = Math.max(0, Math.min(6, -Math.floor(Math.log10(step) + 1e-9)));
  while (digits < 6 && list.some(v => Math.abs(Number(v.toFixed(digits)) - v) > step * 1e-3)) digits++;
  return v => minus(top >= 10000 ? grouped.format(Number(v.toFixed(digits))) : v.toFixed(digits));
}

