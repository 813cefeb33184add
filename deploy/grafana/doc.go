// Package grafana checks the dashboards in its folder, which are Grafana's own
// files: change one in Grafana, save its JSON model here, and run
//
//	go test ./deploy/grafana
//
// The tests hold each dashboard to this: identifiers are unique, panels leave no
// gaps and do not overlap, every query goes to the data source and names the run
// that the reader chooses, and a real Prometheus that scrapes a run answers every
// query. Curves over virtual time or rounds are XY charts, because Grafana's time
// axis is wall time.
package grafana
