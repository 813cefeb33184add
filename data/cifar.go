package data

import (
	"archive/tar"
	"bufio"
	"cmp"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"

	"fedpace/data/federated"
)

func init() {
	federated.Readers.Register("cifar100", "CIFAR-100's binary version as a folder or tar.gz", CIFAR100{})
}

// CIFAR100 reads the binary version of CIFAR-100 (Krizhevsky 2009).
type CIFAR100 struct{}

var cifarFiles = [2]string{"train.bin", "test.bin"}

// Recognises knows a folder with train.bin, an archive of the binary version, and one of its
// two files by name.
func (CIFAR100) Recognises(s *federated.Source) federated.Match {
	switch {
	case s.Folder:
		if _, err := os.Stat(filepath.Join(s.Path, cifarFiles[0])); err == nil {
			return federated.ByContent
		}
	case s.IsGzip() && s.IsArchive():
		return federated.ByContent
	case s.Name() == cifarFiles[0], s.Name() == cifarFiles[1]:
		return federated.ByName
	}
	return federated.NoMatch
}

// Open reads both parts of CIFAR-100, training samples first, from an archive or from the
// folder of the given file.
func (CIFAR100) Open(s *federated.Source, o federated.Options) (federated.Set, error) {
	if s.IsGzip() {
		return readCIFARArchive(s.Content(o.Reading), o)
	}
	dir := s.Path
	if !s.Folder {
		dir = filepath.Dir(dir)
	}
	var parts [2][]byte
	for i, name := range cifarFiles {
		f, err := federated.OpenSource(filepath.Join(dir, name))
		if err != nil {
			return nil, fmt.Errorf("CIFAR-100: %w; want train.bin and test.bin", err)
		}
		parts[i], err = readCIFAR(f.Content(o.Reading))
		f.File.Close()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	return newCIFAR(parts, o)
}

// readCIFARArchive reads cifar-100-binary.tar.gz.
func readCIFARArchive(f io.Reader, opt federated.Options) (*federated.Grouped, error) {
	z, err := gzip.NewReader(bufio.NewReaderSize(f, 1<<20))
	if err != nil {
		return nil, fmt.Errorf("gzip: %w", err)
	}
	var parts [2][]byte
	for archive := tar.NewReader(z); ; {
		entry, err := archive.Next()
		if err == io.EOF {
			return newCIFAR(parts, opt)
		}
		if err != nil {
			return nil, fmt.Errorf("truncated or damaged archive: %w", err)
		}
		if i := slices.Index(cifarFiles[:], path.Base(entry.Name)); i >= 0 {
			if parts[i], err = readCIFAR(archive); err != nil {
				return nil, fmt.Errorf("%s: %w", entry.Name, err)
			}
		}
	}
}

// readCIFAR reads whole records and checks their labels.
func readCIFAR(r io.Reader) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(r, federated.MaxCIFAR*federated.CIFARRecord+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("truncated or damaged: %w", err)
	case int64(len(b)) > federated.MaxCIFAR*federated.CIFARRecord:
		return nil, fmt.Errorf("more than %d images", federated.MaxCIFAR)
	case len(b) == 0 || len(b)%federated.CIFARRecord != 0:
		return nil, fmt.Errorf(
			"%d bytes are no whole number of images of %d bytes: truncated, or not CIFAR-100's binary version",
			len(b),
			federated.CIFARRecord,
		)
	}
	for i := 0; i < len(b); i += federated.CIFARRecord {
		if b[i] >= federated.CIFARCoarse || b[i+1] >= federated.CIFARClasses {
			return nil, fmt.Errorf(
				"image %d: labels %d and %d are outside the %d coarse and %d fine classes",
				i/federated.CIFARRecord,
				b[i],
				b[i+1],
				federated.CIFARCoarse,
				federated.CIFARClasses,
			)
		}
	}
	return b, nil
}

// newCIFAR deals the training images, which are as stored: whoever trains
// crops and flips minibatches (learn.Augment); the paper's partition is Pachinko
// allocation to clients of 100 images (paper/NOTES, "Data").
func newCIFAR(parts [2][]byte, opt federated.Options) (*federated.Grouped, error) {
	for i, part := range parts {
		if len(part) == 0 {
			return nil, fmt.Errorf("no %s; want CIFAR-100's binary version", cifarFiles[i])
		}
	}
	n := len(parts[0]) / federated.CIFARRecord
	records := append(parts[0], parts[1]...)
	s := &federated.Grouped{
		Task:  "cifar100",
		About: federated.CIFARInfo,
		Rows:  &federated.ByteRows{Width: federated.CIFARRecord, Bytes: records, Coding: federated.Colours},
	}
	s.About.Name = "cifar100 (binary)"
	s.About.Digest = opt.Digest("cifar100", sha256.Sum256(parts[0]), sha256.Sum256(parts[1]))
	// coarse gives the coarse label of each fine label; -1 means that no image has shown it yet.
	coarse := slices.Repeat([]int32{-1}, federated.CIFARClasses)
	for i := range len(records) / federated.CIFARRecord {
		up := int32(records[i*federated.CIFARRecord])
		fine := int32(records[i*federated.CIFARRecord+1])
		if coarse[fine] >= 0 && coarse[fine] != up {
			return nil, fmt.Errorf("fine label %d is below coarse labels %d and %d", fine, coarse[fine], up)
		}
		coarse[fine] = up
		s.Labels = append(s.Labels, fine)
		if i < n {
			s.Train = append(s.Train, int32(i))
		} else {
			s.Held = append(s.Held, int32(i))
		}
	}
	p := opt.Partition
	switch {
	case p.Kind == "":
		p.Kind = "pachinko"
	case p.Natural():
		return nil, errors.New("CIFAR-100 has no clients of its own; want partition pachinko, iid, dirichlet, " +
			"shards or quantity")
	}
	p.Clients = cmp.Or(p.Clients, max(1, n/100))
	return s.Partitioned(p, coarse, opt.Seed)
}
