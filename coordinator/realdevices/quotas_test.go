package realdevices

import (
	"strings"
	"testing"
	"time"

	"fedpace/bus/quota"
	"fedpace/coordinator/round"
)

// newAccounts returns the accounts of this many devices with the default quota.
func newAccounts(devices int) *accounts {
	return &accounts{quota: quota.Default(), list: make([]account, devices)}
}

// A device loses its place by tasks in a row, not by those that it fails now and then.
func TestQuotas_ConsecutiveTasks(t *testing.T) {
	for _, test := range []struct {
		kind round.EventKind
		most int
		want string
	}{
		{round.Invalid, quota.Default().Refused, "refused_tasks"}, {round.Silent, quota.Default().Lost, "lost_tasks"},
	} {
		a := newAccounts(3)
		for i := range 10 * test.most {
			kind := test.kind
			if i%test.most == test.most-1 {
				kind = round.Planned
			}
			if why := a.taskEnded(1, kind, time.Second); why != "" {
				t.Fatalf("%v: after %d tasks: %s", test.kind, i+1, why)
			}
		}
		for i := range test.most {
			why := a.taskEnded(1, test.kind, time.Second)
			if last := i == test.most-1; last != strings.Contains(why, test.want) || last != (why != "") {
				t.Errorf("%v: after %d tasks in a row %q", test.kind, i+1, why)
			}
		}
		if why := a.taskEnded(2, test.kind, time.Second); why != "" {
			t.Errorf("another device: %s", why)
		}
	}
}

// A device that holds the run costs it its quota at once, and no more than that in each hour after: it
// is shut out before, with a task that is done or under way. What counts begins at ten times
// what the others take, or its class if that is more.
func TestQuotas_TimeHeld(t *testing.T) {
	const usual = 6 * time.Second
	quota := time.Duration(quota.Default().HeldSeconds) * time.Second
	for _, x := range []struct {
		name        string
		slow, class time.Duration
		most        time.Duration
		shutOut     bool
	}{
		{"unequal and honest", 9 * usual, 0, 0, false},
		{"of a slow class", 99 * usual, 10 * usual, 0, false},
		{"polite", 10*usual + 6*time.Second, 0, quota, true},
		{"polite, of a class", 100*usual + time.Minute, 10 * usual, quota, true},
		{"a little", 10*usual + 3*time.Second, 0, quota, true},
		{"as long as it may", time.Hour, 0, quota, true},
	} {
		a := newAccounts(4)
		now := time.Time{}.Add(time.Hour)
		var lost, until time.Duration
		start, bans := now, 0
		ban := flakyBan * time.Second
		for hours := time.Duration(0); hours < 20*time.Hour; hours = now.Sub(start) {
			for i := range 3 {
				a.taskEnded(i, round.Planned, usual)
				if why := a.heldReason(i, usual, 0, true, now); why != "" {
					t.Fatal(why)
				}
			}
			now = now.Add(usual)
			if hours < until {
				continue
			}
			sent := now
			allowed, why := patience*max(usual, x.class), ""
			for took := allowed; why == "" && took <= x.slow; took += checkInterval { // as the run looks at what is open
				why = a.heldReason(3, took, x.class, false, now.Add(took))
				if why != "" {
					lost, now = lost+took-allowed, now.Add(took)
				}
			}
			if why == "" {
				a.taskEnded(3, round.Planned, x.slow)
				lost, now = lost+max(0, x.slow-allowed), now.Add(x.slow)
				why = a.heldReason(3, x.slow, x.class, true, now)
			}
			if why != "" {
				bans++
				until = now.Sub(start) + ban
				ban = min(2*ban, longestFlakyBan*time.Second)
				// The task ends by the ban, and its time counts.
				a.heldReason(3, now.Sub(sent), x.class, true, now)
			}
		}
		if bound := x.most + time.Duration(float64(x.most)*now.Sub(start).Hours()) + checkInterval; lost > bound || (bans > 0) != x.shutOut {
			t.Errorf("%s: it costs the run %v in %v, want at most %v, and is shut out %d times", x.name, lost, now.Sub(start), bound, bans)
		}
	}
	alone := newAccounts(1)
	for range 1000 {
		if why := alone.heldReason(0, time.Hour, 0, true, time.Now()); why != "" {
			t.Fatalf("a device alone: %s", why)
		}
	}
}

// What a device may fetch grows with its tasks.
func TestFetches(t *testing.T) {
	const params = 10 << 20 // 40 MiB
	a := newAccounts(1)
	a.list[0].issued = 3
	most := int64(fetchSlack + 8*(1+3)*4*params)
	if why := a.fetchedReason(0, most, params, 0); why != "" {
		t.Error(why)
	}
	if why := a.fetchedReason(0, most+1, params, 0); !strings.Contains(why, "devices.quota.fetches") {
		t.Errorf("a byte more: %q", why)
	}
}
