package problem

import (
	"context"
	"errors"
	"fmt"
	"time"

	"fedpace/actors/external"
	"fedpace/config"
	"fedpace/coordinator/closing"
	"fedpace/experiment/folder"
	"fedpace/experiment/identity"
)

// Inputs knows what the inputs of configurations are now: it reads each data set once, and
// starts each trainer once. The zero value knows none yet.
type Inputs struct {
	// data maps the settings of a data set, by [dataKey], to the digest of its samples and split.
	data map[string]string
	// trainers maps the settings of a trainer, and of the data that it is given, to what is known of it.
	trainers map[string]trainer
}

// trainer is what is known of a trainer once its program was started.
type trainer struct {
	// model is the name of the model, with the digests of the trainer's script and of its own data, and
	// with the names of the personal parameters.
	model string
	// kernel is the class of the trainer's arithmetic.
	kernel string
	// data is the digest of the samples, the trainer's own or those that it is given.
	data string
}

// Difference compares the inputs of a configuration, as they are now, with those of a run of the
// same configuration that has ended. difference is nil where they are the same, else it names
// the input. Kernel classes are compared for trainers alone: for others they stand in the
// configuration.
func (in *Inputs) Difference(
	ctx context.Context,
	c config.Config,
	run *folder.Summary,
) (difference, err error) {
	// recorded is what the run had when it began, and now what this machine has.
	recorded := identity.OfSummary(c, run)
	// What cannot have changed is copied; the parts that are read again replace it below.
	now := *recorded
	now.Files, err = identity.Files(&c)
	if err != nil {
		return nil, err
	}
	switch {
	// Only the trainer's program knows the model that it trains, so it has to be started.
	case c.External() && c.Train:
		program, err := in.askTrainer(ctx, c)
		if err != nil {
			return nil, err
		}
		now.Trainer = program.model
		now.Kernel = program.kernel
		now.Data = program.data
	// Made data follow from the configuration, which is the same; all others are read again.
	case recorded.Data != "" && !c.IsSynthetic():
		now.Data, err = in.dataDigest(ctx, c)
		if err != nil {
			return nil, err
		}
	}
	// A nil *Difference would become an error that is not nil.
	if d := recorded.Difference(&now); d != nil {
		return d, nil
	}
	return nil, nil
}

// dataDigest returns the digest of the samples, and of their split into clients, that configuration
// c reads now. The digest is calculated once for all configurations that read the same data.
func (in *Inputs) dataDigest(ctx context.Context, c config.Config) (string, error) {
	key := dataKey(&c)
	if digest, ok := in.data[key]; ok {
		return digest, nil
	}
	// The data are opened as a run would open them, and closed again.
	p := newProblem(c, nil)
	if err := p.openData(ctx, nil); err != nil {
		return "", errors.Join(err, p.Close())
	}
	digest := p.Set.Info().Digest
	if in.data == nil {
		in.data = map[string]string{}
	}
	in.data[key] = digest
	return digest, p.Close()
}

// dataKey returns a text of all settings on which the samples or their split depend. Configurations with
// equal texts read or make the same data.
func dataKey(c *config.Config) string {
	key := fmt.Sprintf("%s %#v %d %+v %t", c.Task, c.Data, c.Seed, c.Sent140, c.DevicesAlone())
	if c.IsSynthetic() {
		key += fmt.Sprintf(" %d %+v %+v %+v", syntheticClients(c), c.Synthetic, c.Quadratic, c.Logistic)
	}
	return key
}

// askTrainer starts the external trainer of configuration c, asks for its model, its class of arithmetic
// (the kernel) and its data, and ends it. Each trainer is asked once for all configurations that start it alike,
// with the same data and personal parameters.
func (in *Inputs) askTrainer(ctx context.Context, c config.Config) (trainer, error) {
	key := fmt.Sprintf("%+v %q %s", c.Trainer, c.Personal.Names, dataKey(&c))
	if t, ok := in.trainers[key]; ok {
		return t, nil
	}
	// Preparing as for remote hosts does not need the trainer's class on this machine.
	const remote = true
	p, err := Prepare(ctx, c, remote, nil, nil)
	if err != nil {
		return trainer{}, err
	}
	t := trainer{model: p.Model.String(), kernel: p.Kernel, data: p.Set.Info().Digest}
	if err := p.Close(); err != nil {
		return trainer{}, err
	}
	if in.trainers == nil {
		in.trainers = map[string]trainer{}
	}
	in.trainers[key] = t
	return t, nil
}

// startTrainer starts the trainer's first process, unless it has started already. The process gives its
// model, its class of arithmetic and, where it has its own, its samples.
func (p *Problem) startTrainer(ctx context.Context) (err error) {
	// openData has already started a trainer that has its own samples.
	if p.Trainer != nil {
		return nil
	}
	t := &p.Config.Trainer
	c := external.Config{
		Command: t.Command,
		Threads: t.Threads,
		Device:  t.Device,
		Silence: time.Duration(t.Silence * float64(time.Second)),
		Notice:  p.notice,
	}
	// A trainer without its own samples reads the run's, which are shared with its process.
	if !p.Config.UsesTrainerData() {
		c.Data, err = external.Share(p.Set)
		if err != nil {
			return err
		}
	}
	// The shared samples are released if no process has taken them over.
	p.Trainer, err = external.Open(ctx, c)
	if err != nil {
		return errors.Join(err, c.Data.Close())
	}
	p.Model = p.Trainer.Model()
	p.Kernel = p.Trainer.Class
	return nil
}

// checkTrainerState refuses a trainer whose clients keep bytes between tasks where a client may begin a
// task before the bytes of its last one are back: with rounds that overlap, or late updates that count.
// The configuration refuses personal parameters for the same reason.
func (p *Problem) checkTrainerState() error {
	c := &p.Config
	if p.Trainer == nil || p.Trainer.State == 0 {
		return nil
	}
	refuse := func(key, lacks string) error {
		return &config.KeyError{
			Key:         key,
			RelatedKeys: []string{"trainer"},
			Problem: fmt.Sprintf(
				"trainer %s has each client keep up to %d bytes, which %s",
				p.Trainer.Name,
				p.Trainer.State,
				lacks,
			),
		}
	}
	// Kept bytes must go from a client's task to its next one, and these rules break that order.
	switch {
	case closing.Overlaps(c.Close):
		return refuse("close", "needs rounds that do not overlap (use another closing rule)")
	case closing.UsesLate(c.Late):
		return refuse("late", "late updates do not fit (set late: drop)")
	}
	return nil
}

// checkTrainerSteps refuses a trainer with an optimizer of its own where the schedule follows from plain
// steps of SGD. Algorithms that count on them are refused by [actors.Problem.Check].
func (p *Problem) checkTrainerSteps() error {
	// Without a trainer, the steps are always plain steps of SGD.
	if p.Trainer == nil || p.Trainer.Steps.ArePlain() || !p.Config.UsesTheory() {
		return nil
	}
	return &config.KeyError{
		Key:         "schedule.k",
		RelatedKeys: []string{"trainer"},
		Problem: fmt.Sprintf(
			"theory is about plain steps of SGD, and trainer %s takes its own, %s (leave out optimizer= in the "+
				"script, or take another schedule)",
			p.Trainer.Name,
			p.Trainer.Steps,
		),
	}
}
