package parquetfile

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"
)

// The run lengths and counts within a page are lengths, too, and the library takes
// memory for them before it compares them with anything. They are added up here,
// without any memory, and compared with the number of values in the page's header.

// padding is how many values more than the header's a run may hold: the last group
// of bit-packed values is filled up.
const padding = 512

var errCount = errors.New("damaged: its runs hold more values than its header says")

// checkValues looks at the decompressed bytes of a page, and returns those that the library is to
// have. A page has repetition levels, definition levels and values, one behind the other. In pages of
// version 1 each of the levels stands behind its length, and is absent where the column cannot repeat
// or be null; in version 2 the page's header has the lengths.
func (s *stream) checkValues(p *page, b []byte) ([]byte, error) {
	// A negative encoding marks a dictionary, which is plain and needs no check here.
	if p.encoding < 0 {
		return b, nil
	}
	start := 0
	var definitions []byte
	for i, maxLevel := range []int{s.field.leaf.MaxRepetitionLevel(), s.field.leaf.MaxDefinitionLevel()} {
		length := p.sections[i]
		if !p.version2 {
			if maxLevel == 0 {
				continue
			}
			if len(b)-start < 4 {
				return nil, errors.New("damaged: no levels")
			}
			length = int(binary.LittleEndian.Uint32(b[start:]))
			start += 4
		}
		if length > len(b)-start {
			return nil, fmt.Errorf("damaged: %d bytes of levels, %d left", length, len(b)-start)
		}
		if maxLevel > 0 && runs(b[start:start+length], levelBits(maxLevel), p.values) {
			return nil, errCount
		}
		definitions = b[start : start+length]
		start += length
	}
	if p.encoding == format.Plain && s.field.leaf.Type().Kind() == parquet.ByteArray {
		b = s.withoutPadding(p, b, start, definitions)
	}
	if err := s.checkEncoded(p, b[start:]); err != nil {
		return nil, err
	}
	return s.plainPage(p, b, start)
}

// checkEncoded compares how many values the encoded bytes of a page claim with the number in its
// header, before memory is taken for them. Encodings that claim nothing, such as PLAIN, pass.
func (s *stream) checkEncoded(p *page, b []byte) error {
	switch p.encoding {
	//lint:ignore SA1019 writers of version 1 name it so
	case format.PlainDictionary, format.RLEDictionary:
		if len(b) > 0 && runs(b[1:], int(b[0]), p.values) {
			return errCount
		}
	case format.RLE:
		if s.field.leaf.Type().Kind() != parquet.Boolean { // which the library decodes to anything
			return errors.New("coded as RLE, which is for booleans")
		}
		if len(b) > 4 && runs(b[4:], 1, p.values) {
			return errCount
		}
	case format.DeltaBinaryPacked, format.DeltaLengthByteArray:
		if _, ok := deltas(b, p.values); !ok {
			return errCount
		}
	case format.DeltaByteArray:
		return s.checkPrefixes(p, b)
	}
	return nil
}

// checkPrefixes adds up the lengths of strings of which each repeats the start of
// the one before.
func (s *stream) checkPrefixes(p *page, b []byte) error {
	n, ok := deltas(b, p.values)
	m, ok2 := deltas(b[n:], p.values)
	if !ok || !ok2 {
		return errCount
	}
	prefixes, _, err := decodeDeltas(b[:n])
	if err != nil {
		return err
	}
	suffixes, _, err := decodeDeltas(b[n : n+m])
	if err != nil {
		return err
	}
	last := int64(0)
	total := int64(0)
	for i := range min(len(prefixes), len(suffixes)) {
		prefix := prefixes[i]
		suffix := suffixes[i]
		if prefix < 0 ||
			prefix > last ||
			suffix < 0 ||
			suffix > int64(len(b)) {
			return fmt.Errorf("damaged: %d bytes of a string of %d are repeated", prefix, last)
		}
		last = prefix + suffix
		total += last
	}
	if total > maxPage {
		return fmt.Errorf("strings of %d bytes in a page, want at most %d", total, maxPage)
	}
	return s.spend(total)
}

// runs reports whether the runs in b hold more than so many values of a width. A
// run has a header, its length with a bit that tells bit-packed values, 8 to a
// unit of length, from one value repeated. See Apache Parquet, Encodings.md, "RLE".
func runs(b []byte, width, limit int) bool {
	for total := uint64(0); len(b) > 0; {
		u, n := binary.Uvarint(b)
		if n <= 0 {
			return false // which the library says
		}
		b = b[n:]
		count := u >> 1
		size := uint64(width+7) / 8
		if u&1 != 0 {
			size = count * uint64(width)
			count = count * 8
		}
		total += count
		if u>>1 > uint64(limit+padding) || total > uint64(limit+padding) {
			return true
		}
		b = b[min(size, uint64(len(b))):]
	}
	return false
}

// deltas is the length of DELTA_BINARY_PACKED integers at the start of b; ok: they
// are at most so many. See Apache Parquet, Encodings.md, "Delta Encoding".
func deltas(b []byte, limit int) (length int, ok bool) {
	remaining := b
	varint := func() uint64 {
		u, n := binary.Uvarint(remaining)
		remaining = remaining[max(n, 0):]
		return u
	}
	block := varint()
	minis := varint()
	total := varint()
	// The header ends with the first value, which is not needed here.
	varint()
	if total > uint64(limit) {
		return 0, false
	}
	if minis == 0 || minis > block || block > 1<<16 { // which the library says
		return len(b), true
	}
	deltasLeft := int64(total) - 1
	for deltasLeft > 0 && len(remaining) > 0 {
		// A block begins with its smallest delta, which is not needed here.
		varint()
		widths := remaining[:min(minis, uint64(len(remaining)))]
		remaining = remaining[len(widths):]
		for _, width := range widths {
			if deltasLeft > 0 {
				remaining = remaining[min(block/minis*uint64(width)/8, uint64(len(remaining))):]
				deltasLeft -= int64(block / minis)
			}
		}
	}
	return len(b) - len(remaining), true
}
