package identity

import (
	"fmt"
	"slices"
	"strings"

	"fedpace/actors/external"
	"fedpace/config"
	"fedpace/experiment/folder"
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

// Part is the kind of input in which two identities differ.
type Part int

// The parts of an identity, in the order in which they are compared.
const (
	Configuration Part = iota
	File
	Data
	Trainer
	Kernel
)

// Difference is the first part in which two identities differ.
type Difference struct {
	// Part is the kind of input that differs.
	Part Part
	// Text names the key or the file that differs, with both values.
	Text string
}

// Error implements error.
func (d *Difference) Error() string { return d.Text }

// Difference compares the identity of earlier work with that of work now. It returns nil if
// both compute the same bits, else the first part that differs. What is not known by its
// content on both sides is compared as the configuration writes it.
func (begun *Identity) Difference(now *Identity) *Difference {
	for _, compare := range []func(begun, now *Identity) *Difference{
		compareSettings,
		compareFiles,
		compareData,
		compareTrainers,
		compareKernels,
	} {
		if d := compare(begun, now); d != nil {
			return d
		}
	}
	return nil
}

// Settings lists the keys in which two configurations compute something else, with the value
// of each. Inert keys are left out: they change no bit.
func Settings(begun, now config.Config) []config.Change {
	// Silence is inert, but it is written in one value with the trainer's command; equal values
	// hide it.
	now.Trainer.Silence = begun.Trainer.Silence
	return slices.DeleteFunc(begun.Changes(now), func(c config.Change) bool { return c.Inert })
}

// compareSettings compares the configurations, without the keys whose content is compared.
func compareSettings(begun, now *Identity) *Difference {
	// These keys are left to the comparisons of digests that follow: data and kernel where both sides
	// have a digest, the trainer where any side has one. A run that does not train uses no trainer.
	byContent := map[string]bool{
		"data":    begun.Data != "" && now.Data != "",
		"kernel":  begun.Kernel != "" && now.Kernel != "",
		"trainer": begun.Trainer != "" || now.Trainer != "" || !now.Config.Train,
	}
	var differences []string
	for _, change := range Settings(begun.Config, now.Config) {
		if !byContent[change.Key] {
			differences = append(differences, fmt.Sprintf("%s is %s, the run's %s", change.Key, change.OldValue, change.NewValue))
		}
	}
	if differences == nil {
		return nil
	}
	return &Difference{Configuration, "it is of another configuration: " + strings.Join(differences, "; ")}
}

// compareFiles compares each file of the work now with the earlier work's file of the same key, by their
// digests.
func compareFiles(begun, now *Identity) *Difference {
	for _, file := range now.Files {
		i := slices.IndexFunc(begun.Files, func(f folder.InputFile) bool { return f.Key == file.Key })
		if i < 0 {
			return &Difference{File, fmt.Sprintf("it keeps no digest of its file %s (%s)", file.Path, file.Key)}
		}
		if earlier := begun.Files[i]; earlier.SHA256 != file.SHA256 {
			return &Difference{File, fmt.Sprintf(
				"its file %s (%s) had other content: SHA-256 %.12s, now %.12s",
				file.Path,
				file.Key,
				earlier.SHA256,
				file.SHA256,
			)}
		}
	}
	// A module or a file of an app may have gone, without which the rest does something else.
	for _, file := range begun.Files {
		if !slices.ContainsFunc(now.Files, func(f folder.InputFile) bool { return f.Key == file.Key }) {
			return &Difference{File, fmt.Sprintf("its file %s (%s) is no longer one of them", file.Path, file.Key)}
		}
	}
	return nil
}

// compareData compares the digests of samples and split.
func compareData(begun, now *Identity) *Difference {
	if begun.Data == now.Data {
		return nil
	}
	digest := func(s string) string {
		if s == "" {
			return "none"
		}
		return fmt.Sprintf("%.12s", s)
	}
	return &Difference{Data, fmt.Sprintf(
		"its data have changed: %s held other samples, or split them otherwise (digest %s, now %s)",
		now.Config.Data,
		digest(begun.Data),
		digest(now.Data),
	)}
}

// compareTrainers compares the models of trainers, which hold the digests of their scripts.
func compareTrainers(begun, now *Identity) *Difference {
	if err := external.CompareModels(begun.Trainer, now.Trainer); err != nil {
		return &Difference{Trainer, err.Error()}
	}
	return nil
}

// compareKernels compares the classes of arithmetic.
func compareKernels(begun, now *Identity) *Difference {
	if begun.Kernel == now.Kernel {
		return nil
	}
	return &Difference{Kernel, fmt.Sprintf(
		"it is of the kernel class %s, and the run would go on in %s: the bits would change",
		begun.Kernel,
		now.Kernel,
	)}
}
