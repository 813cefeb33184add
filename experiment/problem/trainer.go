package problem

import (
	"context"
	"errors"
	"time"

	"fedpace/actors/external"
)

// startTrainer starts the trainer's first process, which tells its model, and its samples
// where it has its own.
func (p *Problem) startTrainer(ctx context.Context) (err error) {
	if p.Trainer != nil {
		return nil
	}
	t := &p.Config.Trainer
	c := external.Config{Command: t.Command, Threads: t.Threads, Device: t.Device, Silence: time.Duration(t.Silence * float64(time.Second)), Notice: p.notice}
	if !p.Config.IsTrainers() {
		if c.Data, err = external.Share(p.Set); err != nil {
			return err
		}
	}
	if p.Trainer, err = external.Open(ctx, c); err != nil {
		return errors.Join(err, c.Data.Close())
	}
	p.Model, p.Kernel = p.Trainer.Model(), p.Trainer.Class
	return nil
}
