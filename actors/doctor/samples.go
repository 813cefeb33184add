package doctor

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"fedpace/actors/real"
	"fedpace/internal/human"
)

// samples opens the device's data and starts its trainer, as for a run.
func samples(ctx context.Context, c *Config) (findings []Finding) {
	config := c.Device
	config.Notice = nil
	device, err := real.Open(config)
	if err != nil {
		return []Finding{failure("data", err.Error(), "name a file that fedpace can read: fedpace data info FILE says what it holds")}
	}
	defer func() {
		if err := device.Close(); err != nil {
			findings = append(findings, failure("data", err.Error(), "try again"))
		}
	}()
	trained := config.Trainer != ""
	var model string
	if trained {
		model, err = device.TryTrainer(ctx)
	}
	n, known := device.Samples()
	switch {
	case config.Data == real.SyntheticData:
		findings = append(findings, ok("data", "synthetic, made for each run"))
	case known && n == 0:
		findings = append(findings, failure("data", config.Data+" holds no samples", "fedpace data info "+config.Data+" says what it holds"))
	case known:
		findings = append(findings, ok("data", fmt.Sprintf("%s: %s", config.Data, human.Plural(n, "sample"))))
	case config.Data != real.TrainerData:
		findings = append(findings, ok("data", config.Data+" is read by the run's mapping of columns"))
	}
	if len(config.Withhold) > 0 {
		findings = append(findings, ok("told", "all but "+strings.Join(config.Withhold, " and ")))
	}
	switch {
	case errors.Is(err, real.ErrNoSamplesYet):
		findings = append(findings, warning("trainer", "not started: "+err.Error(), "it starts with the first task"))
	case err != nil:
		findings = append(findings, failure("trainer", err.Error(), "run its command by hand: it must begin without an error, and say what it trains"))
	case trained:
		findings = append(findings, ok("trainer", "starts; its model is "+model))
	}
	return findings
}
