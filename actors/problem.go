package actors

import (
	"errors"
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

// Problem is what a run learns and how clients train. It must be equal on every host of a run:
// otherwise hosts would train different models.
type Problem struct {
	// Model is a [learn.Model], or the description of an external trainer's model if Trainer is set.
	Model learn.ModelInfo
	// Set is the data of all clients.
	Set federated.Set
	// Seed decides the order of minibatches, the augmentation and all other randomness of the steps.
	Seed uint64
	// Batch is the number of samples of a minibatch.
	Batch int
	// LargestBatch and SmallestBatch are the largest and the smallest minibatch of a class of clients that
	// sets its own size. 0 means that no class does.
	LargestBatch, SmallestBatch int
	// Augment is NoAugment or FlipCrop.
	Augment string

	// Algorithm is the federated algorithm, of which clients run the client half.
	Algorithm algorithm.Algorithm
	// Optimizer takes the local steps. Nil means plain SGD.
	Optimizer learn.Optimizer
	// HeadSteps is the number of a task's steps that train the private part of a [learn.Personal]
	// alone. 0 means that all steps train both parts.
	HeadSteps int
	// Compression is applied to updates before they are added to the sum. Nil means none.
	Compression algorithm.Compression
	// Kernel is the arithmetic of local steps and evaluations in Go.
	Kernel learn.Kernel
	// Attacks are what the clients of each class of the fleet do instead of honest work, by the number
	// of the class. Nil entries are honest.
	Attacks []attack.Attack
	// Clips says that the aggregation clips updates, so one that is too long for an exact sum is
	// shortened instead of refused.
	Clips bool
	// SumsBuffers says that buffers of floats are part of the exact sum, as with differential privacy, where
	// noise covers all that clients send, and with secure aggregation. Otherwise each client sends its
	// buffers beside the sum.
	SumsBuffers bool
	// ScalesBuffers says that buffers in the sum are multiples of units that follow from the model
	// ([learn.SumUnits]), as with secure aggregation.
	ScalesBuffers bool
	// Noise is what clients add to their updates before they send them (local differential privacy).
	Noise privacy.Local
	// Grid is the rounding and the noise of each weighted update in a sum that secure aggregation protects
	// (distributed differential privacy).
	Grid privacy.Grid
	// Secret draws the key of an update's noise. Nil means that it follows from the seed, so that runs
	// repeat.
	Secret func() privacy.Secret
	// Outcomes says that evaluations of held-out samples return the model's output for each sample.
	Outcomes bool
	// Trainer takes the steps and measures models in processes of its own. Nil means that Kernel does.
	Trainer *external.Program
}

// The augmentations of training images.
const (
	NoAugment = "none"
	// FlipCrop is a random horizontal flip and a random crop of the image's own
	// size after zero padding, drawn once a minibatch (paper/NOTES, "Data").
	FlipCrop = "flip_crop"
	// cropPadding is the number of pixels of zeros on each side of an image before it is cropped,
	// as in the published code of the paper's authors.
	cropPadding = 4
)

// Spec returns the problem as jobs and welcomes describe it, so that both ends can compare it. What
// is not set, such as a compression, is empty.
func (p *Problem) Spec() *bus.Spec {
	// An optimizer or a compression that is not set has no text.
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
		Outcomes:        p.Outcomes,
	}
}

// MemoryValues returns the number of float32 values that the local steps of one client remember from task
// to task: the optimizer's memory, and the client's copy of the model (streaming) or its private
// part (personal).
func (p *Problem) MemoryValues() int {
	if copied := algorithm.CopyLength(p.Algorithm, p.Model.Params()); copied > 0 {
		return p.stepMemoryValues() + copied
	}
	// A 1 behind the private values tells them from no state (see [personal.Run]).
	if m, ok := p.Model.(*learn.Personal); ok {
		return p.stepMemoryValues() + m.PersonalParams() + 1
	}
	return p.stepMemoryValues()
}

// stepMemoryValues returns the number of values that the steps themselves remember: those of the optimizer
// or, for an external trainer, its bytes, four to a value, behind one value that holds their number.
func (p *Problem) stepMemoryValues() int {
	if p.Trainer == nil {
		return learn.MemoryOf(p.Optimizer, learn.Stepped(p.Model).Trainable())
	}
	if bytes := p.trainerMemoryBytes(); bytes > 0 {
		return 1 + (bytes+3)/4
	}
	return 0
}

// trainerMemoryBytes returns the maximum number of bytes that a trainer's process keeps for a client:
// those of the script and those of the optimizer.
func (p *Problem) trainerMemoryBytes() int {
	return p.Trainer.State + 4*learn.MemoryOf(p.Optimizer, learn.Stepped(p.Model).Trainable())
}

// encode writes an entry of a registry as text. It panics if that fails, as options are numbers and
// words.
func encode[T any](table *registry.Table[T], entry T) string {
	text, err := table.Encode(entry)
	if err != nil {
		panic("actors: " + err.Error())
	}
	return text
}

// Check returns an error that starts with the configuration key if model, data and settings do not
// fit together. It returns nil for a problem that can be trained.
func (p *Problem) Check() error {
	if p.Batch < 1 {
		return fmt.Errorf("batch: minibatches of %d samples, want at least 1", p.Batch)
	}
	if n := p.Model.Params() + p.MemoryValues(); n > bus.MaxParams {
		return fmt.Errorf("local: a client keeps up to %d values, at most %d travel", n, bus.MaxParams)
	}
	// Streaming sends fragments of the whole model, and a client's steps continue across tasks.
	if s, ok := algorithm.Streams(p.Algorithm); ok {
		if forgets(p.Optimizer) {
			return errors.New("local: with streaming a client's steps go on from task to task; " +
				"want plain SGD, or an optimizer with keep: true")
		}
		if n := p.Model.Params(); p.Model.Trainable() < n || s.Fragments > n {
			return fmt.Errorf(
				"aggregate: streaming cuts %d parameters, %d of them trained, into %d fragments; "+
					"want all trained (else take fedavgm), and no more fragments than that",
				n,
				p.Model.Trainable(),
				s.Fragments,
			)
		}
	}
	// Some algorithms correct updates by the number of plain steps.
	needsPlainSteps := registry.NeedsOf(p.Algorithm).PlainSteps
	if needsPlainSteps && !learn.Plain(p.Optimizer) {
		return fmt.Errorf(
			"local: %s counts on plain steps of SGD; want sgd without options",
			algorithm.Algorithms.NameOf(p.Algorithm),
		)
	}
	if p.Trainer != nil {
		return p.checkTrainer()
	}
	// The steps are taken in Go, so the model must read the samples of the set.
	info := p.Set.Info()
	reads := p.Model.Samples()
	if !reads.Fit(info.Samples) {
		return fmt.Errorf("model: %s reads %s, %s has %s", p.Model, reads.Describe(), info.Name, info.Describe())
	}
	if err := p.checkBatches(); err != nil {
		return err
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
	return nil
}

// checkBatches returns an error if the minibatches of some client would have fewer samples than the model
// needs. A minibatch cannot have more samples than its client.
func (p *Problem) checkBatches() error {
	minBatch := learn.LeastBatch(p.Model)
	if minBatch == 1 {
		return nil
	}
	smallest := p.Batch
	if p.SmallestBatch > 0 {
		smallest = min(smallest, p.SmallestBatch)
	}
	if smallest < minBatch {
		return fmt.Errorf("batch: minibatches of %d sample, and batch_norm trains on at least %d, as one value "+
			"has no variance; want batch: %d or more", smallest, minBatch, minBatch)
	}
	for c := range p.Set.Clients() {
		if n := p.Set.Samples(c); n < minBatch {
			return fmt.Errorf("model: client %d (%s) has %d sample, and batch_norm trains on at least %d, as one "+
				"value has no variance (take norm or layer_norm, or leave such clients out of the data)",
				c, p.Set.Client(c), n, minBatch)
		}
	}
	return nil
}

// Class names the arithmetic of the local steps: that of the kernel, or of the external trainer. Hosts
// whose classes are equal calculate the same bits.
func (p *Problem) Class() string {
	if p.Trainer != nil {
		return p.Trainer.Class
	}
	return p.Kernel.Class()
}

// checkTrainer returns an error for a setting that an external trainer cannot follow, because its
// process takes the local steps by itself. It returns nil if there is none.
func (p *Problem) checkTrainer() error {
	if p.Augment != NoAugment {
		return fmt.Errorf(
			"augment: %s is done in Go, and the steps are those of trainer %s, "+
				"which has a seed of its own for each task; want %s",
			p.Augment,
			p.Trainer.Name,
			NoAugment,
		)
	}
	// A script with an optimizer of its own takes other steps than the algorithm may assume.
	steps := p.Trainer.Steps
	if _, streams := algorithm.Streams(p.Algorithm); streams && !steps.ArePlain() {
		return fmt.Errorf(
			"aggregate.algorithm: with streaming a client's steps go on from task to task, and trainer %s makes "+
				"its own optimizer anew for each, %s (leave out optimizer= in the script, or take another "+
				"algorithm)",
			p.Trainer.Name,
			steps,
		)
	}
	if !steps.ArePlain() && registry.NeedsOf(p.Algorithm).PlainSteps {
		return fmt.Errorf(
			"aggregate.algorithm: %s counts on plain steps of SGD, and trainer %s takes its own, %s "+
				"(leave out optimizer= in the script, or take another algorithm)",
			algorithm.Algorithms.NameOf(p.Algorithm),
			p.Trainer.Name,
			steps,
		)
	}
	// The process knows only terms that are added to the gradient.
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
