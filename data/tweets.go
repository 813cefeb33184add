package data

import (
	"archive/zip"
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"crypto/sha256"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"fedpace/data/federated"
)

// Limits of Sentiment140: the full set has 1.6 million tweets.
const (
	maxTweets     = 1 << 27
	maxTweetBytes = 1 << 20
	maxTweetWords = math.MaxUint16
	// maxFirstLine bounds, in bytes, the first line, by which a file of tweets is recognised.
	maxFirstLine = 1 << 16
)

func init() { federated.Readers.Register("sent140", "Sentiment140's CSV, CSV.gz or zip", Sent140{}) }

// Sent140 reads Sentiment140's tweets (Go et al. 2009): its CSV, plain, gzip or
// zip; or tweets without users, polarity and text apart by a tab.
type Sent140 struct{}

// Recognises knows Sentiment140's archive, tables that begin with a tweet, and packed tweets
// by name.
func (Sent140) Recognises(s *federated.Source) federated.Match {
	switch {
	case s.IsZip() && zippedTweets(s.File, s.Size) != nil, !s.Folder && !s.IsZip() && beginsWithTweet(s):
		return federated.ByContent
	case s.IsGzip() && !s.IsArchive() && !strings.HasSuffix(s.Name(), "sv.gz"): // .csv and .tsv are other tables
		return federated.ByName
	}
	return federated.NoMatch
}

// beginsWithTweet tells tweets, above which there are no names of columns, from other
// tables: by six fields or a tab, and a digit for the polarity.
func beginsWithTweet(s *federated.Source) bool {
	in, err := unzipped(bufio.NewReaderSize(io.NewSectionReader(s.File, 0, s.Size), maxFirstLine))
	if err != nil {
		return false
	}
	line, _ := in.Peek(maxFirstLine) // an error shows again
	if end := bytes.IndexByte(line, '\n'); end >= 0 {
		line = line[:end]
	}
	if len(line) > 1 && line[1] == '\t' {
		return isDigit(line[:1])
	}
	record, err := tweetReader(bytes.NewReader(line)).Read()
	return err == nil && len(record) == 6 && isDigit(record[0])
}

// isDigit reports whether a text is a single decimal digit.
func isDigit[T string | []byte](s T) bool { return len(s) == 1 && s[0] >= '0' && s[0] <= '9' }

// Open reads a zipped CSV without unpacking it to disk. The set is that of the
// CSV, by its digest too.
func (Sent140) Open(s *federated.Source, o federated.Options) (federated.Set, error) {
	if entry := zippedTweets(o.Reading.Counted(s.File), s.Size); s.IsZip() && entry != nil {
		return readZippedTweets(entry, o)
	}
	return openTweets(s.Content(o.Reading), o)
}

// readZippedTweets reads the table of tweets in a zip archive.
func readZippedTweets(entry *zip.File, opt federated.Options) (*federated.Grouped, error) {
	r, err := entry.Open()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	s, err := openTweets(r, opt)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", entry.Name, err)
	}
	return s, nil
}

// openTweets reads Sentiment140's CSV, plain or gzip: polarity (0 or 4; 0 and 1
// where a tool has recoded it), id, date, query, user, text, every field quoted;
// or tweets without users, see readUnowned. The digest is that of r's bytes.
func openTweets(r io.Reader, opt federated.Options) (*federated.Grouped, error) {
	h := sha256.New()
	tee := io.TeeReader(r, h)
	s, err := readTweets(bufio.NewReaderSize(tee, 1<<20), opt)
	if err != nil {
		return nil, err
	}
	// The digest covers the bytes that gzip has left unread, too.
	if _, err := io.Copy(io.Discard, tee); err != nil {
		return nil, err
	}
	s.About.Digest = opt.Digest("sent140", [sha256.Size]byte(h.Sum(nil)))
	return s, nil
}

// zippedTweets finds Sentiment140's training CSV in a zip as it is published,
// beside a small test file; nil where there is none.
func zippedTweets(f io.ReaderAt, size int64) *zip.File {
	entry, _ := zipEntry(f, size, func(name string) bool { // whoever reads it says what is wrong
		return strings.HasSuffix(name, ".csv") && !strings.HasPrefix(name, "test")
	})
	return entry
}

// readTweets reads a table of tweets, packed or not: six columns of Sentiment140, or two of
// the anonymous form.
func readTweets(in *bufio.Reader, opt federated.Options) (*federated.Grouped, error) {
	in, err := unzipped(in)
	if err != nil {
		return nil, err
	}
	if head, err := in.Peek(2); err == nil && head[1] == '\t' {
		return readAnonymousTweets(in, opt)
	}
	c := tweetReader(in)
	t := new(tweetTexts)
	for {
		record, err := c.Read()
		if err == io.EOF {
			break
		}
		if err != nil {
			if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, gzip.ErrChecksum) {
				return nil, fmt.Errorf("truncated or damaged after tweet %d: %w", len(t.Labels), err)
			}
			return nil, fmt.Errorf("after tweet %d: %w", len(t.Labels), err)
		}
		line, _ := c.FieldPos(0)
		if len(record) != 6 {
			return nil, fmt.Errorf(
				"line %d: found %d columns, want 6: polarity, id, date, query, user, text",
				line,
				len(record),
			)
		}
		label, ok := polarity[record[0]]
		if !ok {
			return nil, fmt.Errorf("line %d: polarity %.40q, want 0 or 4", line, record[0])
		}
		if err := t.Add(record[4], record[5], label); err != nil {
			return nil, fmt.Errorf("line %d: %w", line, err)
		}
	}
	if len(t.Labels) == 0 {
		return nil, errors.New("no tweet; want lines of polarity, id, date, query, user, text")
	}
	return t.Set(opt, "sent140 (csv)")
}

// unzipped is what a gzip holds, or else what there is.
func unzipped(in *bufio.Reader) (*bufio.Reader, error) {
	if magic, err := in.Peek(2); err != nil || string(magic) != "\x1f\x8b" {
		return in, nil
	}
	z, err := gzip.NewReader(in)
	if err != nil {
		return nil, fmt.Errorf("gzip: %w", err)
	}
	return bufio.NewReaderSize(z, 1<<20), nil
}

// tweetReader reads CSV whose quotes are as loose as in Sentiment140's own file.
func tweetReader(in io.Reader) *csv.Reader {
	c := csv.NewReader(in)
	c.FieldsPerRecord = -1
	c.ReuseRecord = true
	c.LazyQuotes = true
	return c
}

// polarity is the label of a feeling as files write it.
var polarity = map[string]int32{"0": 0, "1": 1, "4": 1}

// readAnonymousTweets reads tweets without users, polarity and text apart by a tab, and
// deals them to as many clients as the paper has, or as the partition says.
// Such a grouping is made, and called so.
func readAnonymousTweets(in *bufio.Reader, opt federated.Options) (*federated.Grouped, error) {
	t := new(tweetTexts)
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxTweetBytes)
	for n := 1; lines.Scan(); n++ {
		sign, text, ok := strings.Cut(lines.Text(), "\t")
		if !ok {
			return nil, fmt.Errorf("line %d: found no tab, want polarity and text apart by one", n)
		}
		label, ok := polarity[sign]
		if !ok {
			return nil, fmt.Errorf("line %d: polarity %.40q, want 0, 1 or 4", n, sign)
		}
		if err := t.Add("", text, label); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("truncated or damaged after tweet %d: %w", len(t.Labels), err)
	}
	s, err := t.Set(federated.Options{Seed: opt.Seed, MinTweets: 1}, "sent140 (tweets without users)")
	if err != nil {
		return nil, err
	}
	s.About.Note = ""
	p := opt.Partition
	if p.Natural() {
		p.Kind = "iid"
	}
	p.Clients = cmp.Or(p.Clients, min(21_876, len(s.Train)))
	return s.Partitioned(p, nil, opt.Seed)
}

// tweetTexts collects texts by user, users in order of first appearance.
type tweetTexts struct {
	users federated.Names
	// owner is the number of the author of each tweet.
	owner  []int32
	Labels []int32
	// text holds the texts of all tweets, one after another.
	text   []byte
	end    []uint32
	latin1 bool
}

// Add appends a tweet of a user. Texts and users have limits, so that a damaged file costs a
// message and not memory.
func (t *tweetTexts) Add(user, text string, label int32) error {
	if len(text) > maxTweetBytes {
		return fmt.Errorf("a tweet of %d bytes, want at most %d: is a quote missing?", len(text), maxTweetBytes)
	}
	if len(t.Labels) == maxTweets || int64(len(t.text)+len(text)) > math.MaxUint32 {
		return fmt.Errorf("more than %d tweets or 4 GiB of text", maxTweets)
	}
	t.owner = append(t.owner, int32(t.users.Number(user)))
	t.Labels = append(t.Labels, label)
	t.latin1 = t.latin1 || !utf8.ValidString(text)
	t.text = append(t.text, text...)
	t.end = append(t.end, uint32(len(t.text)))
	return nil
}

// words of tweet i: split on single spaces, so that two spaces in a row hold
// an empty word (paper/NOTES, "Data").
func (t *tweetTexts) words(i int32) []string {
	var start uint32
	if i > 0 {
		start = t.end[i-1]
	}
	text := string(t.text[start:t.end[i]])
	if t.latin1 {
		var utf8 strings.Builder
		for _, b := range []byte(text) {
			utf8.WriteRune(rune(b))
		}
		text = utf8.String()
	}
	return strings.Split(text, " ")
}

// Set splits each user's tweets, takes the vocabulary from the training part
// and turns tweets to bags of words.
func (t *tweetTexts) Set(opt federated.Options, name string) (*federated.Grouped, error) {
	userTweets := make([][]int32, len(t.users.List))
	for i, u := range t.owner {
		userTweets[u] = append(userTweets[u], int32(i))
	}
	var g federated.Grouping
	for u, tweets := range userTweets {
		if len(tweets) >= opt.TweetsAtLeast() {
			train, held := opt.Split(len(g.Names)+g.Excluded, tweets)
			g.Add(t.users.List[u], train, held)
		}
	}
	if len(g.Names)+g.Excluded == 0 {
		return nil, fmt.Errorf("none of %d users has %d tweets", len(userTweets), opt.TweetsAtLeast())
	}
	s, err := t.Bags(&g, name)
	if err != nil {
		return nil, err
	}
	s.About.AddNote("users with at least %d tweets", opt.TweetsAtLeast())
	return s, nil
}

// Bags takes the vocabulary from the training tweets of a grouping and makes
// the set of bags of words. Tweets without a known token are dropped.
func (t *tweetTexts) Bags(by *federated.Grouping, name string) (*federated.Grouped, error) {
	index := vocabulary(federated.Sent140Words, func(yield func(string) bool) {
		for _, i := range by.Train {
			for _, w := range t.words(i) {
				if !yield(w) {
					return
				}
			}
		}
	})
	bags := &federated.BagRows{Starts: []uint32{0}}
	var labels []int32
	bag := func(tweets []int32) (rows []int32, err error) {
		for _, i := range tweets {
			hasKnown, err := addBag(bags, index, t.words(i))
			if err != nil {
				return nil, fmt.Errorf("tweet %d: %w", i+1, err)
			}
			if hasKnown {
				rows = append(rows, int32(len(labels)))
				labels = append(labels, t.Labels[i])
			}
		}
		return rows, nil
	}
	g := federated.Grouping{Excluded: by.Excluded, Lost: by.Lost}
	starts := append(by.Starts, len(by.Train))
	for c, name := range by.Names {
		train, err := bag(by.Train[starts[c]:starts[c+1]])
		if err != nil {
			return nil, err
		}
		g.Add(name, train, nil)
	}
	var err error
	if g.Held, err = bag(by.Held); err != nil {
		return nil, err
	}
	s := federated.Grouped{
		Task:   "sent140",
		Labels: labels,
		Rows:   bags,
		About:  federated.Sent140Info,
	}
	s.About.Name = name
	if dropped := len(by.Train) + len(by.Held) - len(labels); dropped > 0 {
		s.About.AddNote("%d tweets without a known token dropped", dropped)
	}
	return g.Set(s)
}

// addBag appends a bag of the known words, or reports that there is none.
func addBag(r *federated.BagRows, index map[string]uint16, words []string) (hasKnown bool, err error) {
	var tokens []uint16
	for _, w := range words {
		if i, ok := index[w]; ok {
			tokens = append(tokens, i)
		}
	}
	if len(tokens) == 0 {
		return false, nil
	}
	if len(tokens) > maxTweetWords || int64(len(r.Word)+len(tokens)) > math.MaxUint32 {
		return false, fmt.Errorf("%d tokens, want at most %d", len(tokens), maxTweetWords)
	}
	slices.Sort(tokens)
	for i, token := range tokens {
		if i == 0 || token != tokens[i-1] {
			r.Word, r.Count = append(r.Word, token), append(r.Count, 0)
		}
		r.Count[len(r.Count)-1]++
	}
	r.Total = append(r.Total, uint16(len(tokens)))
	r.Starts = append(r.Starts, uint32(len(r.Word)))
	return true, nil
}

// vocabulary numbers the n most frequent words; of words equally frequent the
// one that appeared first comes first.
func vocabulary(n int, words iter.Seq[string]) map[string]uint16 {
	var distinct federated.Names
	var count, order []int
	for w := range words {
		i := distinct.Number(w)
		if i == len(count) {
			count, order = append(count, 0), append(order, i)
		}
		count[i]++
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(count[b], count[a]) })
	index := make(map[string]uint16)
	for i, w := range order[:min(n, len(order))] {
		index[distinct.List[w]] = uint16(i)
	}
	return index
}
