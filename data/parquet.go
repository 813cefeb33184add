package data

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/parquet-go/parquet-go"

	"fedpace/data/federated"
	"fedpace/data/parquetfile"
	"fedpace/data/table"
)

// tabular is what readSheets reads, in the words of its errors.
const tabular = "writer_id, image, character (FEMNIST); img, fine_label, coarse_label (CIFAR-100); character_id, " +
	"x, y (Shakespeare); sentiment, user, text (Sentiment140); or client, x, y (custom data)"

func init() {
	federated.Readers.Register("parquet", "a Parquet file or a folder of them ("+tabular+")", Parquet{})
}

// Parquet reads Parquet files by their columns: FEMNIST (writer_id, image as 784
// bytes or PNG, character 0..61), CIFAR-100 (img as PNG, fine_label, coarse_label;
// a folder with train* and test* files), Shakespeare (character_id, x, y),
// Sentiment140 (sentiment, user, text) and custom data (client, x as a list of
// numbers or a fixed number of bytes, y).
type Parquet struct{}

// Recognises reports whether s is a Parquet file, by its first four bytes or its name, or a folder
// that contains some.
func (Parquet) Recognises(s *federated.Source) federated.Match {
	switch {
	case s.Folder:
		// An error is about files that are there, and Open returns it.
		if files, err := federated.TableFiles(s.Path, ".parquet"); files != nil || err != nil {
			return federated.ByContent
		}
	case strings.HasPrefix(s.Head, "PAR1"):
		return federated.ByContent
	case strings.HasSuffix(s.Name(), ".parquet"):
		return federated.ByName
	}
	return federated.NoMatch
}

// Open reads one file, or all of a folder in lexical order. Files whose names say so
// ([federated.HeldOutFiles]) are the held-out part. The columns decide which layout it is.
func (Parquet) Open(s *federated.Source, opt federated.Options) (set federated.Set, err error) {
	defer parquetfile.Damaged(&err)
	files := []federated.TableFile{{Path: s.Path}}
	if s.Folder {
		files, err = federated.TableFiles(s.Path, ".parquet")
		if err != nil {
			return nil, err
		}
		if len(files) == 0 {
			return nil, errors.New("is a folder without Parquet files; want some whose names end in .parquet")
		}
	}
	// Folders that are called column=value give their files columns, so the set is read as a table.
	if files[0].Keys != nil {
		return openPartitioned(s, opt)
	}
	// parts and names have the training files at 0 and the held-out files at 1.
	var parts [2][]*parquetfile.File
	var names [2][]string
	for _, found := range files {
		name := found.Path
		f, err := federated.OpenSource(name)
		if err != nil {
			return nil, err
		}
		// All files stay open until the set is made.
		defer f.File.Close()
		file, err := parquetfile.Open(opt.Reading.Counted(f.File), f.Size)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", filepath.Base(name), err)
		}
		part := 0
		if len(files) > 1 {
			file.Name = filepath.Base(name)
		}
		if found.HeldOut {
			part = 1
		}
		parts[part] = append(parts[part], file)
		names[part] = append(names[part], name)
	}
	if len(parts[0]) == 0 {
		return nil, errors.New("only test files")
	}
	g, err := readSheets(parquetfile.Join(parts[0]...), parquetfile.Join(parts[1]...), opt)
	if err != nil {
		return nil, err
	}
	// The digest covers the content of all files, and the layout in which they were read.
	sums, err := federated.Hash(slices.Concat(names[0], names[1]))
	if err != nil {
		return nil, err
	}
	// The layout keeps its former name here, so that digests stay the same.
	layoutName := strings.Replace(g.About.Name, "custom", "own", 1)
	// The sums alone do not tell a second training file from a first test file. Sets of one training file
	// keep the digest that they had.
	if len(names[0]) > 1 && len(names[1]) > 0 {
		layoutName += fmt.Sprintf(" %d %d", len(names[0]), len(names[1]))
	}
	g.About.Identify(opt, "parquet "+layoutName, sums...)
	return g, nil
}

// openPartitioned reads a folder in which the names of folders give columns, such as client=0/. Of
// the layouts that need no mapping, only that of custom data with the columns client, x and y may
// be kept so; for others the error is table.ErrUnmapped.
func openPartitioned(s *federated.Source, opt federated.Options) (federated.Set, error) {
	columns, err := table.Columns(s.Path)
	if err != nil {
		return nil, err
	}
	for _, name := range plainColumns {
		if !slices.Contains(columns, name) {
			return nil, fmt.Errorf("found columns %s: %w", federated.ShortList(columns), table.ErrUnmapped)
		}
	}
	return table.Plain().Open(s, opt)
}

// readSheets makes the set of the training files train and the held-out files test, by the layout that
// their columns have. The Parquet library panics on some damaged input, which becomes an error
// here.
func readSheets(train, test *parquetfile.Sheet, opt federated.Options) (s *federated.Grouped, err error) {
	defer parquetfile.Damaged(&err)
	found := findLayout(train.HasColumn)
	switch {
	case found == nil:
		return nil, fmt.Errorf(
			"found columns %s; want %s; or a mapping: %w",
			federated.ShortList(train.Names()),
			tabular,
			table.ErrUnmapped,
		)
	// CIFAR-100 alone has test files of its own.
	case found.read == nil:
		return cifarSheets(train, test, opt)
	case len(test.Files) > 0:
		return nil, errors.New("found test files beside the training files, which are read for CIFAR-100 and by a " +
			"mapping only; want the training files alone, which are split by client")
	}
	// The size of the file must be able to hold the rows that it claims.
	if err := train.Check(found.width); err != nil {
		return nil, err
	}
	return found.read(train, opt)
}

// layout is a form of data that is known by its columns and needs no mapping.
type layout struct {
	// columns are the names that all must be there.
	columns []string
	// read makes the set; nil stands for CIFAR-100, which has test files.
	read func(*parquetfile.Sheet, federated.Options) (*federated.Grouped, error)
	// width is the least number of bytes of a row, as far as read does not check it.
	width int
}

// plainColumns are those of custom data that needs no mapping.
var plainColumns = []string{"client", "x", "y"}

// layouts are the known forms in the order in which they are tried.
var layouts = []layout{
	{[]string{"img", "fine_label", "coarse_label"}, nil, 1},
	{[]string{"writer_id", "image", "character"}, femnist, federated.FEMNISTPixels},
	{[]string{"character_id", "x", "y"}, shakespeare, federated.ShakespeareWindow},
	{[]string{"sentiment", "user", "text"}, sent140, 3 * parquetfile.ValueBytes},
	{plainColumns, table.ReadPlain, 1},
}

// findLayout returns the first layout whose columns are all there, or nil if there is none.
// hasColumn reports whether the data has a column of this name.
func findLayout(hasColumn func(column string) bool) *layout {
	i := slices.IndexFunc(layouts, func(l layout) bool {
		return !slices.ContainsFunc(l.columns, func(name string) bool { return !hasColumn(name) })
	})
	if i < 0 {
		return nil
	}
	return &layouts[i]
}

// storeLabels returns a function that stores the label of each row, an integer from 0 to classes-1,
// at labels[row*step]. A label outside the classes, or of another type, is an error.
func storeLabels[T byte | int32](labels []T, step, classes int) func(row int, v parquet.Value) error {
	return func(row int, v parquet.Value) error {
		l, ok := integer(v)
		if !ok {
			return fmt.Errorf("label %.40v, want an integer", v)
		}
		labels[row*step] = T(l)
		if l < 0 || l >= int64(classes) {
			return fmt.Errorf("label %d is outside the %d classes, want 0 to %d", l, classes, classes-1)
		}
		return nil
	}
}

// integer returns v as a whole number, with 0 and 1 for booleans. The result is false for values of
// other types.
func integer(v parquet.Value) (int64, bool) {
	switch v.Kind() {
	case parquet.Boolean:
		if v.Boolean() {
			return 1, true
		}
		return 0, true
	case parquet.Int32:
		return int64(v.Int32()), true
	case parquet.Int64:
		return v.Int64(), true
	}
	return 0, false
}

// isBytes reports whether a value is text or bytes.
func isBytes(v parquet.Value) bool {
	return v.Kind() == parquet.ByteArray || v.Kind() == parquet.FixedLenByteArray
}

// bytesColumn returns the function of a column of bytes or texts: it calls take with the number of a row and the
// bytes of its value. A value of another type is an error.
func bytesColumn(take func(row int, b []byte) error) func(row int, v parquet.Value) error {
	return func(row int, v parquet.Value) error {
		if !isBytes(v) {
			return fmt.Errorf("found %.40v, want bytes or a string", v)
		}
		return take(row, v.Bytes())
	}
}

// userName returns the name of a client from a value that is a string or an integer, without blanks around
// it, as tables have it. Other types are an error.
func userName(v parquet.Value) (string, error) {
	if kind := v.Kind(); kind == parquet.Int32 || kind == parquet.Int64 {
		return fmt.Sprint(v), nil
	}
	if !isBytes(v) {
		return "", fmt.Errorf("client %.40v, want a string or an integer", v)
	}
	return string(bytes.TrimSpace(v.Bytes())), nil
}

// groupByClient completes the set s, which has the task, the store of samples and the labels, both still empty. It
// first reads the columns in values, each by its function, which fills the store and the labels. Then it reads the
// column clientColumn, whose values name the owners of the rows. Clients are in order of their first appearance,
// and split divides the rows of each into training and held-out ones.
func groupByClient(
	sheet *parquetfile.Sheet,
	s federated.Grouped,
	values parquetfile.Columns,
	clientColumn string,
	split func(client int, rows []int32) (train, held []int32),
) (*federated.Grouped, error) {
	if err := sheet.Each(values); err != nil {
		return nil, err
	}
	// The clients are read one row after another, because their order decides their numbers.
	var names federated.Names
	var clientRows [][]int32
	err := sheet.Values(clientColumn, parquetfile.OneValue, func(row int, v parquet.Value) error {
		name, err := userName(v)
		// A number that equals the number of clients so far is that of a new client.
		n := names.Number(name)
		if n == len(clientRows) {
			clientRows = append(clientRows, nil)
		}
		clientRows[n] = append(clientRows[n], int32(row))
		return err
	})
	if err != nil {
		return nil, err
	}
	var g federated.Grouping
	for c, name := range names.List {
		train, held := split(c, clientRows[c])
		g.AddSplit(name, len(clientRows[c]), train, held)
	}
	return g.Set(s)
}

// femnist makes the set of a table with the columns writer_id, image (784 bytes, or a PNG) and
// character. opt says how each writer's images are split.
func femnist(sheet *parquetfile.Sheet, opt federated.Options) (*federated.Grouped, error) {
	labels := make([]int32, sheet.Rows)
	images := federated.NewInkRows(sheet.Rows)
	s := federated.Grouped{
		Task:   "femnist",
		Labels: labels,
		About:  federated.FEMNISTInfo,
		Rows:   images,
	}
	s.About.Name = "femnist (parquet)"
	return groupByClient(sheet, s, parquetfile.Columns{
		"character": storeLabels(labels, 1, federated.FEMNISTClasses),
		"image": bytesColumn(func(row int, b []byte) error {
			// An image of any other length than that of its pixels is a PNG.
			if image := make([]byte, federated.FEMNISTPixels); len(b) != len(image) {
				if err := federated.DecodePNG(image, b, federated.FEMNISTSide, federated.FEMNISTSide); err != nil {
					return err
				}
				b = image
			}
			// Rows are stored at the same time, which Put allows.
			images.Put(row, b)
			return nil
		}),
	}, "writer_id", opt.Split)
}

// cifarSheets makes the set of CIFAR-100 from the tables train and test, with the columns img (a
// PNG in a struct), fine_label and coarse_label. It builds the records of the binary version, and
// both are read alike from there on.
func cifarSheets(train, test *parquetfile.Sheet, opt federated.Options) (*federated.Grouped, error) {
	if len(test.Files) == 0 {
		return nil, errors.New("no test file beside the training file; want a folder with train*.parquet and " +
			"test*.parquet")
	}
	var parts [2][]byte
	for i, t := range []*parquetfile.Sheet{train, test} {
		if err := t.Check(federated.CIFARRecord); err != nil {
			return nil, err
		}
		if t.Rows > federated.MaxCIFAR {
			return nil, fmt.Errorf("%d images, want at most %d", t.Rows, federated.MaxCIFAR)
		}
		// The memory is bounded by the check of the number of rows.
		records := make([]byte, t.Rows*federated.CIFARRecord)
		err := t.Each(parquetfile.Columns{
			// A record has the two labels before the pixels.
			"coarse_label": storeLabels(records, federated.CIFARRecord, federated.CIFARCoarse),
			"fine_label":   storeLabels(records[1:], federated.CIFARRecord, federated.CIFARClasses),
			"img": bytesColumn(func(row int, b []byte) error {
				return federated.DecodePNG(
					records[row*federated.CIFARRecord+2:][:federated.CIFARPixels],
					b,
					federated.CIFARSide,
					federated.CIFARSide,
				)
			}),
		})
		if err != nil {
			return nil, err
		}
		parts[i] = records
	}
	s, err := newCIFAR(parts, opt)
	if err != nil {
		return nil, err
	}
	s.About.Name = "cifar100 (parquet)"
	return s, nil
}

// shakespeare makes the set of LEAF's windows: the column x has 80 characters, y the next one, and
// character_id the role. The windows of a role are split in sequence, as those of the text are,
// because they overlap.
func shakespeare(sheet *parquetfile.Sheet, _ federated.Options) (*federated.Grouped, error) {
	labels := make([]int32, sheet.Rows)
	tokens := make([]uint8, sheet.Rows*federated.ShakespeareWindow)
	s := federated.Grouped{Task: "shakespeare", Labels: labels, About: federated.ShakespeareInfo}
	s.Rows = &federated.ByteRows{Width: federated.ShakespeareWindow, Bytes: tokens, Coding: federated.Tokens}
	s.About.Name = "shakespeare (parquet)"
	return groupByClient(sheet, s, parquetfile.Columns{
		// The label is the place of one character in the vocabulary.
		"y": bytesColumn(func(row int, b []byte) error {
			c, err := federated.AppendCharacters(nil, string(b), 1)
			if err == nil {
				labels[row] = int32(c[0])
			}
			return err
		}),
		"x": bytesColumn(func(row int, b []byte) error {
			_, err := federated.AppendCharacters(
				tokens[row*federated.ShakespeareWindow:][:0],
				string(b),
				federated.ShakespeareWindow,
			)
			return err
		}),
	}, "character_id", splitWindows)
}

// splitWindows splits the windows of a role in sequence and leaves out those between that would
// overlap both parts. A role without enough windows has neither part. The number of the client is
// not needed.
func splitWindows(_ int, windows []int32) (train, held []int32) {
	trainWindows, heldWindows := inSequence(len(windows))
	if heldWindows < 1 {
		return nil, nil
	}
	return windows[:trainWindows], windows[len(windows)-heldWindows:]
}

// sent140 makes the set of a table with the columns sentiment (0 or 4, or 0 and 1), user and text.
// opt says how many tweets a user must have, and how they are split.
func sent140(sheet *parquetfile.Sheet, opt federated.Options) (*federated.Grouped, error) {
	// Users and labels are read first, by all processors, and the texts in sequence.
	owners := make([]string, sheet.Rows)
	labels := make([]int32, sheet.Rows)
	err := sheet.Each(parquetfile.Columns{
		"user": func(row int, v parquet.Value) (err error) {
			owners[row], err = userName(v)
			return err
		},
		"sentiment": func(row int, v parquet.Value) error {
			l, ok := integer(v)
			isPolarity := ok && (l == 0 || l == 1 || l == 4)
			if !isPolarity {
				return fmt.Errorf("sentiment %.40v, want 0 or 4", v)
			}
			// 4 stands for a positive tweet, which is class 1.
			labels[row] = int32(min(l, 1))
			return nil
		},
	})
	if err != nil {
		return nil, err
	}
	tweets := new(tweetTexts)
	// The rows are read in sequence, so that users are in order of first appearance.
	err = sheet.Values("text", parquetfile.OneValue, bytesColumn(func(row int, b []byte) error {
		return tweets.Add(owners[row], string(b), labels[row])
	}))
	if err != nil {
		return nil, err
	}
	return tweets.Set(opt, "sent140 (parquet)")
}
