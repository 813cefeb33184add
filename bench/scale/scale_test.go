package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"fedpace/bench/internal/process"
	"fedpace/experiment/config"
	"fedpace/internal/table"
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
		if l.Cohort*l.rounds < all[number].Cohort*all[number].rounds {
			number = i
		}
	}
	m := all[number]
	if err := m.measure(t.Context(), number, config.Embedded, 1); err != nil {
		t.Fatal(err)
	}
	if want := (all[number].Cohort * all[number].rounds); m.Tasks != want || m.Seconds <= 0 || m.CPU <= 0 {
		t.Errorf("%+v, want %d client-rounds", m, want)
	}
	if m.Bytes > 0 && (m.Bytes < 5e6 || m.Bytes > 2e9) {
		t.Errorf("peak memory of %g bytes", m.Bytes)
	}
}

// What misses a target is told, and only that.
func TestTargets(t *testing.T) {
	all := lines()
	for i := range all {
		all[i].Tasks, all[i].Seconds, all[i].CPU, all[i].Bytes, all[i].Pace = 300_000, 1, 2, 2e8, 300_000
	}
	if list := missed(all); len(list) > 0 {
		t.Errorf("missed: %q", list)
	}
	full := len(populations)
	if !strings.HasPrefix(all[full].Name, "full scale") {
		t.Fatalf("line %d is %+v", full, all[full])
	}
	for want, change := range map[string]func(m []line){
		"1.60 times":               func(m []line) { m[3].Seconds = 1.6 },
		"249900 client-rounds/s":   func(m []line) { m[full].Pace = 249_900 },
		"2000 MB at full scale, w": func(m []line) { m[full].Bytes = 2e9 },
	} {
		bad := slices.Clone(all)
		change(bad)
		if list := missed(bad); len(list) != 1 || !strings.Contains(list[0], want) {
			t.Errorf("missed: %q, want %q", list, want)
		}
	}
}

func TestTableAndFigure(t *testing.T) {
	all := lines()
	for i := range all {
		all[i].Tasks, all[i].Seconds, all[i].CPU, all[i].Bytes = 1000, 0.5, 1, 1e8
	}
	var text bytes.Buffer
	path := filepath.Join(t.TempDir(), "scale.csv")
	if err := errors.Join(write(&text, all), table.Write(path, all, digits)); err != nil {
		t.Fatal(err)
	}
	if rows, err := table.Read[line](path); err != nil || len(rows) != len(all) || !strings.Contains(text.String(), "1.00 times") {
		t.Errorf("%d rows (%v); %s", len(rows), err, text.String())
	}
	for _, p := range panels(all) {
		if p.Lines[0].Points[0].X != 10_000 || p.Lines[0].Points[4].X != 1_000_000 {
			t.Errorf("%s: %+v", p.Title, p.Lines[0].Points)
		}
	}
}

func TestUsage(t *testing.T) {
	for _, args := range [][]string{{"--repeat", "0"}, {"more"}, {"--line", "99"}, {"--what"}} {
		var told bytes.Buffer
		if err := command(t.Context(), args, &told, &told); !errors.Is(err, process.ErrUsage) || told.Len() == 0 {
			t.Errorf("%q: %v, %s", args, err, told.String())
		}
	}
	if err := command(t.Context(), []string{"--figure", filepath.Join(t.TempDir(), "x.pdf")}, os.Stderr, os.Stderr); err == nil || errors.Is(err, process.ErrUsage) {
		t.Errorf("a figure of an unknown format: %v", err)
	}
}

// The figure in docs is that of the table beside it.
func TestTheFigureInDocsIsThatOfItsTable(t *testing.T) {
	all, err := table.Read[line]("../../docs/scale.csv")
	if err != nil || len(all) != len(lines()) {
		t.Fatalf("%d rows for %d lines (%v)", len(all), len(lines()), err)
	}
	var drawn bytes.Buffer
	if err := figure.Write(&drawn, "svg", panels(all)); err != nil {
		t.Fatal(err)
	}
	if want, err := os.ReadFile("../../docs/scale.svg"); err != nil || !bytes.Equal(drawn.Bytes(), want) {
		t.Errorf("docs/scale.svg is not the figure of its table: draw it anew (%v)", err)
	}
}
