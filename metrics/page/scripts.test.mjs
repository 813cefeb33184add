import test from 'node:test';
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { duration, fixed, minus, secondsText, short, ticks, tickText, timeUnit } from './base.js';
import { corners, firstAfter, isConstant, measured, meanOf, valueAt, LineChart, Span } from './lines.js';
import { decode, axesOf, chartsOf, isShare, meanLine, smoothed } from './curves.js';
import { configOf, differing, matches, apart, besides, legendNames, hueOrder, tails, titleOf, words, alikeBySeed, groupsBySeed } from './find.js';
import { axisOf, lettersAt } from './sweep.js';
import { csv } from './save.js';
import { jitter, looks } from './compare.js';

const run = (folder, more = {}) => ({ folder, task: 'femnist', schedule: 'fixed', state: 'complete', seed: '1', settings: [], ...more });
const has = values => (_, key) => values[key];

test('a search understands keys, numbers, words and what must not be', () => {
  const r = run('runs/demo', { settings: ['schedule.k.rule=fixed', 'stop.rounds=30'], tags: ['paper'], note: 'a Friday' });
  const valueOf = has({ best: 0.5, 'schedule.k': 'fixed', tags: ['paper', 'night'], seed: 1 });
  for (const [text, want] of Object.entries({
    '': true, 'best>0.4': true, 'best>0.5': false, 'best>=0.5': true, 'best<0.6 best>0.4': true, 'schedule.k=fixed': true, 'schedule.k=FIXED': true, 'schedule.k=fix': false, 'schedule.k!=fixed': false,
    '-schedule.k=fixed': false, demo: true, '-demo': false, '-other': true, friday: true, '"a friday"': true, 'tags=night': true, '-tags=night': false, 'seed=1.0': true, 'unknown>1': false, '-unknown>1': true, 'best>': false, '-': true,
    rounds: false, '-rounds': true, 'stop.rounds': true, fixed: true,
  })) assert.equal(matches(r, text, valueOf), want, text);
  assert.deepEqual(words('a "b c" d="e f"'), ['a', 'b c', 'd=e f']);
});

test('a search finds parts of a path and whole names of runs', () => {
  const r = run('runs/links/fixed,network.upload_mbps=5,seed=1', { seed: '1' });
  for (const [text, want] of Object.entries({
    'links/': true, 'links/fixed': true, './runs/links': true, 'runs/fixed': true, 'runs/mbps=5': true, 'links/seed=1': true, '/links/': true, 'runs/links/fixed,network.upload_mbps=5,seed=1': true,
    'fixed,network.upload_mbps=5': true, 'links/rounds': false, 'fixed/links': false, 'link/y': false, '-links/': false, '-links/rounds': true, 'LINKS/Fixed': true, 'links/seed=12': false,
  })) assert.equal(matches(r, text, has({ seed: 1 })), want, text);
});

test('lines of several folders are named by them, and within one by what differs', () => {
  const config = list => new Map(Object.entries(list));
  const at = (folder, schedule) => [run(folder + ',seed=1', { schedule }), run(folder + ',seed=2', { schedule })];
  const a = [at('runs/hospital/fixed', 'fixed'), at('runs/hospital/rounds', 'rounds'), at('runs/energy/fixed', 'fixed'), [run('runs/mine', { schedule: 'mine' })]];
  const configs = [config({ 'data.path': 'h.csv', clients: '11' }), config({ 'data.path': 'h.csv', clients: '11' }), config({ 'data.path': 'e.csv', clients: '12' }), config({ 'data.path': 'h.csv', clients: '11' })];
  assert.deepEqual(legendNames(a, configs, ['runs']), ['hospital/fixed', 'hospital/rounds', 'energy/fixed', 'mine']);
  assert.deepEqual(legendNames(a.slice(0, 2), configs.slice(0, 2), ['runs']), ['fixed', 'rounds'], 'one folder is not named');
  assert.deepEqual(legendNames([at('a/x/fixed', 'fixed'), at('b/x/fixed', 'fixed')], configs.slice(1, 3)), ['a/x/fixed', 'b/x/fixed'], 'as much of a path as it takes');
  const mixed = [run('runs/a/fixed,seed=1', { schedule: 'fixed' }), run('runs/b/fixed,seed=2', { schedule: 'fixed' })];
  assert.deepEqual(legendNames([mixed, a[1]], configs.slice(0, 2), ['runs']), ['fixed', 'hospital/rounds'], 'runs of two folders have no name of one');
  assert.deepEqual(legendNames([[...mixed, mixed[0]], a[1]], configs.slice(0, 2), ['runs']), ['a/fixed', 'hospital/rounds'], 'a run that was copied does not change the name');
});

test('a run has the name of its folder, and beside it what sets it apart', () => {
  const runs = ['runs/a', 'runs/b', 'runs/c'].map(f => run(f));
  const config = list => new Map(Object.entries(list));
  const configs = [config({ seed: '1', 'schedule.k.rule': 'fixed', cohort: '10' }), config({ seed: '2', 'schedule.k.rule': 'fixed', cohort: '10' }), config({ seed: '1', 'schedule.k.rule': 'rounds', cohort: '20' })];
  assert.deepEqual(tails(['runs/a', 'runs/b']), ['a', 'b']);
  assert.deepEqual(tails(['a/x', 'b/x', 'b/y', 'b/x/y']), ['a/x', 'b/x', 'b/y', 'x/y'], 'as much of the folders as it takes');
  assert.deepEqual(tails(['runs/a']), ['a']);
  assert.deepEqual(apart(runs, configs), ['fixed, seed=1', 'fixed, seed=2', 'rounds']);
  assert.deepEqual(apart(runs.slice(0, 2), configs.slice(0, 2)), ['seed=1', 'seed=2']);
  assert.deepEqual(apart(runs.slice(0, 1), configs.slice(0, 1)), [''], 'one alone is set apart from none');
  assert.deepEqual(apart(runs, configs, ['seed']), ['fixed', 'fixed', 'rounds'], 'runs that differ in their seeds alone are one line');
  assert.deepEqual(apart(['half', 'mine', 'half'].map((schedule, i) => run(String(i), { schedule })), configs), ['half, fixed', 'mine', 'half, rounds'], 'schedules have the names that were given to them');
  assert.deepEqual(apart([], []), []);
  assert.equal(besides('grid/fixed,seed=1', 'fixed, cohort=20, seed=1'), 'cohort=20', 'what the name says is not said again');
  assert.equal(besides('fixed,seed=1', 'fixed, seed=1'), '');
  assert.equal(titleOf({ name: 'demo', schedule: 'rounds', seed: '2' }), 'demo: rounds, seed=2');
  assert.equal(titleOf({ name: 'grid/rounds,seed=2', schedule: 'rounds', seed: '2' }), 'grid/rounds,seed=2');
});

test('a file of numbers quotes what has a comma, a quote or a line break', () => {
  assert.equal(csv([['a', 'b, c'], [1.25, undefined], ['say "x"', 'two\nlines']]), 'a,"b, c"\n1.25,\n"say ""x""","two\nlines"\n');
});

test('a line is constant if it has one value alone', () => {
  assert.deepEqual([[1, 1, 1], [1, 2], []].map(y => isConstant({ y })), [true, false, false]);
});

test('a configuration is the defaults and what the run sets; what differs comes first', () => {
  const c = configOf(run('a', { settings: ['schedule.k.formula="max(1, k0 / t)"', 'cohort=5'] }), { femnist: ['clients=100', 'cohort=10'] });
  assert.deepEqual([...c], [['clients', '100'], ['cohort', '5'], ['schedule.k.formula', 'max(1, k0 / t)']]);
  assert.equal(configOf({ settings: ['trainer.command="python3 a.py --of …'] }).get('trainer.command'), '"python3 a.py --of …', 'what a server has cut is shown as it is');
  assert.deepEqual(differing([c, new Map([['clients', '100'], ['cohort', '6']])]), { differ: ['cohort', 'schedule.k.formula'], same: ['clients'] });
});

test('a line is read where it was last measured, steps where they hold', () => {
  assert.deepEqual([0, 1, 1.5, 3, 9].map(x => valueAt({ x: [1, 2, 3], y: [5, 6, 7] }, x)), [-1, 0, 0, 2, 2]);
  const s = corners([1, 2, 3, 4], [8, 8, 4, 4]); // 8 in rounds 1 and 2, then 4 from the close of round 2 on
  assert.deepEqual([[...s.x], [...s.y]], [[1, 2, 2, 4], [8, 8, 4, 4]]);
  assert.deepEqual([1, 1.5, 2, 2.5, 4, 9].map(x => s.y[valueAt(s, x)]), [8, 8, 8, 4, 4, 4]);
  assert.deepEqual(corners([], []).x, []);
  const m = measured([1, 2, 3], [5, NaN, 7], [[4, NaN, 6], [6, NaN, 8]]);
  assert.deepEqual([m.x, m.y, m.low, m.high].map(c => [...c]), [[1, 3], [5, 7], [4, 6], [6, 8]]);
  assert.equal(firstAfter([1, 2, 2, 3], 2), 3);
});

test('a range zooms, moves and stays within what there is', () => {
  globalThis.requestAnimationFrame = () => 1;
  const s = new Span();
  s.most = 100;
  s.scale(0.5, 50);
  assert.deepEqual(s.range(), { low: 25, high: 75 });
  s.move(s.range(), 1000);
  assert.deepEqual(s.range(), { low: 50, high: 100 });
  s.scale(2, 100);
  assert.equal(s.part, null);
  s.places = { x: [10, 20], round: [1, 2] };
  s.point(14);
  assert.equal(s.cursor, 10, 'the cursor stands where rounds close');
  assert.equal(s.text(20), 'round 2, 20 s');
});

test('columns are read as they were written', () => {
  const head = new TextEncoder().encode(JSON.stringify({ rounds: 2, columns: [{ name: 'round' }, { name: 'loss' }], marks: [], costs: { round: [2], energy_joules: [4000], wall_seconds: [0] } }));
  const at = Math.ceil((4 + head.length) / 8) * 8, buffer = new ArrayBuffer(at + 32);
  new DataView(buffer).setUint32(0, head.length, true);
  new Uint8Array(buffer).set(head, 4);
  new Float64Array(buffer, at).set([1, 2, 0.5, 0.25]);
  const c = decode(buffer);
  assert.deepEqual([...c.column.loss], [0.5, 0.25]);
  assert.deepEqual([...axesOf([]).find(a => a.id === 'energy').of(c)], [2, 4], 'energy between the rows of progress.csv is on a straight line');
});

test('an axis is offered once', () => {
  const names = axesOf([{ name: 'round', axis: 'round' }, { name: 'used_energy_joules', axis: 'energy' }]).map(a => a.name);
  assert.deepEqual(names, ['round', 'energy', 'wall time']);
});

test('a mean over seeds has the interval of Student’s t', () => {
  const m = meanLine([1, 2, 3].map(v => ({ x: [0, 1], y: [v, v] })), 2); // mean 2, standard error 1/√3, t(2) = 4.303
  assert.ok(Math.abs(m.y[0] - 2) < 1e-12 && Math.abs(m.high[1] - 2 - 4.303 / Math.sqrt(3)) < 1e-3);
  assert.deepEqual([...smoothed([1, 3], 0.5)].map(v => v.toFixed(4)), ['1.0000', '2.3333']); // (0.25 + 1.5) / 0.75
});

test('a mean lies between measurements on a straight line, and of steps on what holds', () => {
  // Both lines rise by 1 a second, and are measured at other times: their mean does so, too, up to its end at 4.
  const rising = meanLine([{ x: [0, 2, 4], y: [0, 2, 4] }, { x: [0, 3, 5], y: [0, 3, 5] }], 5);
  assert.deepEqual([[...rising.x], [...rising.y].map(v => Number(v.toFixed(9)))], [[0, 1, 2, 3, 4], [0, 1, 2, 3, 4]]);
  const steps = meanLine([corners([1, 3], [8, 4]), corners([1, 2, 3], [8, 8, 4])], 5); // at 1.5 one has 4, the other 8 up to the close at 2
  assert.deepEqual([[...steps.x], [...steps.y]], [[1, 1.5, 2, 2.5, 3], [8, 6, 6, 4, 4]]);
});

test('a run has no value behind its end, and a mean is of the runs that are left', () => {
  const line = { x: [1, 2, 3], y: [5, 6, 7], end: 4 };
  assert.deepEqual([4, 4.5].map(x => valueAt(line, x)), [2, -1], 'the last value holds up to the end');
  const m = meanLine([[2, 3], [4, 5], [9, 7]].map(([last, v]) => ({ x: [0, last], y: [v, v] })), 5); // at 0, 1, 2, 3, 4
  assert.deepEqual([[...m.x], [...m.y], [...m.counts]], [[0, 1, 2, 3, 4], [5, 5, 5, 6, 6], [3, 3, 3, 2, 2]]);
  assert.deepEqual([2, 3].map(i => meanOf(m, i)), ['', 'mean of 2 of 3, the others have ended']);
  assert.equal(valueAt(m, 4.5), -1);
});

test('the band of two runs does not set the range of an axis', () => {
  const two = meanLine([1, 3].map(v => ({ x: [0, 1], y: [v, v] })), 2); // mean 2, standard error 1, t(1) = 12.706
  const three = meanLine([1, 2, 3].map(v => ({ x: [0, 1], y: [v, v] })), 2);
  const extent = lines => LineChart.prototype.extent.call({ lines }, 0, 1).map(v => v.toFixed(1));
  assert.deepEqual(extent([two]), ['2.0', '2.0']);
  assert.deepEqual(extent([two, three]), ['-0.5', '4.5']);
});

test('numbers are said as people say them', () => {
  assert.equal(duration(3725), '1 h 2 min');
  assert.equal(short(0.00001234, 4), '1.23e-5');
  assert.deepEqual([0.25, 0, 2.402e-8, -3e-5, -0.5, 1.5e12, null].map(v => fixed(v, 4)), ['0.2500', '0.0000', '2.4e-8', '−3e-5', '−0.5000', '1.5e12', '–']);
  assert.deepEqual(['-0.156 ± 0.072', '-', 'eta-rounds', '1e-5', 'from 3 to -2'].map(minus), ['−0.156 ± 0.072', '–', 'eta-rounds', '1e-5', 'from 3 to −2']);
  assert.deepEqual(ticks(1, 10, 4), [2.5, 5, 7.5, 10]);
  assert.equal(tickText([0, 2.5])(2.5), '2.5');
  assert.deepEqual(timeUnit(7200).name, 'minutes');
});

test('a name in the legend hides its line in all charts, and the last one shows all', () => {
  const span = new Span();
  const names = ['fixed', 'rounds'];
  const nothing = () => {};
  const chart = given => {
    const c = { span, given: given.map(name => ({ name })), name: nothing, draw: nothing, fillTable: nothing, show: LineChart.prototype.show };
    span.charts.add(c);
    return c;
  };
  const both = chart(names);
  const one = chart(['fixed']);
  const drawn = c => c.lines.map(l => l.name);
  span.toggle('fixed', names);
  assert.deepEqual([drawn(both), drawn(one)], [['rounds'], ['fixed']]); // a chart without any line would be empty
  span.toggle('fixed', names);
  assert.deepEqual(drawn(both), names);
  for (const name of names) span.toggle(name, names);
  assert.deepEqual(drawn(both), names);
});

test('an axis of times has their unit', () => {
  assert.deepEqual([0, 0.02, 0.04].map(secondsText([0, 0.02, 0.04])), ['0', '20 ms', '40 ms']);
  assert.deepEqual([0, 0.05, 0.1].map(secondsText([0, 0.05, 0.1])), ['0', '0.05 s', '0.10 s']);
  assert.deepEqual([0, 7200, 14400].map(secondsText([0, 7200, 14400])), ['0', '2 h', '4 h']);
  const [times, steps] = ['time', 'count'].map(kind => chartsOf([{ name: kind, kind, title: kind }])[0]);
  const chart = { options: times, span: new Span(), heading: { textContent: 'time' }, given: [], lines: [{ name: 'a', x: [1], y: [0.07] }], extent: () => [0.01, 0.07] };
  assert.deepEqual(LineChart.prototype.rows.call(chart)[0], ['series', 'virtual time, s', 'time, s', 'low', 'high']);
  assert.equal(LineChart.prototype.describe.call({ ...chart, options: { ...times, sorted: true } }), '1 curve, from 0.01 s to 0.07 s');
  assert.deepEqual([times.seconds, times.text(0.07), steps.seconds, steps.text], [true, '0.07 s', false, undefined]);
});

test('labels of the last two axes of a sweep share their gap', () => {
  assert.deepEqual([0, 1, 2].map(i => lettersAt(i, 11, [6, 6, 3])), [11, 8, 5]);
  assert.deepEqual([1, 2].map(i => lettersAt(i, 11, [6, 20, 20])), [5, 5], 'long labels have a half each');
});

test('a sweep places numbers by size and words in their order', () => {
  const a = axisOf({}, [10, 20, 40]), b = axisOf({}, ['fixed', 'rounds', null]);
  assert.deepEqual([a.at(20), a.at(40), a.at(null)], [1 / 3, 1, null]);
  assert.deepEqual([b.at('fixed'), b.at('rounds'), b.text(null)], [0, 1, '–']);
});

test('each schedule of a comparison has one hue, its controls other dashes', () => {
  const row = (schedule, point = '') => ({ schedule, point });
  const lines = looks([row('fixed'), row('rounds'), row('rounds'), row('fixed', 'close=all')]);
  assert.deepEqual(lines.map(l => l.colour), ['line-0', 'line-1', 'line-1', 'line-0']);
  assert.deepEqual(lines[0].dash, lines[3].dash, 'another point has a chart of its own');
  assert.notDeepEqual(lines[1].dash, lines[2].dash);
  const ten = looks([...'abcdefghij'].map(name => row(name)));
  assert.equal(new Set(ten.map(l => l.colour + l.dash)).size, 10, 'no two schedules look alike');
  const places = [1, 2, 3, 4, 5].map(jitter);
  assert.ok(places.every(p => Math.abs(p) <= 1) && new Set(places).size === 5);
});

test('a schedule has the hue of the comparison on the board of its runs', () => {
  const names = ['fixed', 'rounds', 'error', 'dsgd'];
  const compared = looks(names.map(schedule => ({ schedule, point: '' })));
  const lines = [...names, 'rounds', 'dsgd-shuffled'].map((schedule, i) => ({ schedule, folder: 'runs/' + i }));
  const order = hueOrder(lines);
  names.forEach((name, i) => assert.equal(compared[i].colour, 'line-' + order.indexOf(lines[i]), name));
  assert.deepEqual(order.slice(4).map(l => l.schedule), ['dsgd-shuffled', 'rounds'], 'controls and further lines come behind');
});

// How far colours are apart (CIE 1976) for who sees all, and for deuteranopes and protanopes (Machado 2009).
test('eight curves have colours that the colour-blind tell apart', () => {
  const eyes = [[1, 0, 0, 0, 1, 0, 0, 0, 1], [0.367322, 0.860646, -0.227968, 0.280085, 0.672501, 0.047413, -0.01182, 0.04294, 0.968881], [0.152286, 1.052583, -0.204868, 0.114503, 0.786281, 0.099216, -0.003882, -0.048116, 1.051998]];
  const times = (m, v) => [0, 3, 6].map(r => m[r] * v[0] + m[r + 1] * v[1] + m[r + 2] * v[2]);
  const lab = rgb => {
    const [x, y, z] = times([0.4124 / 0.9505, 0.3576 / 0.9505, 0.1805 / 0.9505, 0.2126, 0.7152, 0.0722, 0.0193 / 1.089, 0.1192 / 1.089, 0.9505 / 1.089], rgb.map(c => Math.min(1, Math.max(0, c)))).map(t => t > 0.008856 ? Math.cbrt(t) : 7.787 * t + 16 / 116);
    return [116 * y - 16, 500 * (x - y), 200 * (y - z)];
  };
  const linear = hex => [1, 3, 5].map(i => parseInt(hex.slice(i, i + 2), 16) / 255).map(c => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
  const colours = [...readFileSync('page.css', 'utf8').matchAll(/--line-\d: (#\w{6})/g)].map(m => m[1]);
  assert.equal(colours.length, 16); // light, then dark
  for (const scheme of [colours.slice(0, 8), colours.slice(8)]) for (const eye of eyes) {
    const seen = scheme.map(c => lab(times(eye, linear(c))));
    seen.forEach((a, i) => seen.slice(0, i).forEach((b, j) => assert.ok(Math.hypot(...a.map((v, k) => v - b[k])) > 8, `${scheme[i]} and ${scheme[j]}`)));
  }
});

test('seeds are one line only if their files are the same', () => {
  const seed = (id, summary) => run(String(id), { id, settings: [`seed=${id}`], summary });
  const links = (content, source) => ({ inputs: [{ key: 'network.links', path: 'links.csv', sha256: content }], data_source: source });
  const runs = [seed(1, links('a', 'x')), seed(2, links('b', 'x')), seed(3, null), seed(4, links('b', 'x')), seed(5, links('b', 'y'))];
  const ids = list => [...groupsBySeed(list).values()].map(group => group.map(r => r.id));
  assert.deepEqual(ids(runs), [[1], [2, 4, 3], [5]]);
  assert.equal(groupsBySeed(runs).size, 3, 'each group has a key of its own');
  assert.deepEqual(ids([seed(1, null), seed(2, null)]), [[1, 2]]);
  assert.deepEqual(ids([seed(1, {}), run('other', { id: 9, schedule: 'rounds', summary: {} }), seed(2, {})]), [[1, 2], [9]]);
});

test('controls of several seeds are one line, and long values are cut', () => {
  const control = (seed, k) => ({ task: 't', schedule: 'rounds-shuffled', settings: [`seed=${seed}`, `schedule.k={rule: list, values: [${k}]}`, 'cohort=5'] });
  assert.equal(alikeBySeed(control(1, '3,1,2')), alikeBySeed(control(2, '2,3,1')));
  const fixed = k => ({ task: 't', schedule: 'fixed', settings: ['seed=1', `schedule.k0=${k}`] });
  assert.notEqual(alikeBySeed(fixed(1)), alikeBySeed(fixed(2)), 'schedules that are no controls differ by their K');
  const data = name => ({ schedule: 'fixed', settings: [`data={source: table, path: ${name}, ${'x'.repeat(100)}}`] });
  const runs = [data('a'), data('b')];
  assert.ok(apart(runs, runs.map(r => configOf(r))).every(name => name.length < 60));
});

test('the axis of a share ends at 0 and 1', () => {
  assert.ok(isShare('validation_accuracy') && isShare('accuracy') && !isShare('validation_loss'));
  const chart = { options: { share: true }, lines: [{ x: [0, 1], y: [0.1, 0.9], low: [-0.5, 0.8], high: [0.7, 1.2] }] };
  assert.deepEqual(LineChart.prototype.extent.call(chart, 0, 1), [0, 1]);
});
