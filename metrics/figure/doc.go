// Package figure draws what runs came to.
//
// A [Panel] is a set of lines with error bars; [Save] puts panels side by side
// in one SVG or PNG file. Colours and dashes tell lines apart without colour
// vision, and equal names have equal colours in all panels.
//
// It knows gonum/plot and nothing of runs.
package figure
