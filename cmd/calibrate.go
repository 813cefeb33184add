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

// calibrateCommand is a device's command with the coordinator's end below it.
func calibrateCommand() *cobra.Command {
	c := cli.CalibrateCommand("fedpace", func(files []string, device calibrate.DeviceInput) (*calibrate.Subject, error) {
		var sets []string
		if device.Trainer != "" {
			sets = []string{fmt.Sprintf("trainer.command=%q", device.Trainer)}
		}
		loaded, err := config.LoadFiles(files, sets)
		if err != nil {
			return nil, err
		}
		return calibration.OfConfig(&loaded, device)
	})
	c.AddCommand(calibrateServeCommand())
	return c
}

// calibrationServer is what a command line asks of the coordinator's end.
type calibrationServer struct {
	config   []string
	devices  []string
	listen   string
	keys     string
	insecure bool
	server   natsconn.Config
	serve    calibration.Config
	pause    float64
}

// calibrateServeCommand makes "fedpace calibrate serve": the coordinator's end of a
// calibration, which measures the links of devices one after the other.
func calibrateServeCommand() *cobra.Command {
	var f calibrationServer
	c := &cobra.Command{
		Use:   "serve",
		Short: "Measure the links of devices that calibrate",
		Long: `Measure the links of devices, from the machine and over the server of their
runs' coordinator: each device that starts "fedpace calibrate --nats" gets models
and sends them back, one device after the other.

--config has the devices, the server and the model of a run, whose local steps the
devices measure. Else --devices names the devices, and a model of 1 MB travels.`,
		Example: `  fedpace calibrate serve --config exp.yaml
  fedpace calibrate serve --devices pi1,pi2 --listen 192.168.1.10:4222
  fedpace calibrate serve --devices pi1 --nats nats://server:4222 --creds coordinator.creds`,
		RunE: func(c *cobra.Command, _ []string) error { return f.do(c) },
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
	s.BoolVar(&f.insecure, "insecure", false, "let that server go without TLS (default nats.insecure of --config)")
	cli.AddServer(c, &f.server)
	s.StringVar(&f.serve.Run, "run", calibrate.Run, "name under which devices are calibrated, with --nats")
	s.Float64Var(
		&f.serve.Seconds,
		"seconds",
		30,
		"how long each device's transfers are measured; up to three times that where noisy",
	)
	// More than the 0.2 s after which Linux takes a connection over a short link for idle.
	s.Float64Var(
		&f.pause,
		"pause",
		0.5,
		"seconds of rest before a transfer, as in a run: an idle connection starts slowly",
	)
	cli.CheckRun(c)
	cli.CheckTimes(c)
	cli.QuietFlag(c)
	cli.JSONFlag(c, "measured, a list of what each device's transfers came to")
	return c
}

// do prepares the server's connection, measures the devices and prints what was measured.
// After an interruption it prints the devices that were done.
func (f *calibrationServer) do(c *cobra.Command) error {
	show := cli.NewDisplay(c)
	defer show.Close()
	f.serve.Notice = show.Notice
	f.serve.Pause = time.Duration(f.pause * float64(time.Second))
	if err := f.prepare(c.Context()); err != nil {
		return err
	}
	if err := f.check(c); err != nil {
		return cli.Usage(c, err)
	}
	f.serve.Devices = f.devices
	measured, err := f.measure(c.Context())
	show.Close()
	if err != nil && len(measured) == 0 {
		return cli.Interruption(c.Context(), err, "")
	}
	err = cli.Interruption(c.Context(), err, "what is printed")
	return errors.Join(
		err,
		cli.PrintTable(c, map[string]any{"measured": measured}, func(w io.Writer) { writeMeasured(w, measured) }),
	)
}

// check refuses flags that name no device, a device twice, no server or two servers.
func (f *calibrationServer) check(c *cobra.Command) error {
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

// prepare takes what the flags do not say from the run's configuration, and its model.
func (f *calibrationServer) prepare(ctx context.Context) (err error) {
	if len(f.config) == 0 {
		return nil
	}
	loaded, err := config.LoadFiles(f.config, nil)
	if err != nil {
		return err
	}
	if len(f.devices) == 0 {
		f.devices = loaded.Devices.IDs()
	}
	if f.listen == "" && f.server.URL == "" {
		f.listen = loaded.NATS.Listen
		if loaded.NATS.URL != config.Embedded && loaded.NATS.URL != config.None {
			f.server.URL = loaded.NATS.URL
			f.listen = ""
		}
	}
	f.serve.LocalSteps = calibration.FirstSteps(&loaded)
	f.insecure = f.insecure || loaded.NATS.Insecure
	if !loaded.Train {
		return nil
	}
	p, err := problem.Prepare(ctx, loaded, true, f.serve.Notice, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	if f.serve.Welcome, err = p.Welcome(); err == nil {
		f.serve.Welcome.Spec, f.serve.Welcome.Params = p.Learning().Spec(), uint32(p.Model.Params())
	}
	return err
}

// measure opens the run of the calibration on the server, and serves.
func (f *calibrationServer) measure(ctx context.Context) (_ []calibration.Measured, err error) {
	connection := f.server
	connection.Name = "calibration"
	connection.Await = true
	connection.Notice = func(n bus.Notice) { f.serve.Notice(n.Text) }
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
	defer conn.Close()
	models, err := conn.OpenCoordinator(ctx, f.serve.Run, bus.CoordinatorConfig{PublishModels: true})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, models.Close(context.WithoutCancel(ctx))) }()
	line, err := natsconn.Connect(ctx, connection) // for nothing but the devices
	if err != nil {
		return nil, err
	}
	defer line.Close()
	f.serve.Notice(fmt.Sprintf("Waiting for %s to calibrate.", strings.Join(f.devices, ", ")))
	return calibration.Serve(ctx, line, models, f.serve)
}

// writeMeasured prints a table with a line for each device: its round trip, and rate and
// overhead of its download and upload.
func writeMeasured(w io.Writer, all []calibration.Measured) {
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
