package run

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"fedpace/config"
	"fedpace/experiment/folder"
	"fedpace/internal/testkit/slow"
)

// A run in memory has the history and the model of the same run through NATS, and
// says which it was.
func TestMemory_Run(t *testing.T) {
	slow.NotUnderRace(t)
	t.Parallel()
	for name, sets := range map[string][]string{
		"timing":  {"train=false", "cohort=700", "clients=2000", "stop.rounds=40"},
		"trained": {"task=logistic", "clients=30", "cohort=9", "stop.rounds=6", "evaluate.every=2", "aggregate.algorithm=scaffold"},
		"played first": {"task=logistic", "clients=30", "cohort=9", "schedule.k=fixed", "stop.rounds=null", "stop.equal_runtime_rounds=5",
			"close={rule: first, n: 5}", "compute.std=0.005"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			play := func(url string, o Options) folder.Summary {
				c, err := config.Load("", append([]string{"nats.url=" + url, "out=" + filepath.Join(t.TempDir(), "run")}, sets...))
				if err != nil {
					t.Fatal(err)
				}
				return mustRun(t, c, o)
			}
			want, got := play(config.Embedded, Options{}), play(config.None, Options{Place: Place{Hosts: 2, Workers: 3}})
			if got.Bus != folder.InMemory || want.Bus != folder.OverNATS {
				t.Errorf("the summaries name %q and %q", got.Bus, want.Bus)
			}
			if got.Fingerprint != want.Fingerprint || value(got.ModelSHA256) != value(want.ModelSHA256) || got.Outcomes != want.Outcomes {
				t.Errorf("fingerprint %s, model %s, want %s, %s", got.Fingerprint, value(got.ModelSHA256), want.Fingerprint, value(want.ModelSHA256))
			}
		})
	}
}

func value(text *string) string {
	if text == nil {
		return ""
	}
	return *text
}

// A run in memory starts no server: it needs no folder for one.
func TestMemory_StartsNoServer(t *testing.T) {
	dir := t.TempDir()
	c, err := config.Load("", []string{"nats.url=none", "train=false", "stop.rounds=3", "out=" + filepath.Join(dir, "run")})
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", filepath.Join(dir, "none"))
	mustRun(t, c, Options{})
	c.NATS.URL, c.Out = config.Embedded, filepath.Join(dir, "other")
	if _, err := Run(t.Context(), c, Options{}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a server without a folder for its files: %v", err)
	}
}

// Hosts elsewhere need a server.
func TestMemory_OwnHostsOnly(t *testing.T) {
	c, err := config.Load("", []string{"nats.url=none", "out=" + filepath.Join(t.TempDir(), "run")})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Run(t.Context(), c, Options{Place: Place{RemoteHosts: true}}); err == nil || !strings.Contains(err.Error(), "nats.url: hosts elsewhere need a server") {
		t.Errorf("%v", err)
	}
}

// The dry run says what carries the messages.
func TestDryRun_Transport(t *testing.T) {
	slow.NotUnderRace(t)
	for url, want := range map[string]string{config.Embedded: "through NATS", config.None: "in memory, without NATS"} {
		c, err := config.Load("", []string{"nats.url=" + url, "train=false", "stop.rounds=2", "out=" + filepath.Join(t.TempDir(), "run")})
		if err != nil {
			t.Fatal(err)
		}
		e, err := DryRun(t.Context(), c, Options{})
		if err != nil {
			t.Fatal(err)
		}
		var text strings.Builder
		if err := e.Write(&text); err != nil {
			t.Fatal(err)
		}
		if lines := strings.Split(text.String(), "\n"); !slices.ContainsFunc(lines, func(l string) bool { return strings.Contains(l, "messages "+want+";") }) {
			t.Errorf("%s: %q is not in\n%s", url, want, text.String())
		}
	}
}
