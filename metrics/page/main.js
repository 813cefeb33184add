// --- which page this is

// comparison shows what a comparison of the runs says, if the page has that.
function comparison() {
  const section = make('section', {});
  if ($('comparison')) {
    const { says, picture } = JSON.parse($('comparison').textContent);
    section.append(make('pre', {}, says), picture ? make('img', {
      src: 'data:image/svg+xml;base64,' + picture,
      alt: 'Paired differences: a dot for each seed, and the mean with its interval',
    }) : '');
    $('board').before(section);
  }
  return section;
}

document.addEventListener('DOMContentLoaded', async () => {
  buildCharts();
  for (const c of charts) c.figure.hidden = true;
  const one = $('snapshot'), many = $('runs'), meta = document.querySelector('meta[name=fedpace]');
  if (one) {
    take(JSON.parse(one.textContent));
    status(snapshot.state, stateTexts[snapshot.state] || snapshot.state);
  } else if (many || meta && meta.content === 'runs') {
    const board = new Board(many ? kept : served);
    const compared = comparison();
    const route = () => {
      const id = location.hash.startsWith('#run/') ? location.hash.slice(5) : '';
      $('board').hidden = compared.hidden = !!id;
      $('one').hidden = !id;
      $('back').hidden = !id;
      if (id) board.open(id).catch(e => status('lost', e.message)); else board.close();
    };
    $('one').hidden = true;
    $('board').hidden = false;
    board.close();
    try {
      await board.start();
      route();
    } catch (e) {
      status('lost', e.message);
      throw e;
    }
    window.addEventListener('hashchange', route);
  } else {
    watch();
  }
});
