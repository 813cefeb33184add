package folder

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"fedpace/internal/atomicfile"
	"fedpace/learn"
)

func smallModel() ([]learn.Tensor, []float32) {
	return []learn.Tensor{
		{Name: "0.weight", Shape: []int{2, 3}},
		{Name: "0.bias", Shape: []int{2}, Offset: 6},
	}, []float32{0, -1.5, 2, 3e-40, math.MaxFloat32, float32(math.Copysign(0, -1)), 7, 8}
}

func encoded(t testing.TB, tensors []learn.Tensor, params []float32, metadata map[string]string) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := EncodeModel(&b, tensors, params, metadata); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// file makes a file of a header and data, both as given.
func file(header string, data int) []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return append(append(b, header...), make([]byte, data)...)
}

// The format's own description: 8 bytes of length, JSON, aligned data.
func TestModel_Bytes(t *testing.T) {
	tensors, params := smallModel()
	b := encoded(t, tensors, params, map[string]string{"task": "femnist", "format": "pt"})
	n := binary.LittleEndian.Uint64(b)
	if n%8 != 0 {
		t.Errorf("the header of %d bytes leaves the data unaligned", n)
	}
	want := `{"__metadata__":{"format":"pt","task":"femnist"},` +
		`"0.weight":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},` +
		`"0.bias":{"dtype":"F32","shape":[2],"data_offsets":[24,32]}}`
	if got := strings.TrimRight(string(b[8:8+n]), " "); got != want {
		t.Errorf("\n got %s\nwant %s", got, want)
	}
	data := b[8+n:]
	if len(data) != 32 {
		t.Fatalf("%d bytes of data", len(data))
	}
	for i, want := range params {
		if got := math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:])); math.Float32bits(got) != math.Float32bits(want) {
			t.Errorf("parameter %d is %v, want %v", i, got, want)
		}
	}
}

// The digest is that of the bytes behind the header: sha256sum gives the same.
func TestModel_SHA256(t *testing.T) {
	// printf '\0\0\x80\x3f\0\0\0\x40' | sha256sum
	if got, want := ModelSHA256([]float32{1, 2}), "b9c80b5adeca450753a16950c3cc655d271f7bef7a485bc83f112b72fef21d37"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	// The buffer's borders do not show.
	long := make([]float32, 20000)
	long[19999] = 1
	if ModelSHA256(long) == ModelSHA256(long[:19999]) {
		t.Error("the last parameter is not in the digest")
	}
}

func TestModel_ReadsBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var tensors []learn.Tensor
		n := 0
		for _, name := range rapid.SliceOfNDistinct(rapid.StringMatching(`[a-z"\\é.]{1,8}`), 0, 6, rapid.ID).Draw(t, "names") {
			tensor := learn.Tensor{Name: name, Shape: rapid.SliceOfN(rapid.IntRange(1, 30), 0, 3).Draw(t, "shape"), Offset: n}
			tensors = append(tensors, tensor)
			n += tensor.Len()
		}
		params := make([]float32, n)
		for i := range params {
			params[i] = float32(i) - 0.5
		}
		var b bytes.Buffer
		if err := EncodeModel(&b, tensors, params, rapid.MapOf(rapid.String(), rapid.String()).Draw(t, "metadata")); err != nil {
			t.Fatal(err)
		}
		got, err := DecodeModel(bytes.NewReader(b.Bytes()), int64(b.Len()), tensors)
		if err != nil {
			t.Fatalf("%v in %q", err, b.Bytes()[:min(400, b.Len())])
		}
		if !slices.Equal(got, params) {
			t.Fatal("the parameters differ")
		}
	})
}

// Another program may order the tensors as it likes.
func TestModel_TensorsInAnotherOrder(t *testing.T) {
	want := []learn.Tensor{{Name: "a", Shape: []int{2}}, {Name: "b", Shape: []int{1}, Offset: 2}}
	b := file(`{"a":{"dtype":"F32","shape":[2],"data_offsets":[4,12]},"b":{"data_offsets":[0,4],"shape":[1],"dtype":"F32"}}  `, 12)
	copy(b[len(b)-12:], []byte{0, 0, 0x80, 0x3f, 0, 0, 0, 0x40, 0, 0, 0x40, 0x40})
	got, err := DecodeModel(bytes.NewReader(b), int64(len(b)), want)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]float32{2, 3, 1}, got); diff != "" {
		t.Error(diff)
	}
}

func TestModel_NoModel(t *testing.T) {
	tensors, params := smallModel()
	good := encoded(t, tensors, params, nil)
	n := int(binary.LittleEndian.Uint64(good))
	poisoned := slices.Clone(good)
	copy(poisoned[len(poisoned)-4:], []byte{0, 0, 0x80, 0x7f})
	ab := func(a, b string) []byte { return file(`{"0.weight":`+a+`,"0.bias":`+b+`}`, 32) }
	const weight, bias = `{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}`, `{"dtype":"F32","shape":[2],"data_offsets":[24,32]}`
	for _, test := range []struct {
		name string
		file []byte
		want string
	}{
		{"empty", nil, "shorter than its first 8 bytes"},
		{"seven bytes", good[:7], "shorter than its first 8 bytes"},
		{"text", []byte("this is not a model"), "not a safetensors file: a header of"},
		{"cut in the header", good[:8+n/2], "not a safetensors file: a header of"},
		{"cut in the data", good[:len(good)-1], "holds 31 bytes of data, its header speaks of 32"},
		{"bytes behind the data", append(slices.Clone(good), 0), "holds 33 bytes of data, its header speaks of 32"},
		{"infinite parameter", poisoned, `tensor "0.bias": holds +Inf`},
		{"no JSON", file("{nonsense", 0), "invalid character"},
		{"space before the JSON", file(" {}", 0), "does not start with {"},
		{"words behind the JSON", file("{} {}", 0), "after top-level value"},
		{"no tensor", file("{}", 0), `has no tensor "0.weight" (it holds none)`},
		{"other tensors", file(`{"w":`+weight+`}`, 24), `has no tensor "0.weight" (it holds ["w"])`},
		{"one tensor more", file(`{"0.weight":`+weight+`,"0.bias":`+bias+`,"x":{"dtype":"F32","shape":[0],"data_offsets":[32,32]}}`, 32), `holds tensor "x", which the model does not have`},
		{"twice the same", file(`{"0.weight":`+weight+`,"0.weight":`+weight+`}`, 24), `duplicate object member name "0.weight"`},
		{"half precision", ab(`{"dtype":"F16","shape":[2,3],"data_offsets":[0,24]}`, bias), `tensor "0.weight" is F16, want F32`},
		{"other shape", ab(`{"dtype":"F32","shape":[3,2],"data_offsets":[0,24]}`, bias), `tensor "0.weight" has shape [3 2], want [2 3]`},
		{"a gap", file(`{"0.weight":`+weight+`,"0.bias":{"dtype":"F32","shape":[2],"data_offsets":[28,36]}}`, 36), `tensor "0.bias" has data_offsets [28 36], want [24, 32]`},
		{"an overlap", ab(weight, `{"dtype":"F32","shape":[2],"data_offsets":[16,24]}`), `tensor "0.bias" has data_offsets [16 24], want [24, 32]`},
		{"backwards", ab(weight, `{"dtype":"F32","shape":[2],"data_offsets":[32,24]}`), `want [first, end]`},
		{"one offset", ab(weight, `{"dtype":"F32","shape":[2],"data_offsets":[24]}`), `want [first, end]`},
		{"unknown field", ab(weight, `{"dtype":"F32","shape":[2],"data_offsets":[24,32],"x":1}`), `unknown object member name "x"`},
		{"metadata that is no text", file(`{"__metadata__":{"a":1}}`, 0), `__metadata__`},
		{"a header beyond the limit", file(strings.Repeat(" ", maxHeader+1), 0), "at most 1048576"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := DecodeModel(bytes.NewReader(test.file), int64(len(test.file)), tensors)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("\n got %v\nwant %s", err, test.want)
			}
		})
	}
}

func writeModel(path string, tensors []learn.Tensor, params []float32) error {
	return atomicfile.Write(path, func(w io.Writer) error { return EncodeModel(w, tensors, params, nil) })
}

func TestModel_OnDisk(t *testing.T) {
	tensors, params := smallModel()
	path := filepath.Join(t.TempDir(), "model.safetensors")
	if _, err := ReadModel(path, tensors); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing file gives %v", err)
	}
	if err := writeModel(path, tensors, params); err != nil {
		t.Fatal(err)
	}
	got, err := ReadModel(path, tensors)
	if err != nil || !slices.Equal(got, params) {
		t.Errorf("got %v, %v", got, err)
	}
	if _, err := ReadModel(filepath.Dir(path), tensors); err == nil || !strings.Contains(err.Error(), "is no regular file") {
		t.Errorf("a folder gives %v", err)
	}
	if err := writeModel(path, tensors[:1], params); err == nil {
		t.Error("parameters without a tensor are written")
	}
	if got, err := ReadModel(path, tensors); err != nil || !slices.Equal(got, params) {
		t.Errorf("a failed writing changed the file: %v, %v", got, err)
	}
}

// FuzzModel: no bytes make the reader panic or take more memory than the model
// needs, and what it accepts is the model that was asked for.
func FuzzModel(f *testing.F) {
	tensors, params := smallModel()
	f.Add(encoded(f, tensors, params, nil))
	f.Add(encoded(f, tensors, params, map[string]string{"a": "b"}))
	f.Add(file(`{"0.weight":{"dtype":"F32","shape":[2,3],"data_offsets":[8,32]},"0.bias":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}`, 32))
	f.Add(file(`{"0.bias":{"shape":[9999999999999],"data_offsets":[0,99999999999999999]}}`, 3))
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := DecodeModel(bytes.NewReader(b), int64(len(b)), tensors)
		if err != nil {
			return
		}
		if len(got) != 8 {
			t.Fatalf("%d parameters", len(got))
		}
		again, err := DecodeModel(bytes.NewReader(encoded(t, tensors, got, nil)), int64(len(encoded(t, tensors, got, nil))), tensors)
		if err != nil || !slices.Equal(again, got) {
			t.Fatalf("%v becomes %v, %v", got, again, err)
		}
		n := binary.LittleEndian.Uint64(b)
		if !json.Valid(b[8 : 8+n]) {
			t.Fatalf("a header that is no JSON is accepted: %q", b[8:8+n])
		}
	})
}

// The length of a file says how many parameters it holds.
func TestModel_Params(t *testing.T) {
	tensors, params := smallModel()
	whole := encoded(t, tensors, params, nil)
	for name, of := range map[string]struct {
		file []byte
		want string
	}{
		"whole":     {whole, ""},
		"torn":      {whole[:7], "it is not a model: unexpected EOF"},
		"in a word": {whole[:len(whole)-1], "it is not a model of float32"},
		"longer":    {file(strings.Repeat(" ", 40), 8)[:30], "a header of 40 bytes in 30"},
		"huge":      {bytes.Repeat([]byte{255}, 64), "it is not a model of float32"},
	} {
		path := filepath.Join(t.TempDir(), "model.safetensors")
		if err := os.WriteFile(path, of.file, 0o666); err != nil {
			t.Fatal(err)
		}
		n, err := ModelParams(path)
		if of.want == "" && (n != len(params) || err != nil) || of.want != "" && (err == nil || !strings.Contains(err.Error(), of.want)) {
			t.Errorf("%s: %d parameters, %v", name, n, err)
		}
	}
	if _, err := ModelParams(filepath.Join(t.TempDir(), "none")); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

// Buffers of integers, booleans and constants are in the file in their own types, larger elements first so
// that each is aligned; tied weights are there by both names. All come back. A file may lack typed buffers where
// the caller has values for them.
func TestModel_TypedBuffersAndAliases(t *testing.T) {
	tensors := []learn.Tensor{
		{Name: "embedding.weight", Shape: []int{3}, Aliases: []string{"output.weight"}},
		{Name: "used", Shape: []int{3}, Offset: 3, Type: "bool", Rule: learn.Majority},
		{Name: "count", Shape: []int{}, Offset: 6, Type: "int64", Rule: learn.Largest},
		{Name: "mask", Shape: []int{1}, Offset: 7, Type: "float32", Rule: learn.Kept},
	}
	params := []float32{1, 2, 3, 1, 0, 1, 12, 0, 0xff80}
	data := encoded(t, tensors, params, nil)
	header := `{"count":{"dtype":"I64","shape":[],"data_offsets":[0,8]},` +
		`"embedding.weight":{"dtype":"F32","shape":[3],"data_offsets":[8,20]},` +
		`"mask":{"dtype":"F32","shape":[1],"data_offsets":[20,24]},` +
		`"output.weight":{"dtype":"F32","shape":[3],"data_offsets":[24,36]},` +
		`"used":{"dtype":"BOOL","shape":[3],"data_offsets":[36,39]}}`
	if got := strings.TrimRight(string(data[8:len(data)-39]), " "); got != header {
		t.Errorf("header %s\nwant   %s", got, header)
	}
	negativeInfinity := []byte{0, 0, 0x80, 0xff}
	if values := data[len(data)-39:]; values[0] != 12 || !bytes.Equal(values[20:24], negativeInfinity) {
		t.Errorf("values %v", values)
	}
	got, err := DecodeModel(bytes.NewReader(data), int64(len(data)), tensors)
	if err != nil || !slices.Equal(got, params) {
		t.Errorf("%v, %v", got, err)
	}
	untied := bytes.Clone(data)
	untied[len(untied)-4]++ // in output.weight
	if _, err := DecodeModel(bytes.NewReader(untied), int64(len(untied)), tensors); err == nil ||
		!strings.Contains(err.Error(), `"output.weight" is one with`) {
		t.Errorf("weights that are not tied any more: %v", err)
	}
	old := encoded(t, []learn.Tensor{{Name: "embedding.weight", Shape: []int{3}}}, []float32{4, 5, 6}, nil)
	if _, err := DecodeModel(bytes.NewReader(old), int64(len(old)), tensors); err == nil {
		t.Error("a file without buffers is taken")
	}
	got, err = decodeModel(bytes.NewReader(old), int64(len(old)), tensors, params)
	if err != nil || !slices.Equal(got, []float32{4, 5, 6, 1, 0, 1, 12, 0, 0xff80}) {
		t.Errorf("onto a model: %v, %v", got, err)
	}
}
