package prometheus

import (
	"runtime"
	"time"

	client "github.com/prometheus/client_golang/prometheus"

	"fedpace/metrics"
	"fedpace/metrics/web"
)

// HostCounts are the numbers of what a host of simulated clients has done, in all runs.
type HostCounts struct {
	// Runs is the number of runs that the host serves now.
	Runs int
	// Tasks counts the tasks answered, Jobs the jobs trained, and Fails those jobs that ended with
	// an error.
	Tasks, Jobs, Fails int64
	// Busy is the wall time that the trainers spent on jobs, summed over the trainers.
	Busy time.Duration
	// Traffic is what has passed over the host's connection.
	metrics.Traffic
}

// HostPage returns the page /metrics of a host of simulated clients, with its counts and the
// metrics of its process. name and version describe the host; counts is called at each scrape and
// must be safe for concurrent use.
func HostPage(name, version string, counts func() HostCounts) web.Page {
	r := client.NewRegistry()
	r.MustRegister(hostCollector{client.Labels{"host": name}, version, counts})
	return web.Page{Path: "/metrics", Handler: handler(client.Gatherers{r, process()}), Always: true}
}

// hostCollector reads a host's counts at each scrape.
type hostCollector struct {
	// labels name the host on all of its series.
	labels client.Labels
	// version is the version of the host's program.
	version string
	// counts returns what the host has done up to now.
	counts func() HostCounts
}

// Describe sends nothing: the metrics are unchecked, and all are named in Collect.
func (hostCollector) Describe(chan<- *client.Desc) {}

// Collect sends the counts of the host as they are now to sink. It is called at each scrape,
// possibly by several at a time, and keeps nothing between them.
func (h hostCollector) Collect(sink chan<- client.Metric) {
	c := &scrape{sink, h.labels}
	now := h.counts()
	c.add("host_build_info", "What a host runs: always 1.", "version", "goversion").gauge(
		1,
		h.version,
		runtime.Version(),
	)
	c.add("host_runs", "Runs that the host serves.").gauge(float64(now.Runs))
	c.add("host_tasks_total", "Tasks of simulated clients that the host has answered.").counter(float64(now.Tasks))
	c.add("host_jobs_total", "Jobs that the host's trainers have done.").counter(float64(now.Jobs))
	c.add("host_job_failures_total", "Jobs of these that ended with an error.").counter(float64(now.Fails))
	c.add(
		"host_job_seconds_total",
		"Wall time that the host's trainers have spent on jobs, one beside the other.",
	).counter(now.Busy.Seconds())
	// Messages and bytes have two directions each, seen from the host.
	traffic(c.add("host_nats_messages_total", "Messages that the host took from its server and "+
		"gave to it.", "direction"),
		c.add("host_nats_bytes_total", "Bytes of these messages.", "direction"), now.Traffic)
}
