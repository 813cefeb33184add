package devices_test

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"fedpace/actors/real"
	"fedpace/bus/natsconn"
	"fedpace/experiment/folder"
	"fedpace/experiment/runtest"
	"fedpace/metrics/live"
)

// owner is a real device over real NATS, which works until the run is over.
type owner struct {
	sync.WaitGroup
	said []string
	err  error
}

func (o *owner) work(t *testing.T, url string, c real.Config) {
	c.Data, c.Once, c.Notice = real.SyntheticData, true, func(line string) { o.said = append(o.said, line) }
	o.Go(func() {
		o.err = func() error {
			device, err := real.Open(c)
			if err != nil {
				return err
			}
			defer device.Close()
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			conn, err := natsconn.Connect(ctx, natsconn.Config{URL: url, Name: c.ID, Await: true})
			if err != nil {
				return err
			}
			defer conn.Close()
			return device.Work(ctx, conn)
		}()
	})
}

// told is a run of two real devices of these configurations, with what all of them said.
func told(t *testing.T, one, two real.Config, sets ...string) (s folder.Summary, dir string, lines []string, owners *[2]owner) {
	t.Helper()
	owners = new([2]owner)
	o, load := devicesAlone(t, "[d1, d2]", append([]string{"task=femnist", "stop.rounds=3", "devices.keep_updates=true", "devices.liveness_seconds=20"}, sets...)...)
	o.Version = "v2"
	var mu sync.Mutex
	o.Notice = func(line string) {
		mu.Lock()
		defer mu.Unlock()
		lines = append(lines, line)
	}
	one.ID, two.ID = "d1", "d2"
	owners[0].work(t, o.NATS.URL, one)
	owners[1].work(t, o.NATS.URL, two)
	c := runtest.Small(t, load()...)
	s = mustRun(t, c, o)
	for i := range owners {
		owners[i].Wait()
	}
	return s, c.Out, lines, owners
}

// Devices of another version than the coordinator take part; both say it, the summary
// has all versions, and the page has each device with its log, unless that is withheld.
func TestDevices_Versions(t *testing.T) {
	t.Parallel()
	s, dir, lines, owners := told(t, real.Config{Version: "v1"}, real.Config{Version: "v2", Withhold: []string{real.Log}})
	page, err := os.ReadFile(filepath.Join(dir, live.File))
	for device, log := range map[string]string{
		`"d1","state":"present","heard":"[^"]+","version":"v1"`: `\["Device d1 waits[^"]+","Joined run demo as client 0."[^\]]*\]`, `"d2","state":"present","heard":"[^"]+","version":"v2"`: "null",
	} {
		if want := `{"name":` + device + `,"kernel":"\w+","samples":\d+,"log":` + log + "}"; err != nil || !regexp.MustCompile(want).Match(page) {
			t.Errorf("the page has no %s, but %s; %v", want, regexp.MustCompile(`"actors":.{0,900}`).Find(page), err)
		}
	}
	if want := "The coordinator is of version v2, and these devices of another: d1 (v1)."; strings.Count(strings.Join(lines, "\n"), want) != 1 {
		t.Errorf("the user is not told once %q, but\n%s", want, strings.Join(lines, "\n"))
	}
	if len(s.DeviceVersions) != 2 || s.DeviceVersions[0].Version != "v1" || s.DeviceVersions[0].Names[0] != "d1" || s.DeviceVersions[1].Devices != 1 {
		t.Errorf("the summary has %+v", s.DeviceVersions)
	}
	for i, differs := range []bool{true, false} {
		const want = "This device is of version v1, and the coordinator of run demo of version v2."
		if got := strings.Contains(strings.Join(owners[i].said, "\n"), want); got != differs || owners[i].err != nil {
			t.Errorf("device %d: %v, %q", i+1, owners[i].err, owners[i].said)
		}
	}
}

// What a device withholds is neither in the run nor needed by it: a loss that is not told
// is left out of the mean, and samples that are not told weigh like the others.
func TestDevices_Unreported(t *testing.T) {
	t.Parallel()
	nothing := real.Config{Withhold: []string{real.Samples, real.Losses}}
	for name, two := range map[string]real.Config{"one": {}, "both": nothing} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, dir, lines, owners := told(t, nothing, two, "aggregate.weights=samples")
			if s.Outcomes[0] != 6 || owners[0].err != nil || owners[1].err != nil {
				t.Errorf("outcomes %v; %v, %v", s.Outcomes, owners[0].err, owners[1].err)
			}
			if (s.TrainingLoss == nil) != (name == "both") {
				t.Errorf("a training loss of %v", s.TrainingLoss)
			}
			if text := strings.Join(lines, "\n"); !strings.Contains(text, "Device d1 has joined (losses withheld, kernel ") {
				t.Error(text)
			}
			sameAgain(t, dir, s)
		})
	}
}

// A run that decides by losses says which device withholds them, and goes on without it.
func TestDevices_WithheldDecision(t *testing.T) {
	t.Parallel()
	s, _, lines, owners := told(t, real.Config{Withhold: []string{real.Losses}}, real.Config{}, "schedule.k=error", "devices.liveness_seconds=1")
	const want = "it withholds its losses (--withhold), by which schedule.k: error decides"
	if text := strings.Join(lines, "\n"); !strings.Contains(text, "Device d1: a message is ignored (unfit: "+want+").") {
		t.Error(text)
	}
	if owners[0].err == nil || !strings.Contains(owners[0].err.Error(), want) || owners[1].err != nil {
		t.Errorf("%v, %v", owners[0].err, owners[1].err)
	}
	if s.Outcomes[0] != 3 {
		t.Errorf("outcomes %v", s.Outcomes)
	}
}
