package data

import (
	"errors"
	"fmt"

	"fedpace/actors/data/federated"
)

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
func Open(path string, opt federated.Options) (federated.Set, error) { return OpenWith(nil, path, opt) }

// OpenWith is [Open] by a given reader; nil: the one that recognises the path. A
// reader may do without a path.
func OpenWith(r Reader, path string, opt federated.Options) (federated.Set, error) {
	if err := opt.Check(); err != nil {
		return nil, err
	}
	partition, err := opt.Partition.Complete()
	if err != nil {
		return nil, fmt.Errorf("data: %w", err)
	}
	source := &Source{}
	if r == nil || path != "" {
		if source, err = openSource(path); err != nil {
			return nil, fmt.Errorf("data: %w", err)
		}
		defer source.File.Close() // fails, as it may, for a folder
	}
	if r == nil {
		if r, err = source.reader(); err != nil {
			return nil, fmt.Errorf("data: %w", err)
		}
	}
	s, err := r.Open(source, opt)
	if err != nil {
		return nil, wrong(path, err)
	}
	if err := fitsTask(path, s, opt); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	// Sources without clients have been dealt already.
	if partition.Natural() || s.Info().Synthetic {
		return s, nil
	}
	g, ok := s.(*federated.Grouped)
	if !ok {
		s.Close()
		return nil, wrong(path, fmt.Errorf("partition %s: the windows of a text overlap and belong to their role; want natural", partition.Kind))
	}
	if s, err = g.Partitioned(opt.Partition, nil, opt.Seed); err != nil {
		return nil, wrong(path, err)
	}
	return s, nil
}

// wrong is an error that names the set's path, if it has one.
func wrong(path string, err error) error {
	if path == "" {
		return fmt.Errorf("data: %w", err)
	}
	return fmt.Errorf("data: %s: %w", path, err)
}

// fitsTask compares what was found with what is expected. Custom data fits any
// task that its numbers fit.
func fitsTask(path string, set federated.Set, opt federated.Options) error {
	s, ok := set.(opened)
	if !ok {
		return nil
	}
	if task := s.TaskName(); opt.Task != "" && task != "" && task != opt.Task {
		return wrong(path, fmt.Errorf("found %s (%s), want %s", task, s.Info().Name, opt.Task))
	}
	return nil
}

// opened is a Set that knows its task, "" for custom data, and its size.
type opened interface {
	federated.Set
	TaskName() string
	Memory() int
}
