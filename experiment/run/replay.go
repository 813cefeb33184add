package run

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"fedpace/experiment/config"
	"fedpace/experiment/folder"
)

// LoadReplay is the configuration by which the run with real devices in a folder
// is played again, with what its devices said: pass dir as Options.Replay. Its
// results go to another folder, and it needs no server that devices reach. sets
// are as for [Load]; one that changes what the run computes ends in another
// history than the devices answered.
func LoadReplay(dir string, sets []string) (config.Config, error) {
	path := filepath.Join(dir, folder.ConfigFile)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return config.Config{}, fmt.Errorf("%s: %w (it holds no %s)", dir, ErrNoRun, folder.ConfigFile)
	}
	if !slices.ContainsFunc(sets, func(s string) bool { return strings.HasPrefix(s, "out=") }) {
		sets = append([]string{"out=" + filepath.Clean(dir) + "-replay"}, sets...)
	}
	c, err := config.Load(path, sets)
	if err != nil {
		return c, err
	}
	if len(c.Devices.Names) == 0 {
		return c, fmt.Errorf("%s: the run there has no real devices: run its %s again instead", dir, folder.ConfigFile)
	}
	c.NATS = config.Demonstration().NATS
	return c, nil
}
