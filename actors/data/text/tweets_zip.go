package text

import (
	"archive/zip"
	"crypto/sha256"
	"fmt"
	"io"
	"path"
	"strings"

	"fedpace/actors/data/federated"
)

// ZippedTweets finds Sentiment140's training CSV in a zip as it is published,
// beside a small test file; nil where there is none.
func ZippedTweets(f io.ReaderAt, size int64) *zip.File {
	z, err := zip.NewReader(f, size)
	if err != nil {
		return nil // whoever reads it says what is wrong
	}
	for _, entry := range z.File {
		name := strings.ToLower(path.Base(entry.Name))
		if strings.HasSuffix(name, ".csv") && !strings.HasPrefix(name, "test") {
			return entry
		}
	}
	return nil
}

// OpenZippedTweets reads the CSV without unpacking it to disk. The set is that
// of the CSV, by its digest too.
func OpenZippedTweets(name string, entry *zip.File, opt federated.Options) (*federated.Grouped, error) {
	s, err := ReadZippedTweets(entry, opt)
	if err != nil {
		return nil, fmt.Errorf("%s: %s: %w", name, entry.Name, err)
	}
	return s, nil
}

func ReadZippedTweets(entry *zip.File, opt federated.Options) (*federated.Grouped, error) {
	r, err := entry.Open()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	h := sha256.New()
	s, err := ReadTweets(io.TeeReader(r, h), opt)
	if err != nil {
		return nil, err
	}
	s.About.Digest = opt.Digest("sent140", [sha256.Size]byte(h.Sum(nil)))
	return s, nil
}
