package live

import (
	"fedpace/metrics"
	"fedpace/metrics/web"
)

// File is the page of a run that has ended, in its folder: one file for a browser.
const File = "page.html"

func init() {
	metrics.Sinks.Register("page", "the run on one page for a browser: page.html, and live where http is set", Sink{})
}

// Sink is the output's entry; it has no options.
type Sink struct{}

// Files implements [metrics.Sink].
func (Sink) Files() []string { return []string{File} }

// Open implements [metrics.Sink].
func (Sink) Open(run *metrics.Run) (metrics.Output, error) { return New(run), nil }

// Pages implements [web.Pager].
func (h *Hub) Pages() []web.Page { return []web.Page{{Path: "/", Handler: h.Handler()}} }
