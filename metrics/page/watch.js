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
  const end = s.summary;
  showWaiting($('waits'), 'waits-title', s.waits.rounds ? [{ part: null, waits: s.waits, share: end ? end.straggler_share : s.waits.straggler_share,
    wasted: share(end ? end.client_seconds : s.spent.client_seconds), energy: end && end.energy_joules }] : []);
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

