package run

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"fedpace/coordinator/devices"
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
	given := func(key string) bool {
		for _, s := range sets {
			if name, _, _ := strings.Cut(s, "="); name == key {
				return true
			}
		}
		return false
	}
	if !given("out") {
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

// ReadDevices reads what the real devices of the run in a folder said, in the
// order of their tasks.
func ReadDevices(dir string) ([]*devices.Answer, error) {
	l, err := openDevices(dir)
	if err != nil {
		return nil, err
	}
	list := make([]*devices.Answer, 0, len(l.answers))
	for _, task := range slices.Sorted(maps.Keys(l.answers)) {
		a, err := l.Answer(task)
		if err != nil {
			return nil, err
		}
		list = append(list, a)
	}
	return list, nil
}
