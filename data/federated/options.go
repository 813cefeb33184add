package federated

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"math"
)

// Options is what a reader needs to know beyond the path. The zero value is
// the paper's.
type Options struct {
	// Task, when set, is what the caller expects to find: femnist, sent140,
	// cifar100 or shakespeare. Custom data has no task and is taken for any.
	Task string
	// Seed is the seed of the split into training and held-out samples, where the source
	// has no split of its own.
	Seed uint64
	// MinTweets is how many tweets a Sentiment140 user needs; 0 means 10.
	MinTweets int
	// Classes is the number of labels of custom data; 0 means the largest label
	// and one. A label outside is an error.
	Classes int
	// Partition deals the training samples to made clients. The zero value
	// keeps natural clients. Sources that have none are then dealt as the paper
	// has them: CIFAR-100 by Pachinko allocation to clients of 100 images,
	// tweets without users alike to 21,876 clients.
	Partition Partition
	// HeldOutOnly says that only held-out samples are wanted of a table of custom data, which
	// may have no others: the set has no client then.
	HeldOutOnly bool
	// Reading receives how much has been read; it may be nil, and does not change the set.
	Reading *Reading `is:"inert"`
}

// MaxClasses bounds the labels of custom data.
const MaxClasses = 1 << 16

// Check returns an error for options that no reader could follow: negative numbers, too many
// classes, or parameters of the partition that are outside their ranges.
func (o Options) Check() error {
	switch {
	case o.MinTweets < 0:
		return fmt.Errorf("options: %d tweets per user, want at least 1, or 0 for 10", o.MinTweets)
	case o.Classes < 0 || o.Classes > MaxClasses:
		return fmt.Errorf("options: %d classes, want 1 to %d, or 0 to take them from the labels", o.Classes, MaxClasses)
	}
	_, err := o.Partition.Complete()
	return err
}

// TweetsAtLeast returns how many tweets a user must have to be a client: MinTweets, or 10 if that is 0.
func (o Options) TweetsAtLeast() int { return cmp.Or(o.MinTweets, 10) }

// Split divides the samples of a client into training and held-out ones at random, by the seed of
// the options and the number of the client. The same seed always gives the same parts.
func (o Options) Split(client int, samples []int32) (train, held []int32) {
	return Split(o.Seed, client, samples)
}

// Digest returns a SHA-256 in hexadecimal digits that identifies the samples of a set and their split. It
// covers the name of the layout, the options that choose and split samples, and sources, the SHA-256 of
// each file, in their order.
func (o Options) Digest(layout string, sources ...[sha256.Size]byte) string {
	h := sha256.New()
	fmt.Fprintf(
		h,
		"fedpace data 1\n%s\n%d\n%d\n%d\n%s\n",
		layout,
		o.Seed,
		o.TweetsAtLeast(),
		o.Classes,
		o.Partition.Identity(),
	)
	for _, s := range sources {
		h.Write(s[:])
	}
	return fmt.Sprintf("%x", h.Sum(nil))
}

// MaxSamples bounds the samples of a set: their numbers are int32.
const MaxSamples = math.MaxInt32
