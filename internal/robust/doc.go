// Package robust estimates quantities of measured values by medians and ranks, which a few values that
// are far off do not move. It uses the standard library alone.
package robust
