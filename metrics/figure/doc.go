// Package figure draws what runs came to.
//
// A [Panel] is a set of lines with error bars; [Save] puts panels side by side
// in one SVG file. Colours and dashes tell lines apart without colour
// vision, and equal names have equal colours in all panels.
//
// It writes SVG itself, with Helvetica's widths of letters, and knows nothing of runs.
package figure
