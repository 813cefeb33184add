//go:build unix

package cmd

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"fedpace/actors/doctor"
)

// The doctor finds nothing wrong with a device that can take part, names what is wrong
// with one that cannot, and leaves the run alone.
func TestDoctor(t *testing.T) {
	t.Parallel()
	s := siteOf(t, `
name: ward
clients: 4
cohort: 2
batch: 4
schedule: {k: fixed, k0: 1}
stop: {rounds: 1}
evaluate: {samples: 10}
devices: {names: [pi], liveness_seconds: 300}
`)
	creds := s.creds("pi")
	own := s.path("own.csv")
	putFile(t, own, []byte("x,label\n1,a\n2,b\n3,a\n"))
	examine := func(args ...string) (map[string]doctor.Finding, string, int) {
		t.Helper()
		stdout, stderr, exit := finish(t, fedpace(t, append([]string{"doctor", "--json"}, args...)...))
		var said struct{ Checks []doctor.Finding }
		if err := json.Unmarshal([]byte(stdout), &said); err != nil {
			t.Fatalf("%v:\n%s%s", err, stdout, stderr)
		}
		by := map[string]doctor.Finding{}
		for _, f := range said.Checks {
			if f.State != doctor.OK && f.Mend == "" {
				t.Errorf("nothing is said about how to mend %+v", f)
			}
			by[f.Check] = f
		}
		return by, stderr, exit
	}

	well, stderr, exit := examine("--nats", s.url, "--client", "pi", "--creds", creds)
	if exit != 0 {
		t.Errorf("exit %d: %s\n%v", exit, stderr, well)
	}
	for check, want := range map[string]string{
		"program": "kernel class", "credentials": "is of device pi, good until they are revoked", "server": "round trip", "permissions": "pi may hear its tasks",
		"data": "synthetic", "run ward": "takes this device, with ",
	} {
		if f := well[check]; f.State != doctor.OK || !strings.Contains(f.Text, want) {
			t.Errorf("%s: %+v, want ok with %q", check, f, want)
		}
	}
	if f := well["encryption"]; f.State != doctor.Warning {
		t.Errorf("a connection in the clear is %+v", f)
	}

	host := s.path("h.creds")
	if _, stderr, exit := finish(t, fedpace(t, "enroll", "--host", "h", "--keys", s.keys, "--out", host)); exit != 0 {
		t.Fatal(stderr)
	}
	open := s.creds("pj")
	if err := os.Chmod(open, 0o644); err != nil {
		t.Fatal(err)
	}
	revoked := s.creds("revoked")
	if _, stderr, exit := finish(t, fedpace(t, "enroll", "--revoke", "revoked", "--keys", s.keys)); exit != 0 {
		t.Fatal(stderr)
	}
	short := s.creds("short", "--expires", "1h", "--samples", "40")
	for name, c := range map[string]struct {
		args        []string
		check, want string
		state       doctor.State
	}{
		"another's":   {[]string{"--nats", s.url, "--client", "pk", "--creds", creds}, "credentials", "is of device pi, good until they are revoked, and this is pk", doctor.Failure},
		"not allowed": {[]string{"--nats", s.url, "--client", "pk", "--creds", creds}, "permissions", "ermissions", doctor.Failure},
		"a host's":    {[]string{"--nats", s.url, "--creds", host}, "credentials", "is of host h", doctor.Failure},
		"readable":    {[]string{"--nats", s.url, "--client", "pj", "--creds", open}, "credentials", "others on this machine can read it (mode 0644)", doctor.Warning},
		"ends soon":   {[]string{"--nats", s.url, "--client", "short", "--creds", short}, "credentials", ", for at most 40 samples", doctor.Warning},
		"missing":     {[]string{"--nats", s.url, "--client", "pi", "--creds", s.path("none")}, "credentials", "does not exist", doctor.Failure},
		"no file":     {[]string{"--nats", s.url, "--client", "pi", "--creds", own}, "credentials", "own.csv", doctor.Failure},
		"no server":   {[]string{"--nats", "nats://127.0.0.1:1", "--client", "pi", "--creds", creds}, "server", "no server answers there", doctor.Failure},
		"revoked":     {[]string{"--nats", s.url, "--client", "revoked", "--creds", revoked}, "permissions", "these credentials", doctor.Failure}, // revoked before it connects, or while it is connected,
		"unfit data":  {[]string{"--nats", s.url, "--client", "pi", "--creds", creds, "--data", own}, "run ward", "data:", doctor.Failure},
		"no data":     {[]string{"--data", s.path("none.parquet")}, "data", "no such file", doctor.Failure},
		"no trainer":  {[]string{"--data", own, "--map", "label=label", "--trainer", "true"}, "trainer", "only a run says", doctor.Warning},
	} {
		found, stderr, exit := examine(c.args...)
		if f := found[c.check]; f.State != c.state || !strings.Contains(f.Text, c.want) {
			t.Errorf("%s: %s is %+v, want %s with %q", name, c.check, f, c.state, c.want)
		}
		if strings.Contains(found["server"].Mend, "firewall") != (name == "no server") {
			t.Errorf("%s: %+v", name, found["server"])
		}
		if fails := c.state == doctor.Failure; fails != (exit == 1) || fails != strings.Contains(stderr, "cannot take part as it is") {
			t.Errorf("%s: exit %d, %s", name, exit, stderr)
		}
	}
}
