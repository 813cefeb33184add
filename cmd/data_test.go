package cmd

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
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"
	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"fedpace/cmd/internal/cli"
	"fedpace/cmd/internal/dataset"
	"fedpace/data/fetch"
	"fedpace/data/synthetic"
)

// callData runs a data command; archives are those that fetch knows.
func callData(ctx context.Context, archives []fetch.Archive, args ...string) (status int, stdout, stderr string) {
	root := &cobra.Command{Use: "fedpace", SilenceErrors: true, SilenceUsage: true}
	root.AddCommand(dataset.Command(archives, fetch.Fetcher{Stall: 5 * time.Second, Backoff: time.Millisecond, Retries: 1}))
	var out, errs bytes.Buffer
	status = cli.Perform(ctx, root, append([]string{"data"}, args...), &out, &errs)
	return status, out.String(), errs.String()
}

// progress are the lines by which a command shows that it is still reading: on a busy machine there may be some.
var progress = regexp.MustCompile(`(?m)^reading .*\n`)

// success runs a data command that says nothing on standard error but how far it has read.
func success(t *testing.T, args ...string) string {
	t.Helper()
	status, stdout, stderr := callData(t.Context(), nil, args...)
	if status != 0 || progress.ReplaceAllString(stderr, "") != "" {
		t.Fatalf("%v: status %d, %s", args, status, stderr)
	}
	return stdout
}

func putFile(t *testing.T, path string, b []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b, 0o666); err != nil {
		t.Fatal(err)
	}
}

// tweetsAt writes Sentiment140's CSV: 12 users with 10 to 21 tweets.
func tweetsAt(t *testing.T, path string) {
	t.Helper()
	var b strings.Builder
	for user := range 12 {
		for i := range 10 + user {
			fmt.Fprintf(&b, "\"%d\",\"1\",\"d\",\"NO_QUERY\",\"user%d\",\"some words %d\"\n", 4*((user+i)%2), user, i%5)
		}
	}
	putFile(t, path, []byte(b.String()))
}

// imagesAt writes CIFAR-100's binary files, 3 training images and one test
// image of each class.
func imagesAt(t *testing.T, dir string) {
	t.Helper()
	record := make([]byte, 2+3*32*32)
	var train, test []byte
	for fine := range 100 {
		record[0], record[1] = byte(fine/5), byte(fine)
		train = append(train, bytes.Repeat(record, 3)...)
		test = append(test, record...)
	}
	putFile(t, filepath.Join(dir, "train.bin"), train)
	putFile(t, filepath.Join(dir, "test.bin"), test)
}

// inFolder makes and enters a folder with the sets of these tests.
func inFolder(t *testing.T) {
	t.Helper()
	t.Chdir(t.TempDir())
	tweetsAt(t, "tweets.csv")
	imagesAt(t, "images")
}

// has checks that a text holds all of some fragments.
func has(t *testing.T, text string, fragments ...string) {
	t.Helper()
	for _, f := range fragments {
		if !strings.Contains(text, f) {
			t.Errorf("%q is absent from\n%s", f, text)
		}
	}
}

// 12 users with 10 to 21 tweets, 8 to 16 of which train.
func TestInfo(t *testing.T) {
	inFolder(t)
	has(t, success(t, "info", "tweets.csv"), "clients    12\n", "held out\n", "per client 8 to 16", "###", "classes    2, 2 of them", "label skew 0.", "MB\n")
	has(t, success(t, "info", "tweets.csv", "--min-tweets", "20", "--task", "sent140"), "clients    2\n", "at least 20 tweets")
	has(t, success(t, "info", "tweets.csv", "--partition", "shards", "--shards", "1", "--clients", "5"), "SYNTHETIC", "clients    5\n", "1 shards")
	has(t, success(t, "info", "images"), "SYNTHETIC", "Pachinko", "clients    3\n")
	has(t, success(t, "info", "images", "--clients", "6"), "Pachinko", "clients    6\n")
}

// The made sets are called synthetic, and their knob moves the skew.
func TestData_InfoOnSyntheticSets(t *testing.T) {
	for _, task := range synthetic.Tasks() {
		has(t, success(t, "info", "synthetic:"+task, "--clients", "3"), task+" (synthetic), SYNTHETIC", "clients    3\n", "made on demand")
	}
	a := success(t, "info", "synthetic:femnist", "--clients", "5", "--heterogeneity", "0")
	b := success(t, "info", "synthetic:femnist", "--clients", "5", "--heterogeneity", "50")
	c := success(t, "info", "synthetic:femnist", "--clients", "5", "--heterogeneity", "50", "--seed", "2")
	if a == b || b == c {
		t.Error("neither heterogeneity nor seed changes anything")
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	status, stdout, stderr := callData(ended, nil, "info", "synthetic:sent140")
	if status != 130 || stdout != "" || stderr != "fedpace: interrupted: nothing was written\n" {
		t.Errorf("status %d, %q, %s", status, stdout, stderr)
	}
}

// A figure says what its set is, and has its name when it is whole.
func TestFigures(t *testing.T) {
	inFolder(t)
	has(t, success(t, "info", "tweets.csv", "--plot", "a.SVG"), "\nfigure     a.SVG\n")
	success(t, "info", "tweets.csv", "--partition", "iid", "--plot", "b.svg")
	success(t, "info", "synthetic:shakespeare", "--clients", "1", "--plot", "c.svg")
	natural, dealt := read(t, "a.SVG"), read(t, "b.svg")
	has(t, natural, "<svg", "sent140 (csv): clients 12", "training samples of a client", ">class<")
	if strings.Contains(natural, "SYNTHETIC") || !strings.Contains(dealt, "SYNTHETIC: sent140") {
		t.Error("the figures do not say what is synthetic")
	}
	again := success(t, "info", "tweets.csv", "--plot", "a.SVG")
	if natural != read(t, "a.SVG") || again == "" {
		t.Error("the same set, another figure")
	}
	if status, stdout, stderr := callData(t.Context(), nil, "info", "tweets.csv", "--plot", "none/x.svg"); status != 1 || stdout != "" || !strings.HasPrefix(stderr, "fedpace: --plot: ") {
		t.Errorf("status %d, %q, %s", status, stdout, stderr)
	}
	if left := listing(t, "."); !slices.Equal(left, []string{"a.SVG", "b.svg", "c.svg", "images", "tweets.csv"}) {
		t.Errorf("left behind: %v", left)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func listing(t *testing.T, dir string) []string {
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

// What a prepared file says and holds is the set; it is made anew when, and
// only when, its source or options have changed or it is damaged.
func TestPrepare(t *testing.T) {
	inFolder(t)
	info := success(t, "info", "tweets.csv")
	use := "use        fedpace run --set task=sent140 --set data=t.fedpace\n"
	made := success(t, "prepare", "tweets.csv", "--out", "t.fedpace")
	has(t, made, "prepared   t.fedpace, ", "(not prepared yet)\n"+info+use)
	again := success(t, "prepare", "tweets.csv", "--out", "t.fedpace")
	if want := "prepared   t.fedpace is up to date\n" + info + use; again != want {
		t.Error(cmp.Diff(want, again))
	}
	if diff := cmp.Diff(info, success(t, "info", "t.fedpace")); diff != "" {
		t.Error(diff)
	}
	has(t, success(t, "prepare", "tweets.csv", "--out", "t.fedpace", "--seed", "2"), "(t.fedpace: stale: seed was 1, is 2)")
	damaged := []byte(read(t, "t.fedpace"))
	damaged[len(damaged)/2] ^= 1
	putFile(t, "t.fedpace", damaged)
	has(t, success(t, "prepare", "tweets.csv", "--out", "t.fedpace", "--seed", "2"), "(t.fedpace: damaged: ")
	if left := listing(t, "."); !slices.Equal(left, []string{"images", "t.fedpace", "tweets.csv"}) {
		t.Errorf("left behind: %v", left)
	}
}

// Every kind of partition makes a file that is the set that info describes.
func TestPartition(t *testing.T) {
	inFolder(t)
	for _, test := range []struct {
		path string
		args []string
		want string
	}{
		{"tweets.csv", []string{"iid", "--clients", "4"}, "independent and identically distributed"},
		{"tweets.csv", []string{"dirichlet", "--alpha", "0.3", "--clients", "4"}, "Dirichlet(0.3) over labels"},
		{"tweets.csv", []string{"shards", "--clients", "4"}, "2 shards"},
		{"tweets.csv", []string{"quantity", "--alpha", "2", "--clients", "4", "--min-samples", "3"}, "sizes by Dirichlet(2)"},
		{"images", []string{"pachinko", "--beta", "5", "--clients", "4"}, "Dirichlet(0.1) over coarse and Dirichlet(5) over fine"},
		{"images", []string{"dirichlet", "--clients", "4"}, "Dirichlet(0.5)"},
	} {
		t.Run(test.path+" "+test.args[0], func(t *testing.T) {
			out := filepath.Join(t.TempDir(), "made")
			made := success(t, append([]string{"partition", test.path, "--out", out, "--kind"}, test.args...)...)
			info := success(t, append([]string{"info", test.path, "--partition"}, test.args...)...)
			has(t, made, "prepared   ", info, "SYNTHETIC", test.want, "clients    4\n", "--set data="+out)
			if diff := cmp.Diff(info, success(t, "info", out)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// The statuses and the one line that a mistake gives, and no file.
func TestData_Mistakes(t *testing.T) {
	inFolder(t)
	success(t, "prepare", "tweets.csv", "--out", "t.fedpace")
	putFile(t, "precious", []byte("mine"))
	before := listing(t, ".")
	for _, test := range []struct {
		args   []string
		status int
		want   string // at the beginning
	}{
		{[]string{"inof"}, 2, `unknown command "inof" for "fedpace data" (did you mean info?) (see fedpace data --help)`},
		{[]string{"info"}, 2, `found 0 arguments, want one: the set's path, or synthetic:TASK (see fedpace data info --help)`},
		{[]string{"info", "a", "b"}, 2, `found 2 arguments, want one`},
		{[]string{"info", "tweets.csv", "--fast"}, 2, `unknown flag: --fast (see fedpace data info --help)`},
		{[]string{"info", "tweets.csv", "--task", "sent"}, 2, `--task: "sent": want one of cifar100, femnist, logistic, quadratic, sent140, shakespeare`},
		{[]string{"info", "tweets.csv", "--alpha", "0.3"}, 2, `--alpha: goes with --partition dirichlet, pachinko, quantity`},
		{[]string{"info", "tweets.csv", "--partition", "natural"}, 2, `--partition: "natural": want one of iid, dirichlet, shards, pachinko, quantity`},
		{[]string{"info", "tweets.csv", "--clients", "0"}, 2, `--clients 0: want more than 0`},
		{[]string{"info", "tweets.csv", "--partition", "dirichlet", "--alpha", "NaN"}, 2, `--alpha NaN: want more than 0`},
		{[]string{"info", "tweets.csv", "--plot", "figure.pdf"}, 2, `--plot: "figure.pdf": want a name that ends in .svg`},
		{[]string{"info", "none"}, 1, `data: stat none: no such file or directory`},
		{[]string{"info", "tweets.csv", "--task", "femnist"}, 1, `data: tweets.csv: found sent140 (sent140 (csv)), want femnist`},
		{[]string{"info", "tweets.csv", "--clients", "5"}, 1, `--clients 5: tweets.csv has 12 clients of its own; --partition deals its samples to others`},
		{[]string{"info", "tweets.csv", "--partition", "iid", "--clients", "5000"}, 1, `data: tweets.csv: partition: 5000 clients of`},
		{[]string{"info", "tweets.csv", "--partition", "pachinko"}, 1, `data: tweets.csv: partition: pachinko needs coarse labels`},
		{[]string{"info", "synthetic:mnist"}, 1, `data: no synthetic set for task "mnist"`},
		{[]string{"info", "synthetic:femnist", "--partition", "iid"}, 1, `--partition: the clients of a synthetic set are made with it`},
		{[]string{"info", "t.fedpace", "--partition", "iid"}, 1, `data: t.fedpace: a prepared file holds its clients`},
		{[]string{"prepare", "tweets.csv"}, 2, `--out is absent: want the file to write (see fedpace data prepare --help)`},
		{[]string{"prepare", "synthetic:femnist", "--out", "x"}, 1, `synthetic:femnist: a synthetic set is made as it is used`},
		{[]string{"prepare", "t.fedpace", "--out", "x"}, 1, `t.fedpace: is a prepared file; want the set that it was made from`},
		{[]string{"prepare", "tweets.csv", "--out", "precious"}, 1, `--out precious: is there and is no prepared file; remove it, or write to another`},
		{[]string{"prepare", "tweets.csv", "--out", "tweets.csv"}, 1, `--out tweets.csv: is there and is no prepared file`},
		{[]string{"prepare", "tweets.csv", "--out", "images"}, 1, `--out images: is a folder, want a file`},
		{[]string{"prepare", "images", "--out", "images/x"}, 1, `--out images/x: is inside images, which is read whole; want a file elsewhere`},
		{[]string{"prepare", "none", "--out", "x"}, 1, `data: `},
		{[]string{"partition", "tweets.csv", "--out", "x"}, 2, `--kind is absent: want one of iid, dirichlet, shards, pachinko, quantity`},
		{[]string{"partition", "tweets.csv", "--out", "x", "--kind", "iid", "--beta", "3"}, 2, `--beta: goes with --kind pachinko`},
		{[]string{"partition", "tweets.csv", "--kind", "iid"}, 2, `--out is absent: want the file to write (see fedpace data partition --help)`},
		{[]string{"fetch"}, 2, `found 0 arguments, want one: the name of an archive`},
		{[]string{"fetch", "mnist"}, 2, `"mnist" is no archive, want one of`},
	} {
		t.Run(strings.Join(test.args, " "), func(t *testing.T) {
			status, stdout, stderr := callData(t.Context(), nil, test.args...)
			if status != test.status || stdout != "" || !strings.HasPrefix(stderr, "fedpace: "+test.want) || strings.Count(stderr, "\n") != 1 {
				t.Errorf("status %d, want %d\nstdout %q\n got %s\nwant %s", status, test.status, stdout, stderr, test.want)
			}
		})
	}
	if diff := cmp.Diff(before, listing(t, ".")); diff != "" || read(t, "precious") != "mine" {
		t.Error(diff)
	}
}

// Every example, of the help and of the page on data, can be typed as it
// stands.
func TestData_Examples(t *testing.T) {
	root := rootCommand(program{})
	of, _, err := root.Find([]string{"data"})
	if err != nil {
		t.Fatal(err)
	}
	page := read(t, filepath.Join("..", "docs", "data.md"))
	examples := page
	for _, c := range append(of.Commands(), of) {
		if c.Example == "" || c.Long == "" && !c.HasSubCommands() {
			t.Errorf("%s has no example or no explanation", c.CommandPath())
		}
		examples += "\n" + c.Example
	}
	typed := 0
	for line := range strings.Lines(strings.ReplaceAll(examples, "\\\n", " ")) {
		line, _, _ = strings.Cut(line, " > ") // into a file
		if !strings.HasPrefix(line, "  ") || !strings.HasPrefix(strings.TrimSpace(line), "fedpace data ") {
			continue
		}
		typed++
		found, rest, err := root.Find(strings.Fields(line)[1:])
		if err == nil {
			err = found.ParseFlags(rest)
		}
		if err == nil && found.Args != nil {
			err = found.Args(found, found.Flags().Args())
		}
		if err != nil {
			t.Errorf("%s: %v", strings.TrimSpace(line), err)
		}
	}
	if typed < 12 {
		t.Errorf("only %d examples", typed)
	}
	for _, a := range fetch.Archives {
		has(t, page, "`"+a.Name+"`", "`"+a.File+"`")
	}
	// A row of a table may have several kinds in its first cell.
	cells := strings.Join(regexp.MustCompile("(?m)^`[^|\n]*\\|").FindAllString(page, -1), "\n")
	for _, kind := range dataset.PartitionKinds() {
		has(t, cells, "`"+kind+"`")
	}
}

// served is an archive of this content, at a server that answers with handler.
func served(t *testing.T, content []byte, handler http.HandlerFunc) []fetch.Archive {
	t.Helper()
	s := httptest.NewServer(handler)
	t.Cleanup(s.Close)
	sum := sha256.Sum256(content)
	return []fetch.Archive{{
		Name: "femnist", About: "a set", File: "set.zip", URLs: []string{s.URL}, Size: int64(len(content)), Sum: fetch.Checksum{Algorithm: "sha256", Hex: hex.EncodeToString(sum[:])},
	}}
}

func TestFetch(t *testing.T) {
	content := bytes.Repeat([]byte("0123456789"), 100_000)
	archives := served(t, content, func(w http.ResponseWriter, r *http.Request) {
		http.ServeContent(w, r, "", time.Unix(1e9, 0), bytes.NewReader(content))
	})
	t.Chdir(t.TempDir())
	next := "next: fedpace run --set task=femnist --set data=data/set.zip\n"
	status, stdout, stderr := callData(t.Context(), archives, "fetch", "femnist")
	if want := "data/set.zip: 1.0 MB, sha256 is right; downloaded\n" + next; status != 0 || stdout != want {
		t.Errorf("status %d, %s\n%s", status, stderr, cmp.Diff(want, stdout))
	}
	if want := "femnist  0 bytes of 1.0 MB  0 %\n"; stderr != want {
		t.Error(cmp.Diff(want, stderr))
	}
	status, stdout, stderr = callData(t.Context(), archives, "fetch", "femnist")
	if want := "data/set.zip: 1.0 MB, sha256 is right; was there, nothing downloaded\n" + next; status != 0 || stdout != want || stderr != "" {
		t.Errorf("status %d, %s\n%s", status, stderr, cmp.Diff(want, stdout))
	}
	status, stdout, stderr = callData(t.Context(), archives, "fetch", "femnist", "--to", "else/where", "--quiet")
	if status != 0 || stderr != "" || read(t, "else/where/set.zip") != string(content) {
		t.Errorf("status %d, %s, %s", status, stdout, stderr)
	}
}

// An interruption says what is there; the same command goes on from there.
func TestFetch_Interrupted(t *testing.T) {
	content := bytes.Repeat([]byte("0123456789"), 100_000)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	first := true
	archives := served(t, content, func(w http.ResponseWriter, r *http.Request) {
		if !first {
			http.ServeContent(w, r, "", time.Unix(1e9, 0), bytes.NewReader(content))
			return
		}
		first = false
		w.Header().Set("Last-Modified", time.Unix(1e9, 0).UTC().Format(http.TimeFormat))
		w.Header().Set("Content-Length", "1000000")
		_, _ = w.Write(content[:250_000]) // the client's matter
		_ = http.NewResponseController(w).Flush()
		if err := await("data", r.Context().Done(), func() bool {
			stat, err := os.Stat("data/set.zip.part")
			return err == nil && stat.Size() == 250_000
		}); err != nil {
			t.Error(err)
		}
		cancel()
		<-r.Context().Done()
	})
	t.Chdir(t.TempDir())
	status, stdout, stderr := callData(ctx, archives, "fetch", "femnist", "--quiet")
	want := "fedpace: interrupted: 250000 of 1000000 bytes are in data/set.zip.part, and the next call goes on from there\n"
	if status != 130 || stdout != "" || stderr != want {
		t.Errorf("status %d, %q\n got %s\nwant %s", status, stdout, stderr, want)
	}
	status, stdout, stderr = callData(t.Context(), archives, "fetch", "femnist", "--quiet")
	if want := "data/set.zip: 1.0 MB, sha256 is right; 750.0 kB downloaded, the rest was there\n"; status != 0 || !strings.HasPrefix(stdout, want) {
		t.Errorf("status %d, %s\n%s", status, stderr, cmp.Diff(want, stdout))
	}
}

// Failures have status 1, one last line, and before it what was tried again.
func TestFetch_Fails(t *testing.T) {
	t.Chdir(t.TempDir())
	content := []byte("content")
	archives := served(t, content, func(w http.ResponseWriter, r *http.Request) { http.NotFound(w, r) })
	status, stdout, stderr := callData(t.Context(), archives, "fetch", "femnist")
	if want := "fedpace: fetch femnist: " + archives[0].URLs[0] + ": answers 404 Not Found\n"; status != 1 || stdout != "" || stderr != want {
		t.Errorf("status %d, %q\n got %s\nwant %s", status, stdout, stderr, want)
	}
	archives = served(t, content, func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "another") })
	status, stdout, stderr = callData(t.Context(), archives, "fetch", "femnist", "--quiet")
	sum := sha256.Sum256([]byte("another"))
	if status != 1 || stdout != "" || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, hex.EncodeToString(sum[:])) || !strings.Contains(stderr, archives[0].Sum.Hex) {
		t.Errorf("status %d, %q, %s", status, stdout, stderr)
	}
	archives = served(t, content, func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
	status, _, stderr = callData(t.Context(), archives, "fetch", "femnist")
	if status != 1 || strings.Count(stderr, "\n") != 2 || !strings.Contains(stderr, "going on from byte 0 in 1ms\n") {
		t.Errorf("status %d, %s", status, stderr)
	}
	if left := listing(t, "data"); left != nil {
		t.Errorf("left behind: %v", left)
	}
}

// await asks done after each change of the files in dir, a folder that need not
// be there yet, until it says yes or ended is closed.
func await(dir string, ended <-chan struct{}, done func() bool) error {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return err
	}
	defer func() { _ = w.Close() }() // it was only read
	if err := w.Add(filepath.Dir(dir)); err != nil {
		return err
	}
	limit := time.After(3 * time.Minute)
	for watched := false; !done(); {
		if !watched && w.Add(dir) == nil {
			watched = true
			continue // it may have been done before
		}
		select {
		case <-w.Events:
		case <-ended:
			return nil
		case err := <-w.Errors:
			if !errors.Is(err, fsnotify.ErrEventOverflow) {
				return err
			}
		case <-limit:
			return fmt.Errorf("nothing came of waiting for %s", dir)
		}
	}
	return nil
}
