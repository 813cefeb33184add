// --- which page this is

import { $ } from './base.js';
import { take, snapshot, status, stateTexts } from './run.js';
import { watch } from './watch.js';
import { Board, served, kept } from './board.js';
import { Comparison } from './compare.js';

// comparison shows what a comparison of the runs found, if the page has that.
function comparison(board) {
  if (!$('comparison')) return null;
  const shown = new Comparison(JSON.parse($('comparison').textContent));
  $('board').before(shown.section);
  board.title = 'Comparison';
  return shown;
}

// drawComparison draws the curves of a comparison. It needs those of all its runs, whichever of them the board draws.
async function drawComparison(shown, board) {
  const runs = new Map(board.runs.map(r => [r.folder, r]));
  await board.read(shown.found.rows.flatMap(r => r.folders).map(f => runs.get(f)).filter(Boolean));
  shown.draw(folder => board.data.get(runs.get(folder)?.id)?.curves);
}

// many shows a library: the board, or the run that the address names.
async function many(board) {
  const compared = comparison(board);
  const route = () => {
    const id = board.recall();
    board.list();
    $('board').hidden = !!id;
    if (compared) compared.section.hidden = !!id;
    $('one').hidden = $('back').hidden = !id;
    if (!id) board.close();
    (id ? board.open(id) : board.load()).catch(e => { status('lost', e.message); document.body.dataset.ready = '1'; });
  };
  $('one').hidden = true;
  $('board').hidden = false;
  document.body.dataset.state = 'board';
  try {
    await board.start();
    if (compared) await drawComparison(compared, board);
    route();
  } catch (e) {
    status('lost', e.message);
    throw e;
  }
  window.addEventListener('hashchange', route);
}

// skip leads to the first figure.
function skip(e) {
  e.preventDefault();
  ([...document.querySelectorAll('.plot')].find(p => p.checkVisibility()) || $('main')).focus();
}

document.addEventListener('DOMContentLoaded', () => {
  document.querySelector('.skip').addEventListener('click', skip);
  const meta = document.querySelector('meta[name=fedpace]');
  if ($('snapshot')) {
    take(JSON.parse($('snapshot').textContent));
    status(snapshot.state, stateTexts[snapshot.state] || snapshot.state);
  } else if ($('runs') || meta && meta.content === 'runs') many(new Board($('runs') ? kept : served));
  else watch();
});
