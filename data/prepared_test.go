package data

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"fedpace/data/datatest"
	"fedpace/data/federated"
	"fedpace/internal/testkit/realdata"
	"fedpace/internal/testkit/slow"
	"fedpace/registry"
)

// sources makes one source of every kind of store.
func sources(t testing.TB) map[string]string {
	dir := t.TempDir()
	var own []ownRow
	for i := range 20 {
		own = append(own, ownRow{int64(i % 3), []float32{float32(i), -0.5}, int32(i % 3)})
	}
	type fixed struct {
		Client string  `parquet:"client"`
		X      [3]byte `parquet:"x"`
		Y      int64   `parquet:"y"`
	}
	var bytes []fixed
	for i := range 20 {
		bytes = append(bytes, fixed{"\xff\xfe", [3]byte{1, 2, byte(i)}, 0})
	}
	var lines []string
	for i := range 40 {
		lines = append(lines, tweet("4", fmt.Sprint("user", i%4), fmt.Sprintf("a b%d  c", i%7)))
	}
	datatest.Put(t, dir, "cifar/train.bin", cifarFile(300))
	datatest.Put(t, dir, "cifar/test.bin", cifarFile(30))
	datatest.Put(t, dir, "leaf/train/a.json", leafFile(twoUsers))
	datatest.Put(t, dir, "leaf/test/a.json", leafFile(twoUsers))
	long := strings.ReplaceAll(works, "plead no more", strings.Repeat("plead no more, ", 100))
	return map[string]string{
		"femnist":     datatest.Put(t, dir, "f.parquet", datatest.Parquet(t, datatest.RawImages([]string{"b", "a"}, 9))),
		"own floats":  datatest.Put(t, dir, "o.parquet", datatest.Parquet(t, own)),
		"own bytes":   datatest.Put(t, dir, "b.parquet", datatest.Parquet(t, bytes)),
		"tweets":      datatest.Put(t, dir, "t.csv", csvOf(lines...)),
		"cifar":       filepath.Join(dir, "cifar"),
		"leaf":        filepath.Join(dir, "leaf"),
		"shakespeare": datatest.Put(t, dir, "s.txt", []byte(long)),
	}
}

// A prepared set is the set, and the second start uses it.
func TestPrepared(t *testing.T) {
	slow.NotUnderRace(t)
	for name, path := range sources(t) {
		t.Run(name, func(t *testing.T) {
			cache := filepath.Join(t.TempDir(), "below", "set.fedpace")
			plain := mustOpen(t, path, federated.Options{})
			for _, want := range []string{"not prepared yet", ""} {
				s, why, err := OpenPrepared(nil, path, cache, federated.Options{})
				if err != nil || why != want {
					t.Fatalf("%q, %v; want %q", why, err, want)
				}
				datatest.SameSets(t, plain, s)
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
			}
			if files, err := os.ReadDir(filepath.Dir(cache)); err != nil || len(files) != 1 {
				t.Errorf("%d files beside the prepared one, %v", len(files)-1, err)
			}
		})
	}
}

// A prepared file of other sources or options, or one with any byte changed or
// missing, is made anew and never used.
func TestPrepared_NeverTrusted(t *testing.T) {
	dir := t.TempDir()
	path := datatest.Put(t, dir, "f.parquet", datatest.Parquet(t, datatest.RawImages([]string{"b", "a"}, 9)))
	cache := filepath.Join(dir, "set.fedpace")
	open := func(opt federated.Options) (string, error) {
		s, why, err := OpenPrepared(nil, path, cache, opt)
		if err != nil {
			return why, err
		}
		datatest.SameSets(t, mustOpen(t, path, opt), s)
		return why, s.Close()
	}
	expect := func(want string, opt federated.Options) {
		t.Helper()
		if why, err := open(opt); err != nil || !strings.Contains(why, want) || want == "" && why != "" {
			t.Fatalf("%q, %v; want %q", why, err, want)
		}
	}
	expect("not prepared yet", federated.Options{})
	expect("stale: seed was 0, is 1", federated.Options{Seed: 1})
	expect("", federated.Options{Seed: 1})
	datatest.Put(t, dir, "f.parquet", datatest.Parquet(t, datatest.RawImages([]string{"b", "a"}, 10)))
	expect("stale: its sources have changed", federated.Options{Seed: 1})
	good, err := os.ReadFile(cache)
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range []int{0, 17, 25, 40, len(good) / 2, 4096} {
		bad := append([]byte(nil), good...)
		bad[at] ^= 0x10
		datatest.Put(t, dir, "set.fedpace", bad)
		if why, err := open(federated.Options{Seed: 1}); err != nil || !strings.Contains(why, "damaged") && !strings.Contains(why, "no prepared file of this version") {
			t.Errorf("byte %d of %d changed: %q, %v", at, len(good), why, err)
		}
	}
	datatest.Put(t, dir, "set.fedpace", good[:len(good)-5000])
	expect("damaged: section bytes exceeds it", federated.Options{Seed: 1})
	datatest.Put(t, dir, "set.fedpace", nil)
	expect("damaged: 0 bytes", federated.Options{Seed: 1})
	expect("", federated.Options{Seed: 1})
	if _, why, err := OpenPrepared(nil, path, cache, federated.Options{Seed: 1, Task: "sent140"}); err == nil || !strings.Contains(err.Error(), "found femnist (femnist (parquet)), want sent140") {
		t.Errorf("%q, %v", why, err)
	}
	if _, _, err := OpenPrepared(nil, path, filepath.Join(path, "set"), federated.Options{}); err == nil {
		t.Error("no error for a place that cannot be written")
	}
}

func FuzzPrepared(f *testing.F) {
	for _, path := range sources(f) {
		s, err := Open(path, federated.Options{})
		if err != nil {
			f.Fatal(err)
		}
		name := filepath.Join(f.TempDir(), "set")
		if err := writePrepared(name, &registry.Inputs{Data: "made"}, s); err != nil {
			f.Fatal(err)
		}
		content, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		if len(content) < 100_000 {
			f.Add(content, []byte(nil))
			top := preparedHead + binary.LittleEndian.Uint64(content[16:])
			f.Add(content[top:], content[preparedHead:top])
		}
	}
	// The header is given apart, so that changes of it pass its checksum.
	f.Fuzz(func(t *testing.T, content, header []byte) {
		datatest.Guard(t, len(content)+len(header), func() {
			if len(header) > 0 {
				content = sealed(content, header)
			}
			s, err := parsePrepared(content, nil)
			if err != nil {
				return
			}
			for c := range s.Clients() {
				datatest.CheckBatch(t, s.Info(), datatest.All(t, s, c), s.Samples(c))
			}
			datatest.CheckBatch(t, s.Info(), datatest.HeldOut(t, s, 0, s.HeldOut()), s.HeldOut())
		})
	})
}

// The second start of full FEMNIST and of Shakespeare takes under a second.
func TestPrepared_RealData(t *testing.T) {
	slow.Test(t, "it reads every real set twice")
	slow.NotUnderRace(t)
	for _, name := range []string{"femnist/femnist.parquet", "shakespeare/1994-01-100.zip", "sent140/tweets_with_users.csv.gz", "cifar100"} {
		path := realdata.Path(t, name)
		cache := filepath.Join(t.TempDir(), "set")
		for _, which := range []string{"first", "second"} {
			start := time.Now()
			s, why, err := OpenPrepared(nil, path, cache, federated.Options{Seed: 1})
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%s: %s start %v %s", name, which, time.Since(start).Round(time.Millisecond), why)
			checkSome(t, s)
			if which == "second" && why != "" {
				t.Errorf("made anew: %s", why)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// sealed puts another header before a prepared file's sections.
func sealed(content, header []byte) []byte {
	b := make([]byte, preparedHead, preparedHead+len(header)+len(content))
	copy(b, preparedMagic)
	binary.LittleEndian.PutUint64(b[16:], uint64(len(header)))
	binary.LittleEndian.PutUint32(b[24:], crc32.Checksum(header, castagnoli))
	return append(append(b, header...), content...)
}
