package folder

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"fedpace/internal/regular"
	"fedpace/internal/vector"
	"fedpace/learn"
)

// Limits of a model file.
const (
	maxHeader  = 1 << 20
	maxTensors = 4096
	maxRank    = 8
)

// ModelSHA256 is the hex SHA-256 of the parameters as little-endian float32 in
// model order: the bytes that follow the header of a model's file.
func ModelSHA256(params []float32) string {
	return fmt.Sprintf("%x", sha256.Sum256(vector.Bytes(params)))
}

// EncodeModel writes a model in the safetensors format: the header's length in 8 bytes,
// little-endian; the header, JSON padded with spaces so that the data is aligned to 8 bytes; then
// the tensors, which must cover the parameters in order and without gaps. metadata is part of the
// header; it may be nil. In the file tensors with larger elements come first, so that each is
// aligned to its elements; others stay in the model's order.
func EncodeModel(w io.Writer, tensors []learn.Tensor, params []float32, metadata map[string]string) error {
	header := []byte{'{'}
	// add appends an entry to the header.
	add := func(name string, value any) {
		if len(header) > 1 {
			header = append(header, ',')
		}
		text, err := json.Marshal(map[string]any{name: value}, json.Deterministic(true), jsontext.EscapeForHTML(true))
		if err != nil {
			panic("folder: a header entry is always JSON")
		}
		header = append(header, text[1:len(text)-1]...)
	}
	if len(metadata) > 0 {
		add("__metadata__", metadata)
	}
	if err := checkCoverage(tensors, len(params)); err != nil {
		return err
	}
	aligned := withAliases(tensors)
	slices.SortStableFunc(aligned, func(x, y learn.Tensor) int { return y.ElementBytes() - x.ElementBytes() })
	end := 0
	// An entry says where the tensor lies in the data, from start to before end.
	for _, t := range aligned {
		start := end
		end += dataBytes(t)
		add(t.Name, headerEntry{t.DType(), t.Shape, []int{start, end}})
	}
	header = append(header, '}')
	// Spaces are allowed after JSON and align the data to 8 bytes.
	for len(header)%8 != 0 {
		header = append(header, ' ')
	}
	prefix := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	if _, err := w.Write(append(prefix, header...)); err != nil {
		return err
	}
	for _, t := range aligned {
		if _, err := w.Write(t.Encode(params[t.Offset:][:t.Len()])); err != nil {
			return err
		}
	}
	return nil
}

// checkCoverage returns an error unless the tensors follow each other without gaps, as the format demands, and
// hold all parameters.
func checkCoverage(tensors []learn.Tensor, params int) error {
	end := 0
	for _, t := range tensors {
		if t.Offset != end {
			return fmt.Errorf(
				"tensor %q starts at parameter %d, want %d: tensors must follow each other",
				t.Name,
				t.Offset,
				end,
			)
		}
		end += t.Len()
	}
	if end != params {
		return fmt.Errorf("the tensors hold %d parameters, the model %d", end, params)
	}
	return nil
}

// withAliases lists the tensors as a file holds them: each by its name, and behind them each alias as a tensor of
// its own.
func withAliases(tensors []learn.Tensor) []learn.Tensor {
	list := slices.Clone(tensors)
	for _, t := range tensors {
		for _, alias := range t.Aliases {
			named := t
			named.Name = alias
			list = append(list, named)
		}
	}
	return list
}

// dataBytes returns how many bytes a tensor takes in a model's file: the product of its sizes and
// the bytes of an element.
func dataBytes(t learn.Tensor) int {
	n := t.ElementBytes()
	for _, size := range t.Shape {
		n *= size
	}
	return n
}

// headerEntry is a tensor in the header.
type headerEntry struct {
	DType string `json:"dtype"`
	Shape []int  `json:"shape"`
	// Offsets are the first byte of the tensor's data and the one after its last.
	Offsets []int `json:"data_offsets"`
}

// ReadModel reads the parameters of an architecture from a safetensors file.
// The file must hold exactly its tensors, in their types; float32 must be finite.
func ReadModel(path string, want []learn.Tensor) ([]float32, error) {
	return ReadModelOnto(path, want, nil)
}

// ReadModelOnto is [ReadModel] for a file that may lack buffers of integers, booleans and constants, as
// those that earlier versions wrote do. They are as in the model base then; nil means that the file
// must hold all.
func ReadModelOnto(path string, want []learn.Tensor, base []float32) ([]float32, error) {
	f, info, err := regular.Open(path)
	if err != nil {
		return nil, err
	}
	// Closing a file that was only read loses nothing, so its error does not count.
	defer f.Close()
	params, err := decodeModel(bufio.NewReaderSize(f, 64<<10), info.Size(), want, base)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return params, nil
}

// DecodeModel reads what EncodeModel writes, from a reader of size bytes. The tensors may stand in any
// order, and aliases must have their tensors' values. It allocates no more than the model and the limits
// ask for.
func DecodeModel(r io.Reader, size int64, want []learn.Tensor) ([]float32, error) {
	return decodeModel(r, size, want, nil)
}

// decodeModel reads a safetensors file of size bytes from r into one vector of parameters, in the
// order of the tensors want. The file is the header's length in 8 bytes, little-endian, the header, which says
// where each tensor lies, and the tensors. base holds the values of tensors that the file may lack; if it is nil,
// the file must have all of them.
func decodeModel(r io.Reader, size int64, want []learn.Tensor, base []float32) ([]float32, error) {
	var prefix [8]byte
	if _, err := io.ReadFull(r, prefix[:]); err != nil {
		return nil, errors.New("not a safetensors file: shorter than its first 8 bytes")
	}
	length := binary.LittleEndian.Uint64(prefix[:])
	// The length comes from the file, so it is checked before memory is taken for it.
	if length > maxHeader || int64(length) > size-8 {
		return nil, fmt.Errorf(
			"not a safetensors file: a header of %d bytes in a file of %d (at most %d)",
			length,
			size,
			maxHeader,
		)
	}
	header := make([]byte, length)
	if _, err := io.ReadFull(r, header); err != nil {
		return nil, fmt.Errorf("safetensors header: %w", err)
	}
	entries, err := decodeHeader(header)
	if err != nil {
		return nil, fmt.Errorf("safetensors header: %w", err)
	}
	// order lists the tensors as they follow each other in the file.
	order, err := match(entries, want, size-8-int64(length), base != nil)
	if err != nil {
		return nil, err
	}
	total := 0
	for _, t := range want {
		total += t.Len()
	}
	params := make([]float32, total)
	copy(params, base)
	// read holds the offsets of the tensors that were read already. Aliases of a tensor share its
	// offset.
	read := map[int]bool{}
	for _, t := range order {
		part := params[t.Offset:][:t.Len()]
		// A tensor under several names is in the file once for each, and all must be equal.
		isRepeated := read[t.Offset]
		read[t.Offset] = true
		var before []float32
		if isRepeated {
			before = slices.Clone(part)
		}
		data := make([]byte, dataBytes(t))
		if _, err := io.ReadFull(r, data); err != nil {
			return nil, fmt.Errorf("tensor %q: the file ends early: %w", t.Name, err)
		}
		if err := t.Decode(part, data); err != nil {
			return nil, err
		}
		if isRepeated && !slices.Equal(part, before) {
			return nil, fmt.Errorf("tensor %q is one with %q in the model, and has other values", t.Name, t.Aliases)
		}
		for _, v := range part {
			// The difference is not zero for NaN and the infinities, and only for them.
			if v-v != 0 {
				return nil, fmt.Errorf("tensor %q: holds %v, which no run can start from", t.Name, v)
			}
		}
	}
	return params, nil
}

// match returns the wanted tensors that a file has, in the order in which they stand there. It is an error
// if the header's entries differ from the tensors, or do not fill the data bytes of the file without gap or
// overlap. A file may lack aliases and, if mayLackTyped is set, buffers of other types than float32.
func match(entries map[string]headerEntry, want []learn.Tensor, data int64, mayLackTyped bool) ([]learn.Tensor, error) {
	isLeftOut := func(t learn.Tensor) bool {
		_, exists := entries[t.Name]
		isOptional := slices.Contains(t.Aliases, t.Name) || mayLackTyped && t.Type != ""
		return !exists && isOptional
	}
	order := slices.DeleteFunc(withAliases(want), isLeftOut)
	for _, t := range order {
		e, ok := entries[t.Name]
		switch {
		case !ok:
			return nil, fmt.Errorf("has no tensor %q (it holds %s)", t.Name, someNames(entries))
		case e.DType != t.DType():
			return nil, fmt.Errorf("tensor %q is %s, want %s", t.Name, e.DType, t.DType())
		case !slices.Equal(e.Shape, t.Shape):
			return nil, fmt.Errorf("tensor %q has shape %v, want %v", t.Name, e.Shape, t.Shape)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		if !slices.ContainsFunc(order, func(t learn.Tensor) bool { return t.Name == name }) {
			return nil, fmt.Errorf("holds tensor %q, which the model does not have", name)
		}
	}
	// The data are read in one pass, so the tensors are sorted by their offset in the file.
	slices.SortStableFunc(order, func(a, b learn.Tensor) int {
		return entries[a.Name].Offsets[0] - entries[b.Name].Offsets[0]
	})
	end := 0
	for _, t := range order {
		e := entries[t.Name]
		if e.Offsets[0] != end || e.Offsets[1]-e.Offsets[0] != dataBytes(t) {
			return nil, fmt.Errorf(
				"tensor %q has data_offsets %v, want [%d, %d]",
				t.Name,
				e.Offsets,
				end,
				end+dataBytes(t),
			)
		}
		end = e.Offsets[1]
	}
	// Bytes after the last tensor belong to none, so the header or the file is wrong.
	if int64(end) != data {
		return nil, fmt.Errorf("holds %d bytes of data, its header speaks of %d", data, end)
	}
	return order, nil
}

// someNames names up to four entries of a file's header in alphabetical order, for the message of
// an error, and says how many more there are.
func someNames(entries map[string]headerEntry) string {
	names := slices.Sorted(maps.Keys(entries))
	switch {
	case len(names) == 0:
		return "none"
	case len(names) > 4:
		return fmt.Sprintf("%q and %d more", names[:4], len(names)-4)
	}
	return fmt.Sprintf("%q", names)
}

// decodeHeader reads the JSON of a file's header strictly: no name twice, no field unknown, nothing
// behind it. It returns the entries of the tensors by their names, and checks that each is
// consistent in itself.
func decodeHeader(header []byte) (map[string]headerEntry, error) {
	if !bytes.HasPrefix(header, []byte("{")) {
		return nil, errors.New("does not start with {")
	}
	values := map[string]jsontext.Value{}
	if err := json.Unmarshal(header, &values); err != nil {
		return nil, err
	}
	var metadata map[string]string
	if err := json.Unmarshal([]byte(cmp.Or(string(values["__metadata__"]), "{}")), &metadata); err != nil {
		return nil, fmt.Errorf("__metadata__: %w", err)
	}
	// What remains are tensors alone.
	delete(values, "__metadata__")
	if len(values) > maxTensors {
		return nil, fmt.Errorf("holds more than %d tensors", maxTensors)
	}
	entries := map[string]headerEntry{}
	// An entry has a type, a shape, and the offsets of its first byte and of its end.
	for name, text := range values {
		var e headerEntry
		err := json.Unmarshal(text, &e, json.RejectUnknownMembers(true))
		switch {
		case err != nil:
			return nil, fmt.Errorf("tensor %q: %w", name, err)
		case len(e.Shape) > maxRank:
			return nil, fmt.Errorf("tensor %q has %d dimensions (at most %d)", name, len(e.Shape), maxRank)
		case len(e.Offsets) != 2 || e.Offsets[0] < 0 || e.Offsets[1] < e.Offsets[0]:
			return nil, fmt.Errorf("tensor %q has data_offsets %v, want [first, end]", name, e.Offsets)
		}
		entries[name] = e
	}
	return entries, nil
}

// ModelParams returns how many parameters the safetensors file of float32 at path holds, by the
// length of its data, without reading the data. The file is the header's length in 8 bytes, little-endian, the
// header, and the data. Buffers of other types count as the float32 numbers that take as many bytes.
func ModelParams(path string) (int, error) {
	f, info, err := regular.Open(path)
	if err != nil {
		return 0, err
	}
	// Closing a file that was only read loses nothing, so its error does not count.
	defer f.Close()
	var head [8]byte
	if _, err := io.ReadFull(f, head[:]); err != nil {
		return 0, fmt.Errorf("%s: it is not a model: %w", path, err)
	}
	length := binary.LittleEndian.Uint64(head[:])
	data := info.Size() - 8 - int64(min(length, maxHeader))
	// The length comes from the file, so it is checked before memory is taken for it.
	if length > maxHeader || data < 0 {
		return 0, fmt.Errorf("%s: it is not a model of float32: a header of %d bytes in %d", path, length, info.Size())
	}
	header := make([]byte, length)
	if _, err := io.ReadFull(f, header); err != nil {
		return 0, fmt.Errorf("%s: it is not a model: %w", path, err)
	}
	entries, err := decodeHeader(header)
	if err != nil {
		return 0, fmt.Errorf("%s: it is not a model: %w", path, err)
	}
	// The data must be exactly as long as the tensors.
	end := 0
	for _, e := range entries {
		end = max(end, e.Offsets[1])
	}
	if int64(end) != data {
		return 0, fmt.Errorf("%s: it is not a model of float32: %d bytes of data for %d", path, data, end)
	}
	const bytesEach = 4
	return (end + bytesEach - 1) / bytesEach, nil
}
