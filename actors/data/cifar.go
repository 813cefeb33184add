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

	"fedpace/actors/learn"
)

// CIFAR-100's binary layout: coarse label, fine label, then 32x32 bytes of
// each colour.
const (
	cifarSide    = 32
	cifarPlane   = cifarSide * cifarSide
	cifarPixels  = 3 * cifarPlane
	cifarRecord  = 2 + cifarPixels
	cifarClasses = 100
	cifarCoarse  = 20
	maxCIFAR     = 1 << 20 // images of one file; the real one has 50,000
)

// openCIFARFolder reads train.bin and test.bin.
func openCIFARFolder(dir string, opt Options) (*grouped, error) {
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
	s, err := newCIFAR(parts, opt)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	return s, nil
}

var cifarFiles = [2]string{"train.bin", "test.bin"}

// openCIFARArchive reads cifar-100-binary.tar.gz.
func openCIFARArchive(name string, f io.Reader, opt Options) (*grouped, error) {
	s, err := readCIFARArchive(f, opt)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return s, nil
}

func readCIFARArchive(f io.Reader, opt Options) (*grouped, error) {
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
	return newCIFAR(parts, opt)
}

// readCIFAR reads whole records and checks their labels.
func readCIFAR(r io.Reader) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(r, maxCIFAR*cifarRecord+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("truncated or damaged: %w", err)
	case int64(len(b)) > maxCIFAR*cifarRecord:
		return nil, fmt.Errorf("more than %d images", maxCIFAR)
	case len(b) == 0 || len(b)%cifarRecord != 0:
		return nil, fmt.Errorf("%d bytes are no whole number of images of %d bytes: truncated, or not CIFAR-100's binary version", len(b), cifarRecord)
	}
	for i := 0; i < len(b); i += cifarRecord {
		if b[i] >= cifarCoarse || b[i+1] >= cifarClasses {
			return nil, fmt.Errorf("image %d: labels %d and %d are outside the %d coarse and %d fine classes", i/cifarRecord, b[i], b[i+1], cifarCoarse, cifarClasses)
		}
	}
	return b, nil
}

// newCIFAR deals the training images, which are as stored: whoever trains
// crops and flips minibatches (learn.Augment); the paper's partition is Pachinko
// allocation to clients of 100 images (paper/NOTES, "Data").
func newCIFAR(parts [2][]byte, opt Options) (*grouped, error) {
	for i, part := range parts {
		if len(part) == 0 {
			return nil, fmt.Errorf("no %s; want CIFAR-100's binary version", cifarFiles[i])
		}
	}
	sums := [][sha256.Size]byte{sha256.Sum256(parts[0]), sha256.Sum256(parts[1])}
	n := len(parts[0]) / cifarRecord
	images := &cifarRows{parts: parts, train: n}
	s := &grouped{task: "cifar100", rows: images}
	s.info = Info{Name: "cifar100 (binary)", Input: learn.Dense, Features: cifarPixels, Classes: cifarClasses}
	coarse := make([]int32, cifarClasses)
	for k := range coarse {
		coarse[k] = -1
	}
	for _, part := range parts {
		for i := 0; i < len(part); i += cifarRecord {
			up, fine := int32(part[i]), int32(part[i+1])
			if coarse[fine] >= 0 && coarse[fine] != up {
				return nil, fmt.Errorf("fine label %d is below coarse labels %d and %d", fine, coarse[fine], up)
			}
			coarse[fine] = up
			s.labels = append(s.labels, fine)
		}
	}
	for i := range s.labels {
		if i < n {
			s.train = append(s.train, int32(i))
		} else {
			s.held = append(s.held, int32(i))
		}
	}
	p := opt.Partition
	switch {
	case p.Kind == "":
		p.Kind = "pachinko"
	case p.natural():
		return nil, errors.New("CIFAR-100 has no clients of its own; want partition pachinko, iid, dirichlet, shards or quantity")
	}
	if p.Clients == 0 {
		p.Clients = max(1, n/100)
	}
	s, err := s.partitioned(p, coarse, opt.Seed)
	if err != nil {
		return nil, err
	}
	s.info.Digest = opt.digest("cifar100", sums...)
	return s, nil
}

// cifarRows holds the records of both files, the training images first.
type cifarRows struct {
	parts [2][]byte
	train int
}

// cifarValue of a byte of each colour: (x/255 - mean)/std (paper/NOTES, "Data").
var cifarValue = [3]*[256]float32{
	normalised(.4914, .2023), normalised(.4822, .1994), normalised(.4465, .2010),
}

func normalised(mean, std float64) *[256]float32 {
	return lookup(func(b int) float32 { return float32((float64(b)/255 - mean) / std) })
}

func (r *cifarRows) image(i int) []byte {
	part := r.parts[0]
	if i >= r.train {
		part, i = r.parts[1], i-r.train
	}
	return part[i*cifarRecord+2 : (i+1)*cifarRecord]
}

func (r *cifarRows) append(dst *learn.Batch, i int) {
	image := r.image(i)
	for c, value := range cifarValue {
		appendTable(dst, image[c*cifarPlane:(c+1)*cifarPlane], value)
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
func (CIFAR100) Open(s *Source, o Options) (Set, error) {
	switch {
	case s.Folder:
		return openCIFARFolder(s.Path, o)
	case s.isGzip():
		return openCIFARArchive(s.Path, s.File, o)
	}
	return openCIFARFolder(filepath.Dir(s.Path), o)
}
