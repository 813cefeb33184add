package table_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"fedpace/data/datatest"
	"fedpace/data/federated"
	. "fedpace/data/table"
	"fedpace/learn"
)

// TestWords_Bags has texts whose bags are counted by hand: words in lower case without signs, the
// most frequent ones of the training rows first, each with its share of the known words of its text.
func TestWords_Bags(t *testing.T) {
	mapping := Table{Text: "said", Tokens: "words", Label: "y", Split: "part"}
	run := mustOpenMapped(t, "said,y,part\n"+
		"\"Good, good TEA!\",a,train\n"+
		"tea and C3PO,b,train\n"+
		"--,a,train\n"+
		"good cake,b,test\n"+
		"unknown words,b,test\n", "own.csv", mapping)
	info := run.Info()
	// good and tea occur twice, and come in the order of their letters.
	if want := []string{"good", "tea", "and", "c3po"}; !slices.Equal(info.Columns, want) || info.Features != 4 || info.Input != learn.Sparse {
		t.Errorf("the words are %q of %s, want %q", info.Columns, info.Samples.Describe(), want)
	}
	if !strings.Contains(info.Note, "2 rows without a word of the training rows' 4 left out") {
		t.Errorf("the note is %q", info.Note)
	}
	b := bagsOf(t, run)
	third := float32(1) / 3
	if !slices.Equal(b.RowStart, []int32{0, 2, 5, 6}) ||
		!slices.Equal(b.Index, []int32{0, 1, 1, 2, 3, 0}) ||
		!slices.Equal(b.Value, []float32{float32(2) / 3, third, third, third, third, 1}) ||
		!slices.Equal(b.Labels, []int32{0, 1, 1}) {
		t.Errorf("rows %v, words %v, shares %v, labels %v", b.RowStart, b.Index, b.Value, b.Labels)
	}
	// A device counts its words by the run's numbers, and those that the run lacks not at all.
	device := mustOpenMapped(t, "said,y,part\ntea milk good,b,train\ntea,a,test\n", "own.csv", mapping)
	if err := federated.Adopt(device, info.Schema); err != nil {
		t.Fatal(err)
	}
	b = bagsOf(t, device)
	if !slices.Equal(b.Index, []int32{0, 1, 1}) || !slices.Equal(b.Value, []float32{0.5, 0.5, 1}) || device.Info().Features != 4 {
		t.Errorf("of a device: words %v, shares %v", b.Index, b.Value)
	}
	other := mustOpenMapped(t, "said,y,part\nmilk milk,a,train\nmilk,b,test\n", "own.csv", mapping)
	if err := federated.Adopt(other, info.Schema); err == nil || !strings.Contains(err.Error(), "none of its 1 words is among the run's 4") {
		t.Errorf("without a shared word: %v", err)
	}
}

// bagsOf returns the training samples of the only client, then the held-out samples.
func bagsOf(t *testing.T, s federated.Set) (b learn.Batch) {
	t.Helper()
	rows := make([]int32, s.Samples(0))
	for i := range rows {
		rows[i] = int32(i)
	}
	if err := s.Batch(&b, 0, rows); err != nil {
		t.Fatal(err)
	}
	if err := s.HeldOutBatch(&b, 0, s.HeldOut()); err != nil {
		t.Fatal(err)
	}
	return b
}

func TestWords_Refusals(t *testing.T) {
	for _, c := range []struct {
		mapping Table
		want    string
	}{
		{Table{Text: "said", Tokens: "words"}, "words have no order, so that none is the next (set label)"},
		{Table{Text: "said", Tokens: "words", Label: "y", Window: 8}, "words of a text are all read"},
		{Table{Features: []string{"x"}, Tokens: "words", Label: "y"}, "there is none (set text)"},
	} {
		if err := c.mapping.Validate(); err == nil || !strings.Contains(fmt.Sprint(err), c.want) {
			t.Errorf("%+v: %v, want %s", c.mapping, err, c.want)
		}
	}
}

// TestPropose_SentencesAsWords proposes the words of sentences with a label.
func TestPropose_SentencesAsWords(t *testing.T) {
	text := "user,said,mood\n"
	for i := range 1300 {
		text += fmt.Sprintf("u%d,we had %d of them,%s\n", i%3, i%511, []string{"glad", "sad"}[i%2])
	}
	p, err := Propose(datatest.Put(t, t.TempDir(), "t.csv", []byte(text)), "")
	if err != nil || p.Table.Tokens != "words" || p.Table.Window != 0 || p.Table.Text != "said" || !p.Complete() {
		t.Fatalf("%+v, %v", p.Table, err)
	}
}
