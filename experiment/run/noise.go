package run

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"fedpace/actors/algorithm/privacy"
	"fedpace/experiment/folder"
)

// noiseFile keeps what keys the noise of a run with real devices: 32 random bytes, which
// its resumed and replayed runs need and nobody else may read.
const noiseFile = folder.NoiseFile

// noiseKey is the key of the run's noise. That of simulated clients follows from the seed.
// That of real devices is random: whoever has read the configuration cannot subtract it. It
// is made once for a folder; noise depends on the sum that it is added to, so that another
// run of the folder has other noise. A run that goes on after its first checkpoint needs it.
func (p *experiment) noiseKey(results *folder.Results, replay string, goesOn bool) (key privacy.Secret, err error) {
	switch {
	case p.Privacy == nil:
		return key, nil
	case len(p.Config.Devices.Names) == 0:
		return privacy.Public(p.Config.Seed), nil
	}
	path := results.Path(noiseFile)
	if replay != "" {
		path = filepath.Join(replay, noiseFile)
	}
	found, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && replay == "" && !goesOn:
		if _, err = rand.Read(key[:]); err == nil {
			err = writeKey(path, key[:])
		}
		return key, err
	case err != nil:
		return key, fmt.Errorf("the key of the run's noise: %w (without it the noise is another)", err)
	case len(found) != len(key):
		return key, fmt.Errorf("%s: %d bytes, want %d: it does not key the noise of a run", path, len(found), len(key))
	}
	return privacy.Secret(found), nil
}

// writeKey writes a file whole or not at all, and flushes it to the disk.
func writeKey(path string, key []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+noiseFile+".*") // for its owner alone
	if err != nil {
		return err
	}
	_, err = f.Write(key)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return os.Rename(f.Name(), path)
}
