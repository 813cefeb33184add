package calibrate

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"fedpace/bus"
	"fedpace/internal/human"
	"fedpace/internal/names"
	"fedpace/internal/tasks"
)

// Result is everything that was measured of a device. Parts that were not wanted are nil.
type Result struct {
	// Name is that of the class, and Date the time of the measurement.
	Name string    `json:"name"`
	Date time.Time `json:"date"`
	// Version is that of this program.
	Version string `json:"version"`
	// Machine describes the device.
	Machine Machine `json:"machine"`
	// Compute holds the times of local steps, one entry for each size of minibatches.
	Compute []Compute `json:"compute"`
	// Network is the measured link.
	Network *Network `json:"network"`
	// Secure is the device's part in secure aggregation.
	Secure *Secure `json:"secure_aggregation,omitempty"`
}

// ReadMeasured reads a file that calibrate --json wrote, and returns its values in the form in which a
// device reports them to coordinators: one entry for each size of minibatches. It is an error if
// the file holds no measured local steps.
func ReadMeasured(file string) (list []*bus.Measured, err error) {
	result := struct {
		Compute []Compute
		// Network is the measured link. It stays zero for a null, which says that nothing is known
		// of the link.
		Network Network
	}{}
	content, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(content, &result)
	}
	if err != nil || len(result.Compute) == 0 {
		return nil, fmt.Errorf(
			"--calibration: %s: %w (want what calibrate --json prints)",
			file,
			cmp.Or(err, errors.New("nothing was measured")),
		)
	}
	// All entries have the same link, which is zero if it was not measured.
	down := &result.Network.Download
	up := &result.Network.Upload
	for _, c := range result.Compute {
		list = append(list, &bus.Measured{
			Model:           c.Model,
			Batch:           uint32(c.Batch),
			SecondsPerStep:  c.SecondsPerStep.Value,
			ComputeSeconds:  c.Overhead.Value,
			DownloadMbps:    down.Mbps.Value,
			DownloadSeconds: down.Overhead.Value,
			UploadMbps:      up.Mbps.Value,
			UploadSeconds:   up.Overhead.Value,
		})
	}
	return list, nil
}

// CheckName returns an error for a name that a class cannot have.
func CheckName(name string) error {
	if err := names.CheckName(name); err != nil {
		return fmt.Errorf("calibrate: name: %w", err)
	}
	return nil
}

// WriteClass writes the result as a configuration with one class for all clients: a file for
// fedpace run --config, or a class to copy into another fleet. If several sizes of minibatches were
// measured, each has its own class, and the size is part of its name.
func (r *Result) WriteClass(w io.Writer) error {
	if err := CheckName(r.Name); err != nil {
		return err
	}
	var b strings.Builder
	r.writeRemarks(&b)
	if len(r.Compute) > 0 && r.Compute[0].Task != tasks.Custom {
		fmt.Fprintf(&b, "task: %s\n", r.Compute[0].Task)
	}
	// The constants are those of all clients of a run, so they stand outside of the class.
	if s := r.Secure; s != nil {
		fmt.Fprintf(&b, "secure_aggregation: {neighbour_seconds: %.4g, signature_seconds: %.4g, mask_seconds: %.4g}\n",
			s.Neighbour.Value, s.Signature.Value, s.Mask.Value)
	}
	b.WriteString("fleet:\n")
	// A result of the link alone has one class without local steps.
	for i := range max(1, len(r.Compute)) {
		name := r.Name
		var c *Compute
		if len(r.Compute) > 0 {
			c = &r.Compute[i]
		}
		if len(r.Compute) > 1 {
			name = fmt.Sprintf("%s-%d", r.Name, c.Batch)
		}
		r.writeClass(&b, name, c)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// writeClass writes one class of the given name as YAML. c holds the times of local steps; if it is nil,
// the class has only the speed and times of the link. What was not measured is left out.
func (r *Result) writeClass(w io.Writer, name string, c *Compute) {
	fmt.Fprintf(w, "  - name: %s\n", name)
	// A phase is written under the name that it has in the configuration.
	type named struct {
		name string
		*Phase
	}
	var phases []named
	if n := r.Network; n != nil {
		fmt.Fprintf(w, "    download_mbps: %.6g\n    upload_mbps: %.6g\n", n.Download.Mbps.Value, n.Upload.Mbps.Value)
		phases = append(phases, named{"download", &n.Download.Phase}, named{"upload", &n.Upload.Phase})
	}
	if c != nil {
		// The minibatches of the paper are the default of their task.
		if paper, ok := c.Task.Paper(); c.Batch > 0 && (!ok || c.Batch != paper.Batch) {
			fmt.Fprintf(w, "    batch: %d\n", c.Batch)
		}
		fmt.Fprintf(w, "    seconds_per_step: %.6g\n", c.SecondsPerStep.Value)
		// A coefficient of 0 is the default, so it is left out.
		if c.StepCV > 0 {
			fmt.Fprintf(w, "    step_cv: %.4g\n", c.StepCV)
		}
		phases = append(phases, named{"compute", &c.Phase})
	}
	// These settings have one value for each phase that was measured.
	for i, key := range []string{"overhead", "first_task", "uncertainty"} {
		var list []string
		for _, p := range phases {
			// The values stand in the order of the keys.
			values := [...]float64{p.Overhead.Value, p.FirstTask, p.Uncertainty}
			list = append(list, fmt.Sprintf("%s: %.4g", p.name, values[i]))
		}
		fmt.Fprintf(w, "    %s: {%s}\n", key, strings.Join(list, ", "))
	}
	// The distributions share one key, which is written before the first of them.
	title := "    vary:\n"
	for _, p := range phases {
		if p.Vary != nil {
			fmt.Fprintf(w, "%s      %s: %s\n", title, p.name, empirical(p.Vary))
			title = ""
		}
	}
	// Without a sensor the class has no power.
	if p := r.Machine.Watts; p != nil {
		fmt.Fprintf(w, "    watts: {download: %.4g, compute: %.4g, upload: %.4g}\n", p.Download, p.Compute, p.Upload)
	}
}

// empirical formats factors as an empirical distribution of a configuration, in YAML.
func empirical(values []float64) string {
	return "{dist: empirical, values: " + strings.ReplaceAll(fmt.Sprintf("%.4g", values), " ", ", ") + "}"
}

// writeRemarks writes YAML comments above the class: where and when it was measured, on which machine,
// how many tasks and transfers, and how certain the values are.
func (r *Result) writeRemarks(w io.Writer) {
	comment := func(format string, args ...any) { fmt.Fprintf(w, "# "+format+"\n", args...) }
	m := &r.Machine
	comment(
		"Device class %s, measured by fedpace calibrate (%s) on %s.",
		r.Name,
		r.Version,
		r.Date.UTC().Format("2006-01-02 15:04 UTC"),
	)
	// Only some boards give their model.
	system := m.System
	if m.Model != "" {
		system = m.Model + ", " + system
	}
	comment(
		"Machine: %s, %s, %s.",
		system,
		fmt.Sprintf("%d %s", m.Processors, human.Plural(m.Processors, "processor")),
		m.memory(),
	)
	comment("Intervals hold with 95 %%. What may be at another time is a standard deviation.")
	// Times are shown in milliseconds, and shares in percent.
	for i := range r.Compute {
		c := &r.Compute[i]
		if c.Batch == 0 {
			c.writeAppRemark(comment)
			continue
		}
		comment(
			"Compute: %s, minibatches of %d, kernel %s: %d tasks of %d steps and as many of one,",
			c.subject(),
			c.Batch,
			c.Kernel,
			c.Tasks,
			c.Steps,
		)
		comment(
			"  after %d to warm up. A step takes %s, a task %s besides;",
			c.WarmUp,
			formatEstimate(c.SecondsPerStep.Times(1e3), "ms"),
			formatEstimate(c.Overhead.Times(1e3), "ms"),
		)
		comment(
			"  the first one %.3g ms more; tasks scatter by %.2g %%, and at another time a step may take ±%.2g %%.",
			1e3*c.FirstTask,
			100*c.Scatter,
			100*c.Uncertainty,
		)
		// The device has slowed down or sped up during the measurement.
		if c.Settled {
			comment("  The last quarter took %+.2g %% beside the first: this is the last half alone.", 100*c.Drift)
		}
		if c.Noisy {
			comment("  Noisy: another measurement may come out otherwise.")
		}
	}
	if n := r.Network; n != nil {
		comment(
			"Network: by way of %s, %d models of %s; a round trip takes %s.",
			n.Server,
			n.Download.Transfers,
			human.Size(4*int64(n.Params)),
			formatEstimate(n.RoundTrip.Times(1e3), "ms"),
		)
		n.Download.writeRemark(comment, "Download")
		n.Upload.writeRemark(comment, "Upload")
	}
	if s := r.Secure; s != nil {
		comment(
			"Secure aggregation, among %d members: a neighbour takes %s, a signature %s, a mask of a million words %s.",
			s.Members,
			formatEstimate(s.Neighbour.Times(1e3), "ms"),
			formatEstimate(s.Signature.Times(1e3), "ms"),
			formatEstimate(s.Mask.Times(1e3), "ms"),
		)
	}
	// A temperature of 0 stands for a board without a sensor.
	if m.Celsius > 0 {
		comment("Temperature at the end: %.0f °C.", m.Celsius)
	}
	comment("Power: %s.", m.power())
}

// writeAppRemark writes comments about the measured messages of a Flower app by the function comment. The
// app decides about its minibatches, so they are not named.
func (c *Compute) writeAppRemark(comment func(string, ...any)) {
	comment(
		"Compute: %s, kernel %s: %d messages of at most %d steps, after %d to warm up.",
		c.subject(),
		c.Kernel,
		c.Tasks,
		c.Steps,
		c.WarmUp,
	)
	comment(
		"  A step takes %s of processor time, a message %s besides; messages scatter by %.2g %%.",
		formatEstimate(c.SecondsPerStep.Times(1e3), "ms"),
		formatEstimate(c.Overhead.Times(1e3), "ms"),
		100*c.Scatter,
	)
	if c.Noisy {
		comment("  Noisy: another measurement may come out otherwise.")
	}
}

// writeRemark writes a comment about one direction of the link, which is called name, by the function comment.
func (l *Link) writeRemark(comment func(string, ...any), name string) {
	comment("  %s: %s, and %s besides, the first %.3g ms more; scatter %.2g %%, at another time "+
		"±%.2g %%%s.", name, formatEstimate(l.Mbps, "Mbit/s"), formatEstimate(l.Overhead.Times(1e3), "ms"),
		1e3*l.FirstTask, 100*l.Scatter, 100*l.Uncertainty,
		noisyRemark(l.Noisy, "; noisy: another measurement may come out otherwise"))
}

// noisyRemark returns remark if the measurement is noisy, else "".
func noisyRemark(isNoisy bool, remark string) string {
	if isNoisy {
		return remark
	}
	return ""
}

// subject names what was trained, for people: a task of the paper, or the model of a custom task.
func (c *Compute) subject() string {
	if c.Task == tasks.Custom {
		return c.Model
	}
	return string(c.Task)
}

// memory describes the machine's memory for people.
func (m *Machine) memory() string {
	if m.PeakBytes == 0 {
		return "which does not tell its memory"
	}
	return fmt.Sprintf("%s of memory at the peak, %s free", human.Size(m.PeakBytes), human.Size(m.FreeBytes))
}

// power describes the machine's power in watts, and where the values come from, for people. It also
// says if the power is not known.
func (m *Machine) power() string {
	if m.Watts == nil {
		return "the board does not tell it"
	}
	description := fmt.Sprintf("%.3g W while it computes", m.Watts.Compute)
	if m.Watts.Download > 0 || m.Watts.Upload > 0 {
		description += fmt.Sprintf(", %.3g W in downloads, %.3g W in uploads", m.Watts.Download, m.Watts.Upload)
	}
	return description + " (" + m.PowerSource + ")"
}

// Write writes the result as a table for people: a row for each size of minibatches, the link in
// both directions, memory, power and temperature. What was not measured is left out.
func (r *Result) Write(w io.Writer) error {
	var b strings.Builder
	if len(r.Compute) > 0 {
		const row = "%-14s %5v  %-32s %10s %8s %10s %10s\n"
		fmt.Fprintf(&b, row, "compute", "batch", "a step, 95 % interval", "besides", "scatter", "paper's", "deviation")
		for i := range r.Compute {
			c := &r.Compute[i]
			// The columns of the paper stay empty where it has no such measurement.
			paper := ""
			std := ""
			if c.PaperSeconds > 0 {
				paper = fmt.Sprintf("%.4g ms", 1e3*c.PaperSeconds)
				std = fmt.Sprintf("%.4g ms", 1e3*c.PaperStd)
			}
			// An app has minibatches of its own.
			batch := ""
			if c.Batch > 0 {
				batch = fmt.Sprint(c.Batch)
			}
			line := fmt.Sprintf(
				row,
				c.subject(),
				batch,
				formatEstimate(c.SecondsPerStep.Times(1e3), "ms"),
				fmt.Sprintf("%.3g ms", 1e3*c.Overhead.Value),
				fmt.Sprintf("%.2g %%", 100*c.Scatter),
				paper,
				std+noisyRemark(c.Noisy, " noisy"),
			)
			b.WriteString(strings.TrimRight(line, " \n") + "\n")
		}
	}
	if s := r.Secure; s != nil {
		fmt.Fprintf(&b, "neighbour   %s\nsignature   %s\nmask        %s, of a million words\n",
			formatEstimate(s.Neighbour.Times(1e3), "ms"),
			formatEstimate(s.Signature.Times(1e3), "ms"),
			formatEstimate(s.Mask.Times(1e3), "ms"))
	}
	if n := r.Network; n != nil {
		fmt.Fprintf(&b, "round trip  %s\n", formatEstimate(n.RoundTrip.Times(1e3), "ms"))
		// Both directions have the same columns.
		for _, l := range []struct {
			name string
			*Link
		}{{"download", &n.Download}, {"upload", &n.Upload}} {
			fmt.Fprintf(
				&b,
				"%-10s  %s and %.3g ms besides, scatter %.2g %%%s\n",
				l.name,
				formatEstimate(l.Mbps, "Mbit/s"),
				1e3*l.Overhead.Value,
				100*l.Scatter,
				noisyRemark(l.Noisy, "; noisy"),
			)
		}
	}
	m := &r.Machine
	fmt.Fprintf(&b, "memory      %s\npower       %s\n", m.memory(), m.power())
	// A temperature of 0 stands for a board without a sensor.
	if m.Celsius > 0 {
		fmt.Fprintf(&b, "temperature %.0f °C\n", m.Celsius)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
