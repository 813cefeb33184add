package cmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"fedpace/cmd/internal/cli"
	"fedpace/experiment/folder"
	"fedpace/experiment/run"
	"fedpace/internal/names"
)

// coordinatorCommand makes "fedpace coordinator", which drives a run whose clients are answered for
// and trained by hosts in other processes. It trains nothing itself. p runs the experiment.
func coordinatorCommand(p program) *cobra.Command {
	var f runFlags
	var resume bool
	c := &cobra.Command{
		Use:   "coordinator",
		Short: "Run one experiment whose work hosts elsewhere do",
		Long: `Run one experiment as fedpace run does, to the same bits, while hosts (fedpace
host) simulate its clients and train. A run of devices alone (clients: 0) needs
no host. Its own server (nats.listen) asks for credentials (fedpace enroll).`,
		Example: `  fedpace coordinator --nats nats://server:4222 --config exp.yaml
  fedpace coordinator --set nats.listen=0.0.0.0:4222 --out runs/lab
  fedpace coordinator --nats tls://a:4222,tls://b:4222 --creds coordinator.creds --tls-ca ca.pem`,
		RunE: func(c *cobra.Command, _ []string) error {
			loaded, options, display, err := f.load(c, noReplay)
			if err != nil {
				return err
			}
			options.RemoteHosts = true
			options.Trainer = f.trainer
			// A server within this process only cannot be reached by hosts.
			if loaded.NATS.InProcess() {
				return cli.Usage(c, errors.New("hosts need a server to meet the coordinator on: --nats "+
					"nats://host:4222, or --set nats.listen=127.0.0.1:4222"))
			}
			// A service can be started again with the same command line: it continues its run.
			if resume && folder.HoldsRun(loaded.Out) == nil {
				return f.resume(c, p, loaded.Out, options, display)
			}
			// A run that starts under --resume keeps its folder's name, so that the next --resume
			// finds it there.
			if resume {
				const noStandard = ""
				return f.run(c, p, loaded, noStandard, options, display)
			}
			return f.run(c, p, loaded, standardFolder(loaded, noReplay), options, display)
		},
	}
	f.flags.add(c)
	f.add(c)
	c.Flags().BoolVar(&resume, "resume", false, "continue the folder's run, if it has one")
	return c
}

// hostCommand makes "fedpace host", which works for runs that coordinators elsewhere drive. A host
// needs no configuration: it learns each run's from the coordinator. p does the work. An
// interruption ends it with [cli.Interrupted] and not with an error of a run, because others do the
// work again.
func hostCommand(p program) *cobra.Command {
	var o run.HostOptions
	c := &cobra.Command{
		Use:   "host",
		Short: "Work for runs that coordinators elsewhere drive",
		Long: `Simulate clients of runs and train for them. A host may start and stop at any
time. Without the run's data or kernel class it does not train. With --app it
serves runs of this Flower app, of equal code and libraries.`,
		Example: `  fedpace host --nats nats://server:4222
  fedpace host --nats nats://server:4222 --run demo --workers 4 --once
  fedpace host --nats nats://server:4222 --app my-app --python venv/bin/python
  fedpace host --nats tls://server:4222 --creds box.creds --tls-ca ca.pem --data /data/femnist.fp`,
		RunE: func(c *cobra.Command, _ []string) error {
			// A host knows its runs only by a server.
			if o.NATS.URL == "" {
				return cli.Usage(c, errors.New("--nats is missing: the URL of the server on which the coordinator "+
					"is, e.g. nats://host:4222"))
			}
			o.Version = cli.Version()
			o.Output = c.ErrOrStderr()
			o.Python = cmp.Or(o.Python, os.Getenv("FEDPACE_PYTHON"), "python3")
			// Notices are lines on standard error, without a display: a host often runs as a
			// service.
			if !cli.Quiet(c) {
				o.Notice = func(line string) { fmt.Fprintln(c.ErrOrStderr(), line) }
			}
			err := p.host(c.Context(), o)
			// An interrupted host loses nothing: the coordinator gives its work to others.
			if c.Context().Err() != nil && errors.Is(err, context.Canceled) {
				return cli.Interrupted{Note: "this host has left its runs to others"}
			}
			return err
		},
	}
	cli.AddServer(c, &o.NATS)
	s := c.Flags()
	s.StringVar(&o.Run, "run", "", "take part in this run alone")
	s.IntVar(&o.Workers, "workers", 0, "trainers for each run (default one a core)")
	s.StringVar(&o.Data, "data", "", "path of the run's data here (default the configuration's)")
	s.StringVar(&o.Trainer, "trainer", "", cli.TrainerUsage)
	s.StringVar(&o.App, "app", "", "`FOLDER` of the coordinator's Flower app")
	s.StringVar(&o.Python, "python", "", "`COMMAND` of a Python for the app (default FEDPACE_PYTHON, else python3)")
	s.StringVar(&o.Name, "name", "", "name of this host (default made of the machine's)")
	s.StringVar(&o.HTTP, "http", "", "serve metrics at this `ADDRESS`, on /metrics, for Prometheus")
	s.BoolVar(&o.Once, "once", false, "end with the first run")
	cli.Positive(c, "workers")
	cli.CheckRun(c)
	cli.Check(c, "name", func(text string) error { return names.CheckToken("it", text) })
	cli.Check(c, "http", names.CheckAddress)
	cli.QuietFlag(c)
	return c
}
