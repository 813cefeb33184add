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
	Info     Info
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
func OpenPrepared(path, cache string, opt Options) (set Set, why string, err error) {
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
func sourceKey(path string, opt Options) (string, error) {
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
			sums[i], err = hashAll(f)
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
	p := preparer{header: preparedHeader{Source: key, Task: s.taskName(), Info: s.Info()}}
	switch s := s.(type) {
	case *windows:
		p.header.Rows, p.header.Names = "windows", convert[[]byte](s.names)
		ints(&p, "start", s.start)
		ints(&p, "train", s.train)
		ints(&p, "pool", s.pool)
		p.bytes("text", s.text)
	case *grouped:
		p.header.Names = convert[[]byte](s.names)
		ints(&p, "start", s.start)
		ints(&p, "train", s.train)
		ints(&p, "held", s.held)
		ints(&p, "labels", s.labels)
		p.rows(s.rows)
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

func (p *preparer) rows(r rows) {
	switch r := r.(type) {
	case *byteRows:
		p.header.Rows, p.header.Width = "fraction", r.width
		if r.value == inkOf {
			p.header.Rows = "ink"
		}
		p.bytes("bytes", r.bytes)
	case *imageRows:
		p.header.Rows, p.header.Width = "ink", pixels
		p.bytes("bytes", r.image...)
	case *stringRows:
		p.header.Rows, p.header.Width = "tokens", window
		p.bytes("bytes", r.image...)
	case *tokenRows:
		p.header.Rows, p.header.Width = "tokens", r.width
		p.bytes("bytes", r.tokens)
	case *cifarRows:
		p.header.Rows, p.header.Width = "cifar", cifarRecord
		p.bytes("bytes", r.parts[0], r.parts[1])
	case *floatRows:
		p.header.Rows, p.header.Width = "float", r.width
		bits := make([]uint32, len(r.values))
		for i, v := range r.values {
			bits[i] = math.Float32bits(v)
		}
		ints(p, "values", bits)
	case *bagRows:
		p.header.Rows = "bag"
		ints(p, "row", r.start)
		ints(p, "token", r.token)
		ints(p, "count", r.count)
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
	s := &grouped{task: p.header.Task, info: p.header.Info, names: convert[string](p.header.Names)}
	s.start, s.train, s.held, s.labels = numbers[int](p, "start"), numbers[int32](p, "train"), numbers[int32](p, "held"), numbers[int32](p, "labels")
	n, err := p.rows(s)
	if err != nil {
		return nil, err
	}
	if n != len(s.labels) {
		return nil, fmt.Errorf("%d samples with %d labels", n, len(s.labels))
	}
	if len(s.start) != len(s.names)+1 || s.start[0] != 0 || s.start[len(s.names)] != len(s.train) || !ascending(s.start) || len(s.held) == 0 {
		return nil, fmt.Errorf("%d clients at %d places", len(s.names), len(s.start))
	}
	for _, i := range slices.Concat(s.train, s.held) {
		if i < 0 || int(i) >= n {
			return nil, fmt.Errorf("sample %d of %d", i, n)
		}
	}
	for _, l := range s.labels {
		if l < 0 || int(l) >= s.info.Classes {
			return nil, fmt.Errorf("label %d of %d", l, s.info.Classes)
		}
	}
	return s, nil
}

// rows makes the store of samples and counts them.
func (p *prepared) rows(s *grouped) (int, error) {
	bytes, width := p.section["bytes"], p.header.Width
	whole := func(length, features int) (int, error) {
		if width < 1 || features != s.info.Features || length%width != 0 {
			return 0, fmt.Errorf("%d bytes or numbers in samples of %d", length, width)
		}
		return length / width, nil
	}
	switch p.header.Rows {
	case "ink":
		s.rows = &byteRows{width: width, bytes: bytes, value: inkOf}
		return whole(len(bytes), width)
	case "fraction":
		s.rows = &byteRows{width: width, bytes: bytes, value: fractionOf}
		return whole(len(bytes), width)
	case "tokens":
		s.rows = &tokenRows{width: width, tokens: bytes}
		return whole(len(bytes), width)
	case "cifar":
		s.rows = &cifarRows{parts: [2][]byte{bytes, nil}, train: math.MaxInt}
		if width != cifarRecord {
			return 0, fmt.Errorf("records of %d bytes", width)
		}
		return whole(len(bytes), cifarPixels)
	case "float":
		bits := p.section["values"]
		r := &floatRows{width: width, values: make([]float32, len(bits)/4)}
		for i := range r.values {
			r.values[i] = math.Float32frombits(binary.LittleEndian.Uint32(bits[4*i:]))
		}
		s.rows = r
		return whole(len(r.values), width)
	case "bag":
		r := &bagRows{start: numbers[uint32](p, "row"), token: numbers[uint16](p, "token"), count: numbers[uint16](p, "count")}
		if len(r.start) == 0 || r.start[0] != 0 || int(r.start[len(r.start)-1]) != len(r.token) || len(r.token) != len(r.count) || !ascending(r.start) {
			return 0, errors.New("bags of words do not match their places")
		}
		for i := range r.start[1:] {
			row := r.token[r.start[i]:r.start[i+1]]
			total := 0
			for j, token := range row {
				if j > 0 && token <= row[j-1] || int(token) >= s.info.Features {
					return 0, fmt.Errorf("bag %d is not ascending", i)
				}
				total += int(r.count[int(r.start[i])+j])
			}
			if total < 1 || total > maxTweetWords {
				return 0, fmt.Errorf("bag %d of %d tokens", i, total)
			}
			r.total = append(r.total, uint16(total))
		}
		s.rows = r
		return len(r.total), nil
	}
	return 0, fmt.Errorf("samples held as %.40q", p.header.Rows)
}

func (p *prepared) windows() (opened, error) {
	s := &windows{info: p.header.Info, names: convert[string](p.header.Names), text: p.section["text"]}
	s.start, s.train, s.pool = numbers[int](p, "start"), numbers[int32](p, "train"), numbers[int](p, "pool")
	n := len(s.names)
	if len(s.start) != n || len(s.train) != n || len(s.pool) != n+1 || s.pool[0] != 0 || !ascending(s.pool) {
		return nil, fmt.Errorf("%d roles at %d places", n, len(s.start))
	}
	for c := range n {
		last := s.start[c] + int(s.train[c]) + window - 1 + s.pool[c+1] - s.pool[c] + window
		if s.start[c] < 0 || s.train[c] < 1 || last > len(s.text) {
			return nil, fmt.Errorf("role %d exceeds the text", c)
		}
	}
	for _, c := range s.text {
		if int(c) >= s.info.Classes {
			return nil, fmt.Errorf("character %d of %d", c, s.info.Classes)
		}
	}
	if s.info.Features != window {
		return nil, fmt.Errorf("windows of %d characters", s.info.Features)
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
