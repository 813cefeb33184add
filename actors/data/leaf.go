package data

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"fedpace/actors/data/federated"
	"fedpace/actors/data/internal/jsonscan"
	"fedpace/actors/data/text"
)

// openLEAF reads LEAF's JSON from a folder with train/ and perhaps test/, a
// folder of shards, or one file. Shards are taken in lexical order of their
// names and users in the order of their shards, as the paper's authors did
// (paper/NOTES, "Data"). LEAF's own split is kept where there is one.
func openLEAF(path string, opt federated.Options) (*federated.Grouped, error) {
	train, test, err := leafShards(path)
	if err != nil {
		return nil, err
	}
	shards := make([]*leafShard, len(train)+len(test))
	sums := make([][sha256.Size]byte, len(shards))
	var workers errgroup.Group
	workers.SetLimit(runtime.GOMAXPROCS(0))
	for i, file := range slices.Concat(train, test) {
		workers.Go(func() (err error) {
			shards[i], sums[i], err = openShard(file)
			return err
		})
	}
	if err := workers.Wait(); err != nil {
		return nil, err
	}
	s, err := joinShards(shards[:len(train)], shards[len(train):], opt)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	s.About.Digest = opt.Digest(fmt.Sprintf("leaf %d %d", len(train), len(test)), sums...)
	return s, nil
}

// leafShards finds the files below a path.
func leafShards(path string) (train, test []string, err error) {
	stat, err := os.Stat(path)
	if err != nil {
		return nil, nil, err
	}
	if !stat.IsDir() {
		return []string{path}, nil, nil
	}
	list := func(dir string) ([]string, error) {
		files, err := filepath.Glob(filepath.Join(EscapeGlob(dir), "*.json"))
		slices.Sort(files)
		return files, err
	}
	for _, below := range []string{"", "data"} { // LEAF keeps both folders in data/
		dir := filepath.Join(path, below, "train")
		if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if train, err = list(dir); err != nil {
			return nil, nil, err
		}
		if len(train) == 0 {
			return nil, nil, fmt.Errorf("%s: no .json file; want LEAF's training shards", dir)
		}
		dir = filepath.Join(path, below, "test")
		if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
			return train, nil, nil
		}
		if test, err = list(dir); err != nil {
			return nil, nil, err
		}
		if len(test) == 0 {
			return nil, nil, fmt.Errorf("%s: no .json file; want LEAF's test shards", dir)
		}
		return train, test, nil
	}
	if train, err = list(path); err != nil {
		return nil, nil, err
	}
	if len(train) == 0 {
		return nil, nil, fmt.Errorf("%s: found neither train/ nor a .json file; want %s", path, layouts())
	}
	return train, nil, nil
}

func openShard(path string) (s *leafShard, sum [sha256.Size]byte, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, sum, err
	}
	defer f.Close()
	h := sha256.New()
	if s, err = readShard(io.TeeReader(f, h)); err != nil {
		return nil, sum, fmt.Errorf("%s: %w", path, err)
	}
	s.path = path
	h.Sum(sum[:0])
	return s, sum, nil
}

// leafKind is the form of a sample's x, which tells LEAF's tasks apart.
type leafKind int

const (
	unknownLEAF     leafKind = iota
	femnistLEAF              // 784 numbers
	sent140LEAF              // a list of strings, the text among them
	shakespeareLEAF          // a string of 80 characters
)

func (k leafKind) String() string {
	return [...]string{"no sample", "femnist", "sent140", "shakespeare"}[k]
}

// leafShard is one file, its samples as bytes.
type leafShard struct {
	path  string
	kind  leafKind
	users []string
	count []int // num_samples, by users
	data  map[string]*leafUser
}

// leafUser holds what one user has in one shard: n images, windows or texts
// one after the other.
type leafUser struct {
	x      []byte
	end    []int // of each text in x, sent140 only
	labels []int32
	nx     int
	seen   bool // x and y are both there
}

// readShard decodes one file as a stream. Keys may come in any order, and keys
// that LEAF's tools add (hierarchies, raw) are skipped.
func readShard(r io.Reader) (*leafShard, error) {
	d := jsonscan.New(r)
	s := &leafShard{data: make(map[string]*leafUser)}
	var users, counts, data bool
	err := d.Object(func(key string) error {
		switch key {
		case "users":
			users = true
			s.users = nil
			return d.Array(func(int) error {
				name, err := d.Text(maxName)
				s.users = append(s.users, name)
				return err
			})
		case "num_samples":
			counts = true
			s.count = nil
			return d.Array(func(int) error {
				n, err := d.Integer()
				s.count = append(s.count, int(n))
				return err
			})
		case "user_data":
			data = true
			return d.Object(func(name string) error {
				if s.data[name] != nil {
					return d.Fail("user %q appears twice", name)
				}
				u := new(leafUser)
				s.data[name] = u
				if err := s.user(d, u); err != nil {
					return fmt.Errorf("user %q: %w", name, err)
				}
				u.x = slices.Clone(u.x) // growing left it up to twice as large
				return nil
			})
		}
		return d.Skip()
	})
	if err != nil {
		return nil, err
	}
	if err := d.End(); err != nil {
		return nil, err
	}
	switch {
	case !users || !data:
		return nil, errors.New(`no "users" or no "user_data"; want LEAF's JSON: users, num_samples, user_data.<user>.{x, y}`)
	case counts && len(s.count) != len(s.users):
		return nil, fmt.Errorf(`"num_samples" has %d numbers for %d users`, len(s.count), len(s.users))
	case len(s.data) > len(s.users):
		return nil, fmt.Errorf(`"user_data" has %d users, "users" names %d`, len(s.data), len(s.users))
	}
	seen := make(map[string]bool, len(s.users))
	for i, name := range s.users {
		u := s.data[name]
		switch {
		case seen[name]:
			return nil, fmt.Errorf(`user %q is named twice in "users"`, name)
		case u == nil:
			return nil, fmt.Errorf(`user %q (number %d of "users") has no data in "user_data"`, name, i)
		case !u.seen:
			return nil, fmt.Errorf("user %q has no x or no y", name)
		case u.nx != len(u.labels):
			return nil, fmt.Errorf("user %q has %d samples in x and %d labels in y", name, u.nx, len(u.labels))
		case counts && s.count[i] != u.nx:
			return nil, fmt.Errorf("user %q has %d samples, num_samples says %d", name, u.nx, s.count[i])
		}
		seen[name] = true
	}
	return s, nil
}

// maxName bounds a user's name.
const maxName = 4096

// user decodes {x, y}.
func (s *leafShard) user(d *jsonscan.Scanner, u *leafUser) error {
	var x, y bool
	err := d.Object(func(key string) error {
		switch key {
		case "x":
			x = true
			return d.Array(func(i int) error {
				u.nx++
				if err := s.sample(d, u); err != nil {
					return fmt.Errorf("x[%d]: %w", i, err)
				}
				return nil
			})
		case "y":
			y = true
			return d.Array(func(i int) error {
				l, err := s.label(d)
				if err != nil {
					return fmt.Errorf("y[%d]: %w", i, err)
				}
				u.labels = append(u.labels, l)
				return nil
			})
		}
		return d.Skip()
	})
	u.seen = x && y
	return err
}

// is settles or checks the shard's kind.
func (s *leafShard) is(d *jsonscan.Scanner, kind leafKind) error {
	if s.kind == unknownLEAF {
		s.kind = kind
	}
	if s.kind != kind {
		return d.Fail("a sample of %v among those of %v", kind, s.kind)
	}
	return nil
}

func (s *leafShard) sample(d *jsonscan.Scanner, u *leafUser) error {
	c, err := d.Peek()
	if err != nil {
		return err
	}
	if c == '"' {
		if err := s.is(d, shakespeareLEAF); err != nil {
			return err
		}
		tweet, err := d.Text(2 * federated.ShakespeareWindow)
		if err != nil {
			return err
		}
		if len(tweet) != federated.ShakespeareWindow {
			return d.Fail("a string of %d characters, want %d", len(tweet), federated.ShakespeareWindow)
		}
		for _, c := range []byte(tweet) {
			i := federated.ShakespeareIndex[c]
			if i == 0xff {
				return d.Fail("character %q is not in the vocabulary", c)
			}
			u.x = append(u.x, i)
		}
		return nil
	}
	n := 0
	texts := 0
	var tweet string
	err = d.Array(func(int) error {
		c, err := d.Peek()
		if err != nil {
			return err
		}
		if c == '"' {
			texts++
			// id, date, query, user, tweet, ...: the fifth is the tweet, or the
			// only one where a tool has kept the tweet alone.
			t, err := d.Text(text.MaxTweetBytes)
			if texts == 1 || texts == 5 {
				tweet = t
			}
			return err
		}
		v, err := d.Number()
		if err != nil {
			return err
		}
		b := math.Round(v * 255)
		if !(b >= 0 && b <= 255) || math.Abs(v*255-b) > 0.01 {
			return d.Fail("pixel %v, want a byte divided by 255, 0 to 1", v)
		}
		if n++; n > federated.FEMNISTPixels {
			return d.Fail("more than %d pixels", federated.FEMNISTPixels)
		}
		u.x = append(u.x, byte(b))
		return nil
	})
	switch {
	case err != nil:
		return err
	case texts > 0 && n == 0:
		u.x = append(u.x, tweet...)
		u.end = append(u.end, len(u.x))
		return s.is(d, sent140LEAF)
	case n == federated.FEMNISTPixels && texts == 0:
		return s.is(d, femnistLEAF)
	}
	return d.Fail("found %d numbers and %d strings, want %d numbers (femnist), strings (sent140) or a string of %d characters (shakespeare)", n, texts, federated.FEMNISTPixels, federated.ShakespeareWindow)
}

// label decodes a label as far as it can be judged without the samples, which
// may come after it.
func (s *leafShard) label(d *jsonscan.Scanner) (int32, error) {
	c, err := d.Peek()
	if err != nil {
		return 0, err
	}
	if c != '"' {
		l, err := d.Integer()
		if err == nil && (l < 0 || l >= federated.FEMNISTClasses) {
			err = d.Fail("label %d is outside the %d classes, want 0 to %d", l, federated.FEMNISTClasses, federated.FEMNISTClasses-1)
		}
		return int32(l), err
	}
	text, err := d.Text(8)
	switch {
	case err != nil:
		return 0, err
	case len(text) == 1 && federated.ShakespeareIndex[text[0]] != 0xff:
		return leafCharacter + int32(federated.ShakespeareIndex[text[0]]), nil
	}
	return 0, d.Fail("label %q, want a number or one character of the vocabulary", text)
}

// leafCharacter marks a label that came as a character until the task is known:
// "0" is a polarity to sent140 and a character to shakespeare.
const leafCharacter = 1 << 10

// settle turns a label to the class that it is for this kind.
func (k leafKind) settle(l int32) (int32, bool) {
	character := l >= leafCharacter
	switch k {
	case shakespeareLEAF:
		return l - leafCharacter, character
	case sent140LEAF:
		if character {
			l = int32(federated.ShakespeareCharacters[l-leafCharacter]) - '0'
		}
		if l == 4 {
			l = 1
		}
		return l, l == 0 || l == 1
	}
	return l, !character
}

// joinShards makes the set of all shards; without test shards it is split.
func joinShards(train, test []*leafShard, opt federated.Options) (*federated.Grouped, error) {
	for _, s := range train {
		for _, name := range s.users {
			if s.data[name].nx == 0 {
				return nil, fmt.Errorf("%s: user %q has no samples: x and y are empty", filepath.Base(s.path), name)
			}
		}
	}
	kind := unknownLEAF
	for _, s := range slices.Concat(train, test) {
		if kind == unknownLEAF {
			kind = s.kind
		}
		if s.kind != unknownLEAF && s.kind != kind {
			return nil, fmt.Errorf("%s: holds %v among shards of %v", filepath.Base(s.path), s.kind, kind)
		}
	}
	if kind == sent140LEAF {
		return joinTweets(train, test, opt)
	}
	s := federated.Grouped{Task: kind.String()}
	var width int
	switch kind {
	case femnistLEAF:
		width = federated.FEMNISTPixels
	case shakespeareLEAF:
		width = federated.ShakespeareWindow
	}
	images := &federated.ImageRows{Value: federated.Inverted}
	take := func(shard *leafShard, name string) ([]int32, error) {
		u := shard.data[name]
		from := len(s.Labels)
		if from+len(u.labels) > federated.MaxSamples {
			return nil, fmt.Errorf("more than %d samples", federated.MaxSamples)
		}
		samples := make([]int32, len(u.labels))
		for i, l := range u.labels {
			class, ok := kind.settle(l)
			if !ok {
				return nil, fmt.Errorf("%s: user %q: y[%d] is no label of %v", filepath.Base(shard.path), name, i, kind)
			}
			s.Labels = append(s.Labels, class)
			samples[i] = int32(from + i)
			images.Images = append(images.Images, u.x[i*width:(i+1)*width])
		}
		return samples, nil
	}
	g, err := group(train, test, opt.Seed, take)
	if err != nil {
		return nil, err
	}
	s.About, s.Rows = federated.FEMNISTInfo, images
	if kind == shakespeareLEAF {
		s.About, s.Rows = federated.ShakespeareInfo, (*federated.WindowRows)(images)
	}
	s.About.Name = kind.String() + " (leaf)"
	return g.Set(s)
}

// group makes a client of every user of the training shards. Test samples go
// with the user of the same name, or are held out on their own.
func group(train, test []*leafShard, seed uint64, take func(*leafShard, string) ([]int32, error)) (*federated.Grouping, error) {
	where := make(map[string]*leafShard)
	for _, shard := range test {
		for _, name := range shard.users {
			if where[name] != nil {
				return nil, fmt.Errorf("user %q is in %s and in %s", name, filepath.Base(where[name].path), filepath.Base(shard.path))
			}
			where[name] = shard
		}
	}
	g := new(federated.Grouping)
	seen := make(map[string]*leafShard)
	for _, shard := range train {
		for _, name := range shard.users {
			if seen[name] != nil {
				return nil, fmt.Errorf("user %q is in %s and in %s", name, filepath.Base(seen[name].path), filepath.Base(shard.path))
			}
			seen[name] = shard
			own, err := take(shard, name)
			if err != nil {
				return nil, err
			}
			var held []int32
			switch {
			case len(test) == 0:
				own, held = federated.Split(seed, len(seen)-1, own)
			case where[name] != nil:
				if held, err = take(where[name], name); err != nil {
					return nil, err
				}
			}
			g.Add(name, own, held)
		}
	}
	for _, shard := range test {
		for _, name := range shard.users {
			if seen[name] == nil {
				held, err := take(shard, name)
				if err != nil {
					return nil, err
				}
				g.Held = append(g.Held, held...)
			}
		}
	}
	return g, nil
}

// joinTweets is joinShards for sent140, whose vocabulary needs all texts.
func joinTweets(train, test []*leafShard, opt federated.Options) (*federated.Grouped, error) {
	t := text.NewTweets()
	take := func(shard *leafShard, name string) ([]int32, error) {
		u := shard.data[name]
		shard.data[name] = nil
		from := 0
		samples := make([]int32, len(u.labels))
		for i, l := range u.labels {
			class, ok := sent140LEAF.settle(l)
			if !ok {
				return nil, fmt.Errorf("%s: user %q: y[%d] is no polarity, want 0, 1 or 4", filepath.Base(shard.path), name, i)
			}
			samples[i] = int32(len(t.Labels))
			if err := t.Add(name, string(u.x[from:u.end[i]]), class); err != nil {
				return nil, fmt.Errorf("%s: user %q: x[%d]: %w", filepath.Base(shard.path), name, i, err)
			}
			from = u.end[i]
		}
		return samples, nil
	}
	g, err := group(train, test, opt.Seed, take)
	if err != nil {
		return nil, err
	}
	s, err := t.Bags(g)
	if err != nil {
		return nil, err
	}
	s.About.Name = "sent140 (leaf)"
	return s, nil
}

func init() {
	Readers.Register("leaf", "a folder of LEAF JSON files, a LEAF JSON file", LEAF{})
}

// LEAF reads the JSON of LEAF (Caldas et al. 2018).
type LEAF struct{}

// Recognises implements [Reader].
func (LEAF) Recognises(s *Source) Match {
	switch {
	case strings.HasPrefix(strings.TrimLeft(s.Head, " \t\r\n"), "{"):
		return ByContent
	case s.Folder, strings.HasSuffix(s.Name(), ".json"):
		return ByName
	}
	return NoMatch
}

// Open implements [Reader].
func (LEAF) Open(s *Source, o federated.Options) (federated.Set, error) { return openLEAF(s.Path, o) }
