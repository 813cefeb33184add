package table

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

type key struct {
	Name string `csv:"name"`
	Seed uint64 `csv:"seed"`
}

type row struct {
	key
	Rounds int     `csv:"rounds"`
	Done   bool    `csv:"done"`
	Loss   float64 `csv:"loss"`
	Points []int   // no column
}

func TestRows_ReadBack(t *testing.T) {
	path := filepath.Join(t.TempDir(), "t.csv")
	want := []row{
		{key: key{"a, \"b\"", 1 << 63}, Rounds: -3, Done: true, Loss: 0.1},
		{Loss: math.NaN()},
	}
	if err := Write(path, want, -1); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff("name,seed,rounds,done,loss\n\"a, \"\"b\"\"\",9223372036854775808,-3,true,0.1\n,0,0,false,\n", string(text)); diff != "" {
		t.Error(diff)
	}
	got, err := Read[row](path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(row{}), cmpopts.EquateNaNs()); diff != "" {
		t.Error(diff)
	}
	if err := Write(path, []row{{Loss: math.Pi}}, 3); err != nil {
		t.Fatal(err)
	}
	got, err = Read[row](path)
	if err != nil || got[0].Loss != 3.14 {
		t.Errorf("three digits of pi are %v (%v)", got, err)
	}
}

func TestRows_Mistakes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "t.csv")
	const header = "name,seed,rounds,done,loss\n"
	for text, want := range map[string]string{
		"":                             "t.csv:1: EOF",
		"name,seed\n":                  `t.csv:1: the header is "name,seed", want "name,seed,rounds,done,loss"`,
		header + "a,1,many,true,1\n":   `t.csv:2: rounds: "many" is not a whole number`,
		header + "a,-1,2,true,1\n":     `t.csv:2: seed: "-1" is not a whole number from 0`,
		header + "a,1,2,perhaps,1\n":   `t.csv:2: done: "perhaps" is not true or false`,
		header + "a,1,2,true,1\n,,,\n": "t.csv:3: ",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Read[row](path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}
