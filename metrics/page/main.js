// --- which page this is

document.addEventListener('DOMContentLoaded', async () => {
  buildCharts();
  for (const c of charts) c.figure.hidden = true;
  const one = $('snapshot'), many = $('runs'), meta = document.querySelector('meta[name=fedpace]');
  if (one) {
    take(JSON.parse(one.textContent));
    status(snapshot.state, stateTexts[snapshot.state] || snapshot.state);
  } else if (many || meta && meta.content === 'runs') {
    const board = new Board(many ? kept : served);
    const route = () => {
      const id = location.hash.startsWith('#run/') ? location.hash.slice(5) : '';
      $('board').hidden = !!id;
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
