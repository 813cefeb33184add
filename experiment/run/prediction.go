package run

import (
	"context"
	"errors"
	"fedpace/experiment/config"
	"fmt"
	"path/filepath"

	"fedpace/experiment/folder"
	"fedpace/experiment/predict"
)

// predict compares a complete run with real devices with its prediction. That it cannot
// be predicted ends no run: the user is told.
func (r *recorder) predict(ctx context.Context, s *folder.Summary) error {
	if !s.Completed || len(r.p.Config.Devices.Names) == 0 {
		return nil
	}
	if err := r.outputs.Flush(); err != nil {
		return err
	}
	c, err := predict.Compare(ctx, &r.p.Problem, r.results.Path(""))
	switch {
	case err != nil:
		r.o.notice(fmt.Sprintf("The run is not compared with its prediction: %v.", err))
		return nil
	case c == nil:
		return nil
	}
	s.Prediction = &c.Prediction
	if c.Draws == 0 {
		return nil
	}
	return r.results.Replace(folder.PredictionFile, c.WriteCSV)
}

// Predict predicts the run in a folder again and compares it with what its devices
// measured. files and sets change its configuration, such as the fleet, as those of
// [config.LoadFiles].
func Predict(ctx context.Context, dir string, files, sets []string, o Options) (*predict.Comparison, error) {
	if err := noRun(dir, ""); err != nil {
		return nil, err
	}
	files = append([]string{filepath.Join(dir, folder.ConfigFile)}, files...)
	return o.predict(ctx, files, sets, func(p *experiment) (*predict.Comparison, error) {
		return predict.Compare(ctx, &p.Problem, dir)
	})
}

// PredictAhead predicts the run that a configuration describes, before it is run.
func PredictAhead(ctx context.Context, files, sets []string, o Options) (*predict.Comparison, error) {
	return o.predict(ctx, files, sets, func(p *experiment) (*predict.Comparison, error) {
		rounds := p.Config.Stop.Rounds
		if rounds == 0 {
			return nil, &config.KeyError{Key: "stop.rounds", Problem: "is not set, so it is not known how many rounds to predict (--set stop.rounds=100)"}
		}
		return predict.Ahead(ctx, &p.Problem, rounds)
	})
}

// predict prepares a problem with real devices and has it predicted.
func (o Options) predict(ctx context.Context, files, sets []string, how func(*experiment) (*predict.Comparison, error)) (_ *predict.Comparison, err error) {
	c, err := config.LoadFiles(files, sets)
	if err != nil {
		return nil, err
	}
	if len(c.Devices.Names) == 0 {
		return nil, &config.KeyError{Key: "devices.names", Problem: "names no real device, and what simulated clients take is no prediction (fedpace run --dry-run says how long such a run takes)"}
	}
	o.RemoteHosts = true // nothing is trained here
	p, err := o.prepare(ctx, c)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	found, err := how(p)
	if err == nil && found == nil {
		err = errors.New(predict.Lacking(c.Devices.IDs()))
	}
	return found, err
}
