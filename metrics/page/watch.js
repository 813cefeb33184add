// --- a run that goes on

import { snapshot, take, passed, status, stateTexts, showProgress } from './run.js';

// watch follows the run, and comes back by itself when the connection is lost.
export function watch() {
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
    if (again || snapshot?.state !== 'running') return;
    showProgress(snapshot, passed());
    if (performance.now() - heard > silence) retry();
  }, 1000);
  open();
}

