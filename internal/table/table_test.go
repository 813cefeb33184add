package table

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// span is a value of two numbers.
type span struct{ low, high float64 }

func (s span) Parts() ([]string, []float64) { return []string{"", "_high"}, []float64{s.low, s.high} }

// Every form of a table follows from its columns.
func TestTable_Forms(t *testing.T) {
	type run struct {
		name string
		loss float64
		took span
	}
	columns := Columns[run]{
		{Title: "run", Text: func(r run) string { return strings.ToUpper(r.name) }},
		{Name: "loss", Title: "loss", Of: func(r run) any { return r.loss }},
		{Name: "seconds", Of: func(r run) any { return r.took }},
	}
	rows := []run{{"a", 0.125, span{1, 2}}, {"b", math.NaN(), span{3, math.NaN()}}}
	if diff := cmp.Diff([][]string{{"run", "loss"}, {"A", "0.125"}, {"B", ""}}, columns.Texts(rows)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([][]string{{"loss", "seconds", "seconds_high"}, {"0.12", "1", "2"}, {"", "3", ""}}, columns.Records(rows, 2)); diff != "" {
		t.Error(diff)
	}
	objects, err := json.Marshal(columns.Objects(rows))
	if want := `[{"loss":0.125,"seconds":{"high":2,"mean":1}},{"loss":null,"seconds":{"high":null,"mean":3}}]`; err != nil || string(objects) != want {
		t.Errorf("%s, %v", objects, err)
	}
	var text strings.Builder
	if err := WriteNumbers(&text, columns.Texts(rows)); err != nil || text.String() != "  run   loss\n    A  0.125\n    B       \n" {
		t.Errorf("%q, %v", text.String(), err)
	}
}

// A table that is too wide becomes several, each of which says what its rows are.
func TestTable_WideIsFolded(t *testing.T) {
	rows := [][]string{{"run", "x", "loss", "y"}, {"a", strings.Repeat("±", 50), strings.Repeat("l", 41), "1"}}
	var text strings.Builder
	if err := WriteFolded(&text, rows, 1); err != nil {
		t.Fatal(err)
	}
	want := "  run" + strings.Repeat(" ", 51) + "x" + strings.Repeat(" ", 39) + "loss\n    a  " + rows[1][1] + "  " + rows[1][2] + "\n\n  run  y\n    a  1\n"
	if text.String() != want {
		t.Errorf("%q, want %q", text.String(), want)
	}
}
