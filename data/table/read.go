package table

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"

	"fedpace/data/federated"
	"fedpace/learn"
)

// reading collects what the columns of a table have given so far, until set makes a set of it. Each
// column with a meaning has a taker, which receives its values in the order of the rows. Columns of
// Parquet are read at the same time, so takers share nothing but dropped and holes, which mu
// guards. A field is nil where the mapping names no such column.
type reading struct {
	// t is the mapping, in which names of columns have replaced all patterns.
	t Table
	// options are the options of the run, such as the seed of the split.
	options federated.Options
	// columns are those that the mapping names, in the order in which their errors are reported.
	columns []column

	// rows is the number of rows that have been read completely.
	rows int
	// heldOut lists ranges of rows, from the first to behind the last, that are held out by the
	// name of their file.
	heldOut [][2]int

	// The fields from client to times read columns of the mapping. A field is nil if the mapping has no such column.

	// client reads the names of the clients.
	client *nameColumn
	// label reads the classes.
	label *classNames
	// split reads which rows are held out.
	split *parts
	// text reads the texts of samples of text.
	text *texts
	// matrix holds the features that have a column each.
	matrix *matrix
	// words holds the features that stand for words, which follow those of matrix.
	words []*words
	// vector holds the features of a table that has all of them in one column, which may be one of lists or
	// images. A table with features has either vector or matrix.
	vector *vectors
	// targets reads the numbers to predict.
	targets *matrix
	// times reads the times of the samples.
	times *matrix

	// mu guards dropped and holes.
	mu sync.Mutex
	// dropped is the set of rows that lack a value and are left out.
	dropped map[int]bool
	// hasHoles says that NaN stands for each missing feature until the mean replaces it.
	hasHoles bool
}

// newReading prepares the reading of a table by the mapping t, whose patterns are resolved. o are
// the options of the run, such as the number of classes. Each column that t names gets a taker: the method to
// which the column's values are handed one by one when the table is read.
func newReading(t Table, o federated.Options) *reading {
	r := &reading{t: t, options: o, dropped: map[int]bool{}}
	if t.Label != "" {
		r.label = newClassNames(&t, o.Classes)
		r.add(t.Label, r.label.take)
	}
	// Targets and times keep their double precision. A row that lacks one is left out, so the number that is
	// stored in the place of a missing value is never read.
	const double = true
	const unread = 0
	if len(t.Target) > 0 {
		r.targets = newMatrix(len(t.Target), double)
	}
	for i, name := range t.Target {
		r.add(name, r.targets.column(i, unread))
	}
	if t.Arrival != "" {
		r.times = newMatrix(1, double)
		r.add(t.Arrival, r.times.column(0, unread))
	}
	if t.Split != "" {
		r.split = &parts{onesTrain: hasWord(t.Split, trainFlags)}
		r.add(t.Split, r.split.take)
	}
	if t.Client != "" {
		r.client = new(nameColumn)
		r.add(t.Client, r.client.take)
	}
	// hole stands for a missing feature: NaN if its mean is to replace it later.
	hole := 0.0
	// Numbers to be scaled stay in double precision until then.
	precise := t.Scale == scaleStandard
	if t.Missing == missingMean {
		hole = nan
	}
	switch {
	case t.Text != "":
		r.text = new(texts)
		r.add(t.Text, r.text.take)
	// A single column may hold lists or images, so its values decide how wide it is.
	case len(t.Features) == 1 && t.Words == nil:
		r.vector = &vectors{hole: hole, values: numbers{precise: precise}, channelsLast: t.Channels == channelsLast}
		copy(r.vector.shape[:], t.Shape)
		r.addFeature(t.Features[0], r.vector.take)
		r.last().takeRun = r.vector.takeRun
		if t.Shape != nil {
			// Nested lists must agree with the shape.
			r.last().takeLengths = r.vector.checkLengths
		}
	default:
		r.matrix = newMatrix(len(t.Features), precise)
		for _, name := range t.Words {
			wordColumn := new(words)
			r.words = append(r.words, wordColumn)
			r.addFeature(name, wordColumn.take)
		}
		for i, name := range t.Features {
			r.addFeature(name, r.matrix.column(i, hole))
			r.last().takeRun = r.matrix.columnRun(i)
		}
	}
	return r
}

// last returns the column that was added last.
func (r *reading) last() *column { return &r.columns[len(r.columns)-1] }

// add appends the column of this name, which is no feature and whose values go to take. Where take returns
// errMissing, the option missing decides what happens to the row.
func (r *reading) add(name string, take taker) {
	const feature = false
	r.addColumn(name, feature, take)
}

// addFeature is add for an input of the model. A missing value may be replaced by the mean, and the column may
// hold lists if it is the only feature.
func (r *reading) addFeature(name string, take taker) {
	const feature = true
	r.addColumn(name, feature, take)
}

// addColumn adds the column of this name to those that are read, and take as the taker of its values. A
// missing value is treated as the option missing says. isFeature says that the column is one of the model's
// inputs: a missing value may be replaced by the mean, and if the column is the only one (r.vector), its values may
// be lists.
func (r *reading) addColumn(name string, isFeature bool, take taker) {
	takeOrMiss := func(row int, c cell) error {
		err := take(row, c)
		if !errors.Is(err, errMissing) {
			return err
		}
		return r.missing(row, isFeature, err)
	}
	r.columns = append(r.columns, column{
		name:         name,
		mayHaveLists: isFeature && r.vector != nil,
		hasNames:     name == r.t.Client || name == r.t.Label || slices.Contains(r.t.Words, name),
		take:         takeOrMiss,
	})
}

// nan stands for a feature that is missing until its mean is known.
var nan = math.NaN()

// missing treats a missing value in the given row as the option missing says: it marks the row as left out
// (drop), or notes that the mean of the feature will replace the value (mean, for features alone). Otherwise
// it returns err.
func (r *reading) missing(row int, isFeature bool, err error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case isFeature && r.t.Missing == missingMean:
		r.hasHoles = true
	case r.t.Missing == missingDrop:
		r.dropped[row] = true
	default:
		return err
	}
	return nil
}

// reserve prepares for the given number of further rows, which the file announces, and fails if the table would have
// too many. room returns how many rows with values of the given width, in bytes, the file can hold by its size: memory
// for lists is reserved for no more, whatever the file announces.
func (r *reading) reserve(rows int, room func(width int) int) error {
	if rows > federated.MaxSamples-r.rows {
		return fmt.Errorf("more than %d rows", federated.MaxSamples)
	}
	// A nil field is a column that the mapping does not name.
	if r.client != nil {
		r.client.index = slices.Grow(r.client.index, rows)
	}
	if r.label != nil {
		r.label.index = slices.Grow(r.label.index, rows)
	}
	if r.vector != nil {
		r.vector.reserve(rows, room)
	}
	for _, m := range []*matrix{r.matrix, r.targets, r.times} {
		if m != nil {
			m.reserve(r.rows + rows)
		}
	}
	return nil
}

// set makes the set of all rows that were read and gives it this name. It numbers the classes, groups the
// rows by their clients, splits them into training and held-out rows and scales the features. It adds notes
// to the set on what was taken from the data itself.
func (r *reading) set(name string) (*federated.Grouped, error) {
	if err := r.dropMissingNames(); err != nil {
		return nil, err
	}
	s := federated.Grouped{About: federated.Info{Name: name, Undealt: r.client == nil}}
	if r.label != nil {
		if r.label.joinTruths() {
			s.About.AddWarning(
				"column %s: rows with true and rows with 1 are one class, and so are false and 0",
				r.t.Label,
			)
		}
		var err error
		s.Labels, s.About.Classes, s.About.Labels, err = r.label.labels(r.options.Classes)
		if err != nil {
			return nil, fmt.Errorf("column %s: %w", r.t.Label, err)
		}
		if r.t.Classes == nil && r.label.metadataClasses == nil && r.options.Classes == 0 {
			s.About.AddNote("%d classes, taken from the labels", s.About.Classes)
		}
	}
	r.noteMissingWords(&s.About)
	if r.targets != nil {
		s.About.Targets = r.targets.width
		s.About.Predicted = r.t.Target
		if r.t.TargetScale == "" {
			s.Targets = r.targets.rounded()
		}
		r.noteCoarseTargets(&s.About)
	}
	if r.split != nil && r.split.validation != "" {
		s.About.AddNote(
			"rows called %s in column %s are held out, as those called test are",
			r.split.validation,
			r.t.Split,
		)
	}
	if len(r.dropped) > 0 {
		s.About.AddNote("%d rows without a value left out", len(r.dropped))
	}
	// A dropped row may have no label, which would be a number below 0.
	for row := range r.dropped {
		if s.Labels != nil {
			s.Labels[row] = 0
		}
	}
	// From here on, rows are those of clients, without the dropped ones.
	names, clientRows := r.rowsByClient()
	if r.t.Tokens == wordTokens {
		return r.bags(s, names, clientRows)
	}
	if r.text != nil {
		return r.tokens(s, names, clientRows)
	}
	g := r.newGrouping()
	// scaleRows are the rows from which mean and deviation are computed.
	var scaleRows []int32
	for c, name := range names {
		// A client's rows are split within the client, so that each can train and validate.
		train, held := r.splitRows(c, clientRows[c])
		g.Add(name, train, held)
		scaleRows = append(scaleRows, train...)
	}
	// A set of held-out samples alone has no training rows to scale by.
	if len(scaleRows) == 0 {
		scaleRows = g.Held
	}
	if r.t.TargetScale == scaleStandard {
		s.About.TargetMean, s.About.TargetDeviation = moments(r.targets.double, r.targets.width, scaleRows)
		s.Targets = r.targets.standardised(s.About.TargetMean, s.About.TargetDeviation)
	}
	if err := r.features(&s, scaleRows); err != nil {
		return nil, err
	}
	return r.withTimes(g.Set(s))
}

// newGrouping returns a grouping without clients, to which the caller adds those of the table.
func (r *reading) newGrouping() federated.Grouping {
	return federated.Grouping{HeldOutOnly: r.options.HeldOutOnly, MarksHeldOut: r.marksHeldOut()}
}

// marksHeldOut reports whether the table itself says which rows are held out: by a column of the mapping, or by
// the name of a file.
func (r *reading) marksHeldOut() bool { return r.split != nil || r.heldOut != nil }

// withTimes sets the times of the samples of the set s, which are the table's rows, if the mapping has a column of
// times; otherwise it returns s as it is. err is the error with which s was made, and is returned, too.
func (r *reading) withTimes(s *federated.Grouped, err error) (*federated.Grouped, error) {
	if err != nil || r.times == nil {
		return s, err
	}
	return s, s.SetTimes(r.times.double[:r.rows], federated.Arrival{
		Column: r.t.Arrival,
		Start:  r.t.ArrivalStart,
		Speed:  r.t.ArrivalSpeed,
		Window: r.t.ArrivalWindow,
	})
}

// noteMissingWords adds a warning to about for clients and for classes of words among which there is a text that
// elsewhere means a missing value, such as R's NA.
func (r *reading) noteMissingWords(about *federated.Info) {
	warn := func(column, kind string, names []string) {
		if names != nil {
			about.AddWarning("column %s: %s is a %s, since the column has words (leave missing values empty)",
				column, strings.Join(names, ", "), kind)
		}
	}
	if r.label != nil && !r.label.closed {
		warn(r.t.Label, "class", r.label.wordsLikeMissing())
	}
	if r.client != nil {
		warn(r.t.Client, "client", r.client.wordsLikeMissing())
	}
}

// maxRoundingError is the largest error of a target or feature by rounding that needs no warning, as a fraction
// of its standard deviation.
const maxRoundingError = 1e-3

// noteCoarseFeatures adds a warning to about for the features that lose precision by rounding: to float32,
// because they are not scaled, or to float64.
func (r *reading) noteCoarseFeatures(about *federated.Info) {
	var coarse []string
	worst := 0.0
	note := func(feature string, loss *roundingLoss) {
		share := loss.share()
		if share > maxRoundingError {
			worst = max(worst, share)
			if !slices.Contains(coarse, feature) {
				coarse = append(coarse, feature)
			}
		}
	}
	precise := false
	if r.matrix != nil {
		precise = r.matrix.precise
		for i, loss := range r.matrix.losses {
			note(r.t.Features[i], loss)
		}
	}
	if r.vector != nil {
		precise = r.vector.values.precise
		for i := range r.vector.losses {
			note(r.t.Features[0], &r.vector.losses[i])
		}
	}
	if coarse == nil {
		return
	}
	kept := "float32"
	remedy := "scale: standard scales first"
	if precise {
		kept = "float64"
		remedy = "want another origin or unit"
	}
	about.AddWarning("features %s are rounded to %s, by up to %.2g of a deviation (%s)",
		federated.ShortList(coarse), kept, worst, remedy)
}

// noteCoarseTargets adds a warning to about for each target that loses precision by rounding: to float64, or,
// without a scale, to float32, such as seconds since 1970. The model learns from the rounded numbers.
func (r *reading) noteCoarseTargets(about *federated.Info) {
	const warning = "target %s is rounded to %s, by up to %.2g of its deviation (want another origin or unit)"
	for j, name := range r.t.Target {
		if share := r.targets.losses[j].share(); share > maxRoundingError {
			about.AddWarning(warning, name, "float64", share)
		}
	}
	if r.t.TargetScale != "" {
		return
	}
	rows := make([]int32, 0, r.rows)
	for row := range r.rows {
		if !r.dropped[row] {
			rows = append(rows, int32(row))
		}
	}
	_, deviation := moments(r.targets.double, r.targets.width, rows)
	// worst has the largest error of rounding of each target.
	worst := make([]float64, r.targets.width)
	for _, row := range rows {
		for j, x := range r.targets.double[int(row)*r.targets.width:][:r.targets.width] {
			worst[j] = max(worst[j], math.Abs(x-float64(float32(x))))
		}
	}
	for j, name := range r.t.Target {
		if share := worst[j] / deviation[j]; share > maxRoundingError {
			about.AddWarning(warning, name, "float32", share)
		}
	}
}

// dropMissingNames treats texts such as NaN among the numbers of the label or client column as
// missing values. This waits until the whole column is read, because in a column of words they are
// words.
func (r *reading) dropMissingNames() error {
	const isFeature = false
	// find drops the rows of one column whose text stands for a missing number.
	find := func(column string, names *nameColumn) error {
		for _, row := range names.missingRows() {
			if err := r.missing(row, isFeature, errMissing); err != nil {
				return fmt.Errorf("column %s, row %d: %w", column, row+1, err)
			}
		}
		return nil
	}
	if r.label != nil {
		if err := find(r.t.Label, &r.label.nameColumn); err != nil {
			return err
		}
	}
	if r.client != nil {
		return find(r.t.Client, r.client)
	}
	return nil
}

// rowsByClient returns the names of the clients and, for each, the numbers of its rows, ascending and
// without dropped rows. Without a column of clients, one client called "all" owns every row.
func (r *reading) rowsByClient() (names []string, clientRows [][]int32) {
	names = []string{"all"}
	if r.client != nil {
		names = r.client.List
	}
	owner := func(row int) int {
		if r.client == nil {
			return 0
		}
		return int(r.client.index[row])
	}
	count := make([]int, len(names))
	for row := range r.rows {
		// Every row without a client is dropped, so that the others have an owner.
		if !r.dropped[row] {
			count[owner(row)]++
		}
	}
	clientRows = make([][]int32, len(names))
	for c, n := range count {
		clientRows[c] = make([]int32, 0, n)
	}
	for row := range r.rows {
		if !r.dropped[row] {
			c := owner(row)
			clientRows[c] = append(clientRows[c], int32(row))
		}
	}
	return names, clientRows
}

// splitRows splits the rows of a client into those for training and those held out. The split column or
// the names of the files decide, if there are any; otherwise the options draw a part by the run's
// seed and the number of the client.
func (r *reading) splitRows(client int, rows []int32) (train, held []int32) {
	if !r.marksHeldOut() {
		return r.options.Split(client, rows)
	}
	for _, row := range rows {
		if r.isHeldOut(row) {
			held = append(held, row)
		} else {
			train = append(train, row)
		}
	}
	return train, held
}

// isHeldOut reports whether a row is held out, either by its word in the split column or because it
// comes from a file that is held out.
func (r *reading) isHeldOut(row int32) bool {
	return r.split != nil && r.split.held[row] ||
		slices.ContainsFunc(r.heldOut, func(span [2]int) bool { return int(row) >= span[0] && int(row) < span[1] })
}

// features makes the store of samples, s.Rows, from the columns of features and describes it in
// s.About. train lists the rows that means and deviations are computed from, so that held-out rows
// have no part in them. Missing values, which are NaN, become the mean of their feature, and the features of
// words follow behind the numbers.
func (r *reading) features(s *federated.Grouped, train []int32) error {
	s.About.Input = learn.Dense
	// given are the numbers as they were read: width for each row, one row behind the other.
	var given *numbers
	var width int
	var err error
	if r.vector != nil {
		given, width, err = r.vectorFeatures(s)
	} else {
		given, width, err = r.columnFeatures(s)
	}
	// Without numbers the samples are bytes, of which vectorFeatures has made the store already.
	if err != nil || given == nil {
		return err
	}
	s.About.Features = width
	r.noteCoarseFeatures(&s.About)
	// A file may have announced more rows than it had.
	given.cut(r.rows * width)
	if r.t.Channels == channelsLast {
		order := channelsFirst(s.About.Image)
		given.permute(width, order)
		if s.About.Columns != nil {
			s.About.Columns = permuted(s.About.Columns, order)
		}
	}
	// The values are in single precision unless they are to be scaled to mean 0 and deviation 1
	// (scaleStandard). Then they are in given.double, and values is nil until they are scaled.
	values := given.single
	switch {
	case r.t.Scale == scalePixels:
		bytes, err := pixels(values)
		if err != nil {
			return err
		}
		s.Rows = &federated.ByteRows{Width: width, Bytes: bytes, Coding: federated.Fraction}
		return nil
	case r.t.Scale == scaleStandard:
		mean, deviation := moments(given.double, width, train)
		values = given.standardised(mean, deviation)
		s.About.Mean = mean
		s.About.Deviation = deviation
		// A missing value becomes the mean, which is 0 after the features are scaled.
		fillHoles(values, make([]float64, width))
	case r.hasHoles:
		mean, _ := moments(values, width, train)
		fillHoles(values, mean)
	}
	values, width, err = r.addWords(s, values, width, train)
	s.About.Features = width
	s.Rows = &federated.FloatRows{Width: width, Values: values}
	return err
}

// vectorFeatures returns the numbers of a table whose features are one column of lists, and how many each row
// has. If the column has bytes or images, it makes the store of samples of them, s.Rows, and returns no numbers.
func (r *reading) vectorFeatures(s *federated.Grouped) (given *numbers, width int, err error) {
	v := r.vector
	s.About.Features = v.width
	if v.width == 0 {
		return nil, 0, fmt.Errorf("column %s: no row has a value", r.t.Features[0])
	}
	if err := v.spread(); err != nil {
		return nil, 0, fmt.Errorf("column %s: %w", r.t.Features[0], err)
	}
	s.About.Image = v.shape
	pixels := v.shape[0] * v.shape[1] * v.shape[2]
	switch {
	case !v.isBytes && pixels > 0 && pixels != v.width:
		return nil, 0, fmt.Errorf(
			"shape: %d values of an image, and column %s has lists of %d",
			pixels,
			r.t.Features[0],
			v.width,
		)
	case !v.isBytes:
		return &v.values, v.width, nil
	case r.t.Scale == scaleStandard:
		return nil, 0, fmt.Errorf("scale: standard is for numbers, and column %s has bytes", r.t.Features[0])
	case r.hasHoles:
		return nil, 0, fmt.Errorf("missing: mean is for numbers, and column %s has bytes", r.t.Features[0])
	}
	// Bytes stay as they are, one for each value, and are divided by 255 when a model reads them.
	s.Rows = &federated.ByteRows{Width: v.width, Bytes: v.bytes, Coding: federated.Fraction}
	return nil, v.width, nil
}

// columnFeatures returns the features of a table that has a column for each of them: the numbers row by row, and
// how many each row has (width). It notes the names of the columns, or the shape of images, in s.About.
func (r *reading) columnFeatures(s *federated.Grouped) (given *numbers, width int, err error) {
	width = r.matrix.width
	s.About.Columns = r.t.Features
	if r.t.Shape == nil {
		return &r.matrix.numbers, width, nil
	}
	copy(s.About.Image[:], r.t.Shape)
	if pixels := s.About.Image[0] * s.About.Image[1] * s.About.Image[2]; pixels != width {
		return nil, 0, fmt.Errorf("shape: %d values of an image, and there are %d columns of features", pixels, width)
	}
	return &r.matrix.numbers, width, nil
}

// pixels converts values to bytes, one for each value. It returns an error unless each value is a
// whole number from 0 to 255.
func pixels(values []float32) ([]byte, error) {
	bytes := make([]byte, len(values))
	for i, x := range values {
		bytes[i] = byte(x)
		if float32(bytes[i]) != x {
			return nil, fmt.Errorf("scale: pixels is for whole numbers from 0 to 255, and a feature is %v", x)
		}
	}
	return bytes, nil
}

// moments returns the mean and the standard deviation (divisor n) of each of width features over
// the given rows. values holds width numbers for each row, one row after another. NaN stands for a
// missing value and does not count. The deviation is 1 for a feature that is constant or has no
// value, so that it can be divided by.
func moments[T float32 | float64](values []T, width int, rows []int32) (mean, deviation []float64) {
	counts := make([]float64, width)
	mean = make([]float64, width)
	deviation = make([]float64, width)
	// forEach calls do with every value that is not missing and the number j of its feature.
	forEach := func(do func(j int, x float64)) {
		for _, row := range rows {
			for j, x := range values[int(row)*width:][:width] {
				// The comparison is false for NaN alone, which stands for a missing value.
				if x == x {
					do(j, float64(x))
				}
			}
		}
	}
	// Two passes, the mean first, avoid the cancellation of the formula with the sum of squares.
	forEach(func(j int, x float64) {
		counts[j]++
		mean[j] += x
	})
	for j := range mean {
		mean[j] /= max(counts[j], 1)
	}
	squares := make([]float64, width)
	forEach(func(j int, x float64) { squares[j] += float64((x - mean[j]) * (x - mean[j])) })
	for j := range deviation {
		deviation[j] = math.Sqrt(squares[j] / max(counts[j], 1))
		// A feature that is constant has no deviation to divide by.
		if deviation[j] == 0 {
			deviation[j] = 1
		}
	}
	return mean, deviation
}

// fillHoles replaces each missing value, a NaN, by the number for its feature in replacements. values holds
// len(replacements) features for each row, one row after another.
func fillHoles(values []float32, replacements []float64) {
	for i, x := range values {
		// Only NaN differs from itself.
		if x != x {
			values[i] = float32(replacements[i%len(replacements)])
		}
	}
}
