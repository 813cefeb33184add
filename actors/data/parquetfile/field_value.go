package parquetfile

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/big"

	"github.com/parquet-go/parquet-go"
)

// Integer reads a whole number; false where it is 2^63 or more.
func (f *Field) Integer(v parquet.Value) (int64, bool) {
	switch {
	case v.Kind() == parquet.Int64:
		return v.Int64(), !f.unsigned || v.Int64() >= 0
	case v.Kind() == parquet.Boolean && v.Boolean():
		return 1, true
	case v.Kind() == parquet.Boolean:
		return 0, true
	case f.unsigned:
		return int64(v.Uint32()), true
	}
	return int64(v.Int32()), true
}

func (f *Field) Number(v parquet.Value) (float64, error) {
	switch {
	case v.IsNull():
		return 0, errors.New("no value (null)")
	case f.Kind != KindNumber:
		return 0, fmt.Errorf("found %s, want a number", f.holds)
	case f.Whole:
		n, ok := f.Integer(v)
		if !ok {
			return float64(uint64(n)), nil
		}
		return float64(n), nil
	case v.Kind() == parquet.Float:
		return float64(v.Float()), nil
	case v.Kind() == parquet.Double:
		return v.Double(), nil
	case v.Kind() == parquet.Int32:
		return float64(v.Int32()) / math.Pow10(f.scale), nil
	case v.Kind() == parquet.Int64:
		return float64(v.Int64()) / math.Pow10(f.scale), nil
	case f.half && len(v.Bytes()) == 2:
		return half(binary.LittleEndian.Uint16(v.Bytes())), nil
	}
	return f.longDecimal(v.Bytes())
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

// half is a number of IEEE 754's binary16: its bits in the places that they have in
// binary32, whose exponents begin 112 lower.
func half(bits uint16) float64 {
	x := float64(math.Float32frombits(uint32(bits&0x8000)<<16 | uint32(bits&0x7fff)<<13))
	if bits&0x7c00 == 0x7c00 {
		if bits&0x3ff != 0 {
			return math.NaN()
		}
		return math.Copysign(math.Inf(1), x)
	}
	return math.Ldexp(x, 112)
}

func (f *Field) Text(v parquet.Value) string {
	b := v.Bytes()
	if f.UUID && len(b) == 16 {
		return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
	}
	return string(b)
}
