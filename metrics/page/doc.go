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
//	lines.js   line charts: uPlot, and a range of x that several share
//	curves.js  a run's columns, axes, smoothing, means over seeds
//	find.js    search, and what runs are called
//	tasks.js   bars: who did what in a round, who makes us wait
//	run.js     one run, from its snapshot
//	watch.js   the events of a run that goes on
//	sweep.js   parallel axes, any two columns, configurations side by side
//	board.js   many runs, what is shown of them as the address says it
//	compare.js what a comparison found: in words, as a table, as mean curves, seed by seed
//	main.js    which of these is shown
//
// Node.js tests what needs no page (go test, or node --test), and .ci/run lints all.
//
// Every text of a run enters the page as a text node. The policy that the page works under
// allows its own styles, scripts and connections alone.
package page
