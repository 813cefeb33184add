package parquetfile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"slices"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"
)

// The Parquet library (0.32.0) decodes two encodings to wrong values without an error:
//
//   - RLE booleans: a run of n equal values becomes n/8 bytes of the value itself, so that eight
//     true become one, and a run whose length is no multiple of 8 shifts what follows.
//   - DELTA_BINARY_PACKED integers of 32 bits, where a writer such as DuckDB stores differences in
//     up to 64 bits.
//
// These pages, and those of strings whose lengths are coded as deltas, are decoded here and handed
// to the library in the encoding PLAIN. Apache Parquet, Encodings.md, defines the encodings.

// errTruncatedValues reports a page whose values end before its header says.
var errTruncatedValues = errors.New("damaged: its values end early")

// plainPage returns the bytes of the page p with its values in the encoding PLAIN, if their own
// encoding is one that the library decodes wrongly; otherwise it returns b. The values begin at
// start in b, behind the levels. It notes the new encoding in p.
func (s *stream) plainPage(p *page, b []byte, start int) ([]byte, error) {
	kind := s.field.leaf.Type().Kind()
	values := b[start:]
	var plain []byte
	var err error
	// Encodings that the library decodes correctly are left to it.
	switch p.encoding {
	case format.RLE:
		plain, err = plainBooleans(values)
	case format.DeltaBinaryPacked:
		plain, err = plainIntegers(values, kind)
	case format.DeltaLengthByteArray, format.DeltaByteArray:
		plain, err = plainStrings(values, p.encoding, kind)
	default:
		return b, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%v: %w", p.encoding, err)
	}
	// The levels before the values stay as they are.
	p.encoding = format.Plain
	return append(slices.Clone(b[:start]), plain...), nil
}

// zeroPadding is what fastparquet leaves behind the values of a page. The library takes the zeros
// for empty strings and prints a warning, and refuses them behind byte arrays of a fixed length.
var zeroPadding = make([]byte, 8)

// withoutPadding returns a page of byte arrays in the encoding PLAIN without the zeros behind the last
// of them. The values begin at start in b, and definitions are the definition levels, which say how
// many of the page's values are not null. A page that does not end in such zeros, or is damaged, is
// returned as it is.
func (s *stream) withoutPadding(p *page, b []byte, start int, definitions []byte) []byte {
	if !bytes.HasSuffix(b[start:], zeroPadding) {
		return b
	}
	present := p.values
	// A value is present if its definition level is the largest one.
	if maxLevel := s.field.leaf.MaxDefinitionLevel(); maxLevel > 0 {
		present = countLevel(definitions, levelBits(maxLevel), maxLevel, p.values)
	}
	if s.field.leaf.Type().Kind() == parquet.FixedLenByteArray {
		if len(b)-start-len(zeroPadding) == present*s.field.leaf.Type().Length() {
			return b[:len(b)-len(zeroPadding)]
		}
		return b
	}
	end := start
	for range present {
		if len(b)-end < 4 {
			return b
		}
		// Each string stands behind its length in four bytes.
		length := binary.LittleEndian.Uint32(b[end:])
		if uint64(length) > uint64(len(b)-end-4) {
			return b
		}
		end += 4 + int(length)
	}
	return b[:end]
}

// countLevel returns how many of the first n levels equal level. b holds the levels in Parquet's
// hybrid of runs and bit-packed values, of width bits each. In damaged runs it counts as far as it
// gets.
func countLevel(b []byte, width, level, n int) (count int) {
	for n > 0 && len(b) > 0 {
		header, headerBytes := binary.Uvarint(b)
		if headerBytes <= 0 {
			return count
		}
		b = b[headerBytes:]
		// The lowest bit of the header is 1 for a bit-packed run, and the others are its length.
		length := header >> 1
		if isPacked := header&1 == 1; isPacked {
			// The length counts groups of eight values, which take width bytes. Of a damaged run no more
			// groups are read than there are bytes for.
			groups := min(int(min(length, uint64(len(b)))), len(b)/max(1, width))
			for i := range min(n, 8*groups) {
				if int(unpackBits(b, i*width, width)) == level {
					count++
				}
			}
			n -= 8 * groups
			b = b[groups*width:]
			continue
		}
		// Any other run stores one value in whole bytes, and repeats it.
		stored := (width + 7) / 8
		if len(b) < stored {
			return count
		}
		run := int(min(length, uint64(n)))
		if int(unpackBits(b, 0, 8*stored)) == level {
			count += run
		}
		n -= run
		b = b[stored:]
	}
	return count
}

// plainBooleans decodes RLE booleans, a length of four bytes and the runs behind it, to PLAIN: one
// bit for each value, the lowest bit of a byte first. checkEncoded has seen that the runs are of no more
// values than the page's header says.
func plainBooleans(b []byte) ([]byte, error) {
	// A page of nulls has no values.
	if len(b) == 0 {
		return nil, nil
	}
	if len(b) < 4 {
		return nil, errTruncatedValues
	}
	length := binary.LittleEndian.Uint32(b)
	b = b[4:]
	if uint64(length) > uint64(len(b)) {
		return nil, errTruncatedValues
	}
	b = b[:length]
	var plain []byte
	count := 0
	// add appends the lowest bit of value.
	add := func(value byte) {
		if count%8 == 0 {
			plain = append(plain, 0)
		}
		bit := value & 1
		plain[count/8] |= bit << (count % 8)
		count++
	}
	for len(b) > 0 {
		// The lowest bit of a run's header tells whether it is bit-packed, the others its length.
		header, n := binary.Uvarint(b)
		if n <= 0 {
			return nil, errTruncatedValues
		}
		b = b[n:]
		units := header >> 1
		// A bit-packed run counts in units of 8 values, each of which has one byte for every bit
		// of the width.
		if bitPacked := header&1 == 1; bitPacked {
			if units > uint64(len(b)) {
				return nil, errTruncatedValues
			}
			for _, packed := range b[:units] {
				for bit := range 8 {
					add(packed >> bit)
				}
			}
			b = b[units:]
			continue
		}
		if len(b) == 0 {
			return nil, errTruncatedValues
		}
		// The run repeats one value.
		for range units {
			add(b[0])
		}
		b = b[1:]
	}
	return plain, nil
}

// plainIntegers decodes DELTA_BINARY_PACKED integers of 32 or 64 bits, by kind, to PLAIN.
// Differences are added up in 64 bits and cut to the width of the type, which is right for writers
// that let them overflow and for those that do not.
func plainIntegers(b []byte, kind parquet.Kind) ([]byte, error) {
	// A page of nulls has no values.
	if len(b) == 0 {
		return nil, nil
	}
	values, _, err := decodeDeltas(b)
	var plain []byte
	for _, v := range values {
		if kind == parquet.Int32 {
			plain = binary.LittleEndian.AppendUint32(plain, uint32(v))
		} else {
			plain = binary.LittleEndian.AppendUint64(plain, uint64(v))
		}
	}
	return plain, err
}

// plainStrings decodes strings whose lengths are coded as deltas to PLAIN, where each string stands
// behind its length, unless kind says that all have one length. In DELTA_BYTE_ARRAY, a string
// repeats a prefix of the string before, and the lengths of the prefixes come first.
func plainStrings(b []byte, encoding format.Encoding, kind parquet.Kind) (plain []byte, err error) {
	// A page of nulls has no values.
	if len(b) == 0 {
		return nil, nil
	}
	var prefixes []int64
	// The lengths of the prefixes come before those of the suffixes.
	if encoding == format.DeltaByteArray {
		prefixes, b, err = decodeDeltas(b)
		if err != nil {
			return nil, err
		}
	}
	lengths, b, err := decodeDeltas(b)
	if err != nil {
		return nil, err
	}
	if encoding == format.DeltaByteArray && len(prefixes) != len(lengths) {
		return nil, fmt.Errorf("damaged: %d prefixes of %d strings", len(prefixes), len(lengths))
	}
	var last []byte
	for i, length := range lengths {
		if length < 0 || length > int64(len(b)) {
			return nil, errTruncatedValues
		}
		// The bytes of all strings lie one behind the other.
		text := b[:length]
		b = b[length:]
		if prefixes != nil {
			if prefixes[i] < 0 || prefixes[i] > int64(len(last)) {
				return nil, fmt.Errorf("damaged: %d bytes of a string of %d are repeated", prefixes[i], len(last))
			}
			text = slices.Concat(last[:prefixes[i]], text)
			last = text
		}
		if kind != parquet.FixedLenByteArray {
			plain = binary.LittleEndian.AppendUint32(plain, uint32(len(text)))
		}
		plain = append(plain, text...)
	}
	return plain, nil
}

// decodeDeltas decodes the DELTA_BINARY_PACKED integers at the start of b, and returns them and the bytes
// behind them, rest. The caller must have checked their number before, by the function deltas, because
// memory is allocated for as many as b claims to hold.
//
// The header has the number of values in a block, of miniblocks in a block, of all values, and the
// first value. A block has its smallest difference, a bit width for each miniblock, and the
// miniblocks, which hold what the differences have beyond the smallest one.
func decodeDeltas(b []byte) (values []int64, rest []byte, err error) {
	blockSize := readUvarint(&b, &err)
	miniblocks := readUvarint(&b, &err)
	total := readUvarint(&b, &err)
	last := readZigzag(&b, &err)
	if err != nil {
		return nil, nil, err
	}
	if miniblocks == 0 || blockSize > 1<<16 || blockSize%miniblocks != 0 || blockSize/miniblocks%8 != 0 {
		return nil, nil, fmt.Errorf("damaged: blocks of %d values in %d parts", blockSize, miniblocks)
	}
	if total == 0 {
		return nil, b, nil
	}
	perMiniblock := int(blockSize / miniblocks)
	values = make([]int64, 1, total)
	values[0] = last
	for len(values) < int(total) {
		// A block: its smallest difference and the widths of its miniblocks.
		smallest := readZigzag(&b, &err)
		if err != nil || uint64(len(b)) < miniblocks {
			return nil, nil, errTruncatedValues
		}
		widths := b[:miniblocks]
		b = b[miniblocks:]
		for _, width := range widths {
			n := min(perMiniblock, int(total)-len(values))
			if n == 0 {
				// Miniblocks behind the last value are not stored.
				break
			}
			if width > 64 {
				return nil, nil, fmt.Errorf("damaged: differences of %d bits", width)
			}
			stored := perMiniblock * int(width) / 8
			// Only the bytes that the values need are required, because some writers do not fill
			// up the last miniblock.
			needed := (n*int(width) + 7) / 8
			if len(b) < needed {
				return nil, nil, errTruncatedValues
			}
			for i := range n {
				last += smallest + int64(unpackBits(b, i*int(width), int(width)))
				values = append(values, last)
			}
			b = b[min(stored, len(b)):]
		}
	}
	return values, b, nil
}

// unpackBits returns the number of width bits, at most 64, that begins at bit position first of b.
// The lowest bit of a byte comes first. b must have all of these bits.
func unpackBits(b []byte, first, width int) uint64 {
	var value uint64
	for taken := 0; taken < width; {
		bit := first + taken
		// At most the rest of one byte is taken at a time.
		n := min(8-bit%8, width-taken)
		part := uint64(b[bit/8]>>(bit%8)) & (1<<n - 1)
		value |= part << taken
		taken += n
	}
	return value
}

// readUvarint takes an unsigned varint off the front of b and returns it. If there is none, it sets
// err, returns 0 and leaves b as it is.
func readUvarint(b *[]byte, err *error) uint64 {
	value, n := binary.Uvarint(*b)
	if n <= 0 {
		*err = io.ErrUnexpectedEOF
		return 0
	}
	*b = (*b)[n:]
	return value
}

// readZigzag takes a signed varint off the front of b and returns it. The lowest bit of the stored
// number is the sign (zigzag). If there is none, it sets err.
func readZigzag(b *[]byte, err *error) int64 {
	value := readUvarint(b, err)
	isNegative := value&1 == 1
	magnitude := int64(value >> 1)
	// 0, 1, 2, 3, ... stand for 0, -1, 1, -2, ...
	if isNegative {
		return -magnitude - 1
	}
	return magnitude
}

// levelBits returns the number of bits of a repetition or definition level, of which maxLevel is
// the largest.
func levelBits(maxLevel int) int { return bits.Len(uint(maxLevel)) }
