// Package statistics has means over seeds with confidence intervals, and mean
// curves of runs that were looked at at times of their own.
//
// It is pure and knows nothing of what the numbers are.
package statistics
