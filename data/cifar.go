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
	federated.Readers.Register("cifar100", "CIFAR-100's binary version, a folder or tar.gz", CIFAR100{})
}

// CIFAR100 reads the binary version of CIFAR-100 (Krizhevsky 2009).
type CIFAR100 struct{}

// cifarFiles are the names of the files of the binary version: training images and held-out images.
var cifarFiles = [2]string{"train.bin", "test.bin"}

// Recognises reports whether s holds the binary version of CIFAR-100: a folder with train.bin, a
// packed archive, or one of its two files by name.
func (CIFAR100) Recognises(s *federated.Source) federated.Match {
	switch {
	case s.Folder:
		if _, err := os.Stat(filepath.Join(s.Path, cifarFiles[0])); err == nil {
			return federated.ByContent
		}
	// No other reader takes a packed tar archive.
	case s.IsGzip() && s.IsArchive():
		return federated.ByContent
	case s.Name() == cifarFiles[0], s.Name() == cifarFiles[1]:
		return federated.ByName
	}
	return federated.NoMatch
}

// Open reads both parts of CIFAR-100, training samples first, from an archive or from the folder of
// the given file. o.Partition says how the training images are divided among clients.
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
		// Both parts are needed, even if the source is only one of the files.
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

// readCIFARArchive reads the archive cifar-100-binary.tar.gz from f. It takes the two files of
// images, in whatever folder they lie, and passes over all others.
func readCIFARArchive(f io.Reader, opt federated.Options) (*federated.Grouped, error) {
	z, err := gzip.NewReader(bufio.NewReaderSize(f, 1<<20))
	if err != nil {
		return nil, fmt.Errorf("gzip: %w", err)
	}
	var parts [2][]byte
	// The files come in any order, so the set is made at the end of the archive.
	for archive := tar.NewReader(z); ; {
		entry, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return newCIFAR(parts, opt)
		}
		if err != nil {
			return nil, fmt.Errorf("truncated or damaged archive: %w", err)
		}
		if i := slices.Index(cifarFiles[:], path.Base(entry.Name)); i >= 0 {
			parts[i], err = readCIFAR(archive)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", entry.Name, err)
			}
		}
	}
}

// readCIFAR reads all records of one part and returns their bytes. A record is a coarse label, a
// fine label and the pixels of an image. It returns an error if r does not hold a whole number of
// records, or if a label is outside its classes.
func readCIFAR(r io.Reader) ([]byte, error) {
	// One byte more than the limit shows that there is too much.
	records, err := io.ReadAll(io.LimitReader(r, federated.MaxCIFAR*federated.CIFARRecord+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("truncated or damaged: %w", err)
	case int64(len(records)) > federated.MaxCIFAR*federated.CIFARRecord:
		return nil, fmt.Errorf("more than %d images", federated.MaxCIFAR)
	case len(records) == 0 || len(records)%federated.CIFARRecord != 0:
		return nil, fmt.Errorf(
			"%d bytes are no whole number of images of %d bytes: truncated, or not CIFAR-100's binary version",
			len(records),
			federated.CIFARRecord,
		)
	}
	for i := 0; i < len(records); i += federated.CIFARRecord {
		if records[i] >= federated.CIFARCoarse || records[i+1] >= federated.CIFARClasses {
			return nil, fmt.Errorf(
				"image %d: labels %d and %d are outside the %d coarse and %d fine classes",
				i/federated.CIFARRecord,
				records[i],
				records[i+1],
				federated.CIFARCoarse,
				federated.CIFARClasses,
			)
		}
	}
	return records, nil
}

// newCIFAR makes the set of the training records parts[0] and the held-out records parts[1], and divides
// the training images among clients. Without a kind of partition it is the paper's: Pachinko allocation to
// clients of 100 images (paper/NOTES, "Data"). The images are neither cropped nor flipped here: training
// does that with each minibatch (learn.Augment).
func newCIFAR(parts [2][]byte, opt federated.Options) (*federated.Grouped, error) {
	for i, part := range parts {
		if len(part) == 0 {
			return nil, fmt.Errorf("no %s; want CIFAR-100's binary version", cifarFiles[i])
		}
	}
	trainImages := len(parts[0]) / federated.CIFARRecord
	records := append(parts[0], parts[1]...)
	s := &federated.Grouped{
		Task:  "cifar100",
		About: federated.CIFARInfo,
		Rows:  &federated.ByteRows{Width: federated.CIFARRecord, Bytes: records, Coding: federated.Colours},
	}
	s.About.Name = "cifar100 (binary)"
	s.About.Identify(opt, "cifar100", sha256.Sum256(parts[0]), sha256.Sum256(parts[1]))
	// coarseLabels gives the coarse label of each fine label; -1 means that no image has shown it yet.
	coarseLabels := slices.Repeat([]int32{-1}, federated.CIFARClasses)
	for i := range len(records) / federated.CIFARRecord {
		coarse := int32(records[i*federated.CIFARRecord])
		fine := int32(records[i*federated.CIFARRecord+1])
		if coarseLabels[fine] >= 0 && coarseLabels[fine] != coarse {
			return nil, fmt.Errorf("fine label %d is below coarse labels %d and %d", fine, coarseLabels[fine], coarse)
		}
		coarseLabels[fine] = coarse
		s.Labels = append(s.Labels, fine)
		if i < trainImages {
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
	// A client has 100 images unless the user says how many clients there are.
	p.Clients = cmp.Or(p.Clients, max(1, trainImages/100))
	return s.Partitioned(p, coarseLabels, opt.Seed)
}
