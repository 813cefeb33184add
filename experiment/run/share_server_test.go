package run

import (
	"math"
	"strings"
	"testing"

	"fedpace/coordinator/round"
	"fedpace/internal/testkit/runtest"
	"fedpace/internal/testkit/slow"
)

// Sixty equal clients and a server that has no more than 100 Mbit/s each way:
// FEMNIST's 6.71 Mbit reach all of them after 60·6.71/100 s, and come back in as
// long, where by themselves they would take 0.3355 s and 1.342 s (Eq. 3).
func TestEqualClientsShareTheServer(t *testing.T) {
	slow.NotUnderRace(t)
	t.Parallel()
	for _, x := range []struct {
		server string
		want   float64
	}{
		{"network.server_download_mbps=null", 0.3355 + 80*0.017 + 1.342},
		{"network.server_download_mbps=100", 60*0.0671 + 80*0.017 + 1.342},
		{"network.server_upload_mbps=100", 0.3355 + 80*0.017 + 60*0.0671},
		{"network.server_upload_mbps=300", 0.3355 + 80*0.017 + 1.342}, // 60·5 Mbit/s
		{"network={server_download_mbps: 100, server_upload_mbps: 299}", 60*0.0671 + 80*0.017 + 60*6.71/299},
		// Ten clients a site, one of 50 Mbit/s down and 20 up; then a server that is slower still.
		{"network.sites={count: 6, download_mbps: 50, upload_mbps: 20}", 10*6.71/50 + 80*0.017 + 10*6.71/20},
		{"network={server_upload_mbps: 100, sites: {count: 6, upload_mbps: 20}}", 0.3355 + 80*0.017 + 60*0.0671},
	} {
		c := runtest.Small(t, "train=false", "clients=60", "cohort=60", "schedule.k0=80", "stop.rounds=3", "schedule.k=fixed", x.server)
		s := mustRun(t, c, Options{})
		if got := s.VirtualSeconds / 3; math.Abs(got-x.want) > 1e-8 {
			t.Errorf("%s: a round takes %.9f s, want %.9f", x.server, got, x.want)
		}
		if total := 60 * 3 * x.want; math.Abs(s.ClientSeconds.Useful-total) > 1e-5 || s.Bytes.Useful != 2*60*3*838750 {
			t.Errorf("%s: clients spent %v s and %d bytes, want %v s", x.server, s.ClientSeconds.Useful, s.Bytes.Useful, total)
		}
	}
}

// With shared transfers, too, a run that trains has the history of the run that
// does not, under every closing rule.
func TestTrainingChangesNoHistoryOnASharedServer(t *testing.T) {
	slow.NotUnderRace(t)
	t.Parallel()
	server := "network={server_download_mbps: 80, server_upload_mbps: 20}"
	for rule, closing := range closings {
		t.Run(rule, func(t *testing.T) {
			sets := append([]string{closing.set, server}, availabilities["markov"]...)
			if rule == "deadline" {
				sets = append(sets, "close.seconds=7")
			}
			alone := mustRun(t, runtest.Stragglers(t, append(sets, "train=false", "network={server_download_mbps: null, server_upload_mbps: null}")...), Options{})
			timed := mustRun(t, runtest.Stragglers(t, append(sets, "train=false")...), Options{Place: Place{Hosts: 2}})
			trained, batches := counting(t, runtest.Stragglers(t, sets...))
			if trained.Fingerprint != timed.Fingerprint || trained.Outcomes != timed.Outcomes || trained.VirtualSeconds != timed.VirtualSeconds ||
				trained.ClientSeconds != timed.ClientSeconds || trained.Bytes != timed.Bytes || *trained.EnergyJoules != *timed.EnergyJoules {
				t.Errorf("trained: %+v\ntimed: %+v", trained, timed)
			}
			if batches != trained.ClientSteps.Useful || batches == 0 {
				t.Errorf("%d minibatches were trained on, %d steps count", batches, trained.ClientSteps.Useful)
			}
			if timed.Fingerprint == alone.Fingerprint || rule != "deadline" && timed.VirtualSeconds <= alone.VirtualSeconds {
				t.Errorf("the server slows nobody down: %v s, without it %v s", timed.VirtualSeconds, alone.VirtualSeconds)
			}
			if trained.Outcomes[round.Dropped] == 0 {
				t.Errorf("nobody left: %v", trained.Outcomes)
			}
		})
	}
}

// Candidates who are asked for their losses share the server's download, too.
func TestCandidatesShareTheServer(t *testing.T) {
	t.Parallel()
	choice := "select={rule: power_of_choice, candidates: 24}"
	alone := mustRun(t, runtest.Stragglers(t, choice), Options{})
	shared := mustRun(t, runtest.Stragglers(t, choice, "network.server_download_mbps=24"), Options{})
	// 24 candidates of 20 Mbit/s, a Mbit/s each: 6.71 s instead of 0.3355 s
	// before the first can have answered, in each of 8 rounds.
	if more, least := shared.VirtualSeconds-alone.VirtualSeconds, 8*(6.71-0.3355)*0.9; more < least {
		t.Errorf("asking through the shared server takes %v s more, want at least %v", more, least)
	}
}

func TestAServerTooSlowToShare(t *testing.T) {
	t.Parallel()
	c := runtest.Small(t, "train=false", "network.server_upload_mbps=1e-9")
	_, err := Run(t.Context(), c, Options{})
	if err == nil || !strings.Contains(err.Error(), "network.server_upload_mbps") {
		t.Errorf("error %v", err)
	}
}
