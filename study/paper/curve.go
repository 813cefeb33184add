package paper

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"
	"slices"

	"fedpace/config"
	"fedpace/coordinator/schedule"
	"fedpace/experiment/folder"
	"fedpace/internal/table"
	"fedpace/metrics"
	"fedpace/study"
)

// Curve is one cell with its evaluations.
type Curve struct {
	// Task is the task of the paper that was played.
	Task config.Task `csv:"task"`
	// Data names what was learned from, and says what is synthetic about it. It is empty if only
	// timing was simulated.
	Data string `csv:"data"`
	// Devices says what the clients are, where they are not the paper's.
	Devices string `csv:"devices"`
	// Schedule is the schedule's name.
	Schedule string `csv:"schedule"`
	Seed     uint64 `csv:"seed"`
	// Megabits is the size of the model on the network. 0 means that the size follows from its
	// parameters.
	Megabits float64 `csv:"model_megabits"`
	// FixedRounds is the number of rounds of K-eta-fixed whose virtual time the run had.
	FixedRounds int `csv:"fixed_rounds"`
	// K0 is the number of local steps in the first round.
	K0 int `csv:"k0"`
	// Clients is the number of clients in the population.
	Clients int `csv:"clients"`
	// Cohort is the number of clients that take part in a round.
	Cohort int `csv:"cohort"`

	study.Provenance

	// Completed is false for a run that was cut. The fields that follow then describe the part that
	// was done.
	Completed bool `csv:"completed"`
	// Rounds is the number of rounds that were done.
	Rounds int `csv:"rounds"`
	// VirtualSeconds is the virtual time at the end of the last round.
	VirtualSeconds float64 `csv:"virtual_seconds"`
	// RelativeSteps is the number of SGD steps divided by FixedRounds times K_0 (Table 4). It is
	// NaN while the run is not complete.
	RelativeSteps float64 `csv:"relative_sgd_steps"`
	// BestLoss is the lowest mean of the training loss over the window of rounds (Eq. 15). It is
	// NaN if there is none.
	BestLoss float64 `csv:"best_training_loss"`
	// BestAccuracy is the highest validation accuracy, or NaN.
	BestAccuracy float64 `csv:"best_validation_accuracy"`
	// TailAccuracy is the mean of the evaluations in the last tenth of the virtual time. It is NaN
	// if there are none.
	TailAccuracy float64 `csv:"tail_accuracy"`
	// FinalAccuracy is the last validation accuracy, or NaN.
	FinalAccuracy float64 `csv:"validation_accuracy"`
	// Decayed is the round after which a step schedule decayed. It is 0 if it did not decay, and
	// for any other schedule.
	Decayed int `csv:"decayed_after_round"`
	// DecayedAt is the virtual second at which round Decayed ended. It is NaN without a decay.
	DecayedAt float64 `csv:"decayed_seconds"`
	// Plateaued is the virtual second at which the validation error had converged. It is NaN if it
	// never did.
	Plateaued float64 `csv:"plateau_seconds"`
	// Evaluations is the number of evaluations after rounds, all of which are in Points. It is 0 in
	// files of an earlier version, which keep only the evaluations that were better, and the last.
	Evaluations int `csv:"evaluations"`

	// Points holds the evaluations in the order of time.
	Points []Point
}

// Point is the state after an evaluation.
type Point struct {
	// Round is the number of the round, counted from 1.
	Round int `csv:"round"`
	// VirtualSeconds is the virtual time at the end of that round.
	VirtualSeconds float64 `csv:"virtual_seconds"`
	// LocalSteps is the K of that round.
	LocalSteps int `csv:"local_steps"`
	// BestLoss is the lowest mean so far of the training loss over the window of rounds. It is NaN
	// if there is none.
	BestLoss       float64 `csv:"best_training_loss"`
	ValidationLoss float64 `csv:"validation_loss"`
	// Accuracy is the validation accuracy. It is NaN in files of an earlier version, where it was
	// not better than before.
	Accuracy float64 `csv:"validation_accuracy"`
	// BestAccuracy is the highest accuracy so far. It is not stored, because it follows from the
	// points before.
	BestAccuracy float64
}

// key is what no two curves share.
type key struct {
	Task     config.Task `csv:"task"`
	Schedule string      `csv:"schedule"`
	Seed     uint64      `csv:"seed"`
	Megabits float64     `csv:"model_megabits"`
}

// key identifies the curve among those of a folder.
func (c *Curve) key() key { return key{c.Task, c.Schedule, c.Seed, c.Megabits} }

// The files in which curves are kept: a row for each cell, and one for each
// point. Numbers are written so that reading gives the same bits.
const (
	CellsFile  = "cells.csv"
	CurvesFile = "curves.csv"
)

// pointRow is a row of the file of points: the curve's key and the point.
type pointRow struct {
	key
	Point
}

// Write writes the curves to two files in the folder dir: one has a row for each run, and the other
// a row for each point of its curve.
func Write(dir string, curves []Curve) error {
	var points []pointRow
	// All points go into one file, each with the key of its curve.
	for _, c := range curves {
		for _, p := range c.Points {
			points = append(points, pointRow{c.key(), p})
		}
	}
	return errors.Join(
		table.Write(filepath.Join(dir, CellsFile), curves, -1),
		table.Write(filepath.Join(dir, CurvesFile), points, -1),
	)
}

// Load reads the curves of folders and merges them. A run that is in several folders must have the same
// outcome in all; the one with more points is kept.
func Load(dirs ...string) (all []Curve, err error) {
	for _, dir := range dirs {
		curves, err := load(dir)
		if err != nil {
			return nil, err
		}
		for _, c := range curves {
			// A run that is complete in one folder may have been loaded from another folder before.
			i := slices.IndexFunc(all, func(loaded Curve) bool { return loaded.key() == c.key() })
			switch {
			case i < 0:
				all = append(all, c)
			// The same configuration must give the same bits, so a difference shows damage or
			// another version.
			case all[i].outcome() != c.outcome():
				return nil, fmt.Errorf(
					"paper: %s: %v came to something else than in a folder before: %v, not %v",
					filepath.Join(dir, CellsFile),
					c.key(),
					c.outcome(),
					all[i].outcome(),
				)
			case len(all[i].Points) < len(c.Points):
				all[i] = c
			}
		}
	}
	if len(dirs) > 1 {
		sortCurves(all)
	}
	return all, nil
}

// outcome returns as text the part of a curve in which two plays of one run must agree: data,
// rounds, time and results, to the last digit.
func (c *Curve) outcome() string {
	return fmt.Sprint(
		c.DataDigest,
		c.FixedRounds,
		c.Rounds,
		c.VirtualSeconds,
		c.BestLoss,
		c.BestAccuracy,
		c.TailAccuracy,
		c.FinalAccuracy,
	)
}

// load reads the curves from the two files in the folder dir, checks that every point belongs to a
// cell and that no cell is there twice, and computes what follows from the points.
func load(dir string) ([]Curve, error) {
	curves, err := table.Read[Curve](filepath.Join(dir, CellsFile))
	if err != nil {
		return nil, fmt.Errorf("paper: %w", err)
	}
	// index finds the curve of each point, and shows a curve that is there twice.
	index := map[key]*Curve{}
	for i := range curves {
		k := curves[i].key()
		if index[k] != nil {
			return nil, fmt.Errorf("paper: %s: cell %v is there twice", filepath.Join(dir, CellsFile), k)
		}
		index[k] = &curves[i]
	}
	points, err := table.Read[pointRow](filepath.Join(dir, CurvesFile))
	if err != nil {
		return nil, fmt.Errorf("paper: %w", err)
	}
	// A point without a cell shows that the two files do not belong together.
	for _, p := range points {
		c := index[p.key]
		if c == nil {
			return nil, fmt.Errorf("paper: %s: cell %v is not in %s", filepath.Join(dir, CurvesFile), p.key, CellsFile)
		}
		c.Points = append(c.Points, p.Point)
	}
	for i := range curves {
		if err := curves[i].completePoints(); err != nil {
			return nil, fmt.Errorf("paper: %s: %w", dir, err)
		}
	}
	return curves, nil
}

// completePoints sets the best accuracy so far of each point of the curve, and checks the
// number of evaluations and the tail accuracy against what the cell says.
func (c *Curve) completePoints() error {
	best := math.NaN()
	var tail study.Tail
	for i := range c.Points {
		p := &c.Points[i]
		// A point of an earlier version may have no accuracy (NaN), which is above nothing: best stays as it is.
		if math.IsNaN(best) || p.Accuracy > best {
			best = p.Accuracy
		}
		p.BestAccuracy = best
		tail.Observe(p.VirtualSeconds, p.Accuracy)
	}
	// An earlier version may have added the same accuracies in another order, to another last bit.
	got := tail.Mean(c.VirtualSeconds)
	differs := math.Abs(got-c.TailAccuracy) > 1e-12
	// Files of an earlier version lack the number of evaluations and cannot be checked.
	isCheckable := c.Evaluations > 0
	if isCheckable && (len(c.Points) != c.Evaluations || differs) {
		return fmt.Errorf(
			"cell %v: its %d evaluations have tail accuracy %v, but it is said to have %d with %v",
			c.key(),
			len(c.Points),
			got,
			c.Evaluations,
			c.TailAccuracy,
		)
	}
	return nil
}

// Curves reads the cells that have begun, complete or not, in the order of the paper: by task,
// schedule, size and seed.
func Curves(cells []study.Cell) ([]Curve, error) {
	var curves []Curve
	// described maps a task and its data as configured to the description that a run gives of these
	// data.
	described := map[[2]string]string{}
	for _, cell := range cells {
		c, err := readCell(cell.Config.Out)
		switch {
		// A run that has not begun, or has not ended its first round, has no curve yet.
		case errors.Is(err, folder.ErrNoRun), errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return nil, fmt.Errorf("paper: %w", err)
		default:
			curves = append(curves, c)
			if configured := cell.Config.Data.String(); c.Data != "" && c.Data != configured {
				described[[2]string{string(c.Task), configured}] = c.Data
			}
		}
	}
	// A run describes its data only when it ends. A run under way takes the description that
	// another run gave of the same data.
	for i, c := range curves {
		if description, ok := described[[2]string{string(c.Task), c.Data}]; ok {
			curves[i].Data = description
		}
	}
	sortCurves(curves)
	return curves, nil
}

// sortCurves puts curves in the order of the paper. Schedules that the paper does not have follow, in
// the order of their first runs.
func sortCurves(curves []Curve) {
	tasks := Plan{}.tasks()
	schedules := Table3()
	for _, c := range curves {
		if !slices.Contains(schedules, c.Schedule) {
			schedules = append(schedules, c.Schedule)
		}
	}
	slices.SortStableFunc(curves, func(a, b Curve) int {
		return cmp.Or(
			cmp.Compare(slices.Index(tasks, a.Task), slices.Index(tasks, b.Task)),
			cmp.Compare(slices.Index(schedules, a.Schedule), slices.Index(schedules, b.Schedule)),
			cmp.Compare(a.Megabits, b.Megabits), cmp.Compare(a.Seed, b.Seed),
		)
	})
}

// readCell reads the curve of the run in a folder. Of a run that is not complete it holds the part that
// was done.
func readCell(dir string) (Curve, error) {
	r, err := folder.Open(dir)
	if err != nil {
		return Curve{}, err
	}
	config := &r.Config
	c := Curve{
		Task:          config.Task,
		Schedule:      config.Schedule.Name(),
		Seed:          config.Seed,
		FixedRounds:   config.Stop.EqualRuntimeRounds,
		K0:            config.Schedule.K0,
		Clients:       config.Clients,
		Cohort:        config.Cohort,
		Megabits:      config.Network.ModelMegabits,
		RelativeSteps: math.NaN(),
	}
	c.Devices, err = describeDevices(config)
	if err != nil {
		return Curve{}, err
	}
	// The description as configured stands until the run itself says what its data were.
	if config.Train {
		c.Data = config.Data.String()
	}
	if err := c.readRounds(r); err != nil {
		return Curve{}, err
	}
	_, s, err := r.State()
	if err != nil {
		return Curve{}, err
	}
	// A run that is under way has no summary yet.
	if s == nil {
		c.Provenance, err = study.ProvenanceOf(*config, folder.Summary{})
		return c, err
	}
	c.Provenance, err = study.ProvenanceOf(*config, *s)
	if err != nil {
		return c, err
	}
	c.Completed = s.Completed
	c.Rounds = s.Rounds
	c.VirtualSeconds = s.VirtualSeconds
	c.Data = *cmp.Or(s.Data, &c.Data)
	// The number of steps is compared at equal virtual time, which a run that was cut has not
	// reached.
	if s.Completed {
		c.RelativeSteps = metrics.Value(s.RelativeSGDSteps)
	}
	c.BestLoss = metrics.Value(s.BestTrainingLoss)
	c.BestAccuracy = metrics.Value(s.BestValidationAccuracy)
	c.FinalAccuracy = metrics.Value(s.ValidationAccuracy)
	return c, nil
}

// readRounds reads the rounds of run, keeps a point for each evaluation, and sets what the curve says
// of the whole run. A value that the run does not have is NaN.
func (c *Curve) readRounds(run *folder.Run) error {
	schedules := run.Config.Schedule
	plateau := schedule.NewPlateau(schedule.PlateauConfig{Patience: schedules.Patience, MinDelta: schedules.MinDelta})
	nan := math.NaN()
	c.BestLoss = nan
	c.BestAccuracy = nan
	c.TailAccuracy = nan
	c.FinalAccuracy = nan
	c.Plateaued = nan
	c.DecayedAt = nan
	_, isStepK := schedules.K.(schedule.StepK)
	_, isStepEta := schedules.Eta.(schedule.StepEta)
	var tail study.Tail
	var previous folder.Progress
	for progress, err := range run.Follow() {
		if err != nil {
			return err
		}
		// A step schedule decays once, and shows it by a lower K or a lower learning rate.
		isLower := progress.LocalSteps < previous.LocalSteps || progress.LearningRate < previous.LearningRate
		if (isStepK || isStepEta) && c.Decayed == 0 && isLower {
			c.Decayed = previous.Round
			c.DecayedAt = previous.End.Seconds()
		}
		previous = progress
		c.Rounds = progress.Round
		c.VirtualSeconds = progress.End.Seconds()
		c.BestLoss = progress.BestLoss
		// Only rounds after which the model was evaluated become points.
		if math.IsNaN(progress.Quality) {
			continue
		}
		c.BestAccuracy = progress.Best
		c.FinalAccuracy = progress.Quality
		tail.Observe(progress.End.Seconds(), progress.Quality)
		// The plateau is that of the validation error, which is 1 − accuracy.
		plateau.Observe(1 - progress.Quality)
		if plateau.Converged && math.IsNaN(c.Plateaued) {
			c.Plateaued = progress.End.Seconds()
		}
		c.Points = append(c.Points, Point{
			Round:          progress.Round,
			VirtualSeconds: progress.End.Seconds(),
			LocalSteps:     progress.LocalSteps,
			BestLoss:       c.BestLoss,
			ValidationLoss: progress.ValidationLoss,
			Accuracy:       progress.Quality,
			BestAccuracy:   c.BestAccuracy,
		})
	}
	c.TailAccuracy = tail.Mean(c.VirtualSeconds)
	c.Evaluations = len(c.Points)
	return nil
}
