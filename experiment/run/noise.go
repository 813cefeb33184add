package run

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"fedpace/algorithm/privacy"
	"fedpace/experiment/folder"
	"fedpace/internal/atomicfile"
	"fedpace/internal/regular"
)

// noiseKey is the key of the run's noise. That of simulated clients follows from the seed.
// That of real devices is random: whoever has read the configuration cannot subtract it. It
// is made once for a folder, in a file that nobody else may read; noise depends on the sum that it
// is added to, so that another run of the folder has other noise. A run that goes on after its
// first checkpoint needs it.
func (p *experiment) noiseKey(results *folder.Results, replay string, goesOn bool) (key privacy.Secret, err error) {
	switch {
	case p.Privacy == nil:
		return key, nil
	case len(p.Config.Devices.Names) == 0:
		return privacy.Public(p.Config.Seed), nil
	}
	path := results.Path(folder.NoiseFile)
	// A replay needs the key of the run that it plays again.
	if replay != "" {
		path = filepath.Join(replay, folder.NoiseFile)
	}
	found, err := regular.ReadFile(path)
	switch {
	// A new key is made only for a run that starts: after a checkpoint it would be another noise.
	case errors.Is(err, fs.ErrNotExist) && replay == "" && !goesOn:
		rand.Read(key[:])
		return key, atomicfile.WriteSecret(path, atomicfile.Bytes(key[:]))
	case err != nil:
		return key, fmt.Errorf("the key of the run's noise: %w (without it the noise is another)", err)
	case len(found) != len(key):
		return key, fmt.Errorf("%s: %d bytes, want %d: it does not key the noise of a run", path, len(found), len(key))
	}
	return privacy.Secret(found), nil
}
