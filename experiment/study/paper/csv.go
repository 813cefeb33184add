package paper

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"fedpace/experiment/config"
	"fedpace/internal/atomicfile"
)

// The files in which curves are kept: a row for each cell, and one for each
// point. Numbers are written so that reading gives the same bits.
const (
	CellsFile  = "cells.csv"
	CurvesFile = "curves.csv"
)

const (
	cellsHeader = "task,data,devices,schedule,seed,model_megabits,fixed_rounds,k0,clients,cohort,completed,rounds,virtual_seconds,relative_sgd_steps," +
		"best_training_loss,best_validation_accuracy,validation_accuracy,decayed_after_round,decayed_seconds,plateau_seconds"
	curvesHeader = "task,schedule,seed,model_megabits,round,virtual_seconds,local_steps,best_training_loss,validation_loss,best_validation_accuracy"
)

// Write writes both files to a folder.
func Write(dir string, curves []Curve) error {
	cells := [][]string{strings.Split(cellsHeader, ",")}
	points := [][]string{strings.Split(curvesHeader, ",")}
	for _, c := range curves {
		id := []string{string(c.Task), c.Schedule, strconv.FormatUint(c.Seed, 10), decimal(c.Megabits)}
		cells = append(cells, []string{
			id[0], c.Data, c.Devices, id[1], id[2], id[3], strconv.Itoa(c.FixedRounds), strconv.Itoa(c.K0), strconv.Itoa(c.Clients), strconv.Itoa(c.Cohort), strconv.FormatBool(c.Completed), strconv.Itoa(c.Rounds),
			decimal(c.VirtualSeconds), decimal(c.RelativeSteps), decimal(c.BestLoss), decimal(c.BestAccuracy), decimal(c.FinalAccuracy),
			strconv.Itoa(c.Decayed), decimal(c.DecayedAt), decimal(c.Plateaued),
		})
		for _, p := range c.Points {
			points = append(points, []string{
				id[0], id[1], id[2], id[3], strconv.Itoa(p.Round), decimal(p.VirtualSeconds), strconv.Itoa(p.LocalSteps),
				decimal(p.BestLoss), decimal(p.ValidationLoss), decimal(p.BestAccuracy),
			})
		}
	}
	return errors.Join(writeTable(filepath.Join(dir, CellsFile), cells), writeTable(filepath.Join(dir, CurvesFile), points))
}

func writeTable(path string, records [][]string) error {
	return atomicfile.Write(path, func(w io.Writer) error { return csv.NewWriter(w).WriteAll(records) })
}

func decimal(v float64) string {
	if math.IsNaN(v) {
		return ""
	}
	return strconv.FormatFloat(v, 'g', -1, 64)
}

// Load reads what Write wrote.
func Load(dir string) ([]Curve, error) {
	var curves []Curve
	index := map[string]int{}
	key := func(r *record) string {
		return r.text("task") + " " + r.text("schedule") + " " + r.text("seed") + " " + r.text("model_megabits")
	}
	err := readTable(filepath.Join(dir, CellsFile), cellsHeader, func(r *record) {
		c := Curve{
			Task: config.Task(r.text("task")), Data: r.text("data"), Devices: r.text("devices"), Schedule: r.text("schedule"), Seed: uint64(r.whole("seed")),
			Megabits: r.real("model_megabits"), FixedRounds: r.whole("fixed_rounds"), K0: r.whole("k0"), Clients: r.whole("clients"), Cohort: r.whole("cohort"), Completed: r.text("completed") == "true", Rounds: r.whole("rounds"),
			VirtualSeconds: r.real("virtual_seconds"), RelativeSteps: r.real("relative_sgd_steps"), BestLoss: r.real("best_training_loss"),
			BestAccuracy: r.real("best_validation_accuracy"), FinalAccuracy: r.real("validation_accuracy"),
			Decayed: r.whole("decayed_after_round"), DecayedAt: r.real("decayed_seconds"), Plateaued: r.real("plateau_seconds"),
		}
		if _, twice := index[key(r)]; twice {
			r.fail(fmt.Errorf("cell %s is there twice", key(r)))
			return
		}
		index[key(r)] = len(curves)
		curves = append(curves, c)
	})
	if err != nil {
		return nil, err
	}
	err = readTable(filepath.Join(dir, CurvesFile), curvesHeader, func(r *record) {
		i, ok := index[key(r)]
		if !ok {
			r.fail(fmt.Errorf("cell %s is not in %s", key(r), CellsFile))
			return
		}
		curves[i].Points = append(curves[i].Points, Point{
			Round: r.whole("round"), VirtualSeconds: r.real("virtual_seconds"), LocalSteps: r.whole("local_steps"),
			BestLoss: r.real("best_training_loss"), ValidationLoss: r.real("validation_loss"), BestAccuracy: r.real("best_validation_accuracy"),
		})
	})
	return curves, err
}

// record is one row of a table; it keeps its first error.
type record struct {
	column map[string]int
	fields []string
	err    error
}

func (r *record) fail(err error) {
	if r.err == nil {
		r.err = err
	}
}

func (r *record) text(name string) string { return r.fields[r.column[name]] }

func (r *record) whole(name string) int {
	n, err := strconv.Atoi(r.text(name))
	if err != nil {
		r.fail(fmt.Errorf("%s: %w", name, err))
	}
	return n
}

func (r *record) real(name string) float64 {
	s := r.text(name)
	if s == "" {
		return math.NaN()
	}
	v, err := strconv.ParseFloat(s, 64)
	if err != nil {
		r.fail(fmt.Errorf("%s: %w", name, err))
	}
	return v
}

// readTable gives every row of a table with exactly this header to take.
func readTable(path, header string, take func(*record)) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("paper: %w", err)
	}
	defer f.Close() // read only
	in := csv.NewReader(f)
	first, err := in.Read()
	if err == nil && strings.Join(first, ",") != header {
		err = fmt.Errorf("the header is %q, want %q", strings.Join(first, ","), header)
	}
	if err != nil {
		return fmt.Errorf("paper: %s:1: %w", path, err)
	}
	r := record{column: map[string]int{}}
	for i, name := range first {
		r.column[name] = i
	}
	for line := 2; ; line++ {
		r.fields, err = in.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			take(&r)
			err = r.err
		}
		if err != nil {
			return fmt.Errorf("paper: %s:%d: %w", path, line, err)
		}
	}
}
