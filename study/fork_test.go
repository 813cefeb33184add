package study

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fedpace/coordinator/round"
	"fedpace/experiment/folder"
	"fedpace/experiment/run"
	"fedpace/metrics/eventlog"
)

// A cell that goes on from another one has the bits of one that is played whole, in all that a run
// leaves but its times and where it came from.
func TestAForkHasTheBitsOfAWholeRun(t *testing.T) {
	t.Parallel()
	for name, sets := range map[string][]string{
		"plain":   {"task=logistic", "evaluate.every_seconds=2"},
		"overlap": {"task=sent140", "compute.seconds_per_step=0.017", "network.model_megabits=1", "late=use", "close={rule: first, n: 3}", "compute.std=0.01"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := Plan{
				Load: setting(append([]string{"clients=30", "cohort=5", "schedule.k0=20", "stop.rounds=40", "evaluate.every=1", "schedule.patience=4", "schedule.min_delta=0.05",
					"outputs=[tasks]", "out=" + filepath.Join(t.TempDir(), "forks")}, sets...)...),
				Schedules: []string{"step", "fixed", "eta-step"},
			}
			now := make(chan os.Signal)
			forked := 0
			cells, err := sweep(t.Context(), p, Options{
				Run: run.Options{Checkpoint: now, Shown: run.Shown{Notice: func(line string) {
					if strings.Contains(line, " goes on from ") {
						forked++
					}
				}}},
				Adjust: func(_ *Cell, o *run.Options) { // a checkpoint a round
					fork := o.Round
					o.Round = func(r *round.Report) {
						now <- os.Interrupt
						if fork != nil {
							fork(r)
						}
					}
				},
			})
			if err != nil || forked != 2 {
				t.Fatalf("%d forks, %v", forked, err)
			}
			for i := range cells {
				c := &cells[i]
				whole := c.Config
				whole.Out = filepath.Join(t.TempDir(), "whole")
				s, err := run.Run(t.Context(), whole, run.Options{})
				if err != nil {
					t.Fatal(err)
				}
				if from := filepath.Join(filepath.Dir(c.Config.Out), "fixed") + " after round "; strings.HasPrefix(c.Summary.Forked, from) == (c.Schedule == "fixed") {
					t.Errorf("%s goes on from %q", c.Schedule, c.Summary.Forked)
				}
				if *s.ModelSHA256 != *c.Summary.ModelSHA256 || s.Fingerprint != c.Summary.Fingerprint || s.ClientSteps != c.Summary.ClientSteps {
					t.Errorf("%s: another model, history or number of steps than the whole run's", c.Schedule)
				}
				for _, name := range []string{folder.RoundsFile, folder.ConfigFile, eventlog.File, "rounds.parquet", "clients.parquet", "tasks.parquet", "best.safetensors"} {
					got, err := os.ReadFile(c.Run().Path(name))
					want, wantErr := os.ReadFile(filepath.Join(whole.Out, name))
					if name == folder.ConfigFile {
						want = bytes.ReplaceAll(want, []byte(whole.Out), []byte(c.Config.Out))
					}
					if err != nil || wantErr != nil || !bytes.Equal(got, want) {
						t.Errorf("%s: %s differs from the whole run's (%v, %v)", c.Schedule, name, err, wantErr)
					}
				}
			}
		})
	}
}
