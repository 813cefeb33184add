package actors

import (
	"fmt"
	"slices"
	"strings"

	"fedpace/actors/attack"
	"fedpace/actors/external"
	"fedpace/algorithm"
	"fedpace/algorithm/privacy"
	"fedpace/bus"
	"fedpace/data/federated"
	"fedpace/learn"
	"fedpace/learn/metric"
	"fedpace/registry"
)

// Problem is what is learned: equal on every host of a run, or the hosts would
// train different models.
type Problem struct {
	Model learn.ModelInfo // a learn.Model, unless Trainer has it
	Set   federated.Set
	Seed  uint64 // decides the minibatches' order and the augmentation
	Batch int    // minibatch size
	// LargestBatch is the largest that a class of clients has; 0: none has its own.
	LargestBatch int
	Augment      string // NoAugment or FlipCrop

	Algorithm algorithm.Algorithm // its client half is run
	Optimizer learn.Optimizer     // takes local steps; nil: plain SGD
	// of a task that train what is personal alone, with a [learn.Personal]; 0: all train both
	HeadSteps int
	// Compression is what updates go through before they are added; nil: they are whole.
	Compression algorithm.Compression
	Kernel      learn.Kernel // does the local steps and evaluations in Go
	// Attacks are what the clients of the fleet's classes do in place of honest work, by the
	// number of the class; nil of those that are honest.
	Attacks []attack.Attack
	// Clips says that updates are clipped: one that is too long for a sum need not be refused.
	Clips bool
	// Noise is what clients do to their updates before they send them.
	Noise privacy.Local
	// Secret draws the key of an update's noise; nil: it follows from the seed.
	Secret func() privacy.Secret
	// Trainer takes the steps and measures the models, in processes of its own; nil: Kernel
	// does.
	Trainer *external.Program
}

// The augmentations of training images.
const (
	NoAugment = "none"
	// FlipCrop is a random horizontal flip and a random crop of the image's own
	// size after zero padding, drawn once a minibatch (paper/NOTES, "Data").
	FlipCrop    = "flip_crop"
	cropPadding = 4 // in pixels, as in the published code of the paper's authors
)

// Spec is the problem as jobs name it.
func (p *Problem) Spec() *bus.Spec {
	local := ""
	compression := ""
	if !learn.Plain(p.Optimizer) {
		local = encode(learn.Optimizers, p.Optimizer)
	}
	if p.Compression != nil {
		compression = encode(algorithm.Compressions, p.Compression)
	}
	return &bus.Spec{
		Model:           p.Model.String(),
		DataDigest:      p.Set.Info().Digest,
		Seed:            p.Seed,
		Batch:           uint32(p.Batch),
		Augment:         p.Augment,
		Algorithm:       encode(algorithm.Algorithms, p.Algorithm),
		Compression:     compression,
		Local:           local,
		Metrics:         metric.Names(p.Model.Metrics()),
		NoiseClip:       p.Noise.Clip,
		NoiseMultiplier: p.Noise.Noise,
	}
}

// Memory is how many values the local steps of each client remember from task to task, with its
// copy of the model where it has one, or its own part of it.
func (p *Problem) Memory() int {
	if s, ok := p.Algorithm.(algorithm.Streaming); ok {
		return p.stepMemory() + s.Copy(p.Model.Params())
	}
	if m, ok := p.Model.(*learn.Personal); ok {
		return p.stepMemory() + m.Own() + 1
	}
	return p.stepMemory()
}

// stepMemory is Memory without the copy. A trainer's are bytes, four to a value, and the first
// value says how many.
func (p *Problem) stepMemory() int {
	if p.Trainer == nil {
		return learn.MemoryOf(p.Optimizer, learn.Stepped(p.Model).Trainable())
	}
	if bytes := p.trainerMemory(); bytes > 0 {
		return 1 + (bytes+3)/4
	}
	return 0
}

// trainerMemory is how many bytes a trainer's process may remember of a client.
func (p *Problem) trainerMemory() int {
	return p.Trainer.State + 4*learn.MemoryOf(p.Optimizer, learn.Stepped(p.Model).Trainable())
}

// encode writes an entry of a table, whose options are numbers and words.
func encode[T any](table *registry.Table[T], entry T) string {
	text, err := table.Encode(entry)
	if err != nil {
		panic("actors: " + err.Error())
	}
	return text
}

// Check says whether model, data and settings fit each other.
func (p *Problem) Check() error {
	if p.Batch < 1 {
		return fmt.Errorf("batch: minibatches of %d samples, want at least 1", p.Batch)
	}
	if n := p.Model.Params() + p.Memory(); n > bus.MaxParams {
		return fmt.Errorf("local: a client keeps up to %d values, at most %d travel", n, bus.MaxParams)
	}
	if s, ok := p.Algorithm.(algorithm.Streaming); ok {
		if forgets(p.Optimizer) {
			return fmt.Errorf("local: with streaming a client's steps go on from task to task; want plain SGD, or an optimizer with keep: true")
		}
		if n := p.Model.Params(); p.Model.Trainable() < n || s.Fragments > n {
			return fmt.Errorf("aggregate: streaming cuts %d parameters, %d of them trained, into %d fragments; want all trained (else take fedavgm), and no more fragments than that", n, p.Model.Trainable(), s.Fragments)
		}
	}
	if p.Trainer != nil {
		return p.checkTrainer()
	}
	info := p.Set.Info()
	reads := p.Model.Samples()
	if !reads.Fit(info.Samples) {
		return fmt.Errorf("model: %s reads %s, %s has %s", p.Model, reads.Describe(), info.Name, info.Describe())
	}
	switch p.Augment {
	case NoAugment:
	case FlipCrop:
		if reads.Image == [3]int{} {
			return fmt.Errorf("augment: %s does not read images; want %s", p.Model, NoAugment)
		}
	default:
		return fmt.Errorf("augment: %q is not %s or %s", p.Augment, NoAugment, FlipCrop)
	}
	if !learn.Plain(p.Optimizer) && registry.NeedsOf(p.Algorithm).PlainSteps {
		return fmt.Errorf(
			"local: %s counts on plain steps of SGD; want sgd without options",
			algorithm.Algorithms.NameOf(p.Algorithm),
		)
	}
	return nil
}

// Class is that of the arithmetic that decides the bits of the steps.
func (p *Problem) Class() string {
	if p.Trainer != nil {
		return p.Trainer.Class
	}
	return p.Kernel.Class()
}

// checkTrainer says what an external trainer cannot do.
func (p *Problem) checkTrainer() error {
	if p.Augment != NoAugment {
		return fmt.Errorf("augment: %s is done in Go, and the steps are those of trainer %s, which has a seed of its own for each task; want %s", p.Augment, p.Trainer.Name, NoAugment)
	}
	client := p.Algorithm.Client(p.Model.Trainable())
	if _, ok := client.(algorithm.Additive); client != nil && !ok {
		return fmt.Errorf(
			"aggregate.algorithm: %s takes local steps of its own in Go, which trainer %s cannot take",
			algorithm.Algorithms.NameOf(p.Algorithm),
			p.Trainer.Name,
		)
	}
	if name := learn.Optimizers.NameOf(p.Optimizer); !learn.Plain(p.Optimizer) &&
		!slices.Contains(p.Trainer.Optimizers, name) {
		return fmt.Errorf(
			"local: trainer %s does not know the optimizer %s, but %s",
			p.Trainer.Name,
			name,
			strings.Join(append([]string{"plain SGD"}, p.Trainer.Optimizers...), ", "),
		)
	}
	return nil
}
