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

// noiseKey returns the key of the run's noise of differential privacy; zero without privacy. In a
// simulation the key follows from the seed. With real devices it is random, so that whoever reads the
// configuration cannot subtract the noise. It is drawn once for a folder and kept in a file that only
// this user can read. replay is the folder of the run that is replayed, whose key is used; empty: none.
// resumed says that the run continues from a checkpoint, so that a missing key is an error.
func (p *experiment) noiseKey(results *folder.Results, replay string, resumed bool) (key privacy.Secret, err error) {
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
	case errors.Is(err, fs.ErrNotExist) && replay == "" && !resumed:
		rand.Read(key[:])
		return key, atomicfile.WriteSecret(path, atomicfile.Bytes(key[:]))
	case err != nil:
		return key, fmt.Errorf("the key of the run's noise: %w (without it the noise is another)", err)
	case len(found) != len(key):
		return key, fmt.Errorf("%s: %d bytes, want %d: it does not key the noise of a run", path, len(found), len(key))
	}
	return privacy.Secret(found), nil
}
