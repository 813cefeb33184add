package cli

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/spf13/cobra"

	"fedpace/actors/calibrate"
	"fedpace/actors/real"
	"fedpace/algorithm/secagg"
	"fedpace/bus"
	"fedpace/bus/natsconn"
	"fedpace/internal/names"
)

// TrainerUsage is the help of the flag --trainer of all commands that have it.
const TrainerUsage = "`COMMAND` of a trainer, such as 'python3 my_model.py' or flower:APP (docs/trainers.md)"

// ConfigUsage is the help of the flag --config of all commands that have it.
const ConfigUsage = "YAML `FILE` to read; may be repeated, later files override"

// MapHelp is the help of the flag --map of all commands that have it.
const MapHelp = "what a column of your own CSV or Parquet means, as `OPTION=VALUE`: label=species, features=a,b or " +
	"features=px_*; fedpace help data lists the options"

// ActorCommand makes the command "actor", with which a real device takes part in runs. program is
// the name of the program, for the examples.
func ActorCommand(program string) *cobra.Command {
	// A device waits for its server for ever, because either may start first (Patience, Await). Its link may be slow,
	// so the connection counts as lost only after a longer silence.
	connection := natsconn.Config{Patience: -1, Await: true, Slow: true}
	var device real.Config
	var calibration string
	var keys secureKeys
	c := &cobra.Command{
		Use:   "actor",
		Short: "Take part in runs as a real device",
		Long: `Take part in runs as a real device: fetch each task's model, run local steps on
this machine's data and send the model back. The device waits for runs that name
it in devices.names. It reports its number of samples and the loss of each first
minibatch.`,
		Example: "  " + program + ` actor --nats nats://lab:4222 --client pi1 --creds pi1.creds
  ` + program + ` actor --nats nats://lab:4222 --client pi1 --creds pi1.creds --data my.parquet --run demo --once`,
		RunE: func(c *cobra.Command, _ []string) error {
			// Both flags are needed in any case; the rest has defaults.
			switch {
			case connection.URL == "":
				return Usage(c, errors.New("--nats is missing: the URL of the run's server, e.g. nats://lab:4222"))
			case device.ID == "":
				return Usage(
					c,
					errors.New("--client is missing: the id of this device, as the run's devices.names has it"),
				)
			}
			// What calibrate has measured lets the run notice a class that contradicts it.
			if calibration != "" {
				var err error
				device.Measured, err = calibrate.ReadMeasured(calibration)
				if err != nil {
					return err
				}
			}
			display := NewDisplay(c)
			defer display.Close()
			device.Notice, device.Version = display.Notice, Version()
			// A device that trains on synthetic data by mistake should be noticed.
			if !c.Flags().Changed("data") {
				display.Notice("No --data: this device trains on synthetic data of the run's task.")
			}
			if err := keys.read(&device); err != nil {
				return err
			}
			connection.Name = "device " + device.ID
			connection.Notice = func(n bus.Notice) { display.Notice(n.Text) }
			return actor(c.Context(), connection, device)
		},
	}
	s := c.Flags()
	AddServer(c, &connection)
	addDevice(c, &device)
	s.StringVar(&device.Run, "run", "", "take part in this run alone")
	CheckRun(c)
	s.BoolVar(&device.Once, "once", false, "end with the first run")
	s.IntVar(&device.Survivors, "secure", 0, "take part only in runs with secure aggregation of `N` updates or "+
		"more, at least 3; 0: in any run")
	s.StringVar(&keys.identity, "identity", "", "`FILE` of this device's key in secure aggregation, made if missing")
	s.StringVar(&keys.peers, "peers", "", "`FILE` of the keys with which this device shares secrets, one a line")
	Check(c, "secure", func(text string) error {
		n, err := strconv.Atoi(text)
		if err != nil || n != 0 && (n < 3 || n > secagg.MaxMembers) {
			return fmt.Errorf("%q is no number of updates: 3 to %d, or 0", text, secagg.MaxMembers)
		}
		return nil
	})
	s.StringVar(
		&calibration,
		"calibration",
		"",
		"`FILE` of calibrate --json, by which a run notices a wrong class of this device",
	)
	QuietFlag(c)
	return c
}

// addDevice adds the flags to c that say which device this is, what it tells of its data and what
// it brings itself. Their values go to device.
func addDevice(c *cobra.Command, device *real.Config) {
	addClient(c, &device.ID)
	c.Flags().StringSliceVar(&device.Withhold, "withhold", nil, "what this device withholds, separated by "+
		"commas: samples (their number), loss (of a task's first minibatch), log (what it prints)")
	Check(c, "withhold", func(text string) error {
		// A service file that withholds nothing has an empty value.
		if text == "" {
			return nil
		}
		return real.CheckWithhold(strings.Split(text, ","))
	})
	Complete(
		c,
		"withhold",
		cobra.FixedCompletions([]string{real.Samples, real.Losses, real.Log}, cobra.ShellCompDirectiveNoFileComp),
	)
	device.Data = real.SyntheticData
	addOwn(c, device)
}

// addClient adds the flag --client, the id of this device in the run, to c. It refuses ids that no
// NATS subject could hold.
func addClient(c *cobra.Command, id *string) {
	c.Flags().StringVar(id, "client", "", "device id: letters, digits, - and _, the first a letter")
	Check(c, "client", names.CheckDevice)
}

// actor works as the device that config describes, over the connection conn, until it is stopped. A
// stop by ctx is its ordinary end and no error. A server that is not there yet is waited for.
func actor(ctx context.Context, conn natsconn.Config, config real.Config) (err error) {
	holder, err := conn.Device(config.ID)
	if err != nil {
		return err
	}
	// The device may report at most as many samples as its credentials allow.
	config.Samples = holder.Samples
	device, err := real.Open(config)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, device.Close()) }()
	// The service manager hears that the device is ready before a server is there.
	stopping, err := supervised(ctx)
	if err != nil {
		return err
	}
	defer stopping()
	err = work(ctx, conn, device)
	// A server whose limit of messages was lowered has closed the connection. A new one learns of the limit.
	for natsconn.PayloadExceeded(err) && ctx.Err() == nil {
		config.Notice(err.Error() + "; connecting anew.")
		select {
		case <-ctx.Done():
		case <-time.After(reconnectAfter):
		}
		err = work(ctx, conn, device)
	}
	// Only the cancellation by this context is the ordinary end.
	if errors.Is(err, context.Canceled) && ctx.Err() != nil {
		return nil
	}
	return err
}

// reconnectAfter is the pause before a device connects anew whose connection is lost for good.
const reconnectAfter = 5 * time.Second

// work connects as conn says and has the device take part in runs, until ctx ends or the connection is lost for good.
func work(ctx context.Context, conn natsconn.Config, device *real.Device) error {
	server, err := natsconn.Connect(ctx, conn)
	if err != nil {
		return err
	}
	defer server.Close()
	return device.Work(ctx, server)
}

// supervised tells the service manager, if one started this process, that the process is ready and,
// at half of the time that its watchdog waits, that it still runs. The function stopping says that
// the process stops and ends the messages. Without a service manager, nothing is sent.
func supervised(ctx context.Context) (stopping func(), err error) {
	notified, err := daemon.SdNotify(false, daemon.SdNotifyReady)
	if err != nil {
		return nil, fmt.Errorf("the service manager cannot be told (NOTIFY_SOCKET): %w", err)
	}
	wait, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		return nil, fmt.Errorf("the service manager's watchdog (WATCHDOG_USEC): %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	var reports sync.WaitGroup
	if notified && wait > 0 {
		reports.Go(func() {
			for range bus.Ticks(ctx, wait/2) {
				// A message that gets lost is what the watchdog looks for, so that the error needs
				// no check.
				_, _ = daemon.SdNotify(false, daemon.SdNotifyWatchdog)
			}
		})
	}
	return func() {
		cancel()
		reports.Wait()
		// The process ends in any case, so that the error does not matter.
		_, _ = daemon.SdNotify(false, daemon.SdNotifyStopping)
	}, nil
}

// AddServer adds the flags to c that say how a NATS server is reached: its URL, the credentials and
// the certificates. Their values go to server.
func AddServer(c *cobra.Command, server *natsconn.Config) {
	s := c.Flags()
	s.StringVar(
		&server.URL,
		"nats",
		"",
		"URL of the NATS server, e.g. nats://host:4222; of a cluster several, separated by commas",
	)
	s.StringVar(&server.Creds, "creds", "", "file of credentials for it (fedpace enroll)")
	s.StringVar(&server.TLS.CA, "tls-ca", "", "PEM file of the authority of the other end's certificate")
	s.StringVar(&server.TLS.Cert, "tls-cert", "", "PEM file of this end's certificate")
	s.StringVar(&server.TLS.Key, "tls-key", "", "PEM file of its key")
	Check(c, "nats", func(url string) error {
		// A script may give an empty URL.
		if url == "" {
			return nil
		}
		return names.CheckURL(url)
	})
}
