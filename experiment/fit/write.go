package fit

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"fedpace/internal/human"
	"fedpace/internal/robust"
)

// YAML returns the classes as a configuration file to be given to fedpace run after the run's own.
// Its comments say how sure the numbers are.
func (f *Fit) YAML() []byte {
	var b strings.Builder
	for line := range strings.Lines(f.remarks()) {
		b.WriteString(strings.TrimRight("# "+line, " \n") + "\n")
	}
	b.Write(f.config.Part("fleet", "devices.names"))
	return []byte(b.String())
}

// Write prints the remarks on the fit, as they stand above the classes in YAML.
func (f *Fit) Write(w io.Writer) error {
	_, err := io.WriteString(w, f.remarks())
	return err
}

// remarks says for people how sure each fitted number is, which tasks were left out, and how well
// the classes repeat the run's times.
func (f *Fit) remarks() string {
	var b strings.Builder
	fmt.Fprintf(
		&b,
		"Classes of the real devices of %s, fitted to %s with models of %.6g Mbit.\n",
		f.Run,
		counted(f.Rounds, "round"),
		f.ModelMegabits,
	)
	fmt.Fprintf(&b, "Medians, and in brackets where they lie with 90 %%:\n\n")
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "device\tclass\ttasks\tdownload Mbit/s\tupload Mbit/s\tms a step\tms a task besides\tstep_cv\n")
	for i := range f.Devices {
		d := &f.Devices[i]
		if d.Tasks == 0 {
			fmt.Fprintf(t, "%s\t%s\t0\n", d.ID, cmp.Or(d.Class, "none"))
			continue
		}
		download := "not measured"
		upload := "not measured"
		if f.LinksMeasured {
			download = estimateText(d.DownloadMbps, 1)
			upload = estimateText(d.UploadMbps, 1)
		}
		fmt.Fprintf(
			t,
			"%s\t%s\t%d\t%s\t%s\t%s\t%s\t%.3g\n",
			d.ID,
			d.Class,
			d.Tasks,
			download,
			upload,
			estimateText(d.SecondsPerStep, 1e3),
			estimateText(d.ComputeOverhead, 1e3),
			d.StepCV,
		)
	}
	// Writing to memory never fails.
	t.Flush()
	b.WriteString("\n")
	for i := range f.Devices {
		f.writeLeftOut(&b, &f.Devices[i])
	}
	if f.LinksMeasured {
		b.WriteString("Transfers of one size do not tell an overhead from a speed: the overheads of transfers\nare " +
			"those of the class that a device had, and the speeds are what is left.\n")
	} else {
		b.WriteString("devices.link was modelled, so the run says nothing of its devices' links.\n")
	}
	var alike []string
	for _, d := range f.Devices {
		if d.Tasks > 0 && d.ComputeOverhead.Low == d.ComputeOverhead.High {
			alike = append(alike, d.ID)
		}
	}
	if alike != nil {
		fmt.Fprintf(&b, "K was too much alike to tell what a task takes besides its steps, so that is the "+
			"class's,\nand other K may take otherwise: %s.\n", human.Some(alike))
	}
	b.WriteString(f.Check.text())
	if f.Together {
		b.WriteString("The classes have that, too: their devices draw one of the run's rounds together " +
			"(vary.together).\n")
	}
	return b.String()
}

// estimateText writes an estimate multiplied by unit, with its interval in brackets if there is one.
func estimateText(e robust.Estimate, unit float64) string {
	if e.Low == e.High {
		return fmt.Sprintf("%.4g", e.Value*unit)
	}
	return fmt.Sprintf("%.4g [%.4g, %.4g]", e.Value*unit, e.Low*unit, e.High*unit)
}

// writeLeftOut writes which of a device's tasks were not used, and why. It writes nothing if all were.
func (f *Fit) writeLeftOut(w io.Writer, d *Device) {
	var list []string
	add := func(n int, format string) {
		if n > 0 {
			list = append(list, fmt.Sprintf(format, n))
		}
	}
	if d.LeftOut.First > 0 {
		list = append(list, "the first")
	}
	add(d.LeftOut.Lost, "%d lost")
	add(d.LeftOut.Refused, "%d refused")
	add(d.LeftOut.Broken, "%d broken off")
	add(d.Measured-d.Tasks, "%d others, evenly")
	if list != nil {
		fmt.Fprintf(w, "%s: left out are %s.\n", d.ID, strings.Join(list, ", "))
	}
}

// text says in sentences how well the classes repeat the run, and how far another run may be from it.
func (c *Check) text() string {
	s := fmt.Sprintf("The tasks took %.4g s, and take %.4g s with these classes (%+.1f %%, mean of %d draws).\n",
		c.TaskSeconds, c.FittedTaskSeconds, 100*(c.FittedTaskSeconds/c.TaskSeconds-1), c.Draws)
	if c.Rounds > 0 {
		s += fmt.Sprintf("%s took %.4g s, and take %.4g s (%+.1f %%); %d of them lie within the 90 %% of the draws.\n",
			counted(c.Rounds, "round"), c.RoundSeconds, c.FittedRoundSeconds,
			100*(c.FittedRoundSeconds/c.RoundSeconds-1), c.RoundsInside)
		s += fmt.Sprintf("With what was measured dealt anew among them they take %.4g s (%+.1f %%): that much "+
			"comes of devices, or phases, that are slow together.\n",
			c.DealtRoundSeconds, 100*(c.DealtRoundSeconds/c.RoundSeconds-1))
		s += fmt.Sprintf("In another run a device is faster or slower than here, by its uncertainty, and the "+
			"slowest ones set the rounds:\nthese then take %.4g s (%+.1f %%; 90 %%: %.4g to %.4g s). Which it will "+
			"be, this run cannot say.\n",
			c.Another.Value, 100*(c.Another.Value/c.RoundSeconds-1), c.Another.Low, c.Another.High)
	}
	return s
}
