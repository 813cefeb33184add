package data

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"fedpace/data/datatest"
	"fedpace/data/federated"
	"fedpace/data/table"
)

// The samples of a prepared file of a table with times arrive as those of the table, and the header says
// that they do.
func TestPrepared_Arrivals(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var rows strings.Builder
	rows.WriteString("who,at,x,y,part\n")
	for i := range 200 {
		part := "train"
		if i%4 == 0 {
			part = "test"
		}
		fmt.Fprintf(&rows, "c%d,%d,%g,%d,%s\n", i%3, r.IntN(100), r.Float64(), i%2, part)
	}
	dir := t.TempDir()
	path := datatest.Put(t, dir, "rows.csv", []byte(rows.String()))
	mapping := table.Table{
		Client:        "who",
		Features:      []string{"x"},
		Label:         "y",
		Split:         "part",
		Arrival:       "at",
		ArrivalStart:  7,
		ArrivalSpeed:  2,
		ArrivalWindow: 9,
		Missing:       "refuse",
	}
	cache := filepath.Join(dir, "rows.fedpace")
	for _, want := range []string{"not prepared yet", ""} {
		set, rebuilt, err := OpenPrepared(mapping, path, cache, federated.Options{Seed: 1})
		if err != nil || rebuilt != want {
			t.Fatalf("rebuilt: %q, %v; want %q", rebuilt, err, want)
		}
		if err := set.Close(); err != nil {
			t.Fatal(err)
		}
	}
	source := mustOpenWith(t, mapping, path)
	prepared := mustOpen(t, cache, federated.Options{})
	datatest.SameSets(t, source, prepared)
	wanted := source.(federated.Timed).Arrivals(3)
	got := prepared.(federated.Timed).Arrivals(3)
	const second = int64(1e9)
	var there int
	for at := -10 * second; at < 70*second; at += second / 4 {
		first, count := wanted.HeldOut(at)
		if gotFirst, gotCount := got.HeldOut(at); gotFirst != first || gotCount != count {
			t.Fatalf("at %d ns: %d held-out samples from %d on, want %d from %d on", at, gotCount, gotFirst, count, first)
		}
		for client := range 3 {
			first, count := wanted.Samples(client, at)
			if gotFirst, gotCount := got.Samples(client, at); gotFirst != first || gotCount != count {
				t.Fatalf("client %d at %d ns: %d samples from %d on, want %d from %d on",
					client, at, gotCount, gotFirst, count, first)
			}
			there += count
		}
	}
	if there == 0 {
		t.Error("no sample is there at any time: the test says little")
	}
	if !PreparedArrives(cache) || PreparedArrives(path) || PreparedArrives(filepath.Join(dir, "absent")) {
		t.Error("the prepared file alone says by itself that its samples arrive")
	}
	other := mapping
	other.ArrivalWindow = 10
	if _, rebuilt, err := OpenPrepared(other, path, cache, federated.Options{Seed: 1}); err != nil ||
		!strings.Contains(rebuilt, "stale: mapping was") {
		t.Errorf("another window: %q, %v", rebuilt, err)
	}
	other.Arrival = ""
	other.ArrivalStart = 0
	other.ArrivalSpeed = 0
	other.ArrivalWindow = 0
	if _, _, err := OpenPrepared(other, path, cache, federated.Options{Seed: 1}); err != nil || PreparedArrives(cache) {
		t.Errorf("without a column of times: %v", err)
	}
}
