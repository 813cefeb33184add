// Package report reads what one or several runs came to, and draws figures of it for print.
//
// [Find] finds runs in folders and reads what they left. Runs that differ in
// nothing but their seed are one group ([Groups]): its curves are means with 95% confidence
// intervals (Student's t). [Figures] draws panels in the style of the paper's Fig. 1 and 2
// (lowest training error and highest validation accuracy so far, against virtual minutes),
// K_r, and how long rounds take, as SVG, PNG or PDF. Package ui has the page for a browser.
//
// Everything comes from config.yaml, rounds.csv and summary.json; a run that is
// not finished is shown as far as it went.
package report
