package table

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"fedpace/data/federated"
	"fedpace/data/parquetfile"
	"fedpace/internal/names"
	"fedpace/registry"
)

// tableHelp is what the reader reads, in the words of help and errors.
const tableHelp = "CSV or Parquet of your own, by a mapping of its columns"

func init() { federated.Readers.Register("table", tableHelp, Table{}) }

// Table reads CSV (plain or gzip; commas, semicolons or tabs) and Parquet of your
// own. Its options say what the columns mean: whose a row is, what a model reads
// of it, and what it is to tell. A folder holds files with the same columns; those
// whose names begin with test are held out.
type Table struct {
	Client   string   `key:"client" is:"null" help:"column that says whose a row is; file: each file of a folder is a client's; null: nobody's, which needs a partition"`
	Features []string `key:"features" is:"null" help:"input columns: names, patterns such as px_*, or * for the rest; or one of lists or images"`
	Words    []string `key:"words" is:"null" help:"columns of few words, each word a feature of 0 or 1 (one-hot)"`
	Text     string   `key:"text" is:"null" help:"column of texts, in place of features"`
	Window   int      `key:"window" is:"null" range:"[1,65536]" unit:"tokens" help:"tokens of a sample"`
	Tokens   string   `key:"tokens" default:"characters" words:"characters,bytes" help:"what a token is"`
	Label    string   `key:"label" is:"null" help:"column of the class, words or whole numbers; null: text predicts its next token"`
	Classes  []string `key:"classes" is:"null" help:"names of classes in order; null: the label column's, sorted"`
	Target   []string `key:"target" is:"null" help:"columns of numbers to predict, in place of a label"`
	Split    string   `key:"split" is:"null" help:"column that says which rows are held out, as train and test or 0 and 1; null: a fifth of each client's"`
	Shape    []int    `key:"shape" is:"null" range:"[1,65536]" help:"channels, height and width of an image"`
	Channels string   `key:"channels" is:"null" words:"first,last" help:"order of an image's values: last for height, width, channel, as NumPy has them; null: first"`
	Scale    string   `key:"scale" default:"none" words:"none,standard,pixels" help:"change of features: none, to mean 0 and deviation 1 over the training rows, or from 0..255 to 0..1"`
	Decimal  string   `key:"decimal" is:"null" words:"point,comma" help:"decimal sign of numbers in texts; null: that of each column, where the fields are not separated by commas"`
	Missing  string   `key:"missing" default:"refuse" words:"refuse,drop,mean" help:"what a missing value does: error, the row is left out, or the training rows' mean"`

	// plain says that labels are whole numbers from 0, as in a table with the columns client, x
	// and y.
	plain bool
}

// The words of Table.
const (
	// byteTokens makes each byte of a text a token, in place of each character.
	byteTokens = "bytes"
	// scaleStandard brings features to mean 0 and deviation 1 over the training rows.
	scaleStandard = "standard"
	// scalePixels brings whole numbers from 0 to 255 to 0 to 1.
	scalePixels = "pixels"
	// missingDrop leaves out a row that lacks a value.
	missingDrop = "drop"
	// missingMean puts the mean over the training rows in the place of a missing feature.
	missingMean = "mean"
	// channelsLast says that the values of an image are in the order height, width, channel.
	channelsLast = "last"
)

// ErrUnmapped reports a table of which nothing says what its columns mean.
var ErrUnmapped = errors.New("nothing says what its columns mean; want a mapping, data: {path: ..., features: " +
	"[...], label: ...}, which fedpace init writes")

// maxColumns bounds the columns of a table, and maxFeatures the values of a sample.
const (
	maxColumns  = 1 << 16
	maxFeatures = 1 << 20
)

// Validate returns an error for the first options that contradict each other or lack one another. It
// looks at the options alone, not at a table; a mapping that names no column at all passes.
func (t Table) Validate() error {
	text := t.Text != ""
	switch {
	case t.unmapped():
		// Open reports a missing mapping, because it knows the columns that there are.
		return nil
	case text == (len(t.Features)+len(t.Words) > 0):
		return registry.Errorf("features", "want either features, or words, or text: the columns of the inputs")
	case text && t.Window == 0:
		return registry.Errorf("window", "is not set: text needs it (tokens of a sample, such as 80)")
	case !text && t.Window > 0:
		return registry.Errorf("window", "is the tokens of a text, and there is none (set text, or remove it)")
	case text && len(t.Target) > 0:
		return registry.Errorf(
			"target",
			"numbers are not predicted from text (want a label, or none for the next token)",
		)
	case text &&
		(t.Shape != nil ||
			t.Scale == scaleStandard ||
			t.Scale == scalePixels ||
			t.Missing == missingMean):
		return registry.Errorf("text", "takes no shape, no scale and no missing: mean")
	case !text && t.Label == "" && t.Target == nil:
		return registry.Errorf(
			"label",
			"is not set (the column of the class; or target, columns of numbers to predict)",
		)
	case t.Label != "" && t.Target != nil:
		return registry.Errorf("target", "want either a label or a target")
	case t.Scale == scalePixels && t.Missing == missingMean:
		return registry.Errorf("missing", "a mean is no whole number, which scale: pixels wants (refuse or drop)")
	case t.Classes != nil && t.Label == "":
		return registry.Errorf("classes", "names the classes of a label, and there is none")
	case t.Words != nil && (t.Shape != nil || t.Scale == scalePixels):
		return registry.Errorf("words", "take no shape and no scale: pixels")
	case t.Shape != nil && len(t.Shape) != 3:
		return registry.Errorf("shape", "%d numbers, want 3: channels, height and width", len(t.Shape))
	case t.Channels != "" && t.Shape == nil:
		return registry.Errorf("channels", "is the order of an image's values, and there is no shape (set shape)")
	case t.Shape != nil && t.Shape[0] > 4 && t.Shape[1] > 4 && t.Shape[2] == 3:
		return registry.Errorf(
			"shape",
			"%d channels of %d×3 pixels: it is channels, height and width (want [3, %d, %d] with channels: last)",
			t.Shape[0],
			t.Shape[1],
			t.Shape[0],
			t.Shape[1],
		)
	case t.Shape != nil && t.Shape[0]*t.Shape[1] > maxFeatures/t.Shape[2]:
		return registry.Errorf(
			"shape",
			"%d values of an image are more than %d",
			t.Shape[0]*t.Shape[1]*t.Shape[2],
			maxFeatures,
		)
	}
	for i, name := range t.Classes {
		if slices.Contains(t.Classes[:i], name) {
			return registry.Errorf("classes", "%q is named twice", name)
		}
	}
	for i, pattern := range t.Features {
		if _, err := path.Match(pattern, ""); err != nil {
			return registry.Errorf(fmt.Sprintf("features[%d]", i), "%q is not a pattern", pattern)
		}
	}
	return nil
}

// unmapped reports whether the mapping names no column at all.
func (t *Table) unmapped() bool {
	return t.Client == "" &&
		t.Features == nil &&
		t.Words == nil &&
		t.Text == "" &&
		t.Label == "" &&
		t.Target == nil &&
		t.Split == ""
}

// Recognises takes CSV that begins with the names of its columns, and what is called CSV:
// then Open says what is wrong with it.
func (Table) Recognises(s *federated.Source) federated.Match {
	if s.Folder {
		return recognisesFolder(s.Path)
	}
	if s.IsZip() ||
		strings.HasPrefix(s.Head, "PAR1") ||
		s.IsGzip() && s.IsArchive() {
		return federated.NoMatch
	}
	if f, err := openCSV(place{source: s}); err == nil && f.titled {
		return federated.ByContent
	}
	if slices.ContainsFunc(csvSuffixes, func(suffix string) bool { return strings.HasSuffix(s.Name(), suffix) }) {
		return federated.ByName
	}
	return federated.NoMatch
}

// recognisesFolder takes a folder of CSV files. Package data has a reader of folders of Parquet files.
func recognisesFolder(dir string) federated.Match {
	parquet, err := federated.TableFiles(dir, parquetSuffixes...)
	if parquet != nil || err != nil {
		return federated.NoMatch
	}
	csv, err := federated.TableFiles(dir, csvSuffixes...)
	if csv != nil || err != nil {
		return federated.ByContent
	}
	return federated.NoMatch
}

// Open reads the columns that the mapping names from the file or folder s and returns their set. Its
// error is ErrUnmapped, with the columns that there are, if the mapping names none.
func (t Table) Open(s *federated.Source, o federated.Options) (_ federated.Set, err error) {
	defer parquetfile.Damaged(&err)
	if err := t.Validate(); err != nil {
		return nil, err
	}
	files, err := openTables(s.Path, o.Reading)
	if err != nil {
		return nil, err
	}
	defer closeAll(files)
	if files, err = t.byFile(files); err != nil {
		return nil, err
	}
	if t.unmapped() {
		if f, ok := files[0].(*csvTable); ok {
			if err := f.checkNames(); err != nil {
				return nil, f.withFile(err)
			}
		}
		return nil, fmt.Errorf("columns %s: %w", federated.ShortList(files[0].columns()), ErrUnmapped)
	}
	set, err := t.read(files, o)
	if err != nil {
		return nil, err
	}
	// The digest covers the bytes of all files, what their places say, and every option of the mapping.
	h, err := hashTables(files)
	if err != nil {
		return nil, err
	}
	layout := "table " + federated.Readers.Text(t)
	if set.About.HeldOutClients > 0 { // whose samples were once left out
		layout += " held-out clients"
	}
	set.About.Digest = o.Digest(layout, h...)
	return set, nil
}

// read makes one set of the rows of all files, which have the same columns. Rows are numbered across the
// files in their order. The digest of the set is left to the caller.
func (t Table) read(files []tableFile, o federated.Options) (*federated.Grouped, error) {
	if o.Classes > 0 && t.Label == "" {
		return nil, fmt.Errorf("%d classes of a table without a label; want none", o.Classes)
	}
	if err := t.resolve(files[0].columns()); err != nil {
		return nil, err
	}
	commas, err := t.decimalColumns(files, t.columns(), slices.Concat(t.numericFeatures(), t.Target))
	if err != nil {
		return nil, err
	}
	r := newReading(t, o)
	if t.Label != "" && t.Classes == nil {
		r.label.noted = namedClasses(files, t.Label)
	}
	for i := range r.columns {
		if commas[r.columns[i].name] {
			r.columns[i].take = withPoint(r.columns[i].take)
		}
	}
	for _, f := range files {
		firstRow := r.rows
		err := f.read(r.columns, r)
		if err == nil && r.vector != nil {
			err = r.vector.close()
		}
		if err != nil {
			return nil, f.withFile(err)
		}
		// The rows of this file are the numbers from firstRow on.
		if f.heldOut() {
			r.heldOut = append(r.heldOut, [2]int{firstRow, r.rows})
		}
	}
	if r.rows == 0 {
		return nil, errors.New("no row; want at least one sample")
	}
	set, err := r.set("custom data (" + files[0].format() + ")")
	if err != nil {
		return nil, err
	}
	noteCommas(&set.About, r.columns, commas)
	t.noteUnused(&set.About, files)
	return set, nil
}

// resolve checks that each column that the mapping names exists and has one meaning only, and replaces
// each pattern in Features by the names of the columns that match it. A pattern takes no column that
// another option names; a feature that is named in full must be free.
func (t *Table) resolve(columns []string) error {
	var features []string
	position := places(columns)
	// taken gives the option that names a column, by the name of the column.
	taken := map[string]string{}
	take := func(option, name string) error {
		switch _, exists := position[name]; {
		case !exists:
			return fmt.Errorf(
				"%s: there is no column %q; the columns are %s",
				option,
				name,
				federated.ShortList(columns),
			)
		case taken[name] != "":
			return fmt.Errorf("%s: column %q is %s already; want it in one of both", option, name, taken[name])
		}
		taken[name] = option
		return nil
	}
	type named struct{ option, name string }
	list := []named{{"client", t.Client}, {"label", t.Label}, {"split", t.Split}, {"text", t.Text}}
	list = slices.DeleteFunc(list, func(n named) bool { return n.name == "" })
	for _, name := range t.Target {
		list = append(list, named{"target", name})
	}
	for _, name := range t.Words {
		list = append(list, named{"words", name})
	}
	for _, n := range list {
		if err := take(n.option, n.name); err != nil {
			return err
		}
	}
	// Patterns come last, so that they match only columns that nothing else has named.
	for _, pattern := range t.Features {
		pattern = imageColumn(pattern, position)
		if _, name := position[pattern]; name {
			if err := take("features", pattern); err != nil {
				return err
			}
			features = append(features, pattern)
			continue
		}
		before := len(features)
		for _, name := range columns {
			if matches(pattern, name) && taken[name] == "" {
				taken[name] = "features"
				features = append(features, name)
			}
		}
		if len(features) == before {
			return fmt.Errorf(
				"features: no column is called %q, or matches it; the columns are %s",
				pattern,
				federated.ShortList(columns),
			)
		}
	}
	t.Features = features
	return nil
}

// imageColumn is the column of an image that is called by its bytes: an Image of Hugging Face is a group
// of bytes and a path, which is one column here.
func imageColumn(name string, position map[string]int) string {
	group, isBytes := strings.CutSuffix(name, ".bytes")
	_, isColumn := position[name]
	if _, isGroup := position[group]; isBytes && isGroup && !isColumn {
		return group
	}
	return name
}

// columns lists the columns that may have numbers: all that the mapping names but the text.
func (t *Table) columns() []string {
	list := slices.Concat(t.Features, t.Words, t.Target)
	for _, name := range []string{t.Client, t.Label, t.Split} {
		if name != "" {
			list = append(list, name)
		}
	}
	return list
}

// numericFeatures lists the columns of features that have one number each. The only column of features
// may have lists, so its values decide.
func (t *Table) numericFeatures() []string {
	if len(t.Features) == 1 && t.Words == nil {
		return nil
	}
	return t.Features
}

// places gives the number of each column by its name.
func places(columns []string) map[string]int {
	position := make(map[string]int, len(columns))
	for i, name := range columns {
		position[name] = i
	}
	return position
}

// matches tells whether a column's name fits a pattern, in which a slash is a letter
// like others.
func matches(pattern, name string) bool {
	letters := func(s string) string { return strings.ReplaceAll(s, "/", "\x00") }
	// The error needs no check, because Validate has tried the pattern.
	ok, _ := path.Match(letters(pattern), letters(name))
	return ok
}

// noteUnused adds a remark on what is called as a split is and is not used as one: files, and a column.
func (t *Table) noteUnused(about *federated.Info, files []tableFile) {
	heldOut := make([]bool, len(files))
	for i, f := range files {
		heldOut[i] = f.heldOut()
	}
	if unused := federated.UnusedParts(names.Of(files, tableFile.path), heldOut); len(files) > 1 && unused != nil {
		about.AddWarning("%s: read like all other files, although the name looks like a split", federated.ShortList(unused))
	}
	if t.Split != "" {
		return
	}
	for _, name := range files[0].columns() {
		isUsed := name == t.Client || name == t.Label || name == t.Text || slices.Contains(t.Target, name)
		if !isUsed && hasWord(name, splitNames) {
			about.AddWarning("column %s is not used to hold rows out, although its name looks like a split", name)
		}
	}
}

// tableFile is one file of a table.
type tableFile interface {
	// format is the format of the file, for names of sets.
	format() string
	// columns are the names of all columns, in the order of the file.
	columns() []string
	// read hands the values of columns to their takers, those of a column in the
	// order of the rows.
	read(wanted []column, r *reading) error
	// path is where the file lies.
	path() string
	// heldOut says that all rows of the file are held out.
	heldOut() bool
	// withFile adds the name of the file to an error, unless the table has no other file.
	withFile(error) error
	// Close closes the file.
	Close() error
}

// taker takes a value of a row. The values of a list come one by one, all with the
// list's row. They are valid during the call only.
type taker func(row int, c cell) error

// column is one that has a meaning.
type column struct {
	name string
	// lists says that a row may have a list of values instead of one.
	lists bool
	// hasNames says that texts of the column are kept or shown, so that those of CSV have to be UTF-8.
	hasNames bool
	// take is called with each value of the column.
	take taker

	// nested takes the lengths of a row's nested lists, the outermost first; nil: nobody asks.
	nested func(lengths []int) error
}

// place is what files of all formats know of themselves.
type place struct {
	file string
	// onlyFile says that the table has no other file, so that errors need not name it.
	onlyFile bool

	// isHeldOut says that the name of the file, beside those of the others, marks its rows as held
	// out.
	isHeldOut bool

	// reading is where the progress is reported; nil means nowhere.
	reading *federated.Reading
	// source is the open file of the table; nil means that somebody else has opened it and closes
	// it.
	source *federated.Source
}

// Close closes the file.
func (n *place) Close() error { return n.source.File.Close() }

// path is where the file lies.
func (n *place) path() string { return n.file }

// heldOut reports whether all rows are held out, by the name of one file of several.
func (n *place) heldOut() bool { return n.isHeldOut }

// withFile adds the file's name to an error of one of several files.
func (n *place) withFile(err error) error {
	if n.onlyFile {
		// The caller that opened the file names it in the error.
		return err
	}
	return fmt.Errorf("%s: %w", filepath.Base(n.file), err)
}

// openTables opens a file, or all of a folder in lexical order.
func openTables(source string, reading *federated.Reading) (list []tableFile, err error) {
	s, err := federated.OpenSource(source)
	if err != nil {
		return nil, err
	}
	defer s.File.Close()
	files, err := listTable(s)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			closeAll(list)
		}
	}()
	// The first file sets the columns. Others may have them in another order.
	for _, found := range files {
		location := place{
			file:      found.Path,
			onlyFile:  len(files) == 1,
			isHeldOut: found.HeldOut,
			reading:   reading,
		}
		file, err := openTableFile(location)
		if err != nil {
			return list, location.withFile(err)
		}
		file = placed(file, found.Keys)
		list = append(list, file)
		if first := list[0].columns(); !slices.Equal(
			slices.Sorted(slices.Values(file.columns())),
			slices.Sorted(slices.Values(first)),
		) {
			return list, location.withFile(fmt.Errorf(
				"columns %s, and those of %s are %s",
				federated.ShortList(file.columns()),
				filepath.Base(files[0].Path),
				federated.ShortList(first),
			))
		}
	}
	if len(files) > 1 && !slices.ContainsFunc(list, func(f tableFile) bool { return !f.heldOut() }) {
		return list, errors.New("only test files")
	}
	return list, nil
}

// openTableFile opens a file as Parquet by its content or its name, as LEAF's JSON by its first sign,
// else as CSV.
func openTableFile(location place) (_ tableFile, err error) {
	s, err := federated.OpenSource(location.file)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.File.Close())
		}
	}()
	location.source = s
	if strings.HasPrefix(s.Head, "PAR1") || strings.HasSuffix(s.Name(), ".parquet") {
		file, err := parquetfile.Open(location.reading.Counted(s.File), s.Size)
		if err != nil {
			return nil, err
		}
		return newParquetTable(location, parquetfile.Join(file))
	}
	if strings.HasPrefix(strings.TrimLeft(s.Head, " \t\r\n"), "{") {
		return &leafTable{location}, nil
	}
	return openCSV(location)
}

// closeAll closes files that were read. Their errors do not matter.
func closeAll(files []tableFile) {
	for _, f := range files {
		// The files were only read, so that a failure to close them loses nothing.
		f.Close()
	}
}

// csvSuffixes are how names of CSV files end.
var csvSuffixes = []string{".csv", ".csv.gz", ".tsv", ".tsv.gz"}

// hashTables identifies files by their content and, where a name decides which are held out or gives
// columns, by that.
func hashTables(files []tableFile) ([][sha256.Size]byte, error) {
	sums, err := federated.Hash(names.Of(files, tableFile.path))
	for i, f := range files {
		if f.heldOut() && err == nil {
			sums[i] = sha256.Sum256(append([]byte("held out\n"), sums[i][:]...))
		}
		if p, ok := f.(*placedTable); ok {
			sums[i] = p.hashPlace(sums[i])
		}
	}
	return sums, err
}
