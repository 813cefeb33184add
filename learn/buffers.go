package learn

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"fedpace/internal/vector"
)

// A flat model is float32. Buffers of other types lie in it in one of two forms:
//
//   - Integers and booleans that steps may change are whole numbers, which float32 holds exactly up to
//     2^24. They lie behind the buffers of float32, and each client sends its own.
//   - Constants of any type are the bytes of the tensor, little-endian, two bytes to a value (one, for a
//     type of one byte). They lie among the frozen values, which no step changes, so infinities and
//     large integers can be part of a model.
//
// Both have their type in a model's file.

// BufferRule says how clients' integers or booleans become those of the next model, element by element.
type BufferRule string

// The rules of buffers.
const (
	// Largest takes the largest of the values that clients sent and the one before. It is right for
	// what counts, such as a batch norm's number of batches: a count never goes back.
	Largest BufferRule = "largest"
	// Majority takes the value with most of the clients' weight. If several have as much, the one
	// before wins if it is among them, else the smallest. It is right for masks.
	Majority BufferRule = "majority"
	// Mean takes the weighted mean, rounded to the nearest integer, halves to the even one.
	Mean BufferRule = "mean"
	// Kept keeps the initial values.
	Kept BufferRule = "kept"
)

// MaxInteger bounds the integers that clients send, in magnitude: float32 holds all integers up to it.
const MaxInteger = 1 << 24

// bufferType describes a type of a buffer's elements.
type bufferType struct {
	// dtype is the name of the type in the safetensors format.
	dtype string
	// bytes is the size of an element.
	bytes int
	// lowest and highest bound the integers that clients can send. Both are 0 for a type that is neither
	// an integer nor a boolean.
	lowest, highest float64
}

// bufferTypes are the types of buffers by their names in PyTorch.
var bufferTypes = map[string]bufferType{
	"bool":     {"BOOL", 1, 0, 1},
	"uint8":    {"U8", 1, 0, math.MaxUint8},
	"int8":     {"I8", 1, math.MinInt8, math.MaxInt8},
	"int16":    {"I16", 2, math.MinInt16, math.MaxInt16},
	"int32":    {"I32", 4, -MaxInteger, MaxInteger},
	"int64":    {"I64", 8, -MaxInteger, MaxInteger},
	"float16":  {"F16", 2, 0, 0},
	"bfloat16": {"BF16", 2, 0, 0},
	"float32":  {"F32", 4, 0, 0},
	"float64":  {"F64", 8, 0, 0},
}

// CheckType returns an error unless a tensor's type and rule go together. A tensor without both holds
// plain float32 values. Integers and booleans may have any rule. Tensors whose type is float16,
// bfloat16, float32 or float64 travel as bytes that nothing can be computed with, so they are kept.
func (t Tensor) CheckType() error {
	if t.Type == "" && t.Rule == "" {
		return nil
	}
	kind, ok := bufferTypes[t.Type]
	if !ok {
		return fmt.Errorf("tensor %q is of type %.20q, want one of bool, uint8, int8, int16, int32, int64, "+
			"or of float16, bfloat16, float32, float64 with the rule kept", t.Name, t.Type)
	}
	if !slices.Contains([]BufferRule{Largest, Majority, Mean, Kept}, t.Rule) {
		return fmt.Errorf("tensor %q has the rule %.20q, want largest, majority, mean or kept", t.Name, t.Rule)
	}
	isInteger := kind.highest > 0
	if t.Rule != Kept && !isInteger {
		return fmt.Errorf("tensor %q is of type %s, which can only be kept, and its rule is %s", t.Name, t.Type, t.Rule)
	}
	return nil
}

// DType returns the name of the tensor's type in the safetensors format: F32 for a tensor without a type,
// which holds plain float32 values.
func (t Tensor) DType() string {
	if t.Type == "" {
		return "F32"
	}
	return bufferTypes[t.Type].dtype
}

// ElementBytes returns how many bytes an element has in the safetensors format: 4 for a tensor without a
// type, which holds plain float32 values.
func (t Tensor) ElementBytes() int {
	if t.Type == "" {
		return 4
	}
	return bufferTypes[t.Type].bytes
}

// IsSentInteger reports whether the tensor holds integers or booleans that clients send.
func (t Tensor) IsSentInteger() bool { return t.Type != "" && t.Rule != Kept }

// words returns the number of values of a flat model that hold one element of the tensor. An element of a tensor with
// the rule Kept, which is not computed with, is held as its bytes: one value for each two of them, or for a single
// one. An element of any other tensor is one value.
func (t Tensor) words() int {
	if t.Rule != Kept {
		return 1
	}
	return max(1, t.ElementBytes()/2)
}

// CheckValues returns an error for the first of a tensor's values in a flat model that the tensor cannot
// have: one that is not finite; in an integer tensor one that is not whole, or beyond its type or
// [MaxInteger]; in a kept tensor one that does not stand for bytes.
func (t Tensor) CheckValues(values []float32) error {
	lowest, highest := math.Inf(-1), math.Inf(1)
	switch {
	case t.IsSentInteger():
		lowest = bufferTypes[t.Type].lowest
		highest = bufferTypes[t.Type].highest
	// Kept tensors are bytes, or words of two bytes, in a float32 each.
	case t.Rule == Kept:
		lowest = 0
		highest = math.Ldexp(1, 8*min(2, t.ElementBytes())) - 1
	}
	for i, x := range values {
		v := float64(x)
		switch {
		case math.IsNaN(v) || math.IsInf(v, 0):
			return fmt.Errorf("tensor %s has %g at place %d, and values must be finite", t.Name, v, i)
		// A tensor of float32 may have any finite value.
		case t.Type == "":
		case v < lowest || v > highest || v != math.Trunc(v):
			return fmt.Errorf("tensor %s (%s, %s) has %g at place %d, want an integer from %d to %d",
				t.Name, t.Type, t.Rule, v, i, int64(lowest), int64(highest))
		}
	}
	return nil
}

// Clamp returns the number nearest to x that an integer tensor can hold.
func (t Tensor) Clamp(x float64) float32 {
	kind := bufferTypes[t.Type]
	return float32(min(max(math.RoundToEven(x), kind.lowest), kind.highest))
}

// Encode returns the bytes of the tensor in a model's file, little-endian, given its values in the flat
// model.
func (t Tensor) Encode(values []float32) []byte {
	size := t.ElementBytes()
	switch {
	// A tensor without a type has plain float32 values.
	case t.Type == "":
		return vector.Bytes(values)
	// Each value of a kept tensor stands for a byte, or for two bytes of a larger element.
	case t.Rule == Kept:
		return wordsToBytes(values, min(2, size))
	}
	bytes := make([]byte, 0, size*len(values))
	for _, value := range values {
		integer := binary.LittleEndian.AppendUint64(nil, uint64(int64(value)))
		bytes = append(bytes, integer[:size]...)
	}
	return bytes
}

// Decode sets a tensor's values in the flat model from its little-endian bytes in a model's file. An
// integer that a client cannot send is an error; float32 values are not checked.
func (t Tensor) Decode(values []float32, bytes []byte) error {
	size := t.ElementBytes()
	switch {
	case t.Type == "":
		// The values are written in place, as values has room for all of them.
		vector.Append(values[:0], bytes)
		return nil
	// Kept tensors are not computed with, so their bytes are taken as they are: each value stands for a byte, or
	// for two bytes of a larger element.
	case t.Rule == Kept:
		bytesToWords(values, bytes, min(2, size))
		return nil
	}
	for i := range values {
		element := bytes[i*size : (i+1)*size]
		var integer int64
		switch t.Type {
		case "bool", "uint8":
			integer = int64(element[0])
		case "int8":
			integer = int64(int8(element[0]))
		case "int16":
			integer = int64(int16(binary.LittleEndian.Uint16(element)))
		case "int32":
			integer = int64(int32(binary.LittleEndian.Uint32(element)))
		case "int64":
			integer = int64(binary.LittleEndian.Uint64(element))
		}
		if integer > MaxInteger || integer < -MaxInteger {
			return fmt.Errorf(
				"tensor %s has %d at place %d, and integers travel up to ±%d",
				t.Name,
				integer,
				i,
				MaxInteger,
			)
		}
		values[i] = float32(integer)
	}
	return t.CheckValues(values)
}

// wordsToBytes returns the bytes that words stand for, size of them for each word: 1, or 2 with the lower
// byte first. A word is a whole number in a float32.
func wordsToBytes(words []float32, size int) []byte {
	bytes := make([]byte, 0, size*len(words))
	for _, w := range words {
		bytes = append(bytes, byte(uint16(w)))
		if size == 2 {
			bytes = append(bytes, byte(uint16(w)>>8))
		}
	}
	return bytes
}

// bytesToWords is the inverse of [wordsToBytes]: it sets each word to the whole number that the next size
// bytes stand for, 1 or 2.
func bytesToWords(words []float32, bytes []byte, size int) {
	for i := range words {
		if size == 1 {
			words[i] = float32(bytes[i])
			continue
		}
		words[i] = float32(binary.LittleEndian.Uint16(bytes[2*i:]))
	}
}

// Integers returns how many values of a model are integers and booleans that clients send. They are the
// last ones of those that a task transfers ([Communicated]): floats come first.
func Integers(m ModelInfo) (n int) {
	for _, t := range m.Tensors() {
		if t.IsSentInteger() && t.Offset < Communicated(m) {
			n += t.Len()
		}
	}
	return n
}

// CheckBuffers returns an error for the first buffer in a client's model whose values are invalid: floats
// that are not finite, or numbers that its type does not have. values are the model's parameters, or at
// least those that clients send.
func CheckBuffers(m ModelInfo, values []float32) error {
	for _, t := range m.Tensors() {
		isBuffer := t.Offset >= m.Trainable() && t.Offset < Communicated(m)
		if !isBuffer {
			continue
		}
		if err := t.CheckValues(values[t.Offset:][:t.Len()]); err != nil {
			return err
		}
	}
	return nil
}
