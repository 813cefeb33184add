package data

import (
	"archive/tar"
	"bufio"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"

	"fedpace/actors/data/federated"
	"fedpace/actors/learn"
)

// openCIFARFolder reads train.bin and test.bin.
func openCIFARFolder(dir string, opt federated.Options) (*federated.Grouped, error) {
	var parts [2][]byte
	for i, name := range cifarFiles {
		f, err := os.Open(filepath.Join(dir, name))
		if err != nil {
			return nil, fmt.Errorf("CIFAR-100: %w; want train.bin and test.bin", err)
		}
		parts[i], err = readCIFAR(f)
		f.Close()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", filepath.Join(dir, name), err)
		}
	}
	s, err := NewCIFAR(parts, opt)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	return s, nil
}

var cifarFiles = [2]string{"train.bin", "test.bin"}

// openCIFARArchive reads cifar-100-binary.tar.gz.
func openCIFARArchive(name string, f io.Reader, opt federated.Options) (*federated.Grouped, error) {
	s, err := readCIFARArchive(f, opt)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return s, nil
}

func readCIFARArchive(f io.Reader, opt federated.Options) (*federated.Grouped, error) {
	z, err := gzip.NewReader(bufio.NewReaderSize(f, 1<<20))
	if err != nil {
		return nil, fmt.Errorf("gzip: %w", err)
	}
	var parts [2][]byte
	for archive := tar.NewReader(z); ; {
		entry, err := archive.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("truncated or damaged archive: %w", err)
		}
		for i, want := range cifarFiles {
			if path.Base(entry.Name) != want {
				continue
			}
			if parts[i], err = readCIFAR(archive); err != nil {
				return nil, fmt.Errorf("%s: %w", entry.Name, err)
			}
		}
	}
	return NewCIFAR(parts, opt)
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
		return nil, fmt.Errorf("%d bytes are no whole number of images of %d bytes: truncated, or not CIFAR-100's binary version", len(b), federated.CIFARRecord)
	}
	for i := 0; i < len(b); i += federated.CIFARRecord {
		if b[i] >= federated.CIFARCoarse || b[i+1] >= federated.CIFARClasses {
			return nil, fmt.Errorf("image %d: labels %d and %d are outside the %d coarse and %d fine classes", i/federated.CIFARRecord, b[i], b[i+1], federated.CIFARCoarse, federated.CIFARClasses)
		}
	}
	return b, nil
}

// newCIFAR deals the training images, which are as stored: whoever trains
// crops and flips minibatches (learn.Augment); the paper's partition is Pachinko
// allocation to clients of 100 images (paper/NOTES, "Data").
func NewCIFAR(parts [2][]byte, opt federated.Options) (*federated.Grouped, error) {
	for i, part := range parts {
		if len(part) == 0 {
			return nil, fmt.Errorf("no %s; want CIFAR-100's binary version", cifarFiles[i])
		}
	}
	sums := [][sha256.Size]byte{sha256.Sum256(parts[0]), sha256.Sum256(parts[1])}
	n := len(parts[0]) / federated.CIFARRecord
	images := &cifarRows{parts: parts, train: n}
	s := &federated.Grouped{Task: "cifar100", Rows: images}
	s.About = federated.Info{Name: "cifar100 (binary)", Input: learn.Dense, Features: federated.CIFARPixels, Classes: federated.CIFARClasses}
	coarse := make([]int32, federated.CIFARClasses)
	for k := range coarse {
		coarse[k] = -1
	}
	for _, part := range parts {
		for i := 0; i < len(part); i += federated.CIFARRecord {
			up, fine := int32(part[i]), int32(part[i+1])
			if coarse[fine] >= 0 && coarse[fine] != up {
				return nil, fmt.Errorf("fine label %d is below coarse labels %d and %d", fine, coarse[fine], up)
			}
			coarse[fine] = up
			s.Labels = append(s.Labels, fine)
		}
	}
	for i := range s.Labels {
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
		return nil, errors.New("CIFAR-100 has no clients of its own; want partition pachinko, iid, dirichlet, shards or quantity")
	}
	if p.Clients == 0 {
		p.Clients = max(1, n/100)
	}
	s, err := s.Partitioned(p, coarse, opt.Seed)
	if err != nil {
		return nil, err
	}
	s.About.Digest = opt.Digest("cifar100", sums...)
	return s, nil
}

// cifarRows holds the records of both files, the training images first.
type cifarRows struct {
	parts [2][]byte
	train int
}

func (r *cifarRows) image(i int) []byte {
	part := r.parts[0]
	if i >= r.train {
		part, i = r.parts[1], i-r.train
	}
	return part[i*federated.CIFARRecord+2 : (i+1)*federated.CIFARRecord]
}

func (r *cifarRows) Append(dst *learn.Batch, i int) {
	image := r.image(i)
	for c, value := range federated.CIFARValue {
		federated.AppendLookup(dst, image[c*federated.CIFARPlane:(c+1)*federated.CIFARPlane], value)
	}
}

func init() {
	Readers.Register("cifar100", "CIFAR-100's binary version as a folder or tar.gz", CIFAR100{})
}

// CIFAR100 reads the binary version of CIFAR-100 (Krizhevsky 2009).
type CIFAR100 struct{}

// Recognises implements [Reader].
func (CIFAR100) Recognises(s *Source) Match {
	switch {
	case s.Folder:
		if _, err := os.Stat(filepath.Join(s.Path, cifarFiles[0])); err == nil {
			return ByContent
		}
	case s.isGzip() && s.isArchive():
		return ByContent
	case s.Name() == cifarFiles[0], s.Name() == cifarFiles[1]:
		return ByName
	}
	return NoMatch
}

// Open implements [Reader].
func (CIFAR100) Open(s *Source, o federated.Options) (federated.Set, error) {
	switch {
	case s.Folder:
		return openCIFARFolder(s.Path, o)
	case s.isGzip():
		return openCIFARArchive(s.Path, s.File, o)
	}
	return openCIFARFolder(filepath.Dir(s.Path), o)
}

// Memory is the size of the samples in bytes.
func (r *cifarRows) Memory() int { return len(r.parts[0]) + len(r.parts[1]) }
