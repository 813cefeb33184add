//go:build unix

package cmd

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"fedpace/bus"
	"fedpace/coordinator/round"
	"fedpace/experiment/folder"
	"fedpace/experiment/runtest"
	"fedpace/internal/testkit/slow"
	"fedpace/internal/testkit/testport"
)

// Devices go on with the moments of their optimizer, and send compressed updates with what these left
// out: to the bits of an undisturbed run where the coordinator is killed and goes on from a
// checkpoint, and a device is killed and comes back without anything. A replay has these bits,
// too, and a device of a protocol before is refused.
func TestDevices_KeepStateThroughKills(t *testing.T) {
	t.Parallel()
	const rounds = 5
	cases := []string{"local: {optimizer: adamw, keep: true}\ncompress: {method: sparseloco}\n"}
	if slow.On() {
		cases = append(cases, "local: {optimizer: adamw, keep: true}\ncompress: {method: four_bit}\n", "local: {momentum: 0.9, keep: true}\n", "compress: {method: top_k, share: 0.1}\n")
	}
	for _, sets := range cases {
		calm, _ := keptRun(t, sets, rounds, false)
		broken, s := keptRun(t, sets, rounds, true)
		if *broken.ModelSHA256 != *calm.ModelSHA256 || broken.Outcomes[round.Accepted] != calm.Outcomes[round.Accepted] {
			t.Errorf("%sa disturbed run comes to %s, an undisturbed one to %s", sets, *broken.ModelSHA256, *calm.ModelSHA256)
		}
		if _, stderr, exit := finish(t, fedpace(t, "run", "--replay", s.path("run"), "--out", s.path("again"), "--quiet", "--set", "pace=0")); exit != 0 {
			t.Fatal(stderr)
		}
		if again := s.summary("again"); *again.ModelSHA256 != *broken.ModelSHA256 {
			t.Errorf("%sa replay comes to %s, the run to %s", sets, *again.ModelSHA256, *broken.ModelSHA256)
		}
		if plain := strings.ReplaceAll(sets, "keep: true", "keep: false"); plain != sets {
			// In the second round devices have something that they have kept, and the third round's loss shows it.
			const few = 3
			_, other := keptRun(t, plain, few, false)
			if lossOf(t, other.path("run"), few) == lossOf(t, s.path("run"), few) {
				t.Errorf("%sthe model is that of devices that keep nothing", sets)
			}
		}
	}
}

// lossOf is the training loss that a run reports of a round.
func lossOf(t *testing.T, dir string, number int) float64 {
	t.Helper()
	rounds, err := runtest.ReadRounds(filepath.Join(dir, folder.RoundsFile))
	if err != nil {
		t.Fatal(err)
	}
	return rounds[number-1].TrainingLoss
}

// keptRun is a run of two devices, whose coordinator and one of whose devices are killed if it is
// disturbed.
func keptRun(t *testing.T, sets string, rounds int, disturbed bool) (folder.Summary, *site) {
	t.Helper()
	address := testport.Held(t)
	s := &site{T: t, dir: t.TempDir(), url: "nats://" + address}
	s.keys = filepath.Join(s.dir, "keys")
	config := s.config("run.yaml", fmt.Sprintf(devicesConfig, 2, 4, rounds)+sets+"model: [flatten, dense]\n"+
		"devices: {keep_updates: true, names: [pi1, pi2], liveness_seconds: 300, link: modelled}\npace: 5\ncheckpoint: {seconds: 0.05}\nnats: {listen: '"+address+"'}\n")
	start := func(args ...string) {
		s.run = fedpace(t, append(args, "--keys", s.keys)...)
		s.lines = s.listen(s.run)
		s.lines.await(t, `(nats://127\.0\.0\.1:\d+)`)
	}
	start("run", "--config", config, "--out", s.path("run"))
	if strings.Contains(sets, "keep: true") || strings.Contains(sets, "compress") {
		old := s.raw("pi1")
		reply := old.ask(old.subject("join"), &bus.Join{Name: "of before", Kernel: "go", Samples: 9, Protocol: bus.ProtocolFrozen})
		if want := "join: protocol is 5, want at least 6 for the run's compression, or what its clients keep: update the device"; reply.Status != bus.Refused || !strings.Contains(reply.Reason, want) {
			t.Errorf("a device of before is answered %v", reply)
		}
	}
	s.actor("pi1")
	two, _ := s.actor("pi2")
	if disturbed {
		waitForRows(t, s.path("run"), 3)
		for _, c := range []interface{ Kill() error }{two.Process, s.run.Process} {
			if err := c.Kill(); err != nil {
				t.Fatal(err)
			}
		}
		_, _ = two.Wait(), s.run.Wait() // they were killed
		start("resume", s.path("run"))
		s.actor("pi2")
	}
	summary := s.end()
	if !summary.Completed || summary.Rounds != rounds || summary.Outcomes[round.Accepted] != int64(4*rounds) {
		t.Fatalf("%d rounds, outcomes %v:\n%v", summary.Rounds, summary.Outcomes, s.lines)
	}
	return summary, s
}
