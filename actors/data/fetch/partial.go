package fetch

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"fedpace/internal/filelock"
)

// partial is a download that is not finished: the bytes so far in NAME.part,
// and in NAME.part.json what they are the beginning of. It is locked, so that
// two processes do not write to one file.
type partial struct {
	file *os.File
	size int64 // bytes so far
	kept int64 // of those, from an earlier call
	of   origin
}

// origin is the version of a file that a server has. Only more of the same
// version may follow what is there.
type origin struct {
	URL       string
	Validator string // a strong entity tag, or else the date of the last change; without either no request continues it
	Total     int64  // in bytes, -1 where the server does not say
}

// unknown is the origin of no bytes.
var unknown = origin{Total: -1}

const maxOrigin = 1 << 16 // bytes of NAME.part.json

func recordName(part string) string { return part + ".json" }

// openPartial opens or makes a partial file and locks it. One whose origin is
// not known starts anew.
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
	p = &partial{file: f, size: here.Size(), kept: here.Size()}
	if p.of, err = readOrigin(recordName(name)); err != nil || p.of.Total >= 0 && p.size > p.of.Total {
		return p, p.restart(unknown)
	}
	_, err = f.Seek(p.size, io.SeekStart)
	return p, err
}

func readOrigin(name string) (o origin, err error) {
	f, err := os.Open(name)
	if err != nil {
		return o, err
	}
	defer f.Close()
	err = json.NewDecoder(io.LimitReader(f, maxOrigin)).Decode(&o)
	if err == nil && strings.ContainsFunc(o.Validator, func(r rune) bool { return r < ' ' || r > '~' }) {
		err = errors.New("no validator that a header can hold")
	}
	return o, err
}

// restart drops what is there and begins another version. The bytes go before
// the record does: at no time does a record stand beside bytes of another
// version.
func (p *partial) restart(o origin) error {
	if err := p.file.Truncate(0); err != nil {
		return err
	}
	if _, err := p.file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	p.size, p.kept, p.of = 0, 0, o
	text, err := json.Marshal(o)
	if err != nil {
		return err
	}
	return os.WriteFile(recordName(p.file.Name()), text, 0o644)
}

// remove deletes both files, which close has closed.
func (p *partial) remove() error {
	return errors.Join(absent(os.Remove(p.file.Name())), absent(os.Remove(recordName(p.file.Name()))))
}

func absent(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
