package learn

import (
	"bytes"
	"encoding/binary"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// Integers that travel have PyTorch's bytes in a file, little-endian two's complement, and read back.
func TestTensor_IntegersInFile(t *testing.T) {
	for name, x := range map[string]struct {
		kind   string
		values []float32
		bytes  []byte
	}{
		"booleans": {"bool", []float32{1, 0}, []byte{1, 0}},
		"bytes":    {"uint8", []float32{255, 7}, []byte{255, 7}},
		"signed":   {"int8", []float32{-1, 127}, []byte{255, 127}},
		"short":    {"int16", []float32{-2, 256}, []byte{254, 255, 0, 1}},
		"word":     {"int32", []float32{-3}, []byte{253, 255, 255, 255}},
		"long":     {"int64", []float32{1 << 24}, []byte{0, 0, 0, 1, 0, 0, 0, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			tensor := Tensor{Name: "x", Shape: []int{len(x.values)}, Type: x.kind, Rule: Largest}
			if got := tensor.Encode(x.values); !bytes.Equal(got, x.bytes) {
				t.Errorf("%v is written as %v, want %v", x.values, got, x.bytes)
			}
			got := make([]float32, len(x.values))
			if err := tensor.Decode(got, x.bytes); err != nil || got[0] != x.values[0] {
				t.Errorf("%v is read as %v, %v", x.bytes, got, err)
			}
		})
	}
}

// What is kept comes back to the byte, whatever its bytes say, as finite numbers.
func TestTensor_ConstantsKeepTheirBytes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		kind := rapid.SampledFrom([]string{"bool", "uint8", "int16", "float16", "bfloat16", "int32", "float32", "int64", "float64"}).Draw(t, "type")
		elements := rapid.IntRange(1, 9).Draw(t, "elements")
		tensor := Tensor{Name: "x", Shape: []int{elements}, Type: kind, Rule: Kept}
		data := make([]byte, elements*tensor.ElementBytes())
		for i := range data {
			data[i] = rapid.Byte().Draw(t, "byte")
		}
		values := make([]float32, tensor.Len())
		if err := tensor.Decode(values, data); err != nil {
			t.Fatal(err)
		}
		if err := tensor.CheckValues(values); err != nil {
			t.Fatal(err)
		}
		if got := tensor.Encode(values); !bytes.Equal(got, data) {
			t.Fatalf("%v came back as %v", data, got)
		}
	})
}

// An attention mask of -inf is two words a number: 0x0000 and 0xff80.
func TestTensor_InfinitiesAreWords(t *testing.T) {
	mask := Tensor{Name: "mask", Shape: []int{1}, Type: "float32", Rule: Kept}
	values := make([]float32, 2)
	data := binary.LittleEndian.AppendUint32(nil, math.Float32bits(float32(math.Inf(-1))))
	if err := mask.Decode(values, data); err != nil || values[0] != 0 || values[1] != 0xff80 {
		t.Errorf("%v, %v", values, err)
	}
}

func TestTensor_ImpossibleValues(t *testing.T) {
	for name, x := range map[string]struct {
		tensor Tensor
		value  float32
		want   string
	}{
		"infinite":     {Tensor{Name: "m"}, float32(math.Inf(-1)), "tensor m has -Inf at place 0, and values must be finite"},
		"half a count": {Tensor{Name: "n", Type: "int64", Rule: Largest}, 0.5, "tensor n (int64, largest) has 0.5 at place 0, want an integer from -16777216 to 16777216"},
		"two":          {Tensor{Name: "b", Type: "bool", Rule: Majority}, 2, "want an integer from 0 to 1"},
		"no byte":      {Tensor{Name: "k", Type: "uint8", Rule: Kept}, 256, "want an integer from 0 to 255"},
		"no word":      {Tensor{Name: "k", Type: "int64", Rule: Kept}, 65536, "want an integer from 0 to 65535"},
	} {
		t.Run(name, func(t *testing.T) {
			if err := x.tensor.CheckValues([]float32{x.value}); err == nil || !strings.Contains(err.Error(), x.want) {
				t.Errorf("%v, want %q", err, x.want)
			}
		})
	}
	long := Tensor{Name: "n", Shape: []int{1}, Type: "int64", Rule: Largest}
	data := binary.LittleEndian.AppendUint64(nil, 1<<40)
	if err := long.Decode(make([]float32, 1), data); err == nil || !strings.Contains(err.Error(), "tensor n has 1099511627776 at place 0") {
		t.Error(err)
	}
}

func TestTensor_TypesAndRules(t *testing.T) {
	for name, x := range map[string]struct {
		kind string
		rule BufferRule
		want string
	}{
		"floats":      {"", "", ""},
		"count":       {"int64", Largest, ""},
		"mask":        {"float32", Kept, ""},
		"no type":     {"", Largest, "is of type"},
		"other type":  {"complex64", Kept, `is of type "complex64"`},
		"no rule":     {"int64", "", "has the rule"},
		"mean floats": {"float64", Mean, "which can only be kept"},
	} {
		t.Run(name, func(t *testing.T) {
			err := Tensor{Name: "x", Type: x.kind, Rule: x.rule}.CheckType()
			if (err == nil) != (x.want == "") || err != nil && !strings.Contains(err.Error(), x.want) {
				t.Errorf("%v, want %q", err, x.want)
			}
		})
	}
}
