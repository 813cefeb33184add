//go:build unix

package examples

import (
	"encoding/csv"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// A README is about the table in its folder: it has the best accuracy of every row, or
// the best of the metric in its place.
func TestReadmes_NumbersOfTables(t *testing.T) {
	tables, err := filepath.Glob("*/compare.csv")
	if err != nil || len(tables) == 0 {
		t.Fatalf("%d tables, %v", len(tables), err)
	}
	for _, path := range tables {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		readme, err := os.ReadFile(filepath.Join(filepath.Dir(path), "README.md"))
		if err != nil {
			t.Fatal(err)
		}
		rows, err := csv.NewReader(strings.NewReader(string(text))).ReadAll()
		if err != nil || len(rows) < 2 {
			t.Fatalf("%s: %d rows, %v", path, len(rows), err)
		}
		best := slices.IndexFunc(rows[0], func(name string) bool { return strings.HasPrefix(name, "best_validation_") })
		for _, row := range rows[1:] {
			x, err := strconv.ParseFloat(row[best], 64)
			if !strings.Contains(string(readme), fmt.Sprintf("%.4f", x)) && !strings.Contains(string(readme), fmt.Sprintf("%.3f", x)) {
				t.Errorf("%s: the README does not have %v, %v, the best of %s", path, row[best], err, row[0])
			}
		}
	}
}

// The index names every example, and nothing that is not there.
func TestIndex_Whole(t *testing.T) {
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	folders, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range folders {
		if f.IsDir() && !strings.Contains(string(text), "["+f.Name()+"](") {
			t.Errorf("README.md does not name %s", f.Name())
		}
	}
}
