// --- which page this is

import { $, make } from './base.js';
import { take, snapshot, status, stateTexts } from './run.js';
import { watch } from './watch.js';
import { Board, served, kept } from './board.js';

// comparison shows what a comparison of the runs says, if the page has that.
function comparison() {
  const section = make('section', {});
  if ($('comparison')) {
    const { says, picture } = JSON.parse($('comparison').textContent);
    section.append(make('pre', { tabindex: 0, role: 'group', 'aria-label': 'What the runs came to' }, says), picture ? make('img', {
      src: 'data:image/svg+xml;base64,' + picture,
      alt: 'Paired differences: a dot for each seed, and the mean with its interval',
    }) : '');
    $('board').before(section);
  }
  return section;
}

// many shows a library: the board, or the run that the address names.
async function many(board) {
  const compared = comparison();
  const route = () => {
    const id = board.recall();
    board.list();
    $('board').hidden = compared.hidden = !!id;
    $('one').hidden = $('back').hidden = !id;
    if (!id) board.close();
    (id ? board.open(id) : board.load()).catch(e => status('lost', e.message));
  };
  $('one').hidden = true;
  $('board').hidden = false;
  document.body.dataset.state = 'board';
  try {
    await board.start();
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
