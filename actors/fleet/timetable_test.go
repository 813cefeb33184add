package fleet

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// expectStays compares the stays of a file's clients, in seconds of virtual time, with those wanted. The
// first beginning and the last end may be open.
func expectStays(t *testing.T, a Availability, want [][]session) {
	t.Helper()
	p, err := a.Presence(&Files{loaded: map[string]any{}})
	if err != nil {
		t.Fatal(err)
	}
	var got [][]session
	for _, list := range p.(*timetable).stays {
		var stays []session
		for _, s := range list {
			if s.start != math.MinInt64 {
				s.start /= second
			}
			if s.end != Never {
				s.end /= second
			}
			stays = append(stays, s)
		}
		got = append(got, stays)
	}
	if !slices.EqualFunc(got, want, slices.Equal) {
		t.Errorf("stays %v, want %v", got, want)
	}
}

// written returns the path of a file with this text.
func written(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// Contacts of three satellites, of which one is under way at the beginning, one is never left, and one is
// seen by two stations at once.
func TestPasses_Contacts(t *testing.T) {
	text := `satellite,rise,set
iss,,2024-03-01T10:01:00Z
iss,2024-03-01 10:10:00 UTC,2024-03-01T11:20:00+01:00
geo,,
two,2024-03-01T10:03:00Z,2024-03-01T10:05:00Z
two,2024-03-01T10:02:00Z,2024-03-01T10:04:00Z
two,2024-03-01 10:30:00,
`
	expectStays(t, Passes{File: written(t, text), Start: "2024-03-01T10:00:00Z"}, [][]session{
		{{math.MinInt64, 60}, {600, 1200}},
		{{math.MinInt64, Never}},
		// Nothing is known of the end: the contact lasts until the file's latest time, at which it rises.
		{{120, 300}, {1800, 1800}},
	})
}

// The same as skyfield's find_events has it: a geostationary satellite culminates, and neither rises nor
// sets.
func TestPasses_Events(t *testing.T) {
	text := `name,utc,what
iss,2024-03-01T10:00:30Z,1
iss,2024-03-01T10:01:00Z,2
iss,2024-03-01T10:10:00Z,0
iss,2024-03-01T10:15:00Z,1
iss,2024-03-01T10:20:00Z,2
geo,2024-03-01T10:05:00Z,culminate
low,2024-03-01T10:40:00.250Z,rise
geo,2024-03-01T22:05:00Z,culminate
`
	a := Passes{File: written(t, text), Events: true, Columns: []string{"name", "utc", "what"}, Start: "2024-03-01T10:00:00Z"}
	expectStays(t, a, [][]session{
		{{math.MinInt64, 60}, {600, 1200}},
		{{math.MinInt64, Never}},
		{{2400, 43500}},
	})
}

func TestPasses_Refused(t *testing.T) {
	const start = "2024-03-01T10:00:00Z"
	for name, x := range map[string]struct {
		a    Passes
		text string
		want string
	}{
		"no start":           {Passes{}, "satellite,rise,set\na,,\n", "start: "},
		"a time in words":    {Passes{Start: start}, "satellite,rise,set\na,today,\n", `line 2: rise: "today" is not a time in UTC`},
		"a set before":       {Passes{Start: start}, "satellite,rise,set\na,2024-03-01T10:00:00Z,2024-03-01T09:00:00Z\n", "line 2: a contact sets"},
		"two rises":          {Passes{Start: start, Events: true}, "satellite,time,event\na,2024-03-01T10:00:00Z,rise\na,2024-03-01T11:00:00Z,rise\n", "line 3: event: \"a\" rises"},
		"two sets":           {Passes{Start: start, Events: true}, "satellite,time,event\na,2024-03-01T10:00:00Z,2\na,2024-03-01T11:00:00Z,2\n", "without having risen"},
		"an unknown event":   {Passes{Start: start, Events: true}, "satellite,time,event\na,2024-03-01T10:00:00Z,3\n", "is none of rise, culminate and set"},
		"events out of turn": {Passes{Start: start, Events: true}, "satellite,time,event\na,2024-03-01T10:00:00Z,0\na,2024-03-01T09:00:00Z,2\n", "is before that of its last row"},
	} {
		x.a.File = written(t, x.text)
		_, err := x.a.Presence(&Files{loaded: map[string]any{}})
		if err == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%s: %v, want %q", name, err, x.want)
		}
	}
}

// A timetable's changes are those of its stays, and after the last there is none.
func TestTimetable_Changes(t *testing.T) {
	p := newTimetable([][]session{{{10, 20}, {30, 40}}, {always}})
	for _, x := range []struct {
		client  int
		t, want int64
		present bool
	}{
		{0, -5, 10, false}, {0, 10, 20, true}, {0, 19, 20, true}, {0, 20, 30, false}, {0, 35, 40, true}, {0, 40, Never, false},
		{1, 0, Never, true},
		// A third client has the first one's stays.
		{2, 10, 20, true},
	} {
		if got := p.Present(1, x.client, x.t); got != x.present {
			t.Errorf("client %d at %d: present %v", x.client, x.t, got)
		}
		if got := p.Change(1, x.client, x.t); got != x.want {
			t.Errorf("client %d at %d: the next change is at %d, want %d", x.client, x.t, got, x.want)
		}
	}
}

// Clients of an orbit are in contact for the same part of each period, each from a moment of its own on.
func TestOrbit_Windows(t *testing.T) {
	p, err := Orbit{PeriodSeconds: 100, WindowSeconds: 10}.Presence(nil)
	if err != nil {
		t.Fatal(err)
	}
	begins := map[int64]bool{}
	for client := range 20 {
		present := 0
		var begin int64
		for s := range int64(1000) {
			now := p.Present(1, client, s*second)
			if now {
				present++
			}
			if s > 0 && now && !p.Present(1, client, (s-1)*second) {
				begin = s % 100
			}
		}
		begins[begin] = true
		// A window of 10 s covers 10 whole seconds of each period, wherever it begins.
		if present != 100 {
			t.Errorf("client %d is present in %d of 1,000 s, want 100", client, present)
		}
	}
	if len(begins) < 10 {
		t.Errorf("20 clients begin at %d moments", len(begins))
	}
	if _, err := (Orbit{PeriodSeconds: 10, WindowSeconds: 10}).Presence(nil); err == nil {
		t.Error("a window as long as the period is no error")
	}
}

// The vehicles of time steps: b leaves and comes back, c comes with the last step, which lasts as long as
// the one before. A person is no vehicle.
func TestSUMO_TimeSteps(t *testing.T) {
	text := `<?xml version="1.0" encoding="UTF-8"?>
<!-- generated by SUMO -->
<fcd-export>
  <timestep time="100.00"><vehicle id="a" x="1" y="2" speed="3"/><person id="p" x="0" y="0"/></timestep>
  <timestep time="100.50"><vehicle id="a" x="1" y="2"/><vehicle id="b" x="1" y="2"/></timestep>
  <timestep time="102.50"><vehicle id="a" x="1" y="2"/></timestep>
  <timestep time="104.50"/>
  <timestep time="106.50"><vehicle id="b" x="1" y="2"/><vehicle id="c" x="1" y="2"/></timestep>
</fcd-export>
`
	a := SUMO{File: written(t, text), StartSecond: 98.5}
	expectStays(t, a, [][]session{{{1, 6}}, {{2, 4}, {8, 10}}, {{8, 10}}})
}

func TestSUMO_Trips(t *testing.T) {
	text := `<tripinfos>
  <tripinfo id="a" depart="10.00" arrival="70.00" duration="60.00"/>
  <tripinfo id="b" depart="20.00" arrival="-1.00"/>
</tripinfos>
`
	expectStays(t, SUMO{File: written(t, text)}, [][]session{{{10, 70}}, {{20, Never}}})
}

func TestSUMO_Refused(t *testing.T) {
	for name, x := range map[string][2]string{
		"another file":        {"<net><edge/></net>", "the file is <net>"},
		"no vehicle":          {"<fcd-export><timestep time='0'/></fcd-export>", "has no vehicle"},
		"a step back":         {"<fcd-export><timestep time='1'/>\n<timestep time='1'/></fcd-export>", "line 2: the time step at 1"},
		"a vehicle by itself": {"<fcd-export><vehicle id='a'/></fcd-export>", "before the first time step"},
		"no id":               {"<tripinfos><tripinfo depart='1' arrival='2'/></tripinfos>", "a tripinfo has no id"},
		"no number":           {"<tripinfos><tripinfo id='a' depart='soon' arrival='2'/></tripinfos>", `depart is "soon"`},
		"a trip back":         {"<tripinfos><tripinfo id='a' depart='3' arrival='2'/></tripinfos>", "arrives before it departs"},
		"a file cut off":      {"<tripinfos><tripinfo id='a'", "sumo: XML syntax error"},
	} {
		_, err := SUMO{File: written(t, x[0])}.Presence(&Files{loaded: map[string]any{}})
		if err == nil || !strings.Contains(err.Error(), x[1]) {
			t.Errorf("%s: %v, want %q", name, err, x[1])
		}
	}
}
