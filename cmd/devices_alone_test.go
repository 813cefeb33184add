//go:build unix

package cmd

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/parquet-go/parquet-go"

	"fedpace/coordinator/round"
	"fedpace/data/synthetic"
	"fedpace/experiment/devicelog"
	"fedpace/experiment/fit"
	"fedpace/experiment/folder"
	"fedpace/experiment/runtest"
	"fedpace/internal/testkit/realdata"
	"fedpace/internal/testkit/slow"
	"fedpace/internal/testkit/testport"
	"fedpace/internal/testkit/throttle"
	"fedpace/learn"
	"fedpace/metrics/tables"
)

// smallDevice is the program that devices alone need.
var smallDevice = sync.OnceValues(func() (string, error) { return build("fedpace-device") })

// Six devices, each with the samples of one writer, learn as well as a simulation of the
// same six clients, while the coordinator is killed and goes on, one device is lost for
// good and another comes that has its samples. No figure holds a simulated client. All are
// believed, as simulated clients are: whom a rule leaves out of six unlike ones decides more.
func TestDevices_Alone(t *testing.T) {
	t.Parallel()
	rounds, long := 24, slow.On()
	if long {
		rounds = 120
	}
	const seeds = 8
	program, err := smallDevice()
	if err != nil {
		t.Fatal(err)
	}
	all := leafWriters(t)
	text := fmt.Sprintf("name: alone\ntask: femnist\ndata: %s\nschedule: {k0: 30}\nbatch: 10\nstop: {rounds: %d}\nevaluate: {every: 4}\n", all[0], rounds)

	address := testport.Held(t)
	s := &site{T: t, dir: t.TempDir(), url: "nats://" + address}
	s.keys = s.path("keys")
	devices := "clients: 0\ndevices: {names: [d1, d2, d3, d4, d5, d6, d7], robust: false, liveness_seconds: 3}\npace: 0.3\n" +
		"checkpoint: {seconds: 0.05}\nhttp: '127.0.0.1:0'\nnats: {listen: '" + address + "'}\n"
	config := s.config("run.yaml", text+devices)
	coordinate := func(args ...string) {
		s.run = fedpace(t, append(args, "--keys", s.keys)...)
		s.lines = s.listen(s.run)
	}
	join := func(id, data string) (*exec.Cmd, *lines) {
		url := s.url
		if long {
			url = ownLink(t, address, id)
		}
		c := exec.CommandContext(t.Context(), program, "actor", "--nats", url, "--client", id, "--creds", s.creds(id), "--once", "--data", data)
		return c, s.listen(c)
	}
	coordinate("coordinator", "--config", config, "--out", s.path("run"))
	var lost *exec.Cmd
	for i := range 6 {
		s.lines.await(t, `(nats://127\.0\.0\.1:\d+)`)
		lost, _ = join(fmt.Sprint("d", i+1), all[i+1])
	}
	rows := waitForRows(t, s.path("run"), 4)
	if err := s.run.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = s.run.Wait() // it was killed
	coordinate("resume", s.path("run"))
	s.lines.await(t, "The run goes on after round ")
	checkLiveFigures(t, s.lines)
	waitForRows(t, s.path("run"), rows+3)
	if err := lost.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	s.lines.await(t, "Device d6 is lost")
	_, gained := join("d7", all[6])
	gained.await(t, "Joined run alone as client 6")
	summary := s.end()

	if !summary.Completed || summary.Rounds != rounds || summary.Outcomes[round.Lost] < 1 {
		t.Errorf("%d rounds, outcomes %v:\n%v", summary.Rounds, summary.Outcomes, s.lines)
	}
	checkFigures(t, s.path("run"), rounds)
	checkFit(t, s, long)
	if _, err := devicelog.Open(s.path("run")); err == nil || !strings.Contains(err.Error(), "it holds how long tasks took and no updates") {
		t.Errorf("a log without updates is played again: %v", err)
	}

	if !long {
		return
	}
	simulated := s.config("simulated.yaml", text+"clients: 6\ncohort: 6\n")
	simulate := func(rule string) (accuracies []float64, mean float64) {
		for seed := range seeds {
			out := s.path(fmt.Sprint("simulated", seed))
			args := []string{"run", "--quiet", "--force", "--config", simulated, "--set", fmt.Sprint("seed=", seed+1), "--set", "aggregate.combine=" + rule, "--out", out}
			if _, stderr, exit := finish(t, fedpace(t, args...)); exit != 0 {
				t.Fatal(stderr)
			}
			accuracies = append(accuracies, *s.summary(filepath.Base(out)).ValidationAccuracy)
			mean += accuracies[seed] / seeds
		}
		return accuracies, mean
	}
	accuracies, mean := simulate("null")
	_, robust := simulate("{rule: nnm, liars: 0.2}")
	t.Logf("simulations with the mean %.3f, with the rule that devices have unless told otherwise %.3f", mean, robust) // docs/robust.md
	spread := 0.0
	for _, a := range accuracies {
		spread += (a - mean) * (a - mean) / float64(seeds-1)
	}
	// Three deviations of one more seed, and the two held-out samples that a tie may turn.
	if got, most := *summary.ValidationAccuracy, 3*math.Sqrt(spread*(1+1/float64(seeds)))+2./107; math.Abs(got-mean) > most {
		t.Errorf("devices come to an accuracy of %.3f, simulations to %.3f: more than %.3f apart", got, accuracies, most)
	} else {
		t.Logf("devices %.3f, simulations %.3f", got, accuracies)
	}
}

// ownLink is the URL of a server behind a device's own link, of one of two kinds. Without links
// nothing but the machine that all devices share decides how long their tasks take: then they
// are slow in the same rounds, which devices of classes, each slow by itself, are not.
func ownLink(t *testing.T, server, id string) (url string) {
	t.Helper()
	c := throttle.Config{Server: server, Download: 40, Upload: 20}
	if strings.HasSuffix(id, "2") || strings.HasSuffix(id, "4") {
		c.Download, c.Upload = 60, 30
	}
	link, err := throttle.Start(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(link.Close)
	return "nats://" + link.Address()
}

// checkFit holds a simulation with the classes that are fitted to the run to it: all tasks and all
// rounds take as long as they took.
func checkFit(t *testing.T, s *site, long bool) {
	t.Helper()
	stdout, stderr, exit := finish(t, fedpace(t, "fit", s.path("run"), "--json"))
	var found fit.Fit
	if err := json.Unmarshal([]byte(stdout), &found); err != nil || exit != 0 {
		t.Fatalf("exit %d, %v: %q, %q", exit, err, stdout, stderr)
	}
	c := found.Check
	t.Logf("fitted tasks %+.2f %%; %d rounds %+.2f %%, of which dealt anew %+.2f %%", 100*(c.FittedTaskSeconds/c.TaskSeconds-1), c.Rounds,
		100*(c.FittedRoundSeconds/c.RoundSeconds-1), 100*(c.DealtRoundSeconds/c.RoundSeconds-1))
	if !long {
		return
	}
	if tasks, rounds := c.FittedTaskSeconds/c.TaskSeconds, c.FittedRoundSeconds/c.RoundSeconds; math.Abs(tasks-1) > 0.02 || math.Abs(rounds-1) > 0.02 {
		t.Errorf("with fitted classes tasks take %g times as long as they took, and rounds %g times, want 1 within 2 %%", tasks, rounds)
	}
}

// checkLiveFigures holds what a run shows while it goes to devices alone.
func checkLiveFigures(t *testing.T, said *lines) {
	t.Helper()
	at := said.await(t, `The run is shown on (http://127\.0\.0\.1:\d+/)`)[1]
	get := func(path string) string {
		response, err := http.Get(at + path)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	shown := get("metrics")
	for _, line := range regexp.MustCompile(`(?m)^\w+\{.*kind="simulated".*$`).FindAllString(shown, -1) {
		if !strings.HasPrefix(line, "fedpace_actors{") || !strings.HasSuffix(line, " 0") {
			t.Errorf("metrics hold a simulated client: %s", line)
		}
	}
	if !regexp.MustCompile(`(?m)^fedpace_actors\{.*kind="real".*\} 7$`).MatchString(shown) {
		t.Errorf("metrics do not hold the devices:\n%s", shown)
	}
}

// checkFigures holds the files of a run of seven devices to them.
func checkFigures(t *testing.T, dir string, rounds int) {
	t.Helper()
	clients, err := parquet.ReadFile[tables.Client](filepath.Join(dir, tables.ClientsFile))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range clients {
		if !c.Real || c.Client > 6 || c.Class != "" {
			t.Errorf("%s holds %+v", tables.ClientsFile, c)
		}
	}
	if len(clients) != 7 {
		t.Errorf("%s holds %d clients, want the 7 devices", tables.ClientsFile, len(clients))
	}
	reports, err := runtest.ReadRounds(filepath.Join(dir, folder.RoundsFile))
	if err != nil || len(reports) != rounds {
		t.Fatalf("%d rounds: %v", len(reports), err)
	}
	for _, r := range reports {
		if r.Cohort < 1 || r.Cohort > 6 {
			t.Errorf("round %d asks %d clients, want at most the 6 devices that are there", r.Round, r.Cohort)
		}
	}
	if last := reports[len(reports)-1]; last.Cohort != 6 {
		t.Errorf("the last round asks %d devices, want the 5 that are left and the new one", last.Cohort)
	}
}

// leafWriters writes seven folders in LEAF's format: one with the samples of six writers,
// then one for each of them. They are real ones where there are any, else made.
func leafWriters(t *testing.T) (paths []string) {
	t.Helper()
	parts := map[string]*leafFile{}
	for _, part := range []string{"train", "test"} {
		parts[part] = readLEAF(t, part)
	}
	names := slices.Sorted(maps.Keys(parts["train"].Data))[:6]
	dir := t.TempDir()
	write := func(name string, users []string) {
		for part, f := range parts {
			one := leafFile{Users: users, Data: map[string]leafUser{}}
			for _, u := range users {
				one.Data[u] = f.Data[u]
				one.Samples = append(one.Samples, len(f.Data[u].Y))
			}
			text, err := json.Marshal(one)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.MkdirAll(filepath.Join(dir, name, part), 0o700); err != nil {
				t.Fatal(err)
			}
			putFile(t, filepath.Join(dir, name, part, "all.json"), text)
		}
		paths = append(paths, filepath.Join(dir, name))
	}
	write("all", names)
	for _, u := range names {
		write(u, []string{u})
	}
	return paths
}

// leafFile is a file of LEAF's JSON for FEMNIST.
type leafFile struct {
	Users   []string            `json:"users"`
	Samples []int               `json:"num_samples"`
	Data    map[string]leafUser `json:"user_data"`
}

type leafUser struct {
	X [][]float32 `json:"x"`
	Y []int       `json:"y"`
}

// readLEAF reads the writers' samples of one part.
func readLEAF(t *testing.T, part string) *leafFile {
	t.Helper()
	folder, _ := realdata.Find("femnist/leaf/" + part)
	files, err := filepath.Glob(filepath.Join(folder, "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		return madeLEAF(t, part)
	}
	all := &leafFile{Data: map[string]leafUser{}}
	for _, path := range files {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var f leafFile
		if err := json.Unmarshal(text, &f); err != nil {
			t.Fatal(err)
		}
		maps.Copy(all.Data, f.Data)
	}
	return all
}

// madeLEAF makes the samples of six writers: every eighth is for testing.
func madeLEAF(t *testing.T, part string) *leafFile {
	t.Helper()
	set, err := synthetic.New("femnist", 6, 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer set.Close()
	all := &leafFile{Data: map[string]leafUser{}}
	for client := range set.Clients() {
		var u leafUser
		for i := range set.Samples(client) {
			if (i%8 == 0) != (part == "test") {
				continue
			}
			var batch learn.Batch
			if err := set.Batch(&batch, client, []int32{int32(i)}); err != nil {
				t.Fatal(err)
			}
			u.X, u.Y = append(u.X, batch.X), append(u.Y, int(batch.Labels[0]))
		}
		all.Data[fmt.Sprint("made", client)] = u
	}
	return all
}
