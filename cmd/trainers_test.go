//go:build unix

package cmd

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"fedpace/actors/external/externaltest"
	"fedpace/coordinator/round"
	"fedpace/data/synthetic"
	"fedpace/experiment/folder"
	"fedpace/internal/testkit/slow"
	"fedpace/internal/testkit/testport"
)

// digits is a short run of FEMNIST. The size of its model is the paper's, with a trainer, too.
const digits = "task=femnist network.model_megabits=6.71 clients=24 cohort=6 batch=8 schedule.k0=3 stop.rounds=6 evaluate.every=2 evaluate.samples=64 checkpoint.seconds=0.05"

func digitsArgs(command, out string, more ...string) []string {
	args := []string{command, "--quiet", "--out", out}
	for _, s := range strings.Fields(digits) {
		args = append(args, "--set", s)
	}
	return append(args, more...)
}

// femnistTrainer is the command of a trainer with the model that the task has here.
func femnistTrainer(flags ...string) string {
	return externaltest.Command(append([]string{"-model", "mlp:784,200,200,62"}, flags...)...)
}

// ends finishes a run, which must succeed, and returns its summary.
func ends(t *testing.T, out string, args ...string) folder.Summary {
	t.Helper()
	if _, stderr, exit := finish(t, fedpace(t, args...)); exit != 0 {
		t.Fatalf("exit %d: %s", exit, stderr)
	}
	s, err := folder.ReadSummary(filepath.Join(out, folder.SummaryFile))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// A trainer that takes the steps that are taken here comes to the same history and
// model: on every repeat, when its processes die, with its own process's data, when the
// run is killed and goes on, and with hosts elsewhere.
func TestTrainer_Runs(t *testing.T) {
	slow.Test(t, "it plays Python")
	t.Parallel()
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	want := ends(t, at("here"), digitsArgs("run", at("here"))...)
	if _, stderr, exit := finish(t, fedpace(t, "resume", at("here"), "--trainer", femnistTrainer())); exit != 1 || !strings.Contains(stderr, "leave out --trainer") {
		t.Errorf("a trainer for a run without: exit %d, %q", exit, stderr)
	}
	check := func(name string, s folder.Summary) {
		t.Helper()
		if s.Fingerprint != want.Fingerprint || *s.ModelSHA256 != *want.ModelSHA256 || *s.ValidationAccuracy != *want.ValidationAccuracy {
			t.Errorf("%s: history %s, model %s; want %s, %s", name, s.Fingerprint, *s.ModelSHA256, want.Fingerprint, *want.ModelSHA256)
		}
	}
	there := ends(t, at("there"), digitsArgs("run", at("there"), "--trainer", femnistTrainer())...)
	check("a trainer", there)
	if there.Kernel != "go1_0-cpu" {
		t.Errorf("kernel class %q", there.Kernel)
	}
	if there.Trainer.Restarts != 0 || !strings.HasPrefix(there.Trainer.Model, "external:test.go@0f0f0f") {
		t.Errorf("trainer %+v", there.Trainer)
	}
	check("a trainer that dies", ends(t, at("dies"), digitsArgs("run", at("dies"), "--trainer", femnistTrainer("-fault", "die at task", "-from", "5"))...))
	if _, stderr, exit := finish(t, fedpace(t, "verify", at("there"))); exit != 0 {
		t.Errorf("verify: %s", stderr)
	}

	// The run, of which a trainer's process has died, is killed, and goes on with the
	// command at another place.
	args := digitsArgs("run", at("killed"), "--trainer", femnistTrainer("-fault", "die at task", "-from", "1", "-once", at("once")))
	killAfter(t, fedpace(t, args...), at("killed"), 2)
	_, err := os.Stat(at("killed/checkpoint.bin"))
	if err == nil {
		_, stderr, exit := finish(t, fedpace(t, "resume", "--quiet", at("killed"), "--trainer", femnistTrainer("-digest", strings.Repeat("ab", 32))))
		if exit != 1 || !strings.Contains(stderr, "the script, a module that it imports or a file that it declares is another") {
			t.Errorf("another script: exit %d, %q", exit, stderr)
		}
	}
	killed := ends(t, at("killed"), "resume", "--quiet", at("killed"), "--trainer", femnistTrainer("-name", "test.go"))
	check("killed", killed)
	if err == nil && killed.Trainer.Restarts != 1 {
		t.Errorf("killed: a trainer's process died, the summary says %d", killed.Trainer.Restarts)
	}
	if diff := cmp.Diff(resultsOf(t, at("there"))["rounds.csv"], resultsOf(t, at("killed"))["rounds.csv"]); diff != "" {
		t.Errorf("killed: %s", diff)
	}
}

// Hosts of other processes have their own commands. One whose trainer is another does
// not train, and says why.
func TestTrainer_Hosts(t *testing.T) {
	slow.Test(t, "it plays Python")
	t.Parallel()
	dir := t.TempDir()
	here := filepath.Join(dir, "here")
	want := ends(t, here, digitsArgs("run", here)...)
	s := &site{T: t, dir: dir, keys: filepath.Join(dir, "keys")}
	s.coordinate(digitsArgs("coordinator", s.path("run"), "--set", "nats.listen=127.0.0.1:0", "--set", "name=mixed", "--trainer", femnistTrainer())...)
	for want, trainer := range map[string]string{
		`the run's steps are those of a trainer, test.go \(digest 0f0f0f0f0f0f\): give its command by --trainer`:                           "",
		`the run's trainer is test.go .*, this one test.go .*: the script, a module that it imports or a file that it declares is another`: femnistTrainer("-digest", strings.Repeat("ab", 32)),
		`the run's trainer test.go .* has other tensors, of 209662 numbers, than this one, of 209669`:                                      femnistTrainer("-buffers", "7"),
		`the run's trainer calculates in class go1_0-cpu, this one in go2_0-cpu: their bits would differ`:                                  femnistTrainer("-class", "go2.0-cpu"),
	} {
		var flags []string
		if trainer != "" {
			flags = []string{"--trainer", trainer}
		}
		c, l := s.host(flags...)
		l.await(t, want)
		_ = c.Process.Kill()
		_ = c.Wait()
	}
	// The first host's trainer dies now and then, until the host itself is killed.
	first, one := s.host("--trainer", femnistTrainer("-fault", "die at task", "-from", "3"), "--name", "one")
	one.await(t, "here, with 1 trainer")
	one.await(t, "It is started again")
	s.host("--trainer", femnistTrainer(), "--name", "two")
	_ = first.Process.Kill()
	summary := s.end()
	if summary.Fingerprint != want.Fingerprint || *summary.ModelSHA256 != *want.ModelSHA256 {
		t.Errorf("history %s, model %s; want %s, %s", summary.Fingerprint, *summary.ModelSHA256, want.Fingerprint, *want.ModelSHA256)
	}
}

// coordinate starts a coordinator's process, and enrolls the machines of its hosts.
func (s *site) coordinate(args ...string) {
	s.Helper()
	s.run = fedpace(s.T, slices.DeleteFunc(append(args, "--keys", s.keys), func(a string) bool { return a == "--quiet" })...)
	s.lines = s.listen(s.run)
	s.url = s.lines.await(s.T, `(nats://127\.0\.0\.1:\d+)`)[1]
	if _, err := os.Stat(s.path("office.creds")); err == nil { // of before
		return
	}
	if _, stderr, exit := finish(s.T, fedpace(s.T, "enroll", "--host", "office", "--keys", s.keys, "--out", s.path("office.creds"))); exit != 0 {
		s.Fatal(stderr)
	}
}

// host starts the process of a host with one worker.
func (s *site) host(flags ...string) (*exec.Cmd, *lines) {
	s.Helper()
	c := fedpace(s.T, append([]string{"host", "--nats", s.url, "--creds", s.path("office.creds"), "--workers", "1"}, flags...)...)
	return c, s.listen(c)
}

// A coordinator that is killed, and with it the server, goes on with the hosts that were
// there, whose trainers' processes it never had, to the bits of a run that was not stopped.
func TestTrainer_HostsOfKilledCoordinator(t *testing.T) {
	slow.Test(t, "it kills a coordinator of hosts that train in other processes")
	t.Parallel()
	dir := t.TempDir()
	here, rounds := filepath.Join(dir, "here"), "stop.rounds=16"
	want := ends(t, here, digitsArgs("run", here, "--set", rounds)...)
	s := &site{T: t, dir: dir, keys: filepath.Join(dir, "keys")}
	args := digitsArgs("coordinator", s.path("run"), "--set", "nats.listen="+testport.Held(t), "--set", "name=mixed", "--set", rounds, "--trainer", femnistTrainer())
	for life, rows := range []int{3, 7} {
		s.coordinate(args...)
		if life == 0 {
			s.host("--trainer", femnistTrainer("-fault", "die at task", "-from", "9"), "--name", "one")
			s.host("--trainer", femnistTrainer(), "--name", "two")
		}
		waitForRows(t, s.path("run"), rows)
		if err := s.run.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = s.run.Wait() // it was killed
		args = []string{"resume", "--elsewhere", "--trust", s.path("run")}
	}
	s.coordinate(args...)
	s.lines.await(t, "The run goes on after round")
	summary := s.end()
	if summary.Fingerprint != want.Fingerprint || *summary.ModelSHA256 != *want.ModelSHA256 {
		t.Errorf("history %s, model %s; want %s, %s", summary.Fingerprint, *summary.ModelSHA256, want.Fingerprint, *want.ModelSHA256)
	}
	if diff := cmp.Diff(resultsOf(t, here)["rounds.csv"], resultsOf(t, s.path("run"))["rounds.csv"]); diff != "" {
		t.Error(diff)
	}
}

// A real device trains by its own trainer, with its own data or with the trainer's. The
// values that it sends are those of the steps here.
func TestTrainer_Device(t *testing.T) {
	t.Parallel()
	s := newSite(t, 2, 4, 2, "devices: {keep_updates: true, names: [pi1, pi2], liveness_seconds: 30}\ntrainer: \""+strings.ReplaceAll(femnistTrainer(), `"`, `\"`)+"\"\n")
	actor := func(id string, flags ...string) *lines {
		c := fedpace(t, append([]string{"actor", "--nats", s.url, "--client", id, "--creds", s.creds(id), "--once"}, flags...)...)
		return s.listen(c)
	}
	without := actor("pi1")
	without.await(t, "give its command by --trainer")
	actor("pi1", "--trainer", femnistTrainer())
	actor("pi2", "--trainer", femnistTrainer("-own", "femnist"), "--data", "trainer", "--owner", "3")
	summary := s.end()
	if summary.Outcomes[round.Accepted] < 2*3 {
		t.Fatalf("outcomes %v:\n%v", summary.Outcomes, s.lines)
	}
	said := answersOf(t, s.path("run"))
	own, err := synthetic.New("femnist", 12, 3, 1)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[int]bool{}
	for _, a := range said {
		if a.Values == nil {
			continue
		}
		seen[a.Client] = true
		if len(a.Values) != 209662 {
			t.Errorf("device %d sends %d values", a.Client, len(a.Values))
		}
		if a.Client == 201 && a.Samples != own.Samples(3) {
			t.Errorf("the device with its trainer's data has %d samples, want %d", a.Samples, own.Samples(3))
		}
	}
	if !seen[200] || !seen[201] {
		t.Errorf("updates of %v", seen)
	}
}

// A device that stays for a run with another script starts its trainer again.
func TestTrainer_DeviceWithEditedScript(t *testing.T) {
	slow.Test(t, "it starts a device and its trainer several times")
	t.Parallel()
	once := filepath.Join(t.TempDir(), "once")
	if err := os.WriteFile(once, nil, 0o600); err != nil { // the script is the first run's
		t.Fatal(err)
	}
	s := &site{T: t, dir: t.TempDir()}
	s.keys = s.path("keys")
	listen := "nats: {listen: '" + testport.Held(t) + "'}\ndevices: {names: [pi], liveness_seconds: 300}\n"
	for run, digest := range []string{strings.Repeat("0f", 32), strings.Repeat("ab", 32)} {
		config := s.config("run.yaml", fmt.Sprintf(devicesConfig, 2, 2, 1)+listen+fmt.Sprintf("trainer: %q\n", femnistTrainer("-digest", digest)))
		s.run = fedpace(t, "run", "--force", "--config", config, "--keys", s.keys, "--out", s.path("run"))
		s.lines = s.listen(s.run)
		s.url = s.lines.await(t, `(nats://127\.0\.0\.1:\d+)`)[1]
		if run == 0 {
			s.start(fedpace(t, "actor", "--nats", s.url, "--client", "pi", "--creds", s.creds("pi"), "--trainer", femnistTrainer("-fault", "another script", "-once", once)))
		}
		if summary := s.end(); summary.Outcomes[round.Accepted] != 3 {
			t.Errorf("run %d: outcomes %v\n%v", run, summary.Outcomes, s.lines)
		}
		if err := os.Remove(once); run == 0 && err != nil {
			t.Fatal(err)
		}
	}
}

// What does not go with a trainer, or not without one, is refused by its key.
func TestTrainer_Mistakes(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		want string
		sets []string
	}{
		{"data: trainer is for samples that a trainer brings, and there is none", []string{"data=trainer"}},
		{"brings no data of its own", []string{"data=trainer", "clients=all", "cohort=2", "trainer=" + externaltest.Command()}},
		{"trainer: goes with no task quadratic", []string{"task=quadratic", "trainer=x"}},
		{"model: is the trainer's own (remove it, or set task); data.target_scale: the trainer measures its model itself, in the unit of what it is given (remove it, or set null); evaluate.measures: the trainer measures its model itself (remove it, or set null, and add",
			[]string{"model=[dense: open]", "data={path: own.csv, features: x, target: y, target_scale: standard}", "evaluate.measures=[r2]", "trainer=x"}},
		{"augment: \"flip_crop\" is done here", []string{"task=cifar100", "trainer=x"}},
		{"kernel: \"go\" is arithmetic of this program", []string{"kernel=go", "trainer=x"}},
		{"network.model_megabits: exact is known to the trainer alone", []string{"train=false", "network.model_megabits=exact", "trainer=x"}},
		{"network.model_megabits: exact is known to the trainer alone", []string{"train=false", "trainer=x"}},
		{"x-does-not-exist cannot be started", []string{"clients=10", "cohort=2", "trainer=x-does-not-exist"}},
		{"trainer: the command is empty", []string{"clients=10", "cohort=2", "trainer=' '"}},
		{"local: trainer test.go does not know the optimizer adam", []string{"local=adam", "clients=10", "cohort=2", "trainer=" + externaltest.Command()}},
	} {
		args := []string{"run", "--out", filepath.Join(t.TempDir(), "run")}
		for _, s := range x.sets {
			args = append(args, "--set", s)
		}
		_, stderr, exit := finish(t, fedpace(t, args...))
		if exit != 1 || !strings.Contains(stderr, x.want) {
			t.Errorf("%v: exit %d, %q; want %q", x.sets, exit, stderr, x.want)
		}
	}
	// Timing alone starts no trainer.
	out := filepath.Join(t.TempDir(), "run")
	if _, stderr, exit := finish(t, fedpace(t, digitsArgs("run", out, "--set", "train=false", "--trainer", "x-does-not-exist")...)); exit != 0 {
		t.Errorf("timing alone: exit %d, %q", exit, stderr)
	}
}

// A trainer's own model takes the time of its own size: with 1,848,062 parameters that is
// 9 times as long in transfers as the task's. Running means travel, and what is frozen does not.
// A size that contradicts the model is told.
func TestTrainer_TimesOfModel(t *testing.T) {
	t.Parallel()
	const params = 784*1000 + 1000 + 1000*1000 + 1000 + 1000*62 + 62
	const frozen = "greeting tensors=frozen"
	for _, c := range []struct {
		sets  []string
		bits  float64
		told  string
		flags []string
	}{
		{nil, 32 * params, "", nil},
		{nil, 32 * (params + 784), "", []string{"-buffers", "784"}},
		{nil, 32 * params, "", []string{"-fault", frozen}},
		{[]string{"network.model_megabits=6.71"}, 6.71e6, "network.model_megabits is 6.71, and the trainer's model of 1848062 parameters has 59.14 (exact)", nil},
		{[]string{"network.model_megabits=59"}, 59e6, "", []string{"-fault", frozen}},
	} {
		args := []string{"run", "--dry-run", "--json", "--trainer", externaltest.Command(append([]string{"-model", "mlp:784,1000,1000,62"}, c.flags...)...)}
		for _, s := range append(strings.Fields("task=femnist clients=6 cohort=2 batch=2 evaluate.samples=8 schedule.k=fixed schedule.k0=5 stop.rounds=20 nats.url=none "+
			"network.download_mbps=20 network.upload_mbps=5 compute.seconds_per_step=0.01 compute.std=0"), c.sets...) {
			args = append(args, "--set", s)
		}
		stdout, stderr, exit := finish(t, fedpace(t, args...))
		var f struct {
			Seconds float64 `json:"virtual_seconds"`
		}
		if err := json.Unmarshal([]byte(stdout), &f); err != nil || exit != 0 {
			t.Fatalf("exit %d, %v, %s", exit, err, stderr)
		}
		if want := 20 * (c.bits/20e6 + 5*0.01 + c.bits/5e6); math.Abs(f.Seconds-want) > 1e-6*want { // Eq. 3, alike for all
			t.Errorf("%v: %v seconds, want %v", c.sets, f.Seconds, want)
		}
		if told := strings.Contains(stderr, "network.model_megabits"); told != (c.told != "") || !strings.Contains(stderr, c.told) {
			t.Errorf("%v: %s, want %q", c.sets, stderr, c.told)
		}
	}
}

// A comparison takes a finished run again as long as its trainer is the same.
func TestTrainer_Compare(t *testing.T) {
	slow.Test(t, "it plays Python")
	t.Parallel()
	out, once := filepath.Join(t.TempDir(), "runs"), filepath.Join(t.TempDir(), "once")
	args := digitsArgs("compare", out, "--schedules", "fixed", "--set", "stop.rounds=1", "--trainer", femnistTrainer("-fault", "another script", "-once", once))
	for _, x := range []struct {
		changed bool
		more    []string
		exit    int
		want    string
		not     string
	}{
		{false, nil, 0, "", "done before"},
		{false, nil, 0, "1 of 1 runs were done before", ""},
		{true, nil, 1, "holds a run, the run's trainer is test.go (digest 0f0f0f0f0f0f), this one test.go (digest abababababab): the script, a module that it imports or a file that it declares is another (choose another folder with --out, or replace the run with --force)", ""},
		{true, []string{"--force"}, 0, "", "done before"},
	} {
		if err := os.WriteFile(once, nil, 0o600); err != nil { // the script is what it was
			t.Fatal(err)
		}
		if x.changed {
			if err := os.Remove(once); err != nil {
				t.Fatal(err)
			}
		}
		c := slices.DeleteFunc(slices.Concat(args, x.more), func(a string) bool { return a == "--quiet" })
		_, stderr, exit := finish(t, fedpace(t, c...))
		if exit != x.exit || !strings.Contains(stderr, x.want) || x.not != "" && strings.Contains(stderr, x.not) {
			t.Errorf("%+v: exit %d, %q", x, exit, stderr)
		}
	}
}

// A run on the trainer's own samples.
func TestTrainer_OwnSamples(t *testing.T) {
	slow.Test(t, "it plays Python")
	t.Parallel()
	out := filepath.Join(t.TempDir(), "run")
	s := ends(t, out, digitsArgs("run", out, "--set", "data=trainer", "--set", "clients=all", "--set", "cohort=3", "--trainer", femnistTrainer("-own", "femnist"))...)
	if s.Outcomes[round.Accepted] != 18 {
		t.Errorf("outcomes %v", s.Outcomes)
	}
}
