package realdevices

import (
	"strings"
	"testing"
	"time"

	"fedpace/bus"
	"fedpace/bus/quota"
	"fedpace/coordinator/round"
)

// front notes who may not come in.
type front map[string]bool

// Sent returns that each device was sent a terabyte.
func (d front) Sent(string) int64 { return 1 << 40 }

// Expel marks a device as expelled.
func (d front) Expel(device string) { d[device] = true }

// Readmit ends the expulsion of a device.
func (d front) Readmit(device string) { delete(d, device) }

// banning returns two devices, clients 7 and 8, with quota q, behind the front out.
func banning(q quota.Device, out front) *Devices {
	return &Devices{
		Config: Config{Names: []string{"pi", "evil"}, Front: out}, run: Run{First: 7, Params: 10},
		banned: make([]bool, 2), banEnds: make([]int64, 2), accounts: accounts{quota: q, list: make([]account, 2)},
	}
}

// A device that the server was closed to is shut out of a resumed run's server, too, until its
// ban is over. What it fetched before does not count then.
func TestBans_ExpelledStaysOut(t *testing.T) {
	q := quota.Default()
	q.BanSeconds = 60
	first := banning(q, front{})
	if err := first.checkFetched(); err != nil {
		t.Fatal(err)
	}
	out := front{}
	d := banning(q, out)
	d.takeBans(first.bans[1:])
	ends := time.Unix(0, first.bans[1].Ends)
	if err := d.readmit(ends.Add(-time.Second)); err != nil || !d.banned[1] || !out["evil"] || d.banned[0] || out["pi"] {
		t.Errorf("a second before the end banned are %v, out are %v, %v", d.banned, out, err)
	}
	if err := d.readmit(ends); err != nil || d.banned[1] || out["evil"] {
		t.Errorf("at the end banned are %v, out are %v, %v", d.banned, out, err)
	}
	if why := d.accounts.fetchedReason(1, out.Sent("evil")+1, 10, 0); why != "" {
		t.Errorf("behind it: %s", why)
	}
}

// Each further ban of a device takes twice as long, and one for good stays.
func TestBans_Grow(t *testing.T) {
	q := quota.Default()
	q.BanSeconds = 60
	d := banning(q, front{})
	for want := time.Minute; want < 1000*time.Hour; want *= 2 {
		if err := d.suspend(1, "it is slow", false); err != nil {
			t.Fatal(err)
		}
		if b := d.bans[len(d.bans)-1]; b.For != int64(want) || b.Client != 8 {
			t.Fatalf("the ban %d is %+v, want one for %v", len(d.bans), b, want)
		}
		if err := d.readmit(time.Unix(0, d.banEnds[1])); err != nil {
			t.Fatal(err)
		}
	}
	for range 100 {
		d.bans = append(d.bans, d.bans[0])
	}
	if err := d.suspend(1, "it is slow", false); err != nil || d.bans[len(d.bans)-1].For <= 0 {
		t.Errorf("after a hundred bans: %+v", d.bans[len(d.bans)-1])
	}
	if err := d.Ban(8, "it made the model diverge"); err != nil {
		t.Fatal(err)
	}
	if err := d.readmit(time.Now().Add(1e6 * time.Hour)); err != nil || !d.banned[1] {
		t.Error("a ban for good has ended")
	}
}

// A device that holds the run up by a bad link is back after two minutes; only if it goes on, it is out for longer, and
// an hour later for two minutes again. What it has held counts until hours have passed, so bans may be short.
func TestBans_FlakyDeviceReturns(t *testing.T) {
	d := banning(quota.Default(), front{})
	d.Usual = func(int, int) round.Time { return round.Time(time.Second) }
	slow := &openTask{device: 1, task: &bus.Task{LocalSteps: 1}, firstSent: time.Now().Add(-200 * time.Second)}
	for _, want := range []time.Duration{2 * time.Minute, 4 * time.Minute, 8 * time.Minute, 16 * time.Minute, 32 * time.Minute, time.Hour, time.Hour} {
		if err := d.countHeldTime(slow, true); err != nil {
			t.Fatal(err)
		}
		b := d.bans[len(d.bans)-1]
		if b.For != int64(want) || b.Client != 8 || !strings.Contains(b.Reason, "held_seconds") {
			t.Fatalf("ban %d is %+v, want one for %v", len(d.bans), b, want)
		}
		if err := d.readmit(time.Unix(0, b.Ends)); err != nil || d.banned[1] {
			t.Fatalf("after %v it is banned: %v, %v", want, d.banned, err)
		}
	}
	// Of 200 s 190 count, seven times.
	if held := d.accounts.list[1].held.Round(time.Second); held < 1320*time.Second || held > 1330*time.Second {
		t.Errorf("%v are held against it, want 1,330 s less what seconds forget", held)
	}
	for i := range d.bans {
		d.bans[i].Ends = time.Now().Add(-time.Hour).UnixNano()
	}
	if err := d.suspendFlaky(1, "its tasks were lost"); err != nil {
		t.Fatal(err)
	}
	if b := d.bans[len(d.bans)-1]; b.For != int64(2*time.Minute) {
		t.Errorf("after a quiet hour it is %+v", b)
	}
}

// A device that joins twice before the run begins, by two processes, stands for no other.
func TestDevices_GatheredOnce(t *testing.T) {
	d := banning(quota.Default(), front{})
	d.arrived = []arrival{{device: 1}, {device: 1}}
	if n := d.settledCount(); n != 1 {
		t.Errorf("%d devices are gathered, want 1", n)
	}
	d.banned[0] = true
	if n := d.settledCount(); n != 2 {
		t.Errorf("%d devices are gathered or banned, want 2", n)
	}
}
