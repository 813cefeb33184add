package validation

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// example is the folder of the study with devices whose links and cores are limited.
const example = "../../examples/validation"

// TestExample_Orders recomputes the orders of each fleet from its committed table, and
// finds them in the fleet's text and on the page.
func TestExample_Orders(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(example, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	tables, err := filepath.Glob(filepath.Join(example, "*", "settings.csv"))
	if err != nil || len(tables) == 0 {
		t.Fatalf("no table of settings: %v", err)
	}
	for _, path := range tables {
		fleet := filepath.Base(filepath.Dir(path))
		t.Run(fleet, func(t *testing.T) {
			v := readSettings(t, path)
			rounds := v.order(func(s *Setting) Pair { return s.RoundSeconds })
			tails := v.order(func(s *Setting) Pair { return s.Tail })
			row := fmt.Sprintf(
				"| %d of %d | %s | %d of %d | %s | %.3f |",
				rounds.Same, rounds.Pairs, correlation(rounds.Kendall),
				tails.Same, tails.Pairs, correlation(tails.Kendall),
				meanTailError(v),
			)
			if !strings.Contains(string(page), row) {
				t.Errorf("README.md does not have %q", row)
			}
			var sentences bytes.Buffer
			rounds.write(&sentences, "seconds a round")
			tails.write(&sentences, "tail accuracy")
			text, err := os.ReadFile(filepath.Join(filepath.Dir(path), "validation.txt"))
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(string(text), sentences.String()) {
				t.Errorf("validation.txt does not have\n%s", sentences.String())
			}
		})
	}
}

// meanTailError is the mean over settings of how far the simulated tail is from the measured one.
func meanTailError(v *Validation) float64 {
	sum := 0.0
	for i := range v.Settings {
		tail := &v.Settings[i].Tail
		sum += math.Abs(tail.Measured - tail.Simulated)
	}
	return sum / float64(len(v.Settings))
}

// readSettings reads what [Validation.WriteCSV] wrote.
func readSettings(t *testing.T, path string) *Validation {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	column := map[string]int{}
	for i, name := range rows[0] {
		column[name] = i
	}
	v := &Validation{}
	for _, row := range rows[1:] {
		number := func(name string) float64 {
			x, err := strconv.ParseFloat(row[column[name]], 64)
			if err != nil {
				t.Fatalf("%s: %s of %s: %v", path, name, row[0], err)
			}
			return x
		}
		s := Setting{Name: row[0]}
		s.RoundSeconds = Pair{number("round_seconds"), number("simulated_round_seconds")}
		s.Tail = Pair{number("tail"), number("simulated_tail")}
		for _, name := range []string{"version", "configuration", "data_digest", "kernel"} {
			if row[column[name]] == "" {
				t.Errorf("%s: %s has no %s", path, row[0], name)
			}
		}
		v.Settings = append(v.Settings, s)
	}
	return v
}
