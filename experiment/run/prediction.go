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
// measured. sets change its configuration, such as the fleet, as those of [config.Load].
func Predict(ctx context.Context, dir string, files, sets []string, o Options) (_ *predict.Comparison, err error) {
	if err := noRun(dir, ""); err != nil {
		return nil, err
	}
	c, err := config.LoadFiles(append([]string{filepath.Join(dir, folder.ConfigFile)}, files...), sets)
	if err != nil {
		return nil, err
	}
	if len(c.Devices.Names) == 0 {
		return nil, fmt.Errorf("%s: the run there has no real devices: it took what its simulated clients take", dir)
	}
	o.RemoteHosts = true // nothing is trained here
	p, err := o.prepare(ctx, c)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	found, err := predict.Compare(ctx, &p.Problem, dir)
	if err == nil && found == nil {
		err = fmt.Errorf("%s: %s", dir, predict.Lacking(c.Devices.IDs()))
	}
	return found, err
}
