package grid

import (
	"bytes"
	"encoding/gob"
	"errors"
	"path/filepath"
	"reflect"
	"testing"

	"fedpace/actors/flower"
)

// A record is read as it was written: whole, with the state before, or as a digest alone.
func TestJournal_RoundTrip(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.log")
	j, err := openJournal(path, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	before := [][]byte{[]byte("state")}
	after := [][]byte{[]byte("other"), {}, []byte("state")}
	replies := []*flower.Reply{
		{Content: [][]byte{[]byte("text"), {}, bytes.Repeat([]byte{7}, 1<<16)}, State: after, Steps: 3},
		{Content: [][]byte{[]byte("text")}, State: before},
		{Raised: "it raises", Code: 2, State: before},
	}
	messages := make([]*message, len(replies))
	for i, reply := range replies {
		messages[i] = &message{number: uint64(i + 1), sent: &flower.Message{Node: 1000, Type: "train"}}
		if err := j.recordReply(messages[i], before, reply, sumOfReply(reply)); err != nil {
			t.Fatal(err)
		}
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	// Beyond a limit of 0 bytes nothing more is kept whole.
	j, err = openJournal(path, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = j.Close() }()
	for i, want := range replies {
		got, err := j.reply(messages[i], before)
		if err != nil || sumOfReply(got) != sumOfReply(want) || !reflect.DeepEqual(got, want) {
			t.Errorf("message %d: %+v, %v; want %+v", i+1, got, err, want)
		}
	}
	last := &message{number: 4, sent: &flower.Message{Node: 1000, Type: "train"}}
	if err := j.recordReply(last, before, replies[0], 9); err != nil {
		t.Fatal(err)
	}
	e, err := decodeRecord(j, 4)
	if err != nil || e.Whole || e.Replied != 9 || e.Reply.Content != nil || e.Reply.State != nil {
		t.Errorf("%+v, %v, want the sum 9 alone", e, err)
	}
}

// decodeRecord returns the record of a message that this attempt has written.
func decodeRecord(j *journal, number uint64) (*entry, error) {
	again, err := openJournal(j.file.Name(), 0)
	if err != nil {
		return nil, err
	}
	e, _, err := again.read(number)
	return e, errors.Join(err, again.Close())
}

// Earlier versions had the blobs within the entry. Sizes beyond the record are damage.
func TestJournal_Entries(t *testing.T) {
	encode := func(e *entry) []byte {
		var b bytes.Buffer
		if err := gob.NewEncoder(&b).Encode(e); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	content := [][]byte{[]byte("text"), []byte("array")}
	e, err := decodeEntry(encode(&entry{Number: 5, Whole: true, Reply: flower.Reply{Content: content}}))
	if err != nil || !reflect.DeepEqual(e.Reply.Content, content) {
		t.Errorf("%+v, %v", e, err)
	}
	for _, sizes := range [][]int{{4}, {-1}, {1, 3}} {
		payload := append(encode(&entry{Number: 5, Whole: true, ContentSizes: sizes}), "abc"...)
		if _, err := decodeEntry(payload); !errors.Is(err, errJournal) {
			t.Errorf("sizes %v of three bytes: %v, want %v", sizes, err, errJournal)
		}
	}
}
