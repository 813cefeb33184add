package identity

import (
	"fmt"
	"slices"
	"strings"

	"fedpace/actors/external"
	"fedpace/config"
	"fedpace/experiment/folder"
	"fedpace/registry"
)

// Identity is all that a run's bits follow from. A digest that is empty is not known, or
// belongs to an input that the run does not have.
type Identity struct {
	// Config is the configuration as the run has settled it.
	Config config.Config
	// Files are the files that the configuration names, each with the digest of its content.
	Files []folder.InputFile
	// Data is the digest of the samples and their split.
	Data string
	// Kernel is the class of the arithmetic that trains.
	Kernel string
	// Trainer is the model of the trainer, which names the digest of its script.
	Trainer string
}

// OfSummary is the identity of a run that has ended, by its configuration and its summary.
func OfSummary(c config.Config, s *folder.Summary) *Identity {
	id := &Identity{
		Config: c,
		Files:  s.Inputs,
		Data:   s.DataDigest,
		Kernel: s.Kernel,
	}
	if s.Trainer != nil {
		id.Trainer = s.Trainer.Model
	}
	return id
}

// The parts of an identity, in the order in which they are compared.
const (
	Configuration = registry.SettingsPart
	File          = registry.FilesPart
	Data          = registry.DataPart
	Trainer       = registry.TrainerPart
	Kernel        = registry.KernelPart
)

// Difference is the first part in which two identities differ.
type Difference struct {
	registry.Difference
	// Text names the key or the file that differs, with both values.
	Text string
}

// Error implements error.
func (d *Difference) Error() string { return d.Text }

// Difference compares i, the identity of earlier work, with that of work now. It returns nil if both
// compute the same bits, else the first part that differs. Data and kernel are compared by their
// digests if both identities have these, and otherwise by what the configurations say of them.
func (i *Identity) Difference(now *Identity) *Difference {
	before := i.inputs()
	after := now.inputs()
	before.Settings, after.Settings = settings(i, now)
	d := before.Difference(after)
	if d == nil {
		return nil
	}
	return &Difference{*d, text(d, now)}
}

// inputs returns all inputs but the settings.
func (i *Identity) inputs() *registry.Inputs {
	return &registry.Inputs{
		Files:   i.Files,
		Data:    i.Data,
		Trainer: i.Trainer,
		Kernel:  i.Kernel,
	}
}

// Settings lists the keys in which two configurations compute something else, with the value
// of each. Inert keys are left out: they change no bit.
func Settings(begun, now config.Config) []config.Change {
	// Silence is inert, but it is written in one value with the trainer's command; equal values
	// hide it.
	now.Trainer.Silence = begun.Trainer.Silence
	return slices.DeleteFunc(begun.Changes(now), func(c config.Change) bool { return c.Inert })
}

// settings returns the settings in which two identities differ, without the keys whose content is
// compared.
func settings(begun, now *Identity) (before, after []registry.Setting) {
	// These keys are left to the comparisons of digests: data and kernel where both sides have a
	// digest, the trainer where any side has one. A run that does not train uses no trainer.
	byContent := map[string]bool{
		"data":    begun.Data != "" && now.Data != "",
		"kernel":  begun.Kernel != "" && now.Kernel != "",
		"trainer": begun.Trainer != "" || now.Trainer != "" || !now.Config.Train,
	}
	for _, change := range Settings(begun.Config, now.Config) {
		if !byContent[change.Key] {
			before = append(before, registry.Setting{Key: change.Key, Value: change.OldValue})
			after = append(after, registry.Setting{Key: change.Key, Value: change.NewValue})
		}
	}
	return before, after
}

// text says for people how earlier work, "it" in these sentences, differs from the work now: d.Changes has the values
// of both, Before and Now. now is the identity of the work now.
func text(d *registry.Difference, now *Identity) string {
	c := d.Changes[0]
	switch d.Part {
	case registry.SettingsPart:
		var list []string
		for _, c := range d.Changes {
			list = append(list, fmt.Sprintf("%s is %s, the run's %s", c.Key, c.Before, c.Now))
		}
		return "it is of another configuration: " + strings.Join(list, "; ")
	case registry.FilesPart:
		switch {
		case c.HadNone:
			return fmt.Sprintf("it keeps no digest of its file %s (%s)", c.Path, c.Key)
		// A module or a file of an app may have gone, without which the rest does something else.
		case c.HasNone:
			return fmt.Sprintf("its file %s (%s) is no longer one of them", c.Path, c.Key)
		}
		return fmt.Sprintf(
			"its file %s (%s) had other content: SHA-256 %.12s, now %.12s",
			c.Path,
			c.Key,
			c.Before,
			c.Now,
		)
	case registry.DataPart:
		return fmt.Sprintf(
			"its data have changed: %s held other samples, or split them otherwise (digest %s, now %s)",
			now.Config.Data,
			digestText(c.Before),
			digestText(c.Now),
		)
	case registry.TrainerPart:
		return external.CompareModels(c.Before, c.Now).Error()
	default:
		if now.Trainer != "" {
			return fmt.Sprintf(
				"the run's trainer calculates in class %s, this one in %s: their bits would differ",
				c.Before,
				c.Now,
			)
		}
		return fmt.Sprintf(
			"it is of the kernel class %s, and the run would go on in %s: the bits would change",
			c.Before,
			c.Now,
		)
	}
}

// digestText returns the first digits of a digest.
func digestText(digest string) string {
	if digest == "" {
		return "none"
	}
	return fmt.Sprintf("%.12s", digest)
}
