// --- which runs are shown, and what they are called: from a list of runs alone

import { known, groupBy, crop } from './base.js';

// A run's configuration is what its task's defaults say, and over that its own settings.
export function configOf(run, defaults) {
  const out = new Map();
  for (const list of [defaults ? defaults[run.task] || [] : [], run.settings || []]) {
    for (const s of list) {
      const at = s.indexOf('='), value = s.slice(at + 1);
      out.set(s.slice(0, at), /^".*"$/.test(value) ? JSON.parse(value) : value); // a long text is cut, and has no end
    }
  }
  return out;
}

// A word of a search: key=value, key>value and so on, or a text; behind a minus, what must not be.
const word = /^(-?)(?:([^\s<>=!]+?)(>=|<=|!=|=|>|<)(.*)|(.*))$/s;

// words are the words of a search; what stands in quotes is one.
export const words = text => (text.match(/(?:"[^"]*"?|[^\s"])+/g) || []).map(w => w.replaceAll('"', '')).filter(w => w && w !== '-');

// number is a value as a number; NaN: it is none.
const number = v => v === '' || v === null || v === undefined ? NaN : Number(v);

const compare = {
  '>': (a, b) => number(a) > number(b), '>=': (a, b) => number(a) >= number(b), '<': (a, b) => number(a) < number(b), '<=': (a, b) => number(a) <= number(b),
  '=': (a, b) => Array.isArray(a) ? a.some(v => compare['='](v, b)) : number(a) === number(b) || String(a ?? '').toLowerCase() === b.toLowerCase(),
  '!=': (a, b) => !compare['='](a, b),
};

// isPath says whether a word of a search is of a path or a run's name, as links/fixed,seed=1, and no key with a value: keys have
// neither slashes nor commas.
const isPath = w => /^-?[^<>=!]*[/,]/.test(w);

// onPath says whether the parts of a path are those of the folder in their order, each as far as it is typed: links/seed=1 finds
// runs/links/fixed,seed=1.
function onPath(folder, path) {
  const parts = path.split('/').filter(part => part && part !== '.');
  let rest = folder.split('/');
  return parts.every(part => {
    const at = rest.findIndex(name => name.includes(part));
    rest = rest.slice(at + 1);
    return at >= 0;
  });
}

// matches says whether a run is one that a search wants. A text is found in a setting's value, and in its key only if the
// text has a dot: rounds is a schedule, and not stop.rounds, which all runs have. A text with a slash is the parts of a path.
// valueOf is what it has by a key: a column of the list, or a key of its configuration; undefined: there is no such key.
export function matches(run, text, valueOf) {
  const settings = run.settings || [];
  const texts = [run.folder, run.task, run.schedule, run.state, run.note || '', 'seed=' + run.seed, ...(run.tags || [])];
  const inValues = [...texts, ...settings.map(s => s.slice(s.indexOf('=') + 1))].join('\n').toLowerCase();
  const inKeys = [...texts, ...settings].join('\n').toLowerCase();
  return words(text).every(w => {
    if (isPath(w)) {
      const path = w.replace(/^-/, '').toLowerCase();
      const found = onPath(run.folder.toLowerCase(), path) || inValues.includes(path);
      return w.startsWith('-') ? !found : found;
    }
    const [, not, key, operator, value, plain] = w.match(word);
    const is = key === undefined ? (plain.includes('.') ? inKeys : inValues).includes(plain.toLowerCase()) : compare[operator](valueOf(run, key), value);
    return not ? !is : is;
  });
}

// order puts what a run is called by first: task and schedule, the seed last.
export const order = key => key === 'task' ? 0 : key === 'schedule' || key === 'schedule.k.rule' ? 1 : key.startsWith('schedule.k') ? 2 : key.startsWith('schedule.') ? 3 : key === 'seed' ? 9 : 4;

// tails are the ends of folders' paths, each as long as tells it from the others: what runs are called.
export function tails(folders) {
  const parts = folders.map(f => f.split('/').filter(Boolean)), times = new Map(), tail = (p, n) => p.slice(-n).join('/');
  for (const p of parts) p.forEach((_, i) => times.set(tail(p, i + 1), (times.get(tail(p, i + 1)) || 0) + 1));
  return parts.map((p, i) => tail(p, p.findIndex((_, n) => times.get(tail(p, n + 1)) === 1) + 1 || p.length) || folders[i]);
}

// longestValue is how much of a value is said in a name: a whole data={...} would fill the legend.
const longestValue = 40;

// bare is a schedule's name, of a control that of the schedule that it controls.
const controlled = /-(constant|reversed|shuffled)$/;
const bare = schedule => schedule.replace(controlled, '');

// byName sorts names as people do: 2 before 10.
export const byName = (a, b) => a.localeCompare(b, 'en', { numeric: true });

// hueOrder puts lines { schedule, folder } in the order in which they get hues: the first line of each schedule in the order
// of their names, then further ones, so that a schedule has one hue in a comparison and on the board of its runs.
export function hueOrder(lines) {
  const sorted = [...lines].sort((a, b) => byName(bare(a.schedule), bare(b.schedule)) || byName(a.schedule, b.schedule) || byName(a.folder, b.folder));
  const bySchedule = [...groupBy(sorted, l => bare(l.schedule)).values()];
  return [...bySchedule.map(each => each[0]), ...bySchedule.flatMap(each => each.slice(1))];
}

// alikeBySeed are the settings by which runs of several seeds are one: all but the seed and, of a control, K's, which follow
// from the run that it controls and so differ from seed to seed.
export function alikeBySeed(run) {
  const control = controlled.test(run.schedule);
  return JSON.stringify([run.task, run.schedule, (run.settings || []).filter(s => !s.startsWith('seed=') && !(control && s.startsWith('schedule.k')))]);
}

// inputsOf is what a run followed from besides its settings: the content of the files that they name, and of those that its
// data are from. It is null while that is not known, as a run has no summary before its end.
function inputsOf(run) {
  if (!run.summary) return null;
  return JSON.stringify([(run.summary.inputs || []).map(file => [file.key, file.sha256]), run.summary.data_source || '']);
}

// groupsBySeed gathers the runs that differ in nothing but their seed, as reports do: runs of other files are no group, though
// their settings are the same. A run whose files are not known yet is in the largest group of its settings.
export function groupsBySeed(runs) {
  const groups = new Map();
  for (const [settings, alike] of groupBy(runs, alikeBySeed)) {
    const parts = groupBy(alike, inputsOf);
    const unknown = parts.get(null);
    if (unknown && parts.size > 1) {
      parts.delete(null);
      const largest = [...parts.values()].reduce((a, b) => b.length > a.length ? b : a);
      largest.push(...unknown);
    }
    [...parts.values()].forEach((part, i) => groups.set(i > 0 ? `${settings} ${i}` : settings, part));
  }
  return groups;
}

// apart says of each run what sets it apart from the others, as far as that takes, its schedule first; nothing where all
// are alike. configs are their configurations, and without are keys that do not count.
export function apart(runs, configs, without = []) {
  const keys = ['schedule', ...differing(configs).differ.filter(k => !without.includes(k))]
    .map((k, i) => [k, order(k), i]).sort((a, b) => a[1] - b[1] || a[2] - b[2]).map(k => k[0]);
  const called = runs.map(() => []);
  let groups = [runs.map((_, i) => i)];
  for (const key of keys) {
    const of = i => key === 'schedule' ? runs[i].schedule : configs[i].get(key);
    groups = groups.flatMap(g => {
      const parts = groupBy(g, of);
      if (parts.size > 1) for (const i of g) called[i].push([key, of(i)]);
      return [...parts.values()];
    });
  }
  const isBare = key => order(key) < 2;
  return called.map(list => list.filter(([, v]) => known(v) && v !== 'null').map(([k, v]) => isBare(k) ? v : `${k.replace(/^schedule\./, '')}=${crop(String(v), longestValue)}`).join(', '));
}

// parentOf is the folder that a run's folder is in.
const parentOf = folder => folder.split('/').filter(Boolean).slice(0, -1).join('/');

// legendNames are the names of groups of runs: what sets each apart from the others in its parent folder, behind that folder's name
// where groups are from several. A group is from the folder of more than half of its runs; without one, or right in a folder of
// the library, its name has no folder. configs are those of the groups' first runs.
export function legendNames(groups, configs, library = []) {
  const parents = groups.map(runs => {
    const most = [...groupBy(runs.map(r => parentOf(r.folder)), folder => folder)].find(([, each]) => 2 * each.length > runs.length);
    return most && !library.includes(most[0]) ? most[0] : '';
  });
  const named = [...new Set(parents)].filter(Boolean);
  const prefix = new Map(new Set(parents).size > 1 ? tails(named).map((name, i) => [named[i], name + '/']) : []);
  const out = groups.map(() => '');
  for (const places of groupBy(groups.map((_, i) => i), i => parents[i]).values()) {
    const firsts = places.map(i => groups[i][0]);
    apart(firsts, places.map(i => configs[i]), ['seed']).forEach((text, n) => { out[places[n]] = (prefix.get(parents[places[n]]) || '') + (text || firsts[n].schedule); });
  }
  return out;
}

// besides is what sets a run apart and its name does not say yet.
export function besides(name, text) {
  const said = name.split(/[/,]\s*/);
  return text.split(', ').filter(part => !said.includes(part)).join(', ');
}

// titleOf is what a run's page is headed by: the run's name and, as many runs have the same one, its schedule and seed.
export function titleOf(run) {
  const apart = besides(run.name, `${run.schedule}, seed=${run.seed}`);
  return apart ? `${run.name}: ${apart}` : run.name;
}

// differing are the keys of configurations, those that differ first.
export function differing(configs) {
  const keys = [...new Set(configs.flatMap(c => [...c.keys()]))], differ = k => configs.some(c => c.get(k) !== configs[0].get(k));
  return { differ: keys.filter(differ), same: keys.filter(k => !differ(k)) };
}
