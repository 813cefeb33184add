package problem

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"fedpace/actors/external/externaltest"
	"fedpace/config"
	"fedpace/experiment/folder"
)

// linksCSV is one link trace of this speed.
func linksCSV(mbps string) []byte {
	return []byte("trace,second,download_mbps,upload_mbps\na,0," + mbps + "," + mbps + "\na,1," + mbps + "," + mbps + "\n")
}

// TestPrepare_EveryFile opens a configuration that names files at every level: each that the
// fleet reads has a digest.
func TestPrepare_EveryFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	links := filepath.Join(dir, "links.csv")
	own := filepath.Join(dir, "own.csv")
	stays := filepath.Join(dir, "stays.csv")
	for path, text := range map[string][]byte{
		links: linksCSV("20"),
		own:   linksCSV("9"),
		stays: []byte("trace,from_second,to_second\na,0,50\na,60,90\n"),
	} {
		if err := os.WriteFile(path, text, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	c, err := config.Load("", []string{
		"task=femnist", "train=false", "clients=20", "cohort=5", "stop.rounds=3",
		"network.links=" + links,
		"availability={model: trace, sessions: " + stays + "}",
		"fleet=[{name: a, weight: 1}, {name: b, weight: 1, links: " + own + "}]",
	})
	if err != nil {
		t.Fatal(err)
	}
	p, err := Prepare(t.Context(), c, false, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	var keys []string
	for _, f := range p.Files {
		keys = append(keys, f.Key)
	}
	want := []string{"availability.sessions", "network.links", "fleet[1].links"}
	if !slices.Equal(keys, want) {
		t.Errorf("the files are those of %q, want %q", keys, want)
	}
	for _, path := range p.Fleet.Files {
		if !slices.ContainsFunc(p.Files, func(f folder.InputFile) bool { return f.Path == path }) {
			t.Errorf("the fleet reads %s, which has no digest", path)
		}
	}
}

// TestInputs_Difference changes each input of a run that has ended: it is named.
func TestInputs_Difference(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	links := filepath.Join(dir, "links.csv")
	table := filepath.Join(dir, "table.csv")
	write := func(path string, text []byte) {
		if err := os.WriteFile(path, text, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	rows := "client,x,y\n" + strings.Repeat("a,1,0\nb,2,1\na,3,1\nb,4,0\n", 20)
	write(links, linksCSV("20"))
	write(table, []byte(rows))
	c, err := config.Load("", []string{
		"task=custom", "data={path: " + table + ", client: client, label: y, features: [x]}", "model=linear",
		"cohort=2", "schedule.k0=2", "schedule.eta0=0.1", "compute.seconds_per_step=0.1",
		"network.download_mbps=20", "network.upload_mbps=5", "network.links=" + links, "stop.rounds=2",
	})
	if err != nil {
		t.Fatal(err)
	}
	p, err := Prepare(t.Context(), c, false, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	run := &folder.Summary{Kernel: p.Kernel, DataDigest: p.Set.Info().Digest, Inputs: p.Files}
	c = p.Config
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	check := func(want string) {
		t.Helper()
		difference, err := new(Inputs).Difference(t.Context(), c, run)
		if err != nil {
			t.Fatal(err)
		}
		if (difference == nil) != (want == "") || difference != nil && !strings.Contains(difference.Error(), want) {
			t.Errorf("%v, want %q", difference, want)
		}
	}
	check("")
	write(links, linksCSV("2"))
	check("its file " + links + " (network.links) had other content")
	write(links, linksCSV("20"))
	check("")
	write(table, []byte(strings.Replace(rows, "3,1", "3,0", 1)))
	check("its data have changed: " + table)
}

// TestInputs_TrainerGrids compares, with the same inputs, the runs of a grid whose trainer is given the run's data:
// each cell has data or a model of its own, which have not changed.
func TestInputs_TrainerGrids(t *testing.T) {
	t.Parallel()
	trainer := externaltest.Command("-model", "mlp:784,2,62")
	base := []string{"task=femnist", "clients=4", "cohort=2", "stop.rounds=2", `trainer="` + trainer + `"`}
	for key, values := range map[string][]string{
		"clients":                 {"4", "5"},
		"synthetic.heterogeneity": {"1", "0.5"},
		"synthetic.seed":          {"1", "2"},
		"personal":                {"null", "[2]"},
	} {
		t.Run(key, func(t *testing.T) {
			t.Parallel()
			var inputs Inputs
			found := map[string]bool{}
			for _, value := range values {
				c, err := config.Load("", append(slices.Clone(base), key+"="+value))
				if err != nil {
					t.Fatal(err)
				}
				p, err := Prepare(t.Context(), c, true, nil, nil)
				if err != nil {
					t.Fatal(err)
				}
				c = p.Config
				run := &folder.Summary{
					Kernel:     p.Kernel,
					DataDigest: p.Set.Info().Digest,
					Inputs:     p.Files,
					Trainer:    &folder.Trainer{Model: p.Model.String()},
				}
				found[run.DataDigest+run.Trainer.Model] = true
				if err := p.Close(); err != nil {
					t.Fatal(err)
				}
				difference, err := inputs.Difference(t.Context(), c, run)
				if err != nil || difference != nil {
					t.Errorf("%s=%s: %v, %v", key, value, difference, err)
				}
			}
			if len(found) != len(values) {
				t.Errorf("%d data and models, want %d", len(found), len(values))
			}
		})
	}
}
