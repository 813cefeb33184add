package checkpoint

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"fedpace/config"
	"fedpace/experiment/folder"
	"fedpace/experiment/identity"
)

// Saved is one of a folder's checkpoints, read without its vectors.
type Saved struct {
	Checkpoint
	// Name is the name of the checkpoint's file in the folder.
	Name string
	// err says why the run cannot go on from the checkpoint; nil means that it can.
	err error
}

// ConfigWayOut says what to do about a config.yaml that is gone or damaged while this checkpoint is
// there.
func (k *Saved) ConfigWayOut(dir string) string {
	return fmt.Sprintf(
		"put %s right; where there is none, fedpace resume %s writes it again as %s holds it",
		folder.ConfigFile,
		dir,
		k.Name,
	)
}

// List are the checkpoints in a folder, the newest first.
type List []*Saved

// ReadAll reads the heads and bodies of all checkpoints in a folder, without their vectors. A checkpoint that
// cannot be read is in the list, too, and is not usable.
func ReadAll(dir string) (list List) {
	for _, name := range folder.Checkpoints {
		k := &Saved{Name: name}
		k.err = folder.ReadCheckpoint(dir, name, func(in *folder.Payload) error {
			err := k.readValues(in)
			if err == nil {
				// The vectors are skipped: bytes that are left unread would count as damage.
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

// Usable lists the checkpoints from which a run can go on.
func (l List) Usable() List {
	return slices.DeleteFunc(slices.Clone(l), func(k *Saved) bool { return k.err != nil })
}

// ErrDamaged is wrapped by the error for a folder in which so much is damaged that
// its run cannot go on from any checkpoint.
var ErrDamaged = errors.New("too much is damaged")

// Newest reads the newest checkpoint that is whole, that fits the run, and with which the outputs agree.
// c and err are nil if the folder has no checkpoint at all. newer says why a newer checkpoint cannot be used. A
// checkpoint of another run or of other inputs is an error and not passed over: it may be all that is left of
// that run.
func Newest(results *folder.Results, run Head) (c *Checkpoint, newer, err error) {
	dir := results.Path("")
	var problems []error
	for _, name := range folder.Checkpoints {
		c := &Checkpoint{}
		err := folder.ReadCheckpoint(dir, name, func(in *folder.Payload) error {
			if err := c.Read(in); err != nil {
				return err
			}
			return c.Head.checkFits(run)
		})
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = results.Check(c.Body.Outputs)
		}
		if err == nil {
			return c, errors.Join(problems...), nil
		}
		problems = append(problems, err)
		// An older checkpoint must not be used in place of one that belongs to another run or
		// inputs.
		if folder.Refused(err) {
			return nil, nil, errors.Join(problems...)
		}
	}
	switch len(problems) {
	case 0:
		return nil, nil, nil
	case 1:
		return nil, nil, fmt.Errorf("%w: %w, and there is none before it (%s)", ErrDamaged, problems[0], PlayAgain(dir))
	}
	return nil, nil, fmt.Errorf(
		"%w: %w; and the checkpoint before: %w (%s)",
		ErrDamaged,
		problems[0],
		problems[1],
		PlayAgain(dir),
	)
}

// PlayAgain says how to start a run again, where its folder cannot be repaired.
func PlayAgain(dir string) string {
	dir = filepath.Clean(dir)
	return fmt.Sprintf(
		"start the run again with run --config %s --out %s --force",
		filepath.Join(dir, folder.ConfigFile),
		dir,
	)
}

// PlayElsewhere says how to start a run again where the checkpoint in its folder may be good: in another folder.
func PlayElsewhere(dir string) string {
	dir = filepath.Clean(dir)
	return fmt.Sprintf(
		"start the run again with run --config %s --out %s-again",
		filepath.Join(dir, folder.ConfigFile),
		dir,
	)
}

// checkFits returns an error that says how a checkpoint's run, that of h, differs from the run that is to go on
// from it. It returns nil if they fit.
func (h Head) checkFits(run Head) error {
	saved, err := config.Parse("configuration", []byte(h.Config))
	if err != nil {
		return fmt.Errorf("%w: its configuration cannot be read: %w", folder.ErrForeign, err)
	}
	current, err := config.Parse("configuration", []byte(run.Config))
	if err != nil {
		return err
	}
	difference := h.identity(saved).Difference(run.identity(current))
	// The bits are the same, but the run might still write other files than before.
	if difference == nil {
		return checkSameFiles(saved, current)
	}
	switch difference.Part {
	case identity.Configuration:
		return fmt.Errorf(
			"%w: %s (change config.yaml back, move a checkpoint of another run away, or begin another run with "+
				"run --out)",
			folder.ErrForeign,
			difference.Text,
		)
	case identity.Trainer:
		return fmt.Errorf(
			"%w: %s (bring the trainer back with which it began, or begin another run with run --out)",
			folder.ErrInputs,
			difference.Text,
		)
	case identity.Kernel:
		return fmt.Errorf("%w: %s (go on with it on a machine with that class)", folder.ErrInputs, difference.Text)
	}
	return fmt.Errorf(
		"%w: %s (bring back what it began with, or begin another run with run --out)",
		folder.ErrInputs,
		difference.Text,
	)
}

// identity is what the checkpoint's run follows from. c is its configuration, parsed.
func (h Head) identity(c config.Config) *identity.Identity {
	return &identity.Identity{
		Config:  c,
		Files:   h.Files,
		Data:    h.Data,
		Kernel:  h.Kernel,
		Trainer: h.Trainer,
	}
}

// checkSameFiles returns an error if the configuration saved in a checkpoint and the current one of its run
// differ in keys of the output files: which are written, or what stands in them. These keys change no bit of the
// result, but a run that goes on with other values would leave files of two kinds.
func checkSameFiles(saved, current config.Config) error {
	var changed []string
	for _, change := range saved.Changes(current) {
		if change.Key == "events.sample" || strings.HasPrefix(change.Key, "outputs") {
			changed = append(
				changed,
				fmt.Sprintf("%s is %s, the run's %s", change.Key, change.OldValue, change.NewValue),
			)
		}
	}
	if changed == nil {
		return nil
	}
	return fmt.Errorf(
		"%w: it is of another configuration: %s (change config.yaml back, or begin another run with run --out)",
		folder.ErrForeign,
		strings.Join(changed, "; "),
	)
}
