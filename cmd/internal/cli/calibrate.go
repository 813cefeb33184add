package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"fedpace/actors/calibrate"
	"fedpace/actors/real"
	"fedpace/bus"
	"fedpace/bus/natsconn"
	"fedpace/internal/names"
	"fedpace/internal/tasks"
)

// calibration is what a command line asks to be measured.
type calibration struct {
	// task and model name what a device computes; at most one of task, model and config is given.
	task, model string
	// config are files of configuration whose run is to be measured.
	config []string
	// app is the folder of a Flower app, and python the command of a Python for it.
	app, python string
	// batches are the sizes of minibatches to measure; nil: that of the subject.
	batches []int
	// device is what the device brings itself: data, trainer and mapping.
	device calibrate.DeviceInput
	// seconds is how long each subject is measured.
	seconds float64
	// secure says that the device's part in secure aggregation is measured, too.
	secure bool
	// pause is the rest before each task, in seconds, where a server is named.
	pause float64

	// server is how the coordinator is reached; without a URL, the link is not measured.
	server natsconn.Config
	// id is the name of this device, and run that of the run in which devices are calibrated.
	id, run string

	// name is the name of the class, and outPath the file that it is written to; empty: none.
	name, outPath string

	// ofConfig reads what config names; nil in a program that reads no configurations.
	ofConfig OfConfig
}

// OfConfig reads files of configuration and returns the subject that the devices of their run
// compute, or that of a configuration with keys set as by --set. device is what this device brings itself.
type OfConfig func(files, sets []string, device calibrate.DeviceInput) (*calibrate.Subject, error)

// CalibrateCommand makes the command "calibrate", which measures a device. program is the name of
// the program, for the examples. ofConfig reads configurations; it is nil in a program that reads
// none, where --config is hidden.
func CalibrateCommand(program string, ofConfig OfConfig) *cobra.Command {
	// The device waits for its server as a device in a run does: for ever, also before the first connection, and for
	// slow links.
	f := calibration{ofConfig: ofConfig, server: natsconn.Config{Patience: -1, Await: true, Slow: true}}
	c := &cobra.Command{
		Use:   "calibrate",
		Short: "Measure how fast this device computes, and its link",
		Long: `Measure the time of this device's local steps, its overhead in a task and in the
first one, and with --nats its link, memory and, where the board tells it,
power. Models are the paper's four or what a flag names, with --nats that of
"fedpace calibrate serve" on the coordinator's machine.

--out writes a class of devices: run --config FILE, after the run's own file,
gives every client this speed.`,
		Example: "  " + program + ` calibrate
  ` + program + ` calibrate --task femnist --name pi4 --out pi4.yaml
  ` + program + ` calibrate --nats nats://lab:4222 --client pi1 --creds pi1.creds --name pi4 --out pi4.yaml
  fedpace run --config pi4.yaml --set stop.rounds=100`,
		RunE: func(c *cobra.Command, _ []string) error {
			// Mistakes in the flags are found before anything is measured.
			if err := f.check(); err != nil {
				return Usage(c, err)
			}
			return f.measure(c)
		},
	}
	s := c.Flags()
	s.StringVar(&f.task, "task", "", "measure this task alone: sent140, femnist, cifar100 or shakespeare")
	s.StringVar(&f.model, "model", "", "measure this model, as fedpace run --dry-run prints it, such as mlp:4,16,3")
	s.StringArrayVar(&f.config, "config", nil, ConfigUsage)
	// The flag exists in any case, so that an error can say which program reads it.
	s.Lookup("config").Hidden = ofConfig == nil
	if ofConfig != nil {
		s.StringVar(&f.app, "app", "", "measure the clients of the Flower app in this `FOLDER`")
		s.StringVar(&f.python, "python", "", "`COMMAND` of a Python for the app (default FEDPACE_PYTHON, else python3)")
	}
	s.IntSliceVar(
		&f.batches,
		"batch",
		nil,
		"samples of a minibatch, several separated by commas (default the run's, or 32 with --model)",
	)
	s.Float64Var(
		&f.seconds,
		"seconds",
		5,
		"measuring time of each model and batch; longer where noisy",
	)
	s.BoolVar(&f.secure, "secure", false, "also measure secure aggregation")
	s.Float64Var(&f.pause, "pause", 0.5, "seconds of rest before each task, with --nats")
	addOwn(c, &f.device)
	AddServer(c, &f.server)
	addClient(c, &f.id)
	s.StringVar(&f.run, "run", calibrate.Run, "name of the calibration, with --nats")
	s.StringVar(&f.name, "name", "device", "name of the class")
	s.StringVarP(&f.outPath, "out", "o", "", "`FILE` to write the class to")
	OneOf(c, "task", names.Of(tasks.Paper(), func(p tasks.Row) string { return string(p.Task) })...)
	CheckRun(c)
	CheckTimes(c)
	Check(c, "name", calibrate.CheckName)
	QuietFlag(c)
	JSONFlag(c, "")
	return c
}

// addOwn adds the flags to c for what a device brings itself: its trainer and its data. Their
// values go to device.
func addOwn(c *cobra.Command, device *real.Config) {
	s := c.Flags()
	s.StringVar(&device.Trainer, "trainer", "", TrainerUsage)
	s.StringArrayVar(&device.Map, "map", nil, MapHelp)
	s.StringVar(&device.Owner, "owner", "", "client whose samples are this device's, by name or number")
	s.StringVar(&device.Data, "data", device.Data, "path of this device's data, synthetic, or trainer")
}

// maxBatch is the largest number of samples in a minibatch that is measured.
const maxBatch = 100_000

// CheckTimes makes the flags pause and seconds of the command c refuse values outside their bounds.
func CheckTimes(c *cobra.Command) {
	InRange(c, "pause", 0, 3600)
	InRange(c, "seconds", 0.01, 86400)
}

// check returns an error for flags that contradict each other or lack one another. It runs before
// anything is measured, as that takes long.
func (f *calibration) check() error {
	subjects := 0
	for _, given := range []bool{f.task != "", f.model != "", len(f.config) > 0, f.app != ""} {
		if given {
			subjects++
		}
	}
	for _, batch := range f.batches {
		if batch < 1 || batch > maxBatch {
			return fmt.Errorf("--batch %d: want 1 to %d", batch, maxBatch)
		}
	}
	switch {
	// A program for devices alone cannot read configurations.
	case len(f.config) > 0 && f.ofConfig == nil:
		return errors.New("--config: this program reads no configurations; fedpace calibrate --config does, and " +
			"with --nats the coordinator's fedpace calibrate serve --config")
	case subjects > 1:
		return errors.New("--task, --model, --app and --config: want one of them")
	case f.outPath != "" &&
		subjects == 0 &&
		f.device.Trainer == "" &&
		f.server.URL == "":
		return errors.New("--out needs --task, --model, --app, --config, --trainer or --nats: a class of devices " +
			"is of one model")
	case f.server.URL != "" && f.id == "":
		return errors.New("--client is missing: the id of this device, as the coordinator knows it")
	}
	return nil
}

// measure measures the link to the coordinator, if a server is named, and then the local steps of each
// subject, a model with its batch size. It writes the class to the file of --out and prints the
// result.
func (f *calibration) measure(c *cobra.Command) error {
	display := NewDisplay(c)
	defer display.Close()
	board := calibrate.ThisBoard()
	meter := board.StartMeter()
	r := calibrate.Result{Name: f.name, Date: time.Now().UTC(), Version: Version()}
	var welcome *bus.Welcome
	// The meter of the power must stop whether or not the measuring fails.
	err := func() (err error) {
		if f.server.URL != "" {
			welcome, err = f.network(c.Context(), display.Notice, meter.SetPhase, &r)
			if err != nil {
				return err
			}
		}
		subjects, err := f.subjects(welcome)
		if err != nil {
			return err
		}
		for _, s := range subjects {
			// The coordinator says how many local steps the first tasks of its runs have; 1 means that it does not.
			if n := r.Network; n != nil && n.LocalSteps > 1 {
				s.Steps = n.LocalSteps
			}
		}
		meter.SetPhase(bus.Compute)
		// Without a coordinator, tasks follow one another without a pause.
		timing := calibrate.Timing{Seconds: f.seconds}
		// With a coordinator, a device rests between tasks as in a run.
		if f.server.URL != "" {
			timing.Pause = time.Duration(f.pause * float64(time.Second))
		}
		if f.secure {
			display.Notice("Measuring secure aggregation.")
			measured, err := calibrate.MeasureSecure(c.Context(), f.seconds)
			if err != nil {
				return err
			}
			r.Secure = &measured
		}
		for _, s := range subjects {
			name := s.Name
			if s.Batch() > 0 {
				name = fmt.Sprintf("%s, minibatches of %d", name, s.Batch())
			}
			display.Notice(fmt.Sprintf("Measuring %s.", name))
			measured, err := calibrate.MeasureCompute(c.Context(), s, timing, display.Notice)
			if err != nil {
				return err
			}
			r.Compute = append(r.Compute, measured)
		}
		return nil
	}()
	source, watts := meter.Stop()
	display.Close()
	// An interrupted measurement is worth nothing.
	if errors.Is(err, context.Canceled) && c.Context().Err() != nil {
		return Interrupted{Note: "nothing was written"}
	}
	if err != nil {
		return err
	}
	r.Machine = board.Machine()
	r.Machine.PowerSource = source
	r.Machine.Watts = watts
	if err := f.write(&r); err != nil {
		return err
	}
	return Print(c, &r, r.Write)
}

// network measures, as the device, the link to the coordinator, which answers by "fedpace calibrate serve". It stores
// the result in r and returns what the coordinator says of its runs. notice receives messages for the user, and
// phase is called when a phase of a transfer begins, for the power meter.
func (f *calibration) network(
	ctx context.Context,
	notice func(string),
	phase func(bus.Phase),
	r *calibrate.Result,
) (*bus.Welcome, error) {
	f.server.Name = "device " + f.id
	f.server.Notice = func(n bus.Notice) {
		// The loss of a server is not worth a notice: the measuring ends with it, or reports that
		// it waits.
		if n.State != bus.ServerLost {
			notice(n.Text)
		}
	}
	holder, err := f.server.Device(f.id)
	if err != nil {
		return nil, err
	}
	conn, err := natsconn.Connect(ctx, f.server)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	n, welcome, err := calibrate.MeasureNetwork(ctx, conn, calibrate.NetworkConfig{
		ID:      f.id,
		Run:     f.run,
		Samples: holder.Samples,
		Notice:  notice,
		Begin:   phase,
	})
	n.Server = conn.Address()
	r.Network = &n
	return welcome, err
}

// subjects returns what is to be computed, each with each size of minibatches that the flags name.
// It is what the flags name, else the model of the coordinator's runs in welcome, else, without a
// coordinator, the paper's tasks. welcome is nil without a coordinator; a coordinator without a
// model gives no subject.
func (f *calibration) subjects(welcome *bus.Welcome) (list []*calibrate.Subject, err error) {
	// modelBatch is the size of minibatches where neither a run nor --batch says one.
	const modelBatch = 32
	var s *calibrate.Subject
	switch {
	case f.task != "":
		s, err = calibrate.SubjectOfTask(tasks.Task(f.task), f.device)
	case f.model != "":
		s, err = calibrate.SubjectOfModel(f.model, modelBatch, f.device)
	// ofConfig makes a subject of the model of a configuration: of files, or of keys as for --set.
	case len(f.config) > 0:
		s, err = f.ofConfig(f.config, nil, f.device)
	case f.app != "":
		python := cmp.Or(f.python, os.Getenv("FEDPACE_PYTHON"), "python3")
		sets := []string{"task=flower", fmt.Sprintf("flower.app=%q", f.app), fmt.Sprintf("flower.python=%q", python)}
		s, err = f.ofConfig(nil, sets, f.device)
	case welcome.GetSpec().GetModel() != "":
		s, err = calibrate.SubjectOfRun(welcome, f.device)
	case f.device.Trainer != "":
		s = calibrate.SubjectOfTrainer(modelBatch, f.device)
	// A coordinator that names no model leaves nothing to compute.
	case welcome != nil:
		return nil, nil
	default:
		for _, p := range tasks.Paper() {
			subject, err := calibrate.SubjectOfTask(p.Task, f.device)
			if err != nil {
				return nil, err
			}
			list = append(list, subject)
		}
	}
	if err != nil {
		return nil, err
	}
	if s != nil {
		list = append(list, s)
	}
	if f.batches == nil {
		return list, nil
	}
	// Each subject is measured with each size of minibatches.
	var each []*calibrate.Subject
	for _, s := range list {
		for _, batch := range f.batches {
			each = append(each, s.WithBatch(batch))
		}
	}
	return each, nil
}

// write writes the measured class of devices as YAML to the file of --out. Without that flag it
// does nothing.
func (f *calibration) write(r *calibrate.Result) error {
	if f.outPath == "" {
		return nil
	}
	file, err := os.Create(f.outPath)
	if err != nil {
		return fmt.Errorf("--out: %w", err)
	}
	return errors.Join(r.WriteClass(file), file.Close())
}
