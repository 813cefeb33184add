package grid

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// Sums come back as they were written; what is no such file is an error.
func TestSums_RoundTrip(t *testing.T) {
	want := []Sum{{1, 2}, {}, {1 << 63, 5}}
	var file bytes.Buffer
	if err := WriteSums(&file, want); err != nil {
		t.Fatal(err)
	}
	whole := file.Bytes()
	got, err := ReadSums(bytes.NewReader(whole))
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v; want %v", got, err, want)
	}
	for name, damaged := range map[string][]byte{"cut off": whole[:len(whole)-1], "no title": whole[1:], "empty": nil} {
		if _, err := ReadSums(bytes.NewReader(damaged)); !errors.Is(err, errSums) {
			t.Errorf("%s: %v, want %v", name, err, errSums)
		}
	}
}

// A run that repeats an earlier one has its sums, on any processes. An app that does not repeat itself is named with
// the message, be it the server's or a client's.
func TestPlay_RepeatsExpectedSums(t *testing.T) {
	t.Parallel()
	_, first := hearing(t, settings(t, 40, plain()))
	if len(first.Sums) != first.Messages || slices.Contains(first.Sums, Sum{}) {
		t.Fatalf("%d sums of %d messages", len(first.Sums), first.Messages)
	}
	s := settings(t, 40, plain())
	s.Workers = 3
	s.Expected = first.Sums
	if _, again := hearing(t, s); !slices.Equal(again.Sums, first.Sums) {
		t.Error("the sums of the repeated run are others")
	}
	changed := slices.Clone(first.Sums)
	changed[6].Replied++
	s = settings(t, 40, plain())
	s.Expected = changed
	_, err := Play(t.Context(), s)
	if !errors.Is(err, ErrNotRepeated) || !strings.Contains(fmt.Sprint(err), "the ClientApp does not repeat itself: its reply to message 7,") {
		t.Errorf("%v, want the ClientApp with message 7", err)
	}
	run := plain()
	run["unrepeatable"] = true
	s = settings(t, 40, run)
	s.Expected = first.Sums
	_, err = Play(t.Context(), s)
	if !errors.Is(err, ErrNotRepeated) || !strings.Contains(fmt.Sprint(err), "the ServerApp does not repeat itself: its message ") {
		t.Errorf("%v, want the ServerApp", err)
	}
}
