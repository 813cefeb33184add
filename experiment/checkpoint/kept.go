package checkpoint

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"

	"fedpace/experiment/folder"
)

// Kept is one of a folder's checkpoints, without its vectors.
type Kept struct {
	Checkpoint
	Name string // of the file
	err  error  // why it cannot be used
}

// ConfigWayOut says what to do about a config.yaml that is gone or damaged.
func (k *Kept) ConfigWayOut(dir string) string {
	return fmt.Sprintf("put %s right; where there is none, fedpace resume %s writes it again as %s holds it", folder.ConfigFile, dir, k.Name)
}

// List are the checkpoints in a folder, the newest first.
type List []*Kept

// In reads the checkpoints in a folder, without their vectors.
func In(dir string) (list List) {
	for _, name := range folder.Checkpoints {
		k := &Kept{Name: name}
		k.err = folder.ReadCheckpoint(dir, name, func(in *folder.Payload) error {
			err := k.readValues(in)
			if err == nil {
				_, err = io.Copy(io.Discard, in)
			}
			return err
		})
		if !errors.Is(k.err, fs.ErrNotExist) {
			list = append(list, k)
		}
	}
	return list
}

// Sound are those that can be used.
func (l List) Sound() List {
	return slices.DeleteFunc(slices.Clone(l), func(k *Kept) bool { return k.err != nil })
}
