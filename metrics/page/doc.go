// Package page is the front end: one page for a browser that shows a run while it goes
// on, a run that has ended, or many runs side by side. Its HTML, styles and scripts are in
// the binary and need nothing from elsewhere.
//
// What the page shows it finds in the page itself, as [Document]s ([Write]), or asks its
// server for. The name that [Routes] is given tells it which: the events of one run
// (package live) or a library of runs (package ui). The scripts share one scope, in the
// order of their names here:
//
//	base.js    elements, numbers for people, ticks
//	chart.js   drawings in SVG that a cursor reads, each with a table behind it
//	run.js     one run, from its snapshot
//	watch.js   the events of a run that goes on
//	overlay.js many long curves on canvas: zoom, pan, smoothing
//	board.js   many runs: list, filter, groups with intervals over seeds
//	main.js    which of these is shown
//
// Every text of a run enters the page as a text node. The policy that the page works under
// allows its own styles, scripts and connections alone.
package page
