package data

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"fedpace/actors/data/federated"
)

func init() {
	federated.Readers.Register("leaf", "a folder of LEAF JSON files, or one", LEAF{})
}

// LEAF reads the JSON of LEAF (Caldas et al. 2018).
type LEAF struct{}

func (LEAF) Recognises(s *federated.Source) federated.Match {
	switch {
	case strings.HasPrefix(strings.TrimLeft(s.Head, " \t\r\n"), "{"):
		return federated.ByContent
	case s.Folder, strings.HasSuffix(s.Name(), ".json"):
		return federated.ByName
	}
	return federated.NoMatch
}

// Open reads a folder with train/ and perhaps test/, a folder of shards, or one
// file. Shards are taken in lexical order of their names and users in the order
// of their shards, as the paper's authors did (paper/NOTES, "Data"). LEAF's own
// split is kept where there is one.
func (LEAF) Open(s *federated.Source, o federated.Options) (federated.Set, error) {
	train, test, err := leafShards(s)
	if err != nil {
		return nil, err
	}
	files := slices.Concat(train, test)
	shards := make([]*leafShard, len(files))
	sums := make([][sha256.Size]byte, len(files))
	err = federated.Each(len(files), func(i int) (err error) {
		shards[i], sums[i], err = openShard(files[i], o.Reading)
		return err
	})
	if err != nil {
		return nil, err
	}
	set, err := joinShards(shards[:len(train)], shards[len(train):], o)
	if err != nil {
		return nil, err
	}
	set.About.Digest = o.Digest(fmt.Sprintf("leaf %d %d", len(train), len(test)), sums...)
	return set, nil
}

// leafShards lists the files of a source.
func leafShards(s *federated.Source) (train, test []string, err error) {
	if !s.Folder {
		return []string{s.Path}, nil, nil
	}
	for _, below := range []string{"", "data"} { // LEAF keeps both folders in data/
		dir := filepath.Join(s.Path, below)
		if train, err = leafPart(dir, "train", "training"); train != nil && err == nil {
			test, err = leafPart(dir, "test", "test")
		}
		if train != nil || err != nil {
			return train, test, err
		}
	}
	if train = federated.Files(s.Path, ".json"); train == nil {
		err = fmt.Errorf("found neither train/ nor a .json file; want %s", federated.Layouts())
	}
	return train, nil, err
}

// leafPart lists the shards in a folder, nil if there is no such folder.
func leafPart(dir, name, kind string) ([]string, error) {
	dir = filepath.Join(dir, name)
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	files := federated.Files(dir, ".json")
	if files == nil {
		return nil, fmt.Errorf("%s: no .json file; want LEAF's %s shards", name, kind)
	}
	return files, nil
}

func openShard(path string, reading *federated.Reading) (s *leafShard, sum [sha256.Size]byte, err error) {
	f, err := federated.OpenSource(path)
	if err != nil {
		return nil, sum, err
	}
	defer f.File.Close()
	h := sha256.New()
	if s, err = readShard(io.TeeReader(reading.From(f.File), h)); err != nil {
		return nil, sum, fmt.Errorf("%s: %w", filepath.Base(path), err)
	}
	s.name = filepath.Base(path)
	return s, [sha256.Size]byte(h.Sum(nil)), nil
}

// leafKind is the task that the form of a sample's x tells; "" before any sample.
type leafKind string

const (
	femnistLEAF     leafKind = "femnist"     // 784 numbers
	sent140LEAF     leafKind = "sent140"     // a list of strings, the text among them
	shakespeareLEAF leafKind = "shakespeare" // a string of 80 characters
)

// leafShard is one file, its samples as bytes.
type leafShard struct {
	name  string
	kind  leafKind
	users []string
	count []int64 // num_samples, by users
	data  map[string]*leafUser
}

// leafUser holds what one user has in one shard: images, windows or texts one
// after the other.
type leafUser struct {
	x      []byte
	end    []int // of each sample in x
	labels []int32
}

// readShard decodes one file as a stream. Keys may come in any order, and keys
// that LEAF's tools add (hierarchies, raw) are skipped.
func readShard(r io.Reader) (*leafShard, error) {
	d := &jsonReader{jsontext.NewDecoder(r)}
	s := new(leafShard)
	err := d.object(func(key string) (err error) {
		switch key {
		case "users":
			s.users, err = list(d, key, func() (string, error) { return d.text(maxName) })
		case "num_samples":
			s.count, err = list(d, key, d.integer)
		case "user_data":
			s.data = make(map[string]*leafUser)
			return d.object(func(name string) error {
				u := new(leafUser)
				s.data[name] = u
				if err := s.user(d, u); err != nil {
					return fmt.Errorf("user %q: %w", name, err)
				}
				u.x = slices.Clone(u.x) // growing left it up to twice as large
				return nil
			})
		default:
			err = d.SkipValue()
		}
		return err
	})
	if err == nil {
		if t, after := d.ReadToken(); after != io.EOF {
			err = cmp.Or(after, d.fail("found '%v' after the end", t.Kind()))
		}
	}
	switch {
	case err != nil:
		return nil, err
	case s.users == nil || s.data == nil:
		return nil, errors.New(`no "users" or no "user_data"; want LEAF's JSON: users, num_samples, user_data.<user>.{x, y}`)
	case s.count != nil && len(s.count) != len(s.users):
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
		case u.end == nil || u.labels == nil:
			return nil, fmt.Errorf("user %q has no x or no y", name)
		case len(u.end) != len(u.labels):
			return nil, fmt.Errorf("user %q has %d samples in x and %d labels in y", name, len(u.end), len(u.labels))
		case s.count != nil && s.count[i] != int64(len(u.end)):
			return nil, fmt.Errorf("user %q has %d samples, num_samples says %d", name, len(u.end), s.count[i])
		}
		seen[name] = true
	}
	return s, nil
}

// maxName bounds a user's name and the other keys.
const maxName = 4096

// user decodes {x, y}.
func (s *leafShard) user(d *jsonReader, u *leafUser) error {
	return d.object(func(key string) (err error) {
		switch key {
		case "x":
			u.end, err = list(d, key, func() (int, error) {
				kind, err := u.sample(d)
				if s.kind == "" {
					s.kind = kind
				}
				if err == nil && s.kind != kind {
					err = d.fail("a sample of %v among those of %v", kind, s.kind)
				}
				return len(u.x), err
			})
		case "y":
			u.labels, err = list(d, key, d.label)
		default:
			err = d.SkipValue()
		}
		return err
	})
}

// sample decodes one element of x.
func (u *leafUser) sample(d *jsonReader) (leafKind, error) {
	if d.PeekKind() == '"' {
		window, err := d.text(2 * federated.ShakespeareWindow)
		if err != nil {
			return "", err
		}
		if u.x, err = federated.AppendCharacters(u.x, window, federated.ShakespeareWindow); err != nil {
			return "", d.fail("%w", err)
		}
		return shakespeareLEAF, nil
	}
	pixels, texts := 0, 0
	var tweet string
	err := d.within('[', ']', func(int) error {
		if d.PeekKind() == '"' {
			texts++
			// id, date, query, user, tweet, ...: the fifth is the tweet, or the
			// only one where a tool has kept the tweet alone.
			t, err := d.text(maxTweetBytes)
			if texts == 1 || texts == 5 {
				tweet = t
			}
			return err
		}
		v, err := d.number()
		if err != nil {
			return err
		}
		b := math.Round(v * 255)
		if !(b >= 0 && b <= 255) || math.Abs(v*255-b) > 0.01 {
			return d.fail("pixel %v, want a byte divided by 255, 0 to 1", v)
		}
		if pixels++; pixels > federated.FEMNISTPixels {
			return d.fail("more than %d pixels", federated.FEMNISTPixels)
		}
		u.x = append(u.x, byte(b))
		return nil
	})
	switch {
	case err != nil:
		return "", err
	case texts > 0 && pixels == 0:
		u.x = append(u.x, tweet...)
		return sent140LEAF, nil
	case pixels == federated.FEMNISTPixels && texts == 0:
		return femnistLEAF, nil
	}
	return "", d.fail("found %d numbers and %d strings, want %d numbers (femnist), strings (sent140) or a string of %d characters (shakespeare)", pixels, texts, federated.FEMNISTPixels, federated.ShakespeareWindow)
}

// label decodes a label as far as it can be judged without the samples, which
// may come after it.
func (d *jsonReader) label() (int32, error) {
	if d.PeekKind() != '"' {
		l, err := d.integer()
		if err == nil && (l < 0 || l >= federated.FEMNISTClasses) {
			err = d.fail("label %d is outside the %d classes, want 0 to %d", l, federated.FEMNISTClasses, federated.FEMNISTClasses-1)
		}
		return int32(l), err
	}
	text, err := d.text(8)
	switch {
	case err != nil:
		return 0, err
	case len(text) == 1 && federated.ShakespeareIndex[text[0]] != 0xff:
		return leafCharacter + int32(federated.ShakespeareIndex[text[0]]), nil
	}
	return 0, d.fail("label %q, want a number or one character of the vocabulary", text)
}

// leafCharacter marks a label that came as a character until the task is known:
// "0" is a polarity to sent140 and a character to shakespeare.
const leafCharacter = 1 << 10

// settle turns a label to the class that it is for this kind.
func (k leafKind) settle(l int32) (int32, error) {
	character := l >= leafCharacter
	switch {
	case k == femnistLEAF && !character:
		return l, nil
	case k == shakespeareLEAF && character:
		return l - leafCharacter, nil
	case k == sent140LEAF && character:
		l = int32(federated.ShakespeareCharacters[l-leafCharacter]) - '0'
	}
	if k == sent140LEAF && (l == 0 || l == 1 || l == 4) {
		return min(l, 1), nil
	}
	return 0, fmt.Errorf("is no label of %s", k)
}

// joinShards makes the set of all shards; without test shards it is split.
func joinShards(train, test []*leafShard, opt federated.Options) (*federated.Grouped, error) {
	kind, size := leafKind(""), 0
	for i, s := range slices.Concat(train, test) {
		if kind == "" {
			kind = s.kind
		}
		if s.kind != "" && s.kind != kind {
			return nil, fmt.Errorf("%s: holds %v among shards of %v", s.name, s.kind, kind)
		}
		for _, name := range s.users {
			if size += len(s.data[name].x); i < len(train) && len(s.data[name].end) == 0 {
				return nil, fmt.Errorf("%s: user %q has no samples: x and y are empty", s.name, name)
			}
		}
	}
	set := federated.Grouped{Task: string(kind)}
	tweets := new(tweetTexts)
	var store []byte
	if kind != sent140LEAF {
		store = make([]byte, 0, size)
	}
	number := int32(0)
	take := func(shard *leafShard, user string) ([]int32, error) {
		u := shard.data[user]
		shard.data[user] = nil // its memory is free once its samples are copied
		samples := make([]int32, len(u.labels))
		from := 0
		for i, l := range u.labels {
			class, err := kind.settle(l)
			if err != nil {
				return nil, fmt.Errorf("%s: user %q: y[%d] %w", shard.name, user, i, err)
			}
			x := u.x[from:u.end[i]]
			from = u.end[i]
			switch {
			case kind == sent140LEAF:
				err = tweets.Add(user, string(x), class)
			case number == federated.MaxSamples:
				err = fmt.Errorf("more than %d samples", number)
			default:
				store, set.Labels = append(store, x...), append(set.Labels, class)
			}
			if err != nil {
				return nil, fmt.Errorf("%s: user %q: x[%d]: %w", shard.name, user, i, err)
			}
			samples[i] = number
			number++
		}
		return samples, nil
	}
	g, err := group(train, test, opt.Seed, take)
	if err != nil {
		return nil, err
	}
	name := string(kind) + " (leaf)"
	if kind == sent140LEAF {
		return tweets.Bags(g, name)
	}
	rows := &federated.ByteRows{Bytes: store}
	set.About, rows.Width, rows.Coding = federated.FEMNISTInfo, federated.FEMNISTPixels, federated.Ink
	if kind == shakespeareLEAF {
		set.About, rows.Width, rows.Coding = federated.ShakespeareInfo, federated.ShakespeareWindow, federated.Tokens
	}
	set.Rows, set.About.Name = rows, name
	return g.Set(set)
}

// group makes a client of every user of the training shards. Test samples go
// with the user of the same name, or are held out on their own.
func group(train, test []*leafShard, seed uint64, take func(*leafShard, string) ([]int32, error)) (*federated.Grouping, error) {
	trains, err := owners(train)
	tests, other := owners(test)
	if err := cmp.Or(err, other); err != nil {
		return nil, err
	}
	g := new(federated.Grouping)
	for _, shard := range train {
		for _, name := range shard.users {
			own, err := take(shard, name)
			if err != nil {
				return nil, err
			}
			var held []int32
			switch {
			case len(test) == 0:
				own, held = federated.Split(seed, len(g.Names)+g.Without, own)
			case tests[name] != nil:
				if held, err = take(tests[name], name); err != nil {
					return nil, err
				}
			}
			g.Add(name, own, held)
		}
	}
	for _, shard := range test {
		for _, name := range shard.users {
			if trains[name] == nil {
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

// owners finds the shard of each user.
func owners(shards []*leafShard) (map[string]*leafShard, error) {
	of := make(map[string]*leafShard)
	for _, shard := range shards {
		for _, name := range shard.users {
			if of[name] != nil {
				return nil, fmt.Errorf("user %q is in %s and in %s", name, of[name].name, shard.name)
			}
			of[name] = shard
		}
	}
	return of, nil
}

// jsonReader reads JSON as a stream, for files of many megabytes of numbers:
// nothing is kept that the caller does not keep.
type jsonReader struct{ *jsontext.Decoder }

// fail is an error at the place reached.
func (d *jsonReader) fail(format string, args ...any) error {
	return fmt.Errorf("byte %d: %w", d.InputOffset(), fmt.Errorf(format, args...))
}

// next reads a token, which is valid until the next call.
func (d *jsonReader) next(want jsontext.Kind) (jsontext.Token, error) {
	t, err := d.ReadToken()
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return t, fmt.Errorf("byte %d: the file ends in the middle: it is truncated", d.InputOffset()+int64(len(d.UnreadBuffer())))
	case err != nil:
		return t, err
	case t.Kind() != want:
		return t, d.fail("found '%v', want '%v'", t.Kind(), want)
	}
	return t, nil
}

// within calls element for each part of an array or object, which takes it.
func (d *jsonReader) within(begin, end jsontext.Kind, element func(i int) error) error {
	_, err := d.next(begin)
	for i := 0; err == nil && d.PeekKind() != end; i++ {
		err = element(i)
	}
	if err == nil {
		_, err = d.next(end)
	}
	return err
}

// object calls member for each key; member takes the value.
func (d *jsonReader) object(member func(key string) error) error {
	return d.within('{', '}', func(int) error {
		key, err := d.text(maxName)
		if err != nil {
			return err
		}
		return member(key)
	})
}

// list reads an array.
func list[T any](d *jsonReader, name string, element func() (T, error)) ([]T, error) {
	all := []T{}
	err := d.within('[', ']', func(i int) error {
		v, err := element()
		if err != nil {
			return fmt.Errorf("%s[%d]: %w", name, i, err)
		}
		all = append(all, v)
		return nil
	})
	return all, err
}

func (d *jsonReader) text(limit int) (string, error) {
	t, err := d.next('"')
	if err != nil {
		return "", err
	}
	text := t.String()
	if len(text) > limit {
		return "", d.fail("a string of more than %d bytes", limit)
	}
	return text, nil
}

func (d *jsonReader) number() (float64, error) {
	t, err := d.next('0')
	if err != nil {
		return 0, err
	}
	return t.Float(), nil
}

func (d *jsonReader) integer() (int64, error) {
	v, err := d.number()
	if err == nil && (v != math.Trunc(v) || math.Abs(v) > 1<<53) {
		err = d.fail("found %v, want an integer", v)
	}
	return int64(v), err
}
