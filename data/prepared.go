package data

import (
	"bufio"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/edsrzf/mmap-go"

	"fedpace/data/federated"
	"fedpace/internal/atomicfile"
	"fedpace/internal/memlimit"
	"fedpace/internal/vector"
	"fedpace/learn"
	"fedpace/registry"
)

// preparedMagic begins a prepared file, which holds a set as it is used, so that its samples are
// mapped into memory instead of decoded:
//
//	magic (16 bytes) | length of the header (8) | CRC-32C of the header (4),
//	0 (4) | header (JSON) | sections, each at a multiple of 64 bytes
//
// All integers are little-endian.
const preparedMagic = "fedpace data 1\n\x00"

const (
	// preparedHead is the number of bytes before the header.
	preparedHead = 32
	// maxPreparedTop bounds the header in bytes; it names every client.
	maxPreparedTop = 1 << 28
)

// castagnoli is CRC-32C, which processors compute at memory speed.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// prepared is a prepared file in memory. Its JSON form is the header of the file.
type prepared struct {
	// Inputs are what the file was made of; see [inputsOf].
	Inputs registry.Inputs
	// Task is the task that the set belongs to; empty for custom data.
	Task string
	// Info describes the set.
	Info federated.Info
	// Rows names the form in which the sections hold samples.
	Rows string
	// Width is the number of bytes or numbers of a sample, where all have the same number.
	Width int
	// Names are the names of the clients. They are bytes, in base64 in JSON, because the names of
	// a source need not be UTF-8.
	Names [][]byte
	// Sections are the parts of the file that hold numbers and samples.
	Sections []section
}

// section is a part of a prepared file.
type section struct {
	// Name tells what the section holds, such as "labels".
	Name string
	// Offset and Length are the place in the file, in bytes.
	Offset, Length int64
	// CRC is the CRC-32C of the content.
	CRC uint32
	// bytes is the content while the file is written or mapped.
	bytes []byte
}

// OpenPrepared opens the set at path through a prepared file at cache. If that file is absent,
// damaged, or made from other sources or options, it is first made from the sources, and rebuilt gives the
// reason; rebuilt is empty if the file could be used. A nil reader stands for the one that recognises the
// path.
func OpenPrepared(
	r federated.Reader,
	path, cache string,
	opt federated.Options,
) (set federated.Set, rebuilt string, err error) {
	wanted, err := inputsOf(r, path, opt)
	if err != nil {
		return nil, "", fmt.Errorf("data: %w", err)
	}
	// An up-to-date file is used as it is.
	s, err := readPrepared(cache, wanted)
	if err == nil {
		// A file that is up to date may still be of another task than is wanted.
		if err := fitsTask(s, opt); err != nil {
			return nil, "", fmt.Errorf("data: %s: %w", path, errors.Join(err, s.Close()))
		}
		return s, "", nil
	}
	rebuilt = fmt.Sprintf("%s: %v", cache, err)
	if errors.Is(err, fs.ErrNotExist) {
		rebuilt = "not prepared yet"
	}
	// The sources are read in full, which is what a prepared file saves.
	set, err = OpenWith(r, path, opt)
	if err != nil {
		return nil, rebuilt, err
	}
	if err := errors.Join(writePrepared(cache, wanted, set), set.Close()); err != nil {
		return nil, rebuilt, fmt.Errorf("data: %s: %w", path, err)
	}
	// The set that was read is not needed any more, and the mapped one takes as much memory.
	set = nil
	memlimit.Release()
	// The file that was just written is read again, so that the set is always the mapped one.
	s, err = readPrepared(cache, wanted)
	if err != nil {
		return nil, rebuilt, fmt.Errorf("data: %s was just written: %w", cache, err)
	}
	return s, rebuilt, nil
}

// readingVersion counts the ways to read what one mapping, or one layout, says.
const readingVersion = "4"

// inputsOf returns what a set is made of: the name and content of every file at path, the options
// that choose among samples, and the mapping that the reader r has. A prepared file with others is
// stale.
func inputsOf(r federated.Reader, path string, opt federated.Options) (*registry.Inputs, error) {
	var files []string
	// Links are followed, as readers follow them: Hugging Face's cache is a folder of links.
	err := federated.Below(path, nil, func(file string) error {
		files = append(files, file)
		return nil
	})
	if stat, statErr := os.Stat(path); err == nil && statErr == nil && stat.Mode().IsRegular() {
		// The path may be a symbolic link to a file, which stands for that file.
		files = []string{path}
		// One file of CIFAR-100 stands for both.
		if slices.Contains(cifarFiles[:], filepath.Base(path)) {
			dir := filepath.Dir(path)
			files = []string{filepath.Join(dir, cifarFiles[0]), filepath.Join(dir, cifarFiles[1])}
		}
	}
	if err != nil {
		return nil, err
	}
	sums, err := federated.Hash(files)
	if err != nil {
		return nil, err
	}
	// A folder may have a file for each of very many clients, so one digest stands for all.
	h := sha256.New()
	for i, name := range files {
		rel, err := filepath.Rel(path, name)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(h, "%q\n", filepath.ToSlash(rel))
		h.Write(sums[i][:])
	}
	settings := append(registry.SettingsOf(opt), registry.Setting{Key: "reading", Value: readingVersion})
	if r != nil {
		settings = append(settings, registry.Setting{Key: "mapping", Value: federated.Readers.Text(r)})
	}
	return &registry.Inputs{Settings: settings, Data: fmt.Sprintf("%x", h.Sum(nil))}, nil
}

// errStale is the error of a prepared file that is whole and is not what is wanted.
var errStale = errors.New("stale")

// checkInputs returns an error that names what has changed since a prepared file was made of before,
// if that is not what is wanted now.
func checkInputs(before, wanted *registry.Inputs) error {
	d := before.Difference(wanted)
	switch {
	case d == nil:
		return nil
	case before.Settings == nil:
		return fmt.Errorf("%w: an earlier version made it", errStale)
	case d.Part != registry.SettingsPart:
		return fmt.Errorf("%w: its sources have changed", errStale)
	}
	var changed []string
	for _, c := range d.Changes {
		name := strings.ToLower(c.Key)
		switch {
		case c.HadNone:
			changed = append(changed, "no "+name+" before")
		case c.HasNone:
			changed = append(changed, "no "+name+" now")
		default:
			changed = append(changed, fmt.Sprintf("%s was %s, is %s", name, c.Before, c.Now))
		}
	}
	return fmt.Errorf("%w: %s", errStale, strings.Join(changed, "; "))
}

// add appends a section with this name and content. Its place in the file is decided when the file
// is written.
func (p *prepared) add(name string, bytes []byte) {
	p.Sections = append(p.Sections, section{Name: name, Length: int64(len(bytes)), bytes: bytes})
}

// integersAs converts integers to another type, since files hold numbers of 32 bits. All numbers that are stored fit:
// samples are numbered by int32, and places are in stores of less than 4 GiB. Only a store of images can be larger, and
// the places of images are not stored.
func integersAs[Dst, Src int | int32 | uint32 | uint16](values []Src) []Dst {
	converted := make([]Dst, len(values))
	for i, v := range values {
		converted[i] = Dst(v)
	}
	return converted
}

// section returns the section of this name, or an empty one if there is none, which reads as no
// numbers.
func (p *prepared) section(name string) section {
	for _, s := range p.Sections {
		if s.Name == name {
			return s
		}
	}
	return section{}
}

// numbers returns a copy of the content of the section of this name as numbers.
func numbers[T int32 | uint32 | float32 | float64](p *prepared, name string) []T {
	return vector.Append[T](nil, p.section(name).bytes)
}

// writePrepared writes a set, and what it was made of, to the file called name, which replaces an
// earlier one only once it is complete. Only a Grouped set can be written.
func writePrepared(name string, from *registry.Inputs, set federated.Set) error {
	p := &prepared{Inputs: *from, Info: set.Info()}
	s, ok := set.(*federated.Grouped)
	if !ok {
		return fmt.Errorf("a set of this reader cannot be prepared: it is a %T", set)
	}
	p.Task = s.Task
	p.Names = convert[[]byte](s.Names)
	p.add("start", vector.Bytes(integersAs[uint32](s.Starts)))
	p.add("train", vector.Bytes(s.Train))
	p.add("held", vector.Bytes(s.Held))
	// A set has either labels or targets.
	if s.Labels != nil {
		p.add("labels", vector.Bytes(s.Labels))
	} else {
		p.add("targets", vector.Bytes(s.Targets))
	}
	if s.Times != nil {
		p.add("times", vector.Bytes(s.Times))
	}
	if err := p.addRows(s.Rows); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	return atomicfile.Write(name, p.write)
}

// addRows adds the sections that hold the samples r, in the form that federated/PREPARED.md describes, and
// notes this form in Rows. It returns an error for a store that has none.
func (p *prepared) addRows(r federated.Rows) error {
	switch r := r.(type) {
	case *federated.InkRows:
		// Packed images are stored as bytes, so that they can be mapped.
		return p.addRows(r.Unpacked())
	case *federated.ByteRows:
		p.Rows = r.Coding.Name
		p.Width = r.Width
		p.add("bytes", r.Bytes)
	case *federated.FloatRows:
		p.Rows = "float"
		p.Width = r.Width
		p.add("values", vector.Bytes(r.Values))
	case *federated.TextRows:
		p.Rows = "text"
		p.Width = r.Window
		p.add("text", r.Text)
		p.add("row", vector.Bytes(r.Starts))
	case *federated.BagRows:
		p.Rows = "bag"
		p.add("row", vector.Bytes(r.Starts))
		p.add("token", vector.Bytes(integersAs[uint32](r.Tokens)))
		p.add("count", vector.Bytes(integersAs[uint32](r.Counts)))
	default:
		return fmt.Errorf("samples of this reader cannot be prepared: they are %T", r)
	}
	return nil
}

// convert returns texts as bytes, or bytes as texts, each with the same content. JSON would change
// names that are not UTF-8 if they were texts.
func convert[Dst, Src string | []byte](values []Src) []Dst {
	converted := make([]Dst, len(values))
	for i, v := range values {
		converted[i] = Dst(v)
	}
	return converted
}

// align rounds an offset up to a multiple of 64 bytes, so that sections begin at a cache line.
func align(n int64) int64 { return (n + 63) &^ 63 }

// write writes the file to f: the header, and behind it the sections, each at a multiple of 64
// bytes. The length of the header depends on the places in it, so it is padded to the length that
// it has with the largest ones.
func (p *prepared) write(f io.Writer) error {
	for i := range p.Sections {
		p.Sections[i].Offset = math.MaxInt64
		p.Sections[i].CRC = math.MaxUint32
	}
	// With the largest numbers, the header is as long as it can become.
	widest, err := json.Marshal(p)
	if err != nil {
		return err
	}
	headerLength := align(preparedHead+int64(len(widest))) - preparedHead
	if headerLength > maxPreparedTop {
		return fmt.Errorf("a header of %d bytes, want at most %d", headerLength, maxPreparedTop)
	}
	// Now the places of the sections are known.
	offset := preparedHead + headerLength
	for i, s := range p.Sections {
		p.Sections[i].Offset = offset
		p.Sections[i].CRC = crc32.Checksum(s.bytes, castagnoli)
		offset = align(offset + s.Length)
	}
	header, err := json.Marshal(p)
	if err != nil {
		return err
	}
	// Blanks behind JSON change nothing.
	header = append(header, slices.Repeat([]byte{' '}, int(headerLength)-len(header))...)
	head := []byte(preparedMagic)
	head = binary.LittleEndian.AppendUint64(head, uint64(len(header)))
	head = binary.LittleEndian.AppendUint64(head, uint64(crc32.Checksum(header, castagnoli)))
	// The writer keeps its first error and returns it from Flush.
	buffered := bufio.NewWriterSize(f, 1<<20)
	buffered.Write(append(head, header...))
	for _, s := range p.Sections {
		buffered.Write(s.bytes)
		buffered.Write(make([]byte, align(s.Length)-s.Length))
	}
	return buffered.Flush()
}

// mapped is a set whose samples lie in a file that is mapped into memory.
type mapped struct {
	*federated.Grouped
	// content is the mapped file.
	content mmap.MMap
	// file stays open, since samples may also be read from it.
	file *os.File
}

// Close unmaps the file; no batch may be under way.
func (m *mapped) Close() error { return errors.Join(m.content.Unmap(), m.file.Close()) }

// readPrepared maps the prepared file called name and checks all of it, also that it was made of what is wanted (see
// inputsOf); with nil it may be made of anything. A file that someone truncates while it is mapped ends the process,
// so a prepared file is only ever replaced by renaming.
func readPrepared(name string, wanted *registry.Inputs) (_ *mapped, err error) {
	f, err := federated.OpenSource(name)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.File.Close())
		}
	}()
	if f.Size < preparedHead {
		return nil, fmt.Errorf("damaged: %d bytes", f.Size)
	}
	content, err := mmap.Map(f.File, mmap.RDONLY, 0)
	if err != nil {
		return nil, fmt.Errorf("mapping it: %w", err)
	}
	s, err := parsePrepared(content, wanted)
	if err != nil {
		return nil, errors.Join(err, content.Unmap())
	}
	// Samples of bytes can be read from the file where that is better than through the mapping.
	if r, ok := s.Rows.(*federated.ByteRows); ok {
		r.File = f.File
	}
	return &mapped{s, content, f.File}, nil
}

// parsePrepared returns the set that the bytes b of a prepared file hold; the set keeps b. It
// returns an error if a checksum or a length is wrong, or if the file was made of other things than
// are wanted; with nil it may be made of anything.
func parsePrepared(b []byte, wanted *registry.Inputs) (*federated.Grouped, error) {
	if len(b) < preparedHead || string(b[:16]) != preparedMagic {
		return nil, errors.New("no prepared file of this version")
	}
	// The places of length and checksum are those of preparedMagic. The length comes from the file and is checked
	// before it is used.
	n := binary.LittleEndian.Uint64(b[16:])
	if n > uint64(len(b)-preparedHead) || n > maxPreparedTop {
		return nil, errors.New("damaged: its header exceeds it")
	}
	header := b[preparedHead : preparedHead+n]
	if crc32.Checksum(header, castagnoli) != binary.LittleEndian.Uint32(b[24:]) {
		return nil, errors.New("damaged: its header has another checksum")
	}
	var p prepared
	if err := json.Unmarshal(header, &p); err != nil {
		return nil, fmt.Errorf("damaged: %w", err)
	}
	// A file of other sources is whole, but not the one that is wanted.
	if wanted != nil {
		if err := checkInputs(&p.Inputs, wanted); err != nil {
			return nil, err
		}
	}
	for i, s := range p.Sections {
		if s.Offset < 0 ||
			s.Length < 0 ||
			s.Offset > int64(len(b)) ||
			s.Length > int64(len(b))-s.Offset {
			return nil, fmt.Errorf("damaged: section %s exceeds it", s.Name)
		}
		// The capacity ends with the section, so that nothing can append into the next.
		p.Sections[i].bytes = b[s.Offset : s.Offset+s.Length : s.Offset+s.Length]
	}
	// The checksums of all sections are computed on all processors.
	err := federated.Each(len(p.Sections), func(i int) error {
		if s := p.Sections[i]; crc32.Checksum(s.bytes, castagnoli) != s.CRC {
			return fmt.Errorf("damaged: section %s has another checksum", s.Name)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	s, err := p.set()
	if err != nil {
		return nil, fmt.Errorf("damaged: %w", err)
	}
	return s, nil
}

// set makes the set from the sections and checks that all parts agree and no index leads outside,
// because a file may be damaged or made by others.
func (p *prepared) set() (*federated.Grouped, error) {
	// A set has either classes or targets, never both.
	hasClasses := p.Info.Classes >= 1
	hasTargets := p.Info.Targets >= 1
	if hasClasses == hasTargets || p.Info.Features < 1 || len(p.Names) == 0 {
		return nil, errors.New("no clients, features, or either classes or targets")
	}
	// Files of an earlier version lack the size of the vocabulary, which was the number of classes.
	if p.Info.Input == learn.Tokens && p.Info.Vocabulary == 0 {
		p.Info.Vocabulary = p.Info.Classes
	}
	if !p.Info.Schema.Fits(p.Info.Samples) {
		return nil, errors.New("names, means or an alphabet that are not those of its samples")
	}
	s := &federated.Grouped{Task: p.Task, About: p.Info, Names: convert[string](p.Names)}
	s.Starts = integersAs[int](numbers[uint32](p, "start"))
	s.Train = numbers[int32](p, "train")
	s.Held = numbers[int32](p, "held")
	s.Labels = numbers[int32](p, "labels")
	var samples int
	var err error
	s.Rows, samples, err = p.rows()
	if err != nil {
		return nil, err
	}
	if p.Info.Targets > 0 {
		s.Labels = nil
		s.Targets = numbers[float32](p, "targets")
	}
	// Each sample has one label, or all of its targets.
	given := len(s.Labels) + len(s.Targets)
	perSample := max(1, p.Info.Targets)
	if given%perSample != 0 || given/perSample != samples {
		return nil, fmt.Errorf("%d samples with %d labels or targets", samples, given)
	}
	// Each client has a part of the training samples that is not empty.
	if !arePartBounds(s.Starts, len(s.Names), len(s.Train)) || len(s.Held) == 0 {
		return nil, fmt.Errorf("%d clients at %d places", len(s.Names), len(s.Starts))
	}
	for _, i := range slices.Concat(s.Train, s.Held) {
		if i < 0 || int(i) >= samples {
			return nil, fmt.Errorf("sample %d of %d", i, samples)
		}
	}
	for _, l := range s.Labels {
		if l < 0 || int(l) >= s.About.Classes {
			return nil, fmt.Errorf("label %d of %d", l, s.About.Classes)
		}
	}
	return s, p.setTimes(s, samples)
}

// setTimes gives the samples of a set the times that the file has for them, if they arrive over time. samples
// is their number. It is an error if times are missing, too many, or not finite.
func (p *prepared) setTimes(s *federated.Grouped, samples int) error {
	times := numbers[float64](p, "times")
	arrival := p.Info.Arrival
	if arrival == nil && len(times) == 0 {
		return nil
	}
	if arrival == nil || !arrival.Valid() || len(times) != samples {
		return fmt.Errorf("%d times of %d samples that arrive by %+v", len(times), samples, arrival)
	}
	isWrong := func(x float64) bool { return math.IsNaN(x) || math.IsInf(x, 0) }
	if slices.ContainsFunc(times, isWrong) {
		return errors.New("a time that is not finite")
	}
	return s.SetTimes(times, *arrival)
}

// rows returns the store of samples, whose bytes stay in the mapped file, and the number of
// samples. The kind of input that the header names must be the one that the store gives, and the
// section must hold a whole number of samples.
func (p *prepared) rows() (federated.Rows, int, error) {
	width := p.Width
	features := p.Info.Features
	store := federated.Rows(nil)
	// valueCount is the number of numbers, or bytes, of all samples together, and skip how many of those of a sample
	// are no features.
	valueCount := 0
	skip := 0
	// A form that is not in the map is dense, the zero value.
	input := map[string]learn.Input{"bag": learn.Sparse, "text": learn.Tokens, "tokens": learn.Tokens}[p.Rows]
	if p.Info.Input != input {
		return nil, 0, fmt.Errorf("samples held as %.40q that are another kind of input", p.Rows)
	}
	switch p.Rows {
	case "bag":
		return p.bags()
	case "text":
		return p.texts()
	case "float":
		content := p.section("values").bytes
		if len(content)%vector.Size[float32]() != 0 {
			return nil, 0, fmt.Errorf("%d bytes of numbers", len(content))
		}
		values := vector.View[float32](content)
		store = &federated.FloatRows{Width: width, Values: values}
		valueCount = len(values)
	default:
		i := slices.IndexFunc(federated.Codings, func(c *federated.Coding) bool { return c.Name == p.Rows })
		if i < 0 {
			return nil, 0, fmt.Errorf("samples held as %.40q", p.Rows)
		}
		in := p.section("bytes")
		coding := federated.Codings[i]
		store = &federated.ByteRows{
			Width:  width,
			Bytes:  in.bytes,
			Coding: coding,
			Offset: in.Offset,
		}
		valueCount = len(in.bytes)
		// Some codings have bytes before the values of a sample, such as labels.
		skip = coding.Skip
	}
	if width < 1 || features != width-skip || valueCount%width != 0 {
		return nil, 0, fmt.Errorf("%d bytes or numbers in samples of %d", valueCount, width)
	}
	return store, valueCount / width, nil
}

// texts returns the samples of a text and their number. Every window must lie in the text and every
// token in the vocabulary, since a file may be damaged or made by others.
func (p *prepared) texts() (federated.Rows, int, error) {
	r := &federated.TextRows{Window: p.Width, Text: p.section("text").bytes, Starts: numbers[int32](p, "row")}
	if r.Window != p.Info.Features {
		return nil, 0, fmt.Errorf("windows of %d tokens, want %d", r.Window, p.Info.Features)
	}
	for i, start := range r.Starts {
		if start < 0 || int(start) > len(r.Text)-r.Window {
			return nil, 0, fmt.Errorf("window %d exceeds the text", i)
		}
	}
	for _, token := range r.Text {
		if int(token) >= p.Info.Vocabulary {
			return nil, 0, fmt.Errorf("token %d of %d", token, p.Info.Vocabulary)
		}
	}
	return r, len(r.Starts), nil
}

// bags returns the samples that are bags of words and their number. The tokens of each bag must
// ascend and be among the features, and their counts must not be too many, since a file may be
// damaged or made by others.
func (p *prepared) bags() (federated.Rows, int, error) {
	r := &federated.BagRows{
		Starts: numbers[uint32](p, "row"),
		Tokens: integersAs[uint16](numbers[uint32](p, "token")),
		Counts: integersAs[uint16](numbers[uint32](p, "count")),
	}
	// Each token has a count, and each bag a part of both lists.
	if len(r.Tokens) != len(r.Counts) || !arePartBounds(r.Starts, len(r.Starts)-1, len(r.Tokens)) {
		return nil, 0, errors.New("bags of words do not match their places")
	}
	for i, end := range r.Starts[1:] {
		start := r.Starts[i]
		total := 0
		for j := start; j < end; j++ {
			// Tokens that ascend are different, as the model expects.
			ascends := j == start || r.Tokens[j] > r.Tokens[j-1]
			if !ascends || int(r.Tokens[j]) >= p.Info.Features {
				return nil, 0, fmt.Errorf("bag %d is not ascending", i)
			}
			total += int(r.Counts[j])
		}
		if total < 1 || total > maxTweetWords {
			return nil, 0, fmt.Errorf("bag %d of %d tokens", i, total)
		}
		r.Totals = append(r.Totals, uint16(total))
	}
	return r, len(r.Totals), nil
}

// arePartBounds reports whether starts divides total elements into n parts that follow one another, none of them
// empty: part i goes from starts[i] to starts[i+1], the first from 0, and the last to total.
func arePartBounds[T int | uint32](starts []T, n, total int) bool {
	if n < 0 ||
		len(starts) != n+1 ||
		starts[0] != 0 ||
		int(starts[n]) != total {
		return false
	}
	for i := range n {
		if starts[i] >= starts[i+1] {
			return false
		}
	}
	return true
}

func init() { federated.Readers.Register("prepared", "a prepared file", Prepared{}) }

// Prepared reads what [OpenPrepared] has written, without its source.
type Prepared struct{}

// Recognises reports whether s is a prepared file, by its first 16 bytes.
func (Prepared) Recognises(s *federated.Source) federated.Match {
	if s.Head == preparedMagic {
		return federated.ByContent
	}
	return federated.NoMatch
}

// Open opens the prepared file s without its source. The clients and their split are those that the
// file was made with: another partition in o is an error.
func (Prepared) Open(s *federated.Source, o federated.Options) (federated.Set, error) {
	if !o.Partition.Natural() {
		return nil, errors.New("a prepared file holds its clients; want the set that it was made from to deal " +
			"samples anew")
	}
	set, err := readPrepared(s.Path, nil)
	if err != nil {
		return nil, fmt.Errorf("%w; prepare it again", err)
	}
	return set, nil
}

// PreparedArrives reports whether the file at path is a prepared one whose samples arrive over time. It reads
// the header alone, and is false for a file that cannot be read, which whoever opens it will find.
func PreparedArrives(path string) bool {
	if !IsPrepared(path) {
		return false
	}
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	var head [preparedHead]byte
	if _, err := io.ReadFull(f, head[:]); err != nil {
		return false
	}
	length := binary.LittleEndian.Uint64(head[16:])
	if length > maxPreparedTop {
		return false
	}
	var about struct {
		Info struct{ Arrival *federated.Arrival }
	}
	err = json.NewDecoder(io.LimitReader(f, int64(length))).Decode(&about)
	return err == nil && about.Info.Arrival != nil
}

// IsPrepared reports whether the file at path begins as one that OpenPrepared has written, whole or
// damaged. It is false for a file that cannot be read.
func IsPrepared(path string) bool {
	s, err := federated.OpenSource(path)
	return err == nil && s.File.Close() == nil && s.Head == preparedMagic
}
