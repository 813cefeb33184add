package data

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
)

// Options is what a reader needs to know beyond the path. The zero value is
// the paper's.
type Options struct {
	// Task, when set, is what the caller expects to find: femnist, sent140,
	// cifar100 or shakespeare. Own data has no task and is taken for any.
	Task string
	// Seed of the split into training and held-out samples, where the source
	// has none of its own.
	Seed uint64
	// MinTweets is how many tweets a Sentiment140 user needs; 0 means 10.
	MinTweets int
	// Classes is the number of labels of own data; 0 means the largest label
	// and one. A label outside is an error.
	Classes int
	// Partition deals the training samples to made clients. The zero value
	// keeps natural clients. Sources that have none are then dealt as the paper
	// has them: CIFAR-100 by Pachinko allocation to clients of 100 images,
	// tweets without users alike to 21,876 clients.
	Partition Partition
}

// maxClasses bounds the labels of own data.
const maxClasses = 1 << 16

func (o Options) check() error {
	switch {
	case o.MinTweets < 0:
		return fmt.Errorf("data: options: %d tweets per user, want at least 1, or 0 for 10", o.MinTweets)
	case o.Classes < 0 || o.Classes > maxClasses:
		return fmt.Errorf("data: options: %d classes, want 1 to %d, or 0 to take them from the labels", o.Classes, maxClasses)
	}
	return nil
}

func (o Options) minTweets() int {
	if o.MinTweets == 0 {
		return 10
	}
	return o.MinTweets
}

// Open reads a federated set. Of [Readers] it takes the one that recognises what
// lies at the path:
//
//   - Parquet, a file or a folder of them, by its columns: FEMNIST
//     (writer_id, image as 784 bytes or PNG, character 0..61), CIFAR-100 (img
//     as PNG, fine_label, coarse_label; a folder with train* and test* files),
//     Shakespeare (character_id, x, y), Sentiment140 (sentiment, user, text)
//     and custom data (client, x as a list of numbers or a fixed number of
//     bytes, y);
//   - LEAF's JSON: a folder with train/ and perhaps test/, a folder of shards,
//     or one file; the content tells femnist, sent140 and shakespeare apart;
//   - Sentiment140's CSV, plain, gzip or zip: polarity, id, date, query, user, text;
//     or tweets without users, polarity and text apart by a tab, which are dealt
//     to 21,876 made clients;
//   - Project Gutenberg's Complete Works of William Shakespeare, text or zip;
//   - CIFAR-100's binary version: the folder of train.bin and test.bin, or its
//     tar.gz;
//   - a prepared file (see [OpenPrepared]), whose split and clients are those it
//     was made with, whatever the options say.
//
// A source without held-out samples of its own is split per client: the seeded
// choice of int(0.8 n) samples trains, the rest is held out.
func Open(path string, opt Options) (Set, error) { return OpenWith(nil, path, opt) }

// OpenWith is [Open] by a given reader; nil: the one that recognises the path. A
// reader may do without a path.
func OpenWith(r Reader, path string, opt Options) (Set, error) {
	if err := opt.check(); err != nil {
		return nil, err
	}
	partition, err := opt.Partition.complete()
	if err != nil {
		return nil, fmt.Errorf("data: %w", err)
	}
	source := &Source{}
	if r == nil || path != "" {
		if source, err = openSource(path); err != nil {
			return nil, fmt.Errorf("data: %w", err)
		}
		defer source.Close()
	}
	if r == nil {
		if r, err = source.reader(); err != nil {
			return nil, fmt.Errorf("data: %w", err)
		}
	}
	s, err := r.Open(source, opt)
	if err != nil {
		return nil, fmt.Errorf("data: %w", err)
	}
	if err := fitsTask(path, s, opt); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	// Sources without clients have been dealt already.
	if partition.natural() || s.Info().Synthetic {
		return s, nil
	}
	g, ok := s.(*grouped)
	if !ok {
		s.Close()
		return nil, fmt.Errorf("data: %s: partition %s: the windows of a text overlap and belong to their role; want natural", path, partition.Kind)
	}
	if s, err = g.partitioned(opt.Partition, nil, opt.Seed); err != nil {
		return nil, fmt.Errorf("data: %s: %w", path, err)
	}
	return s, nil
}

// fitsTask compares what was found with what is expected. Own data fits any
// task that its numbers fit.
func fitsTask(path string, set Set, opt Options) error {
	s, ok := set.(opened)
	if !ok {
		return nil
	}
	if task := s.taskName(); opt.Task != "" && task != "" && task != opt.Task {
		return fmt.Errorf("data: %s: found %s (%s), want %s", path, task, s.Info().Name, opt.Task)
	}
	return nil
}

// opened is a Set that knows its task, "" for custom data.
type opened interface {
	Set
	taskName() string
}

// digest identifies samples and split: sources by their content, in order, and
// the options that choose among them.
func (o Options) digest(layout string, sources ...[sha256.Size]byte) string {
	h := sha256.New()
	fmt.Fprintf(h, "fedpace data 1\n%s\n%d\n%d\n%d\n%+v\n", layout, o.Seed, o.minTweets(), o.Classes, o.Partition)
	for _, s := range sources {
		h.Write(s[:])
	}
	return hex.EncodeToString(h.Sum(nil))
}

// hashAll is the SHA-256 of all that r gives.
func hashAll(r io.Reader) (sum [sha256.Size]byte, err error) {
	h := sha256.New()
	if _, err := io.CopyBuffer(h, r, make([]byte, 1<<20)); err != nil {
		return sum, err
	}
	h.Sum(sum[:0])
	return sum, nil
}
