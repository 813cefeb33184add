package realdevices

import (
	"strings"
	"testing"
	"time"

	"fedpace/bus/quota"
	"fedpace/coordinator/round"
)

func newAccounts(devices int) *accounts {
	return &accounts{quota: quota.Default(), of: make([]account, devices)}
}

// A device loses its place by tasks in a row, not by those that it fails now and then.
func TestTasksInARow(t *testing.T) {
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
			if why := a.ended(1, kind, time.Second); why != "" {
				t.Fatalf("%v: after %d tasks: %s", test.kind, i+1, why)
			}
		}
		for i := range test.most {
			why := a.ended(1, test.kind, time.Second)
			if last := i == test.most-1; last != strings.Contains(why, test.want) || last != (why != "") {
				t.Errorf("%v: after %d tasks in a row %q", test.kind, i+1, why)
			}
		}
		if why := a.ended(2, test.kind, time.Second); why != "" {
			t.Errorf("another device: %s", why)
		}
	}
}

// The time that a device holds the run counts from ten times what the others take.
func TestTimeHeld(t *testing.T) {
	const usual = 6 * time.Second
	a := newAccounts(4)
	play := func(slow time.Duration) (why string) {
		for i := range 3 {
			if why := a.ended(i, round.Planned, usual); why != "" {
				t.Fatal(why)
			}
		}
		return a.ended(3, round.Planned, slow)
	}
	for range 1000 { // of those that are unequal, and honest
		if why := play(9 * usual); why != "" {
			t.Fatal(why)
		}
	}
	rounds := 1
	for play(10*usual+90*time.Second) == "" {
		rounds++
	}
	if want := int(quota.Default().HeldSeconds/90) + 1; rounds != want {
		t.Errorf("it loses its place after %d rounds, want %d", rounds, want)
	}
	alone := newAccounts(1)
	for range 1000 {
		if why := alone.ended(0, round.Planned, time.Hour); why != "" {
			t.Fatalf("a device alone: %s", why)
		}
	}
}

// What a device may fetch grows with its tasks.
func TestFetches(t *testing.T) {
	const params = 10 << 20 // 40 MiB
	a := newAccounts(1)
	a.of[0].issued = 3
	most := int64(fetchSlack + 8*(1+3)*4*params)
	if why := a.fetched(0, most, params); why != "" {
		t.Error(why)
	}
	if why := a.fetched(0, most+1, params); !strings.Contains(why, "devices.quota.fetches") {
		t.Errorf("a byte more: %q", why)
	}
}
