package fetch

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"fedpace/internal/filelock"
)

// partial is a download that is not finished: the bytes so far in NAME.part. It is
// locked, so that two processes do not write to one file. Of which version of the archive
// the bytes are shows in its checksum.
type partial struct {
	file   *os.File
	size   int64 // bytes so far
	kept   int64 // of those, from an earlier call
	total  int64 // -1 where no server has said
	pieces bool  // the bytes came by several requests
}

// openPartial opens or makes a partial file and locks it.
func openPartial(name string) (p *partial, err error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close())
		}
	}()
	if err := filelock.Lock(f); err != nil {
		return nil, fmt.Errorf("%s: another process is fetching it (%w)", name, err)
	}
	here, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if there, err := os.Stat(name); err != nil || !os.SameFile(here, there) {
		return nil, fmt.Errorf("%s: another process has just finished with it", name)
	}
	_, err = f.Seek(0, io.SeekEnd)
	return &partial{file: f, size: here.Size(), kept: here.Size(), total: -1}, err
}

func (p *partial) restart() error {
	if err := p.file.Truncate(0); err != nil {
		return err
	}
	_, err := p.file.Seek(0, io.SeekStart)
	p.size, p.kept, p.total, p.pieces = 0, 0, -1, false
	return err
}

func absent(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
