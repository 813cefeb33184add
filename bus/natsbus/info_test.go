package natsbus_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"fedpace/bus"
	"fedpace/bus/natsbus"
)

// someInfo returns the description of a run.
func someInfo() *bus.RunInfo {
	return &bus.RunInfo{
		Version: "v1", Configuration: "name: r\n", Kernel: "go", Spec: &bus.Spec{Model: "linear:2,2", DataDigest: "ab", Seed: 7, Batch: 8},
		Files: []*bus.File{{Path: "links.csv", Digest: bus.DigestOf(model).Bytes()}},
	}
}

// lines collects notices.
type lines chan string

// add notes the text of a notice.
func (l lines) add(n bus.Notice) { l <- n.Text }

// until waits for a notice whose text contains want. It takes the notices before it, too.
func (l lines) until(t *testing.T, want string) {
	t.Helper()
	var seen []string
	for late := time.After(patience); ; {
		select {
		case s := <-l:
			if strings.Contains(s, want) {
				return
			}
			seen = append(seen, s)
		case <-late:
			t.Fatalf("there is no notice %q, only %q", want, seen)
		}
	}
}

func TestRegistry_HostsJoin(t *testing.T) {
	places(t, func(t *testing.T, p *place) {
		conn := p.connect(t)
		if _, err := conn.AskRun(t.Context(), "r"); !errors.Is(err, natsbus.ErrNoRun) {
			t.Errorf("before there is a run: %v", err)
		}
		heard := make(chan *bus.Announcement, 100)
		stop, err := conn.WatchRuns(t.Context(), func(a *bus.Announcement) { heard <- a })
		if err != nil {
			t.Fatal(err)
		}
		defer stop()
		said := make(lines, 1000)
		c := p.CoordinatorWith(t, "r", bus.CoordinatorConfig{Info: someInfo(), NeedsHosts: true, Notice: said.add})
		a := <-heard
		info, err := conn.AskRun(t.Context(), "r")
		if err != nil {
			t.Fatal(err)
		}
		if a.Run != "r" || a.Over || a.Stamp != info.Stamp || info.Stamp == 0 || info.Configuration != "name: r\n" || info.Files[0].Path != "links.csv" {
			t.Errorf("announced %+v, asked %+v", a, info)
		}
		said.until(t, "No host is there")
		h, err := conn.OpenHost(t.Context(), "r", bus.HostConfig{Name: "box", Stamp: info.Stamp, Workers: 3})
		if err != nil {
			t.Fatal(err)
		}
		if err := h.ServeTasks(t.Context(), answerAtOnce); err != nil {
			t.Fatal(err)
		}
		said.until(t, "Host box is there with 3 trainers")
		if hosts, workers := c.Hosts(); hosts != 1 || workers != 3 {
			t.Errorf("%d hosts with %d workers", hosts, workers)
		}
		if err := c.SendTask(3, someTask(1)); err != nil {
			t.Fatal(err)
		}
		if _, err := c.TakePlans(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		if err := h.Close(); err != nil {
			t.Fatal(err)
		}
		said.until(t, "Host box has left")
		if err := c.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		for a := range heard {
			if a.Over {
				break
			}
		}
	})
}

func TestHost_OtherRunOfName(t *testing.T) {
	places(t, func(t *testing.T, p *place) {
		c := p.CoordinatorWith(t, "r", bus.CoordinatorConfig{Info: someInfo(), PlanPatience: 100 * time.Millisecond})
		h, err := p.connect(t).OpenHost(t.Context(), "r", bus.HostConfig{Name: "old", Stamp: 42})
		if err != nil {
			t.Fatal(err)
		}
		defer h.Close()
		if err := h.ServeTasks(t.Context(), answerAtOnce); err != nil {
			t.Fatal(err)
		}
		if err := c.SendTask(3, someTask(1)); err != nil {
			t.Fatal(err)
		}
		if plans, err := c.TakePlans(t.Context(), nil); !errors.Is(err, bus.ErrInterrupted) {
			t.Errorf("got %v, %v", plans, err)
		}
		select {
		case <-h.Done():
		case <-time.After(patience):
			t.Fatal("it goes on")
		}
		if !errors.Is(h.Err(), bus.ErrStale) {
			t.Errorf("it ends with %v", h.Err())
		}
	})
}

// The stamp tells configurations apart, and nothing else.
func TestRunInfo_Stamp(t *testing.T) {
	t.Parallel()
	p := newPlace(t, false)
	stamp := func(change func(*bus.RunInfo)) uint64 {
		info := someInfo()
		change(info)
		c, err := p.connect(t).OpenCoordinator(t.Context(), "r", bus.CoordinatorConfig{Info: info})
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		return info.Stamp
	}
	first := stamp(func(*bus.RunInfo) {})
	if stamp(func(i *bus.RunInfo) { i.Version = "v2" }) != first {
		t.Error("another version has another stamp")
	}
	for what, change := range map[string]func(*bus.RunInfo){
		"configuration": func(i *bus.RunInfo) { i.Configuration += "seed: 2\n" },
		"kernel":        func(i *bus.RunInfo) { i.Kernel = "avx2" },
		"data":          func(i *bus.RunInfo) { i.Spec.DataDigest = "cd" },
		"protocol":      func(i *bus.RunInfo) { i.Protocol = 7 },
		"file":          func(i *bus.RunInfo) { i.Files[0].Digest = bus.DigestOf(nil).Bytes() },
	} {
		if stamp(change) == first {
			t.Errorf("another %s has the same stamp", what)
		}
	}
}
