package parquetfile

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"unicode/utf8"

	"github.com/parquet-go/parquet-go"
)

// Integer reads a number without a fraction.
func (f *Field) Integer(v parquet.Value) (int64, error) {
	if f.Whole && f.scale == 0 && !v.IsNull() {
		switch v.Kind() {
		case parquet.Int32:
			if f.unsigned {
				return int64(v.Uint32()), nil
			}
			return int64(v.Int32()), nil
		case parquet.Int64:
			if f.unsigned && v.Int64() < 0 {
				return 0, fmt.Errorf("%d, want an integer below 2^63", v.Uint64())
			}
			return v.Int64(), nil
		}
	}
	x, err := f.Number(v)
	if err == nil && (x != math.Trunc(x) || math.Abs(x) > 1<<53) { // above, doubles skip integers
		err = fmt.Errorf("%v, want an integer", x)
	}
	return int64(x), err
}

func (f *Field) Number(v parquet.Value) (float64, error) {
	if v.IsNull() {
		return 0, errors.New("no value (null)")
	}
	if f.Kind != KindNumber {
		return 0, fmt.Errorf("found %s, want a number", f.holds)
	}
	x := 0.0
	switch v.Kind() {
	case parquet.Boolean:
		if v.Boolean() {
			x = 1
		}
	case parquet.Int32:
		x = float64(v.Int32())
		if f.unsigned {
			x = float64(v.Uint32())
		}
	case parquet.Int64:
		x = float64(v.Int64())
		if f.unsigned {
			x = float64(v.Uint64())
		}
	case parquet.Float:
		x = float64(v.Float())
	case parquet.Double:
		x = v.Double()
	default:
		b := v.Bytes()
		if f.half && len(b) == 2 {
			return half(binary.LittleEndian.Uint16(b)), nil
		}
		return f.longDecimal(b)
	}
	if f.scale != 0 {
		x /= math.Pow10(f.scale)
	}
	return x, nil
}

// longDecimal is a decimal's bytes, an integer in two's complement with its
// highest byte first, divided by 10^scale.
func (f *Field) longDecimal(b []byte) (float64, error) {
	if len(b) == 0 || len(b) > 32 || f.scale < 0 || f.scale > 76 { // 76 digits are in 32 bytes
		return 0, fmt.Errorf("a decimal of %d bytes and scale %d, want at most 32 bytes and 76", len(b), f.scale)
	}
	n := new(big.Int).SetBytes(b)
	if b[0]&0x80 != 0 {
		n.Sub(n, new(big.Int).Lsh(big.NewInt(1), uint(8*len(b))))
	}
	x, _ := new(big.Rat).SetFrac(n, new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(f.scale)), nil)).Float64()
	return x, nil
}

// half is a number of IEEE 754's binary16.
func half(bits uint16) float64 {
	fraction, exponent := float64(bits&0x3ff), int(bits>>10&0x1f)
	x := 0.0
	switch exponent {
	case 0:
		x = math.Ldexp(fraction, -24)
	case 31:
		x = math.Inf(1)
		if fraction != 0 {
			x = math.NaN()
		}
	default:
		x = math.Ldexp(1024+fraction, exponent-25)
	}
	if bits&0x8000 != 0 {
		x = -x
	}
	return x
}

// Text reads a name: text, or a number as it is written.
func (f *Field) Text(v parquet.Value) (string, error) {
	switch {
	case v.IsNull():
		return "", errors.New("no value (null)")
	case f.UUID && len(v.Bytes()) == 16:
		b := v.Bytes()
		return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:]), nil
	case f.Kind == KindText || f.Kind == KindBytes:
		if !utf8.Valid(v.Bytes()) {
			return "", fmt.Errorf("found %.40x, want text in UTF-8", v.Bytes())
		}
		return string(v.Bytes()), nil
	case f.Kind != KindNumber:
		return "", fmt.Errorf("found %s, want text or a number", f.holds)
	case v.Kind() == parquet.Boolean:
		return strconv.FormatBool(v.Boolean()), nil
	case f.unsigned && v.Kind() == parquet.Int64:
		return strconv.FormatUint(v.Uint64(), 10), nil
	case f.Whole:
		n, err := f.Integer(v)
		return strconv.FormatInt(n, 10), err
	}
	bits := 64
	if v.Kind() == parquet.Float {
		bits = 32
	}
	x, err := f.Number(v)
	return strconv.FormatFloat(x, 'f', -1, bits), err
}
