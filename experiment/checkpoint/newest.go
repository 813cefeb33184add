package checkpoint

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"fedpace/experiment/folder"
)

// ErrDamaged is wrapped by the error for a folder in which so much is damaged that
// its run cannot go on from any checkpoint.
var ErrDamaged = errors.New("too much is damaged")

// Newest reads the newest checkpoint that is whole, that fits the run, and whose outputs
// still hold what it says; nil if there is none at all. newer is why a newer one cannot be
// used. One that is foreign is refused: it may be all that is left of another run.
func Newest(results *folder.Results, run Head) (c *Checkpoint, newer, err error) {
	dir := results.Path("")
	var wrong []error
	for _, name := range folder.Checkpoints {
		c := &Checkpoint{}
		err := folder.ReadCheckpoint(dir, name, func(in *folder.Payload) error {
			if err := c.Read(in); err != nil {
				return err
			}
			return c.Head.fits(run)
		})
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = results.Check(c.Body.Outputs)
		}
		if err == nil {
			return c, errors.Join(wrong...), nil
		}
		wrong = append(wrong, err)
		if errors.Is(err, folder.ErrForeign) || errors.Is(err, folder.ErrFormat) {
			return nil, nil, errors.Join(wrong...)
		}
	}
	switch len(wrong) {
	case 0:
		return nil, nil, nil
	case 1:
		return nil, nil, fmt.Errorf("%w: %w, and there is none before it (%s)", ErrDamaged, wrong[0], PlayAgain(dir))
	}
	return nil, nil, fmt.Errorf("%w: %w; and the checkpoint before: %w (%s)", ErrDamaged, wrong[0], wrong[1], PlayAgain(dir))
}

// PlayAgain says what is left where a folder cannot be repaired.
func PlayAgain(dir string) string {
	dir = filepath.Clean(dir)
	return fmt.Sprintf("start the run again with run --config %s --out %s --force", filepath.Join(dir, folder.ConfigFile), dir)
}
