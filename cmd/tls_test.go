//go:build unix

package cmd

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"fedpace/actors/doctor"
	"fedpace/coordinator/round"
	"fedpace/experiment/devicelog"
)

// A server that other machines reach encrypts, or is refused unless that is wanted. One
// command makes its certificate, a device is given the authority's, and the doctor says
// what is wrong without it.
func TestTLS_ServerForOtherMachines(t *testing.T) {
	t.Parallel()
	s := &site{T: t, dir: t.TempDir()}
	s.keys = s.path("keys")
	open := s.config("open.yaml", "name: open\nclients: 2\ncohort: 1\nschedule: {k0: 1}\nstop: {rounds: 1}\nhttp: '0.0.0.0:0'\nnats: {listen: '0.0.0.0:0'}\n")
	run := []string{"run", "--config", open, "--keys", s.keys, "--out", s.path("open")}
	want := "nats.listen: other machines reach 0.0.0.0:0, and models and updates would cross the network in the clear: " +
		"make a certificate (fedpace certificate --host NAME), or set nats.insecure=true if you trust the network"
	if _, stderr, exit := finish(t, fedpace(t, run...)); exit != 1 || !strings.Contains(stderr, want) {
		t.Errorf("exit %d, %s", exit, stderr)
	}
	if _, err := os.Stat(s.path("open")); err == nil {
		t.Error("a refused run leaves a folder")
	}
	_, stderr, exit := finish(t, fedpace(t, append(run, "--set", "nats.insecure=true")...))
	if exit != 0 || !strings.Contains(stderr, "can join on nats://") || !strings.Contains(stderr, "Other machines reach that page: it is not encrypted") {
		t.Errorf("exit %d, %s", exit, stderr)
	}

	ca := s.path("ca.pem")
	_, stderr, exit = finish(t, fedpace(t, "certificate", "--host", "lab.example", "--keys", s.keys, "--out", ca))
	if exit != 0 || !strings.Contains(stderr, "good until 20") || !strings.Contains(stderr, "Give "+ca+" to everybody who connects") {
		t.Fatalf("exit %d, %s", exit, stderr)
	}
	s.run = fedpace(t, "run", "--keys", s.keys, "--out", s.path("run"), "--config", s.config("run.yaml", `name: closed
clients: 2
cohort: 1
batch: 4
schedule: {k: fixed, k0: 1}
stop: {rounds: 2}
evaluate: {samples: 10}
devices: {names: [pi], liveness_seconds: 300, keep_updates: true}
nats: {listen: '0.0.0.0:0'}
`))
	s.lines = s.listen(s.run)
	port := s.lines.await(t, `can join on tls://\S+:(\d+) with credentials \(fedpace enroll\) and --tls-ca; its certificate ends on 20`)[1]
	url := "tls://127.0.0.1:" + port
	examine := func(args ...string) map[string]doctor.Finding {
		t.Helper()
		stdout, stderr, _ := finish(t, fedpace(t, append([]string{"doctor", "--json", "--nats", url, "--client", "pi", "--creds", s.creds("pi")}, args...)...))
		var said struct{ Checks []doctor.Finding }
		if err := json.Unmarshal([]byte(stdout), &said); err != nil {
			t.Fatalf("%v:\n%s%s", err, stdout, stderr)
		}
		by := map[string]doctor.Finding{}
		for _, f := range said.Checks {
			by[f.Check] = f
		}
		return by
	}
	if f := examine()["encryption"]; f.State != doctor.Failure || !strings.Contains(f.Mend, "--tls-ca ca.pem") {
		t.Errorf("without the authority's certificate: %+v", f)
	}
	if f := examine("--tls-ca", ca)["encryption"]; f.State != doctor.OK || !strings.Contains(f.Text, "valid until 20") {
		t.Errorf("with the authority's certificate: %+v", f)
	}
	device := fedpace(t, "actor", "--nats", url, "--client", "pi", "--creds", s.creds("pi"), "--tls-ca", ca, "--once")
	s.start(device)
	if summary := s.end(); summary.Outcomes[round.Accepted] < 3 { // the device's among them
		t.Errorf("outcomes %v:\n%v", summary.Outcomes, s.lines)
	}
	if err := device.Wait(); err != nil {
		t.Error(err)
	}
	if info, err := os.Stat(s.path("run/" + devicelog.File)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the log with updates: %v, %v", info.Mode(), err)
	}
}
