package fetch

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	_ "fedpace/internal/testkit/testseed"
)

// content is long enough to come in several pieces.
var content = func() []byte {
	b := make([]byte, 700_001)
	for i := range b {
		b[i] = byte(i * i >> 8)
	}
	return b
}()

func sumOf(b []byte) Checksum {
	sum := sha256.Sum256(b)
	return Checksum{"sha256", hex.EncodeToString(sum[:])}
}

// reply is how the server answers one request.
type reply func(w http.ResponseWriter, r *http.Request)

// server answers with one reply after the other, then always with the last. It
// keeps what was asked.
type server struct {
	*httptest.Server
	mu     sync.Mutex
	asked  []string
	replay []reply
}

func serve(t *testing.T, replies ...reply) *server {
	t.Helper()
	s := &server{replay: replies}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.asked = append(s.asked, r.Header.Get("Range"))
		next := s.replay[0]
		if len(s.replay) > 1 {
			s.replay = s.replay[1:]
		}
		s.mu.Unlock()
		next(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

// requests lists the Range of all requests so far.
func (s *server) requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.asked)
}

// whole serves content as a good server does.
func whole(tag string) reply {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", tag)
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
	}
}

// part sends what a good server sends, up to byte end of the file, and then
// does then.
func part(tag string, end int, then func(r *http.Request)) reply {
	return func(w http.ResponseWriter, r *http.Request) {
		from := 0
		w.Header().Set("ETag", tag)
		if _, err := fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-", &from); err == nil {
			w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, len(content)-1, len(content)))
		}
		w.Header().Set("Content-Length", strconv.Itoa(len(content)-from))
		if from > 0 {
			w.WriteHeader(http.StatusPartialContent)
		}
		_, _ = w.Write(content[from:end]) // the client's matter
		_ = http.NewResponseController(w).Flush()
		then(r)
	}
}

// forged sends the beginning of another file, and breaks off.
func forged(end int) reply {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", strconv.Itoa(len(content)))
		_, _ = w.Write(make([]byte, end)) // the client's matter
		_ = http.NewResponseController(w).Flush()
		breakOff(r)
	}
}

func breakOff(*http.Request) { panic(http.ErrAbortHandler) }

// stall waits until the client has gone.
func stall(r *http.Request) { <-r.Context().Done() }

func status(code int, header ...string) reply {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(code)
		fmt.Fprint(w, "a page that says what is wrong")
	}
}

func archive(urls ...string) Archive {
	return Archive{Name: "set", File: "set.zip", URLs: urls, Sum: sumOf(content)}
}

// quick waits for nothing longer than a test may take.
func quick() *Fetcher {
	return &Fetcher{Stall: 5 * time.Second, Backoff: time.Millisecond, Retries: 2}
}

// folder lists what is in a folder.
func folder(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// fetched checks that the folder holds the archive and nothing else.
func fetched(t *testing.T, r Result, err error, dir string) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(r.Path)
	if err != nil || !bytes.Equal(got, content) {
		t.Fatalf("%d bytes, %v", len(got), err)
	}
	if diff := cmp.Diff([]string{"set.zip"}, folder(t, dir)); diff != "" {
		t.Error(diff)
	}
}

// What servers do, and what is asked of them. The file is right in the end and
// no byte is asked for twice where the server allows it.
func TestServers(t *testing.T) {
	const half = 300_000
	after := fmt.Sprintf("bytes=%d-", half)
	for _, test := range []struct {
		name    string
		replies []reply
		want    []string
	}{
		{"good", []reply{whole(`"a"`)}, []string{""}},
		{"breaks off", []reply{part(`"a"`, half, breakOff), whole(`"a"`)}, []string{"", after}},
		{"breaks off again and again", []reply{
			part(`"a"`, 1, breakOff), part(`"a"`, 2, breakOff), part(`"a"`, 3, breakOff), part(`"a"`, 4, breakOff), part(`"a"`, half, breakOff), whole(`"a"`),
		}, []string{"", "bytes=1-", "bytes=2-", "bytes=3-", "bytes=4-", after}},
		{"stalls", []reply{part(`"a"`, half, stall), whole(`"a"`)}, []string{"", after}},
		{"stalls before its answer", []reply{func(_ http.ResponseWriter, r *http.Request) { stall(r) }, whole(`"a"`)}, []string{"", ""}},
		{"ignores Range", []reply{part(`"a"`, half, breakOff), func(w http.ResponseWriter, r *http.Request) {
			r.Header.Del("Range")
			whole(`"a"`)(w, r)
		}}, []string{"", after}},
		{"has another version", []reply{forged(half), whole(`"b"`)}, []string{"", after, ""}},
		{"has a longer version", []reply{part(`"a"`, half, breakOff), status(206, "Content-Range", "bytes 300000-700001/700002"), whole(`"b"`)}, []string{"", after, ""}},
		{"starts at another byte", []reply{part(`"a"`, half, breakOff), status(206, "Content-Range", "bytes 5-9/700001", "ETag", `"a"`), whole(`"a"`)}, []string{"", after, ""}},
		{"starts nowhere", []reply{part(`"a"`, half, breakOff), status(206, "ETag", `"a"`), whole(`"a"`)}, []string{"", after, ""}},
		{"has no such range", []reply{part(`"a"`, half, breakOff), status(416, "Content-Range", "bytes */5"), whole(`"a"`)}, []string{"", after, ""}},
		{"is busy", []reply{status(503), status(429), whole(`"a"`)}, []string{"", "", ""}},
		{"does not say how much comes", []reply{func(w http.ResponseWriter, _ *http.Request) {
			for piece := range slices.Chunk(content, 100_000) {
				_, _ = w.Write(piece) // the client's matter
				_ = http.NewResponseController(w).Flush()
			}
		}}, []string{""}},
		{"labels it as packed", []reply{func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Encoding", "x-gzip")
			whole(`"a"`)(w, r)
		}}, []string{""}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, test.replies...)
			f := quick()
			if strings.HasPrefix(test.name, "stalls") {
				f.Stall = 200 * time.Millisecond
			}
			dir := filepath.Join(t.TempDir(), "made", "below")
			r, err := f.Fetch(t.Context(), archive(s.URL), dir)
			fetched(t, r, err, dir)
			if diff := cmp.Diff(test.want, s.requests()); diff != "" {
				t.Error(diff)
			}
			if r.Downloaded != int64(len(content)) || r.Resumed != 0 || r.Bytes != r.Downloaded {
				t.Errorf("%+v", r)
			}
		})
	}
}

// What cannot be had ends in one error that names the URL and the cause, and
// leaves nothing.
func TestRefusals(t *testing.T) {
	good := serve(t, whole(`"a"`))
	for _, test := range []struct {
		name    string
		replies []reply
		change  func(*Archive)
		want    string // after the URL
		asked   int
	}{
		{"absent", []reply{status(404)}, nil, ": answers 404 Not Found", 1},
		{"forbidden", []reply{status(403)}, nil, ": answers 403 Forbidden", 1},
		{"always busy", []reply{status(503)}, nil, ": answers 503 Service Unavailable (tried 3 times)", 3},
		{"another size", []reply{whole(`"a"`)}, func(a *Archive) { a.Size = 5 }, ": sends more than 5 bytes", 1},
		{"a redirect to nowhere", []reply{status(302)}, nil, ": answers 302 Found", 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, test.replies...)
			a := archive(s.URL)
			if test.change != nil {
				test.change(&a)
			}
			dir := t.TempDir()
			r, err := quick().Fetch(t.Context(), a, dir)
			if want := "fetch set: " + s.URL + test.want; err == nil || err.Error() != want || r != (Result{}) {
				t.Errorf(" got %v, %+v\nwant %s", err, r, want)
			}
			if left := folder(t, dir); left != nil {
				t.Errorf("left behind: %v", left)
			}
			if n := len(s.requests()); n != test.asked {
				t.Errorf("asked %d times, want %d", n, test.asked)
			}
			// Where there is another URL, it is asked.
			a = archive(s.URL, good.URL)
			r, err = quick().Fetch(t.Context(), a, dir)
			fetched(t, r, err, dir)
		})
	}
}

// A server that sends more than the published size, without saying so, is cut
// off there.
func TestFetch_FileWithoutEnd(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			if _, err := w.Write(content); err != nil {
				return
			}
		}
	})
	a := archive(s.URL)
	a.Size = 1_500_000
	_, err := quick().Fetch(t.Context(), a, t.TempDir())
	if incomplete := (*IncompleteError)(nil); err == nil || !strings.Contains(err.Error(), "sends more than 1500000 bytes") || !errors.As(err, &incomplete) || incomplete.Done > a.Size {
		t.Error(err)
	}
}

// A wrong checksum says both sums and deletes what came; the next call starts
// anew.
func TestFetch_WrongChecksum(t *testing.T) {
	forged := bytes.Replace(content, []byte{0}, []byte{1}, 1)
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `"a"`)
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(forged))
	}, whole(`"a"`))
	dir := t.TempDir()
	_, err := quick().Fetch(t.Context(), archive(s.URL), dir)
	want := fmt.Sprintf("fetch set: %s has %s, want %s; it is deleted", filepath.Join(dir, "set.zip.part"), sumOf(forged), sumOf(content).Hex)
	if err == nil || err.Error() != want {
		t.Errorf(" got %v\nwant %s", err, want)
	}
	if left := folder(t, dir); left != nil {
		t.Errorf("left behind: %v", left)
	}
	r, err := quick().Fetch(t.Context(), archive(s.URL), dir)
	fetched(t, r, err, dir)
	if diff := cmp.Diff([]string{"", ""}, s.requests()); diff != "" {
		t.Error(diff)
	}
}

// A file that is there and right costs no request; one that is wrong is left
// alone.
func TestFetch_Present(t *testing.T) {
	s := serve(t, whole(`"a"`))
	dir := t.TempDir()
	r, err := quick().Fetch(t.Context(), archive(s.URL), dir)
	fetched(t, r, err, dir)
	r, err = quick().Fetch(t.Context(), archive(s.URL), dir)
	fetched(t, r, err, dir)
	if n := len(s.requests()); n != 1 || r.Downloaded != 0 || r.Bytes != int64(len(content)) {
		t.Errorf("%d requests, %+v", n, r)
	}
	if err := os.WriteFile(r.Path, []byte("mine"), 0o666); err != nil {
		t.Fatal(err)
	}
	_, err = quick().Fetch(t.Context(), archive(s.URL), dir)
	if err == nil || !strings.Contains(err.Error(), "remove it, or fetch to another folder") {
		t.Error(err)
	}
	if mine, err := os.ReadFile(r.Path); err != nil || string(mine) != "mine" {
		t.Errorf("%q, %v", mine, err)
	}
}

// interrupt fetches until the server has sent bytes 0 to end, and no further.
func interrupt(t *testing.T, dir string, end int) *IncompleteError {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s := serve(t, part(`"a"`, end, stall))
	f := quick()
	f.every = time.Nanosecond
	f.Progress = func(p Progress) {
		if p.Done == int64(end) {
			cancel()
		}
	}
	_, err := f.Fetch(ctx, archive(s.URL), dir)
	incomplete := (*IncompleteError)(nil)
	if !errors.Is(err, context.Canceled) || !errors.As(err, &incomplete) {
		t.Fatal(err)
	}
	return incomplete
}

// An end of the context keeps what came, and another call, of another process
// perhaps, goes on from there.
func TestFetch_Continued(t *testing.T) {
	const half = 300_000
	for _, test := range []struct {
		name    string
		between func(t *testing.T, part string) // what happens before the second call
		want    []string
		resumed int64
	}{
		{"nothing in between", func(*testing.T, string) {}, []string{"bytes=300000-"}, half},
		{"bytes lost", func(t *testing.T, part string) { remove(t, part) }, []string{""}, 0},
		{"some bytes lost", func(t *testing.T, part string) { write(t, part, content[:9]) }, []string{"bytes=9-"}, 9},
		{"bytes damaged", func(t *testing.T, part string) { write(t, part, []byte("forged it")) }, []string{"bytes=9-", ""}, 0},
		{"more bytes than there are", func(t *testing.T, part string) { write(t, part, append(content, 1)) }, []string{"bytes=700002-", ""}, 0},
		{"all bytes, and no check", func(t *testing.T, part string) { write(t, part, content) }, []string{"bytes=700001-"}, int64(len(content))},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			e := interrupt(t, dir, half)
			want := &IncompleteError{Part: filepath.Join(dir, "set.zip.part"), Done: half, Total: int64(len(content)), Err: context.Canceled}
			if e.Part != want.Part || e.Done != want.Done || e.Total != want.Total {
				t.Fatalf("%+v", e)
			}
			if diff := cmp.Diff([]string{"set.zip.part"}, folder(t, dir)); diff != "" {
				t.Fatal(diff)
			}
			s := serve(t, whole(`"a"`))
			test.between(t, e.Part)
			r, err := quick().Fetch(t.Context(), archive(s.URL), dir)
			fetched(t, r, err, dir)
			if diff := cmp.Diff(test.want, s.requests()); diff != "" {
				t.Error(diff)
			}
			if r.Resumed != test.resumed || r.Downloaded != int64(len(content))-test.resumed {
				t.Errorf("%+v", r)
			}
		})
	}
}

// A server that never sends the rest is given up on, and what came is kept.
func TestFetch_GivingUpKeepsPart(t *testing.T) {
	s := serve(t, part(`"a"`, 300_000, breakOff))
	dir := t.TempDir()
	_, err := quick().Fetch(t.Context(), archive(s.URL), dir)
	incomplete := (*IncompleteError)(nil)
	if !errors.As(err, &incomplete) || incomplete.Done != 300_000 {
		t.Fatal(err)
	}
	want := fmt.Sprintf("fetch set: %s: unexpected EOF (tried 4 times); 300000 of 700001 bytes are in %s, and the next call goes on from there", s.URL, incomplete.Part)
	if err.Error() != want {
		t.Errorf(" got %v\nwant %s", err, want)
	}
}

// Waiting for the next attempt ends with the context.
func TestFetch_InterruptedBetweenAttempts(t *testing.T) {
	s := serve(t, status(503, "Retry-After", "3600"))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	f := quick()
	var notices []string
	f.Notice = func(text string) { notices = append(notices, text); cancel() }
	dir := t.TempDir()
	_, err := f.Fetch(ctx, archive(s.URL), dir)
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	want := []string{"set: " + s.URL + ": answers 503 Service Unavailable; going on from byte 0 in 1m0s"}
	if diff := cmp.Diff(want, notices); diff != "" {
		t.Error(diff)
	}
	if left := folder(t, dir); left != nil {
		t.Errorf("left behind: %v", left)
	}
}

// Two processes do not write to one file.
func TestFetch_Consecutive(t *testing.T) {
	s := serve(t, whole(`"a"`))
	dir := t.TempDir()
	p, err := openPartial(filepath.Join(dir, "set.zip.part"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = quick().Fetch(t.Context(), archive(s.URL), dir)
	if runtime.GOOS != "windows" && (err == nil || !strings.Contains(err.Error(), "another process is fetching it")) {
		t.Error(err)
	}
	if err := p.file.Close(); err != nil {
		t.Fatal(err)
	}
	r, err := quick().Fetch(t.Context(), archive(s.URL), dir)
	fetched(t, r, err, dir)
}

func TestFetch_ImpossibleFolder(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	write(t, file, nil)
	s := serve(t, whole(`"a"`))
	if _, err := quick().Fetch(t.Context(), archive(s.URL), file); err == nil || !strings.Contains(err.Error(), "not a directory") {
		t.Error(err)
	}
}

// Progress grows, ends at the whole, and counts the rate of this transfer alone.
func TestProgress(t *testing.T) {
	s := serve(t, part(`"a"`, 300_000, breakOff), whole(`"a"`))
	f := quick()
	f.every = time.Nanosecond
	var seen []Progress
	f.Progress = func(p Progress) { seen = append(seen, p) }
	dir := t.TempDir()
	r, err := f.Fetch(t.Context(), archive(s.URL), dir)
	fetched(t, r, err, dir)
	if !slices.IsSortedFunc(seen, func(a, b Progress) int { return int(a.Done - b.Done) }) {
		t.Error("not growing")
	}
	last := seen[len(seen)-1]
	if seen[0].Done != 0 || last.Done != r.Bytes || last.Total != r.Bytes || last.Start != 300_000 || last.Archive != "set" {
		t.Errorf("from %+v to %+v", seen[0], last)
	}
	if got := (Progress{Done: 500, Start: 300, Elapsed: 2 * time.Second}).Rate(); got != 100 {
		t.Errorf("%v bytes a second, want 100", got)
	}
}

// However a server cuts, repeats and forgets, the file comes out right.
func TestFetch_AnyServer(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		size := rapid.IntRange(0, 50).Draw(rt, "size")
		file := content[:size]
		cuts := rapid.SliceOfN(rapid.IntRange(0, size), 0, 6).Draw(rt, "cuts")
		ranges := rapid.SliceOfN(rapid.Bool(), len(cuts), len(cuts)).Draw(rt, "ranges")
		var requests atomic.Int64 // the next may come before the last handler has ended
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			request := int(requests.Add(1)) - 1
			w.Header().Set("ETag", `"a"`)
			if request < len(cuts) {
				if !ranges[request] {
					r.Header.Del("Range")
				}
				w = &cutWriter{w, cuts[request]}
			}
			http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(file))
		}))
		defer s.Close()
		a := archive(s.URL)
		a.Sum = sumOf(file)
		dir, err := os.MkdirTemp(t.TempDir(), "")
		if err != nil {
			rt.Fatal(err)
		}
		f := quick()
		f.Backoff, f.Retries = time.Microsecond, 10
		r, err := f.Fetch(t.Context(), a, dir)
		if err != nil {
			rt.Fatal(err)
		}
		if got, err := os.ReadFile(r.Path); err != nil || !bytes.Equal(got, file) {
			rt.Fatalf("%d bytes, want %d, %v", len(got), size, err)
		}
	})
}

// cutWriter breaks off after some bytes.
type cutWriter struct {
	http.ResponseWriter
	left int
}

func (c *cutWriter) Write(b []byte) (int, error) {
	if len(b) < c.left {
		c.left -= len(b)
		return c.ResponseWriter.Write(b)
	}
	_, _ = c.ResponseWriter.Write(b[:c.left]) // the client's matter
	_ = http.NewResponseController(c.ResponseWriter).Flush()
	panic(http.ErrAbortHandler)
}

func write(t *testing.T, name string, b []byte) {
	t.Helper()
	if err := os.WriteFile(name, b, 0o666); err != nil {
		t.Fatal(err)
	}
}

func remove(t *testing.T, name string) {
	t.Helper()
	if err := os.Remove(name); err != nil {
		t.Fatal(err)
	}
}
