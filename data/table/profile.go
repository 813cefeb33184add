package table

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"unicode"

	"fedpace/data/federated"
)

// profile describes what a column holds, judged by the rows that a proposal looks at. A row is
// counted in one of missing, numbers, texts and bytes; a row that is a list of values only sets hasLists.
type profile struct {
	// name is the name of the column.
	name string
	// metadataClasses are the names of the column's classes by number, as the file's metadata has them; nil: none.
	metadataClasses []string
	// unusable names what the column holds if no model can use it; empty otherwise.
	unusable string
	// rows is the number of rows, lastRow the row of the last value, and lastMissingRow the last row that lacks a
	// value; -1 stands for no row.
	rows, lastRow, lastMissingRow int
	// missing counts the rows that lack a value, numbers those with a number, and wholeNumbers those with a
	// whole one.
	missing, wholeNumbers, numbers int
	// texts and bytes count the rows with a text or bytes, and images those whose bytes are an
	// image.
	texts, bytes, images int
	// oddText is the last text that was found, an example for messages where all other rows have numbers.
	oddText string
	// textBytes is the number of bytes of all texts together, and blanks the number of blanks in them, which
	// separate words.
	textBytes, blanks int
	// dates is the number of rows with a date or a time of day as a text, and numericDates the number of
	// those with a date as a number, such as 20240131.
	dates, numericDates int
	// commas is the number of rows that hold numbers with commas, which may be decimal commas.
	commas int
	// groupPointText is the first of them whose points can only separate thousands, as in 1.052,95.
	groupPointText string
	// groupCommaText is the first whose commas can only separate thousands, as in 1,052.95.
	groupCommaText string
	// hasLists says that at least one row has several values.
	hasLists bool
	// lengths are those of the nested lists of the first row.
	lengths []int
	// fractions counts numbers that have a decimal point, or whose type has one.
	fractions int
	// ascending says that each number so far was larger than the one before.
	ascending bool
	// distinct has the names of the distinct values, at most maxDistinct.
	distinct map[string]bool
	// namedNumbers has the numbers whose names takeRun has added to distinct.
	namedNumbers map[float64]bool
	// repeats is the number of rows with a name that was in distinct before. Of a column of numbers that is not
	// called like one of clients it lacks the rows behind those with the first maxDistinct names.
	repeats int
	// isCalledClient says that the column has the name of one of clients.
	isCalledClient bool
	// manyDistinct says that there are more distinct values than that.
	manyDistinct bool
	// isFeature says that the proposal takes the column as a feature.
	isFeature bool
	// lowest and highest are the extremes of the numbers; +Inf and -Inf where there are none.
	lowest, highest float64
}

// maxDistinct is the largest number of different values of a column that are counted one by one.
const maxDistinct = 1000

// maxFractionClasses is how many classes a column may have whose numbers all have a decimal point,
// or are of a floating-point type: programs write classes so where a value is missing, but rarely
// many.
const maxFractionClasses = 20

// takeLengths keeps the lengths of the nested lists of the first row that has some, the outermost
// first. Later calls change nothing. It never fails: the error is there because a column's reader wants one.
func (p *profile) takeLengths(lengths []int) error {
	if p.lengths == nil {
		p.lengths = slices.Clone(lengths)
	}
	return nil
}

// take adds one cell of the column to the profile. It returns errStop from row profiledRows on, and fails for
// nothing that a cell holds. Several cells of one row make the column a list.
func (p *profile) take(row int, c cell) error {
	if row >= profiledRows {
		return errStop
	}
	// A second cell of the same row: the row is a list.
	if row == p.lastRow {
		p.hasLists = true
		if _, err := c.number(); errors.Is(err, errMissing) {
			p.countMissing()
		}
		return nil
	}
	p.rows = row + 1
	p.lastRow = row
	if c.kind == bytesCell {
		p.takeBytes(&c)
		return nil
	}
	if p.takeList(&c) {
		return nil
	}
	// What is left is one number, a missing value or a text.
	name := c.name()
	x, err := c.number()
	// Hugging Face's datasets write -1 for a class that is missing.
	if p.metadataClasses != nil && name == "-1" {
		err = errMissing
	}
	switch {
	case err == nil:
		p.takeNumber(row, &c, x, name)
	case errors.Is(err, errMissing):
		p.countMissing()
		return nil
	default:
		p.takeText(name)
	}
	// Numbers and texts are told apart by their names.
	p.addName(name)
	return nil
}

// addName adds the name of a value to the distinct ones, as long as they are few.
func (p *profile) addName(name string) {
	switch {
	case p.distinct[name]:
		p.repeats++
	case p.manyDistinct:
	case len(p.distinct) < maxDistinct:
		p.distinct[name] = true
	default:
		p.manyDistinct = true
	}
}

// takeRun adds the numbers of a run to the profile, as take does one by one.
func (p *profile) takeRun(run *numberRun) error {
	for i, x := range run.values {
		row := run.row + i
		if run.inOneRow {
			row = run.row
		}
		if row >= profiledRows {
			return errStop
		}
		// A second number of the same row: the row is a list, of which one number stands for all.
		if row == p.lastRow {
			p.hasLists = true
			return nil
		}
		p.rows = row + 1
		p.lastRow = row
		p.count(row, x, !run.isInteger)
		p.countNumberNames(x)
	}
	return nil
}

// countNumberNames counts the number x among the distinct values and the dates. Both are told by its name, the
// number in digits, which takes time to write. So the name is written only for a number that may be a date, and
// for one that is not in namedNumbers while distinct still takes names.
func (p *profile) countNumberNames(x float64) {
	// Once distinct is full, repeats is of use for a column of clients alone, so other numbers are not looked up.
	isKnown := (!p.manyDistinct || p.isCalledClient) && p.namedNumbers[x]
	if isKnown {
		p.repeats++
	}
	isNew := !p.manyDistinct && !isKnown
	mayBeDate := x >= firstCalendar && x <= lastCalendar && x == math.Trunc(x)
	if !isNew && !mayBeDate {
		return
	}
	c := cell{kind: realCell, real: x}
	name := c.name()
	if calendarNumber.MatchString(name) {
		p.numericDates++
	}
	if isNew {
		p.addName(name)
		p.namedNumbers[x] = true
	}
}

// takeBytes adds a row with bytes, which may be those of an image. Images of some kinds cannot be decoded.
func (p *profile) takeBytes(c *cell) {
	p.bytes++
	kind, err := federated.ImageKind(c.bytes)
	if err != nil {
		p.unusable = kind + " files"
	}
	if kind != "" {
		p.images++
	}
}

// takeList adds the row of the cell c if its text is a list of numbers, or a number with a comma, which may be a
// decimal one. It reports whether it has added the row; for any other cell it does nothing.
func (p *profile) takeList(c *cell) bool {
	// An error with a comma in the text means that the comma may be a decimal one, as in 2,34 or 1.052,95.
	words, err := c.words()
	areParts := words != nil && !slices.ContainsFunc(words, func(word string) bool { return !isPart(word) })
	if err != nil && strings.Contains(c.text, ",") && areParts {
		p.commas++
		text := strings.TrimSpace(c.text)
		if grouped.MatchString(text) {
			// Its points can only separate thousands.
			p.groupPointText = cmp.Or(p.groupPointText, strings.Clone(text))
		}
		if groupedByCommas.MatchString(text) {
			// Its commas can only separate thousands.
			p.groupCommaText = cmp.Or(p.groupCommaText, strings.Clone(text))
		}
		return true
	}
	isList := err == nil && len(words) > 1 && isPart(words[0]) && isPart(words[1])
	if !isList {
		return false
	}
	p.hasLists = true
	for _, word := range words {
		if _, err := parseNumber(word); errors.Is(err, errMissing) {
			p.countMissing()
		}
	}
	return true
}

// takeNumber counts a row whose cell c holds the number x. name is the number as the file writes it.
func (p *profile) takeNumber(row int, c *cell, x float64, name string) {
	p.count(row, x, c.isFraction())
	// A date such as 20240131 is told by its digits in the file, as float32 rounds numbers beyond 2^24.
	if calendarNumber.MatchString(name) {
		p.numericDates++
	}
}

// count counts the row of the number x. isFraction says that x is written as a fraction, even if it is whole.
func (p *profile) count(row int, x float64, isFraction bool) {
	p.ascending = (row == 0 || p.ascending) && x > p.highest
	p.lowest = min(p.lowest, x)
	p.highest = max(p.highest, x)
	p.numbers++
	if isFraction {
		p.fractions++
	}
	if x == math.Trunc(x) {
		p.wholeNumbers++
	}
}

// takeText adds a row with a text that is no number to the counts, and keeps the text as the example of one.
func (p *profile) takeText(text string) {
	p.texts++
	p.oddText = text
	p.textBytes += len(text)
	p.blanks += strings.Count(text, " ")
	if date.MatchString(text) {
		p.dates++
	}
}

// isPart reports whether a word may stand in a list of numbers: it is a number, even one too large
// for float32, or a word for a missing number.
func isPart(word string) bool {
	_, err := parseNumber(word)
	return err == nil || errors.Is(err, errMissing) || isNumber(word)
}

// countMissing counts the row of the present cell as one that lacks a value. A row is counted once,
// however many values its list lacks.
func (p *profile) countMissing() {
	if p.lastMissingRow != p.lastRow {
		p.missing++
		p.lastMissingRow = p.lastRow
	}
}

// areNumbers reports whether the column can serve as numbers: it has at least one, and neither texts,
// bytes nor lists.
func (p *profile) areNumbers() bool {
	isSingle := p.unusable == "" && !p.hasLists
	hasOthers := p.texts > 0 || p.bytes > 0
	return isSingle && p.numbers > 0 && !hasOthers
}

// areWords reports whether the column can serve as words: short texts, less than 64 bytes on average,
// that are neither dates nor sentences.
func (p *profile) areWords() bool {
	isSingle := p.unusable == "" && !p.hasLists
	areShort := p.texts > 0 && p.textBytes < 64*p.texts
	return isSingle && areShort && p.dates == 0 && !p.areSentences()
}

// fewWords is the largest number of different words of a column that is proposed as features.
const fewWords = 50

// mayBeFeatures reports whether the column has words alone, so few different ones that each may become a
// feature.
func (p *profile) mayBeFeatures() bool {
	return p.numbers == 0 && p.areWords() && p.mayBeClasses(fewWords)
}

// areSentences reports whether the texts of the column are sentences, of three words or more on
// average, and too varied to be classes.
func (p *profile) areSentences() bool {
	// Two blanks separate three words.
	haveWords := p.texts > 0 && p.blanks >= 2*p.texts
	areVaried := p.manyDistinct || len(p.distinct) > min(20, p.rows/2)
	return haveWords && areVaried && p.dates == 0
}

// mayBeClasses reports whether the column has so few different values, at most limit, that they may be
// classes. There must be two or more, and two rows or more for each on average. For numbers that
// are far apart or written with a point the limit is lower, because these are rather measurements. Numbers must all
// be whole. (The profile counts rows: real those with a number, wholes those with a whole one, and fractions those
// whose number is written with a point.)
func (p *profile) mayBeClasses(limit int) bool {
	if p.areNumbers() && p.highest-p.lowest > 2*float64(len(p.distinct)) {
		limit = min(limit, 100)
	}
	// Numbers with a decimal point are measurements, even if all of them happen to be whole.
	if p.areNumbers() && p.fractions == p.numbers {
		limit = min(limit, maxFractionClasses)
	}
	if p.manyDistinct || len(p.distinct) < 2 || len(p.distinct) > min(limit, max(2, p.rows/2)) {
		return false
	}
	return p.areWords() || p.areNumbers() && p.wholeNumbers == p.numbers
}

// isRowNumber reports whether the column numbers the rows: whole numbers that grow by 1 from each row
// to the next, over more than two rows.
func (p *profile) isRowNumber() bool {
	// Whole numbers that ascend and span as many as there are rows leave none out.
	hasNoGap := p.highest-p.lowest == float64(p.rows-1)
	return p.rows > 2 && p.wholeNumbers == p.rows && p.ascending && hasNoGap
}

// isParts reports whether the column says which rows are held out. All values must be words for a
// part, such as train and test, both kinds must occur, and the name of the column must not be that
// of a label; a column of numbers needs a name such as split.
func (p *profile) isParts() bool {
	if p.manyDistinct || len(p.distinct) < 2 {
		return false
	}
	// Each value is tried as a part; an error means that it is none.
	var part parts
	for word := range p.distinct {
		if part.take(0, cell{kind: textCell, text: word}) != nil {
			return false
		}
	}
	hasBoth := slices.Contains(part.held, false) && slices.Contains(part.held, true)
	isCalledLabel := hasWord(p.name, slices.Concat(labelWords, maybeLabel))
	isCalledSplit := hasWord(p.name, splitWords)
	hasPartWords := p.texts > 0 && !isCalledLabel
	return hasBoth && (hasPartWords || isCalledSplit)
}

// shown returns a name or value in a form that fits in one line: quoted and cut at 40 bytes if it
// is longer, or has commas, blanks or characters that do not print.
func shown(s string) string {
	needsQuotes := func(r rune) bool { return !unicode.IsPrint(r) || strings.ContainsRune(", \ufffd", r) }
	if len(s) > 40 || strings.ContainsFunc(s, needsQuotes) {
		return fmt.Sprintf("%.40q", s)
	}
	return s
}

// exampleValues returns up to four values of the column in the order of their letters, separated by
// commas, with "..." if there are more.
func (p *profile) exampleValues() string {
	var list []string
	for name := range p.distinct {
		list = append(list, shown(name))
	}
	slices.Sort(list)
	if len(list) > 4 {
		list = append(list[:4], "...")
	}
	return strings.Join(list, ", ")
}

// reasonUnused returns the reason why the proposal gives the column no meaning, as a phrase for the user.
func (p *profile) reasonUnused() string {
	// The first reason that applies is the most specific one.
	switch {
	case p.unusable != "":
		return "holds " + p.unusable + "; want numbers, text or bytes"
	case p.areNumbers() && len(p.distinct) == 1:
		return "always the same"
	case p.instants() != "":
		return p.instants() + "; name it to use it, better as hours, weekdays or days since a start"
	case p.areNumbers() && p.isRowNumber():
		return "a number for each row, in their order"
	case p.areNumbers():
		return "numbers, which are not read beside text"
	case p.missing == p.rows:
		return "empty"
	case p.dates > 0:
		return fmt.Sprintf(
			"dates or times such as %s; as a number, of days or hours, one would be a feature",
			shown(p.oddText),
		)
	case p.areSentences():
		return fmt.Sprintf(
			"texts of %d bytes on average; want text in the place of features for a model that reads them",
			p.textBytes/p.texts,
		)
	case p.numbers > 0:
		return fmt.Sprintf("numbers, but %s and the like in %d of %d rows", shown(p.oddText), p.texts, p.rows)
	}
	return fmt.Sprintf("words, %s different", distinctCount(p))
}

// distinctCount returns the number of different values of the column as a text, or "over 1000" if more came
// than are counted.
func distinctCount(c *profile) string {
	if c.manyDistinct {
		return fmt.Sprintf("over %d", maxDistinct)
	}
	return fmt.Sprint(len(c.distinct))
}

// inOrder returns the different values of a column of whole numbers as texts, ascending by their
// size. Equal numbers in different spellings are in the order of their letters.
func (p *profile) inOrder() []string {
	return slices.SortedFunc(maps.Keys(p.distinct), func(a, b string) int {
		x, _ := parseNumber(a)
		y, _ := parseNumber(b)
		return cmp.Or(cmp.Compare(x, y), cmp.Compare(a, b))
	})
}
