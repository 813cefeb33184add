//go:build unix

package samebits

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/csv"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/cpu"

	"fedpace/cmd"
	"fedpace/internal/testkit/installed"
	"fedpace/internal/testkit/slow"
)

var update = flag.Bool("update", false, "write testdata/digests.csv anew")

// instructions are those that processes here use, unless a test says otherwise. Models
// have the bits of their kernel class, and every amd64 machine of today has these.
const instructions = "avx2"

// digests name the bits of a run.
type digests struct {
	model       string // empty where nothing is learned
	fingerprint string
	rounds      string
	events      string // empty where no timeline is kept
}

var columns = []string{"name", "model_sha256", "fingerprint", "rounds_sha256", "events_sha256"}

func (d digests) row(name string) []string {
	return []string{name, d.model, d.fingerprint, d.rounds, d.events}
}

// differences lists which digests are others.
func (d digests) differences(want digests) []string {
	var list []string
	got, wanted := d.row(""), want.row("")
	for i, column := range columns {
		if got[i] != wanted[i] {
			list = append(list, fmt.Sprintf("%s is %s, was %s", column, got[i], wanted[i]))
		}
	}
	return list
}

const digestsFile = "testdata/digests.csv"

func readDigests(t *testing.T) map[string]digests {
	t.Helper()
	f, err := os.Open(digestsFile)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]digests{}
	for _, r := range rows[1:] {
		all[r[0]] = digests{r[1], r[2], r[3], r[4]}
	}
	return all
}

func writeDigests(t *testing.T, all map[string]digests) {
	t.Helper()
	var text bytes.Buffer
	w := csv.NewWriter(&text)
	rows := [][]string{columns}
	for _, r := range runs {
		rows = append(rows, all[r.name].row(r.name))
	}
	if err := w.WriteAll(rows); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(digestsFile, text.Bytes(), 0o666); err != nil {
		t.Fatal(err)
	}
}

// asProgram in the environment makes the test's binary the program itself: no test waits until
// another is linked.
const asProgram = "FEDPACE_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		cmd.Main()
	}
	os.Exit(m.Run())
}

// workshop is a folder with the files that runs read.
type workshop struct {
	inputs string // where the program runs
	trains bool   // this machine has the instructions
	by     string // the instructions

	program []string // the command of the program
}

func newWorkshop(t *testing.T) *workshop {
	t.Helper()
	dir := t.TempDir()
	w := &workshop{inputs: filepath.Join(dir, "inputs"), by: instructions, program: os.Args[:1]}
	if err := os.CopyFS(dir, os.DirFS("testdata")); err != nil {
		t.Fatal(err)
	}
	w.trains = runtime.GOARCH == "amd64" && cpu.X86.HasAVX2 && cpu.X86.HasFMA
	if !w.trains {
		t.Logf("this machine lacks the instructions %s: only runs that learn nothing are compared", instructions)
	}
	return w
}

// command is the program with arguments. Nothing but those and the instructions
// decides what it computes.
func (w *workshop) command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	words := slices.Concat(w.program, args)
	c := exec.CommandContext(t.Context(), words[0], words[1:]...)
	c.Dir = w.inputs
	c.Env = append(os.Environ(), asProgram+"=1")
	if w.trains {
		c.Env = append(c.Env, "FEDPACE_KERNEL="+w.by)
	}
	return c
}

// finish runs the program to its end, which is a success.
func (w *workshop) finish(t *testing.T, args ...string) string {
	t.Helper()
	var out, errs bytes.Buffer
	c := w.command(t, args...)
	c.Stdout, c.Stderr = &out, &errs
	if err := c.Run(); err != nil {
		t.Fatalf("fedpace %s: %v: %s", shell(args), err, errs.String())
	}
	return out.String()
}

// shell writes arguments as one would type them.
func shell(args []string) string {
	var list []string
	for _, a := range args {
		if strings.ContainsAny(a, "{}[]*?$; ") {
			a = "'" + a + "'"
		}
		list = append(list, a)
	}
	return strings.Join(list, " ")
}

// arguments of the command line that plays a run into a folder.
func (r run) arguments(out string) []string {
	args := append([]string{"run", "--quiet", "--out", out}, r.args...)
	if len(r.args) == 0 {
		args = append(args, r.settings()...)
	}
	return args
}

func (r run) settings() []string {
	args := []string{"--set", "seed=7"}
	for _, s := range strings.Fields(r.sets) {
		args = append(args, "--set", s)
	}
	return args
}

// digestsOf reads the digests of a complete run from its folder.
func digestsOf(t *testing.T, dir string) digests {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "summary.json"))
	if err != nil {
		t.Fatal(err)
	}
	var s struct {
		Completed   bool
		Rounds      int
		Outcomes    map[string]int
		Model       string `json:"model_sha256"` // null where nothing is learned
		Fingerprint string
	}
	if err := json.Unmarshal(text, &s); err != nil {
		t.Fatal(err)
	}
	if !s.Completed || s.Rounds == 0 || s.Fingerprint == "" {
		t.Fatalf("it is not complete: %s", text)
	}
	t.Logf("%d rounds, %v", s.Rounds, s.Outcomes)
	rounds := firstColumns(t, fileOf(t, filepath.Join(dir, "rounds.csv")))
	return digests{s.Model, s.Fingerprint, hashOf(rounds), hashOf(femnists(fileOf(t, filepath.Join(dir, "events.log"))))}
}

// femnists is an events.log with the name of the task that runs of task custom had
// when the digests were made. The task's name stands in the first message alone, behind
// the file's head (12 bytes) and the message's own: its length, its CRC-32C and that of
// these two.
func femnists(log []byte) []byte {
	const head, frame = 12, 12
	if len(log) < head+frame {
		return log
	}
	n := head + frame + int(binary.LittleEndian.Uint32(log[head:]))
	message := bytes.Replace(log[head+frame:n], []byte("\x12\x06custom"), []byte("\x12\x07femnist"), 1)
	message[1] += byte(len(message) - (n - head - frame)) // the length of the record in it, below 128
	castagnoli := crc32.MakeTable(crc32.Castagnoli)
	b := binary.LittleEndian.AppendUint32(bytes.Clone(log[:head]), uint32(len(message)))
	b = binary.LittleEndian.AppendUint32(b, crc32.Checksum(message, castagnoli))
	b = binary.LittleEndian.AppendUint32(b, crc32.Checksum(b[head:], castagnoli))
	return slices.Concat(b, message, log[n:])
}

// digested is the columns of rounds.csv that the digests are of: those of the version
// that wrote them. Later versions have more columns behind these.
const digested = "round,virtual_seconds,round_seconds,local_steps,learning_rate,cohort," +
	"accepted,late,dropped,lost,cancelled,refused,training_loss,validation_loss,validation_accuracy,sgd_steps"

// firstColumns cuts a rounds.csv to those columns.
func firstColumns(t *testing.T, text []byte) []byte {
	t.Helper()
	if !bytes.HasPrefix(text, []byte(digested+",")) && !bytes.HasPrefix(text, []byte(digested+"\n")) {
		t.Fatalf("rounds.csv begins %.300q, want the columns %s", text, digested)
	}
	var cut []byte
	for line := range bytes.Lines(text) {
		cells := bytes.Split(bytes.TrimSuffix(line, []byte("\n")), []byte(","))
		cut = append(append(cut, bytes.Join(cells[:strings.Count(digested, ",")+1], []byte(","))...), '\n')
	}
	return cut
}

// fileOf is what a file holds, nothing where there is none.
func fileOf(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return text
}

// hashOf is the SHA-256 of a file's text, empty of none.
func hashOf(text []byte) string {
	if text == nil {
		return ""
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// makeInputs makes the files of data that are too large to keep, and those that
// the program makes of others.
func (w *workshop) makeInputs(t *testing.T) {
	t.Helper()
	// CIFAR-100's binary layout: coarse label, fine label, pixels. Every fine
	// label belongs to one coarse one, and 20 labels have images.
	folder := filepath.Join(w.inputs, "cifar100")
	if err := os.Mkdir(folder, 0o777); err != nil {
		t.Fatal(err)
	}
	for name, images := range map[string]int{"train.bin": 240, "test.bin": 20} {
		random := rand.New(rand.NewPCG(5, uint64(images)))
		var file []byte
		for i := range images {
			fine := i % 20 * 5
			file = append(file, byte(fine/5), byte(fine))
			for range 3 * 32 * 32 {
				file = append(file, byte(fine+random.IntN(120)))
			}
		}
		if err := os.WriteFile(filepath.Join(folder, name), file, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	w.finish(t, "data", "prepare", "own.parquet", "--out", "prepared.fedpace", "--seed", "3")
	for _, kind := range []string{"iid", "dirichlet", "shards", "quantity"} {
		w.finish(t, "data", "partition", "own.parquet", "--kind", kind, "--clients", "6", "--seed", "3", "--out", kind+".fedpace")
	}
	w.finish(t, "data", "partition", "cifar100", "--kind", "pachinko", "--clients", "4", "--seed", "3", "--out", "pachinko.fedpace")
}

// TestBits_Runs plays every run and compares it with what an earlier
// version computed.
func TestBits_Runs(t *testing.T) {
	w := newWorkshop(t)
	if *update && !w.trains {
		t.Fatalf("-update needs a machine with the instructions %s", instructions)
	}
	w.makeInputs(t)
	want := map[string]digests{}
	if !*update {
		want = readDigests(t)
	}
	var mu sync.Mutex
	got := map[string]digests{}
	t.Run("runs", func(t *testing.T) {
		for _, r := range runs {
			t.Run(r.name, func(t *testing.T) {
				t.Parallel()
				before, known := want[r.name]
				if !w.trains && before.model != "" {
					t.Skip("it learns, and this machine lacks the instructions " + instructions)
				}
				out := filepath.Join(t.TempDir(), "run")
				args := r.arguments(out)
				w.finish(t, args...)
				d := digestsOf(t, out)
				mu.Lock()
				got[r.name] = d
				mu.Unlock()
				switch {
				case *update:
				case !known:
					t.Errorf("%s has no row for it: go test ./internal/samebits -update", digestsFile)
				default:
					w.compare(t, d, before, args)
				}
			})
		}
	})
	if !t.Failed() && *update {
		if len(got) != len(runs) {
			t.Fatalf("-update plays all %d runs, not %d", len(runs), len(got))
		}
		writeDigests(t, got)
	}
	for name := range want {
		if _, played := got[name]; !played && w.trains && flag.Lookup("test.run").Value.String() == "" {
			t.Errorf("%s has a row for %s, which is no run", digestsFile, name)
		}
	}
}

// Instructions of one kernel class give the same bits.
func TestBits_OtherInstructions(t *testing.T) {
	slow.Test(t, "learn compares the instruction sets on each layer")
	slow.Test(t, "it plays all runs again with other instructions")
	w := newWorkshop(t)
	if x := &cpu.X86; !x.HasAVX512F || !x.HasAVX512BW || !x.HasAVX512DQ || !x.HasAVX512VL {
		t.Skip("this machine lacks AVX-512")
	}
	w.by = "avx512"
	w.makeInputs(t)
	for _, r := range runs {
		_, want := runNamed(t, r.name)
		if want.model == "" {
			continue
		}
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			out := filepath.Join(t.TempDir(), "run")
			args := r.arguments(out)
			w.finish(t, args...)
			w.compare(t, digestsOf(t, out), want, args)
		})
	}
}

// Plain Go gives the same bits on arm64, in every run that learns: its compiler could fuse a multiplication with
// an addition. All columns of rounds.csv are compared, and what is known of each client.
func TestBits_OtherArchitecture(t *testing.T) {
	slow.Test(t, "it plays all runs in an emulator")
	qemu := installed.Program(t, "qemu-aarch64-static", "qemu-user-static")
	here := newWorkshop(t)
	here.by = "go"
	here.makeInputs(t)
	there := *here
	there.program = []string{qemu, filepath.Join(t.TempDir(), "fedpace")}
	build := exec.Command("go", "build", "-o", there.program[1], "../../cmd/fedpace")
	build.Env = append(os.Environ(), "GOOS=linux", "GOARCH=arm64", "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, r := range runs {
		if _, want := runNamed(t, r.name); want.model == "" {
			continue
		}
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			var rounds [2]string
			var made [2]digests
			var commands [2][]string
			for i, w := range []*workshop{here, &there} {
				out := filepath.Join(t.TempDir(), "run")
				commands[i] = append(r.arguments(out), "--set", "kernel=go")
				w.finish(t, commands[i]...)
				made[i] = digestsOf(t, out)
				rounds[i] = hashOf(slices.Concat(
					fileOf(t, filepath.Join(out, "rounds.csv")),
					fileOf(t, filepath.Join(out, "clients.parquet")),
				))
			}
			here.compare(t, made[1], made[0], commands[:]...)
			if rounds[0] != rounds[1] {
				t.Errorf("rounds.csv differs: %s", shell(commands[1]))
			}
		})
	}
}

// compare fails with what is other, and the command lines that made it.
func (w *workshop) compare(t *testing.T, got, want digests, commands ...[]string) {
	t.Helper()
	list := got.differences(want)
	if len(list) == 0 {
		return
	}
	var said []string
	for _, c := range commands {
		said = append(said, fmt.Sprintf("FEDPACE_KERNEL=%s fedpace %s", w.by, shell(c)))
	}
	t.Errorf("it computes other bits:\n  %s\nin internal/samebits/testdata/inputs:\n  %s", strings.Join(list, "\n  "), strings.Join(said, "\n  "))
}

// runNamed finds a run with its digests.
func runNamed(t *testing.T, name string) (run, digests) {
	t.Helper()
	d, ok := readDigests(t)[name]
	if !ok {
		t.Fatalf("%s has no row for %s", digestsFile, name)
	}
	for _, r := range runs {
		if r.name == name {
			return r, d
		}
	}
	t.Fatalf("there is no run %s", name)
	return run{}, digests{}
}

// Two runs of the table differ in nothing but train: they have one history.
func TestBits_TimingOnly(t *testing.T) {
	all := readDigests(t)
	if a, b := all["trained"], all["untrained"]; a.fingerprint != b.fingerprint || a.model == "" || b.model != "" {
		t.Errorf("trained %v, untrained %v", a, b)
	}
}
