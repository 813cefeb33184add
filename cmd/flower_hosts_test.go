//go:build unix

package cmd

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"fedpace/internal/testkit/installed"
)

// plainPython is the command that plays both processes of the app in testdata/flower/plain, without flwr.
func plainPython(t *testing.T, before string) string {
	t.Helper()
	script, err := filepath.Abs("../experiment/grid/testdata/plain.py")
	if err != nil {
		t.Fatal(err)
	}
	return before + "python3 " + script
}

// plainArgs are the arguments of a run of that app.
func plainArgs(t *testing.T, out string, more ...string) []string {
	t.Helper()
	args := []string{"--out", out, "--set", "flower.app=testdata/flower/plain", "--set", "flower.python=" + plainPython(t, "")}
	for _, set := range strings.Fields("name=apps task=flower clients=40 flower.run.rounds=25 flower.run.every=5 flower.run.size=200000 " +
		"flower.run.timeout=4.5 flower.run.pause=0.25 flower.run.ttl=10 flower.run.steps=35") {
		args = append(args, "--set", set)
	}
	return append(args, more...)
}

// Clients are served here, on hosts that are other processes, or both, to the same bits, although a host is killed in
// mid-run. Hosts whose app or libraries are others do not serve it, and say why.
func TestFlower_HostsElsewhere(t *testing.T) {
	installed.Program(t, "python3", "python3")
	t.Parallel()
	here := filepath.Join(t.TempDir(), "here")
	if _, stderr, exit := finish(t, fedpace(t, append([]string{"run", "--quiet"}, plainArgs(t, here)...)...)); exit != 0 {
		t.Fatal(stderr)
	}
	want := resultsOf(t, here)
	other := filepath.Join(t.TempDir(), "other")
	if err := os.CopyFS(other, os.DirFS("testdata/flower/plain")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(other, "plain_app.py"), []byte("rate = 2\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	more := filepath.Join(t.TempDir(), "more")
	if err := os.CopyFS(more, os.DirFS("testdata/flower/plain")); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(more, "plain_app.py")); err != nil {
		t.Fatal(err)
	}
	// A client that works alone would be done before a host has joined.
	for command, nap := range map[string]string{"coordinator": "0", "run": "0.05"} {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			s := &site{T: t, dir: dir, keys: filepath.Join(dir, "keys")}
			s.coordinate(append([]string{command}, plainArgs(t, s.path("run"), "--set", "nats.listen=127.0.0.1:0", "--set", "flower.run.nap="+nap)...)...)
			if command == "coordinator" {
				for want, flags := range map[string][]string{
					`and this host has none: give the folder of the same app \(--app\)`: nil,
					`flower.app/plain_app.py, .* is another file on this machine`:       {"--app", other},
					`flower.app/plain_app.py, .* is not on this machine`:                {"--app", more},
					`this host has plain 2.0, the run's is 1.0`:                         {"--app", "testdata/flower/plain", "--python", plainPython(t, "env PLAIN_VERSION=2.0 ")},
				} {
					c, l := s.host(flags...)
					l.await(t, want)
					_ = c.Process.Kill()
					_ = c.Wait()
				}
			}
			flags := []string{"--app", "testdata/flower/plain", "--python", plainPython(t, "")}
			first, one := s.host(append(flags, "--name", "one")...)
			one.await(t, "here, with 1 process for clients")
			waitForRows(t, s.path("run"), 3)
			s.host(append(flags, "--name", "two")...)
			// It is killed by SIGKILL, with a message that it serves.
			_ = first.Process.Kill()
			_ = first.Wait()
			s.end()
			if diff := cmp.Diff(want["rounds.csv"], resultsOf(t, s.path("run"))["rounds.csv"]); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// verify plays the app of a run again. An app whose code is another now, and one that does not repeat itself, are
// named.
func TestFlower_Verified(t *testing.T) {
	installed.Program(t, "python3", "python3")
	t.Parallel()
	app := filepath.Join(t.TempDir(), "app")
	if err := os.CopyFS(app, os.DirFS("testdata/flower/plain")); err != nil {
		t.Fatal(err)
	}
	args := func(out string, more ...string) []string {
		return append([]string{"run", "--quiet"}, plainArgs(t, out, append([]string{"--set", "flower.run.rounds=3", "--set", "flower.app=" + app}, more...)...)...)
	}
	verify := func(out, want string, fails bool, flags ...string) {
		t.Helper()
		_, stderr, exit := finish(t, fedpace(t, append([]string{"verify", out}, flags...)...))
		if (exit != 0) != fails || !strings.Contains(stderr, want) {
			t.Errorf("exit %d, said %q, want %q", exit, stderr, want)
		}
	}
	out := filepath.Join(t.TempDir(), "run")
	if _, stderr, exit := finish(t, fedpace(t, args(out)...)); exit != 0 {
		t.Fatal(stderr)
	}
	verify(out, "The app was not played again: --trust executes "+app, false)
	verify(out, "their replies, the times and the model are the same", false, "--trust")
	// The server of this one draws from the system, so some message of its rounds differs.
	drawn := filepath.Join(t.TempDir(), "drawn")
	if _, stderr, exit := finish(t, fedpace(t, args(drawn, "--set", "flower.run.unrepeatable=true")...)); exit != 0 {
		t.Fatal(stderr)
	}
	verify(drawn, "the ServerApp does not repeat itself: its message ", true, "--trust")
	if err := os.WriteFile(filepath.Join(app, "plain_app.py"), []byte("rate = 2\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	verify(out, "its file flower.app/plain_app.py (flower.app/plain_app.py) had other content", true, "--trust")
}

// calibrate measures the clients of an app, and writes a fleet that a run takes.
func TestFlower_Calibrated(t *testing.T) {
	installed.Program(t, "python3", "python3")
	t.Parallel()
	out := filepath.Join(t.TempDir(), "laptop.yaml")
	config := filepath.Join(t.TempDir(), "app.yaml")
	text := "task: flower\nclients: 40\nflower: {app: testdata/flower/plain, python: '" + plainPython(t, "") + "', run: {rounds: 3, every: 5, " +
		"size: 1000, timeout: 4.5, pause: 0.25, ttl: 10, steps: 35}}\n"
	if err := os.WriteFile(config, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	if _, stderr, exit := finish(t, fedpace(t, "calibrate", "--config", config, "--name", "laptop", "--out", out)); exit != 0 {
		t.Fatal(stderr)
	}
	class, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	// The app's clients say that a step takes 2 ms.
	if !strings.Contains(string(class), "seconds_per_step: 0.002\n") {
		t.Fatalf("the class is\n%s", class)
	}
	run := filepath.Join(t.TempDir(), "run")
	if _, stderr, exit := finish(t, fedpace(t, "run", "--quiet", "--config", config, "--config", out, "--out", run)); exit != 0 {
		t.Fatal(stderr)
	}
}
