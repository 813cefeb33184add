package chaos

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"fedpace/internal/testkit/slow"
)

// Another program takes all memory of a server's JetStream, and keeps it: the run says at once which limit to raise,
// ends within a minute by that reason, and is resumed when there is memory again.
func TestServer_MemoryFull(t *testing.T) {
	slow.Test(t, "a run waits for memory for 45 seconds")
	t.Parallel()
	c := courses[1]
	want := c.undisturbed(t)
	inTime(t, func() bool { return c.lacksMemory(t, want) })
}

// lacksMemory plays the course on a server whose memory gets full, and reports whether it was before the run's end.
func (c *course) lacksMemory(t *testing.T, want result) bool {
	t.Helper()
	dir := t.TempDir()
	config := filepath.Join(dir, "nats.conf")
	port := heldPort(t)
	text := fmt.Sprintf("listen: 127.0.0.1:%d\njetstream { store_dir: %q, max_mem: 16MB }\n", port, filepath.Join(dir, "js"))
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s := newServer(t, serverOptions{Config: config, Port: port})
	w := watch(t, s)
	out := filepath.Join(dir, "run")
	host(t, s.url())
	run := c.coordinate(t, s.url(), out)
	run.until("is there with 1 trainer", patience)
	w.tasks(16, run)
	free := fillMemory(t, s.url())
	full := time.Now()
	const remedy = "give JetStream more memory (max_mem of the server's jetstream block"
	if !run.says(remedy, patience) {
		free()
		run.finish(patience)
		return false
	}
	t.Logf("the limit is named after %.1f s", time.Since(full).Seconds())
	run.fails(remedy, patience)
	t.Logf("the run has ended after %.1f s: %s", time.Since(full).Seconds(), run.lastLine())
	if !strings.Contains(run.lastLine(), "fedpace resume") || strings.Contains(run.said(), "--force") {
		t.Errorf("the run advises %s", run.lastLine())
	}
	free()
	fedpace(t, "resume", out, "--elsewhere", "--nats", s.url()).finish(patience)
	resultOf(t, out).equals(t, want, "after a lack of memory")
	return true
}

// fillMemory takes all memory of a server's JetStream, again and again as some becomes free, until free is called.
func fillMemory(t *testing.T, url string) (free func()) {
	t.Helper()
	conn, err := nats.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	js, err := jetstream.New(conn)
	if err == nil {
		_, err = js.CreateStream(t.Context(), jetstream.StreamConfig{
			Name:     "other",
			Subjects: []string{"other"},
			Storage:  jetstream.MemoryStorage,
		})
	}
	if err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		for size := 256 << 10; ; {
			select {
			case <-stop:
				return
			default:
			}
			_, err := js.Publish(t.Context(), "other", make([]byte, size))
			isFull := errors.As(err, new(*jetstream.APIError))
			switch {
			case isFull && size > 1:
				size /= 2
			case isFull:
				outage(time.Millisecond)
			}
		}
	}()
	return func() {
		close(stop)
		<-stopped
		if err := js.DeleteStream(t.Context(), "other"); err != nil {
			t.Error(err)
		}
	}
}

// The disk of a run is full in the middle: the run ends by that reason, its last checkpoint is good, and it is resumed
// when there is room.
func TestDisk_FullInRun(t *testing.T) {
	slow.Test(t, "it fills a file system")
	t.Parallel()
	c := courses[1]
	want := c.undisturbed(t)
	inTime(t, func() bool { return c.lacksDisk(t, want) })
}

// lacksDisk plays the course on a disk that gets full, and reports whether it was before the run's end.
func (c *course) lacksDisk(t *testing.T, want result) bool {
	t.Helper()
	s := newServer(t, serverOptions{})
	w := watch(t, s)
	out := filepath.Join(smallDisk(t), "run")
	host(t, s.url())
	run := c.coordinate(t, s.url(), out, "--set", "checkpoint.seconds=0.2")
	run.until("is there with 1 trainer", patience)
	w.tasks(16, run)
	free := fillDisk(t, filepath.Dir(out))
	run.ends(patience)
	if run.completed() {
		free()
		return false
	}
	run.fails("no space left on device", patience)
	t.Logf("the run says %s", run.lastLine())
	if !strings.Contains(run.lastLine(), "fedpace resume") || strings.Contains(run.said(), "--force") {
		t.Errorf("the run advises %s", run.lastLine())
	}
	free()
	fedpace(t, "resume", out, "--elsewhere", "--nats", s.url()).finish(patience)
	resultOf(t, out).equals(t, want, "after a full disk")
	return true
}

// The disk has room for some of what is written at the end of a run: the model is written before the page, and what was
// written is whole.
func TestDisk_FullAtEnd(t *testing.T) {
	slow.Test(t, "it plays a run on file systems of many sizes")
	t.Parallel()
	c := courses[0]
	ample := filepath.Join(smallDisk(t), "run")
	fedpace(t, append([]string{"run"}, c.flags(ample)...)...).finish(patience)
	want, err := os.ReadFile(filepath.Join(ample, "model.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.Stat(filepath.Join(ample, "page.html"))
	if err != nil {
		t.Fatal(err)
	}
	var total int64
	err = filepath.WalkDir(ample, func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		total += (info.Size() + pageBytes - 1) / pageBytes * pageBytes
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("the folder has %d kB, of which the page takes %d kB and the model %d kB", total>>10, page.Size()>>10, len(want)>>10)
	models := 0
	for size := total - page.Size()/2; size > 0; size -= max(total/12, pageBytes) {
		dir := t.TempDir()
		if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprint("size=", size/pageBytes*pageBytes)); err != nil {
			t.Skipf("a small disk cannot be mounted here, which root may: %v", err)
		}
		t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
		out := filepath.Join(dir, "run")
		run := fedpace(t, append([]string{"run"}, c.flags(out)...)...)
		run.fails("no space left on device", patience)
		got, err := os.ReadFile(filepath.Join(out, "model.safetensors"))
		switch {
		case err == nil && string(got) != string(want):
			t.Errorf("with %d kB the model is another", size>>10)
		case err == nil:
			models++
		case size > total-page.Size():
			t.Errorf("with %d kB, enough for all but the page, there is no model: %v", size>>10, err)
		}
		t.Logf("with %d kB: the model is there: %v; %s", size>>10, err == nil, run.lastLine())
	}
	if models == 0 {
		t.Error("no disk had room for the model and not for the page")
	}
}

// pageBytes is the size of a page of a tmpfs.
const pageBytes = 4 << 10

// fillDisk fills the file system of a folder, and returns a function that makes room again.
func fillDisk(t testing.TB, dir string) (free func()) {
	t.Helper()
	path := filepath.Join(dir, "filler")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	block := make([]byte, 4<<10)
	for err == nil {
		_, err = f.Write(block)
	}
	return func() {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
}
