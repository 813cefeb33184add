package fleet

import (
	"strings"
	"testing"
)

// Files as people have them: columns of other names and in another order, stays of no length, and
// what is later than the period.
func TestColumns_FilesOfOtherColumns(t *testing.T) {
	recorded := file(t, "until,phone,x,since\n10,p,?,0\n50,p,?,50\n130,p,?,90\n140,p,?,135\n5,q,?,5\n")
	f := present(t, Trace{Sessions: recorded, Columns: []string{"phone", "since", "until"}, PeriodSeconds: 100})
	for at, want := range map[int64]bool{0: true, 9: true, 10: false, 50: false, 90: true, 99: true, 105: true, 110: false, 135: false} {
		if f.Available(0, at*second) != want {
			t.Errorf("at %d s the phone is there: %v", at, !want)
		}
	}
	if f.Available(1, 5*second) || f.NextChange(1, 0) != Never {
		t.Error("a phone without a stay is there")
	}

	links, err := (&Links{Columns: []string{"link", "n", "kbps", "kbps"}, UnitMbps: 0.001, UploadFactor: 0.25}).read(strings.NewReader("n,model,link,kbps\n0,a,x,8000\n1,a,x,4000\n"))
	if err != nil || links[0].download.kbps[1] != 4000 || links[0].upload.kbps[0] != 2000 {
		t.Errorf("links %+v, %v", links, err)
	}
	measured, err := readMeasurements(strings.NewReader("phone,vit,resnet\na,1,50\na,2,60\nc,4,0.0\nb,3,100\n"), []string{"phone", "resnet"})
	if err != nil || len(measured) != 3 || measured[2] != (measurement{"b", 100}) {
		t.Errorf("measured %v, %v", measured, err)
	}
	for columns, want := range map[string]string{
		"phone,since": "columns has 2 names (one for each of trace,from_second,to_second)", "phone,since,to": `no column "to" (it has until,phone,x,since)`,
	} {
		_, err := newFleet(Config{Network: Network{DownloadMbps: 1, UploadMbps: 1}, Availability: Trace{Sessions: recorded, Columns: strings.Split(columns, ",")}}, 1, &Files{loaded: map[string]any{}})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", columns, err, want)
		}
	}
}

// A client's trace and time zone are its own draws, and stays are those of local time.
func TestColumns_TracesInTimeZones(t *testing.T) {
	recorded := file(t, sessionsHeader+"a,0,3600\nb,7200,10800\n")
	const clients, hour = 6000, 3600 * second
	f := present(t, Trace{Sessions: recorded, PeriodSeconds: 86400, Drawn: true, StartHour: 2, Zones: []Zone{{Hours: -2, Weight: 1}, {Hours: -2, Weight: 1}, {Hours: -4, Weight: 1}}})
	there := [5]int{}
	for client := range clients {
		seen := 0
		for h := range int64(24) {
			if f.Available(client, h*hour) != f.Available(client, (h+1)*hour-1) {
				t.Fatalf("client %d changes within hour %d", client, h)
			}
			if f.Available(client, h*hour) {
				there[h]++
				seen++
			}
		}
		if seen != 1 {
			t.Fatalf("client %d is there for %d hours of a day, want 1", client, seen)
		}
	}
	// Two of three zones have midnight at time 0 (-2 hours, which stands twice), one two hours later.
	for h, want := range map[int]int{0: clients / 3, 2: clients / 2, 4: clients / 6} {
		if diff := there[h] - want; diff < -300 || diff > 300 {
			t.Errorf("%d clients are there in hour %d, want about %d", there[h], h, want)
		}
	}
	if _, err := (Trace{Sessions: recorded, Spread: true, StartHour: 1}).Presence(nil); err == nil {
		t.Error("clients are spread and have an hour to start")
	}
}
