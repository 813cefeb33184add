// Package report shows what one or several runs came to: one HTML file that
// needs nothing else, or its figures alone.
//
// [Find] finds runs in folders and reads what they left. Runs that differ in
// nothing but their seed are one group: its curves are means with 95% confidence
// intervals (Student's t). [HTML] has the figures in the style of the paper's
// Fig. 1 and 2 (lowest training error and highest validation accuracy so far,
// against virtual minutes), K_r, how long rounds take, and tables of what the
// summaries hold: outcomes, waste, what tells the runs apart. [Figures] draws
// the same panels as SVG, PNG or PDF.
//
// Everything comes from config.yaml, rounds.csv and summary.json; a run that is
// not finished is shown as far as it went, and called unfinished.
package report
