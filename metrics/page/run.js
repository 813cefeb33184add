// --- what the charts show of a snapshot

const chart = {};
function buildCharts() {
  chart.loss = new Curves('loss', 'Loss', {});
  chart.accuracy = new Curves('accuracy', 'Validation accuracy', {});
  chart.times = new Distribution('times', 'Time of rounds', {});
  chart.predicted = new Curves('predicted', 'Rounds: measured and predicted', {});
  chart.timeline = new Timeline('timeline', 'The last round', { wide: true });
}

// firstFirst are the metrics with their places, the one that is shown first in front.
const firstFirst = metrics => metrics.map((m, at) => [m, at]).sort((a, b) => b[0].first - a[0].first);

// chartOf is a chart of a column, which is made when a run has it: before another.
function chartOf(id, title, before) {
  if (!chart[id]) {
    chart[id] = new Curves(id, title, {});
    chart[before].figure.before(chart[id].figure);
  }
  return chart[id];
}

// metricChart is the chart of a metric; the one that is shown first stands before the accuracy.
const metricChart = m => m.name === 'accuracy' ? chart.accuracy : chartOf('metric-' + m.name, 'Validation ' + m.name, m.first ? 'accuracy' : 'times');

// valueOf is what a column had last, and textOf says it.
const valueOf = (s, name) => s.columns.find(c => c.name === name).value;
const isWhole = c => c.kind === 'count' || c.kind === 'total';
const textOf = (c, v) => !known(v) ? '–' : c.kind === 'time' ? duration(v) : isWhole(c) ? whole(v) : short(v, 5);

function showCharts(s) {
  const c = s.curves, e = s.evaluations;
  const some = column => column.some(known);
  const rounds = c.each === 1 ? 'round' : `${whole(c.each)} rounds`;
  const when = (round, t) => [['round', whole(round)], ['', duration(t)]];

  chart.loss.set(some(c.training_loss) || some(e.loss) ? {
    label: 'loss', x: c.virtual_seconds, length: c.round.length,
    series: [
      { x: c.virtual_seconds, y: c.training_loss, low: c.training_loss_low, high: c.training_loss_high, band: c.each > 1, style: 'thin', colour: 'blue', over: true, name: c.each === 1 ? 'training, a round' : `training, mean of ${rounds}` },
      { x: c.virtual_seconds, y: c.window_loss, style: '', colour: 'blue', over: true, name: `mean of the last ${whole(s.run.window)}` },
      { x: e.virtual_seconds, y: e.loss, style: 'dash', colour: 'red', dots: true, name: 'validation' },
    ],
    read: i => {
      const j = at({ x: e.virtual_seconds }, c.virtual_seconds[i]);
      return [...when(c.round[i], c.virtual_seconds[i]), ['training', fixed(c.training_loss[i], 4)], ['window', fixed(c.window_loss[i], 4)],
        ...(j >= 0 ? [['validation', fixed(e.loss[j], 4)]] : [])];
    },
    describe: () => `training loss ${fixed(s.now.training_loss, 4)}, validation loss ${fixed(valueOf(s, 'validation_loss'), 4)}`,
    table: () => ({
      head: ['round', 'virtual time, s', 'training loss', 'mean of the window', 'validation loss'],
      rows: sampleRows(c.round.length).map(i => {
        const j = at({ x: e.virtual_seconds }, c.virtual_seconds[i]);
        return [whole(c.round[i]), short(c.virtual_seconds[i], 7), fixed(c.training_loss[i], 4), fixed(c.window_loss[i], 4), j >= 0 ? fixed(e.loss[j], 4) : '–'];
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

  for (const of of s.columns.filter(of => of.title && c[of.name] && of.name !== 'window_loss')) { // that is drawn above
    const y = c[of.name], name = of.at_start || c.each === 1 ? of.title : `mean of ${rounds}`, text = v => textOf(of, v);
    chartOf(of.name, of.title, 'times').set(some(y) ? {
      label: of.unit || of.title, integers: isWhole(of), x: c.virtual_seconds, length: c.round.length, fromZero: true,
      series: [{ x: c.virtual_seconds, y, steps: true, style: '', colour: of.at_start ? 'purple' : 'blue', name: null }],
      read: i => [...when(c.round[i], c.virtual_seconds[i]), [name, text(y[i])]],
      describe: () => `${of.title} ${text(y[y.length - 1])} in round ${whole(c.round[c.round.length - 1])}`,
      table: () => ({
        head: ['round', 'virtual time, s', name],
        rows: sampleRows(c.round.length).map(i => [whole(c.round[i]), short(c.virtual_seconds[i], 7), text(y[i])]),
      }),
    } : null);
  }

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

  showPrediction(s.prediction);
  showTimeline(s.last_round);
}

// showPrediction shows rounds of real devices beside what was predicted of them.
function showPrediction(p) {
  chart.predicted.set(p ? {
    label: 'seconds a round', x: p.round, length: p.round.length, by: 'round', fromZero: true,
    series: [
      { x: p.round, y: p.p50, low: p.p05, high: p.p95, band: true, style: 'dash', colour: 'blue', name: 'predicted, with the interval of 90 %' },
      { x: p.round, y: p.measured, style: '', colour: 'red', dots: true, name: 'measured' },
    ],
    read: i => [['round', whole(p.round[i])], ['measured', duration(p.measured[i])], ['predicted', duration(p.p50[i])], ['from', duration(p.p05[i])], ['to', duration(p.p95[i])]],
    describe: () => `${count(p.round.filter((_, i) => known(p.measured[i]) && p.measured[i] >= p.p05[i] && p.measured[i] <= p.p95[i]).length, 'round', 'rounds')} of ${whole(p.round.length)} inside their interval`,
    table: () => ({
      head: ['round', 'measured, s', 'predicted, s', 'from', 'to'],
      rows: sampleRows(p.round.length).map(i => [whole(p.round[i]), ...[p.measured, p.p50, p.p05, p.p95].map(c => short(c[i], 5))]),
    }),
  } : null);
}

// showTimeline shows who did what in a round.
function showTimeline(r) {
  const some = column => column.some(known);
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
      tile('validation_' + m.name, 'Validation ' + m.name, v, fixed(v, 4), best(known(last.best) ? last.best : now.best_metrics[at]));
    }
  }
  const k = valueOf(s, 'local_steps'), took = valueOf(s, 'round_seconds');
  tile('local_steps', 'Local steps, K_r', k, s.progress.round ? whole(k) : '–', s.progress.round ? 'η_r ' + short(valueOf(s, 'learning_rate'), 4) : '');
  const steps = from('sgd_steps', valueOf(s, 'sgd_steps')), relative = end ? end.relative_sgd_steps : null;
  tile('sgd_steps', 'SGD steps a client', steps, whole(steps), known(relative) ? fixed(relative, 4) + ' of fixed K’s' : '');
  tile('round_seconds', 'Last round', took, s.progress.round ? duration(took) : '–', s.round_times.count ? 'median ' + duration(s.round_times.median) : '');
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
  rowsOf($('values'), ['', 'value', 'unit', 'what it is'], s.progress.round ? s.columns.map(c => [c.name, { id: 'column-' + c.name, value: c.value, text: textOf(c, c.value) }, c.kind === 'time' ? '' : c.unit, c.help]) : []);
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
  for (const v of s.actors.versions || []) {
    facts.push([`version ${v.version}`, `${count(v.devices, 'device', 'devices')}: ${v.names.join(', ')}${v.devices > v.names.length ? ', …' : ''}`]);
  }
  for (const m of s.fairness.metrics) {
    facts.push([`fairness of ${m.name}`, `on the clients' own samples ${fixed(m.mean, 4)} on the mean and ${fixed(m.worst_decile, 4)} in the worst tenth, Jain's index ${fixed(m.jain, 3)}, after round ${whole(s.fairness.round)}`]);
  }
  if (known(s.now.epsilon)) facts.push(['privacy', `epsilon ${short(s.now.epsilon, 4)} at delta ${s.run.delta}`]);
  if (end) {
    facts.push(['ended', s.state === 'completed' ? 'completed' : 'stopped before its end']);
    const own = end.local_noise;
    if (own) facts.push(['local noise', `epsilon ${short(own.epsilon, 4)} at delta ${own.delta} of each update, ${short(own.epsilon_rounds, 4)} of a client in all rounds`]);
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

const phases = ['download', 'compute', 'upload', 'waiting'];

// showWaiting fills a card that says who made runs wait. rows are { part, waits, share, wasted,
// energy }; part has the name and look of a line, null where there is one run: then each class has
// a bar, and otherwise each run.
function showWaiting(card, title, rows) {
  card.hidden = rows.length === 0;
  const key = JSON.stringify(rows.map(r => [r.part && [r.part.name, r.part.colour], r.waits, r.share, r.wasted, r.energy]));
  if (!rows.length || card.dataset.key === key) return;
  card.dataset.key = key;
  const sum = c => phases.reduce((a, p) => a + c[p], 0);
  const byWait = r => [...r.waits.classes].sort((a, b) => sum(b) - sum(a));
  const bars = rows.flatMap(r => r.part ? [{ row: r, name: [dot(r.part), r.part.name], of: Object.fromEntries(phases.map(p => [p, r.waits.classes.reduce((a, c) => a + c[p], 0)])) }]
    : byWait(r).slice(0, 8).map(c => ({ row: r, name: [c.class], of: c, only: c })));
  const most = Math.max(...bars.map(b => sum(b.of)));
  const slowest = (c, w) => `${c.class} slowest in ${percent(c.rounds / w.rounds)} of rounds, mostly ${phases.reduce((a, b) => c[b] > c[a] ? b : a)}`;
  const facts = r => [known(r.share) ? `${percent(r.share)} of a round spent waiting from the median client to the slowest` : null, known(r.wasted) ? `${percent(r.wasted)} of clients’ time wasted` : null,
    r.energy ? short((r.energy.useful + r.energy.wasted) / 1000, 4) + ' kJ' : null].filter(Boolean).join('; ');
  const out = bars.flatMap(b => {
    const bar = make('svg:svg', { role: 'img', 'aria-label': phases.map(p => `${p} ${duration(b.of[p])}`).join(', '), preserveAspectRatio: 'none', viewBox: '0 0 1000 14' });
    let x = 0;
    for (const phase of phases) {
      const width = most ? 1000 * b.of[phase] / most : 0;
      if (width > 0) bar.append(make('svg:rect', { class: phase, x, y: 0, width, height: 14 }));
      x += width;
    }
    const says = b.only ? slowest(b.only, b.row.waits).slice(b.only.class.length + 1) : slowest(byWait(b.row)[0], b.row.waits);
    return [make('span', { class: 'who' }, ...b.name), make('span', { class: 'of' }, bar), make('span', { title: b.only ? null : facts(b.row) }, b.only ? says : `${known(b.row.share) ? percent(b.row.share) + ' of a round; ' : ''}${says}`)];
  });
  const legend = make('span', { class: 'legend' }, ...phases.slice(0, 3).map(p => make('span', {}, swatch('box', p), p)));
  const about = rows.length === 1 && !rows[0].part ? facts(rows[0]) : 'What each round’s last update took, and the share of a round spent waiting from the median client to the slowest.';
  card.replaceChildren(make('figcaption', {}, make('h2', { id: title }, 'Who makes us wait'), legend), make('p', { class: 'quiet small' }, about), make('div', { class: 'waits' }, ...out));
}

// scrub shows the tasks of any round that read gives; null: of the last alone.
function scrub(read) {
  const figure = chart.timeline.figure, old = figure.querySelector('.scrubber');
  if (old) old.remove();
  if (!read || !snapshot || !snapshot.last_round.round) return;
  const last = snapshot.last_round.round;
  const slider = make('input', { type: 'range', min: 1, max: last, value: last, 'aria-label': 'Round' }), number = make('output', {}, whole(last)), says = make('span', { class: 'quiet' });
  let wanted = 0;
  const go = async () => {
    const n = wanted = Number(slider.value);
    setText(number, whole(n));
    try {
      const r = await read(n);
      if (wanted !== n || !snapshot) return;
      setText(says, r.tasks.length < r.cohort && r.tasks.length < 2 ? 'of this round the log keeps the slowest task alone' : '');
      showTimeline(r);
    } catch (e) {
      if (wanted === n) setText(says, e.message);
    }
  };
  slider.addEventListener('input', go);
  const step = (text, by) => { const b = make('button', { type: 'button', class: 'toggle' }, text); b.addEventListener('click', () => { slider.value = Number(slider.value) + by; go(); }); return b; };
  figure.querySelector('figcaption').after(make('div', { class: 'scrubber' }, 'Round', slider, number, step('back', -1), step('on', 1), says));
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

