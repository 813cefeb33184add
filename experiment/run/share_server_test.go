package run

import (
	"math"
	"strings"
	"testing"

	"fedpace/config"
	"fedpace/coordinator/round"
	"fedpace/experiment/runtest"
	"fedpace/internal/testkit/slow"
)

// Sixty equal clients and a server that has no more than 100 Mbit/s each way:
// FEMNIST's 6.71 Mbit reach all of them after 60·6.71/100 s, and come back in as
// long, where by themselves they would take 0.3355 s and 1.342 s (Eq. 3).
func TestSharedServer_EqualClients(t *testing.T) {
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
func TestSharedServer_TimingOnly(t *testing.T) {
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
func TestSharedServer_Candidates(t *testing.T) {
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

func TestSharedServer_TooSlow(t *testing.T) {
	t.Parallel()
	c := runtest.Small(t, "train=false", "network.server_upload_mbps=1e-9")
	_, err := Run(t.Context(), c, Options{})
	if err == nil || !strings.Contains(err.Error(), "network.server_upload_mbps") {
		t.Errorf("error %v", err)
	}
}

// Six sites of ten equal clients fetch the model at 50 Mbit/s each, have two rounds of a client's
// time by itself (Eq. 3), and send through a server of 30 Mbit/s, 5 each.
func TestSites_TakeTheirTime(t *testing.T) {
	t.Parallel()
	s := mustRun(t, runtest.Small(t, "train=false", "clients=60", "cohort=60", "schedule.k0=80", "schedule.k=fixed", "stop={rounds: null, equal_runtime_rounds: 3}",
		"network={server_upload_mbps: 30, sites: {count: 6, download_mbps: 50, upload_mbps: 20}}", "aggregate.site_rounds=2"), Options{})
	client := 0.3355 + 80*0.017 + 1.342
	if want := 6.71/50 + 2*client + 6.71/5; math.Abs(s.VirtualSeconds/3-want) > 1e-8 {
		t.Errorf("a round takes %.9f s, want %.9f", s.VirtualSeconds/3, want)
	}
	if s.Outcomes[round.Accepted] != 3*2*60 || s.SGDSteps != 3*2*80 || *s.RelativeSGDSteps != 1 || math.Abs(s.ClientSeconds.Useful-360*client) > 1e-5 {
		t.Errorf("%v, %d steps, %v of fixed K's, %v s of clients", s.Outcomes, s.SGDSteps, *s.RelativeSGDSteps, s.ClientSeconds)
	}
}

// Runs whose sites add up have one history with and without training, the bits of one host on
// two and after a resume, and those of clients that send to the server where a site has one
// round.
func TestSites_Learn(t *testing.T) {
	slow.NotUnderRace(t)
	t.Parallel()
	sites := func(sets ...string) config.Config {
		return runtest.Stragglers(t, append([]string{"network.sites={count: 5, upload_mbps: 9}", "aggregate.weights=samples"}, sets...)...)
	}
	two := []string{"aggregate.site_rounds=2", "dropout.probability=0.1"}
	whole := mustRun(t, sites(two...), Options{Place: Place{Hosts: 2}})
	timed := mustRun(t, sites(append(two, "train=false")...), Options{})
	again := resumed(t, sites(two...), 4, Options{})
	if whole.Fingerprint != timed.Fingerprint || whole.Fingerprint != again.Fingerprint || *whole.ModelSHA256 != *again.ModelSHA256 || whole.Outcomes[round.Dropped] == 0 {
		t.Errorf("%s %s %v on two hosts, %s timed, %s %s resumed", whole.Fingerprint, *whole.ModelSHA256, whole.Outcomes, timed.Fingerprint, again.Fingerprint, *again.ModelSHA256)
	}
	flat, one := mustRun(t, sites(), Options{}), mustRun(t, sites("aggregate.site_rounds=1"), Options{})
	if *flat.ModelSHA256 != *one.ModelSHA256 || flat.Fingerprint == one.Fingerprint || *flat.ModelSHA256 == *whole.ModelSHA256 {
		t.Errorf("%s flat, %s with one round of a site, %s with two; histories %s and %s", *flat.ModelSHA256, *one.ModelSHA256, *whole.ModelSHA256, flat.Fingerprint, one.Fingerprint)
	}
}

func TestSites_Refusals(t *testing.T) {
	t.Parallel()
	add := "network.sites.count=4 aggregate.site_rounds=2 "
	for sets, want := range map[string]string{
		"network.sites.count=4":       "network.sites: 4 sites without a limit change nothing",
		"network.sites.upload_mbps=4": "network.sites.count: it is missing",
		"aggregate.site_rounds=1":     "network.sites.count: it is missing",
		"network.sites.count=4 network.sites.upload_mbps=4 clients=0 cohort=1 devices.names=[a]": "network.sites: are those of simulated clients",
		add + "close={rule:buffered,n:2}":                   "close: ends rounds before a site has all",
		add + "devices.names=[a]":                           "devices.names: are behind no site",
		add + "select={rule:power_of_choice,candidates:11}": "select: asks candidates",
		add + "aggregate.algorithm=scaffold":                "aggregate.algorithm: does not say what a site makes",
		add + "aggregate.clip=median":                       "aggregate.clip: is for single updates",
		add + "aggregate.combine=median":                    "aggregate.combine: is for single updates",
		add + "compress=qsgd":                               "compress: is for updates of clients",
		add + "privacy={local:{clip:1,noise_multiplier:1}}": "privacy: is accounted for one update",
		add + "local={momentum:0.9,keep:true}":              "local.keep: goes from a client's task",
		add + "personal=[4.weight]":                         "personal.names: go from a client's task",
		add + "limits.state_gb=0.00001":                     "limits.state_gb: 1e-05, but the sites' models and sums take",
	} {
		c, err := config.Load("", append([]string{"task=sent140", "cohort=10"}, strings.Fields(sets)...))
		if err == nil {
			_, err = Run(t.Context(), c, Options{})
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", sets, err, want)
		}
	}
}
