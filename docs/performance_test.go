package docs

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"fedpace/internal/human"
	"fedpace/internal/table"
	"fedpace/internal/testkit/installed"
	"fedpace/internal/testkit/slow"
)

// peer is a row of performance/peers.csv: rounds a second of a run and of PyTorch's loop.
type peer struct {
	Work    string  `csv:"work"`
	Cohort  int     `csv:"cohort"`
	K       int     `csv:"k"`
	Batch   int     `csv:"batch"`
	Rounds  int     `csv:"rounds"`
	Turns   int     `csv:"turns"`
	Ours    float64 `csv:"ours"`
	PyTorch float64 `csv:"pytorch"`
	Ratio   float64 `csv:"ratio"`
	Least   float64 `csv:"least"`
	Most    float64 `csv:"most"`
	Loss    float64 `csv:"loss"`
	Theirs  float64 `csv:"pytorch_loss"`
}

// rival is a row of performance/rivals.csv: what a round of a tool takes of all its processes.
type rival struct {
	Tool    string  `csv:"tool"`
	K       int     `csv:"k"`
	Clients int     `csv:"clients"`
	Cohort  int     `csv:"cohort"`
	Rounds  int     `csv:"rounds"`
	Turns   int     `csv:"turns"`
	Seconds float64 `csv:"cpu_seconds"`
	Most    float64 `csv:"most_cpu_seconds"`
	First   float64 `csv:"first_round_seconds"`
	Peak    float64 `csv:"peak_bytes"`
	Loss    float64 `csv:"check_loss"`
}

// grown is a row of performance/growth.csv: what a round costs at a value of what grows.
type grown struct {
	Grows   string  `csv:"grows"`
	Value   int     `csv:"value"`
	Rounds  int     `csv:"rounds"`
	Seconds float64 `csv:"seconds"`
	Peak    float64 `csv:"peak_bytes"`
	Time    string  `csv:"time"`
}

func (g grown) at() float64     { return float64(g.Value) }
func (g grown) time() float64   { return g.Seconds }
func (g grown) memory() float64 { return g.Peak }

// straight is the line base + slope x of y that makes the squares of relative errors least,
// falls nowhere and begins at 0 or above.
type straight struct{ base, slope, off float64 } // off: the largest relative error

func fit(points []grown, of func(grown) float64) (l straight) {
	var u, x, xx, v, xv float64 // sums over points of weights 1/y², with x, and with y
	for _, p := range points {
		y := of(p)
		w := 1 / (y * y)
		u, x, xx, v, xv = u+w, x+w*p.at(), xx+w*p.at()*p.at(), v+w*y, xv+w*p.at()*y
	}
	l.slope = (u*xv - x*v) / (u*xx - x*x)
	l.base = (v - l.slope*x) / u
	if l.slope < 0 {
		l.base, l.slope = v/u, 0
	}
	if l.base < 0 {
		l.base, l.slope = 0, xv/xx
	}
	for _, p := range points {
		l.off = max(l.off, math.Abs(l.y(p.at())/of(p)-1))
	}
	return l
}

func (l straight) y(x float64) float64 { return l.base + l.slope*x }

func TestPerformance_Lines(t *testing.T) {
	points := []grown{{Value: 1, Seconds: 5}, {Value: 2, Seconds: 7}, {Value: 100, Seconds: 203}}
	if l := fit(points, grown.time); math.Abs(l.base-3) > 1e-9 || math.Abs(l.slope-2) > 1e-9 || l.off > 1e-9 {
		t.Errorf("%+v, want 3 + 2 x", l)
	}
	points = []grown{{Value: 1, Seconds: 4}, {Value: 2, Seconds: 2}} // weights 1/16 and 1/4
	if l := fit(points, grown.time); l.slope != 0 || math.Abs(l.base-(4./16+2./4)/(1./16+1./4)) > 1e-9 {
		t.Errorf("%+v, want no slope and the weighted mean", l)
	}
	points = []grown{{Value: 10, Seconds: 1}, {Value: 20, Seconds: 4}}
	if l := fit(points, grown.time); l.base != 0 || math.Abs(l.slope-(10+20./4)/(100+400./16)) > 1e-9 {
		t.Errorf("%+v, want a line through 0", l)
	}
}

// scheduled is when the last of jobs is done, which workers take in their order.
func scheduled(jobs []float64, workers int) float64 {
	free := make([]float64, workers)
	for _, j := range jobs {
		free[0] += j
		slices.Sort(free)
	}
	return free[workers-1]
}

func TestPerformance_Schedule(t *testing.T) {
	if got := scheduled([]float64{3, 1, 1, 2, 2}, 2); got != 5 {
		t.Errorf("%g, want 5: 3 + 2 beside 1 + 1 + 2", got)
	}
	// 8 jobs of one client on 4 cores: two rows of 10 + 2 * 3 + 1, behind 100 + 8 * 5.
	c := costs{round: 100, client: 10, message: 5, step: 3, job: 1}
	if got := c.on(4, 8, 2, false); got != 174 {
		t.Errorf("%g, want 174", got)
	}
	if got := c.on(4, 8, 2, true); got != 180 {
		t.Errorf("%g, want 180: the 8 jobs' own costs come one after the other", got)
	}
}

// costs are those of a round of FEMNIST by the lines of growth.csv: of the round, of each client
// and its messages, of each step, and of each job.
type costs struct{ round, client, message, step, job float64 }

func costsOf(all map[string][]grown) (c costs) {
	const k, jobs = 8, 2 // of the line over cohorts
	cohort := fit(all["cohort"], grown.time)
	c.step = fit(all["K"], grown.time).slope / 60
	c.job = fit(all["jobs"], grown.time).slope
	c.message = fit(all["cohort, timed only"], grown.time).slope
	c.client = max(0, cohort.slope-k*c.step-c.message)
	c.round = max(0, cohort.base-jobs*c.job)
	return c
}

// on is how long a round takes on so many cores, each with two jobs of its own if there are as
// many clients: what jobs share, and by themselves if serial, comes one after the other.
func (c costs) on(cores, cohort, k int, serial bool) float64 {
	number := min(2*cores, cohort)
	jobs := make([]float64, number)
	alone := c.round + float64(cohort)*c.message
	for i := range jobs {
		clients := (i+1)*cohort/number - i*cohort/number
		jobs[i] = float64(clients) * (c.client + float64(k)*c.step)
		if serial {
			alone += c.job
		} else {
			jobs[i] += c.job
		}
	}
	return alone + scheduled(jobs, cores)
}

// performance is what the page is made of.
type performance struct {
	peers  []peer
	rivals []rival
	all    map[string][]grown
	order  []string // what grows, as in the file
}

func readPerformance(t *testing.T) (p performance) {
	var err error
	p.peers, err = table.Read[peer]("performance/peers.csv")
	if err != nil {
		t.Fatal(err)
	}
	p.rivals, err = table.Read[rival]("performance/rivals.csv")
	if err != nil {
		t.Fatal(err)
	}
	rows, err := table.Read[grown]("performance/growth.csv")
	if err != nil {
		t.Fatal(err)
	}
	p.all = map[string][]grown{}
	for _, r := range rows {
		if len(p.all[r.Grows]) == 0 {
			p.order = append(p.order, r.Grows)
		}
		p.all[r.Grows] = append(p.all[r.Grows], r)
	}
	return p
}

// figure is a number to three digits, with a unit that suits it.
func figure(v float64, units ...string) string {
	for i := range units {
		if v >= 0.9995 || i == len(units)-1 {
			return human.Rate(v) + " " + units[i]
		}
		v *= 1000
	}
	return ""
}

func seconds(s float64) string { return figure(s, "s", "ms", "µs", "ns", "ps") }

func bytes(b float64) string {
	if b < 1 {
		return fmt.Sprintf("%.2f B", b)
	}
	return figure(b/1e9, "GB", "MB", "kB", "B")
}

// law is a line in words.
func (l straight) law(unit func(float64) string, of string) string {
	text := unit(l.base)
	if l.base == 0 {
		text = ""
	}
	if l.slope > 0 {
		text += strings.Repeat(" + ", min(1, len(text))) + unit(l.slope) + " " + of
	}
	return fmt.Sprintf("%s ±%.0f%%", text, 100*l.off)
}

func markdown(rows ...[]string) string {
	var b strings.Builder
	for i, r := range rows {
		fmt.Fprintf(&b, "|%s|\n", strings.Join(r, "|"))
		if i == 0 {
			b.WriteString(strings.Repeat("|---", len(r)) + "|\n")
		}
	}
	return b.String()
}

// speed is the table of peers.
func (p *performance) speed() string {
	rows := [][]string{{"task", "cohort", "K", "batch", "fedpace", "PyTorch", "times", "least to most", "loss", "PyTorch's"}}
	for _, r := range p.peers {
		rows = append(rows, []string{
			r.Work, fmt.Sprint(r.Cohort), fmt.Sprint(r.K), fmt.Sprint(r.Batch), human.Rate(r.Ours), human.Rate(r.PyTorch),
			fmt.Sprintf("**%.2f**", r.Ratio), fmt.Sprintf("%.2f-%.2f", r.Least, r.Most), fmt.Sprintf("%.3f", r.Loss), fmt.Sprintf("%.3f", r.Theirs),
		})
	}
	return markdown(rows...)
}

// sentence is README's sentence about the peers: the least and the largest of their ratios.
func (p *performance) sentence() string {
	least := math.Inf(1)
	largest := 0.0
	for _, r := range p.peers {
		least = min(least, r.Ratio)
		largest = max(largest, r.Ratio)
	}
	return fmt.Sprintf("\nOne core does **%.1f to %.1f times** the rounds of the same loop in PyTorch.\n\n", least, largest)
}

// rivalOf is a tool's row at some K, or nil if that was not played.
func (p *performance) rivalOf(tool string, k int) *rival {
	i := slices.IndexFunc(p.rivals, func(r rival) bool { return r.Tool == tool && r.K == k })
	if i < 0 {
		return nil
	}
	return &p.rivals[i]
}

// rivalTable is the table of tools: a line for each, with the times of fedpace's processor time in brackets.
func (p *performance) rivalTable() string {
	rows := [][]string{{"", "K = 1", "K = 8", "K = 80", "start and first round", "memory at the peak"}}
	for _, eight := range p.rivals {
		if eight.K != 8 {
			continue
		}
		row := []string{eight.Tool}
		peak := 0.0
		for _, k := range []int{1, 8, 80} {
			r := p.rivalOf(eight.Tool, k)
			if r == nil {
				row = append(row, "-")
				continue
			}
			cell := seconds(r.Seconds)
			if r.Tool != "fedpace" {
				cell += " (**" + p.timesFedpace(r.Tool, k) + "**)"
			}
			row = append(row, cell)
			peak = max(peak, r.Peak)
		}
		rows = append(rows, append(row, fmt.Sprintf("%.1f s", eight.First), bytes(peak)))
	}
	return markdown(rows...)
}

// timesFedpace is a tool's processor time over fedpace's, to two digits or more.
func (p *performance) timesFedpace(tool string, k int) string {
	ratio := p.rivalOf(tool, k).Seconds / p.rivalOf("fedpace", k).Seconds
	if ratio < 9.95 {
		return fmt.Sprintf("%.1f", ratio)
	}
	return human.Thousands(int64(math.Round(ratio)))
}

// rivalSentence is README's sentence about other tools.
func (p *performance) rivalSentence() string {
	return fmt.Sprintf("\nWith all that they start, the same rounds (K = 8) take **%s times** fedpace's processor time by\n"+
		"hand in PyTorch 2.15, **%s times** in pfl, **%s** in APPFL and **%s** in Flower's simulation.\n\n",
		p.timesFedpace("PyTorch 2.15.0 by hand", 8), p.timesFedpace("pfl 0.6.0", 8),
		p.timesFedpace("APPFL 1.12.0, serial", 8), p.timesFedpace("Flower 1.42.0, Ray", 8))
}

// lines says what grows with what is measured, and by what name.
var lines = []struct{ grows, title, of string }{
	{"clients", "clients, timed only, cohort 1,000", "a client"},
	{"cohort, timed only", "cohort, timed only, 1,000,000 clients", "a client"},
	{"rounds", "length, timed only, 10,000 clients, cohort 30", "a round before"},
	{"cohort", "cohort, FEMNIST, K = 8", "a client"},
	{"K", "K, FEMNIST, cohort 60", "a step"},
	{"parameters", "parameters, cohort 20, K = 1", "a parameter"},
	{"hosts", "hosts, FEMNIST, cohort 60, K = 8", "a host"},
	{"jobs", "jobs, FEMNIST, cohort 60, K = 1", "a job"},
}

func (p *performance) growth() string {
	rows := [][]string{{"what grows", "from", "to", "processor time of a round", "memory at the peak"}}
	for _, l := range lines {
		points := p.all[l.grows]
		rows = append(rows, []string{
			l.title, human.Thousands(int64(points[0].Value)), human.Thousands(int64(points[len(points)-1].Value)),
			fit(points, grown.time).law(seconds, l.of), fit(points, grown.memory).law(bytes, l.of),
		})
	}
	return markdown(rows...)
}

// quiet reports whether a run had a core to itself: a wall time that other programs decided is
// not on the page.
func quiet(wall, cpu grown) bool { return cpu.Seconds >= 0.8*wall.Seconds }

// full are the runs of a million clients that are timed on all cores.
func (p *performance) full() string {
	rows := [][]string{{"run", "client-rounds/s", "processor time of one", "memory at the peak"}}
	for _, name := range p.order {
		r := p.all[name]
		if r[0].Time != "wall" || strings.HasPrefix(name, "cores") {
			continue
		}
		pace := "(busy)"
		if quiet(r[0], r[1]) {
			pace = human.Rate(r[0].at() / r[0].Seconds)
		}
		rows = append(rows, []string{name, pace, seconds(r[1].Seconds / r[1].at()), bytes(r[0].Peak)})
	}
	return markdown(rows...)
}

// cores is how many times faster a round is on more of them.
func (p *performance) cores() string {
	c := costsOf(p.all)
	rows := [][]string{{"FEMNIST", "2 cores, measured", "2", "4", "16", "64"}}
	for _, w := range []struct{ cohort, k int }{{60, 80}, {60, 8}, {60, 1}, {600, 80}, {600, 1}} {
		measured := "-"
		if m := p.all[fmt.Sprintf("cores, K = %d", w.k)]; w.cohort == 60 && len(m) == 4 && m[2].Value == 2 {
			measured = "(busy)"
			if quiet(m[0], m[1]) {
				measured = fmt.Sprintf("%.2f", m[0].Seconds/m[2].Seconds)
			}
		}
		row := []string{fmt.Sprintf("cohort %d, K = %d", w.cohort, w.k), measured}
		for _, n := range []int{2, 4, 16, 64} {
			one := c.on(1, w.cohort, w.k, true)
			row = append(row, fmt.Sprintf("%.1f-%.1f", one/c.on(n, w.cohort, w.k, true), one/c.on(n, w.cohort, w.k, false)))
		}
		rows = append(rows, row)
	}
	return markdown(rows...)
}

// machine is what was measured on, in lines of prose.
func machine(t *testing.T, name string) (text string) {
	words, err := os.ReadFile("performance/" + name + ".txt")
	if err != nil {
		t.Fatal(err)
	}
	column := 0
	for i, w := range strings.Fields(string(words)) {
		switch {
		case column+len(w) > 98:
			text, column = text+"\n", 0
		case i > 0:
			text, column = text+" ", column+1
		}
		text, column = text+w, column+len(w)
	}
	return "\n" + text + ".\n\n"
}

// The tables of the page and README are those of the measured files.
func TestPerformance_Page(t *testing.T) {
	p := readPerformance(t)
	block := regexp.MustCompile(`(?s)<!-- (speed|peers|rivals|rival sentence|growth|full|cores|machine [a-z]+) -->\n.*?<!-- end -->\n`)
	for path, blocks := range map[string]int{"performance.md": 8, "../README.md": 2} {
		old, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if n := len(block.FindAll(old, -1)); n != blocks {
			t.Errorf("%s has %d blocks, want %d", path, n, blocks)
		}
		text := block.ReplaceAllStringFunc(string(old), func(b string) string {
			what := block.FindStringSubmatch(b)[1]
			made := ""
			switch kind, name, _ := strings.Cut(what, " "); kind {
			case "speed":
				made = p.sentence()
			case "peers":
				made = p.speed()
			case "rivals":
				made = p.rivalTable()
			case "rival":
				made = p.rivalSentence()
			case "growth":
				made = p.growth()
			case "full":
				made = p.full()
			case "cores":
				made = p.cores()
			case "machine":
				made = machine(t, name)
			}
			return "<!-- " + what + " -->\n" + made + "<!-- end -->\n"
		})
		if *rewrite {
			if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		} else if text != string(old) {
			t.Errorf("%s is stale: go test ./docs -run Performance -rewrite", path)
		}
	}
}

// measuring runs Python where the benchmark is, and says what it prints.
func measuring(t *testing.T, args ...string) (said string, err error) {
	t.Helper()
	c := exec.CommandContext(t.Context(), installed.Program(t, "python3", "python3"), append([]string{"-B"}, args...)...)
	c.Dir = "../internal/bench"
	out, err := c.CombinedOutput()
	return string(out), err
}

// A host that fails ends the benchmark, and its coordinator, which would wait for it.
func TestPerformance_FailingProgram(t *testing.T) {
	said, err := measuring(t, "-c", `
import atexit
from measure import CHILDREN, Child, ended
leader = Child(["sleep", "600"])
atexit.register(lambda: print("leader", leader.process.wait()))
with CHILDREN:
    ended([leader, Child(["true"]), Child(["false"])])
`)
	if err == nil || !strings.Contains(said, "false\nended with 1:") || !strings.Contains(said, "leader -9") {
		t.Errorf("%s (%v)", said, err)
	}
}

// What a program's orphan uses counts, and the orphan does not outlive the measurement.
func TestPerformance_OrphanCounts(t *testing.T) {
	said, err := measuring(t, "-c", `
import sys, tempfile
import tree
program = """
import os, time
if os.fork() == 0:
    if os.fork() == 0:
        while time.process_time() < 0.3:
            pass
        with open(os.environ["MARKS"], "a") as marks:
            marks.write("round" + chr(10))
        time.sleep(600)
    os._exit(0)
while os.path.getsize(os.environ["MARKS"]) == 0:
    time.sleep(0.01)
"""
with tempfile.TemporaryDirectory() as folder:
    played = tree.play([sys.executable, "-c", program], folder, {})
print(len(played.marks), played.marks[0].cpu > 0.2, played.end.cpu > 0.2, tree.descendants())
`)
	if err != nil || said != "1 True True {}\n" {
		t.Errorf("%s (%v)", said, err)
	}
}

// A first look does not write over what was measured in whole.
func TestPerformance_FirstLookLeavesPage(t *testing.T) {
	if said, err := measuring(t, ".", "--length", "0.1"); err == nil || !strings.Contains(said, "give --out FOLDER") {
		t.Errorf("%s (%v)", said, err)
	}
}

// The benchmark runs, and has a row for each that the page has.
func TestPerformance_Measured(t *testing.T) {
	slow.Test(t, "it plays a hundred short runs")
	dir := t.TempDir()
	if said, err := measuring(t, ".", "growth", "--length", "0.01", "--out", dir); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	page, err := table.Read[grown]("performance/growth.csv")
	rows, err2 := table.Read[grown](filepath.Join(dir, "growth.csv"))
	if err := errors.Join(err, err2); err != nil || len(rows) < len(page) {
		t.Fatalf("%d rows, want %d (%v)", len(rows), len(page), err)
	}
	for i, r := range rows { // the difference of two runs of a few rounds may be less than nothing
		if r.Grows != page[i].Grows || r.Time != page[i].Time || r.Value < 1 || r.Seconds == 0 || r.Peak < 5e6 {
			t.Errorf("%+v, where the page has %+v", r, page[i])
		}
	}
}

// What grows, in a picture: points, and the lines of the page through them.
func TestPerformance_Picture(t *testing.T) {
	p := readPerformance(t)
	var d drawing
	const across, wide, high = 4, 190., 110.
	for i, of := range lines {
		points, l := p.all[of.grows], fit(p.all[of.grows], grown.time)
		by := func(a, b grown) int { return cmp.Compare(a.Seconds, b.Seconds) }
		least, most := math.Log(slices.MinFunc(points, by).Seconds/1.5), math.Log(slices.MaxFunc(points, by).Seconds*1.5)
		from, to := math.Log(points[0].at()), math.Log(points[len(points)-1].at())
		x0, y0 := 10+wide*float64(i%across), 24+(high+44)*float64(i/across)
		at := func(x, y float64) (float64, float64) {
			return x0 + 6 + (wide-32)*(math.Log(x)-from)/(to-from), y0 + high*(1-(math.Log(y)-least)/(most-least))
		}
		d.text(x0, y0-6, "start", "%s", of.grows)
		d.line(grey, x0, y0, x0, y0+high, x0+wide-20, y0+high)
		d.text(x0, y0+high+14, "start", "%s", human.Thousands(int64(points[0].Value)))
		d.text(x0+wide-20, y0+high+14, "end", "%s", human.Thousands(int64(points[len(points)-1].Value)))
		var curve []float64
		for j := range 21 {
			x, y := at(math.Exp(from+(to-from)*float64(j)/20), l.y(math.Exp(from+(to-from)*float64(j)/20)))
			curve = append(curve, x, y)
		}
		d.line(orange, curve...)
		for j, g := range points {
			x, y := at(g.at(), g.Seconds)
			d.rect(x-2, y-2, 4, 4, blue)
			if j == 0 || j == len(points)-1 {
				d.text(x, y-20+float64(13*min(j, 1)), []string{"start", "end"}[min(j, 1)], "%s", seconds(g.Seconds))
			}
		}
	}
	d.keep(t, "performance/growth.svg", "Processor time of a round against what grows, with the lines through it", 770, 320)
}
