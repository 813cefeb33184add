// --- one run, from its snapshot

import { $, make, setText, changed, fillRows, known, whole, fixed, short, duration, bytes, percent, count } from './base.js';
import { isWhole, titleOfMetric } from './curves.js';
import { configOf, titleOf } from './find.js';
import { Span, LineChart, corners, isConstant, measured } from './lines.js';
import { Timeline, showWaiting } from './tasks.js';

// --- what the charts show of a snapshot

export const time = new Span();
const timesSpan = new Span(), predictedSpan = new Span(), participationSpan = new Span();
const metricSpans = {};
const charts = {};
const timeline = new Timeline();

// chartOf is a chart that is made when a run has it.
const chartOf = (id, title, options, span = time) => charts[id] ||= new LineChart(span, id, title, { legend: true, ...options });

// firstFirst are the metrics with their places, the one that is shown first in front.
const firstFirst = metrics => metrics.map((m, at) => [m, at]).sort((a, b) => b[0].first - a[0].first);

// valueOf is what a column had last, and textOf says it.
const valueOf = (s, name) => s.columns.find(c => c.name === name).value;
const textOf = (c, v) => !known(v) ? '–' : c.kind === 'time' ? duration(v) : isWhole(c) ? whole(v) : short(v, 5);

function showCharts(s) {
  const c = s.curves, e = s.evaluations, list = [];
  const some = column => column.some(known);
  const rounds = c.each === 1 ? 'round' : `${whole(c.each)} rounds`;
  const show = (chart, lines, note) => { list.push(chart.figure); chart.set(lines, note); };
  const four = v => fixed(v, 4);
  time.most = c.virtual_seconds[c.virtual_seconds.length - 1] || 0;
  time.places = { x: c.virtual_seconds, round: c.round };

  show(chartOf('loss', 'Loss', { text: four, stacked: true }), [
    { ...measured(c.virtual_seconds, c.training_loss, c.each > 1 ? [c.training_loss_low, c.training_loss_high] : null), thin: true, colour: 'blue', name: c.each === 1 ? 'training, a round' : `training, mean of ${rounds}` },
    { ...measured(c.virtual_seconds, c.window_loss), wide: true, colour: 'blue', name: `mean of the last ${whole(s.run.window)}` },
    { ...measured(e.virtual_seconds, e.loss), wide: true, dash: [6, 4], colour: 'red', name: 'validation' },
  ]);
  for (const [m, at] of firstFirst(s.run.metrics)) {
    const best = s.now.best_metrics[at];
    const line = { ...measured(e.virtual_seconds, e[m.name]), wide: true, colour: 'green', name: m.name };
    if (!m.first && isConstant(line)) continue; // such as the share of the majority
    show(chartOf(m.name === 'accuracy' ? m.name : 'metric-' + m.name, 'Validation ' + titleOfMetric(m.name), { text: four }), [line],
      known(best) ? `Best so far ${four(best)}` + (known(m.target) ? `; the run ends at ${short(m.target)}` : '') : '');
  }
  for (const of of s.columns.filter(of => of.title && c[of.name] && of.name !== 'window_loss' && some(c[of.name]))) { // that is drawn above
    const m = measured(c.virtual_seconds, c[of.name]), name = of.at_start || c.each === 1 ? '' : `mean of ${rounds}`;
    const stacked = beside.includes(of.name);
    const line = { ...corners(m.x, m.y), wide: true, colour: of.at_start ? 'purple' : 'blue', name };
    // A constant series is in the tiles and the configuration; beside the loss it says that K does not change.
    if (!stacked && isConstant(line)) continue;
    show(chartOf(of.name, of.title, { integers: isWhole(of), fromZero: true, text: v => textOf(of, v), seconds: of.kind === 'time', stacked, height: stacked ? 150 : 240 }), [line]);
  }
  showTimes(s.round_times, show);
  showClients(s, show);
  if (s.prediction) showPrediction(s.prediction, show);
  if (!time.bar) $('charts').before(make('div', { class: 'controls' }, time.tools()));
  if (!timeline.held && (s.last_round.tasks.length || !s.last_round.round)) { timeline.set(s.last_round); timeline.at?.(s.last_round.round); }
  list.push(timeline.figure);
  // The loss, K and the time of a round stand above each other, on one axis.
  const above = ['loss', ...beside].map(id => charts[id]?.figure).filter(f => list.includes(f));
  const below = list.filter(f => !above.includes(f));
  if (above.some((f, i) => f !== stack.children[i])) stack.replaceChildren(...above);
  if ([stack, ...below].some((f, i) => f !== $('charts').children[i])) $('charts').replaceChildren(stack, ...below);
}

// What stands below the loss, on the same axis of virtual time.
const beside = ['local_steps', 'round_seconds'];
const stack = make('div', { class: 'stack' });

// bins are the steps of a histogram's bars.
const bins = bars => corners([bars[0].from, ...bars.map(b => b.to)], [bars[0].count, ...bars.map(b => b.count)]);

// showClients shows how often clients trained, and how well the model does on their samples.
function showClients(s, show) {
  const { since, bars, most } = s.participation;
  const binAt = (bars, x) => bars.find(b => x <= b.to) || bars[bars.length - 1];
  const updates = b => b.to - b.from > 1 ? `${whole(b.from)} to ${whole(b.to - 1)} updates` : count(b.from, 'update', 'updates');
  participationSpan.axis = { name: 'accepted updates of a client', integers: true, low: 0, text: x => updates(binAt(bars, x)) };
  participationSpan.most = bars.length ? bars[bars.length - 1].to : 1;
  const named = most.map(m => `${m.name || 'client ' + m.client} (${count(m.updates, 'time', 'times')})`).join(', ');
  show(chartOf('participation', 'Participation: how often clients trained', { integers: true, fromZero: true, bare: true, text: v => count(v, 'client', 'clients') }, participationSpan),
    bars.length ? [{ ...bins(bars), fill: true, colour: 'blue', name: '' }] : [],
    bars.length ? `${whole(bars[0].from === 0 && bars[0].to === 1 ? bars[0].count : 0)} never${since > 1 ? ` since round ${whole(since)}` : ''}; most often ${named}` : '');
  for (const m of s.fairness.metrics) {
    const span = metricSpans[m.name] ||= new Span();
    const list = m.bars;
    const air = list.length === 1 ? Math.max(Math.abs(list[0].from) * 0.02, 1e-6) : 0; // all alike: a bar with air on both sides
    const wide = list.map(b => ({ ...b, from: b.from - air, to: b.to + air }));
    span.axis = { name: `${m.name} on a client’s samples`, low: wide[0]?.from, text: x => { const b = binAt(list, x); return `${short(b.from, 3)} to ${short(b.to, 3)}`; } };
    span.most = wide.length ? wide[wide.length - 1].to : 1;
    show(chartOf('clients-' + m.name, `${titleOfMetric(m.name)[0].toUpperCase()}${titleOfMetric(m.name).slice(1)} by client`, { integers: true, fromZero: true, bare: true, text: v => count(v, 'client', 'clients') }, span),
      wide.length ? [{ ...bins(wide), fill: true, colour: 'green', name: '' }] : [], `After round ${whole(s.fairness.round)}: mean ${fixed(m.mean, 4)}, worst tenth ${fixed(m.worst_decile, 4)}`);
  }
}

// showTimes shows how many rounds took how long.
function showTimes(t, show) {
  const bars = t.bars, last = bars.length - 1, air = last ? 0 : bars[0].to * 0.02; // all alike: a bar with air on both sides
  timesSpan.axis = {
    name: 'time of a round (virtual)', seconds: true, log: t.logarithmic, low: bars.length ? Math.max(0, bars[0].from - air) : 0,
    text: x => { const b = bars.find(b => x <= b.to) || bars[last]; return `from ${duration(b.from)} to ${duration(b.to)}`; },
  };
  timesSpan.most = bars.length ? bars[last].to + air : 1;
  const line = bars.length ? corners([bars[0].from - air / 4, ...bars.map(b => b.to + air / 4)], [bars[0].count, ...bars.map(b => b.count)]) : { x: [], y: [] };
  show(chartOf('times', 'Time of rounds', { integers: true, fromZero: true, bare: true, text: v => count(v, 'round', 'rounds') }, timesSpan), [{ ...line, fill: true, colour: 'blue', name: '' }],
    t.count ? `Median ${duration(t.median)}, 90 % within ${duration(t.p90)}, 99 % within ${duration(t.p99)}, longest ${duration(t.most)}` : '');
}

// showPrediction shows rounds of real devices beside what was predicted of them.
function showPrediction(p, show) {
  const inside = p.round.filter((_, i) => known(p.measured[i]) && p.measured[i] >= p.p05[i] && p.measured[i] <= p.p95[i]).length;
  predictedSpan.axis = { name: 'round', integers: true, low: p.round[0] };
  predictedSpan.most = p.round[p.round.length - 1];
  show(chartOf('predicted', 'Rounds: measured and predicted', { fromZero: true, seconds: true, text: duration }, predictedSpan), [
    { x: p.round, y: p.p50, low: p.p05, high: p.p95, dash: [6, 4], wide: true, colour: 'blue', name: 'predicted, with the interval of 90 %' },
    { ...measured(p.round, p.measured), wide: true, colour: 'red', name: 'measured' },
  ], `${count(inside, 'round', 'rounds')} of ${whole(p.round.length)} inside their interval`);
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
  // A run that was stopped has no final measures: its last ones stay.
  const from = (name, live) => end && known(end[name]) ? end[name] : live;
  const best = v => known(v) ? 'best ' + fixed(v, 4) : '';
  const rounds = from('rounds', s.progress.round), virtual = from('virtual_seconds', s.progress.virtual_seconds);
  for (const id in tiles) tiles[id].box.hidden = true;
  tile('rounds', 'Rounds', rounds, whole(rounds), s.progress.rounds ? 'of ' + whole(s.progress.rounds) : '');
  tile('virtual_seconds', 'Virtual time', virtual, duration(virtual), s.progress.virtual_total ? 'of ' + duration(s.progress.virtual_total) : '');
  if (s.run.data) {
    const loss = from('training_loss', now.training_loss), bestLoss = from('best_training_loss', now.best_training_loss);
    tile('training_loss', 'Training loss', loss, fixed(loss, 4), best(bestLoss));
    const v = from('validation_loss', valueOf(s, 'validation_loss'));
    tile('validation_loss', 'Validation loss', v, fixed(v, 4));
    for (const [m, at] of firstFirst(s.run.metrics)) {
      const last = end && (end.metrics || []).find(x => x.name === m.name) || {}, v = known(last.validation) ? last.validation : now.metrics[at];
      tile('validation_' + m.name, 'Validation ' + titleOfMetric(m.name), v, fixed(v, 4), best(known(last.best) ? last.best : now.best_metrics[at]));
    }
  }
  const k = valueOf(s, 'local_steps'), took = valueOf(s, 'round_seconds');
  tile('local_steps', 'Local steps, K_r', k, s.progress.round ? whole(k) : '–', s.progress.round ? 'η_r ' + short(valueOf(s, 'learning_rate'), 4) : '');
  const steps = from('sgd_steps', valueOf(s, 'sgd_steps')), relative = end ? end.relative_sgd_steps : null;
  tile('sgd_steps', 'SGD steps a client', steps, whole(steps), known(relative) ? fixed(relative, 4) + ' of fixed K’s' : '');
  tile('round_seconds', 'Last round', took, s.progress.round ? duration(took) : '–', s.round_times.count ? 'median ' + duration(s.round_times.median) : '');
}

export function showProgress(s, passed) {
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
  if (!ended && known(p.left_seconds) && p.left_seconds > 0) {
    const at = s => duration(Math.max(1, Math.round(s - passed))), [about, low, high] = [p.left_seconds, ...p.left_90].map(at);
    parts.push(['', `about ${about} left` + (low === high ? '' : ` (90 %: ${low} to ${high})`)]);
  }
  const paced = wall - (ended ? 0 : idle);
  if (p.round && paced > 0) parts.push(['', short(p.round / paced, 3) + ' rounds/s']);
  if (!ended && p.round && idle >= 10) parts.push(['', 'last round closed ' + duration(Math.round(idle)) + ' ago']);
  if (!ended && !p.round) parts.push(['', 'the first round is under way']);
  const text = $('progress-text');
  if (changed(text, parts)) text.replaceChildren(...parts.map(([kind, words]) => kind ? make('span', {}, make(kind, {}, words)) : make('span', {}, words)));
  bar.setAttribute('aria-valuetext', parts.map(x => x[1]).join(', '));
  document.title = (ended ? { completed: 'Completed', stopped: 'Stopped' }[s.state] : measured ? (100 * f).toFixed(0) + ' %' : 'round ' + whole(p.round)) + ' · ' + titleOf(s.run) + ' · fedpace';
}

// settingsOf is a run's configuration: what it sets itself, then all else that is set.
const settingsOf = s => new Map([...configOf({ settings: s.run.own }), ...[...configOf({ settings: s.run.settings })].filter(([, v]) => v !== 'null')]);

// scheduleOf says by what formula and from which K_0 and eta_0 the schedule goes.
function scheduleOf(s) {
  const c = settingsOf(s), of = (name, key) => known(c.get(key)) ? `${name} = ${c.get(key)}` : null;
  return [s.run.schedule, of('K_r', 'schedule.k.formula'), of('η_r', 'schedule.eta.formula'), of('K_0', 'schedule.k0'), of('η_0', 'schedule.eta0')].filter(Boolean).join(', ');
}

// fairnessOf is the last evaluation on the clients' own samples, in whose summary the accuracy stands before other metrics.
function fairnessOf(s) {
  const e = s.summary && s.summary.client_evaluation;
  if (!e) return s.fairness;
  const accuracy = { name: 'accuracy', mean: e.mean_accuracy, worst_decile: e.worst_decile_accuracy, jain: e.jain_accuracy };
  return { round: e.round, metrics: [...(known(e.mean_accuracy) ? [accuracy] : []), ...(e.metrics || [])] };
}

function showTables(s) {
  const end = s.summary, own = configOf({ settings: s.run.own });
  fillRows($('settings'), ['key', 'value'], [...settingsOf(s)].map(([key, value]) => [key, value]));
  $('settings').querySelectorAll('tbody tr').forEach((r, i) => r.classList.toggle('differs', i < own.size));
  const outcomes = end && end.outcomes || s.outcomes;
  const all = Object.values(outcomes).reduce((a, b) => a + b, 0);
  fillRows($('outcomes'), ['outcome', 'tasks', 'share', ''], Object.entries(outcomes).map(([name, n]) =>
    [name, { id: 'outcome-' + name, value: n, text: whole(n) }, all ? percent(n / all) : '–', make('svg:svg', { 'aria-hidden': 'true' }, make('svg:rect', { fill: 'var(--blue)', width: (all ? 100 * n / all : 0).toFixed(2) + '%', height: 8, rx: 2 }))]));
  fillRows($('values'), ['', 'value', 'unit', 'what it is'], s.progress.round ? s.columns.map(c => [c.name, { id: 'column-' + c.name, value: c.value, text: textOf(c, c.value) }, c.kind === 'time' ? '' : c.unit, c.help]) : []);
  const devices = s.actors.devices || [];
  $('devices').closest('section').hidden = !devices.length;
  fillRows($('devices'), ['device', 'state', 'last heard', 'version', 'kernel', 'samples', 'newest lines of its log'], devices.map(d =>
    [d.name, d.state, d.heard ? new Date(d.heard).toLocaleTimeString('en-GB') : '–', d.version || '–', d.kernel || '–', d.samples ? whole(d.samples) : d.state === 'not joined' ? '–' : 'not reported', (d.log || []).join('\n')]));
  const spent = end && end.client_seconds ? { client_seconds: end.client_seconds, sgd_steps: end.sgd_steps_clients, bytes: end.bytes } : s.spent;
  const row = (name, v, text) => {
    const sum = v.useful + v.wasted;
    return [name, { text: text(v.useful), value: v.useful }, { text: text(v.wasted), value: v.wasted }, sum ? percent(v.wasted / sum) : '–'];
  };
  fillRows($('spent'), ['', 'useful', 'wasted', 'share'], [
    row('time', spent.client_seconds, duration), row('SGD steps', spent.sgd_steps, v => short(v, 4)), row('transfer', spent.bytes, bytes)]);

  const facts = [['task', s.run.task], ['schedule', scheduleOf(s)], ['data', s.run.data || 'timing only, nothing is trained'],
    ['clients', [s.actors.simulated && `${whole(s.actors.simulated)} simulated`, s.actors.real && `${whole(s.actors.real)} real`].filter(Boolean).join(', ') + `; ${whole(s.run.cohort)} a round`],
    ['a round closes', s.run.closing], ['seed', s.run.seed], ['started', new Date(s.run.started).toLocaleString('en-GB')]];
  const fairness = fairnessOf(s), privacy = end && end.privacy || { epsilon: s.now.epsilon, delta: s.run.delta };
  for (const m of fairness.metrics.filter(m => known(m.mean))) { // some metrics have no value for one client alone
    facts.push([`fairness of ${m.name}`, `on the clients' own samples ${fixed(m.mean, 4)} on the mean and ${fixed(m.worst_decile, 4)} in the worst tenth, Jain's index ${fixed(m.jain, 3)}, after round ${whole(fairness.round)}`]);
  }
  if (known(privacy.epsilon)) facts.push(['privacy', `epsilon ${short(privacy.epsilon, 4)} at delta ${privacy.delta}`]);
  if (end) {
    facts.push(['ended', s.state === 'completed' ? 'completed' : 'stopped before its end']);
    const own = end.local_noise;
    if (own) facts.push(['local noise', `epsilon ${short(own.epsilon, 4)} at delta ${own.delta} of each update, ${short(own.epsilon_rounds, 4)} of a client in all rounds`]);
    const together = end.distributed_noise;
    if (together) facts.push(['clients\' noise', `epsilon ${short(together.replace_one.zcdp, 4)} at delta ${together.delta} (replace one), ${short(together.zero_out.zcdp, 4)} (zero out)`]);
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
  const list = $('run'), code = ['fingerprint', 'model', 'kernel'];
  if (changed(list, facts)) list.replaceChildren(...facts.flatMap(([name, text]) => [make('dt', {}, name), make('dd', { class: code.includes(name) ? 'code' : null, id: 'run-' + name.replaceAll(' ', '-') }, String(text))]));
}

// scrub shows the tasks of any round that read gives; null: of the last alone.
export function scrub(read) {
  timeline.figure.querySelector('.scrubber')?.remove();
  Object.assign(timeline, { held: false, at: null }).figure.hidden = true; // held: an earlier round is looked at
  if (!read || !snapshot || !snapshot.last_round.round) return;
  const last = snapshot.last_round.round;
  const slider = make('input', { type: 'range', min: 1, max: last, value: last, 'aria-label': 'Round' }), number = make('output', {}, whole(last)), says = make('span', { class: 'quiet' });
  let wanted = 0;
  const go = async () => {
    const n = wanted = Number(slider.value);
    timeline.held = n < Number(slider.max);
    setText(number, whole(n));
    try {
      const r = await read(n);
      if (wanted !== n || !snapshot) return;
      setText(says, r.tasks.length < r.cohort && r.tasks.length < 2 ? 'of this round the log keeps the slowest task alone' : '');
      timeline.set(r);
    } catch (e) {
      if (wanted === n) setText(says, e.message);
    }
  };
  slider.addEventListener('input', go);
  const step = (text, by) => { const b = make('button', { type: 'button', class: 'toggle' }, text); b.addEventListener('click', () => { slider.value = Number(slider.value) + by; go(); }); return b; };
  timeline.at = n => { slider.max = n; slider.value = n; setText(number, whole(n)); };
  timeline.figure.querySelector('figcaption').after(make('div', { class: 'scrubber' }, 'Round', slider, number, step('back', -1), step('on', 1), says));
}

// showNotices folds the notices into one line with their number, and the newest or the worst of them.
function showNotices(s) {
  const list = s.notices.list.map(n => ({ when: n.round ? 'after round ' + whole(n.round) : 'at the start', text: n.text + (n.times > 1 ? ` (${whole(n.times)} times)` : '') }));
  if (s.notices.unseen) list.push({ when: '', text: `${count(s.notices.unseen, 'notice is', 'notices are')} not shown.` });
  if (s.empty_rounds) list.push({ when: '', warn: true, text: `In ${count(s.empty_rounds, 'round', 'rounds')} no update was accepted: the model stayed as it was.` });
  if (s.why) list.unshift({ when: '', text: 'The run stopped: ' + s.why, bad: true });
  const box = $('notices');
  box.hidden = list.length === 0;
  if (box.hidden || !changed($('notice-list'), list)) return;
  const first = list.find(n => n.bad) || list.find(n => n.warn) || list[list.length - 1];
  box.classList.toggle('bad', !!first.bad);
  box.classList.toggle('warn', !!first.warn);
  $('notices-title').replaceChildren(make('b', {}, count(list.length, 'notice', 'notices')), make('span', {}, first.text));
  $('notice-list').replaceChildren(...list.map(n => make('li', { class: n.bad ? 'bad' : n.warn ? 'warn' : null }, n.when ? make('span', { class: 'when' }, n.when) : null, n.text)));
}

// --- the page as a whole

export let snapshot = null; // the newest
let received = 0; // when it came, on the page's clock
let waiting = false; // for the next animation frame

function show() {
  waiting = false;
  const s = snapshot;
  if (!s) return;
  setText($('name'), titleOf(s.run));
  setText($('about'), [s.run.folder, s.run.task, scheduleOf(s), `${whole(s.actors.simulated + s.actors.real)} clients`, s.run.data || 'timing only'].filter(Boolean).join(' · '));
  showProgress(s, passed());
  showTiles(s);
  showWaiting($('waits'), 'waits-title', [{ part: null, of: s }]);
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

export const passed = () => snapshot && snapshot.state === 'running' ? (performance.now() - received) / 1000 : 0;

export function take(next) {
  if (snapshot && next.curves.from > 0) { // the end of curves that are here already
    const from = next.curves.from;
    for (const name in next.curves) {
      if (Array.isArray(next.curves[name])) next.curves[name] = snapshot.curves[name].slice(0, from).concat(next.curves[name]);
    }
    next.curves.from = 0;
  }
  if (snapshot) next.run.settings ??= snapshot.run.settings; // which the end of curves comes without
  snapshot = next;
  received = performance.now();
  soon();
}

export const stateTexts = { running: 'Live', completed: 'Completed', stopped: 'Stopped before its end' };

export function status(state, text) {
  $('status').dataset.state = state;
  setText($('status-text'), text);
}
