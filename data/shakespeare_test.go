package data

import (
	"archive/zip"
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"fedpace/data/datatest"
	"fedpace/data/federated"
)

// works is a text in the form of Project Gutenberg's etext 100: contents, then
// two plays, one of them not indented.
var works = "The Project Gutenberg EBook of The Complete Works\r\n" + strings.ReplaceAll(`
THE SONNETS

by William Shakespeare



THE FIRST PLAY

by William Shakespeare

  DUKE. First line   of him,
    and the second.
  Enter a lady
    no stage direction is this
  Lady. Mine.
  LADY. And mine. With a stop.
    so on
  MUTE. One line.
  5 not. a name


THE COMEDY OF ERRORS

by William Shakespeare

ACT I. Scene I
nobody speaks
EGEON. Proceed, Solinus,
To procure my fall
<<a notice
not his
DUKE. Merchant
of Syracuse
plead no more
`, "\n", "\r\n")

func TestShakespeare_SpeakingRoles(t *testing.T) {
	plays := bytes.ReplaceAll([]byte(works), []byte("\r\n"), []byte("\n"))
	var got []string
	for _, r := range speakingRoles(plays) {
		got = append(got, r.Name+": "+string(r.Text))
	}
	want := []string{
		"THE_FIRST_PLAY_DUKE: First line of him, and the second. no stage direction is this ",
		"THE_FIRST_PLAY_LADY: Mine. And mine. With a stop. so on ",
		"THE_COMEDY_OF_ERRORS_DUKE: Merchant of Syracuse plead no more ",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// A role of m characters has m - 80 windows: int(0.9 n) train, 79 are skipped,
// the rest is held out.
func TestShakespeare_Windows(t *testing.T) {
	spoken := make([]byte, federated.ShakespeareWindow+1000)
	for i := range spoken {
		spoken[i] = federated.ShakespeareCharacters[i%len(federated.ShakespeareCharacters)]
	}
	short := spoken[:federated.ShakespeareWindow+790] // 711 train, 79 skipped, none held out
	s, err := newWindows([]role{{Name: "short", Text: short}, {Name: "a", Text: spoken}, {Name: "b", Text: spoken[1:]}})
	if err != nil {
		t.Fatal(err)
	}
	if s.Clients() != 2 || s.Samples(0) != 900 || s.Samples(1) != 899 || s.HeldOut() != 21+21 {
		t.Fatalf("%d clients, %d and %d training, %d held out", s.Clients(), s.Samples(0), s.Samples(1), s.HeldOut())
	}
	b := datatest.HeldOut(t, s, 20, 2)
	for i, place := range []int{999, 899 + 79 + 1} { // in text
		if got, want := int(b.Tokens[i*federated.ShakespeareWindow]), place%len(federated.ShakespeareCharacters); got != want {
			t.Errorf("held-out window %d begins with %d, want %d", i, got, want)
		}
		if got, want := int(b.Labels[i]), (place+federated.ShakespeareWindow)%len(federated.ShakespeareCharacters); got != want {
			t.Errorf("held-out label %d is %d, want %d", i, got, want)
		}
	}
	datatest.CheckBatch(t, s.Info(), datatest.All(t, s, 1), 899)
	if err := s.Batch(b, 0, []int32{900}); err == nil {
		t.Error("no error for a window beyond the training part")
	}
	if err := s.HeldOutBatch(b, 42, 1); err == nil {
		t.Error("no error for a window beyond the held-out part")
	}
}

func zipOf(t testing.TB, name string, content []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	w, err := z.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(content); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestShakespeare_Errors(t *testing.T) {
	for _, c := range []struct {
		name    string
		content []byte
		want    string
	}{
		{"x.txt", []byte(works), "x.txt: no role has windows both to train on and to hold out"},
		{"x.txt", []byte("The Project Gutenberg EBook of Moby Dick"), "x.txt: no play found; want Project Gutenberg's Complete Works"},
		{"x.zip", zipOf(t, "a.html", nil), `x.zip: is an archive (want a table of your own unpacked): the zip holds ["a.html"], want the text of Project Gutenberg's etext 100`},
		{"x.zip", zipOf(t, "a.txt", []byte(works))[:200], "truncated or damaged zip"},
		{"x.txt", bytes.ReplaceAll([]byte(works), []byte("plead no more"), bytes.Repeat([]byte("plead # more "), 100)), `character '#' at place`},
	} {
		_, err := Open(datatest.Put(t, t.TempDir(), c.name, c.content), federated.Options{})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error\n%v\nwant\n%v", err, c.want)
		}
	}
}

func FuzzShakespeare(f *testing.F) {
	f.Add([]byte(works))
	f.Add(zipOf(f, "a.txt", []byte(works)))
	f.Add([]byte(strings.ReplaceAll(works, "plead no more", strings.Repeat("plead no more ", 100))))
	f.Fuzz(func(t *testing.T, content []byte) {
		datatest.Guard(t, len(content), func() {
			plays, err := worksText(bytes.NewReader(content), int64(len(content)))
			if err != nil {
				return
			}
			if s, err := newWindows(speakingRoles(plays)); err == nil {
				b := datatest.HeldOut(t, s, 0, s.HeldOut())
				datatest.CheckBatch(t, s.Info(), b, s.HeldOut())
			}
		})
	})
}
