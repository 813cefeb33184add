package cmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"fedpace/cmd/internal/cli"
	"fedpace/config"
	"fedpace/coordinator/round"
	"fedpace/experiment/folder"
	"fedpace/experiment/forecast"
	"fedpace/internal/human"
	"fedpace/learn/metric"
	"fedpace/metrics"
)

// reported is what --json prints of a run: the fields of summary.json and the run's folder.
type reported struct {
	folder.Summary
	// Out is the folder of the run's results.
	Out string `json:"out"`
}

// printSummary prints the results of a run, as JSON, as a table or not at all by the flags. It
// prints for complete and for interrupted runs, and nothing if the run failed or left no summary.
// err is how the run ended.
func printSummary(c *cobra.Command, config config.Config, s folder.Summary, err error) error {
	hasFailed := err != nil && !errors.Is(err, context.Canceled)
	// A run that left no summary has one without a version.
	if hasFailed || s.Version == "" {
		return nil
	}
	switch {
	// --json goes before --quiet, because it asks for a result.
	case cli.AsJSON(c):
		return cli.PrintJSON(c, reported{s, config.Out})
	case cli.Quiet(c):
		return nil
	}
	return cli.Table(c.OutOrStdout(), func(w io.Writer) { writeSummary(w, config, s) })
}

// writeSummary writes the summary s of a run with configuration c to w, one quantity on each line,
// with a tab behind its name. Quantities that the run does not have are left out.
func writeSummary(w io.Writer, c config.Config, s folder.Summary) {
	state := "completed"
	if !s.Completed {
		state = "stopped before its end"
	}
	// The first line says what was run, and on what.
	data := c.Data.String()
	if c.IsSynthetic() {
		data = "synthetic data"
	}
	if !c.Train {
		data = "timing only, nothing trained"
	} else if s.Data != nil && strings.Contains(*s.Data, "synthetic") && !c.IsSynthetic() {
		// Real samples may be in a made grouping, of which the summary's description tells.
		data += " (" + *s.Data + ")"
	}
	fmt.Fprintf(w, "%s: %s, schedule %s, %s, seed %d: %s\n", c.Name, s.Task, s.Schedule, data, s.Seed, state)
	// line prints one quantity.
	line := func(name, format string, a ...any) { fmt.Fprintf(w, "  %s\t%s\n", name, fmt.Sprintf(format, a...)) }
	line("rounds", "%s", human.Thousands(int64(s.Rounds)))
	line("virtual time", "%s", human.VirtualTime(s.VirtualSeconds))
	pace := ""
	if s.WallSeconds > 0 {
		pace = fmt.Sprintf(" (%s rounds/s)", human.Rate(float64(s.Rounds)/s.WallSeconds))
	}
	line("wall time", "%s%s", human.Seconds(s.WallSeconds), pace)
	relative := ""
	// Steps are compared with fixed K at the same virtual time, where that is known.
	if s.RelativeSGDSteps != nil {
		relative = fmt.Sprintf(", %.4f of fixed K's in the same time", *s.RelativeSGDSteps)
	}
	line("SGD steps", "%s a client%s", human.Thousands(s.SGDSteps), relative)
	if s.Tokens != nil {
		line("tokens", "%s", human.Thousands(*s.Tokens))
	}
	writeQuality(line, &c, &s)
	writeNoise(line, &s)
	if t := s.Trainer; t != nil && t.Restarts > 0 {
		line("trainer restarts", "%s", human.Thousands(t.Restarts))
	}
	line("tasks", "%s", outcomesText(s.Outcomes))
	writeCosts(line, &s)
	if s.TimeToTarget != nil {
		line("target reached", "after %s", human.VirtualTime(*s.TimeToTarget))
	}
	// Without NATS, the run did not exercise the messages of a deployment.
	if s.Bus == folder.InMemory {
		line("messages", "in memory, without NATS (nats.url: %s)", config.None)
	}
	writePrediction(line, &c, &s)
	if len(s.DevicesMissing) > 0 {
		line(
			"devices",
			"%d of %d never joined: %s",
			len(s.DevicesMissing),
			len(c.Devices.Names),
			human.Some(s.DevicesMissing),
		)
	}
	line("results", "%s", c.Out)
}

// writeQuality prints the losses and the metrics of the model. line prints one line of the summary, c is the
// configuration and s the summary of the run.
func writeQuality(line func(name, format string, a ...any), c *config.Config, s *folder.Summary) {
	// value prints the last and the best value of a quantity, each of which may be nil for none.
	value := func(name string, v, best *float64) {
		switch {
		case v != nil && best != nil:
			line(name, "%s (best %s)", human.Fixed(*v), human.Fixed(*best))
		case v != nil:
			line(name, "%s", human.Fixed(*v))
		// A run that stopped early has no last measurement, but may have a best one.
		case best != nil:
			line(name, "best %s", human.Fixed(*best))
		}
	}
	value("training loss", s.TrainingLoss, s.BestTrainingLoss)
	if windowNote := c.Schedule.TooLong(s.Rounds); windowNote != "" && s.TrainingLoss != nil && s.Completed {
		line("", "%s", windowNote)
	}
	shown := s.Metrics
	// Validation loss is printed by itself unless the list of metrics has it.
	if !slices.ContainsFunc(shown, func(m folder.Metric) bool { return m.Name == metric.Loss }) {
		value("validation loss", s.ValidationLoss, nil)
	}
	for _, m := range shown {
		// What is the same for every model has no best value.
		if metric.Constant(m.Name) {
			m.Best = nil
		}
		value("validation "+m.Name, m.Validation, m.Best)
	}
	// How the model serves the clients' own samples is one line for each metric.
	if e := s.ClientEvaluation; e != nil {
		if e.Accuracy != nil {
			line("clients' accuracy", "%s", fairnessText(e, e.Accuracy, e.WorstAccuracy, e.Jain))
		}
		for _, m := range e.Metrics {
			// Further measures are those of all held-out samples, and clients have none.
			if m.Mean == nil && metric.IsMeasure(m.Name) {
				continue
			}
			line("clients' "+m.Name, "%s", fairnessText(e, m.Mean, m.Worst, m.Jain))
		}
		if e.Accuracy == nil {
			line("clients' loss", "%s", fairnessText(e, &e.Loss, &e.WorstLoss, nil))
		}
	}
}

// writeNoise prints the epsilons of the run's kinds of differential privacy, one line for each. line prints
// one line of the summary s.
func writeNoise(line func(name, format string, a ...any), s *folder.Summary) {
	if v := s.Privacy; v != nil {
		line("privacy", "epsilon %.4g at delta %g", v.Epsilon, v.Delta)
	}
	if v := s.LocalNoise; v != nil {
		line(
			"local noise",
			"epsilon %.4g at delta %g of each update, %.4g of a client in all rounds",
			v.Epsilon,
			v.Delta,
			v.RoundsEpsilon,
		)
	}
	if v := s.DistributedNoise; v != nil {
		line("clients' noise", "epsilon %.4g at delta %g (replace one), %.4g (zero out)",
			v.ReplaceOne.Concentrated, v.Delta, v.ZeroOut.Concentrated)
	}
}

// writeCosts prints what was wasted, and the energy, the carbon and the cost of the run. line prints one line
// of the summary s.
func writeCosts(line func(name, format string, a ...any), s *folder.Summary) {
	// Tasks whose updates did not count cost time, steps and bytes all the same.
	if s.ClientSeconds.Wasted > 0 {
		line("wasted", "%s, %s, %s",
			wastedText("client time", &s.ClientSeconds),
			wastedText("SGD steps", &s.ClientSteps),
			wastedText("bytes", &s.Bytes))
	}
	if v := s.StragglerShare; v != nil && *v > 0 {
		percent := 100 * (*v)
		line("stragglers", "%.3g %% of a round is spent waiting from the median client to the slowest", percent)
	}
	if e := s.EnergyJoules; e != nil {
		line("energy", "%.4g kJ, %.3g %% of it wasted", e.All()/1000, 100*e.WastedShare())
	}
	if grams := s.CarbonGrams; grams != nil {
		line("carbon", "%.4g g of CO2", *grams)
	}
	if cost := s.EnergyCost; cost != nil {
		line("cost of energy", "%.4g", *cost)
	}
}

// wastedText returns the share of a cost that was wasted in percent, as a text that calls the cost by
// name. If nothing was spent, the text says so.
func wastedText[T int64 | float64](name string, cost *metrics.Split[T]) string {
	if cost.All() == 0 {
		return "no " + name
	}
	return fmt.Sprintf("%.3g %% of %s", 100*cost.WastedShare(), name)
}

// writePrediction prints how the measured times of a run's devices compare with their prediction,
// one line for each phase. line prints one line of the summary, c is the configuration and s the
// summary of the run. A complete run that has devices but no prediction gets the reason.
func writePrediction(line func(name, format string, a ...any), c *config.Config, s *folder.Summary) {
	p := s.Prediction
	if p == nil {
		if len(c.Devices.Names) > 0 && s.Completed {
			line("prediction", "none: %s", forecast.Lacking(c.Devices.IDs()))
		}
		return
	}
	for i, text := range forecast.Lines(p) {
		name := ""
		if i == 0 {
			// Only the first line has the name.
			name = "prediction"
		}
		line(name, "%s", text)
	}
	if text := devicesRatio(p.Devices); text != "" {
		line("", "%s", text)
	}
	for i := range p.Phases {
		if f := &p.Phases[i]; f.Ratio != nil {
			line(
				"",
				"%s: %.4g s a task, predicted %.4g (%.4g to %.4g), %.3f of it",
				f.Phase,
				*f.Measured,
				f.P50,
				f.P05,
				f.P95,
				*f.Ratio,
			)
		}
	}
}

// devicesRatio returns a sentence that compares the time of the devices' tasks with their
// prediction, or "" if nothing is known of any device. The time of rounds says little of devices
// where simulated clients are slower, because a round lasts as long as its slowest task.
func devicesRatio(devices []folder.Device) string {
	var measured, predicted float64
	tasks := 0
	for i := range devices {
		d := &devices[i]
		if d.Seconds.Measured == nil {
			continue
		}
		// A device counts by the number of its tasks.
		tasks += d.Tasks
		measured += float64(d.Tasks) * *d.Seconds.Measured
		predicted += float64(d.Tasks) * d.Seconds.P50
	}
	if tasks == 0 || !(predicted > 0) {
		return ""
	}
	return fmt.Sprintf("the devices' %d tasks took %.4g s each, predicted were %.4g s: %.3f of it",
		tasks, measured/float64(tasks), predicted/float64(tasks), measured/predicted)
}

// fairnessText describes how one metric of the model is distributed over the clients' own samples: its
// mean, the value of the worst tenth of clients, and Jain's index unless jain is nil. mean or worst
// is nil if some clients have no value.
func fairnessText(e *folder.ClientEvaluation, mean, worst, jain *float64) string {
	// A metric may be undefined for a client, as one without positive samples.
	if mean == nil || worst == nil {
		return fmt.Sprintf("not of every client (round %s)", human.Thousands(int64(e.Round)))
	}
	text := fmt.Sprintf("mean %.4f, worst tenth %.4f", *mean, *worst)
	if jain != nil {
		text += fmt.Sprintf(", Jain's index %.4f", *jain)
	}
	return fmt.Sprintf("%s (round %s)", text, human.Thousands(int64(e.Round)))
}

// outcomesText returns how many tasks had each outcome as a text, without outcomes that never occurred. It is
// "none" if there was no task.
func outcomesText(counts metrics.Outcomes) string {
	var parts []string
	for o, n := range counts {
		if n > 0 {
			parts = append(parts, human.Thousands(n)+" "+round.Outcome(o).String())
		}
	}
	// A run that was stopped in its first round has no task that ended.
	if parts == nil {
		return "none"
	}
	return strings.Join(parts, ", ")
}
