package cmd

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"fedpace/experiment/folder"
)

// ownRow is a row of a person's own data: 6 sites, 3 classes that two numbers part.
type ownRow struct {
	Site   string  `parquet:"site"`
	Width  float64 `parquet:"width"`
	Length float32 `parquet:"length"`
	Colour string  `parquet:"colour"`
	Kind   string  `parquet:"kind"`
}

func ownRows() (rows []ownRow) {
	r := rand.New(rand.NewPCG(3, 4))
	for site := range 6 {
		for i := range 30 {
			kind := []string{"ash", "birch", "cedar"}[i%3]
			rows = append(rows, ownRow{fmt.Sprintf("site %d", site), 10*float64(i%3) + 3*r.Float64(), 5*float32(i%3) + r.Float32(), "red", kind})
		}
	}
	return rows
}

// Three commands lead from a file of one's own to a comparison and its page.
func TestOwnData_ThreeCommands(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"csv", "parquet"} {
		t.Run(kind, func(t *testing.T) {
			dir := t.TempDir()
			path, exp, out := filepath.Join(dir, "own."+kind), filepath.Join(dir, "exp.yaml"), filepath.Join(dir, "runs")
			if kind == "parquet" {
				if err := parquet.WriteFile(path, ownRows()); err != nil {
					t.Fatal(err)
				}
			} else {
				text := "site,width,length,colour,kind\n"
				for _, r := range ownRows() {
					text += fmt.Sprintf("%s,%g,%g,%s,%s\n", r.Site, r.Width, r.Length, r.Colour, r.Kind)
				}
				putFile(t, path, []byte(text))
			}
			proposal := success(t, "info", path)
			has(t, proposal, "# A proposal from 180 rows of 5 columns.", "task: custom\n", "client: site ", "6 different values (\"site 0\"",
				"features: [width, length] ", "label: kind ", "3 different words (ash, birch, cedar); the last column", "scale: standard", "# without a meaning: colour (words, 1 different)",
				"schedule.k0: 6 ", "an epoch of the median client")
			putFile(t, exp, []byte(proposal))
			has(t, success(t, "info", "--config", exp), "custom data ("+kind+")", "clients    6\n", "classes    3, 3 of them with training samples", `"birch"      50`)
			run := []string{"--config", exp, "--set", "stop.rounds=30", "--out", filepath.Join(dir, "run")}
			if status, _, stderr := callAll(t, append([]string{"run", "--quiet"}, run...)...); status != 0 {
				t.Fatal(stderr)
			}
			var s struct {
				Accuracy float64 `json:"validation_accuracy"`
				Task     string
				Data     string
			}
			text, err := os.ReadFile(filepath.Join(dir, "run", "summary.json"))
			if err != nil || json.Unmarshal(text, &s) != nil || s.Accuracy < 0.95 || s.Task != "custom" || s.Data != "custom data ("+kind+"); classes ash, birch, cedar" {
				t.Fatalf("%+v, %v", s, err)
			}
			for _, args := range [][]string{
				{"compare", "--quiet", "--config", exp, "--set", "stop.virtual_seconds=2", "--schedules", "fixed,rounds", "--out", out},
				{"report", out, "-o", filepath.Join(dir, "own.html")},
			} {
				if status, _, stderr := callAll(t, args...); status != 0 {
					t.Fatalf("%v: %s", args, stderr)
				}
			}
			if page, err := os.ReadFile(filepath.Join(dir, "own.html")); err != nil || !strings.Contains(string(page), "custom") {
				t.Error(err)
			}
			// The same once more plays nothing.
			if status, stdout, stderr := callAll(t, "compare", "--quiet", "--config", exp, "--set", "stop.virtual_seconds=2", "--schedules", "fixed,rounds", "--out", out); status != 0 || !strings.Contains(stdout+stderr, "rounds") {
				t.Errorf("%d, %s%s", status, stdout, stderr)
			}
		})
	}
}

// A proposal says what a run by it would, and its model reads what the table has.
func TestOwnData_Proposals(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path, exp := filepath.Join(dir, "own.csv"), filepath.Join(dir, "exp.yaml")
	propose := func(text string) string {
		putFile(t, path, []byte(text))
		proposal := success(t, "info", path)
		putFile(t, exp, []byte(proposal))
		return proposal
	}
	putFile(t, path, []byte("user,x,label\n"+strings.Repeat("a,1,caf\xe9\nb,2,th\xe9\n", 9)))
	if status, _, stderr := call(t, &recorder{}, "data", "info", path); status != 1 ||
		!strings.Contains(stderr, `line 2, byte 5, column label: "caf\xe9" is not UTF-8 (iconv`) {
		t.Errorf("Latin-1: status %d, %s", status, stderr)
	}
	const said = "\"a text of more than twenty bytes, and of more\""
	for text, model := range map[string]string{
		"user,said,label\n" + strings.Repeat("a,"+said+",p\nb,"+said+",q\n", 9): "model: [embedding: 32, average, dense] # tells the class of a text by its characters, in any order; for a start",
		"user,said\n" + strings.Repeat("a,"+said+"\nb,"+said+"\n", 12):          "model: [embedding: 8, gru: 32, dense] # tells the next token; for a start",
	} {
		has(t, propose(text), model)
		out := filepath.Join(dir, "run")
		if status, _, stderr := callAll(t, "run", "--quiet", "--config", exp, "--set", "stop.rounds=1", "--out", out, "--force"); status != 0 {
			t.Errorf("%s: %s", model, stderr)
		}
	}
}

// The rate that is proposed for a regression suits the samples: neither targets far from 0
// nor columns of one kind that are far from 0 make the steps diverge.
func TestOwnData_ProposedRegression(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		of             func(z float64) (x, y float64)
		rate, why      string
		spread, better float64 // of targets, and the error that a few rounds come below
	}{
		"near 0":      {func(z float64) (x, y float64) { return z, z }, "0.1 ", "# a guess; fedpace tune --grid schedule.eta0=0.01,0.03,0.1,0.3 finds", 1, 0.05},
		"far targets": {func(z float64) (x, y float64) { return z, 4e5 + 1e5*z }, "0.1 ", "target_scale: standard       # a model learns deviations from the mean", 1e5, 5e3},
		"far columns": {func(z float64) (x, y float64) { return 7 + 2*z, z }, "0.0008 ", "# a guess; fedpace tune --grid schedule.eta0=8e-05,0.0002,0.0008,0.002 finds", 1, 0.5},
	} {
		dir, r := t.TempDir(), rand.New(rand.NewPCG(5, 6))
		path, exp, out := filepath.Join(dir, "own.csv"), filepath.Join(dir, "exp.yaml"), filepath.Join(dir, "run")
		text := "town,a,b,c,d,e,f,g,h,i,j,k,l,price\n"
		for i := range 200 {
			z := 2*r.Float64() - 1
			x, y := c.of(z)
			text += fmt.Sprintf("t%d%s,%g\n", i%5, strings.Repeat(fmt.Sprintf(",%.3f", x), 12), y+c.spread*0.01*r.Float64())
		}
		putFile(t, path, []byte(text))
		proposal := success(t, "info", path)
		has(t, proposal, "schedule.eta0: "+c.rate, c.why)
		putFile(t, exp, []byte(proposal))
		if status, _, stderr := callAll(t, "run", "--quiet", "--config", exp, "--set", "stop.rounds=20", "--out", out); status != 0 {
			t.Errorf("%s: %s", name, stderr)
			continue
		}
		s, err := folder.ReadSummary(filepath.Join(out, folder.SummaryFile))
		if err != nil {
			t.Fatal(err)
		}
		if best := *s.Metrics[0].Best; best > c.better {
			t.Errorf("%s: a mean absolute error of %g", name, best)
		}
	}
}

// What a configuration of task custom lacks is named in one error, with a way to find it.
func TestOwnData_CustomNeeds(t *testing.T) {
	t.Parallel()
	sets := []string{"task=custom", "data={path: own.csv, features: x, label: y}", "model=linear", "schedule.k0=1", "schedule.eta0=0.1", "compute.seconds_per_step=1", "network.download_mbps=1", "network.upload_mbps=1", "stop.rounds=1"}
	for i, want := range []string{
		"data: is not set: task custom has no data of its own (set data: {path: own.csv, ...}; fedpace init own.csv proposes it); it also needs model, schedule.k0, schedule.eta0, compute.seconds_per_step, network.download_mbps, network.upload_mbps and stop",
		"model: is not set: task custom has no model of its own",
		"schedule.k0: is not set", "schedule.eta0: is not set", "compute.seconds_per_step: is not set", "network.download_mbps: is not set",
		"network.upload_mbps: is not set", "stop: is not set", "own.csv: no such file or directory",
	} {
		var args []string
		for _, s := range sets[:1+i] {
			args = append(args, "--set", s)
		}
		if i == 8 {
			args = append(args, "--out", t.TempDir()+"/run")
		}
		status, _, stderr := callAll(t, append([]string{"run", "--quiet"}, args...)...)
		if status == 0 || !strings.Contains(stderr, want) {
			t.Errorf("%s: %s, want %s", sets[i], stderr, want)
		}
	}
}

// A mapping on the command line reads what a configuration reads.
func TestOwnData_MapFlags(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "own.csv")
	text := "a,b,y\n"
	for i := range 40 {
		text += fmt.Sprintf("%d,%d,%d\n", i, i*i, i%4)
	}
	putFile(t, path, []byte(text))
	own := []string{"--map", "features=a,b", "--map", "label=y"}
	has(t, success(t, append([]string{"info", path}, own...)...), "clients    none: the rows are nobody's until fedpace data partition deals them", "classes    4")
	out := filepath.Join(t.TempDir(), "own.fedpace")
	has(t, success(t, append([]string{"partition", path, "--kind", "dirichlet", "--clients", "5", "--out", out}, own...)...), "clients    5\n", "use        fedpace run --set task=custom --set data="+out)
	for _, c := range []struct{ flag, want string }{
		{"labels=y", `--map: "labels=y", want option=value with one of client, features`},
		{"window=few", `--map: window: "few" is not a whole number`},
		{"scale=log", `--map: scale: "log" is not one of none, standard, pixels`},
		{"window=3", "--map: window: is the tokens of a text, and there is none"},
		{"target=a", "--map: target: want either a label or a target"},
	} {
		if status, _, stderr := callData(t.Context(), nil, append([]string{"info", path, "--map", c.flag}, own...)...); status != 2 || !strings.Contains(stderr, c.want) {
			t.Errorf("%s: %s, want %s", c.flag, stderr, c.want)
		}
	}
}

// callAll runs any command of the program.
func callAll(t *testing.T, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	status = execute(t.Context(), library, args, &out, &errs)
	return status, out.String(), errs.String()
}

// The measures that a proposal adds change no bit of other columns, and are those of the model's
// predictions in the table's unit: R² and the baseline follow from its errors.
func TestProposal_MeasuresChangeNothingElse(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path, exp := filepath.Join(dir, "own.csv"), filepath.Join(dir, "exp.yaml")
	for name, c := range map[string]struct {
		row      func(i int) string
		measures []string
	}{
		"classes": {
			func(i int) string {
				return fmt.Sprintf("%d,%d,%s", i%7, i*i%11, []string{"ash", "birch", "cedar"}[i*i%3])
			},
			[]string{"majority_share", "balanced_accuracy", "f1_macro", "auroc"},
		},
		"numbers": {
			func(i int) string { return fmt.Sprintf("%d,%d,%d.5", i%7, i*i%11, 40*(i%7)+i*i%11) },
			[]string{"mean_baseline", "r2"},
		},
	} {
		text := "user,a,b,answer\n"
		for i := range 400 {
			text += fmt.Sprintf("u%d,%s\n", i%5, c.row(i))
		}
		putFile(t, path, []byte(text))
		putFile(t, exp, []byte(success(t, "info", path)))
		var tables [2][]string
		for i, more := range []string{"evaluate.every=1", "evaluate.measures=null"} {
			out := filepath.Join(dir, name, fmt.Sprint(i))
			if status, _, stderr := callAll(t, "run", "--quiet", "--config", exp, "--set", "stop.rounds=3", "--set", "evaluate.every=1", "--set", more, "--out", out); status != 0 {
				t.Fatalf("%s: %s", name, stderr)
			}
			b, err := os.ReadFile(filepath.Join(out, "rounds.csv"))
			if err != nil {
				t.Fatal(err)
			}
			tables[i] = strings.Split(strings.TrimSpace(string(b)), "\n")
		}
		header := strings.Split(tables[0][0], ",")
		var added []string
		for i, line := range tables[0] {
			var kept []string
			for j, field := range strings.Split(line, ",") {
				if slices.Contains(c.measures, strings.TrimPrefix(header[j], "validation_")) {
					if i == 0 {
						added = append(added, strings.TrimPrefix(field, "validation_"))
					} else if field == "" {
						t.Errorf("%s: round %d has no %s", name, i, header[j])
					}
					continue
				}
				kept = append(kept, field)
			}
			if got := strings.Join(kept, ","); got != tables[1][i] {
				t.Errorf("%s: line %d is %s beside the measures, and %s without", name, i, got, tables[1][i])
			}
		}
		if !slices.Equal(added, c.measures) {
			t.Errorf("%s: measures %q, want %q", name, added, c.measures)
		}
	}
}
