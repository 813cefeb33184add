package main

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fedpace/metrics/figure"
)

// TestMain makes the test's own binary do a line where it is asked to, as the
// command does with itself.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == child {
		if err := command(context.Background(), os.Args[1:], os.Stdout, os.Stderr); err != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// A line is measured in a process of its own.
func TestALineInItsOwnProcess(t *testing.T) {
	all := lines()
	number := 0 // the shortest
	for i, l := range all {
		if l.cohort*l.rounds < all[number].cohort*all[number].rounds {
			number = i
		}
	}
	m, err := all[number].measure(t.Context(), number, 1)
	if err != nil {
		t.Fatal(err)
	}
	if want := int64(all[number].cohort * all[number].rounds); m.Tasks != want || m.Seconds <= 0 || m.CPU <= 0 {
		t.Errorf("%+v, want %d client-rounds", m, want)
	}
	if m.Bytes > 0 && (m.Bytes < 5e6 || m.Bytes > 2e9) {
		t.Errorf("peak memory of %g bytes", m.Bytes)
	}
}

// What misses a target is told, and only that.
func TestTargets(t *testing.T) {
	all := lines()
	good := make([]measurement, len(all))
	for i := range good {
		good[i] = measurement{Tasks: 300_000, Seconds: 1, CPU: 2, Bytes: 2e8}
	}
	if list := missed(all, good); len(list) > 0 {
		t.Errorf("missed: %q", list)
	}
	full := len(curve(all))
	if !all[full].target {
		t.Fatalf("line %d is %+v", full, all[full])
	}
	for want, change := range map[string]func(m []measurement){
		"1.60 times":               func(m []measurement) { m[3].Seconds = 1.6 },
		"249900 client-rounds/s":   func(m []measurement) { m[full].Tasks = 249_900 },
		"2000 MB at full scale, w": func(m []measurement) { m[full].Bytes = 2e9 },
	} {
		bad := append([]measurement(nil), good...)
		change(bad)
		if list := missed(all, bad); len(list) != 1 || !strings.Contains(list[0], want) {
			t.Errorf("missed: %q, want %q", list, want)
		}
	}
}

func TestTableAndFigure(t *testing.T) {
	all := lines()
	results := make([]measurement, len(all))
	for i := range results {
		results[i] = measurement{Tasks: 1000, Seconds: 0.5, CPU: 1, Bytes: 1e8}
	}
	var text, rows bytes.Buffer
	if err := errors.Join(write(&text, all, results), writeCSV(&rows, all, results)); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(rows.String(), "\n"); n != 1+len(all) || !strings.Contains(text.String(), "1.00 times") {
		t.Errorf("%d rows; %s", n, text.String())
	}
	for _, p := range panels(all, results) {
		if p.Lines[0].Points[0].X != 10_000 || p.Lines[0].Points[4].X != 1_000_000 {
			t.Errorf("%s: %+v", p.Title, p.Lines[0].Points)
		}
	}
}

func TestUsage(t *testing.T) {
	for _, args := range [][]string{{"--repeat", "0"}, {"more"}, {"--line", "99"}, {"--what"}} {
		var told bytes.Buffer
		if err := command(t.Context(), args, &told, &told); !errors.Is(err, errUsage) || told.Len() == 0 {
			t.Errorf("%q: %v, %s", args, err, told.String())
		}
	}
	if err := command(t.Context(), []string{"--figure", filepath.Join(t.TempDir(), "x.pdf")}, os.Stderr, os.Stderr); err == nil || errors.Is(err, errUsage) {
		t.Errorf("a figure of an unknown format: %v", err)
	}
}

// The figure in docs is that of the table beside it.
func TestTheFigureInDocsIsThatOfItsTable(t *testing.T) {
	text, err := os.ReadFile("../../docs/scale.csv")
	if err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(bytes.NewReader(text)).ReadAll()
	all := lines()
	if err != nil || len(rows) != len(all)+1 {
		t.Fatalf("%d rows for %d lines (%v)", len(rows), len(all), err)
	}
	results := make([]measurement, len(all))
	for i, row := range rows[1:] {
		m := &results[i]
		if _, err := fmt.Sscan(strings.Join([]string{row[3], row[4], row[6], row[7]}, " "), &m.Tasks, &m.Seconds, &m.CPU, &m.Bytes); err != nil {
			t.Fatalf("%v: %v", row, err)
		}
	}
	var drawn bytes.Buffer
	if err := figure.Write(&drawn, "svg", panels(all, results)); err != nil {
		t.Fatal(err)
	}
	if want, err := os.ReadFile("../../docs/scale.svg"); err != nil || !bytes.Equal(drawn.Bytes(), want) {
		t.Errorf("docs/scale.svg is not the figure of its table: draw it anew (%v)", err)
	}
}
