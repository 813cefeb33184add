// Package metrics holds what a run reports and to whom: the outputs.
package metrics
