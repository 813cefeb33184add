package federated_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
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
		{"the Hub's other words", []string{"a_dev.csv", "a_eval.csv", "a_train.csv"}, []bool{true, true, false}},
		{"held out", []string{"held_out.csv", "hold-out.csv", "train.csv"}, []bool{true, true, false}},
		{"a device", []string{"dev.csv", "prod.csv"}, []bool{false, false}},
		{"a hormone", []string{"testosterone.csv", "cortisol.csv"}, []bool{false, false}},
		{"endings", []string{"testset.csv", "validdata.csv", "data.csv"}, []bool{true, true, false}},
		{"CoNLL", []string{"eng.testa", "eng.testb", "eng.train"}, []bool{true, true, false}},
		{"joined words", []string{"MNISTtest.csv", "MNISTtrain.csv"}, []bool{true, false}},
		{"joined words with numbers", []string{"x2test1.csv", "x2train1.csv"}, []bool{true, false}},
		{"a word within another", []string{"contest.csv", "contrast.csv", "train.csv"}, []bool{false, false, false}},
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

// IMDB's files on the Hub are called so; its unsupervised rows all have the label -1.
func TestTableFiles_WithoutPart(t *testing.T) {
	for _, c := range []struct {
		files  string
		wanted bool
	}{
		{"train-0.csv test-0.csv unsupervised-0.csv", false},
		{"train.csv unlabeled.csv", false},
		{"train_unlabelled.csv train_labelled.csv", false},
		{"unsupervised-0.csv unsupervised-1.csv", true},
		{"train-0.csv test-0.csv", true},
	} {
		dir := t.TempDir()
		for name := range strings.FieldsSeq(c.files) {
			if err := os.WriteFile(filepath.Join(dir, name), []byte("x\n1\n"), 0o666); err != nil {
				t.Fatal(err)
			}
		}
		files, err := TableFiles(dir, ".csv")
		if (err == nil) != c.wanted || err != nil && !strings.Contains(err.Error(), "unlabel") && !strings.Contains(err.Error(), "unsupervised-0.csv: the name says") {
			t.Errorf("%s: %d files, %v", c.files, len(files), err)
		}
	}
}

func TestUnnamedParts_BesideTraining(t *testing.T) {
	for _, c := range []struct{ files, want string }{
		{"train.csv test.csv challenge.csv", "challenge.csv"},
		{"train-0.csv train-1.csv test-0.csv", ""},
		{"trainset.csv testset.csv", ""},
		{"a.csv b.csv test.csv", ""},
		{"train.csv a.csv", ""},
	} {
		files := strings.Fields(c.files)
		if got := strings.Join(UnnamedParts(files, HeldOutFiles(files)), " "); got != c.want {
			t.Errorf("%s: %q, want %q", c.files, got, c.want)
		}
	}
}

func TestPartOf_Words(t *testing.T) {
	for _, c := range []struct {
		words           string
		trains, heldOut bool
	}{
		{"train,Training,TRAIN", true, false},
		{"test,Testing,val,valid,VALIDATION,dev,eval,evaluation,held out,held-out,Held_Out,heldout,holdout,hold_out", false, true},
		{"trainer,tested,value,out,held,device,", false, false},
	} {
		for word := range strings.SplitSeq(c.words, ",") {
			trains, heldOut := PartOf(word)
			if trains != c.trains || heldOut != c.heldOut {
				t.Errorf("%q: trains %v, held out %v", word, trains, heldOut)
			}
		}
	}
}
