package run

import (
	"context"
	"strings"
	"testing"
	"time"

	"fedpace/experiment/runtest"
)

// Devices that would need years for one task are a mistake in a key, which is
// named before anything is played or written.
func TestDevices_TooSlowForAnyTask(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ set, key string }{
		{"network.upload_mbps=5e-9", "network.upload_mbps"},
		{"network.download_mbps=5e-9", "network.download_mbps"},
		{"compute.seconds_per_step=1e6", ""}, // 8e6 s are a long phase, and fine
		{"fleet=[{name: snail, seconds_per_step: {dist: lognormal, median: 2e7, sigma: 1}}]", "fleet[0].seconds_per_step"},
		{"fleet=[{name: phone}, {name: snail, upload_mbps: {dist: uniform, min: 1e-9, max: 1e-8}}]", "fleet[1].upload_mbps"},
	} {
		run := runtest.Small(t, "train=false", c.set)
		_, err := Run(t.Context(), run, Options{})
		switch {
		case c.key == "" && err != nil:
			t.Errorf("%s: %v", c.set, err)
		case c.key != "" && (err == nil || !strings.Contains(err.Error(), c.key) || !strings.Contains(err.Error(), "three years")):
			t.Errorf("%s: error %v, want one of %s", c.set, err, c.key)
		}
	}
}

// Timing the fixed schedule ends with its context.
func TestDryRun_FixedScheduleStops(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer stop()
	c := runtest.Stragglers(t, "train=false", "stop={equal_runtime_rounds: 1000000000, rounds: null}")
	if _, err := Run(ctx, c, Options{}); err == nil {
		t.Error("a billion rounds were played, whatever the context says")
	}
}
