package cli

import (
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
	task, model string
	config      []string
	batches     []int
	device      calibrate.DeviceInput
	seconds     float64
	pause       float64

	server  natsconn.Config
	id, run string

	name, outPath string

	ofConfig OfConfig
}

// OfConfig reads from files of configuration what the devices of their run do.
type OfConfig func(files []string, device calibrate.DeviceInput) (*calibrate.Subject, error)

// CalibrateCommand is the command that measures a device, of the program of this
// name. A program that reads no configurations has a nil ofConfig.
func CalibrateCommand(program string, ofConfig OfConfig) *cobra.Command {
	// as a device in a run
	f := calibration{ofConfig: ofConfig, server: natsconn.Config{Patience: -1, Await: true, Slow: true}}
	c := &cobra.Command{
		Use:   "calibrate",
		Short: "Measure how fast this device computes, and its link",
		Long: `Measure how long this device takes for its part in a run: a local step and what a
task and the first one take besides, and with --nats how fast models come and
updates go, until medians have narrow 95 % intervals; also memory and, where the
board tells, power.

Without --nats the paper's four tasks are measured, or what a flag names. With
--nats the coordinator's machine runs "fedpace calibrate serve", which says what
model its runs have.

--out writes a class for fleet: run --config FILE, behind the run's own file,
gives every client this speed. --seconds 600 shows what heat does.`,
		Example: "  " + program + ` calibrate
  ` + program + ` calibrate --task femnist --name pi4 --out pi4.yaml
  ` + program + ` calibrate --nats nats://lab:4222 --client pi1 --creds pi1.creds --name pi4 --out pi4.yaml
  fedpace run --config pi4.yaml --set stop.rounds=100`,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := f.check(); err != nil {
				return Usage(c, err)
			}
			return f.do(c)
		},
	}
	s := c.Flags()
	s.StringVar(&f.task, "task", "", "measure this task alone: sent140, femnist, cifar100 or shakespeare")
	s.StringVar(&f.model, "model", "", "measure this model, as fedpace run --dry-run prints it, such as mlp:4,16,3")
	s.StringArrayVar(&f.config, "config", nil, ConfigUsage)
	s.Lookup("config").Hidden = ofConfig == nil
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
		"how long each model and size of minibatches is measured; up to three times that where noisy",
	)
	s.Float64Var(&f.pause, "pause", 0.5, "seconds of rest before each task, with --nats")
	addOwn(c, &f.device)
	AddServer(c, &f.server)
	addClient(c, &f.id)
	s.StringVar(&f.run, "run", calibrate.Run, "name under which devices are calibrated, with --nats")
	s.StringVar(&f.name, "name", "device", "name of the class")
	s.StringVarP(&f.outPath, "out", "o", "", "`FILE` to write the class to")
	OneOf(c, "task", names.Of(tasks.Paper(), func(p tasks.Row) string { return string(p.Task) })...)
	CheckRun(c)
	CheckTimes(c)
	Check(c, "name", calibrate.CheckName)
	QuietFlag(c)
	JSONFlag(c, "all that was measured")
	return c
}

// addOwn gives a command the flags of what a device brings itself.
func addOwn(c *cobra.Command, device *real.Config) {
	s := c.Flags()
	s.StringVar(&device.Trainer, "trainer", "", TrainerUsage)
	s.StringArrayVar(&device.Map, "map", nil, MapHelp)
	s.StringVar(&device.Owner, "owner", "", "whose samples of the data are this device's: a name or a number")
	s.StringVar(&device.Data, "data", device.Data, "path of this device's data, synthetic, or trainer (its own)")
}

const maxBatch = 100_000

// CheckTimes holds the flags of a calibration to their bounds.
func CheckTimes(c *cobra.Command) {
	InRange(c, "pause", 0, 3600)
	InRange(c, "seconds", 0.01, 86400)
}

// check refuses flags that contradict each other, before anything is measured.
func (f *calibration) check() error {
	named := 0
	for _, given := range []bool{f.task != "", f.model != "", len(f.config) > 0} {
		if given {
			named++
		}
	}
	for _, batch := range f.batches {
		if batch < 1 || batch > maxBatch {
			return fmt.Errorf("--batch %d: want 1 to %d", batch, maxBatch)
		}
	}
	switch {
	case len(f.config) > 0 && f.ofConfig == nil:
		return errors.New("--config: this program reads no configurations; fedpace calibrate --config does, and " +
			"with --nats the coordinator's fedpace calibrate serve --config")
	case named > 1:
		return errors.New("--task, --model and --config: want one of them")
	case f.outPath != "" &&
		named == 0 &&
		f.device.Trainer == "" &&
		f.server.URL == "":
		return errors.New("--out needs --task, --model, --config, --trainer or --nats: a class of devices is of " +
			"one model")
	case f.server.URL != "" && f.id == "":
		return errors.New("--client is missing: the id of this device, as the coordinator knows it")
	}
	return nil
}

// do measures the link to the coordinator where a server is named, then the local steps of
// each subject, and prints the result. A subject is a model with its batch size.
func (f *calibration) do(c *cobra.Command) error {
	show := NewDisplay(c)
	defer show.Close()
	board := calibrate.ThisBoard()
	meter := board.Meter()
	r := calibrate.Result{Name: f.name, Date: time.Now().UTC(), Version: Version()}
	var welcome *bus.Welcome
	err := func() (err error) {
		if f.server.URL != "" {
			if welcome, err = f.network(c.Context(), show.Notice, meter.Phase, &r); err != nil {
				return err
			}
		}
		subjects, err := f.subjects(welcome)
		if err != nil {
			return err
		}
		for _, s := range subjects {
			if n := r.Network; n != nil && n.LocalSteps > 1 {
				s.Steps = n.LocalSteps
			}
		}
		meter.Phase(bus.Compute)
		timing := calibrate.Timing{Seconds: f.seconds} // one task after the other
		if f.server.URL != "" {                        // as in a run
			timing.Pause = time.Duration(f.pause * float64(time.Second))
		}
		for _, s := range subjects {
			show.Notice(fmt.Sprintf("Measuring %s, minibatches of %d.", s.Name, s.Batch()))
			measured, err := calibrate.MeasureCompute(c.Context(), s, timing, show.Notice)
			if err != nil {
				return err
			}
			r.Compute = append(r.Compute, measured)
		}
		return nil
	}()
	source, watts := meter.Stop()
	show.Close()
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

// network measures the link, and returns what the coordinator says of its runs.
func (f *calibration) network(
	ctx context.Context,
	notice func(string),
	phase func(bus.Phase),
	r *calibrate.Result,
) (*bus.Welcome, error) {
	f.server.Name = "device " + f.id
	f.server.Notice = func(n bus.Notice) {
		if n.State != bus.ServerLost { // it ends with what it measures; one that stays away is told of as waited for
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

// subjects are what is to be computed: what the flags name, or else the model of the
// coordinator's runs, or else, with no coordinator, the paper's tasks.
func (f *calibration) subjects(welcome *bus.Welcome) (list []*calibrate.Subject, err error) {
	const modelBatch = 32 // unless --batch says otherwise
	var s *calibrate.Subject
	switch {
	case f.task != "":
		s, err = calibrate.SubjectOfTask(tasks.Task(f.task), f.device)
	case f.model != "":
		s, err = calibrate.SubjectOfModel(f.model, modelBatch, f.device)
	case len(f.config) > 0:
		s, err = f.ofConfig(f.config, f.device)
	case welcome.GetSpec().GetModel() != "":
		s, err = calibrate.SubjectOfRun(welcome, f.device)
	case f.device.Trainer != "":
		s = calibrate.SubjectOfTrainer(modelBatch, f.device)
	case welcome != nil: // of a coordinator that named no model
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
	var each []*calibrate.Subject
	for _, s := range list {
		for _, batch := range f.batches {
			each = append(each, s.WithBatch(batch))
		}
	}
	return each, nil
}

// write writes the measured class of devices into the file of --out, if there is one.
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
