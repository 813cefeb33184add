package table

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"fedpace/data/federated"
)

// nameColumn reads a column whose values name something, clients or classes. It numbers the
// different names and keeps the number of each row.
type nameColumn struct {
	federated.Names
	// index is the number of the name in each row; -1 means that it is missing.
	index []int32
	// closed says that the list of names is given, so that any other name is an error.
	closed bool
}

// take appends the number of the cell's name to index. Names are numbered from 0 in the order in
// which they first appear. The error is errMissing for a cell without a name, whose index is -1;
// where the list of names is closed, a name outside it is an error, too.
func (n *nameColumn) take(_ int, c cell) error {
	name := c.name()
	if name == "" {
		n.index = append(n.index, -1)
		return errMissing
	}
	before := len(n.List)
	i := n.Number(name)
	// Number has added a name that was not in the list, so the list is longer now.
	if i == before && n.closed {
		return fmt.Errorf("%.40q is none of the classes %s", name, federated.ShortList(n.List[:before]))
	}
	n.index = append(n.index, int32(i))
	return nil
}

// missingRows returns the rows whose text stands for a missing number, such as NaN, if all other
// names of the column are numbers. It sets the index of these rows to -1, removes the missing words
// from the names and renumbers the others. In a column of words it changes nothing and returns nil,
// because such a text is a word there.
func (n *nameColumn) missingRows() (rows []int) {
	// A mapping that lists its classes has said which texts are classes.
	if n.closed {
		return nil
	}
	isMissing := make([]bool, len(n.List))
	numbers := 0
	found := false
	// One name that is neither a number nor a missing word makes it a column of words.
	for i, name := range n.List {
		switch {
		case slices.Contains(missingWords, strings.ToLower(name)):
			isMissing[i] = true
			found = true
		case isNumber(name):
			numbers++
		default:
			return nil
		}
	}
	if !found || numbers == 0 {
		return nil
	}
	// The names that are left get new numbers; renumbered is -1 for a missing word.
	var present federated.Names
	renumbered := make([]int32, len(n.List))
	for i, name := range n.List {
		renumbered[i] = -1
		if !isMissing[i] {
			renumbered[i] = int32(present.Number(name))
		}
	}
	for row, i := range n.index {
		if i < 0 {
			continue
		}
		// A row whose name is gone has the index -1 and counts as missing.
		n.index[row] = renumbered[i]
		if renumbered[i] < 0 {
			rows = append(rows, row)
		}
	}
	n.Names = present
	return rows
}

// truthNumbers has the numbers that mean the same as the words for truths.
var truthNumbers = map[string]string{"true": "1", "false": "0"}

// joinTruths changes the names true to 1 and false to 0 in a column that has at least one of these words, at
// least one of these numbers, and no other name. A table of several files has both where programs write the
// column of one file as true and false, and that of another, in which a row lacks its value, as 1.0 and 0.0.
// joinTruths reports whether it has changed any name.
func (n *nameColumn) joinTruths() bool {
	words := 0
	for _, name := range n.List {
		_, isWord := truthNumbers[strings.ToLower(name)]
		switch {
		case isWord:
			words++
		case name != "0" && name != "1":
			return false
		}
	}
	if n.closed || words == 0 || words == len(n.List) {
		return false
	}
	var joined federated.Names
	renumbered := make([]int32, len(n.List))
	for i, name := range n.List {
		renumbered[i] = int32(joined.Number(cmp.Or(truthNumbers[strings.ToLower(name)], name)))
	}
	for row, i := range n.index {
		if i >= 0 {
			n.index[row] = renumbered[i]
		}
	}
	n.Names = joined
	return true
}

// wordsLikeMissing returns, in double quotes, the names of the column that programs also write for a missing
// value, such as NA. In a column of words they count as names (see missingRows), so the caller warns of them.
// A "none" in lower case and a "?" are left out, because a class may well have such a name.
func (n *nameColumn) wordsLikeMissing() (list []string) {
	for _, name := range n.List {
		isMissing := slices.Contains(missingWords, strings.ToLower(name))
		if isMissing && name != "none" && name != "?" {
			list = append(list, strconv.Quote(name))
		}
	}
	return list
}

// maxClassName is the largest length of the name of a class, in bytes. Messages and reports hold
// these names.
const maxClassName = 256

// classNames reads a column of labels. It numbers the different labels in the order in which they
// appear; the method labels turns these numbers into classes.
type classNames struct {
	nameColumn
	// plainClasses is the number of classes of a plain table, whose labels are whole numbers from 0 to
	// plainClasses-1. It is 0 for other tables, whose labels may be of any kind.
	plainClasses int
	// metadataClasses are the names of the classes by number, as the file's metadata has them. Labels are these
	// numbers then; nil means that the metadata has no names.
	metadataClasses []string
}

// noLabel is the number that Hugging Face's datasets has for a sample without a label.
const noLabel = -1

// newClassNames makes the reader of the label column of the mapping t. If the mapping lists
// classes, only these are allowed. classes is the number of classes that the user wants, or 0 for
// any number. It is used for a plain table alone (see Plain), whose labels are whole numbers below it.
func newClassNames(t *Table, classes int) *classNames {
	c := new(classNames)
	for _, name := range t.Classes {
		c.Number(canonicalName(strings.TrimSpace(name)))
	}
	c.closed = t.Classes != nil
	if t.plain {
		c.plainClasses = cmp.Or(classes, federated.MaxClasses)
	}
	return c
}

// take appends the number of the cell's label to index. It returns errMissing if the row has no
// label. Other errors are a label outside the classes that are known beforehand, more labels than
// federated.MaxClasses, and a new label that a results file could not show.
func (l *classNames) take(row int, c cell) error {
	// Each row of a plain table needs one of the classes 0 to plainClasses-1.
	isPlainClass := c.kind == wholeCell && c.integer >= 0 && c.integer < int64(l.plainClasses)
	if l.plainClasses > 0 && !isPlainClass {
		return fmt.Errorf(
			"label %.40v is outside the %d classes, want 0 to %d",
			c.name(),
			l.plainClasses,
			l.plainClasses-1,
		)
	}
	// The file's metadata names the classes by number. Its number for "no label" becomes a missing
	// value.
	if l.metadataClasses != nil {
		isNumber := c.kind == wholeCell
		switch {
		case isNumber && c.integer == noLabel:
			c = cell{}
		case isNumber && (c.integer < 0 || c.integer >= int64(len(l.metadataClasses))):
			return fmt.Errorf(
				"label %d is outside the %d classes that the file's metadata names",
				c.integer,
				len(l.metadataClasses),
			)
		}
	}
	// Only a name that is new needs the checks below.
	before := len(l.List)
	if err := l.nameColumn.take(row, c); err != nil || len(l.List) == before {
		return err
	}
	switch name := l.List[before]; {
	case before == federated.MaxClasses:
		return fmt.Errorf("more than %d different labels; want target for numbers to predict", federated.MaxClasses)
	case !utf8.ValidString(name):
		return fmt.Errorf("label %.40q is not UTF-8 (%s)", name, toUTF8)
	case len(name) > maxClassName:
		return fmt.Errorf("label %.40q is no name of a class (at most %d bytes)", name, maxClassName)
	}
	return nil
}

// labels returns the class of each row, with -1 for a row without one, and the number of classes. named are the
// names of the classes by their numbers; nil if the labels are these numbers themselves. wanted is the number of
// classes that is wanted, or 0 for any. Where the mapping lists the classes, that list gives their numbers;
// otherwise the method classes finds them.
func (l *classNames) labels(wanted int) (labels []int32, count int, named []string, err error) {
	if l.closed {
		if wanted != 0 && wanted != len(l.List) {
			return nil, 0, nil, fmt.Errorf("the mapping names %d classes, want %d", len(l.List), wanted)
		}
		// newClassNames numbered the names in the order of the mapping, so the number of a row's name, which
		// index has, is the row's class.
		return l.index, len(l.List), l.List, nil
	}
	classOf, count, named, err := l.classes(wanted)
	if err != nil {
		return nil, 0, nil, err
	}
	labels = make([]int32, len(l.index))
	for row, i := range l.index {
		labels[row] = -1
		if i >= 0 {
			labels[row] = classOf[i]
		}
	}
	return labels, count, named, nil
}

// classes returns the class of each of the different labels, in the order of l.List, that in which they appeared
// first. The other results and wanted are as those of labels. If the file's metadata has a list of classes, the
// labels are places in it. Otherwise whole numbers from 0 on are the classes themselves, and named is nil. All
// other labels are sorted, numbers by their value and words by their letters, and numbered in that order.
func (l *classNames) classes(wanted int) (classOf []int32, count int, named []string, err error) {
	numbers, allWhole := l.wholeNumbers()
	if l.metadataClasses != nil && wanted != 0 && wanted != len(l.metadataClasses) {
		return nil, 0, nil, fmt.Errorf("the file's metadata names %d classes, want %d", len(l.metadataClasses), wanted)
	}
	if l.metadataClasses != nil && allWhole {
		// take has checked the labels of cells of a type of integers. Labels that are texts are checked here.
		count = len(l.metadataClasses)
		if low, high := slices.Min(numbers), slices.Max(numbers); low < 0 || high >= int64(count) {
			return nil, 0, nil, fmt.Errorf(
				"labels from %d to %d are outside the %d classes that the file's metadata names",
				low,
				high,
				count,
			)
		}
		return asClasses(numbers), count, l.metadataClasses, nil
	}
	if allWhole && slices.Min(numbers) >= 0 && slices.Max(numbers) < federated.MaxClasses {
		// Without a wanted number of classes, the largest label decides.
		count = cmp.Or(wanted, int(slices.Max(numbers))+1)
		if largest := slices.Max(numbers); largest >= int64(count) {
			return nil, 0, nil, fmt.Errorf("label %d is outside the %d classes, want 0 to %d", largest, count, count-1)
		}
		return asClasses(numbers), count, nil, nil
	}
	if wanted != 0 && wanted != len(l.List) {
		return nil, 0, nil, fmt.Errorf(
			"%d different labels (%s), want %d classes",
			len(l.List),
			federated.ShortList(l.List),
			wanted,
		)
	}
	// The order of the names must not depend on the order of the rows.
	position := positions(l.List)
	order := strings.Compare
	if allWhole {
		order = func(a, b string) int { return cmp.Compare(numbers[position[a]], numbers[position[b]]) }
	}
	named = slices.SortedFunc(slices.Values(l.List), order)
	classOf = make([]int32, len(l.List))
	for class, name := range named {
		classOf[position[name]] = int32(class)
	}
	return classOf, len(named), named, nil
}

// asClasses returns labels that are the numbers of their classes as such.
func asClasses(numbers []int64) []int32 {
	classes := make([]int32, len(numbers))
	for i, n := range numbers {
		classes[i] = int32(n)
	}
	return classes
}

// wholeNumbers returns the different labels as whole numbers, in the order in which they first
// appeared. The result is false if there is no label, or if one is no whole number.
func (l *classNames) wholeNumbers() ([]int64, bool) {
	numbers := make([]int64, len(l.List))
	for i, name := range l.List {
		n, err := strconv.ParseInt(strings.TrimSuffix(name, ".0"), 10, 64)
		if err != nil {
			return nil, false
		}
		numbers[i] = n
	}
	return numbers, len(numbers) > 0
}

// parts takes the column that says which rows are held out.
type parts struct {
	// held says of each row whether it is held out.
	held []bool
	// onesTrain says that 1 and true are for training, by the name of the column, such as is_train.
	onesTrain bool
	// validation is the word by which rows are called a validation part, as distinct from a test
	// part; empty where no row is called so. Such rows are held out, too.
	validation string
}

// take notes whether the row is held out, by the word of the cell: train, test or validation in
// their usual spellings, or 0 and 1, of which 1 is held out unless onesTrain is set. Validation rows are
// held out like test rows. A row without a word counts as training and gives errMissing; any other word is
// an error.
func (p *parts) take(_ int, c cell) error {
	word := strings.ToLower(c.name())
	trains, heldOut := federated.PartOf(word)
	isZero := word == "0" || word == "false"
	isOne := word == "1" || word == "true"
	switch {
	case trains || heldOut:
	case p.onesTrain:
		trains = isOne
		heldOut = isZero
	default:
		trains = isZero
		heldOut = isOne
	}
	switch {
	case trains:
		p.held = append(p.held, false)
	case heldOut:
		p.held = append(p.held, true)
		if federated.IsValidation(word) {
			p.validation = word
		}
	case word == "":
		p.held = append(p.held, false)
		return errMissing
	default:
		return fmt.Errorf("%.40q is no part; want train or test, or 0 for training and 1 for held out", word)
	}
	return nil
}

// matrix reads several columns of numbers that have one number in each row. It stores them row by
// row, width numbers for each row.
type matrix struct {
	// width is the number of columns.
	width int
	// numbers holds the values row by row.
	numbers
	// losses has what each column loses by rounding.
	losses []*roundingLoss
}

// newMatrix returns a matrix of width columns. precise says that its values are kept as float64.
func newMatrix(width int, precise bool) *matrix {
	return &matrix{
		width:   width,
		numbers: numbers{precise: precise},
		losses:  make([]*roundingLoss, width),
	}
}

// roundingLoss measures what rounding does to the numbers of a column: to float32, or to float64 where the
// values are kept so.
type roundingLoss struct {
	// precise says that the values are kept as float64.
	precise bool
	// count is how many numbers there are, and origin the first of them.
	count, origin float64
	// sum is that of the differences of the numbers from origin, and sumOfSquares that of the squares of these
	// differences. The sums of the numbers themselves would lose the digits in which large numbers differ.
	sum, sumOfSquares float64
	// largestError is the largest error of rounding one of the numbers.
	largestError float64
}

// add takes the number in the cell c into account. x is that number as float64. It adds the number to the sums
// from which share computes the standard deviation, and notes the error of rounding it if that is the largest.
// The error is how much float64 loses of a large whole number plus, unless precise is set, how much float32
// loses of x.
func (l *roundingLoss) add(c *cell, x float64) {
	if l.count == 0 {
		l.origin = x
	}
	l.count++
	d := x - l.origin
	l.sum += d
	l.sumOfSquares += float64(d * d)
	lost := 0.0
	if math.Abs(x) >= maxExactWhole {
		lost = c.lostIn(x)
	}
	if !l.precise {
		lost += math.Abs(x - float64(float32(x)))
	}
	l.largestError = max(l.largestError, lost)
}

// addRun takes the numbers of a run into account. It passes over those of a column of float32, which lose
// nothing, so that share is 0 whatever their deviation is.
func (l *roundingLoss) addRun(run *numberRun) {
	if run.isSingle {
		return
	}
	c := cell{kind: realCell}
	for _, x := range run.values {
		c.real = x
		l.add(&c, x)
	}
}

// share returns the largest error of rounding a number, as a fraction of the numbers' standard
// deviation. It is 0 if all numbers are equal.
func (l *roundingLoss) share() float64 {
	// The sums are of the differences from the first number, which have the variance of the numbers.
	meanDifference := l.sum / l.count
	variance := l.sumOfSquares/l.count - float64(meanDifference*meanDifference)
	if !(variance > 0) {
		return 0
	}
	return l.largestError / math.Sqrt(variance)
}

// reserve extends the matrix to the given number of rows in all. Afterwards different columns may
// be set at the same time, because none has to grow the slice.
func (m *matrix) reserve(rows int) {
	if more := rows*m.width - m.len(); more > 0 {
		m.extend(more)
	}
}

// column returns the taker of the column with this index, from 0 to width-1. It stores missing in
// the place of a value that is missing or no number, and returns the error of such a cell,
// errMissing for a missing one.
func (m *matrix) column(columnIndex int, missing float64) taker {
	loss := &roundingLoss{precise: m.precise}
	m.losses[columnIndex] = loss
	return func(row int, c cell) error {
		i := row*m.width + columnIndex
		// Only a file that announces its number of rows has made room for them (reading.reserve). CSV does not.
		if i >= m.len() {
			m.reserve(row + 1)
		}
		x, err := c.number()
		if err == nil {
			loss.add(&c, x)
		} else {
			x = missing
		}
		m.set(i, x)
		return err
	}
}

// columnRun returns the taker of runs of the column with this index. It stores what the taker of
// the method column stores, which must have been made before.
func (m *matrix) columnRun(columnIndex int) func(run *numberRun) error {
	loss := m.losses[columnIndex]
	return func(run *numberRun) error {
		m.reserve(run.row + len(run.values))
		m.setColumn(run.row*m.width+columnIndex, m.width, run.values)
		loss.addRun(run)
		return nil
	}
}

// texts reads a column of texts. Row i reaches from the end of row i-1 to endOffsets[i].
type texts struct {
	// all holds the texts of all rows, one after another.
	all []byte
	// endOffsets is where the text of each row ends in all.
	endOffsets []int
}

// take appends the text of the cell. All texts lie in one slice, so that a row costs no allocation.
// A missing text is stored as an empty one and gives errMissing; more than federated.MaxSamples
// bytes in all are an error.
func (t *texts) take(_ int, c cell) error {
	switch c.kind {
	case textCell:
		t.all = append(t.all, c.text...)
	case bytesCell:
		t.all = append(t.all, c.bytes...)
	default:
		// A number in place of a text is written in digits.
		t.all = append(t.all, c.name()...)
	}
	t.endOffsets = append(t.endOffsets, len(t.all))
	if len(t.all) > federated.MaxSamples {
		return fmt.Errorf("more than %d bytes of text", federated.MaxSamples)
	}
	if c.kind == missingCell {
		return errMissing
	}
	return nil
}

// row returns the text of row i as a part of the slice that holds all texts. The caller must not
// change it.
func (t *texts) row(i int32) []byte {
	start := 0
	if i > 0 {
		start = t.endOffsets[i-1]
	}
	return t.all[start:t.endOffsets[i]]
}

// maxWords is the largest number of different words of a column, each of which becomes a feature.
const maxWords = 1000

// words reads a column of few different words, which become one feature each (one-hot).
type words struct{ nameColumn }

// take appends the number of the cell's word to index. The error is errMissing for a row without a
// word, and another one if the column has more than maxWords different words.
func (w *words) take(row int, c cell) error {
	if err := w.nameColumn.take(row, c); err != nil || len(w.List) <= maxWords {
		return err
	}
	return fmt.Errorf("more than %d different words; want few, or text for a column of sentences", maxWords)
}

// maxHot bounds the values of features and words together, also where an int has 32 bits.
const maxHot = math.MaxInt32

// addWords appends one feature for each word of the word columns to the features of every row
// (one-hot): 1 where the row has the word, 0 where it has another. A row without a word gets the
// share of each word among the training rows. values holds width numbers for each row, and train
// lists the training rows.
//
// It returns the new values and their new width, and adds the names of the features to
// s.About.Columns. Where features are scaled, the words get mean 0 and deviation 1, which changes
// nothing.
func (r *reading) addWords(s *federated.Grouped, values []float32, width int, train []int32) ([]float32, int, error) {
	newWidth := width
	// The size is checked before anything is allocated.
	for _, w := range r.words {
		newWidth += len(w.List)
		if newWidth > maxFeatures || r.rows > maxHot/newWidth {
			return nil, 0, fmt.Errorf(
				"words: %d rows of %d features and words are too many; want columns of fewer words",
				r.rows,
				newWidth,
			)
		}
	}
	if newWidth == width {
		return values, width, nil
	}
	// Clip keeps an append from writing into the list of the mapping.
	s.About.Columns = slices.Clip(s.About.Columns)
	combined := make([]float32, r.rows*newWidth)
	offset := width
	for row := range r.rows {
		copy(combined[row*newWidth:], values[row*width:][:width])
	}
	// The words of a column are sorted, so that the order of rows does not number features.
	for i, w := range r.words {
		order := slices.Sorted(slices.Values(w.List))
		place := positions(order)
		// Held-out rows have no part in the shares, so that nothing of them enters the training.
		present := 0.0
		count := make([]float64, len(order))
		for _, row := range train {
			if word := w.index[row]; word >= 0 {
				present++
				count[place[w.List[word]]]++
			}
		}
		for row, word := range w.index {
			features := combined[row*newWidth+offset:][:len(order)]
			// Exactly one word of this column is set in the row; the others stay 0.
			if word >= 0 {
				features[place[w.List[word]]] = 1
				continue
			}
			for j := range features {
				features[j] = float32(count[j] / max(present, 1))
			}
		}
		// The next column of words lies behind this one.
		offset += len(order)
		for _, word := range order {
			s.About.Columns = append(s.About.Columns, r.t.Words[i]+federated.WordOf+word)
			if s.About.Mean != nil {
				s.About.Mean = append(s.About.Mean, 0)
				s.About.Deviation = append(s.About.Deviation, 1)
			}
		}
	}
	return combined, newWidth, nil
}
