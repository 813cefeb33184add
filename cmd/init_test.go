package cmd

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"fedpace/experiment/folder"
	"fedpace/internal/testkit/installed"
	"fedpace/internal/testkit/slow"
)

// ownTables are files of a new user's, by what is to be learned of them. The words that decide what is
// said have the same letters.
func ownTables() map[string]string {
	words, prices, said, next := "day,site,colour,width,kind\n", "town,rooms,garden,price\n", "user,said,mood\n", "writer,line\n"
	for i := range 240 {
		kind := []string{"ash", "birch", "cedar"}[i%3]
		words += fmt.Sprintf("2024-03-%02d,site %d,%s,%g,%s\n", i%28+1, i%6, []string{"red", "blue"}[i/7%2], float64(i%3)+0.1*float64(i%5), kind)
		prices += fmt.Sprintf("t%d,%d,%t,%g\n", i%6, i%5, i%2 == 0, float64(i%5)+0.5)
		said += fmt.Sprintf("u%d,the %d trains are %s today,%s\n", i%6, i, []string{"evil", "live"}[i%2], []string{"bad", "good"}[i%2])
		if i < 24 {
			next += fmt.Sprintf("w%d,the %d dogs and the cats sleep in the sun\n", i%2, i)
		}
	}
	return map[string]string{"words": words, "prices": prices, "said": said, "next": next}
}

// rounds keep the runs of those files short.
var rounds = map[string]string{"words": "stop.rounds=100", "prices": "stop.rounds=10", "said": "stop.rounds=10", "next": "stop.rounds=2"}

// begun writes a table and what init makes of it.
func begun(t *testing.T, name, text string, flags ...string) (exp, said string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), name+".csv")
	putFile(t, path, []byte(text))
	exp = filepath.Join(filepath.Dir(path), name+".yaml")
	status, said, stderr := callAll(t, append([]string{"init", path, "--out", exp}, flags...)...)
	if status != 0 {
		t.Fatal(stderr)
	}
	return exp, said
}

// best plays a configuration and is what it comes to.
func best(t *testing.T, args ...string) float64 {
	t.Helper()
	out := filepath.Join(t.TempDir(), "run")
	if _, stderr, exit := finish(t, fedpace(t, append([]string{"run", "--quiet", "--out", out}, args...)...)); exit != 0 {
		t.Fatal(stderr)
	}
	s, err := folder.ReadSummary(filepath.Join(out, folder.SummaryFile))
	if err != nil || s.Rounds == 0 {
		t.Fatal(err)
	}
	return *s.Metrics[0].Best
}

// What init writes runs, and a table without a configuration runs by the same.
func TestInit_WritesRunnable(t *testing.T) {
	t.Parallel()
	for name, text := range ownTables() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			exp, said := begun(t, name, text)
			has(t, said, "wrote  "+exp+"\n", "next   fedpace run --config "+exp)
			with, without := best(t, "--config", exp, "--set", rounds[name]), best(t, "--set", "data="+strings.TrimSuffix(exp, "yaml")+"csv", "--set", rounds[name])
			if with != without {
				t.Errorf("%g by what init wrote, %g by the table", with, without)
			}
			if name == "words" && with < 0.95 {
				t.Errorf("accuracy %g", with)
			}
			if status, _, stderr := callAll(t, "init", strings.TrimSuffix(exp, "yaml")+"csv", "--out", exp); status != 1 || !strings.Contains(stderr, exp+": is there, and init overwrites nothing") {
				t.Errorf("%d, %s", status, stderr)
			}
		})
	}
}

// A Parquet file without a configuration runs by what init would write, too.
func TestInit_ParquetWithoutConfiguration(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "own.parquet")
	if err := parquet.WriteFile(path, ownRows()); err != nil {
		t.Fatal(err)
	}
	if accuracy := best(t, "--set", "data="+path, "--set", "stop.rounds=30"); accuracy < 0.9 {
		t.Errorf("accuracy %g", accuracy)
	}
}

// The script that init writes trains each kind of samples.
func TestInit_WritesScript(t *testing.T) {
	slow.Test(t, "it trains in PyTorch")
	t.Parallel()
	python := installed.Python(t, "torch")
	for name, text := range ownTables() {
		exp, said := begun(t, name, text, "--torch")
		script := strings.TrimSuffix(exp, ".yaml") + "_model.py"
		has(t, said, "wrote  "+script)
		short := []string{"--set", rounds[name], "--trainer", python + " " + script}
		with := best(t, append(short, "--config", exp)...)
		if without := best(t, append(short, "--set", "data="+strings.TrimSuffix(exp, "yaml")+"csv")...); with != without {
			t.Errorf("%s: %g by what init wrote, %g by the table", name, with, without)
		}
		t.Logf("%s: %g", name, with)
		if (name == "words" || name == "said") && with < 0.95 {
			t.Errorf("%s: accuracy %g", name, with)
		}
	}
}

// The script learns targets of any size with the rate that is proposed, and its error has their unit.
func TestInit_ScriptScalesTargets(t *testing.T) {
	slow.Test(t, "it trains in PyTorch")
	t.Parallel()
	python := installed.Python(t, "torch")
	for name, price := range map[string]struct{ lowest, step float64 }{
		"days":  {0, 58.5},
		"large": {1e6, 1e6},
	} {
		text := "town,rooms,garden,price\n"
		for i := range 240 {
			text += fmt.Sprintf("t%d,%d,%t,%g\n", i%6, i%7, i%2 == 0, price.lowest+price.step*(float64(i%7)+0.02*float64(i%11)))
		}
		exp, _ := begun(t, name, text, "--torch")
		script := strings.TrimSuffix(exp, ".yaml") + "_model.py"
		has(t, read(t, script), "\nmean, deviation = ")
		err := best(t, "--config", exp, "--trainer", python+" "+script, "--set", "stop.rounds=30")
		// Always saying the mean would be off by 12/7 steps.
		if err > 0.3*price.step {
			t.Errorf("%s: a mean absolute error of %g", name, err)
		}
		t.Logf("%s: %g", name, err)
	}
}

// The page shows the script that init writes, which is as short as README says.
func TestInit_PageShowsScript(t *testing.T) {
	t.Parallel()
	for name, text := range ownTables() {
		exp, _ := begun(t, name, text, "--torch")
		script := read(t, strings.TrimSuffix(exp, ".yaml")+"_model.py")
		if name == "said" {
			has(t, read(t, exp), "tokens: words", "schedule.eta0: 3 ")
			has(t, script, "return nn.Linear(data.features, data.classes)")
		}
		if strings.Count(script, "\n") > 25 {
			t.Errorf("it is long:\n%s", script)
		}
		_, shown, _ := strings.Cut(script, "\n") // the first line names the file
		if page := read(t, "../docs/experiment.md"); name == "words" && !strings.Contains(page, "```python\n"+shown+"```") {
			t.Errorf("docs/experiment.md does not show\n%s", shown)
		}
	}
}

// Tables of a grid without a configuration are each guessed for themselves.
func TestInit_GridTables(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"words", "prices"} {
		putFile(t, filepath.Join(dir, name+".csv"), []byte(ownTables()[name]))
	}
	c := fedpace(t, "compare", "--grid", "data=words.csv,prices.csv", "--schedules", "fixed", "--seeds", "1", "--set", "stop.rounds=2", "--out", "both")
	c.Dir = dir
	if _, stderr, exit := finish(t, c); exit != 0 {
		t.Fatal(stderr)
	}
	table := read(t, filepath.Join(dir, "both", "runs.csv"))
	has(t, table, "words.csv", "prices.csv")
}

// Numbers that may be read in two ways are a warning, of init and of info.
func TestInit_WarnsOfThousands(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "kunden.csv")
	putFile(t, path, []byte("Client;Umsatz;Klasse\n"+strings.Repeat("a;750;p\na;2.229;q\nb;1.980;p\nb;640;q\n", 9)))
	exp := filepath.Join(filepath.Dir(path), "own.yaml")
	const want = "column Umsatz has 2.229, or is it 2229?): set decimal: comma if they do, else decimal: point"
	status, _, stderr := callAll(t, "init", path, "--out", exp)
	if status != 0 || !strings.HasPrefix(stderr, "warning: data: ") || !strings.Contains(stderr, want) {
		t.Errorf("init: %d, %s", status, stderr)
	}
	has(t, read(t, exp), want)
	status, said, stderr := callAll(t, "data", "info", path)
	if status != 0 || !strings.Contains(stderr, want) {
		t.Errorf("info: %d, %s", status, stderr)
	}
	has(t, said, want)
	has(t, success(t, "info", "--config", exp), want)
	// The option is set without a configuration, too.
	for _, key := range []string{"data=", "data.path="} {
		best(t, "--set", key+path, "--set", "data.decimal=comma", "--set", "stop.rounds=2")
	}
}

// What init cannot know it says, with what to do.
func TestInit_Asks(t *testing.T) {
	t.Parallel()
	exp, said := begun(t, "alone", "x,z,label\n"+strings.Repeat("1,2.5,a\n2,3.5,b\n", 60))
	dealt := filepath.Join(t.TempDir(), "alone.fedpace")
	has(t, said, "no column says whose a row is", "fedpace data partition --config "+exp+" --kind dirichlet --clients 20 --out alone.fedpace")
	status, partitioned, stderr := callAll(t, "data", "partition", "--config", exp, "--kind", "dirichlet", "--clients", "20", "--out", dealt)
	if status != 0 {
		t.Fatal(stderr)
	}
	has(t, partitioned, "use        fedpace run --config "+exp+" --set data="+dealt+"\n")
	best(t, "--config", exp, "--set", "data="+dealt, "--set", "stop.rounds=2")
	// Another file in the place of the mapping is told of the key that keeps it.
	csv := strings.TrimSuffix(exp, "yaml") + "csv"
	if status, _, stderr := callAll(t, "run", "--config", exp, "--set", "data="+csv); status != 1 || !strings.Contains(stderr, "data.path alone changes the file and keeps a mapping") {
		t.Errorf("%d, %s", status, stderr)
	}
	// A second configuration of the table has a prepared file of its own.
	other := filepath.Join(filepath.Dir(exp), "other.yaml")
	status, said, stderr = callAll(t, "init", csv, "--torch", "--out", other)
	if status != 0 {
		t.Fatal(stderr)
	}
	has(t, said, "--out other.fedpace\n", "--set data=other.fedpace")
	_, said = begun(t, "odd", "client,note\n"+strings.Repeat("a,x\nb,y\n", 5))
	has(t, said, "next   correct ", "fedpace data info --config ")
	for text, want := range map[string]string{
		"client,x,label\n" + strings.Repeat("a,\"2,5\",p\nb,\"3,5\",q\n", 9): "column x has numbers with a comma, as in 2,34; want decimal: comma",
		"client,x,y\n" + strings.Repeat("a,1,0\n", 3) + "b,1,\"broken":       "own.csv: line 5",
		"": "own.csv: is empty",
	} {
		path := filepath.Join(t.TempDir(), "own.csv")
		putFile(t, path, []byte(text))
		if status, _, stderr := callAll(t, "init", path, "--out", filepath.Join(t.TempDir(), "own.yaml")); status != 1 || !strings.Contains(stderr, want) {
			t.Errorf("%d, %s, want %s", status, stderr, want)
		}
	}
}
