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
	// maxTweets bounds the number of tweets of a set; the full Sentiment140 has 1.6 million.
	maxTweets = 1 << 27
	// maxTweetBytes bounds a tweet in bytes.
	maxTweetBytes = 1 << 20
	// maxTweetWords bounds the known words of a tweet, whose counts have 16 bits.
	maxTweetWords = math.MaxUint16
	// maxFirstLine bounds, in bytes, the first line, by which a file of tweets is recognised.
	maxFirstLine = 1 << 16
)

func init() { federated.Readers.Register("sent140", "Sentiment140's CSV, CSV.gz or zip", Sent140{}) }

// Sent140 reads Sentiment140's tweets (Go et al. 2009): its CSV, plain, gzip or
// zip; or tweets without users, polarity and text apart by a tab.
type Sent140 struct{}

// Recognises reports whether s holds tweets: Sentiment140's archive, a table that begins with a
// tweet, or, by name, a packed file that is no other table.
func (Sent140) Recognises(s *federated.Source) federated.Match {
	switch {
	case s.IsZip():
		if zippedTweets(s.File, s.Size) != nil {
			return federated.ByContent
		}
	case !s.Folder && beginsWithTweet(s):
		return federated.ByContent
	// Packed files called .csv.gz and .tsv.gz are other tables.
	case s.IsGzip() && !s.IsArchive() && !strings.HasSuffix(s.Name(), "sv.gz"):
		return federated.ByName
	}
	return federated.NoMatch
}

// beginsWithTweet reports whether the file s begins with a tweet. Such a file has no names of
// columns: its first line has six fields, or a tab, and begins with a digit, the polarity.
func beginsWithTweet(s *federated.Source) bool {
	in, err := unzipped(bufio.NewReaderSize(io.NewSectionReader(s.File, 0, s.Size), maxFirstLine))
	if err != nil {
		return false
	}
	// An error shows again when the tweets are read.
	line, _ := in.Peek(maxFirstLine)
	if end := bytes.IndexByte(line, '\n'); end >= 0 {
		line = line[:end]
	}
	// Tweets without users have a digit and a tab.
	if len(line) > 1 && line[1] == '\t' {
		return isDigit(line[:1])
	}
	record, err := tweetReader(bytes.NewReader(line)).Read()
	return err == nil && len(record) == 6 && isDigit(record[0])
}

// isDigit reports whether a text is a single decimal digit.
func isDigit[T string | []byte](s T) bool { return len(s) == 1 && s[0] >= '0' && s[0] <= '9' }

// Open reads the tweets of the file s, which is a CSV file, plain or in gzip, or a zip archive that holds one. An
// archive is not unpacked to disk, and gives the same set, with the same digest, as the CSV file in it.
func (Sent140) Open(s *federated.Source, o federated.Options) (federated.Set, error) {
	if s.IsZip() {
		if entry := zippedTweets(o.Reading.Counted(s.File), s.Size); entry != nil {
			return readZippedTweets(entry, o)
		}
	}
	return openTweets(s.Content(o.Reading), o)
}

// readZippedTweets reads the table of tweets that is an entry of a zip archive. Errors name the
// entry; opt are the options of the run.
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

// openTweets reads Sentiment140's CSV from r, plain or gzip: polarity (0 or 4; 0 and 1 where a tool
// has recoded it), id, date, query, user, text, every field quoted; or tweets without users, see
// readAnonymousTweets. The digest of the set is that of r's bytes.
func openTweets(r io.Reader, opt federated.Options) (*federated.Grouped, error) {
	hash := sha256.New()
	// The bytes are hashed as they are read.
	tee := io.TeeReader(r, hash)
	s, err := readTweets(bufio.NewReaderSize(tee, 1<<20), opt)
	if err != nil {
		return nil, err
	}
	// The digest covers the bytes that gzip has left unread, too.
	if _, err := io.Copy(io.Discard, tee); err != nil {
		return nil, err
	}
	s.About.Identify(opt, "sent140", [sha256.Size]byte(hash.Sum(nil)))
	return s, nil
}

// zippedTweets returns Sentiment140's training CSV in a zip archive f of size bytes as it is
// published, beside a small test file. It returns nil if there is none.
func zippedTweets(f io.ReaderAt, size int64) *zip.File {
	// Whoever reads the file says what is wrong with it.
	entry, _ := zipEntry(f, size, func(name string) bool {
		return strings.HasSuffix(name, ".csv") && !strings.HasPrefix(name, "test")
	})
	return entry
}

// readTweets reads a table of tweets, plain or gzip: the six columns of Sentiment140, or polarity
// and text with a tab between them. opt says how many tweets a user must have, and how each user's tweets
// are split; tweets without users are divided among clients by its partition.
func readTweets(in *bufio.Reader, opt federated.Options) (*federated.Grouped, error) {
	in, err := unzipped(in)
	if err != nil {
		return nil, err
	}
	// A tab behind the first sign means tweets without users.
	if head, err := in.Peek(2); err == nil && head[1] == '\t' {
		return readAnonymousTweets(in, opt)
	}
	csvReader := tweetReader(in)
	tweets := new(tweetTexts)
	for {
		record, err := csvReader.Read()
		if err == io.EOF {
			break
		}
		if err != nil {
			// Damage of a packed file shows where it is read.
			if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, gzip.ErrChecksum) {
				return nil, fmt.Errorf("truncated or damaged after tweet %d: %w", len(tweets.Labels), err)
			}
			return nil, fmt.Errorf("after tweet %d: %w", len(tweets.Labels), err)
		}
		line, _ := csvReader.FieldPos(0)
		// The number of fields is checked here, so that the error names the line.
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
		user := record[4]
		text := record[5]
		if err := tweets.Add(user, text, label); err != nil {
			return nil, fmt.Errorf("line %d: %w", line, err)
		}
	}
	if len(tweets.Labels) == 0 {
		return nil, errors.New("no tweet; want lines of polarity, id, date, query, user, text")
	}
	return tweets.Set(opt, "sent140 (csv)")
}

// unzipped returns a reader of what in holds, unpacked if it begins as gzip does. It reads nothing
// of a text that is not packed.
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

// tweetReader returns a CSV reader of in that accepts quotes as loose as in Sentiment140's own file
// and any number of fields. A record is valid until the next one.
func tweetReader(in io.Reader) *csv.Reader {
	c := csv.NewReader(in)
	c.FieldsPerRecord = -1
	c.ReuseRecord = true
	c.LazyQuotes = true
	return c
}

// polarity is the class of a tweet by the sign that files have for it: 0 is negative, 1 and 4 are
// positive.
var polarity = map[string]int32{"0": 0, "1": 1, "4": 1}

// readAnonymousTweets reads tweets without users: lines with polarity and text, and a tab between
// them. It divides them among as many clients as the paper has, or as the partition in opt says. The set
// notes that its clients are not those of the source.
func readAnonymousTweets(in *bufio.Reader, opt federated.Options) (*federated.Grouped, error) {
	tweets := new(tweetTexts)
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
		if err := tweets.Add("", text, label); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("truncated or damaged after tweet %d: %w", len(tweets.Labels), err)
	}
	// All tweets have the same user, the empty name, until they are divided among clients.
	s, err := tweets.Set(federated.Options{Seed: opt.Seed, MinTweets: 1}, "sent140 (tweets without users)")
	if err != nil {
		return nil, err
	}
	s.About.Note = ""
	p := opt.Partition
	if p.Natural() {
		p.Kind = "iid"
	}
	// The paper has 21,876 clients; there cannot be more of them than tweets.
	p.Clients = cmp.Or(p.Clients, min(21_876, len(s.Train)))
	return s.Partitioned(p, nil, opt.Seed)
}

// tweetTexts collects the texts of tweets with their users, who are numbered in order of first
// appearance.
type tweetTexts struct {
	// users are the names of the authors.
	users federated.Names
	// owner is the number of the author of each tweet, the index in users.List.
	owner []int32
	// Labels has the class of each tweet: 0 for negative, 1 for positive.
	Labels []int32
	// all holds the texts of all tweets, one after another.
	all []byte
	// endOffsets is where the text of each tweet ends in all.
	endOffsets []uint32
	// isLatin1 says that a text is not UTF-8, so that all are read as ISO 8859-1.
	isLatin1 bool
}

// Add appends a tweet of a user with its class. Blanks around the user's name do not count. It returns an error for
// a tweet or a number of tweets beyond the limits, so that a damaged file costs a message and no memory.
func (t *tweetTexts) Add(user, text string, label int32) error {
	if len(text) > maxTweetBytes {
		return fmt.Errorf("a tweet of %d bytes, want at most %d: is a quote missing?", len(text), maxTweetBytes)
	}
	if len(t.Labels) == maxTweets || int64(len(t.all)+len(text)) > math.MaxUint32 {
		return fmt.Errorf("more than %d tweets or 4 GiB of text", maxTweets)
	}
	t.owner = append(t.owner, int32(t.users.Number(strings.TrimSpace(user))))
	t.Labels = append(t.Labels, label)
	t.isLatin1 = t.isLatin1 || !utf8.ValidString(text)
	t.all = append(t.all, text...)
	t.endOffsets = append(t.endOffsets, uint32(len(t.all)))
	return nil
}

// words returns the words of tweet i. The text is split at single spaces, so that two spaces in a
// row have an empty word between them (paper/NOTES, "Data").
func (t *tweetTexts) words(i int32) []string {
	var start uint32
	if i > 0 {
		start = t.endOffsets[i-1]
	}
	text := string(t.all[start:t.endOffsets[i]])
	if t.isLatin1 {
		var utf8 strings.Builder
		for _, b := range []byte(text) {
			utf8.WriteRune(rune(b))
		}
		text = utf8.String()
	}
	return strings.Split(text, " ")
}

// Set splits each user's tweets into training and held-out ones and makes the set of bags of words,
// which it gives this name. Users with fewer tweets than opt demands are left out; it is an error
// if none remains.
func (t *tweetTexts) Set(opt federated.Options, name string) (*federated.Grouped, error) {
	userTweets := make([][]int32, len(t.users.List))
	for i, u := range t.owner {
		userTweets[u] = append(userTweets[u], int32(i))
	}
	var g federated.Grouping
	for u, tweets := range userTweets {
		// Users with fewer tweets are no clients.
		if len(tweets) >= opt.TweetsAtLeast() {
			train, held := opt.Split(len(g.Names)+g.ExcludedClients, tweets)
			g.Add(t.users.List[u], train, held)
		}
	}
	if len(g.Names)+g.ExcludedClients == 0 {
		return nil, fmt.Errorf("none of %d users has %d tweets", len(userTweets), opt.TweetsAtLeast())
	}
	s, err := t.Bags(&g, name)
	if err != nil {
		return nil, err
	}
	s.About.AddNote("users with at least %d tweets", opt.TweetsAtLeast())
	return s, nil
}

// Bags makes the set of bags of words, which it gives this name, from the tweets that grouping assigns to
// clients or holds out: the samples in grouping are numbers of tweets. The vocabulary are the most frequent words of
// the training tweets. Tweets without a word of it are dropped, and a note says how many.
func (t *tweetTexts) Bags(grouping *federated.Grouping, name string) (*federated.Grouped, error) {
	index := vocabulary(federated.Sent140Words, func(yield func(string) bool) {
		for _, i := range grouping.Train {
			for _, w := range t.words(i) {
				if !yield(w) {
					return
				}
			}
		}
	})
	set := federated.Grouped{
		Task:  "sent140",
		About: federated.Sent140Info,
	}
	set.About.Name = name
	bags := &federated.BagRows{Starts: []uint32{0}}
	set.Rows = bags
	// The samples of g are rows of the set. Tweets without a known word have no row, so rows have other numbers than
	// tweets. g goes on counting the clients that grouping has left out.
	g := federated.Grouping{ExcludedClients: grouping.ExcludedClients, ExcludedHeldOut: grouping.ExcludedHeldOut}
	// The training tweets of client c lie between starts c and c+1.
	starts := append(grouping.Starts, len(grouping.Train))
	for c, name := range grouping.Names {
		// addBags adds a row to bags and its label to set.Labels for each tweet that it does not drop.
		train, err := t.addBags(&set, bags, index, grouping.Train[starts[c]:starts[c+1]])
		if err != nil {
			return nil, err
		}
		g.Add(name, train, nil)
	}
	var err error
	g.Held, err = t.addBags(&set, bags, index, grouping.Held)
	if err != nil {
		return nil, err
	}
	if dropped := len(grouping.Train) + len(grouping.Held) - len(set.Labels); dropped > 0 {
		set.About.AddNote("%d tweets without a known token dropped", dropped)
	}
	return g.Set(set)
}

// addBags adds some tweets to the set, their bags of words to bags, and returns the numbers of their rows.
// A tweet without a word of the vocabulary index is left out.
func (t *tweetTexts) addBags(
	set *federated.Grouped, bags *federated.BagRows, index map[string]uint16, tweets []int32,
) (rows []int32, err error) {
	for _, i := range tweets {
		hasKnown, err := addBag(bags, index, t.words(i))
		if err != nil {
			return nil, fmt.Errorf("tweet %d: %w", i+1, err)
		}
		if hasKnown {
			rows = append(rows, int32(len(set.Labels)))
			set.Labels = append(set.Labels, t.Labels[i])
		}
	}
	return rows, nil
}

// addBag appends to r the bag of those words that are in the vocabulary index: each with its count, in the
// order of the vocabulary. It reports false and appends nothing if none of them is.
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
	// Counts and places must fit their types.
	if len(tokens) > maxTweetWords || int64(len(r.Tokens)+len(tokens)) > math.MaxUint32 {
		return false, fmt.Errorf("%d tokens, want at most %d", len(tokens), maxTweetWords)
	}
	r.Add(tokens)
	return true, nil
}

// vocabulary returns the numbers of the n most frequent of the words, from 0 on, the most frequent
// first. Of words equally frequent, the one that appeared first comes first.
func vocabulary(n int, words iter.Seq[string]) map[string]uint16 {
	var distinct federated.Names
	// counts[i] is the count of word number i in the order of first appearance.
	var counts, byCount []int
	for w := range words {
		i := distinct.Number(w)
		if i == len(counts) {
			counts = append(counts, 0)
			byCount = append(byCount, i)
		}
		counts[i]++
	}
	// The sort is stable, so that words equally frequent keep the order of their appearance.
	slices.SortStableFunc(byCount, func(a, b int) int { return cmp.Compare(counts[b], counts[a]) })
	index := make(map[string]uint16)
	for rank, i := range byCount[:min(n, len(byCount))] {
		index[distinct.List[i]] = uint16(rank)
	}
	return index
}
