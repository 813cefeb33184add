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

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"fedpace/data/federated"
	"fedpace/data/table"
)

func init() {
	federated.Readers.Register("leaf", "LEAF JSON, a folder or a file", LEAF{})
}

// LEAF reads the JSON of LEAF (Caldas et al. 2018).
type LEAF struct{}

// Recognises reports whether s may be JSON of LEAF: by the first brace of a file, or by name for
// folders and files called .json.
func (LEAF) Recognises(s *federated.Source) federated.Match {
	switch {
	case strings.HasPrefix(strings.TrimLeft(s.Head, " \t\r\n"), "{"):
		return federated.ByContent
	case s.Folder, strings.HasSuffix(s.Name(), ".json"):
		return federated.ByName
	}
	return federated.NoMatch
}

// Open reads a folder with train/ and perhaps test/, a folder of shards, or one file. Shards are
// taken in lexical order of their names and users in the order of their shards, as the paper's
// authors did (paper/NOTES, "Data"). LEAF's own split is kept where there is one; otherwise o says
// how each user's samples are split.
func (LEAF) Open(s *federated.Source, o federated.Options) (federated.Set, error) {
	train, test, err := leafShards(s)
	if err != nil {
		return nil, err
	}
	files := slices.Concat(train, test)
	shards := make([]*leafShard, len(files))
	sums := make([][sha256.Size]byte, len(files))
	// The shards are read on all processors, and stay in their order.
	err = federated.Each(len(files), func(i int) (err error) {
		shards[i], sums[i], err = openShard(files[i], o.Reading)
		return err
	})
	// Without a task, samples of numbers may be read by a mapping.
	if errors.Is(err, errNumbers) && o.Task == "" {
		return nil, fmt.Errorf("%w; as a table of numbers it has the columns user, x, y: %w", err, table.ErrUnmapped)
	}
	if err != nil {
		return nil, err
	}
	// Training and test shards are joined in one set.
	set, err := joinShards(shards[:len(train)], shards[len(train):], o)
	if err != nil {
		return nil, err
	}
	set.About.Identify(o, fmt.Sprintf("leaf %d %d", len(train), len(test)), sums...)
	return set, nil
}

// leafShards returns the paths of the files of training and test samples of the source s, in
// lexical order. A file is its own training shard. A folder without train/ has training shards
// alone.
func leafShards(s *federated.Source) (train, test []string, err error) {
	// A single file has no test part.
	if !s.Folder {
		return []string{s.Path}, nil, nil
	}
	// LEAF keeps the folders of training and test files in data/.
	for _, below := range []string{"", "data"} {
		dir := filepath.Join(s.Path, below)
		train, err = leafPart(dir, "train", "training")
		if train != nil && err == nil {
			test, err = leafPart(dir, "test", "test")
		}
		if train != nil || err != nil {
			return train, test, err
		}
	}
	train = federated.Files(s.Path, ".json")
	if train == nil {
		err = noShard(s.Path)
	}
	return train, nil, err
}

// noShard returns the error for a folder that no reader knows. If folders in it have tables, the
// error names them.
func noShard(dir string) error {
	if others := federated.OtherFolders(dir, ".csv", ".parquet"); others != nil {
		return fmt.Errorf(
			"found no file, and tables in the folders %s; want one of these, or all in folders that are called "+
				"column=value (client=%s), or train and test",
			federated.ShortList(others),
			others[0],
		)
	}
	return fmt.Errorf("found neither train/ nor a .json file; want %s", federated.Layouts())
}

// leafPart returns the paths of the shards in the folder called name below dir, or nil if there is
// no such folder. A folder without a shard is an error, which calls the part by the word kind.
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

// openShard reads the JSON file at path and returns its samples with the SHA-256 of its content.
// reading counts the bytes that are read; it may be nil.
func openShard(path string, reading *federated.Reading) (s *leafShard, sum [sha256.Size]byte, err error) {
	f, err := federated.OpenSource(path)
	if err != nil {
		return nil, sum, err
	}
	defer f.File.Close()
	// The digest is computed while the file is decoded, so that it is read once.
	h := sha256.New()
	s, err = readShard(io.TeeReader(f.Content(reading), h))
	if err != nil {
		return nil, sum, fmt.Errorf("%s: %w", filepath.Base(path), err)
	}
	s.name = filepath.Base(path)
	return s, [sha256.Size]byte(h.Sum(nil)), nil
}

// errNumbers is the error for samples in LEAF's layout that are numbers, but fit none of its tasks. Such
// samples can be read with a mapping.
var errNumbers = errors.New("is of no task of LEAF")

// isNumbersLEAF reports whether the first sample of the source s consists of numbers that fit none
// of LEAF's tasks, so that s needs a mapping. It reads no more than that sample.
func isNumbersLEAF(s *federated.Source) bool {
	train, _, err := leafShards(s)
	if err != nil {
		return false
	}
	f, err := federated.OpenSource(train[0])
	if err != nil {
		return false
	}
	defer f.File.Close()
	d := jsontext.NewDecoder(f.Content(nil))
	// The samples of the first user are at user_data.NAME.x; what comes before is passed over.
	const firstMember = ""
	isAtSamples := enterMember(d, "user_data") && enterMember(d, firstMember) && enterMember(d, "x")
	return isAtSamples && firstSampleIsNumbers(d)
}

// enterMember reads a JSON object up to the value of the member of this name, or of the first member if
// the name is empty. It reports whether there is such a member; then the value is what d reads next.
func enterMember(d *jsontext.Decoder, member string) bool {
	token, err := d.ReadToken()
	if err != nil || token.Kind() != '{' {
		return false
	}
	for d.PeekKind() == '"' {
		name, err := d.ReadToken()
		if err != nil {
			return false
		}
		if member == "" || name.String() == member {
			return true
		}
		// The value belongs to a member that is not wanted.
		if d.SkipValue() != nil {
			return false
		}
	}
	return false
}

// firstSampleIsNumbers reads the beginning of a list of samples and reports whether its first
// sample consists of numbers that fit no task.
func firstSampleIsNumbers(d *jsontext.Decoder) bool {
	token, err := d.ReadToken()
	if err != nil || token.Kind() != '[' {
		return false
	}
	_, err = new(leafSamples).sample(d)
	return errors.Is(err, errNumbers)
}

// leafKind is the task of LEAF to which a sample belongs by the form of its x; empty before any sample.
type leafKind string

const (
	// femnistLEAF is a sample that is a list of 784 numbers, the pixels of an image.
	femnistLEAF leafKind = "femnist"
	// sent140LEAF is a sample that is a list of strings, one of which is the text of a tweet.
	sent140LEAF leafKind = "sent140"
	// shakespeareLEAF is a sample that is a string of 80 characters.
	shakespeareLEAF leafKind = "shakespeare"
)

// leafShard is one JSON file with its samples as bytes. Keys that LEAF's tools add (hierarchies,
// raw) are left out.
type leafShard struct {
	// name is the name of the file, for errors.
	name string
	// Users are the names of the users, in the order of the file.
	Users []string `json:"users"`
	// Counts are the numbers of samples of the users, as the file states them; nil if it states none.
	Counts []float64 `json:"num_samples"`
	// Data has the samples of each user by name; nil for a user whose samples were moved to the
	// set.
	Data map[string]*leafUser `json:"user_data"`
}

// leafUser holds the samples that one user has in one shard.
type leafUser struct {
	// X has the inputs of the samples.
	X leafSamples `json:"x"`
	// Labels has the label of each sample.
	Labels []leafLabel `json:"y"`
}

// leafSamples holds the inputs of a user's samples, one after the other in one slice: sample i ends
// at endOffsets[i] and begins where the one before it ends.
type leafSamples struct {
	// kind is the form that all samples share; empty before the first.
	kind leafKind
	// all holds images as bytes, windows as tokens, or texts.
	all []byte
	// endOffsets is where each sample ends in all.
	endOffsets []int
}

// count returns the number of samples.
func (s *leafSamples) count() int { return len(s.endOffsets) }

// readShard decodes one JSON file from r as a stream and checks that its parts agree: each user
// that is named has samples, as many labels as inputs, and the number of samples that the file
// states.
func readShard(r io.Reader) (*leafShard, error) {
	s := new(leafShard)
	if err := json.UnmarshalRead(r, s); err != nil {
		return nil, leafError(err)
	}
	switch {
	// The three parts of the file must agree before any user is looked at.
	case s.Users == nil || s.Data == nil:
		const want = "LEAF's JSON: users, num_samples, user_data.<user>.{x, y}"
		return nil, errors.New(`no "users" or no "user_data"; want ` + want)
	case s.Counts != nil && len(s.Counts) != len(s.Users):
		return nil, fmt.Errorf(`"num_samples" has %d numbers for %d users`, len(s.Counts), len(s.Users))
	case len(s.Data) > len(s.Users):
		return nil, fmt.Errorf(`"user_data" has %d users, "users" names %d`, len(s.Data), len(s.Users))
	}
	// LEAF's script counts windows of Shakespeare that it then leaves out, as they overlap, perhaps all of a
	// user.
	areWindows := slices.ContainsFunc(s.Users, func(name string) bool {
		u := s.Data[name]
		return u != nil && u.X.kind == shakespeareLEAF
	})
	// A name that occurs twice would count its samples twice.
	seen := make(map[string]bool, len(s.Users))
	for i, name := range s.Users {
		u := s.Data[name]
		switch {
		case len(name) > maxName:
			return nil, fmt.Errorf("a user's name of more than %d bytes", maxName)
		case seen[name]:
			return nil, fmt.Errorf(`user %q is named twice in "users"`, name)
		case u == nil:
			return nil, fmt.Errorf(`user %q (number %d of "users") has no data in "user_data"`, name, i)
		case u.X.endOffsets == nil || u.Labels == nil:
			return nil, fmt.Errorf("user %q has no x or no y", name)
		case u.X.count() != len(u.Labels):
			return nil, fmt.Errorf("user %q has %d samples in x and %d labels in y", name, u.X.count(), len(u.Labels))
		case s.Counts != nil && !areWindows && s.Counts[i] != float64(u.X.count()):
			return nil, fmt.Errorf("user %q has %d samples, num_samples says %v", name, u.X.count(), s.Counts[i])
		}
		seen[name] = true
	}
	return s, nil
}

// maxName bounds the name of a user, in bytes.
const maxName = 4096

// leafError returns an error of the JSON decoder with the user, the sample and the byte where it
// occurred.
func leafError(err error) error {
	var pointer jsontext.Pointer
	var offset int64
	// The decoder reports wrong values and wrong JSON as different types.
	if e := (*json.SemanticError)(nil); errors.As(err, &e) {
		pointer = e.JSONPointer
		offset = e.ByteOffset
		misplaced := fmt.Errorf("found '%v', which has no place there in LEAF's JSON", e.JSONKind)
		err = cmp.Or(e.Err, misplaced)
	} else if e := (*jsontext.SyntacticError)(nil); errors.As(err, &e) {
		pointer = e.JSONPointer
		offset = e.ByteOffset
		err = e.Err
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = errors.New("the file ends in the middle: it is truncated")
	}
	location := ""
	switch path := slices.Collect(pointer.Tokens()); {
	case len(path) > 3 && path[0] == "user_data":
		location = fmt.Sprintf("user %q: %s[%s]: ", path[1], path[2], path[3])
	case pointer != "":
		location = fmt.Sprintf("%s: ", pointer)
	}
	return fmt.Errorf("%sbyte %d: %w", location, offset, err)
}

// eachElement reads the next value of d, which must be an array. It calls element once for each element,
// which element must decode, and stops at the first error.
func eachElement(d *jsontext.Decoder, element func() error) error {
	t, err := d.ReadToken()
	if err == nil && t.Kind() != '[' {
		err = fmt.Errorf("found '%v', want '['", t.Kind())
	}
	for err == nil && d.PeekKind() != ']' {
		err = element()
	}
	if err == nil {
		_, err = d.ReadToken()
	}
	return err
}

// UnmarshalJSONFrom reads a client's samples one after the other, without holding the JSON in
// memory. All samples of a client are of one kind. A wrong sample is named by its place in the
// file.
func (s *leafSamples) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	s.endOffsets = []int{}
	err := eachElement(d, func() error {
		kind, err := s.sample(d)
		if err == nil && len(s.endOffsets) > 0 && s.kind != kind {
			err = fmt.Errorf("a sample of %v among those of %v", kind, s.kind)
		}
		if err != nil && !errors.As(err, new(*jsontext.SyntacticError)) {
			err = &json.SemanticError{ByteOffset: d.InputOffset(), JSONPointer: d.StackPointer(), Err: err}
		}
		s.kind = kind
		s.endOffsets = append(s.endOffsets, len(s.all))
		return err
	})
	// The clone is as large as its content; growing may have left twice as much room.
	s.all = slices.Clone(s.all)
	return err
}

// sample decodes the next element of x, appends it to all as bytes and returns its kind. A sample
// of numbers that fits no task gives errNumbers.
func (s *leafSamples) sample(d *jsontext.Decoder) (leafKind, error) {
	// A string is a window of Shakespeare.
	if d.PeekKind() == '"' {
		t, err := d.ReadToken()
		if err == nil {
			s.all, err = federated.AppendCharacters(s.all, t.String(), federated.ShakespeareWindow)
		}
		return shakespeareLEAF, err
	}
	if d.PeekKind() == '0' {
		return "", fmt.Errorf("a sample is one number, which %w", errNumbers)
	}
	// A list is an image of numbers or a tweet of strings.
	list := &leafList{samples: s}
	err := eachElement(d, func() error { return list.take(d) })
	switch {
	case err != nil:
		return "", err
	// Any of these strings may be an id or a date.
	case list.texts > 1 && list.texts < tweetPlace && list.pixels == 0:
		return "", fmt.Errorf(
			"found %d strings, want the text of a tweet alone, or as number %d of its fields (sent140)",
			list.texts,
			tweetPlace,
		)
	// Only the text of the tweet is kept.
	case list.texts > 0 && list.pixels == 0:
		s.all = append(s.all, list.tweet...)
		return sent140LEAF, nil
	case list.pixels == federated.FEMNISTPixels && list.texts == 0:
		return femnistLEAF, nil
	}
	err = fmt.Errorf(
		"found %d numbers and %d strings, want %d numbers (femnist), strings (sent140) or a "+
			"string of %d characters (shakespeare)",
		list.pixels, list.texts, federated.FEMNISTPixels, federated.ShakespeareWindow,
	)
	// Another number of pixels is an image of no task.
	if list.texts == 0 && list.pixels > 0 {
		err = fmt.Errorf("%w: it %w", err, errNumbers)
	}
	return "", err
}

// tweetPlace says which of the strings of a tweet is its text, counted from 1: id, date, query, user, text, and more.
const tweetPlace = 5

// leafList is a sample that is a list, as far as it was read.
type leafList struct {
	// samples gets the pixels.
	samples *leafSamples
	// pixels and texts count the numbers and the strings of the list.
	pixels, texts int
	// tweet is the string that is the text of the tweet, if the list is one: the string number tweetPlace, or the
	// only one.
	tweet string
}

// take decodes the next element of the list: a pixel of an image, from 0 to 1, or a string of a tweet.
func (l *leafList) take(d *jsontext.Decoder) error {
	if d.PeekKind() == '[' {
		return fmt.Errorf("a sample is a list of lists, which %w", errNumbers)
	}
	t, err := d.ReadToken()
	switch {
	case err != nil:
		return err
	case t.Kind() == '"':
		// Until the text comes, the first string is kept, which is the text if no other follows: some tools keep the
		// text alone.
		l.texts++
		if l.texts == 1 || l.texts == tweetPlace {
			l.tweet = t.String()
		}
		return nil
	// The decoder has the kind '0' for all numbers.
	case t.Kind() != '0':
		return fmt.Errorf("found '%v', want a number or a string", t.Kind())
	}
	// A number beyond the range of float64 is infinite, and no pixel.
	v, _ := t.Float()
	// LEAF divides bytes by 255, so the byte can be restored exactly.
	b := math.Round(v * 255)
	if !(b >= 0 && b <= 255) || math.Abs(float64(v*255)-b) > 0.01 {
		return fmt.Errorf("pixel %v, want a byte divided by 255, 0 to 1: it %w", v, errNumbers)
	}
	l.pixels++
	if l.pixels > federated.FEMNISTPixels {
		return fmt.Errorf("more than %d pixels: it %w", federated.FEMNISTPixels, errNumbers)
	}
	l.samples.all = append(l.samples.all, byte(b))
	return nil
}

// leafLabel is a label as far as it can be judged without the samples, which may come after it: a
// class, or a character with the mark leafCharacter.
type leafLabel int32

// UnmarshalJSONFrom reads a label: a class as a number, at most those of FEMNIST, or a character of
// Shakespeare's vocabulary as a string.
func (l *leafLabel) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	t, err := d.ReadToken()
	if err != nil {
		return err
	}
	text := t.String()
	// A token of kind '0' is a number, of kind '"' a string.
	isNumber := t.Kind() == '0'
	number := 0.0
	if isNumber {
		// A number beyond the range of float64 is infinite, and no class.
		number, _ = t.Float()
	}
	isCharacter := t.Kind() == '"' && len(text) == 1 && federated.ShakespeareIndex[text[0]] != 0xff
	switch {
	// A number must be a whole one among the classes, of which FEMNIST has the most.
	case isNumber && !isWholeBelow(number, federated.FEMNISTClasses):
		return fmt.Errorf(
			"label %s is outside the %d classes, want 0 to %d",
			text,
			federated.FEMNISTClasses,
			federated.FEMNISTClasses-1,
		)
	case isNumber:
		*l = leafLabel(number)
	// A character is told from a number by adding leafCharacter, because its meaning depends on the task.
	case isCharacter:
		*l = leafCharacter + leafLabel(federated.ShakespeareIndex[text[0]])
	default:
		return fmt.Errorf("label %.40q, want a number or one character of the vocabulary", text)
	}
	return nil
}

// leafCharacter marks a label that came as a character until the task is known:
// "0" is a polarity to sent140 and a character to shakespeare.
const leafCharacter = 1 << 10

// isWholeBelow reports whether x is a whole number from 0 on and below limit.
func isWholeBelow(x, limit float64) bool {
	return x == math.Trunc(x) && x >= 0 && x < limit
}

// class returns the class that a label means for samples of this kind. It returns an error if it is
// no label of that kind, such as a character for FEMNIST. A label that came as a character is leafCharacter plus the
// character's index in the vocabulary.
func (k leafKind) class(label leafLabel) (int32, error) {
	l := int32(label)
	character := label >= leafCharacter
	switch {
	case k == femnistLEAF && !character:
		return l, nil
	case k == shakespeareLEAF && character:
		return l - leafCharacter, nil
	// A polarity may be written as a string, and is then the value of a digit.
	case k == sent140LEAF && character:
		l = int32(federated.ShakespeareCharacters[l-leafCharacter]) - '0'
	}
	// Polarity 4 is positive in Sentiment140 and becomes class 1.
	isPolarity := l == 0 || l == 1 || l == 4
	if k == sent140LEAF && isPolarity {
		return min(l, 1), nil
	}
	return 0, fmt.Errorf("is no label of %s", k)
}

// joinShards makes the set of all shards, whose samples must be of one kind. Without test shards
// the samples of each user are split.
func joinShards(train, test []*leafShard, opt federated.Options) (*federated.Grouped, error) {
	kind, size, err := commonKind(slices.Concat(train, test))
	if err != nil {
		return nil, err
	}
	samples := &joined{kind: kind}
	// Tweets become bags of words instead, so they need no store of bytes.
	if kind != sent140LEAF {
		samples.bytes = make([]byte, 0, size)
	}
	split := opt.Split
	// The windows of a text overlap, so that they are not split like other samples.
	if kind == shakespeareLEAF {
		split = splitWindows
	}
	grouping, err := groupUsers(train, test, split, samples.take)
	if err != nil {
		return nil, err
	}
	name := string(kind) + " (leaf)"
	if kind == sent140LEAF {
		return samples.tweets.Bags(grouping, name)
	}
	// What is left are images of FEMNIST or windows of Shakespeare, which both have a fixed width.
	set := federated.Grouped{Task: string(kind), Labels: samples.labels, About: federated.FEMNISTInfo}
	rows := &federated.ByteRows{Bytes: samples.bytes, Width: federated.FEMNISTPixels, Coding: federated.Ink}
	if kind == shakespeareLEAF {
		set.About = federated.ShakespeareInfo
		rows.Width = federated.ShakespeareWindow
		rows.Coding = federated.Tokens
	}
	set.Rows = rows
	set.About.Name = name
	return grouping.Set(set)
}

// commonKind returns the kind of the samples in all of the shards, empty if there are none, and how many
// bytes they take. Samples of different kinds are an error.
func commonKind(shards []*leafShard) (kind leafKind, size int, err error) {
	for _, s := range shards {
		for _, name := range s.Users {
			x := &s.Data[name].X
			kind = cmp.Or(kind, x.kind)
			size += len(x.all)
			if x.kind != "" && x.kind != kind {
				return "", 0, fmt.Errorf("%s: user %q: holds %v among users with %v", s.name, name, x.kind, kind)
			}
		}
	}
	return kind, size, nil
}

// joined gathers the samples of all shards, which are of one kind.
type joined struct {
	kind leafKind
	// tweets has the samples if they are tweets. Otherwise bytes has their inputs, one sample after another,
	// and labels their classes.
	tweets tweetTexts
	bytes  []byte
	labels []int32
	// count is the number of samples so far.
	count int32
}

// take moves the samples of one user from a shard to j, and releases the shard's memory for them. It returns
// the numbers of the samples in the joined set, which count the samples of all users from 0 on, in the order of the
// calls.
func (j *joined) take(shard *leafShard, user string) ([]int32, error) {
	u := shard.Data[user]
	// Without this reference the memory is free once the samples are copied.
	shard.Data[user] = nil
	numbers := make([]int32, len(u.Labels))
	start := 0
	for i, l := range u.Labels {
		class, err := j.kind.class(l)
		if err != nil {
			return nil, fmt.Errorf("%s: user %q: y[%d] %w", shard.name, user, i, err)
		}
		end := u.X.endOffsets[i]
		x := u.X.all[start:end]
		start = end
		switch {
		case j.kind == sent140LEAF:
			err = j.tweets.Add(user, string(x), class)
		case j.count == federated.MaxSamples:
			err = fmt.Errorf("more than %d samples", j.count)
		default:
			j.bytes = append(j.bytes, x...)
			j.labels = append(j.labels, class)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: user %q: x[%d]: %w", shard.name, user, i, err)
		}
		numbers[i] = j.count
		j.count++
	}
	return numbers, nil
}

// groupUsers makes a client of every user of the training shards, in their order. Without test shards,
// split divides the samples of each user. With test shards, a user's test samples are held out, and
// those of users that do not train come last. take moves the samples of a user from a shard to the
// set and returns their numbers.
func groupUsers(
	train, test []*leafShard,
	split func(user int, samples []int32) (train, held []int32),
	take func(shard *leafShard, user string) (samples []int32, err error),
) (*federated.Grouping, error) {
	// A user may have a shard in both parts, but only one in each.
	trainShards, err := shardsByUser(train)
	testShards, testErr := shardsByUser(test)
	if err := cmp.Or(err, testErr); err != nil {
		return nil, err
	}
	g := new(federated.Grouping)
	for _, shard := range train {
		for _, name := range shard.Users {
			samples, err := take(shard, name)
			if err != nil {
				return nil, err
			}
			if len(test) == 0 {
				// The user's number counts all users before it: clients, and those that are none.
				number := len(g.Names) + g.ExcludedClients + g.ShortClients
				trainSamples, held := split(number, samples)
				g.AddSplit(name, len(samples), trainSamples, held)
				continue
			}
			var held []int32
			// The user may have test samples of its own.
			if testShards[name] != nil {
				held, err = take(testShards[name], name)
				if err != nil {
					return nil, err
				}
			}
			g.Add(name, samples, held)
		}
	}
	// Users without training samples are no clients, but their samples are held out.
	for _, shard := range test {
		for _, name := range shard.Users {
			if trainShards[name] == nil {
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

// shardsByUser returns the shard of each user, by name. A user in two shards is an error.
func shardsByUser(shards []*leafShard) (map[string]*leafShard, error) {
	byUser := make(map[string]*leafShard)
	for _, shard := range shards {
		for _, name := range shard.Users {
			if byUser[name] != nil {
				return nil, fmt.Errorf("user %q is in %s and in %s", name, byUser[name].name, shard.name)
			}
			byUser[name] = shard
		}
	}
	return byUser, nil
}
