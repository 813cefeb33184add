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

// tableHelp says what the reader "table" reads, for help and errors.
const tableHelp = "your CSV or Parquet, by a mapping of columns"

func init() { federated.Readers.Register("table", tableHelp, Table{}) }

// Table reads CSV (plain or gzip; commas, semicolons or tabs) and Parquet of the user's own. Its
// options say what the columns mean: whose a row is, what a model reads of it, and what it is to
// predict. A folder holds files with the same columns; those whose names begin with test are held
// out.
type Table struct {
	// Client is the column that says whose a row is; "file" makes each file a client's; empty: the
	// rows are nobody's, and a partition deals them.
	Client string `key:"client" is:"null" help:"column of clients; file: each file is one; null: needs a partition"`
	// Features are the columns of the inputs, as names or patterns, or one column of lists or
	// images.
	Features []string `key:"features" is:"null" help:"input columns: names, patterns (px_*), * for the rest; or one of lists or images"`
	// Words are columns of few different words, each word of which is a feature of 0 or 1.
	Words []string `key:"words" is:"null" help:"columns to one-hot encode"`
	// Text is the column of texts, in the place of features.
	Text string `key:"text" is:"null" help:"column of texts"`
	// Window is the number of tokens of a sample of text.
	Window int `key:"window" is:"null" range:"[1,65536]" unit:"tokens" help:"tokens of a sample"`
	// Tokens says what a token is: a character, a byte, or a word, whose order is not read.
	Tokens string `key:"tokens" default:"characters" words:"characters,bytes,words" help:"tokens; words: a bag of words"`
	// Label is the column of the class; empty: a text predicts its next token.
	Label string `key:"label" is:"null" help:"column of classes; null: text predicts its next token"`
	// Classes are the names of the classes in their order; nil: those of the label column, sorted.
	Classes []string `key:"classes" is:"null" help:"classes in order; null: sorted"`
	// Target are the columns of numbers to predict, in the place of a label.
	Target []string `key:"target" is:"null" help:"columns to predict (regression)"`
	// TargetScale says how targets are changed before a model learns them; empty: not at all.
	TargetScale string `key:"target_scale" is:"null" words:"standard" help:"standard: mean 0 and deviation 1 over training rows"`
	// Split is the column that says which rows are held out; empty: a part of each client's.
	Split string `key:"split" is:"null" help:"column of the split: train and test, or 0 and 1 (is_train: 1 and 0); null: a fifth of each client's rows"`
	// Arrival is the column of the samples' times; empty: all samples are there from the beginning.
	Arrival string `key:"arrival" is:"null" help:"column of numbers that say when a row arrives on the virtual clock; null: all rows are there"`
	// ArrivalStart is the time, as the column has it, at which a run begins.
	ArrivalStart float64 `key:"arrival_start" is:"null" range:"[-1e15,1e15]" help:"what the column has when the run begins; null: 0"`
	// ArrivalSpeed is by how much the column's times grow in a virtual second.
	ArrivalSpeed float64 `key:"arrival_speed" is:"null" range:"[1e-9,1e15]" help:"what a virtual second is in the column; null: 1"`
	// ArrivalWindow is for how many virtual seconds a row is there.
	ArrivalWindow float64 `key:"arrival_window" is:"null" range:"[1e-9,1e9]" unit:"seconds" help:"virtual time for which a row is there; null: for ever"`
	// Shape has the channels, the height and the width of an image; nil: the features are no image.
	Shape []int `key:"shape" is:"null" range:"[1,65536]" help:"channels, height and width of an image"`
	// Channels is the order of an image's values in the table; empty: channels first.
	Channels string `key:"channels" is:"null" words:"first,last" help:"order of an image's values; null: first"`
	// Scale says how features are changed before a model reads them.
	Scale string `key:"scale" default:"none" words:"none,standard,pixels" help:"standard: mean 0 and deviation 1 over training rows; pixels: 0..255 to 0..1"`
	// Decimal is the decimal sign of numbers in texts; empty: each column tells it.
	Decimal string `key:"decimal" is:"null" words:"point,comma" help:"decimal sign; null: by column, where commas do not separate fields"`
	// Missing says what happens where a value is missing: an error, no row, or the mean.
	Missing string `key:"missing" default:"refuse" words:"refuse,drop,mean" help:"missing values: an error, drop the row, or training rows' mean"`

	// plain says that labels are whole numbers from 0, as in a table with the columns client, x
	// and y.
	plain bool
}

// The words of Table.
const (
	// wordTokens makes each text a bag of words.
	wordTokens = "words"
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
	"[...], label: ...}, which fedpace init writes (data.path alone changes the file and keeps a mapping)")

// maxColumns bounds the columns of a table, and maxFeatures the values of a sample.
const (
	maxColumns  = 1 << 16
	maxFeatures = 1 << 20
)

// Validate returns an error for the first options that contradict each other or lack one another.
// It looks at the options alone, not at a table; a mapping that names no column at all passes,
// because Open reports it.
func (t Table) Validate() error {
	isText := t.Text != ""
	hasFeatures := len(t.Features)+len(t.Words) > 0
	isScaled := t.Scale == scaleStandard || t.Scale == scalePixels
	switch {
	case t.unmapped():
		// Open reports a missing mapping, because it knows the columns that there are.
		return nil
	// Exactly one kind of input must be named.
	case isText == hasFeatures:
		return registry.Errorf("features", "want either features, or words, or text: the columns of the inputs")
	case t.Tokens == wordTokens && !isText:
		return registry.Errorf("tokens", "words are those of a text, and there is none (set text)")
	case t.Tokens == wordTokens && t.Label == "":
		return registry.Errorf("tokens", "words have no order, so that none is the next (set label)")
	case t.Tokens == wordTokens && t.Window > 0:
		return registry.Errorf("window", "is for tokens in their order; words of a text are all read (want null)")
	case isText && t.Window == 0 && t.Tokens != wordTokens:
		return registry.Errorf("window", "is not set: text needs it (tokens of a sample, such as 80)")
	case !isText && t.Window > 0:
		return registry.Errorf("window", "is the tokens of a text, and there is none (set text, or remove it)")
	case isText && len(t.Target) > 0:
		return registry.Errorf(
			"target",
			"numbers are not predicted from text (want a label, or none for the next token)",
		)
	case isText && (t.Shape != nil || isScaled || t.Missing == missingMean):
		return registry.Errorf("text", "takes no shape, no scale and no missing: mean")
	case !isText && t.Label == "" && t.Target == nil:
		return registry.Errorf(
			"label",
			"is not set (the column of the class; or target, columns of numbers to predict)",
		)
	case t.Label != "" && t.Target != nil:
		return registry.Errorf("target", "want either a label or a target")
	case t.Scale == scalePixels && t.Missing == missingMean:
		return registry.Errorf("missing", "a mean is no whole number, which scale: pixels wants (refuse or drop)")
	case t.TargetScale != "" && t.Target == nil:
		return registry.Errorf("target_scale", "is the scale of a target, and there is none")
	case t.Classes != nil && t.Label == "":
		return registry.Errorf("classes", "names the classes of a label, and there is none")
	case t.Words != nil && (t.Shape != nil || t.Scale == scalePixels):
		return registry.Errorf("words", "take no shape and no scale: pixels")
	case t.Shape != nil && len(t.Shape) != 3:
		return registry.Errorf("shape", "%d numbers, want 3: channels, height and width", len(t.Shape))
	case t.Channels != "" && t.Shape == nil:
		return registry.Errorf("channels", "is the order of an image's values, and there is no shape (set shape)")
	// A shape such as 32, 32, 3 has the channels last, which is a common mistake.
	case t.Shape != nil && t.Shape[0] > 4 && t.Shape[1] > 4 && t.Shape[2] == 3:
		return registry.Errorf(
			"shape",
			"%d channels of %d×3 pixels: it is channels, height and width (want [3, %d, %d] with channels: last)",
			t.Shape[0],
			t.Shape[1],
			t.Shape[0],
			t.Shape[1],
		)
	// The division keeps the product from an overflow.
	case t.Shape != nil && t.Shape[0]*t.Shape[1] > maxFeatures/t.Shape[2]:
		return registry.Errorf(
			"shape",
			"%d values of an image are more than %d",
			t.Shape[0]*t.Shape[1]*t.Shape[2],
			maxFeatures,
		)
	}
	if err := t.validateArrival(); err != nil {
		return err
	}
	// A class has one name, and a name one class.
	for i, name := range t.Classes {
		if slices.Contains(t.Classes[:i], name) {
			return registry.Errorf("classes", "%q is named twice", name)
		}
	}
	// A pattern is tried on an empty name, which shows whether it is well formed.
	for i, pattern := range t.Features {
		if _, err := path.Match(pattern, ""); err != nil {
			return registry.Errorf(fmt.Sprintf("features[%d]", i), "%q is not a pattern", pattern)
		}
	}
	return nil
}

// validateArrival returns an error for options of arrivals without a column of times, and for samples that
// are not rows, whose times would not be known.
func (t *Table) validateArrival() error {
	isSet := t.ArrivalStart != 0 || t.ArrivalSpeed != 0 || t.ArrivalWindow != 0
	switch {
	case t.Arrival == "" && isSet:
		return registry.Errorf("arrival", "is not set: the column of times, of which start, speed and window are given")
	case t.Arrival != "" && t.Text != "" && (t.Label == "" || t.Tokens == wordTokens):
		return registry.Errorf("arrival", "needs samples that are rows, and these are windows of text or bags of "+
			"words (set a label, and tokens: characters or bytes)")
	}
	return nil
}

// Arrives reports whether samples arrive over the time of a run.
func (t Table) Arrives() bool { return t.Arrival != "" }

// ScalesTargets reports whether targets are scaled before a model learns them.
func (t Table) ScalesTargets() bool { return t.TargetScale != "" }

// unmapped reports whether the mapping names no column at all, so that nothing says what the
// columns mean.
func (t *Table) unmapped() bool {
	hasInputs := t.Features != nil || t.Words != nil || t.Text != ""
	hasAnswers := t.Label != "" || t.Target != nil
	return !hasInputs && !hasAnswers && t.Client == "" && t.Split == ""
}

// Recognises reports whether s looks like a table: a CSV file that begins with names of columns, a
// file that is called .csv or .tsv, or a folder of such files. A file that is only called so is a
// match, too, because Open then says what is wrong with it.
func (Table) Recognises(s *federated.Source) federated.Match {
	if s.Folder {
		return recognisesFolder(s.Path)
	}
	// Archives and Parquet files have readers of their own.
	isPacked := s.IsZip() || s.IsGzip() && s.IsArchive()
	isParquet := strings.HasPrefix(s.Head, "PAR1")
	if isPacked || isParquet {
		return federated.NoMatch
	}
	if f, err := openCSV(openFile{source: s}); err == nil && f.hasTitles {
		return federated.ByContent
	}
	if slices.ContainsFunc(csvSuffixes, func(suffix string) bool { return strings.HasSuffix(s.Name(), suffix) }) {
		return federated.ByName
	}
	return federated.NoMatch
}

// recognisesFolder reports a match by content for a folder that holds CSV files and no Parquet
// files, which package data has a reader for.
func recognisesFolder(dir string) federated.Match {
	parquet, err := federated.TableFiles(dir, parquetSuffixes...)
	if parquet != nil || err != nil {
		return federated.NoMatch
	}
	csv, err := federated.TableFiles(dir, csvSuffixes...)
	// With an error it matches, too, so that Open reports the error.
	if csv != nil || err != nil {
		return federated.ByContent
	}
	return federated.NoMatch
}

// Open reads the columns that the mapping names from the file or folder s and returns their set,
// with a digest that identifies data and mapping. o are the options of the run. The error is
// ErrUnmapped, with the names of the columns, if the mapping names none.
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
	files, err = t.withFileClients(files)
	if err != nil {
		return nil, err
	}
	if t.unmapped() {
		// Names cannot be listed if the first line holds values.
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
	// Earlier versions left out the samples of these clients, so the digest must differ from
	// theirs.
	if set.About.HeldOutClients > 0 {
		layout += " held-out clients"
	}
	// They held out the rows with 1 in such columns, which train now.
	if hasWord(t.Split, trainFlags) {
		layout += " ones train"
	}
	set.About.Identify(o, layout, h...)
	return set, nil
}

// read makes one set of the rows of all files, which have the same columns. Rows are numbered
// across the files in their order. o are the options of the run. The caller adds the digest of the
// set.
func (t Table) read(files []tableFile, o federated.Options) (*federated.Grouped, error) {
	if o.Classes > 0 && t.Label == "" {
		return nil, fmt.Errorf("%d classes of a table without a label; want none", o.Classes)
	}
	if err := t.resolve(files[0].columns()); err != nil {
		return nil, err
	}
	numeric := slices.Concat(t.numericFeatures(), t.Target, t.arrivalColumns())
	decimals, err := t.decimalColumns(files, t.numberCandidates(), numeric)
	if err != nil {
		return nil, err
	}
	r := newReading(t, o)
	if t.Label != "" {
		metadataClasses, err := namedClasses(files, t.Label)
		if err != nil {
			return nil, err
		}
		// Names of classes in the mapping have precedence over those of the file.
		if t.Classes == nil {
			r.label.metadataClasses = metadataClasses
		}
	}
	for i := range r.columns {
		// Numbers with decimal commas are rewritten before their taker sees them.
		if decimals.commas[r.columns[i].name] {
			r.columns[i].take = withPoint(r.columns[i].take)
		}
	}
	for _, f := range files {
		firstRow := r.rows
		err := f.read(r.columns, r)
		if err == nil && r.vector != nil {
			// A list does not continue in the next file.
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
	// Points in the names of clients and classes are no numbers to doubt.
	decimals.keepDoubts(func(name string) bool {
		return slices.Contains(t.Features, name) || slices.Contains(t.Target, name)
	})
	decimals.note(&set.About, slices.Concat(t.Features, t.Target))
	t.noteUnused(&set.About, files)
	return set, nil
}

// resolve checks the mapping against columns, the names that the table has. Each column that the
// mapping names must exist and have one meaning only. Each pattern in Features is replaced by the
// names of the columns that match it and that no other option names.
func (t *Table) resolve(columns []string) error {
	var features []string
	position := positions(columns)
	// taken gives the option that names a column, by the name of the column.
	taken := map[string]string{}
	// take notes that an option names a column, which must exist and not be named by another option.
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
	list := []named{
		{"client", t.Client},
		{"label", t.Label},
		{"split", t.Split},
		{"text", t.Text},
		{"arrival", t.Arrival},
	}
	list = slices.DeleteFunc(list, func(n named) bool { return n.name == "" })
	for _, name := range t.Target {
		list = append(list, named{"target", name})
	}
	for _, name := range t.Words {
		list = append(list, named{"words", name})
	}
	for _, column := range list {
		if err := take(column.option, column.name); err != nil {
			return err
		}
	}
	// Patterns come last, so that they match only columns that nothing else has named.
	for _, pattern := range t.Features {
		pattern = imageColumn(pattern, position)
		// A feature that is named in full must not have another meaning.
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

// imageColumn returns the column that a feature called name means. An Image of Hugging Face is a
// group of the fields bytes and path, which is one column here, so that image.bytes means image.
// position has the columns of the table; any other name is returned as it is.
func imageColumn(name string, position map[string]int) string {
	group, isBytes := strings.CutSuffix(name, ".bytes")
	_, isColumn := position[name]
	if _, isGroup := position[group]; isBytes && isGroup && !isColumn {
		return group
	}
	return name
}

// numberCandidates returns the columns whose values may be numbers that CSV holds as texts, so that their decimal
// sign matters: all that the mapping names except the text.
func (t *Table) numberCandidates() []string {
	list := slices.Concat(t.Features, t.Words, t.Target)
	for _, name := range []string{t.Client, t.Label, t.Split, t.Arrival} {
		if name != "" {
			list = append(list, name)
		}
	}
	return list
}

// arrivalColumns returns the column of the samples' times, if there is one.
func (t *Table) arrivalColumns() []string {
	if t.Arrival == "" {
		return nil
	}
	return []string{t.Arrival}
}

// numericFeatures returns the columns of features that have one number in each row. It is nil for a
// single column of features, which may have lists or images: its values decide.
func (t *Table) numericFeatures() []string {
	if len(t.Features) == 1 && t.Words == nil {
		return nil
	}
	return t.Features
}

// positions returns the position of each of the columns by its name, counted from 0. Names must be
// different, or the last position counts.
func positions(columns []string) map[string]int {
	position := make(map[string]int, len(columns))
	for i, name := range columns {
		position[name] = i
	}
	return position
}

// matches reports whether the name of a column fits a pattern with *, ? and [...] as in path.Match,
// except that these match a slash as well.
func matches(pattern, name string) bool {
	// A zero byte, which occurs in no name, stands for the slash, because path.Match treats a slash
	// apart.
	letters := func(s string) string { return strings.ReplaceAll(s, "/", "\x00") }
	// The error needs no check, because Validate has tried the pattern.
	ok, _ := path.Match(letters(pattern), letters(name))
	return ok
}

// noteUnused adds a warning to about for each file and each column that is called like a split,
// such as is_test, but is not used as one. Held-out rows would otherwise enter the training
// unnoticed.
func (t *Table) noteUnused(about *federated.Info, files []tableFile) {
	heldOut := make([]bool, len(files))
	for i, f := range files {
		heldOut[i] = f.heldOut()
	}
	if unused := federated.UnusedParts(names.Of(files, tableFile.path), heldOut); len(files) > 1 && unused != nil {
		about.AddWarning(
			"%s: read like all other files, although the name looks like a split",
			federated.ShortList(unused),
		)
	}
	if unnamed := federated.UnnamedParts(names.Of(files, tableFile.path), heldOut); unnamed != nil && t.Split == "" {
		about.AddWarning("%s: read for training, although the name does not say so, as those of others do",
			federated.ShortList(unnamed))
	}
	// With a split column, the user has said which rows are held out.
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

// taker receives the values of one column: row is the row of the table, counted from 0 across
// files, and c the value, which is valid only during the call. The values of a list come one by
// one, all with the list's row. It returns errMissing for a row without a value and errStop if it
// needs no more.
type taker func(row int, c cell) error

// column is a column that the mapping gives a meaning, with the taker of its values.
type column struct {
	// name is the name of the column in the table.
	name string
	// mayHaveLists says that a row may have a list of values instead of one.
	mayHaveLists bool
	// hasNames says that texts of the column are kept or shown, so that those of CSV have to be UTF-8.
	hasNames bool
	// take is called with each value of the column, in the order of the rows.
	take taker
	// takeRun takes many numbers at once, where a file has them so; nil means that take gets them one by
	// one.
	takeRun func(run *numberRun) error

	// takeLengths is called once for each row with nested lists, with their lengths, the outermost first. An error
	// ends the reading. Nil means that the lengths do not matter.
	takeLengths func(lengths []int) error
}

// openFile is what a table of any format knows of its file: the path, whether its rows are held out, and the file
// itself once it is open.
type openFile struct {
	// filePath is the path of the file, as it was found from the path of the table.
	filePath string
	// nameInFolder is the path from the table's folder, by which errors name the file.
	nameInFolder string
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
func (f *openFile) Close() error { return f.source.File.Close() }

// path returns the path of the file.
func (f *openFile) path() string { return f.filePath }

// heldOut reports whether all rows are held out, by the name of one file of several.
func (f *openFile) heldOut() bool { return f.isHeldOut }

// withFile adds the name of the file to an error, unless the table has no other file. A nil error
// must not be given to it.
func (f *openFile) withFile(err error) error {
	if f.onlyFile {
		// The caller that opened the file names it in the error.
		return err
	}
	return fmt.Errorf("%s: %w", f.nameInFolder, err)
}

// openTables opens the table at path source, a file or all files of a folder in lexical order. All
// files must have the same columns, in any order. reading receives the progress; it may be nil. The
// caller closes the files with closeAll; if there is an error, openTables closes them itself.
func openTables(source string, reading *federated.Reading) (list []tableFile, err error) {
	s, err := federated.OpenSource(source)
	if err != nil {
		return nil, err
	}
	// The source itself is only listed; each file is opened by itself.
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
		location := openFile{
			filePath:     found.Path,
			nameInFolder: nameIn(source, found.Path),
			onlyFile:     len(files) == 1,
			isHeldOut:    found.HeldOut,
			reading:      reading,
		}
		file, err := openTableFile(location)
		if err != nil {
			return list, location.withFile(err)
		}
		// Folders on the way to the file may give further columns.
		file = withFolderColumns(file, found.Keys)
		list = append(list, file)
		if first := list[0].columns(); !slices.Equal(
			slices.Sorted(slices.Values(file.columns())),
			slices.Sorted(slices.Values(first)),
		) {
			return list, location.withFile(fmt.Errorf(
				"columns %s, and those of %s are %s",
				federated.ShortList(file.columns()),
				nameIn(source, files[0].Path),
				federated.ShortList(first),
			))
		}
	}
	// Several files that are all test files leave nothing to train on.
	if len(files) > 1 && !slices.ContainsFunc(list, func(f tableFile) bool { return !f.heldOut() }) {
		return list, errors.New("only test files")
	}
	return list, nil
}

// nameIn returns the path of a file from the folder that it lies in, or below. A file that lies elsewhere has
// the last part of its path.
func nameIn(folder, file string) string {
	name, err := filepath.Rel(folder, file)
	if err != nil || !filepath.IsLocal(name) {
		return filepath.Base(file)
	}
	return name
}

// openTableFile opens the file at location. It is Parquet by its first bytes or its name, LEAF's
// JSON if it begins with a brace, and CSV otherwise. The file is closed again if there is an error.
func openTableFile(location openFile) (_ tableFile, err error) {
	s, err := federated.OpenSource(location.filePath)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.File.Close())
		}
	}()
	location.source = s
	// A file that is only called .parquet is opened as such, so that the error says what is wrong.
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

// csvSuffixes are the endings of the names of CSV files, plain or gzip.
var csvSuffixes = []string{".csv", ".csv.gz", ".tsv", ".tsv.gz"}

// hashTables returns one digest for each file. A digest covers the content of the file and, where
// the path decides that rows are held out or gives columns, that as well.
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
