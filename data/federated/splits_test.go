package federated_test

import (
	"slices"
	"testing"

	. "fedpace/data/federated"
)

func TestHeldOutFiles_NamesOfParts(t *testing.T) {
	for _, c := range []struct {
		name  string
		files []string
		want  []bool
	}{
		{"the Hub", []string{"test-0.parquet", "train-0.parquet", "validation-0.parquet"}, []bool{true, false, true}},
		{"a word behind", []string{"mnist_test.csv", "mnist_train.csv"}, []bool{true, false}},
		{"no training beside", []string{"lab_test_1.csv", "lab_test_2.csv"}, []bool{false, false}},
		{"values of a column", []string{"values.csv", "value2.csv"}, []bool{false, false}},
		{"one file", []string{"test.csv"}, []bool{false}},
		{"a path", []string{"/test/a.csv", "/test/b.csv"}, []bool{false, false}},
		{"capitals", []string{"TEST.csv", "TRAIN.csv"}, []bool{true, false}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := HeldOutFiles(c.files); !slices.Equal(got, c.want) {
				t.Errorf("%v of %v, want %v", got, c.files, c.want)
			}
		})
	}
}
