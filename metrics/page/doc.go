// Package page is the front end: one page for a browser that shows a run while it goes
// on, a run that has ended, or many runs side by side. Its HTML, styles and scripts are in
// the binary and need nothing from elsewhere.
//
// What the page shows it finds in the page itself, as [Document]s ([Write]), or asks its
// server for. The name that [Routes] is given tells it which: the events of one run
// (package live) or a library of runs (package ui). The scripts are modules, which the page
// has in one scope, in the order of their names here, behind uPlot (MIT), whose built file is
// that of the package in npm:
//
//	base.js    elements, numbers for people, ticks
//	save.js    charts as files: SVG, PNG and CSV
//	lines.js   line charts: uPlot, and a range of x that several share
//	curves.js  a run's columns, axes, smoothing, means over seeds
//	find.js    search, what runs are called, and what sets them apart
//	tasks.js   bars: what clients did in a round, for which of them rounds waited
//	run.js     one run, from its snapshot
//	watch.js   the events of a run that goes on
//	sweep.js   parallel coordinates, a scatter plot, the difference of two configurations
//	board.js   many runs, what is shown of them as the address says it
//	compare.js what a comparison found: in words, as a table, as mean curves, seed by seed
//	main.js    which of these is shown
//
// The modules are plain: no library renders the page, and none builds it. A chart is a canvas of uPlot
// that lives on while its lines change, a drawing is made anew as a whole, and tables are filled where
// they differ: what a library such as Preact would save is the few lines of fillRows and changed in
// base.js. It would cost a build, whose output has to be checked in and compared, and a second copy of
// the scripts in the repository. What is checked in is what is read, tested and linted; only comments
// and indentation are not sent.
//
// Node.js tests what needs no page (go test, or node --test), and .ci/run lints all.
//
// Every text of a run enters the page as a text node. The policy that the page works under
// allows its own styles, scripts and connections alone.
package page
