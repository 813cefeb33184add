//go:build unix

package cmd

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fedpace/coordinator/round"
	"fedpace/experiment/folder"
	"fedpace/internal/testkit/slow"
	"fedpace/internal/testkit/testport"
)

// A run with real devices whose coordinator, and with it the server, is killed
// goes on with the devices that come back to it; what it then holds of their
// answers is the whole truth: a replay comes to the same bits.
func TestResume_KilledRunWithDevices(t *testing.T) {
	t.Parallel()
	kills := 2
	if slow.On() {
		kills = 12
	}
	address := testport.Held(t)
	s := &site{T: t, dir: t.TempDir(), url: "nats://" + address}
	s.keys = filepath.Join(s.dir, "keys")
	rounds := 6 + 3*kills
	config := s.config("run.yaml", fmt.Sprintf(devicesConfig, 12, 3, rounds)+
		"devices: {keep_updates: true, names: [pi1, pi2], liveness_seconds: 30}\npace: 15\ncheckpoint: {seconds: 0.05}\nnats: {listen: '"+address+"'}\n")
	args := []string{"run", "--config", config, "--out", s.path("run")}
	random := rand.New(rand.NewPCG(2, 1))
	rows := 1
	for life := range kills + 1 {
		c := fedpace(t, append(args, "--keys", s.keys)...)
		s.run, s.lines = c, s.listen(c)
		s.lines.await(t, `(nats://127\.0\.0\.1:\d+)`)
		if life == 0 {
			s.actor("pi1")
			s.actor("pi2")
		}
		args = []string{"resume", s.path("run")}
		if life == kills {
			break
		}
		rows = waitForRows(t, s.path("run"), rows+2+random.IntN(2))
		if err := c.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = c.Wait() // it was killed
	}
	summary := s.end()
	if !summary.Completed || summary.Rounds != rounds || summary.Outcomes[round.Accepted] <= int64(12*rounds) {
		t.Errorf("%d rounds, outcomes %v:\n%v", summary.Rounds, summary.Outcomes, s.lines)
	}
	if !strings.Contains(s.lines.String(), "The run goes on after round ") {
		t.Errorf("it does not say that it goes on:\n%v", s.lines)
	}
	if _, stderr, exit := finish(t, fedpace(t, "run", "--replay", s.path("run"), "--out", s.path("again"), "--quiet", "--set", "pace=0")); exit != 0 {
		t.Fatal(stderr)
	}
	again := s.summary("again")
	if again.Fingerprint != summary.Fingerprint || *again.ModelSHA256 != *summary.ModelSHA256 {
		t.Errorf("a replay comes to %s, %s; the run came to %s, %s", again.Fingerprint, *again.ModelSHA256, summary.Fingerprint, *summary.ModelSHA256)
	}
	one, err := os.ReadFile(filepath.Join(s.path("run"), folder.RoundsFile))
	if err != nil {
		t.Fatal(err)
	}
	two, err := os.ReadFile(filepath.Join(s.path("again"), folder.RoundsFile))
	if err != nil || string(one) != string(two) {
		t.Errorf("a replay has other rounds: %v", err)
	}
}
