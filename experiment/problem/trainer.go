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
)

// Trainers knows what the trainers of configurations are now. It starts each once.
type Trainers struct{ started map[string]trainer }

type trainer struct{ model, class string }

// Difference says in what the trainer of a configuration differs from that of a run; nil
// where it does not, or there is none.
func (t *Trainers) Difference(ctx context.Context, c config.Config, run *folder.Summary) (difference, err error) {
	if !c.External() || !c.Train {
		return nil, nil
	}
	key := fmt.Sprintf("%+v %s %s %#v", c.Trainer, c.Task, c.Data.Path, c.Data.Reader)
	now, found := t.started[key]
	if !found {
		p, err := Prepare(ctx, c, true, nil, nil)
		if err != nil {
			return nil, err
		}
		now = trainer{p.Model.String(), p.Kernel}
		if err := p.Close(); err != nil {
			return nil, err
		}
		if t.started == nil {
			t.started = map[string]trainer{}
		}
		t.started[key] = now
	}
	model := ""
	if run.Trainer != nil {
		model = run.Trainer.Model
	}
	return external.CompareTrainers(model, run.Kernel, now.model, now.class), nil
}

// startTrainer starts the trainer's first process, which tells its model, and its samples
// where it has its own.
func (p *Problem) startTrainer(ctx context.Context) (err error) {
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
	if !p.Config.IsTrainers() {
		if c.Data, err = external.Share(p.Set); err != nil {
			return err
		}
	}
	if p.Trainer, err = external.Open(ctx, c); err != nil {
		return errors.Join(err, c.Data.Close())
	}
	p.Model = p.Trainer.Model()
	p.Kernel = p.Trainer.Class
	return nil
}

// checkTrainerState refuses a trainer that has clients keep bytes where these cannot follow them, as
// the configuration by itself refuses all else that clients keep.
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
	switch {
	case closing.Overlaps(c.Close):
		return refuse("close", "needs rounds that do not overlap (use another closing rule)")
	case closing.UsesLate(c.Late):
		return refuse("late", "late updates do not fit (set late: drop)")
	}
	return nil
}
