// Command gen writes the Grafana dashboards of the folder above, from the
// queries and panels that the files here hold in Go:
//
//	go generate ./deploy/grafana/gen
//
// What it promises: identifiers of dashboards and panels that stay, panels laid
// out in rows without gaps or overlaps, every query on the data source that the
// reader chooses, restricted to the run that the reader chooses. Curves over
// virtual time or rounds are XY charts: wall time is the time axis of Grafana,
// and never that of a run.
//
// It knows the names of the metrics and nothing else of fedpace. Its tests hold
// the committed files against its output and play every query against a
// Prometheus that scrapes a run.
package main

//go:generate go run . ../dashboards
