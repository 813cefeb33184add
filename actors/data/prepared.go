package data

import (
	"bufio"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"

	"fedpace/actors/data/federated"
	"fedpace/actors/data/text"
)

// A prepared file holds a set as it is used, so that its samples are mapped
// into memory rather than decoded:
//
//	magic (16 bytes) | length of the header (8) | CRC-32C of the header (4),
//	0 (4) | header (JSON) | sections, each at a multiple of 64 bytes
//
// All integers are little-endian.
const preparedMagic = "fedpace data 1\n\x00"

const (
	preparedHead   = 32
	maxPreparedTop = 1 << 28 // bytes of the header, which names every client
)

// castagnoli is CRC-32C, which processors compute at memory speed.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// preparedHeader is the JSON header.
type preparedHeader struct {
	Source   string // identifies sources and options, see sourceKey
	Task     string
	Info     federated.Info
	Rows     string   // how the sections hold samples
	Width    int      // bytes or numbers of a sample, where all have as many
	Names    [][]byte // base64 in JSON: a source's names need not be UTF-8
	Sections []preparedSection
}

type preparedSection struct {
	Name           string
	Offset, Length int64
	CRC            uint32
}

// OpenPrepared opens path through a prepared file at cache. When that is
// absent, damaged, or made from other sources or options, it is made anew
// first, and why says so; when it could be used, why is empty.
func OpenPrepared(path, cache string, opt federated.Options) (set federated.Set, why string, err error) {
	key, err := sourceKey(path, opt)
	if err != nil {
		return nil, "", fmt.Errorf("data: %w", err)
	}
	s, err := readPrepared(cache, key)
	if err == nil {
		if err := fitsTask(path, s, opt); err != nil {
			return nil, "", errors.Join(err, s.Close())
		}
		return s, "", nil
	}
	if why = err.Error(); errors.Is(err, fs.ErrNotExist) {
		why = "not prepared yet"
	}
	if set, err = Open(path, opt); err != nil {
		return nil, why, err
	}
	known, ok := set.(opened)
	if !ok {
		return nil, why, errors.Join(fmt.Errorf("data: %s: a set of this reader cannot be prepared", path), set.Close())
	}
	if err := writePrepared(cache, key, known); err != nil {
		return nil, why, fmt.Errorf("data: %s: %w", cache, errors.Join(err, set.Close()))
	}
	if err := set.Close(); err != nil {
		return nil, why, err
	}
	if s, err = readPrepared(cache, key); err != nil {
		return nil, why, fmt.Errorf("data: %s was just written: %w", cache, err)
	}
	return s, why, nil
}

// sourceKey hashes what a set is made of: every file at path, and the options.
func sourceKey(path string, opt federated.Options) (string, error) {
	var files []string
	err := filepath.WalkDir(path, func(name string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			files = append(files, name)
		}
		return err
	})
	if stat, at := os.Stat(path); err == nil && at == nil && stat.Mode().IsRegular() {
		files = []string{path} // a symbolic link to a file
		if base := filepath.Base(path); base == cifarFiles[0] || base == cifarFiles[1] {
			files = []string{filepath.Join(filepath.Dir(path), cifarFiles[0]), filepath.Join(filepath.Dir(path), cifarFiles[1])}
		}
	}
	if err != nil {
		return "", err
	}
	sums := make([][sha256.Size]byte, len(files))
	var workers errgroup.Group
	workers.SetLimit(runtime.GOMAXPROCS(0))
	for i, name := range files {
		workers.Go(func() error {
			f, err := os.Open(name)
			if err != nil {
				return err
			}
			defer f.Close()
			sums[i], err = federated.HashAll(f)
			return err
		})
	}
	if err := workers.Wait(); err != nil {
		return "", err
	}
	h := sha256.New()
	fmt.Fprintf(h, "%s%+v\n", preparedMagic, opt)
	for i, name := range files {
		rel, err := filepath.Rel(path, name)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(h, "%q\n", filepath.ToSlash(rel))
		h.Write(sums[i][:])
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// preparer collects sections.
type preparer struct {
	header   preparedHeader
	sections [][][]byte // each in pieces
}

func (p *preparer) bytes(name string, pieces ...[]byte) {
	p.header.Sections = append(p.header.Sections, preparedSection{Name: name})
	p.sections = append(p.sections, pieces)
}

// ints stores integers as 32 bits. All of a set fit: samples are numbered by
// int32, and no store reaches 4 GiB but images, whose places are not stored.
func ints[T int | int32 | uint32 | uint16](p *preparer, name string, values []T) {
	b := make([]byte, 4*len(values))
	for i, v := range values {
		binary.LittleEndian.PutUint32(b[4*i:], uint32(v))
	}
	p.bytes(name, b)
}

// writePrepared writes a set to a file beside name and renames it when it is
// whole. It does not wait for the disk: what a power cut leaves of it fails its
// checksums and is made anew.
func writePrepared(name, key string, s opened) (err error) {
	p := preparer{header: preparedHeader{Source: key, Task: s.TaskName(), Info: s.Info()}}
	switch s := s.(type) {
	case *text.Windows:
		p.header.Rows, p.header.Names = "windows", convert[[]byte](s.Names)
		ints(&p, "start", s.Starts)
		ints(&p, "train", s.Train)
		ints(&p, "pool", s.Pool)
		p.bytes("text", s.Text)
	case *federated.Grouped:
		p.header.Names = convert[[]byte](s.Names)
		ints(&p, "start", s.Starts)
		ints(&p, "train", s.Train)
		ints(&p, "held", s.Held)
		ints(&p, "labels", s.Labels)
		p.rows(s.Rows)
	default:
		return fmt.Errorf("a set of %T cannot be prepared", s)
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(name), filepath.Base(name)+".*.partial")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close(), os.Remove(f.Name()))
		}
	}()
	if err := p.write(f); err != nil {
		return err
	}
	if err := f.Chmod(0o644); err != nil { // CreateTemp makes it for its owner alone
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	return os.Rename(f.Name(), name)
}

func (p *preparer) rows(r federated.Rows) {
	switch r := r.(type) {
	case *federated.ByteRows:
		p.header.Rows, p.header.Width = "fraction", r.Width
		if r.Value == federated.Inverted {
			p.header.Rows = "ink"
		}
		p.bytes("bytes", r.Bytes)
	case *federated.ImageRows:
		p.header.Rows, p.header.Width = "ink", federated.FEMNISTPixels
		p.bytes("bytes", r.Images...)
	case *federated.WindowRows:
		p.header.Rows, p.header.Width = "tokens", federated.ShakespeareWindow
		p.bytes("bytes", r.Images...)
	case *federated.TokenRows:
		p.header.Rows, p.header.Width = "tokens", r.Width
		p.bytes("bytes", r.Tokens)
	case *cifarRows:
		p.header.Rows, p.header.Width = "cifar", federated.CIFARRecord
		p.bytes("bytes", r.parts[0], r.parts[1])
	case *federated.FloatRows:
		p.header.Rows, p.header.Width = "float", r.Width
		bits := make([]uint32, len(r.Values))
		for i, v := range r.Values {
			bits[i] = math.Float32bits(v)
		}
		ints(p, "values", bits)
	case *federated.BagRows:
		p.header.Rows = "bag"
		ints(p, "row", r.Starts)
		ints(p, "token", r.Word)
		ints(p, "count", r.Count)
	}
}

func convert[To, From string | []byte](from []From) []To {
	to := make([]To, len(from))
	for i, v := range from {
		to[i] = To(v)
	}
	return to
}

func align(n int64) int64 { return (n + 63) &^ 63 }

// write lays the sections out behind a header whose length depends on their
// places: it is padded to the length it has with the largest ones.
func (p *preparer) write(f io.Writer) error {
	for i, pieces := range p.sections {
		s := &p.header.Sections[i]
		s.Offset, s.CRC = math.MaxInt64, math.MaxUint32
		for _, piece := range pieces {
			s.Length += int64(len(piece))
		}
	}
	widest, err := json.Marshal(p.header)
	if err != nil {
		return err
	}
	at := align(preparedHead + int64(len(widest)))
	top := at - preparedHead
	for i, pieces := range p.sections {
		s := &p.header.Sections[i]
		s.Offset, s.CRC = at, 0
		for _, piece := range pieces {
			s.CRC = crc32.Update(s.CRC, castagnoli, piece)
		}
		at = align(at + s.Length)
	}
	header, err := json.Marshal(p.header)
	if err != nil {
		return err
	}
	header = append(header, slices.Repeat([]byte{' '}, int(top)-len(header))...)
	if len(header) > maxPreparedTop {
		return fmt.Errorf("a header of %d bytes, want at most %d", len(header), maxPreparedTop)
	}
	out := bufio.NewWriterSize(f, 1<<20)
	var head [preparedHead]byte
	copy(head[:], preparedMagic)
	binary.LittleEndian.PutUint64(head[16:], uint64(len(header)))
	binary.LittleEndian.PutUint32(head[24:], crc32.Checksum(header, castagnoli))
	// A bufio.Writer keeps its first error for Flush.
	out.Write(head[:])
	out.Write(header)
	for i, pieces := range p.sections {
		for _, piece := range pieces {
			out.Write(piece)
		}
		n := p.header.Sections[i].Length
		out.Write(make([]byte, align(n)-n))
	}
	return out.Flush()
}

// mapped is a set whose samples are in a mapped file.
type mapped struct {
	opened
	unmap func() error
}

// Close unmaps the file; no batch may be under way.
func (m *mapped) Close() error { return m.unmap() }

// readPrepared maps a prepared file and checks all of it.
func readPrepared(name, key string) (opened, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	stat, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if stat.Size() < preparedHead {
		return nil, fmt.Errorf("%s: damaged: %d bytes", name, stat.Size())
	}
	content, unmap, err := mapFile(f, stat.Size())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	s, err := parsePrepared(content, key)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", name, err), unmap())
	}
	return &mapped{s, unmap}, nil
}

// prepared is a prepared file in memory.
type prepared struct {
	header  preparedHeader
	section map[string][]byte
}

// parsePrepared makes the set of a prepared file's bytes, which it keeps. With
// an empty key any source will do.
func parsePrepared(b []byte, key string) (opened, error) {
	if len(b) < preparedHead || string(b[:16]) != preparedMagic {
		return nil, errors.New("no prepared file of this version")
	}
	n := binary.LittleEndian.Uint64(b[16:])
	if n > uint64(len(b)-preparedHead) || n > maxPreparedTop {
		return nil, errors.New("damaged: its header exceeds it")
	}
	header := b[preparedHead : preparedHead+n]
	if crc32.Checksum(header, castagnoli) != binary.LittleEndian.Uint32(b[24:]) {
		return nil, errors.New("damaged: its header has another checksum")
	}
	p := prepared{section: make(map[string][]byte)}
	if err := json.Unmarshal(header, &p.header); err != nil {
		return nil, fmt.Errorf("damaged: %w", err)
	}
	if key != "" && p.header.Source != key {
		return nil, errors.New("stale: sources or options have changed")
	}
	for _, s := range p.header.Sections {
		if s.Offset < 0 || s.Length < 0 || s.Offset > int64(len(b)) || s.Length > int64(len(b))-s.Offset {
			return nil, fmt.Errorf("damaged: section %s exceeds it", s.Name)
		}
		p.section[s.Name] = b[s.Offset : s.Offset+s.Length : s.Offset+s.Length]
	}
	// No return before all workers are done: the caller unmaps b on an error.
	var workers errgroup.Group
	workers.SetLimit(runtime.GOMAXPROCS(0))
	for _, s := range p.header.Sections {
		workers.Go(func() error {
			if crc32.Checksum(b[s.Offset:s.Offset+s.Length], castagnoli) != s.CRC {
				return fmt.Errorf("damaged: section %s has another checksum", s.Name)
			}
			return nil
		})
	}
	if err := workers.Wait(); err != nil {
		return nil, err
	}
	s, err := p.set()
	if err != nil {
		return nil, fmt.Errorf("damaged: %w", err)
	}
	return s, nil
}

// set makes the set and checks that no index leads outside.
func (p *prepared) set() (opened, error) {
	if p.header.Info.Classes < 1 || p.header.Info.Features < 1 || len(p.header.Names) == 0 {
		return nil, errors.New("no clients, classes or features")
	}
	if p.header.Rows == "windows" {
		return p.windows()
	}
	s := &federated.Grouped{Task: p.header.Task, About: p.header.Info, Names: convert[string](p.header.Names)}
	s.Starts, s.Train, s.Held, s.Labels = numbers[int](p, "start"), numbers[int32](p, "train"), numbers[int32](p, "held"), numbers[int32](p, "labels")
	n, err := p.rows(s)
	if err != nil {
		return nil, err
	}
	if n != len(s.Labels) {
		return nil, fmt.Errorf("%d samples with %d labels", n, len(s.Labels))
	}
	if len(s.Starts) != len(s.Names)+1 || s.Starts[0] != 0 || s.Starts[len(s.Names)] != len(s.Train) || !ascending(s.Starts) || len(s.Held) == 0 {
		return nil, fmt.Errorf("%d clients at %d places", len(s.Names), len(s.Starts))
	}
	for _, i := range slices.Concat(s.Train, s.Held) {
		if i < 0 || int(i) >= n {
			return nil, fmt.Errorf("sample %d of %d", i, n)
		}
	}
	for _, l := range s.Labels {
		if l < 0 || int(l) >= s.About.Classes {
			return nil, fmt.Errorf("label %d of %d", l, s.About.Classes)
		}
	}
	return s, nil
}

// rows makes the store of samples and counts them.
func (p *prepared) rows(s *federated.Grouped) (int, error) {
	bytes, width := p.section["bytes"], p.header.Width
	whole := func(length, features int) (int, error) {
		if width < 1 || features != s.About.Features || length%width != 0 {
			return 0, fmt.Errorf("%d bytes or numbers in samples of %d", length, width)
		}
		return length / width, nil
	}
	switch p.header.Rows {
	case "ink":
		s.Rows = &federated.ByteRows{Width: width, Bytes: bytes, Value: federated.Inverted}
		return whole(len(bytes), width)
	case "fraction":
		s.Rows = &federated.ByteRows{Width: width, Bytes: bytes, Value: federated.Fraction}
		return whole(len(bytes), width)
	case "tokens":
		s.Rows = &federated.TokenRows{Width: width, Tokens: bytes}
		return whole(len(bytes), width)
	case "cifar":
		s.Rows = &cifarRows{parts: [2][]byte{bytes, nil}, train: math.MaxInt}
		if width != federated.CIFARRecord {
			return 0, fmt.Errorf("records of %d bytes", width)
		}
		return whole(len(bytes), federated.CIFARPixels)
	case "float":
		bits := p.section["values"]
		r := &federated.FloatRows{Width: width, Values: make([]float32, len(bits)/4)}
		for i := range r.Values {
			r.Values[i] = math.Float32frombits(binary.LittleEndian.Uint32(bits[4*i:]))
		}
		s.Rows = r
		return whole(len(r.Values), width)
	case "bag":
		r := &federated.BagRows{Starts: numbers[uint32](p, "row"), Word: numbers[uint16](p, "token"), Count: numbers[uint16](p, "count")}
		if len(r.Starts) == 0 || r.Starts[0] != 0 || int(r.Starts[len(r.Starts)-1]) != len(r.Word) || len(r.Word) != len(r.Count) || !ascending(r.Starts) {
			return 0, errors.New("bags of words do not match their places")
		}
		for i := range r.Starts[1:] {
			row := r.Word[r.Starts[i]:r.Starts[i+1]]
			total := 0
			for j, token := range row {
				if j > 0 && token <= row[j-1] || int(token) >= s.About.Features {
					return 0, fmt.Errorf("bag %d is not ascending", i)
				}
				total += int(r.Count[int(r.Starts[i])+j])
			}
			if total < 1 || total > text.MaxTweetWords {
				return 0, fmt.Errorf("bag %d of %d tokens", i, total)
			}
			r.Total = append(r.Total, uint16(total))
		}
		s.Rows = r
		return len(r.Total), nil
	}
	return 0, fmt.Errorf("samples held as %.40q", p.header.Rows)
}

func (p *prepared) windows() (opened, error) {
	s := &text.Windows{About: p.header.Info, Names: convert[string](p.header.Names), Text: p.section["text"]}
	s.Starts, s.Train, s.Pool = numbers[int](p, "start"), numbers[int32](p, "train"), numbers[int](p, "pool")
	n := len(s.Names)
	if len(s.Starts) != n || len(s.Train) != n || len(s.Pool) != n+1 || s.Pool[0] != 0 || !ascending(s.Pool) {
		return nil, fmt.Errorf("%d roles at %d places", n, len(s.Starts))
	}
	for c := range n {
		last := s.Starts[c] + int(s.Train[c]) + federated.ShakespeareWindow - 1 + s.Pool[c+1] - s.Pool[c] + federated.ShakespeareWindow
		if s.Starts[c] < 0 || s.Train[c] < 1 || last > len(s.Text) {
			return nil, fmt.Errorf("role %d exceeds the text", c)
		}
	}
	for _, c := range s.Text {
		if int(c) >= s.About.Classes {
			return nil, fmt.Errorf("character %d of %d", c, s.About.Classes)
		}
	}
	if s.About.Features != federated.ShakespeareWindow {
		return nil, fmt.Errorf("windows of %d characters", s.About.Features)
	}
	return s, nil
}

func numbers[T int | int32 | uint32 | uint16](p *prepared, name string) []T {
	b := p.section[name]
	values := make([]T, len(b)/4)
	for i := range values {
		values[i] = T(binary.LittleEndian.Uint32(b[4*i:]))
	}
	return values
}

// ascending tells that every client or row has at least one member.
func ascending[T int | uint32](s []T) bool {
	for i := range s[1:] {
		if s[i] >= s[i+1] {
			return false
		}
	}
	return true
}
