package forecast_test

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fedpace/experiment/run"
	"fedpace/experiment/runtest"
	"fedpace/internal/testkit/realdata"
)

// Cohorts of 20 of 20 clients leave nothing to chance. Presence and both are those of a program in
// Python that plays the same rounds second by second; that of the 710 phones is within 0.0001 of
// its two seeds.
func TestHeterogeneity_OfClients(t *testing.T) {
	t.Parallel()
	var stays strings.Builder
	stays.WriteString("trace,from_second,to_second\n")
	for i := range 20 {
		fmt.Fprintf(&stays, "%d,0,%d\n", i, 10+10*i)
	}
	path := filepath.Join(t.TempDir(), "stays.csv")
	if err := os.WriteFile(path, []byte(stays.String()), 0o666); err != nil {
		t.Fatal(err)
	}
	const half = "fleet=[{name: fast, count: %d, seconds_per_step: 20}, {name: slow, count: %[1]d, seconds_per_step: 130}]"
	const none = -1
	away := "availability={model: trace, sessions: " + path + ", period_seconds: 1200}"
	for _, of := range []struct {
		sets                          []string
		most, devices, presence, both float64
	}{
		{[]string{"clients=20", fmt.Sprintf(half, 10), away}, 1, math.Log(6001) / math.Log(12001), 0.7395201414369272, 0.662276043777866},
		{[]string{"clients=20", away}, 1, none, 0.7395201414369272, none},
		{[]string{"clients=60", fmt.Sprintf(half, 30)}, 1, math.Log(18001) / math.Log(36001), none, none},
		{[]string{"clients=5000", "fleet=[{name: any}]"}, math.Log(60001) / math.Log(600001), math.Log(60001) / math.Log(600001), none, none},
		{[]string{"clients=710", "availability={model: trace, sessions: phones, columns: [phone, ready_from_s, ready_to_s], period_seconds: 518400}"},
			math.Log(60001) / math.Log(426001), none, 0.84671, none},
	} {
		near := 1e-12
		if of.sets[0] == "clients=710" {
			path, there := realdata.Find("traces/phone_availability.csv")
			if !there {
				continue
			}
			of.sets[1], near = strings.Replace(of.sets[1], "phones", path, 1), 1e-4
		}
		c := runtest.Small(t, append([]string{
			"train=false", "cohort=10", "stop.rounds=1", "schedule={k: fixed, k0: 1}", "compute={std: 0, seconds_per_step: 1}", "network.model_megabits=1e-6",
		}, of.sets...)...)
		f, err := run.DryRun(t.Context(), c, run.Options{})
		if err != nil {
			t.Fatal(err)
		}
		u := f.Heterogeneity
		for name, v := range map[string]struct {
			got  *float64
			want float64
		}{"most": {&u.Max, of.most}, "devices": {u.Devices, of.devices}, "presence": {u.Presence, of.presence}, "both": {u.DevicesAndPresence, of.both}} {
			if v.got == nil != (v.want == none) || v.got != nil && math.Abs(*v.got-v.want) > near {
				t.Errorf("%v: %s is %v, want %v", of.sets, name, v.got, v.want)
			}
		}
	}
	f, err := run.DryRun(t.Context(), runtest.Small(t, "train=false"), run.Options{})
	if err != nil || f.Heterogeneity != nil {
		t.Errorf("%v, %v", f.Heterogeneity, err)
	}
}
