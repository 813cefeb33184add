//go:build unix

package cmd

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"

	"fedpace/internal/testkit/slow"
	"fedpace/learn"
)

// handling says how a command is played. The first entry whose text the command
// holds counts: those of its page, then those of all pages.
type handling struct {
	holds string
	// reason: the command is not played, only its words are checked.
	reason string
	// first is what the reader has typed before, as the page's words ask for.
	first string
	// more words at its end, so that it takes a moment and not an hour.
	more string
	// serves: it goes on until Ctrl-C.
	serves bool
	// fails: its exit status is 1, as the page says.
	fails bool
	// unlike: what it says here differs from the page, and why.
	unlike string
}

// What makes a run short, also of a set of a few clients.
const (
	short      = "--force --set stop.rounds=2 --set schedule.k0=2 --set evaluate.samples=50"
	shortOnFew = short + " --set clients=all --set cohort=2"
)

// Why a command is not played.
const (
	elsewhere = "it needs a server on another machine; process_test.go, tls_test.go and deploy/check play it on this one"
	device    = "it needs a real device that takes part; devices_test.go and calibrate_test.go play it"
	hours     = "it takes hours; study/paper tests it"
	flower    = "it needs flwr; TestFlower plays apps"
)

var onPage = map[string][]handling{
	"docs/tutorial.md": {
		{holds: "go build", reason: "the test has the program already"},
		{holds: "k0 / time", fails: true},
		{holds: "pace=0.1", more: "--set pace=0 --set http=127.0.0.1:0"},
		{holds: "prometheus --config", reason: "it goes on until it is stopped; deploy/grafana plays the dashboards against Prometheus"},
		{holds: "fedpace ui", serves: true, more: "--http 127.0.0.1:0"},
		{holds: ""}, // everything else as it stands
	},
	"docs/data.md": {
		{holds: "PATH", reason: "PATH stands for the reader's file"},
		{holds: "info femnist.parquet", unlike: "a small set stands in the place of FEMNIST"},
		{holds: "1994-01-100.zip", reason: "it needs the text; data tests it"},
		{holds: "trainingandtestdata.zip", reason: "it needs the archive; data tests it"},
	},
	"README.md": {
		{holds: "1994-01-100.zip", reason: "it needs the text; data tests it"},
		{holds: "compare --set task=femnist", more: shortOnFew},
	},
	"docs/experiment.md": {{holds: "torch", reason: "it needs PyTorch; init_test.go plays it"}},
	"docs/watching.md":   {{holds: "runs/study", first: "cp -r runs/demo runs/study", serves: true, more: "--http 127.0.0.1:0"}},
	"docs/results.md":    {{holds: "--expect", reason: "it has a configuration of the reader's, or takes five seeds; TestExpected plays it"}, {holds: "rm runs/demo-2", first: "cp -r runs/demo runs/demo-2", more: "--force"}},
	"docs/privacy.md":    {{holds: "--dry-run"}, {holds: "fedpace run", more: short + " --set clients=all --set cohort=2 --set privacy.noise_multiplier=1"}},
	"docs/stragglers.md": {{holds: "phones.yaml", reason: "it needs the phones' traces; experiment/run plays it"}},
	"docs/plan.md":       {{holds: "--hours 1", more: "--hours 0.001 --learn 0"}, {holds: "--learn 2"}},
	"docs/deploy.md":     {{holds: "fedpace plan", more: "--learn 0"}, {holds: "fedpace run", reason: device}},
	"docs/machines.md": {
		{holds: "--config fleet.yaml", reason: device},
		{holds: "--list boards.csv", reason: "TestEnroll_ListBecomesArchives plays it, and what is unpacked"},
		{holds: "--config pi4.yaml", more: short + " --set devices.names=[]"},
		{holds: "--site home", first: "fedpace enroll --keys deploy/keys pi-hall"}, // as the list of boards has
	},
	"docs/flower.md":               {{holds: "examples/flower/fleet.yaml", reason: flower}, {holds: "runs/softmax", reason: flower}, {holds: "parts.parquet", reason: flower}},
	"docs/performance.md":          {{holds: "kernel=a", reason: "it needs a processor with AMX; the tests of learn emulate it"}},
	"docs/policies.md":             {{holds: "runs/demo --trust", unlike: "the run that stands for the demonstration has no policy"}},
	"examples/device-js/README.md": {{holds: "fedpace run", reason: "javascript_test.go plays it with the device"}},
	"examples/device-py/README.md": {{holds: "fedpace run", reason: "experiment/run/devices plays the device"}},
}

var onAllPages = []handling{
	{holds: "$cluster", reason: elsewhere},
	{holds: "192.168.1.10:", reason: elsewhere},
	{holds: "nats://", reason: elsewhere},
	{holds: "fedpace-device", reason: device},
	{holds: "calibrate serve", reason: device},
	{holds: "runs/pis", reason: device},
	{holds: "runs/exp", reason: device},
	{holds: "fedpace flower", reason: flower},
	{holds: "flower.app=my-app", reason: "it needs flwr; TestFlower_HostsElsewhere plays an app without"},
	{holds: "--app my-app", reason: "it needs flwr; TestFlower_Calibrated plays an app without"},
	{holds: "--trainer", reason: "it needs PyTorch; python_test.go and trainers_test.go play it"},
	{holds: "data fetch", reason: "it needs a network; TestFetch plays it"},
	{holds: "fedpace man /usr", reason: "it writes into a folder of the system; TestHelp_ManualPages writes them elsewhere"},
	{holds: "fedpace ui", serves: true, more: "--http 127.0.0.1:0"},
	{holds: "fedpace paper --timing", more: "--scale 0.001"},
	{holds: "--from runs/more", reason: hours},
	{holds: "fedpace paper --from"},
	{holds: "fedpace paper", reason: hours},
	{holds: "docs/study/sent140.yaml", reason: "it takes half an hour and the tweets; study tests comparisons"},
	{holds: "fedpace compare", more: short + " --seeds 1"},
	{holds: "--dry-run"},
	{holds: "data=", more: shortOnFew},
	{holds: "fedpace run", more: short},
}

// Every command on every page is played, or it is said here why it is not. What it says
// is compared where the page shows it.
func TestPages_Played(t *testing.T) {
	t.Parallel()
	wrapper := programsFolder(t)
	demo := filepath.Join(t.TempDir(), "runs", "demo")
	if _, said, exit := finish(t, fedpace(t, append([]string{"run", "--quiet", "--out", demo, "--set", "outputs=[tensorboard]"}, strings.Fields(short)...)...)); exit != 0 {
		t.Fatal(said)
	}
	played, parsed := 0, 0
	var count sync.Mutex
	t.Cleanup(func() {
		t.Logf("%d commands were played, %d were only parsed", played, parsed)
	})
	for path, page := range pagesWithCommands(t) {
		items, files := itemsOf(page)
		if !slices.ContainsFunc(items, func(it item) bool { return len(fedpaceLines(it.commands)) > 0 }) {
			continue
		}
		name, _ := strings.CutPrefix(path, "../")
		t.Run(name, func(t *testing.T) {
			if name != "README.md" && name != "docs/deploy.md" {
				slow.Test(t, "it plays every command of the page")
			}
			t.Parallel()
			r := newReader(t, name, wrapper, files)
			if name != "docs/tutorial.md" { // which makes all that it needs
				r.lay(t, page, demo)
			}
			for _, it := range items {
				if it.commands == "" {
					r.compare(t, it)
					continue
				}
				t.Run(fmt.Sprint("line ", it.line), func(t *testing.T) {
					h := r.handlingOf(it.commands)
					count.Lock()
					if h.reason != "" {
						parsed++
					} else {
						played++
					}
					count.Unlock()
					r.said = nil
					if h.reason != "" {
						t.Skipf("%s: %s", strings.TrimSpace(it.commands), h.reason)
					}
					r.play(t, it.commands, h)
				})
			}
		})
	}
}

// Each entry of the tables is for some command, and what a reason names is there.
func TestPages_HandlingsAreUsed(t *testing.T) {
	used := map[string]bool{}
	for path, page := range pagesWithCommands(t) {
		r := reader{page: strings.TrimPrefix(path, "../")}
		items, _ := itemsOf(page)
		for _, it := range items {
			h := r.handlingOf(it.commands)
			used[h.holds] = used[h.holds] || it.commands != ""
		}
	}
	tables := [][]handling{onAllPages}
	for _, list := range onPage {
		tables = append(tables, list)
	}
	for _, list := range tables {
		for _, h := range list {
			if !used[h.holds] {
				t.Errorf("no command holds %q", h.holds)
			}
			for _, file := range regexp.MustCompile(`[a-z_]+_test\.go`).FindAllString(h.reason, -1) {
				if _, err := os.Stat(file); err != nil {
					t.Errorf("%s: %v", h.reason, err)
				}
			}
			for _, m := range regexp.MustCompile(`([a-z]+/[a-z/]+) (?:tests|plays?) `).FindAllStringSubmatch(h.reason, -1) {
				if found, _ := filepath.Glob(filepath.Join("..", m[1], "*_test.go")); len(found) == 0 {
					t.Errorf("%s: %s has no tests", h.reason, m[1])
				}
			}
		}
	}
}

// The page about machines shows the bits that its command gives in each kernel class of this machine.
func TestPages_BitsOfMachines(t *testing.T) {
	t.Parallel()
	page := read(t, "../docs/machines.md")
	items, _ := itemsOf(page)
	n := 0
	for _, it := range items {
		if !strings.Contains(it.commands, "run --json --quiet") {
			continue
		}
		n++
		words := typedWords(it.commands)[1:]
		for _, more := range [][]string{nil, {"--set", "kernel=go"}} {
			c := fedpace(t, append(slices.Clone(words), more...)...)
			c.Dir = t.TempDir()
			stdout, stderr, exit := finish(t, c)
			var summary struct {
				Kernel, Fingerprint string
				Model               string `json:"model_sha256"`
			}
			if err := json.Unmarshal([]byte(stdout), &summary); err != nil || exit != 0 {
				t.Fatalf("%v: %s", err, stderr)
			}
			row := fmt.Sprintf("%s | `%.16s…` | `%s`\n", summary.Kernel, summary.Model, summary.Fingerprint)
			if !strings.Contains(page, row) {
				t.Errorf("docs/machines.md does not have %s", row)
			}
		}
	}
	if n != 1 {
		t.Errorf("%d commands", n)
	}
}

// programsFolder holds the programs' names for a shell.
func programsFolder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	script := fmt.Sprintf("#!/bin/sh\n%s=1 exec %q \"$@\" $FEDPACE_TEST_MORE\n", asProgram, os.Args[0])
	for _, name := range []string{"fedpace", "fedpace-device"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(script), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// reader is somebody who follows a page.
type reader struct {
	page, dir string
	env       []string
	said      []byte // by the newest command; nil: it was not played
}

func newReader(t *testing.T, page, wrapper string, files map[string]string) *reader {
	t.Helper()
	r := &reader{page: page, dir: t.TempDir()}
	r.env = append(os.Environ(), "PATH="+wrapper+":"+os.Getenv("PATH"), "NO_COLOR=1", "HOME="+t.TempDir(), "XDG_CONFIG_HOME=")
	for name, text := range files {
		putFile(t, filepath.Join(r.dir, name), []byte(text))
	}
	return r
}

func (r *reader) handlingOf(commands string) handling {
	for _, h := range append(slices.Clone(onPage[r.page]), onAllPages...) {
		if strings.Contains(commands, h.holds) {
			return h
		}
	}
	return handling{}
}

// play types a script.
func (r *reader) play(t *testing.T, script string, h handling) {
	t.Helper()
	if h.first != "" {
		r.play(t, h.first, handling{})
	}
	c := exec.CommandContext(t.Context(), "sh", "-e", "-c", script)
	c.Dir, c.Env = r.dir, append(r.env, "FEDPACE_TEST_MORE="+h.more)
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	var said bytes.Buffer
	c.Stdout, c.Stderr = &said, &said
	if h.serves {
		r.serve(t, c, script)
		return
	}
	started := time.Now()
	if err := c.Run(); (err != nil) != h.fails || h.fails && c.ProcessState.ExitCode() != 1 {
		t.Errorf("%s: %v\n%s", strings.TrimSpace(script), err, said.Bytes())
	}
	t.Logf("%.1fs: %s", time.Since(started).Seconds(), strings.TrimSpace(script))
	if h.unlike == "" {
		r.said = said.Bytes()
	}
}

// serve starts what goes on, looks at its page, and stops it with Ctrl-C.
func (r *reader) serve(t *testing.T, c *exec.Cmd, script string) {
	t.Helper()
	out, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	c.Stdout, c.Stderr = w, w
	if err := errors.Join(c.Start(), w.Close()); err != nil {
		t.Fatal(err)
	}
	var said []byte
	address := regexp.MustCompile(`http://[0-9.]+:[0-9]+/`)
	for buffer := make([]byte, 4096); !address.Match(said); {
		n, err := out.Read(buffer)
		said = append(said, buffer[:n]...)
		if err != nil {
			t.Fatalf("%s: %v\n%s", script, errors.Join(err, c.Wait()), said)
		}
	}
	answer, err := http.Get(string(address.Find(said)))
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		t.Errorf("%s: %s", script, answer.Status)
	}
	if err := syscall.Kill(-c.Process.Pid, syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, out); err != nil { // until it has ended
		t.Error(err)
	}
	var interrupted *exec.ExitError // the shell is
	if err := c.Wait(); err != nil && !errors.As(err, &interrupted) {
		t.Error(err)
	}
}

// compare holds what the newest command said to what its page shows.
func (r *reader) compare(t *testing.T, it item) {
	t.Helper()
	if r.said == nil {
		return
	}
	// Models differ in their last bits between kernel classes.
	about := it.about || !avx()
	if missing := unsaid(strings.Split(strings.TrimSpace(it.output), "\n"), strings.Split(strings.TrimSpace(string(r.said)), "\n"), about); missing != "" {
		t.Errorf("%s:%d: nothing says %q\n%s", r.page, it.line, missing, r.said)
	}
}

// unsaid is the first line that is shown and was not said, or nothing. The first line
// may stand anywhere, others follow each other but for "...".
func unsaid(shown, said []string, about bool) string {
	for skip := true; len(shown) > 0; shown = shown[1:] {
		if shown[0] == "..." {
			skip = true
			continue
		}
		at := slices.IndexFunc(said, func(line string) bool { return sameLine(shown[0], line, about) })
		if at < 0 || at > 0 && !skip {
			return shown[0]
		}
		said, skip = said[at+1:], false
	}
	return ""
}

// sameLine compares words. What a machine takes is another number each time.
func sameLine(want, got string, about bool) bool {
	a, b := strings.Fields(want), strings.Fields(got)
	if strings.HasPrefix(strings.Join(a, " "), "wall time ") { // 22 s, or 2m20s on a busy machine
		return strings.HasPrefix(strings.Join(b, " "), "wall time ")
	}
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] == b[i] {
			continue
		}
		x, err1 := strconv.ParseFloat(strings.ReplaceAll(strings.Trim(a[i], "(),;"), ",", ""), 64)
		y, err2 := strconv.ParseFloat(strings.ReplaceAll(strings.Trim(b[i], "(),;"), ",", ""), 64)
		if err1 != nil || err2 != nil || !about || math.Abs(x-y) > math.Max(x, y)/3 {
			return false
		}
	}
	return true
}

// The comparison of lines, which decides what a page may show.
func TestPages_LinesOfOutput(t *testing.T) {
	for _, test := range []struct {
		shown, said string
		about       bool
		unsaid      string
	}{
		{"a 1\nb 2", "x\na 1\nb 2\ny", false, ""},
		{"a 1\nb 2", "a 1\nx\nb 2", false, "b 2"},
		{"a 1\n...\nb 2", "a 1\nx\nb 2", false, ""},
		{"a 1", "a 2", false, "a 1"},
		{"a 1.0 (best 1,200)", "a 1.2 (best 1,000)", true, ""},
		{"a 1.0", "a 2.0", true, "a 1.0"},
		{"  wall time 3 s (1 rounds/s)", "wall time 2m20s (0.3 rounds/s)", false, ""},
		{"  wall time 3 s", "virtual time 3 s", false, "  wall time 3 s"},
	} {
		if got := unsaid(strings.Split(test.shown, "\n"), strings.Split(test.said, "\n"), test.about); got != test.unsaid {
			t.Errorf("%q beside %q: %q, want %q", test.shown, test.said, got, test.unsaid)
		}
	}
}

// image is a row of FEMNIST's Parquet file.
type image struct {
	Writer    string `parquet:"writer_id"`
	Image     []byte `parquet:"image"`
	Character int32  `parquet:"character"`
}

// lay puts what a page speaks of into the reader's folder: small sets under the names of
// the large ones, and a run of a moment as the demonstration's.
func (r *reader) lay(t *testing.T, page, demo string) {
	t.Helper()
	at := func(name string) string { return filepath.Join(r.dir, name) }
	for name, lay := range map[string]func(){
		"femnist.parquet": func() {
			var rows []image
			for i := range 240 {
				rows = append(rows, image{fmt.Sprint("writer ", i%20), bytes.Repeat([]byte{byte(i)}, 784), int32(i % 62)})
			}
			if err := parquet.WriteFile(at("femnist.parquet"), rows); err != nil {
				t.Fatal(err)
			}
		},
		"own.csv": func() {
			rows := "client,px_1,px_2,digit\n"
			for i := range 600 {
				rows += fmt.Sprintf("c%d,%d,%d.5,%d\n", i%12, i%7, i%11, i%10)
			}
			putFile(t, at("own.csv"), []byte(rows))
		},
		"leaf/data/femnist/data": func() {
			text := `{"users":["a","b"],"num_samples":[10,10],"user_data":{`
			for i, user := range []string{"a", "b"} {
				x, y := strings.Repeat(",["+strings.Repeat(",1", 784)[1:]+"]", 10)[1:], strings.Repeat(fmt.Sprint(",", i), 10)[1:]
				text += fmt.Sprintf(`%q:{"x":[%s],"y":[%s]},`, user, x, y)
			}
			putFile(t, at("leaf/data/femnist/data/all_data.json"), []byte(strings.TrimSuffix(text, ",")+"}}"))
		},
		"=cifar100": func() { imagesAt(t, at("cifar100")) },
		"cifar-100-binary.tar.gz": func() {
			imagesAt(t, at("cifar-100-binary"))
			r.sh(t, "mkdir -p data && tar czf data/cifar-100-binary.tar.gz cifar-100-binary")
		},
		"tweets_with_users.csv.gz": func() { tweetsAt(t, at("tweets_with_users.csv")); r.sh(t, "gzip tweets_with_users.csv") },
		"tweets_without_users.tsv.gz": func() {
			putFile(t, at("tweets_without_users.tsv"), []byte(strings.Repeat("0\tsome bad words\n4\tsome good words\n", 22000)))
			r.sh(t, "gzip tweets_without_users.tsv")
		},
		"exp.yaml": func() {
			putFile(t, at("exp.yaml"), []byte("name: exp\nclients: 40\ncohort: 5\nschedule: {k0: 4}\nstop: {rounds: 3}\n"+
				"fleet: [{name: phone, weight: 1}, {name: pi4, seconds_per_step: 0.12}]\ndevices: {names: {pi-kitchen: pi4, pi-hall: pi4}}\n"))
		},
		"runs/demo": func() {
			if err := os.CopyFS(at("runs/demo"), os.DirFS(demo)); err != nil {
				t.Fatal(err)
			}
		},
		"examples/": func() {
			if err := os.CopyFS(at("examples"), os.DirFS("../examples")); err != nil {
				t.Fatal(err)
			}
		},
		"docs/": func() {
			if err := os.CopyFS(at("docs"), os.DirFS("../docs")); err != nil {
				t.Fatal(err)
			}
		},
		"fleet.yaml": func() {
			putFile(t, at("fleet.yaml"), []byte("fleet:\n- {name: phone, weight: 1}\n- {name: pi4, seconds_per_step: 0.12}\n"))
			putFile(t, at("pi4.yaml"), []byte("fleet: [{name: pi4, seconds_per_step: 0.12}]\n"))
		},
		"deploy/nats": func() { r.sh(t, "mkdir -p deploy/nats deploy/keys") },
	} {
		if strings.Contains(page, name) || name == "examples/" && strings.HasPrefix(r.page, name) {
			lay()
		}
	}
	if strings.HasPrefix(r.page, "examples/own-data") || strings.HasPrefix(r.page, "examples/regression") {
		r.dir = at(filepath.Dir(r.page)) // as the page says
	}
}

func (r *reader) sh(t *testing.T, script string) {
	t.Helper()
	c := exec.Command("sh", "-e", "-c", script)
	c.Dir = r.dir
	if said, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", script, err, said)
	}
}

// avx says whether models here have the bits of the machine on which pages are written.
func avx() bool {
	k, err := learn.SelectKernel(learn.AutoKernel)
	return err == nil && k.Class() == "avx"
}
