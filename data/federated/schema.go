package federated

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"fedpace/learn"
)

// Schema is what the numbers of a set's samples stand for. Whoever brings samples of
// their own to a run must mean the same by them.
type Schema struct {
	// Labels are the names of the classes by number; nil means that the numbers are the names.
	Labels []string `json:",omitempty"`
	// Columns are the names of the features, in their order; nil means that they have none.
	Columns []string `json:",omitempty"`
	// Predicted are the names of the targets; nil means that they are numbered from 1.
	Predicted []string `json:",omitempty"`
	// Mean is what was subtracted from each feature; nil means that features are not scaled.
	Mean []float64 `json:",omitempty"`
	// Deviation is what each feature was divided by after the subtraction; it is as long as Mean.
	Deviation []float64 `json:",omitempty"`
	// TargetMean is what was subtracted from each target; nil means that targets are not scaled.
	TargetMean []float64 `json:",omitempty"`
	// TargetDeviation is what each target was divided by after the subtraction; it is as long as
	// TargetMean. Measures of targets are in the unit from before.
	TargetDeviation []float64 `json:",omitempty"`
	// Alphabet is what each token from 1 on stands for. Token 0 is padding, and every character
	// that the alphabet lacks. Nil means that the samples are no text or have no alphabet.
	Alphabet []string `json:",omitempty"`
}

// Convert returns means or deviations in another precision; nil stays nil, which means that nothing
// is scaled.
func Convert[To, From float32 | float64](values []From) []To {
	if values == nil {
		return nil
	}
	converted := make([]To, len(values))
	for i, x := range values {
		converted[i] = To(x)
	}
	return converted
}

// Fits reports whether each list of a schema has as many entries as samples of this format need, or none.
func (s *Schema) Fits(samples learn.Samples) bool {
	isNoneOr := func(length, want int) bool { return length == 0 || length == want }
	namesFit := isNoneOr(len(s.Labels), samples.Classes) && isNoneOr(len(s.Columns), samples.Features)
	scaleFits := isNoneOr(len(s.Mean), samples.Features) && len(s.Deviation) == len(s.Mean)
	targetScaleFits := isNoneOr(len(s.TargetMean), samples.Targets) && len(s.TargetDeviation) == len(s.TargetMean)
	// Token 0 stands for what is not in the alphabet.
	alphabetFits := isNoneOr(len(s.Alphabet), samples.Vocabulary-1) && len(s.Alphabet) <= MaxAlphabet
	return namesFit && scaleFits && targetScaleFits && alphabetFits
}

// Label returns the name of a class, or its number if it has none.
func (s *Schema) Label(class int) string {
	if class < len(s.Labels) {
		return s.Labels[class]
	}
	return strconv.Itoa(class)
}

// shownNames is how many names a line of text lists.
const shownNames = 10

// ShortList joins names with commas for a line of text, at most ten of them, followed by the number
// of the others. Without names it is "none".
func ShortList(names []string) string {
	shown := min(len(names), shownNames)
	text := strings.Join(names[:shown], ", ")
	if len(names) > shown {
		text += fmt.Sprintf(" and %d more", len(names)-shown)
	}
	return cmp.Or(text, "none")
}

// ClassNames lists the names of the classes for a line of text; "" if they have none, or
// are tokens.
func (s *Schema) ClassNames() string {
	areTokens := s.Alphabet != nil && len(s.Labels) == len(s.Alphabet)+1
	if len(s.Labels) == 0 || areTokens {
		return ""
	}
	list := slices.Clone(s.Labels)
	for i, name := range list {
		if len(name) > 20 || strings.ContainsFunc(name, func(r rune) bool { return r == ',' || !unicode.IsPrint(r) }) {
			list[i] = fmt.Sprintf("%.20q", name)
		}
	}
	return ShortList(list)
}

// Target returns the name of a target, or its number if it has none.
func (s *Schema) Target(i int) string {
	if i < len(s.Predicted) {
		return s.Predicted[i]
	}
	return strconv.Itoa(i + 1)
}

// Adopt changes the samples of a set to mean what the schema target says: the same order of features, the
// same numbers for classes and tokens, the same scale. A device calls it with the run's schema. The error
// says in what the two cannot be matched.
func Adopt(s Set, target Schema) error {
	adopter, ok := s.(interface{ Adopt(Schema) error })
	if !ok {
		info := s.Info()
		haveNames := info.Labels != nil || info.Alphabet != nil || target.Labels != nil || target.Alphabet != nil
		isScaled := target.Mean != nil || target.TargetMean != nil
		if haveNames || isScaled {
			return fmt.Errorf("data: %s: its samples cannot be made to mean what the run's mean", info.Name)
		}
		// Numbers without names and scale mean the same in both.
		return nil
	}
	if err := adopter.Adopt(target); err != nil {
		return fmt.Errorf("data: %s: %w", s.Info().Name, err)
	}
	return nil
}

// Adopt changes columns, tokens, classes and scale of the samples, in this order, to those of target, the schema of
// a run. It fails where a part of the two schemas cannot be matched; the set must not be used after that.
func (s *Grouped) Adopt(target Schema) error {
	schema := &s.About.Schema
	if err := s.adoptColumns(target.Columns); err != nil {
		return err
	}
	if schema.Alphabet != nil || target.Alphabet != nil {
		if err := s.adoptTokens(target); err != nil {
			return err
		}
	}
	// The label of a window of text is the number of the next token, which adoptTokens has changed.
	if _, isText := s.Rows.(*TextRows); !isText && s.About.Targets == 0 {
		if err := s.adoptLabels(target.Labels); err != nil {
			return err
		}
	}
	if err := s.adoptScale(target); err != nil {
		return err
	}
	if err := s.adoptTargetScale(target); err != nil {
		return err
	}
	*schema = target
	return nil
}

// adoptTargetScale undoes the scale of targets and applies that of the run, which target has, in 64 bits. Nil means
// no scale. Equal scales change no value. It is an error if the run scales another number of targets.
func (s *Grouped) adoptTargetScale(target Schema) error {
	schema := s.About.Schema
	if target.TargetMean != nil && len(target.TargetMean) != s.About.Targets {
		return fmt.Errorf(
			"the run scales %d targets, and these samples have %d",
			len(target.TargetMean),
			s.About.Targets,
		)
	}
	if sameScale(schema.TargetMean, target.TargetMean) && sameScale(schema.TargetDeviation, target.TargetDeviation) {
		return nil
	}
	// The targets are copied, as they may lie in a file that is mapped into memory.
	s.Targets = slices.Clone(s.Targets)
	for i, y := range s.Targets {
		j := i % s.About.Targets
		value := schema.Unscaled(float64(y), j)
		if target.TargetMean != nil {
			value = (value - target.TargetMean[j]) / target.TargetDeviation[j]
		}
		s.Targets[i] = float32(value)
	}
	return nil
}

// Unscaled returns a value of target j in the unit that it had before targets were scaled.
func (s *Schema) Unscaled(y float64, j int) float64 {
	if s.TargetMean == nil {
		return y
	}
	return float64(y*s.TargetDeviation[j]) + s.TargetMean[j]
}

// WordOf parts the name of a feature that says whether a row has a word: column=word.
const WordOf = "="

// adoptColumns puts the features of the set into the order of names, the features of the run. A
// word of the run's that no row has here becomes a feature that is 0. Any other difference in the
// features is an error.
func (s *Grouped) adoptColumns(names []string) error {
	schema := &s.About.Schema
	if schema.Columns == nil || names == nil || slices.Equal(schema.Columns, names) {
		return nil
	}
	if bags, ok := s.Rows.(*BagRows); ok {
		return s.adoptWords(bags, names)
	}
	// sourceColumn gives the index here of each of the run's features. It is -1 for a word of a
	// column that has words here as well, but not this one: such a feature is 0 in every row.
	sourceColumn := make([]int, len(names))
	for i, name := range names {
		sourceColumn[i] = slices.Index(schema.Columns, name)
		if sourceColumn[i] < 0 && !schema.hasWords(columnOf(name)) {
			return fmt.Errorf("no feature is called %s, as one of the run's %d is", name, len(names))
		}
	}
	// A feature that the run lacks cannot be given to its model.
	for _, name := range schema.Columns {
		if !slices.Contains(names, name) {
			return fmt.Errorf("the feature %s is none of the run's %d", name, len(names))
		}
	}
	rows, ok := s.Rows.(*FloatRows)
	if !ok {
		return fmt.Errorf("its features have another order than the run's, of which the first is %s", names[0])
	}
	s.Rows = rows.reordered(sourceColumn)
	mean := schema.Mean
	deviation := schema.Deviation
	if mean != nil {
		schema.Mean = make([]float64, len(names))
		// Features that are 0 everywhere have mean 0 and deviation 1.
		schema.Deviation = slices.Repeat([]float64{1}, len(names))
		for i, j := range sourceColumn {
			if j >= 0 {
				schema.Mean[i] = mean[j]
				schema.Deviation[i] = deviation[j]
			}
		}
	}
	s.About.Features = len(names)
	schema.Columns = names
	return nil
}

// columnOf returns the column that a feature stands for. The feature of a word has the name of its column, WordOf and
// the word; any other feature is a column.
func columnOf(feature string) string {
	column, _, _ := strings.Cut(feature, WordOf)
	return column
}

// hasWords reports whether at least one feature stands for a word of this column.
func (s *Schema) hasWords(column string) bool {
	return slices.ContainsFunc(s.Columns, func(feature string) bool {
		featureColumn, _, isWord := strings.Cut(feature, WordOf)
		return isWord && featureColumn == column
	})
}

// reordered returns the same rows with other features: feature i is the former feature source[i], or 0 in all rows
// where source[i] is -1.
func (r *FloatRows) reordered(source []int) *FloatRows {
	width := len(source)
	result := &FloatRows{Width: width, Values: make([]float32, len(r.Values)/r.Width*width)}
	for i := range result.Values {
		row := i / width
		if j := source[i%width]; j >= 0 {
			result.Values[i] = r.Values[row*r.Width+j]
		}
	}
	return result
}

// adoptWords gives the words of bags the numbers that they have among names, the run's words.
// Words that the run lacks do not count. It is an error if both share no word.
func (s *Grouped) adoptWords(bags *BagRows, names []string) error {
	numberOf := make(map[string]int, len(names))
	for i, name := range names {
		numberOf[name] = i
	}
	newNumber := make([]int, len(s.About.Columns))
	shared := 0
	for i, word := range s.About.Columns {
		number, ok := numberOf[word]
		if !ok {
			newNumber[i] = -1
			continue
		}
		newNumber[i] = number
		shared++
	}
	if shared == 0 {
		return fmt.Errorf("none of its %d words is among the run's %d", len(newNumber), len(names))
	}
	s.Rows = bags.renumbered(newNumber)
	s.About.Features = len(names)
	s.About.Columns = names
	return nil
}

// adoptLabels numbers the classes of the set as names does, the run's classes in their order. It returns an error if
// a sample has a class that is not among names, or if the classes have names here and numbers in the run. Where they
// are numbers here, they are looked up among the names as such.
func (s *Grouped) adoptLabels(names []string) error {
	info := &s.About
	switch {
	case names == nil && info.Labels == nil:
		return nil
	case names == nil:
		return fmt.Errorf("its classes have names (%.40q), and the run's are numbers", info.Labels[0])
	}
	// newClass is -1 for a class that the run does not have. That is an error only if a row has it.
	newClass := make([]int32, info.Classes)
	for class := range newClass {
		newClass[class] = int32(slices.Index(names, info.Label(class)))
	}
	labels := make([]int32, len(s.Labels))
	for i, l := range s.Labels {
		labels[i] = newClass[l]
		if labels[i] < 0 {
			return fmt.Errorf(
				"class %.40q is none of the run's %d classes (%.40q to %.40q)",
				info.Label(int(l)),
				len(names),
				names[0],
				names[len(names)-1],
			)
		}
	}
	s.Labels = labels
	info.Classes = len(names)
	return nil
}

// CountClasses makes n the number of classes, where classes are numbers: the run has n classes, of which the
// samples here may lack the largest. If a sample has a larger class, that one decides.
func (s *Grouped) CountClasses(n int) {
	if len(s.Labels) > 0 && s.About.Labels == nil && s.About.Vocabulary == 0 {
		s.About.Classes = max(n, int(slices.Max(s.Labels))+1)
	}
}

// adoptScale undoes the scale of features and applies that of the run, which target has, in 64 bits. Nil means no
// scale. Equal scales change no value, so that data which have the run's scale already keep their bits.
func (s *Grouped) adoptScale(target Schema) error {
	schema := s.About.Schema
	if sameScale(schema.Mean, target.Mean) && sameScale(schema.Deviation, target.Deviation) {
		return nil
	}
	rows, hasFloats := s.Rows.(*FloatRows)
	hasOtherWidth := hasFloats && target.Mean != nil && len(target.Mean) != rows.Width
	if !hasFloats || hasOtherWidth {
		return fmt.Errorf(
			"the run standardises %d features, and these samples have %d values",
			len(target.Mean),
			s.About.Features,
		)
	}
	// The values before may lie in a mapped file, so that the scaled ones get memory of their own.
	scaled := make([]float32, len(rows.Values))
	for i, x := range rows.Values {
		value := float64(x)
		j := i % rows.Width
		// The number that the source had comes back before the other scale is applied.
		if schema.Mean != nil {
			value = float64(value*schema.Deviation[j]) + schema.Mean[j]
		}
		if target.Mean != nil {
			value = (value - target.Mean[j]) / target.Deviation[j]
		}
		scaled[i] = float32(value)
	}
	s.Rows = &FloatRows{Width: rows.Width, Values: scaled}
	return nil
}

// sameScale reports whether means or deviations are equal to the precision of float32, in which a run sends
// them to its devices.
func sameScale(a, b []float64) bool {
	return slices.EqualFunc(a, b, func(x, y float64) bool { return float32(x) == float32(y) })
}

// adoptTokens replaces the tokens of all samples by those that stand for the same characters in the
// alphabet of target. It fails if one of the two has no alphabet, if they share no token, or if target has more
// than MaxAlphabet tokens.
func (s *Grouped) adoptTokens(target Schema) error {
	if s.About.Alphabet == nil || target.Alphabet == nil {
		return fmt.Errorf("the tokens of one have an alphabet, and those of the other have none")
	}
	if len(target.Alphabet) > MaxAlphabet {
		return fmt.Errorf("the run's alphabet has %d tokens, want at most %d", len(target.Alphabet), MaxAlphabet)
	}
	// newToken maps tokens; those that the other alphabet lacks, and padding, become 0.
	var newToken [256]byte
	shared := 0
	for i, token := range s.About.Alphabet {
		newToken[i+1] = byte(slices.Index(target.Alphabet, token) + 1)
		if newToken[i+1] > 0 {
			shared++
		}
	}
	if shared == 0 {
		return fmt.Errorf("none of its %d tokens is among the run's %d", len(s.About.Alphabet), len(target.Alphabet))
	}
	code := func(b []byte) []byte {
		// A copy is needed because b may be a file that is mapped into memory.
		coded := make([]byte, len(b))
		for i, token := range b {
			coded[i] = newToken[token]
		}
		return coded
	}
	switch rows := s.Rows.(type) {
	case *ByteRows:
		s.Rows = &ByteRows{Width: rows.Width, Bytes: code(rows.Bytes), Coding: rows.Coding}
	case *TextRows:
		// The label of a window is the token after it, so that it changes as the text does.
		s.Rows = &TextRows{Window: rows.Window, Text: code(rows.Text), Starts: rows.Starts}
		labels := make([]int32, len(s.Labels))
		for i, l := range s.Labels {
			labels[i] = int32(newToken[l])
		}
		s.Labels = labels
		s.About.Classes = len(target.Alphabet) + 1
	}
	s.About.Vocabulary = len(target.Alphabet) + 1
	return nil
}

// MaxAlphabet bounds the tokens of an alphabet, which are a byte beside 0.
const MaxAlphabet = 255

// Alphabet codes text as tokens.
type Alphabet struct {
	// Tokens are what the tokens from 1 on stand for.
	Tokens []string
	// areBytes says that a token stands for a byte of the text and not for a character.
	areBytes bool
	// tokenOf is the token of a character or, if areBytes is set, of a byte; what it lacks is token 0.
	tokenOf map[rune]byte
}

// NewAlphabet returns the alphabet of the given tokens. If areBytes is true, each is the name of a byte,
// such as 0x0a; otherwise each is a character. Tokens are coded from 1 on, as 0 stands for what is
// not in the alphabet.
func NewAlphabet(tokens []string, areBytes bool) *Alphabet {
	a := &Alphabet{Tokens: tokens, areBytes: areBytes, tokenOf: map[rune]byte{}}
	for i, token := range tokens {
		character, _ := utf8.DecodeRuneInString(token)
		if areBytes {
			b, _ := strconv.ParseUint(token, 0, 8)
			character = rune(b)
		}
		a.tokenOf[character] = byte(i + 1)
	}
	return a
}

// Encode appends the tokens of a text to dst, one byte for each, as many as dst has room for within
// its capacity. A token stands for a character of the text, or for a byte if the alphabet is one of bytes. What
// is not in the alphabet becomes 0.
func (a *Alphabet) Encode(dst, text []byte) []byte {
	if a.areBytes {
		for _, b := range text[:min(len(text), cap(dst)-len(dst))] {
			dst = append(dst, a.tokenOf[rune(b)])
		}
		return dst
	}
	for _, c := range string(text) {
		if len(dst) == cap(dst) {
			break
		}
		dst = append(dst, a.tokenOf[c])
	}
	return dst
}
