package parquetfile

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"
)

// maxPadding is how many values more than the header says a run may hold, because the last group of
// bit-packed values is filled up. Run lengths and counts within a page are lengths as well, and the
// library allocates memory for them before it compares them with anything. They are added up here,
// without any memory, and compared with the page's header.
const maxPadding = 512

// errCount reports a page whose runs claim more values than its header.
var errCount = errors.New("damaged: its runs hold more values than its header says")

// checkValues checks the decompressed bytes b of a page and returns the bytes that parquet-go decodes.
// These are b itself, or b with its values in the plain encoding where parquet-go would decode them
// wrongly or not at all. A page has repetition levels, definition levels and values, one behind the other.
// In pages of version 1 each kind of levels stands behind its length, and is absent if the column
// cannot repeat or be null; in version 2 the page's header has the lengths.
func (s *stream) checkValues(p *page, b []byte) ([]byte, error) {
	// A negative encoding marks a dictionary, which is plain and needs no check here.
	if p.encoding < 0 {
		return b, nil
	}
	start := 0
	var definitions []byte
	for i, maxLevel := range []int{s.field.leaf.MaxRepetitionLevel(), s.field.leaf.MaxDefinitionLevel()} {
		length := p.levelBytes[i]
		if !p.isVersion2 {
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
		// A run that claims more values than the page has would make the library allocate them.
		if maxLevel > 0 && runsExceed(b[start:start+length], levelBits(maxLevel), p.values) {
			return nil, errCount
		}
		// After the loop, definitions has the definition levels and start is where the values
		// begin.
		definitions = b[start : start+length]
		start += length
	}
	kind := s.field.leaf.Type().Kind()
	isBytes := kind == parquet.ByteArray || kind == parquet.FixedLenByteArray
	if p.encoding == format.Plain && isBytes {
		// fastparquet leaves zeros behind the values.
		b = s.withoutPadding(p, b, start, definitions)
	}
	if err := s.checkEncoded(p, b[start:]); err != nil {
		return nil, err
	}
	return s.plainPage(p, b, start)
}

// checkEncoded returns an error if the encoded values b of a page claim to be more than the page's
// header says. It does so before memory is taken for them. Encodings that claim nothing, such as
// PLAIN, pass.
func (s *stream) checkEncoded(p *page, b []byte) error {
	switch p.encoding {
	//lint:ignore SA1019 writers of version 1 name it so
	case format.PlainDictionary, format.RLEDictionary: //nolint:staticcheck // writers of version 1 name it so
		// The first byte is the width in bits of the values of the runs, which are places in the dictionary.
		if len(b) > 0 && runsExceed(b[1:], int(b[0]), p.values) {
			return errCount
		}
	case format.RLE:
		// The library would decode other types to anything.
		if s.field.leaf.Type().Kind() != parquet.Boolean {
			return errors.New("coded as RLE, which is for booleans")
		}
		// Four bytes with the length of the runs precede them.
		if len(b) > 4 && runsExceed(b[4:], 1, p.values) {
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

// checkPrefixes checks strings in b of which each repeats the start of the one before
// (DELTA_BYTE_ARRAY). It adds up the lengths of the full strings, which can be much longer than the
// page, and charges them to the file.
func (s *stream) checkPrefixes(p *page, b []byte) error {
	prefixBytes, prefixesFit := deltas(b, p.values)
	suffixBytes, suffixesFit := deltas(b[prefixBytes:], p.values)
	if !prefixesFit || !suffixesFit {
		return errCount
	}
	prefixes, _, err := decodeDeltas(b[:prefixBytes])
	if err != nil {
		return err
	}
	suffixes, _, err := decodeDeltas(b[prefixBytes : prefixBytes+suffixBytes])
	if err != nil {
		return err
	}
	// last is the length of the string before, total that of all strings.
	last := int64(0)
	total := int64(0)
	for i := range min(len(prefixes), len(suffixes)) {
		prefix := prefixes[i]
		suffix := suffixes[i]
		isPrefixValid := prefix >= 0 && prefix <= last
		isSuffixValid := suffix >= 0 && suffix <= int64(len(b))
		if !isPrefixValid || !isSuffixValid {
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

// runsExceed reports whether the runs in b hold more than limit values, of width bits each, beyond those with which
// a writer may fill up the last run (maxPadding). A run begins with a header: its length, and in the lowest bit
// whether its values are bit-packed, in units of eight, or one value is repeated. See Apache Parquet, Encodings.md,
// "RLE".
func runsExceed(b []byte, width, limit int) bool {
	maxTotal := uint64(limit + maxPadding)
	for total := uint64(0); len(b) > 0; {
		header, headerBytes := binary.Uvarint(b)
		if headerBytes <= 0 {
			// The library reports a damaged header.
			return false
		}
		b = b[headerBytes:]
		isPacked := header&1 == 1
		length := header >> 1
		// A length beyond the limit could overflow the products below.
		if length > maxTotal {
			return true
		}
		// One value is stored in whole bytes and repeated.
		count := length
		stored := uint64(width+7) / 8
		if isPacked {
			count = 8 * length
			stored = length * uint64(width)
		}
		total += count
		if total > maxTotal {
			return true
		}
		b = b[min(stored, uint64(len(b))):]
	}
	return false
}

// deltas returns the length in bytes of the DELTA_BINARY_PACKED integers at the start of b. The
// result ok is false if they claim to be more than limit. See Apache Parquet, Encodings.md, "Delta
// Encoding".
func deltas(b []byte, limit int) (length int, ok bool) {
	remaining := b
	// readVarint takes the next number off remaining; it is 0 for a damaged one, and takes nothing.
	readVarint := func() uint64 {
		value, n := binary.Uvarint(remaining)
		remaining = remaining[max(n, 0):]
		return value
	}
	blockSize := readVarint()
	miniblocks := readVarint()
	total := readVarint()
	// The header ends with the first value, which is not needed here.
	readVarint()
	if total > uint64(limit) {
		return 0, false
	}
	// The library reports a damaged header.
	if miniblocks == 0 || miniblocks > blockSize || blockSize > 1<<16 {
		return len(b), true
	}
	perMiniblock := blockSize / miniblocks
	deltasLeft := int64(total) - 1
	for deltasLeft > 0 && len(remaining) > 0 {
		// A block begins with its smallest delta, which is not needed here.
		readVarint()
		// The bit width of each miniblock follows, in a byte, and then the miniblocks themselves.
		widths := remaining[:min(miniblocks, uint64(len(remaining)))]
		remaining = remaining[len(widths):]
		for _, width := range widths {
			// Miniblocks behind the last value are not stored.
			if deltasLeft > 0 {
				stored := perMiniblock * uint64(width) / 8
				remaining = remaining[min(stored, uint64(len(remaining))):]
				deltasLeft -= int64(perMiniblock)
			}
		}
	}
	return len(b) - len(remaining), true
}
