package actors

import (
	"fmt"

	"fedpace/actors/data/federated"
	"fedpace/actors/learn"
	"fedpace/bus"
	"fedpace/coordinator/aggregate"
)

// Problem is what is learned: equal on every host of a run, or the hosts would
// train different models.
type Problem struct {
	Model   learn.Model
	Set     federated.Set
	Seed    uint64 // of the minibatches' order and of the augmentation
	Batch   int    // minibatch size
	Augment string // NoAugment or FlipCrop

	Algorithm aggregate.Algorithm // its client half is run
}

// The augmentations of training images.
const (
	NoAugment = "none"
	// FlipCrop is a random horizontal flip and a random crop of the image's own
	// size after zero padding, drawn once a minibatch (paper/NOTES, "Data").
	FlipCrop = "flip_crop"
)

// cropPadding is how far FlipCrop pads, in pixels, as in the published code of
// the paper's authors.
const cropPadding = 4

// Spec is the problem as jobs name it.
func (p *Problem) Spec() *bus.Spec {
	algorithm, err := aggregate.Algorithms.Encode(p.Algorithm)
	if err != nil { // its options are numbers and words
		panic("actors: " + err.Error())
	}
	return &bus.Spec{Model: p.Model.String(), DataDigest: p.Set.Info().Digest, Seed: p.Seed, Batch: uint32(p.Batch), Augment: p.Augment, Algorithm: algorithm}
}

// Check says whether model, data and settings fit each other.
func (p *Problem) Check() error {
	info := p.Set.Info()
	if info.Input != p.Model.Input() || info.Features != p.Model.Features() || info.Classes != p.Model.Classes() {
		return fmt.Errorf("model: %s reads %s of %d features in %d classes, %s has %s of %d in %d",
			p.Model, p.Model.Input(), p.Model.Features(), p.Model.Classes(), info.Name, info.Input, info.Features, info.Classes)
	}
	if p.Batch < 1 {
		return fmt.Errorf("batch: minibatches of %d samples, want at least 1", p.Batch)
	}
	switch p.Augment {
	case NoAugment:
	case FlipCrop:
		if _, _, width := p.Model.Image(); width == 0 {
			return fmt.Errorf("augment: %s does not read images; want %s", p.Model, NoAugment)
		}
	default:
		return fmt.Errorf("augment: %q is not %s or %s", p.Augment, NoAugment, FlipCrop)
	}
	return nil
}
