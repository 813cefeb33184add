package validation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"

	"fedpace/config"
	"fedpace/experiment/folder"
	"fedpace/experiment/run"
	"fedpace/internal/robust"
	"fedpace/internal/statistics"
	"fedpace/study"
	"fedpace/study/plan"
)

// Request says what is compared.
type Request struct {
	// Dirs are the folders of finished runs with real devices.
	Dirs []string
	// ConfigFiles and Sets change the configuration of each simulation, such as its fleet, as those of
	// [config.LoadFiles].
	ConfigFiles, Sets []string
	// Trust lets code that the folders' configurations name be executed: trainers and policies.
	Trust bool
}

// Validation is the comparison of a deployment's runs with their simulations.
type Validation struct {
	// Metric names what models are measured by. It is empty where nothing was trained.
	Metric string
	// Settings are sorted by the measured time of a round, the fastest first.
	Settings []Setting
	// RoundOrder compares the orders of the settings by seconds a round.
	RoundOrder Order
	// TailOrder compares the orders of the settings by the tail.
	TailOrder Order
	// Classes are the classes of devices, in the order of their names.
	Classes []Class
}

// Setting is what one configuration came to, with all of its seeds.
type Setting struct {
	// Name is that of the folder of the first of its runs.
	Name string
	// Seeds is the number of its runs.
	Seeds int
	// RoundSeconds is the mean virtual time of a round, as the mean over seeds.
	RoundSeconds Pair
	// Tail is the mean of the metric in the last tenth of the virtual time, as the mean over seeds. It
	// is NaN where nothing was trained.
	Tail Pair
	// Provenance is that of the first run of devices.
	study.Provenance
}

// Pair is what the deployment and what the simulation came to.
type Pair struct{ Measured, Simulated float64 }

// Order compares two orders of the same settings.
type Order struct {
	// Kendall is the rank correlation by [statistics.Kendall].
	Kendall statistics.Correlation
	// Spearman is the rank correlation by [statistics.Spearman].
	Spearman statistics.Correlation
	// Pairs is the number of pairs of settings whose measured and whose simulated values differ.
	Pairs int
	// Same is the number of those pairs that the simulation has in the measured order.
	Same int
}

// Class is what tasks of a class's devices took, divided by what was predicted.
type Class struct {
	// Name is the name of the class.
	Name string
	// Tasks is the number of tasks of its devices in all runs.
	Tasks int
	// Seconds has the ratios of whole tasks; the others have those of the phases.
	Seconds, Download, Compute, Upload Ratios
}

// Ratios is the median over devices and runs of measured over predicted values, with the smallest and
// the largest. All are NaN if there are none.
type Ratios struct{ Median, Low, High float64 }

// Make plays the simulation of each run of the request into a folder below out, where another Make
// finds it, and compares.
func Make(ctx context.Context, q Request, out string, o study.Options) (*Validation, error) {
	if len(q.Dirs) == 0 {
		return nil, errors.New("validation: no folder is given")
	}
	measured := make([]study.Cell, len(q.Dirs))
	simulated := make([]study.Cell, len(q.Dirs))
	for i, dir := range q.Dirs {
		var err error
		measured[i], err = finished(dir)
		if err != nil {
			return nil, fmt.Errorf("validation: %w", err)
		}
		simulated[i], err = q.simulation(dir, filepath.Join(out, study.FileName(filepath.Clean(dir))))
		if err != nil {
			return nil, fmt.Errorf("validation: %s: %w", dir, err)
		}
	}
	if err := study.Play(ctx, out, simulated, o); err != nil {
		return nil, err
	}
	return compare(measured, simulated)
}

// finished returns the run in a folder as a cell with its summary. The run must be complete and have
// had real devices.
func finished(dir string) (study.Cell, error) {
	r, err := folder.Open(dir)
	if err != nil {
		return study.Cell{}, err
	}
	if len(r.Config.Devices.Names) == 0 {
		return study.Cell{}, fmt.Errorf("%s: its run had no real devices (want runs of a deployment, of which each "+
			"is simulated once more)", dir)
	}
	summary, err := folder.Completed(dir)
	if err != nil {
		return study.Cell{}, err
	}
	if summary == nil {
		return study.Cell{}, fmt.Errorf("%s: its run is not complete (fedpace resume %s)", dir, dir)
	}
	c := r.Config
	c.Out = dir
	return study.Cell{Name: dir, Schedule: c.Schedule.Name(), Config: c, Summary: *summary}, nil
}

// simulation returns the run that simulates the run of devices in folder dir: with the configuration of that run,
// changed as the request says, and a simulated client of its class in the place of each device. out is the folder of
// the simulation.
func (q *Request) simulation(dir, out string) (study.Cell, error) {
	files := append([]string{filepath.Join(dir, folder.ConfigFile)}, q.ConfigFiles...)
	c, err := config.LoadFiles(files, q.Sets)
	if err != nil {
		return study.Cell{}, err
	}
	if err := errors.Join(run.AllowTrainer(&c, dir, q.Trust), run.AllowPolicies(&c, dir, q.Trust)); err != nil {
		return study.Cell{}, err
	}
	c, err = plan.Simulated(c)
	if err != nil {
		return study.Cell{}, err
	}
	c.Out = out
	cell := study.Cell{Name: dir, Schedule: c.Schedule.Name(), Config: c}
	cell.ID, err = study.Identity(c)
	return cell, err
}

// compare compares the runs of a deployment with their simulations, which are in the same order.
func compare(measured, simulated []study.Cell) (*Validation, error) {
	v := &Validation{}
	settings, err := groupBySetting(measured)
	if err != nil {
		return nil, err
	}
	for _, members := range settings {
		first := &measured[members[0]]
		s := Setting{Name: filepath.Base(first.Config.Out), Seeds: len(members)}
		s.Provenance, err = study.ProvenanceOf(first.Config, first.Summary)
		if err != nil {
			return nil, fmt.Errorf("validation: %s: %w", first.Config.Out, err)
		}
		weight := 1 / float64(len(members))
		for _, i := range members {
			for _, side := range []struct {
				cell          *study.Cell
				seconds, tail *float64
			}{
				{&measured[i], &s.RoundSeconds.Measured, &s.Tail.Measured},
				{&simulated[i], &s.RoundSeconds.Simulated, &s.Tail.Simulated},
			} {
				tail, quality, err := side.cell.EndTail()
				if err != nil {
					return nil, fmt.Errorf("validation: %s: %w", side.cell.Config.Out, err)
				}
				v.Metric = cmp.Or(v.Metric, quality.Name)
				*side.tail += float64(weight * tail)
				*side.seconds += float64(weight * roundSeconds(&side.cell.Summary))
			}
		}
		v.Settings = append(v.Settings, s)
	}
	slices.SortStableFunc(v.Settings, func(a, b Setting) int {
		return cmp.Compare(a.RoundSeconds.Measured, b.RoundSeconds.Measured)
	})
	v.RoundOrder = v.order(func(s *Setting) Pair { return s.RoundSeconds })
	v.TailOrder = v.order(func(s *Setting) Pair { return s.Tail })
	v.Classes = classes(measured)
	return v, nil
}

// roundSeconds is the mean virtual time of a round of a finished run, NaN if it has none.
func roundSeconds(s *folder.Summary) float64 {
	if s.Rounds == 0 {
		return math.NaN()
	}
	return s.VirtualSeconds / float64(s.Rounds)
}

// groupBySetting returns, for each setting, the indices of its runs in cells. Runs are of one setting if their
// configurations differ in the seed alone. Settings are in the order of their first runs.
func groupBySetting(cells []study.Cell) (settings [][]int, err error) {
	indexByID := map[string]int{}
	for i := range cells {
		c := cells[i].Config
		c.Seed = 0
		id, err := study.Identity(c)
		if err != nil {
			return nil, err
		}
		index, known := indexByID[id]
		if !known {
			index = len(settings)
			indexByID[id] = index
			settings = append(settings, nil)
		}
		settings[index] = append(settings[index], i)
	}
	return settings, nil
}

// order compares the measured and the simulated order of the settings by one quantity. Settings of which it is not
// known are left out. Pairs of settings with equal measured or equal simulated values have no order and are not
// counted.
func (v *Validation) order(quantity func(*Setting) Pair) (o Order) {
	var measured, simulated []float64
	for i := range v.Settings {
		p := quantity(&v.Settings[i])
		if !math.IsNaN(p.Measured) && !math.IsNaN(p.Simulated) {
			measured = append(measured, p.Measured)
			simulated = append(simulated, p.Simulated)
		}
	}
	o.Kendall = statistics.Kendall(measured, simulated)
	o.Spearman = statistics.Spearman(measured, simulated)
	for i := range measured {
		for j := range i {
			product := cmp.Compare(measured[i], measured[j]) * cmp.Compare(simulated[i], simulated[j])
			if product != 0 {
				o.Pairs++
			}
			if product > 0 {
				o.Same++
			}
		}
	}
	return o
}

// classes gathers, by class, the ratios of the times that the devices of all runs took to those that their
// classes predicted.
func classes(cells []study.Cell) (list []Class) {
	type ratios struct {
		tasks                              int
		seconds, download, compute, upload []float64
	}
	byName := map[string]*ratios{}
	for i := range cells {
		p := cells[i].Summary.Prediction
		if p == nil {
			continue
		}
		for _, d := range p.Devices {
			r := byName[d.Class]
			if r == nil {
				r = &ratios{}
				byName[d.Class] = r
			}
			r.tasks += d.Tasks
			r.seconds = appendRatio(r.seconds, d.Seconds)
			r.download = appendRatio(r.download, d.Download)
			r.compute = appendRatio(r.compute, d.Compute)
			r.upload = appendRatio(r.upload, d.Upload)
		}
	}
	for name, r := range byName {
		list = append(list, Class{
			Name:     name,
			Tasks:    r.tasks,
			Seconds:  ratiosOf(r.seconds),
			Download: ratiosOf(r.download),
			Compute:  ratiosOf(r.compute),
			Upload:   ratiosOf(r.upload),
		})
	}
	slices.SortFunc(list, func(a, b Class) int { return cmp.Compare(a.Name, b.Name) })
	return list
}

// appendRatio adds the ratio of a prediction to a list, if it has one.
func appendRatio(list []float64, p folder.Predicted) []float64 {
	if p.Ratio == nil {
		return list
	}
	return append(list, *p.Ratio)
}

// ratiosOf returns the median and the ends of a list, which it sorts.
func ratiosOf(list []float64) Ratios {
	if len(list) == 0 {
		return Ratios{math.NaN(), math.NaN(), math.NaN()}
	}
	slices.Sort(list)
	return Ratios{robust.Median(list), list[0], list[len(list)-1]}
}
