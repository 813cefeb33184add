package cmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"fedpace/actors/calibrate"
	"fedpace/bus"
	"fedpace/bus/embedded"
	"fedpace/bus/natsbus"
	"fedpace/bus/natsconn"
	"fedpace/cmd/internal/cli"
	"fedpace/config"
	"fedpace/experiment/fit/calibration"
	"fedpace/experiment/problem"
	"fedpace/experiment/run"
	"fedpace/internal/names"
)

// calibrateCommand makes "fedpace calibrate", which measures a device, with the subcommand "serve"
// for the coordinator's end. Configuration files, if given, say what the devices of their run
// compute.
func calibrateCommand() *cobra.Command {
	ofConfig := func(files, sets []string, device calibrate.DeviceInput) (*calibrate.Subject, error) {
		// A trainer on the command line overrides that of the files, as --set trainer.command
		// would.
		if device.Trainer != "" {
			sets = append(sets, fmt.Sprintf("trainer.command=%q", device.Trainer))
		}
		loaded, err := config.LoadFiles(files, sets)
		if err != nil {
			return nil, err
		}
		if loaded.PlaysFlower() {
			return subjectOfApp(&loaded), nil
		}
		return calibration.OfConfig(&loaded, device)
	}
	c := cli.CalibrateCommand("fedpace", ofConfig)
	c.AddCommand(calibrateServeCommand())
	return c
}

// subjectOfApp returns the clients of the Flower app of configuration c as what is to be measured: the app is played to
// its end by one process, in a folder that is removed.
func subjectOfApp(c *config.Config) *calibrate.Subject {
	return &calibrate.Subject{
		Name: "Flower app " + c.Flower.App,
		Measure: func(ctx context.Context, notice func(string)) (calibrate.Compute, error) {
			return run.MeasureApp(ctx, c, notice)
		},
	}
}

// calibrationServer holds the flags of "fedpace calibrate serve", the coordinator's end of a
// calibration.
type calibrationServer struct {
	// config lists the configuration files of the run, in their order; empty: there is no run, and
	// a standard model is sent.
	config []string
	// devices lists the ids of the devices to measure.
	devices []string
	// listen is the address of a server in this process; empty: server names another one.
	listen string
	// keys is the folder of the keys; empty: this user's.
	keys string
	// insecure lets a server of this process go without TLS.
	insecure bool
	// server is the NATS server that exists already; its URL is empty where this process serves.
	server natsconn.Config
	// serve configures the measurement itself.
	serve calibration.Config
	// pause is the rest before each transfer, in seconds.
	pause float64
}

// calibrateServeCommand makes "fedpace calibrate serve", the coordinator's end of a calibration. It
// measures the links of the devices that --devices or the configuration names, one after the other,
// so that they do not share the coordinator's link.
func calibrateServeCommand() *cobra.Command {
	var f calibrationServer
	c := &cobra.Command{
		Use:   "serve",
		Short: "Measure the links of devices that calibrate",
		Long: `Measure from the coordinator's machine the links of devices that start
"fedpace calibrate --nats". --config gives devices, server and model of a run;
without it --devices names the devices, and the model has 1 MB.`,
		Example: `  fedpace calibrate serve --config exp.yaml
  fedpace calibrate serve --devices pi1,pi2 --listen 192.168.1.10:4222
  fedpace calibrate serve --devices pi1 --nats nats://server:4222 --creds coordinator.creds`,
		RunE: func(c *cobra.Command, _ []string) error { return f.run(c) },
	}
	s := c.Flags()
	s.StringArrayVar(&f.config, "config", nil, cli.ConfigUsage)
	s.StringSliceVar(
		&f.devices,
		"devices",
		nil,
		"ids of the devices, with commas between them (default devices.names of --config)",
	)
	s.StringVar(
		&f.listen,
		"listen",
		"",
		"`ADDRESS` on which a server of this process listens (default nats.listen of --config)",
	)
	s.StringVar(&f.keys, "keys", "", "folder of the keys (default this user's)")
	s.BoolVar(&f.insecure, "insecure", false, "that server needs no TLS (default nats.insecure of --config)")
	cli.AddServer(c, &f.server)
	s.StringVar(&f.serve.Run, "run", calibrate.Run, "name of the calibration, with --nats")
	s.Float64Var(
		&f.serve.Seconds,
		"seconds",
		30,
		"measuring time of each device; longer where noisy",
	)
	// More than the 0.2 s after which Linux takes a connection over a short link for idle.
	s.Float64Var(
		&f.pause,
		"pause",
		0.5,
		"rest before a transfer: an idle connection starts slowly",
	)
	// Values are checked when the flags are read, before anything is started.
	cli.CheckRun(c)
	cli.CheckTimes(c)
	cli.QuietFlag(c)
	cli.JSONFlag(c, "")
	return c
}

// run prepares the server's connection, measures the devices and prints what was measured. c is the
// command, whose context is cancelled by a signal; after an interruption, the devices that were
// done are printed.
func (f *calibrationServer) run(c *cobra.Command) error {
	display := cli.NewDisplay(c)
	defer display.Close()
	f.serve.Notice = display.Notice
	f.serve.Pause = time.Duration(f.pause * float64(time.Second))
	// The configuration fills in what the flags leave out, so flags are checked behind it.
	if err := f.prepare(c.Context()); err != nil {
		return err
	}
	if err := f.check(c); err != nil {
		return cli.Usage(c, err)
	}
	f.serve.Devices = f.devices
	// An interrupted measurement still returns the devices that were done before.
	measured, err := f.measure(c.Context())
	display.Close()
	// Nothing was measured, so there is nothing to print.
	if err != nil && len(measured) == 0 {
		return cli.Interruption(c.Context(), err, "")
	}
	err = cli.Interruption(c.Context(), err, "what is printed")
	return errors.Join(
		err,
		cli.PrintTable(c, map[string]any{"measured": measured}, func(w io.Writer) { writeMeasured(w, measured) }),
	)
}

// check refuses a list of devices that is empty, has an invalid id or has one id twice, and a
// command line with no server or with two. It runs after prepare, so values of the configuration
// count.
func (f *calibrationServer) check(c *cobra.Command) error {
	// A mistake is reported with the flag that mends it.
	switch {
	case len(f.devices) == 0:
		return errors.New("--devices is missing: the ids of the devices that calibrate (or --config with " +
			"devices.names)")
	case f.server.URL != "" && c.Flags().Changed("listen"):
		return errors.New("--nats and --listen: want one of them")
	case f.server.URL == "" && f.listen == "":
		return errors.New("the devices need a server: --listen 192.168.1.10:4222 for one in this process, or " +
			"--nats nats://host:4222")
	}
	// Each id must be valid and differ from those before it.
	for i, id := range f.devices {
		if err := names.CheckDevice(id); err != nil {
			return fmt.Errorf("--devices: %w", err)
		}
		if slices.Contains(f.devices[:i], id) {
			return fmt.Errorf("--devices: %q is named twice", id)
		}
	}
	return nil
}

// prepare fills in devices, server and local steps from the run's configuration where the flags do
// not give them. For a run that trains it also prepares the problem and takes its model for the
// transfers. Without --config it does nothing.
func (f *calibrationServer) prepare(ctx context.Context) (err error) {
	if len(f.config) == 0 {
		return nil
	}
	loaded, err := config.LoadFiles(f.config, nil)
	if err != nil {
		return err
	}
	// The devices of the run are measured unless flags name others.
	if len(f.devices) == 0 {
		f.devices = loaded.Devices.IDs()
	}
	// The configuration's server counts only if the flags name none. A URL there wins over listen.
	if f.listen == "" && f.server.URL == "" {
		f.listen = loaded.NATS.Listen
		if loaded.NATS.URL != config.Embedded && loaded.NATS.URL != config.None {
			f.server.URL = loaded.NATS.URL
			f.listen = ""
		}
	}
	f.serve.LocalSteps = calibration.FirstSteps(&loaded)
	f.insecure = f.insecure || loaded.NATS.Insecure
	// A run without training has no model of its own.
	if !loaded.Train {
		return nil
	}
	// The model's size decides how long a transfer takes, so it must be that of the run.
	const remoteHosts = true
	p, err := problem.Prepare(ctx, loaded, remoteHosts, f.serve.Notice, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	f.serve.Welcome, err = p.Welcome()
	if err == nil {
		f.serve.Welcome.Spec = p.Learning().Spec()
		f.serve.Welcome.Params = uint32(p.Model.Params())
	}
	return err
}

// measure connects to the server, or starts one in this process, opens the calibration as a run of
// its own and measures all devices. It returns what was measured, also beside an error.
func (f *calibrationServer) measure(ctx context.Context) (_ []calibration.Measured, err error) {
	connection := f.server
	connection.Name = "calibration"
	connection.Await = true
	connection.Notice = func(n bus.Notice) { f.serve.Notice(n.Text) }
	// Without a URL the server runs in this process.
	if connection.URL == "" {
		server, err := run.Embedded(
			ctx,
			embedded.Config{Listen: f.listen, Notice: f.serve.Notice},
			f.keys,
			connection.TLS,
			f.insecure,
		)
		if err != nil {
			return nil, err
		}
		defer server.Close()
		f.serve.Notice("Devices " + run.Joining(server))
		connection = natsconn.Config{Server: server, Name: connection.Name, Notice: connection.Notice}
	}
	conn, err := natsbus.Connect(ctx, connection, nil)
	if err != nil {
		return nil, err
	}
	// The models of the calibration are stored on this connection.
	defer conn.Close()
	models, err := conn.OpenCoordinator(ctx, f.serve.Run, bus.CoordinatorConfig{PublishModels: true})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, models.Close(context.WithoutCancel(ctx))) }()
	// Control messages with devices have a connection of their own, apart from the one of the
	// models.
	control, err := natsconn.Connect(ctx, connection)
	if err != nil {
		return nil, err
	}
	defer control.Close()
	f.serve.Notice(fmt.Sprintf("Waiting for %s to calibrate.", strings.Join(f.devices, ", ")))
	return calibration.Serve(ctx, control, models, f.serve)
}

// writeMeasured writes a table to w with a line for each device in all: its round trip in
// milliseconds, and for download and upload the rate in Mbit/s and the overhead of a transfer in
// milliseconds.
func writeMeasured(w io.Writer, all []calibration.Measured) {
	// The overhead is measured in seconds.
	link := func(l *calibrate.Link) string {
		return fmt.Sprintf("%.4g Mbit/s + %.3g ms", l.Mbps.Value, 1e3*l.Overhead.Value)
	}
	fmt.Fprintln(w, "device\tround trip\tdownload\tupload")
	for i := range all {
		n := &all[i].Network
		fmt.Fprintf(
			w,
			"%s\t%.3g ms\t%s\t%s\n",
			all[i].Device,
			1e3*n.RoundTrip.Value,
			link(&n.Download),
			link(&n.Upload),
		)
	}
}
