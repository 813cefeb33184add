package cmd

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
)

func TestTheory(t *testing.T) {
	errata := read(t, "../docs/theory/errata.txt")
	t.Chdir(t.TempDir())
	r := &recorder{}
	ok := func(args ...string) string {
		t.Helper()
		status, stdout, stderr := call(t, r, append([]string{"theory"}, args...)...)
		if status != 0 {
			t.Fatalf("%v: status %d, %s", args, status, stderr)
		}
		return stdout
	}
	small := []string{"--set", "quadratic={dimension: 4, samples: 8}", "--set", "clients=6", "--set", "cohort=2", "--set", "schedule.k0=4", "--set", "stop.rounds=12"}

	if out := ok(append([]string{"advise"}, small...)...); !strings.HasPrefix(out, "quadratic: 2 clients a round") || !strings.Contains(out, "K* (Eq. 9)") {
		t.Errorf("without a task:\n%s", out)
	}
	var advice struct {
		Rows []struct {
			K float64 `json:"k_star"`
		} `json:"rows"`
	}
	out := ok("advise", "--set", "task=femnist", "--l", "4", "--mu", "0.1", "--g", "2", "--loss", "4.1", "--points", "7", "--figure", "k.svg", "--json")
	if err := json.Unmarshal([]byte(out), &advice); err != nil || len(advice.Rows) != 7 || advice.Rows[0].K <= advice.Rows[6].K {
		t.Errorf("%v: %s", err, out)
	}
	if svg, err := os.ReadFile("k.svg"); err != nil || !strings.Contains(string(svg), "Eq. 9") {
		t.Errorf("the figure: %v", err)
	}
	// Flags go before the configuration.
	if out := ok("advise", "--set", "task=femnist", "--set", "theory={l: 4, mu: 0.1, g: 2}", "--loss", "4.1", "--l", "5", "--gap", "appendix"); !strings.Contains(out, "L         5") || !strings.Contains(out, "gap: F − F*") {
		t.Errorf("constants of a configuration:\n%s", out)
	}
	if out := ok("errata"); !strings.Contains(out, "Eq. 9, 10") || out != errata {
		t.Errorf("the errata:\n%s", out)
	}
	if status, _, stderr := callAll(t, append([]string{"run", "--quiet", "--set", "task=quadratic", "--out", "runs/demo"}, small...)...); status != 0 {
		t.Fatalf("status %d, %s", status, stderr)
	}
	if out := ok("advise", "--run", "runs/demo", "--points", "3"); !strings.Contains(out, "K used") {
		t.Errorf("of a run:\n%s", out)
	}
}

func TestTheory_Mistakes(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, test := range []struct {
		args   string
		status int
		want   string
	}{
		{"advise --l four", 2, `"four" is not a number`},
		{"advise --l 4x", 2, `is not a number`},
		{"advise --g 1e31", 2, `from -1e30 to 1e30`},
		{"advise --points 1", 2, "2 to 1000"},
		{"advise --seeds 3", 2, "unknown flag: --seeds"},
		{"lab", 2, "go run ./examples/theory"},
		{"lab --seeds 2 --out runs/lab", 2, "go run ./examples/theory"},
		{"advise --figure a.gif", 2, "ends in .svg"},
		{"advise --gap other", 2, "proof, stated, appendix"},
		{"advise --run x --set seed=1", 2, "its own configuration"},
		{"advise --set seed", 2, "want key=value"},
		{"advise --set task=femnist", 2, "--l is not given"},
		{"advise --set task=quadratic --set cohort=0", 1, "cohort"},
		{"advise --run nowhere", 1, "nowhere"},
		{"extra", 2, "extra"},
		// What versions before took without a command below theory.
		{"--errata", 2, "write fedpace theory errata)"},
		{"--run runs/demo", 2, "write fedpace theory advise --run)"},
		{"--set seed=1 --errata", 2, "write fedpace theory advise --set)"},
	} {
		status, stdout, stderr := call(t, &recorder{}, append([]string{"theory"}, strings.Fields(test.args)...)...)
		if status != test.status || stdout != "" || !strings.Contains(stderr, test.want) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%s: status %d, %q, %q; want %d and one line with %q", test.args, status, stdout, stderr, test.status, test.want)
		}
	}
}
