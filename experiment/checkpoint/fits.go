package checkpoint

import (
	"cmp"
	"fmt"
	"strings"

	"fedpace/actors/external"
	"fedpace/experiment/config"
	"fedpace/experiment/folder"
)

// mayMove reports whether a key may change while a run is stopped: it changes no bit
// and no file. The data and the trainer may have moved: their digests tell whether they
// are the same. The kernel's class is compared by itself.
func mayMove(c config.Change) bool {
	return c.Key == "data" || c.Key == "kernel" || c.Key == "trainer" || c.Inert && c.Key != "events.sample" && !strings.HasPrefix(c.Key, "outputs")
}

// fits returns an error that says how a checkpoint's run differs from the given one.
func (h Head) fits(run Head) error {
	theirs, err := config.Parse("configuration", []byte(h.Config))
	if err != nil {
		return fmt.Errorf("%w: its configuration cannot be read: %w", folder.ErrForeign, err)
	}
	ours, err := config.Parse("configuration", []byte(run.Config))
	if err != nil {
		return err
	}
	var other []string
	for _, change := range theirs.Changes(ours) {
		if !mayMove(change) {
			other = append(other, fmt.Sprintf("%s is %s, the run's %s", change.Key, change.From, change.To))
		}
	}
	if len(other) > 0 {
		return fmt.Errorf("%w: it is of another configuration: %s (change config.yaml back, move a checkpoint of another run away, or start again with run --force)", folder.ErrForeign, strings.Join(other, "; "))
	}
	switch {
	case h.Data != run.Data:
		return fmt.Errorf("%w: it is of other data (digest %.12s, the run's is %.12s)", folder.ErrForeign, cmp.Or(h.Data, "none"), cmp.Or(run.Data, "none"))
	case h.Trainer != run.Trainer:
		return fmt.Errorf("%w: %w (bring the trainer back with which it began, or start again with run --force)", folder.ErrForeign, external.Differ(h.Trainer, run.Trainer))
	case h.Kernel != run.Kernel:
		return fmt.Errorf("%w: it is of the kernel class %s, and the run would go on in %s: the bits would change (go on with it on a machine with that class)", folder.ErrForeign, h.Kernel, run.Kernel)
	}
	return nil
}
