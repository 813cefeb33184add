package doctor

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"fedpace/actors/real"
	"fedpace/bus"
	"fedpace/bus/gateway"
	"fedpace/bus/natsconn"
	"fedpace/internal/human"
)

// samples opens the device's data and starts its trainer, as for a run, and reports how many samples it
// has and whether the trainer works. It also tries the runs that call the device.
func samples(ctx context.Context, c *Config) (findings []Finding) {
	config := c.Device
	config.Notice = nil
	device, err := real.Open(config)
	if err != nil {
		remedy := "name a file that fedpace can read: fedpace data info FILE says what it holds"
		if errors.Is(err, real.ErrOwnerMissing) {
			remedy = "name one of its clients: --owner NAME"
		}
		return []Finding{failure("data", err.Error(), remedy)}
	}
	defer func() {
		if err := device.Close(); err != nil {
			findings = append(findings, failure("data", err.Error(), "try again"))
		}
	}()
	hasTrainer := config.Trainer != ""
	var model string
	if hasTrainer {
		model, err = device.TryTrainer(ctx)
	}
	n, isCounted := device.Samples()
	switch {
	case config.Data == real.SyntheticData:
		findings = append(findings, ok("data", "synthetic, made for each run"))
	case isCounted && n == 0:
		findings = append(
			findings,
			failure("data", config.Data+" holds no samples", "fedpace data info "+config.Data+" says what it holds"),
		)
	case isCounted:
		findings = append(findings, ok("data", fmt.Sprintf("%s: %d %s", config.Data, n, human.Plural(n, "sample"))))
	case config.Data != real.TrainerData:
		findings = append(
			findings,
			ok(
				"data",
				config.Data+" is read by the mapping of columns of a run that calls this device, and not tried "+
					"without one",
			),
		)
	}
	if len(config.Withhold) > 0 {
		findings = append(findings, ok("told", "all but "+strings.Join(config.Withhold, " and ")))
	}
	findings = append(findings, fitRuns(ctx, c, device)...)
	switch {
	case errors.Is(err, real.ErrNoSamplesYet):
		findings = append(findings, warning("trainer", "not started: "+err.Error(), "it starts with the first task"))
	case err != nil:
		findings = append(
			findings,
			failure(
				"trainer",
				err.Error(),
				"run its command by hand: it must begin without an error, and say what it trains",
			),
		)
	case hasTrainer:
		findings = append(findings, ok("trainer", "starts; its model is "+model))
	}
	return findings
}

// fitRuns tries what the device does first in each run that calls it, over a connection of its own.
func fitRuns(ctx context.Context, c *Config, device *real.Device) (findings []Finding) {
	if len(c.callingRuns) == 0 {
		return nil
	}
	connecting, stop := context.WithTimeout(ctx, serverPatience)
	defer stop()
	conn, err := natsconn.Connect(connecting, c.Conn)
	if err != nil {
		return []Finding{failure("runs", err.Error(), "try again")}
	}
	defer conn.Close()
	for _, run := range c.callingRuns {
		findings = append(findings, fitRun(ctx, c, conn, device, run))
	}
	return findings
}

// fitRun asks a run whether it would take the device, and prepares data, model and trainer for the run.
func fitRun(ctx context.Context, c *Config, conn *natsconn.Conn, device *real.Device, run string) Finding {
	asking, stop := context.WithTimeout(ctx, serverPatience)
	defer stop()
	r, err := gateway.Ask(asking, conn, run, c.Device.ID, c.Device.Samples, device.Join())
	switch {
	case err != nil:
		return warning("run "+run, err.Error(), "try again")
	case r.Status != bus.Accepted || r.Welcome == nil:
		return failure("run "+run, "it does not take this device: "+r.Reason, "change what it names")
	}
	if err := device.Prepare(ctx, run, r.Welcome); err != nil {
		return failure(
			"run "+run,
			err.Error(),
			"the actor would end with this: give it what the run needs, or --map for columns that have other names",
		)
	}
	n, _ := device.Samples()
	return ok(
		"run "+run,
		fmt.Sprintf("takes this device, with %d %s, and its model is ready", n, human.Plural(n, "sample")),
	)
}
