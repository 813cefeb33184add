package table

import (
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"

	"fedpace/data/federated"
	"fedpace/data/parquetfile"
	"fedpace/internal/names"
)

// Proposal is what the columns of a table seem to mean.
type Proposal struct {
	Table Table
	// Rows is the number of rows that were looked at.
	Rows    int
	All     bool
	Columns int
	// reasons says why each option has its value, in the order of the options.
	reasons []reason
	// unused lists the columns without a meaning, each with the reason.
	unused []string
	// files is how many files the table has, and fileClients the clients that they belong to, if their
	// names say so.
	files       int
	fileClients []string
}

// reason says why an option of the proposal has its value.
type reason struct{ option, value, text string }

// profiledRows is how many rows of a table are looked at for a proposal.
const profiledRows = 100_000

// Propose looks at a table and guesses what its columns mean. label is the column that is to be
// predicted; "": that is guessed, too.
func Propose(file, label string) (_ *Proposal, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("data: %s: %w", file, err)
		}
	}()
	defer parquetfile.Damaged(&err)
	files, err := openTables(file, nil)
	if err != nil {
		return nil, err
	}
	defer closeAll(files)
	var profiles []*profile
	var wanted []column
	for _, name := range files[0].columns() {
		p := &profile{
			name:        name,
			noted:       namedClasses(files, name),
			last:        -1,
			lastMissing: -1,
			distinct:    map[string]int{},
			lowest:      math.Inf(1),
			highest:     math.Inf(-1),
		}
		if field := fieldOf(files[0], name); field != nil && field.Kind == parquetfile.KindOther {
			p.unusable = field.TypeName()
			profiles = append(profiles, p)
			continue
		}
		profiles = append(profiles, p)
		wanted = append(wanted, column{
			name:     name,
			lists:    true,
			hasNames: true,
			take:     p.take,
			nested:   p.takeLengths,
		})
	}
	columns := names.Of(profiles, func(p *profile) string { return p.name })
	commas, err := new(Table).decimalColumns(files, columns, nil)
	if err != nil {
		return nil, err
	}
	for i := range wanted {
		if commas[wanted[i].name] {
			wanted[i].take = withPoint(wanted[i].take)
		}
	}
	r := &reading{}
	readFiles := 0
	for _, f := range files {
		if r.rows >= profiledRows {
			break
		}
		if err := f.read(wanted, r); err != nil {
			return nil, f.withFile(err)
		}
		readFiles++
	}
	proposal := &Proposal{Columns: len(profiles), fileClients: fileNames(files), files: len(files)}
	for _, p := range profiles {
		proposal.Rows = max(proposal.Rows, p.rows)
		if p.commas > 0 {
			return nil, fmt.Errorf("column %s has numbers with a comma, as in 2,34; want decimal: comma if it is the "+
				"decimal sign, or a decimal point, or blanks between the numbers of a list", shown(p.name))
		}
	}
	if proposal.Rows == 0 {
		return nil, fmt.Errorf("no row; want at least one sample")
	}
	proposal.All = proposal.Rows < profiledRows && readFiles == len(files)
	err = proposal.guess(profiles, label)
	if len(profiles) == 1 && proposal.Table.Features == nil && proposal.Table.Text == "" {
		err = fmt.Errorf("has one column, %s; want one for each feature and one for what is to be predicted, with "+
			"commas, semicolons or tabs between them", shown(profiles[0].name))
	}
	return proposal, err
}

// fieldOf is the field of a Parquet file's column; nil for other files and for columns that the place of
// the file gives.
func fieldOf(file tableFile, name string) *parquetfile.Field {
	if p, ok := file.(*placedTable); ok {
		file = p.tableFile
	}
	if p, ok := file.(*parquetTable); ok {
		return p.Field(name)
	}
	return nil
}

// splitNames are the words by which a column is called that can be nothing but a split.
var splitNames = []string{"split", "is_test", "is_train", "is_validation", "held_out", "train_test"}

// The words that columns are called by.
var (
	clientWords = []string{
		"client", "partition_id", "cid", "user", "writer", "site", "device", "subject", "patient",
		"hospital", "owner", "author", "person", "player", "customer", "household", "station", "school",
		"garden", "town", "city", "region", "district", "county", "state", "country", "store", "shop",
		"branch", "bank", "company", "team", "group", "reviewer", "speaker", "driver", "vehicle", "machine",
		"sensor", "plant", "node", "phone", "account", "member", "student", "employee",
	}
	labelWords = []string{
		"label", "class", "y", "target", "species", "outcome", "diagnosis", "sentiment", "digit", "variety",
		"cultivar", "genus", "breed", "price",
	}
	maybeLabel = []string{
		"category", "character", "kind", "type", "grade", "status", "quality", "score", "rating", "stars",
		"result",
	}
	splitWords = []string{
		"split", "part", "subset", "partition", "is_test", "test", "held_out",
	}
)

// hasWord reports whether a column is called by one of the words, or one with _id.
func hasWord(name string, list []string) bool {
	name = strings.ToLower(name)
	for _, end := range []string{"_id", "id", "_name", "_no"} {
		if cut, ok := strings.CutSuffix(name, end); ok && slices.Contains(list, strings.TrimSuffix(cut, "_")) {
			return true
		}
	}
	return slices.Contains(list, name)
}

// guess gives the columns their meaning, and each the reason. named is the one to be predicted, if any.
func (p *Proposal) guess(columns []*profile, named string) error {
	free := slices.Clone(columns)
	pick := func(fits func(*profile) bool) *profile {
		i := slices.IndexFunc(free, fits)
		if i < 0 {
			return nil
		}
		picked := free[i]
		free = slices.Delete(free, i, i+1)
		return picked
	}
	label := pick(func(c *profile) bool { return named != "" && c.name == named })
	grounds := "as asked"
	switch {
	case named == "":
	case label == nil:
		columnNames := names.Of(columns, func(c *profile) string { return c.name })
		return fmt.Errorf("label: there is no column %q; the columns are %s", named, federated.ShortList(columnNames))
	case !label.classes(maxDistinct) && !label.numbers():
		return fmt.Errorf("label: column %s is neither classes nor numbers: %s", shown(named), label.unused())
	}
	if c := pick(func(c *profile) bool {
		return hasWord(c.name, clientWords) &&
			c.bytes == 0 &&
			!c.list &&
			len(c.distinct) > 1 &&
			len(c.distinct) <= max(2, c.rows/2)
	}); c != nil {
		p.Table.Client = c.name
		p.add("client", quoted(c.name), "%s different values (%s), and its name", count(c), c.exampleValues())
	} else if p.fileClients != nil {
		p.Table.Client = fileClient
		p.add(
			"client",
			fileClient,
			"each file is a client's, by their names: %s",
			federated.ShortList(names.Of(p.fileClients, shown)),
		)
	} else {
		var perhaps []string
		for _, c := range free {
			if c.words() && c.classes(maxDistinct) && len(c.distinct) >= 8 {
				perhaps = append(perhaps, shown(c.name))
			}
		}
		suggestion := ""
		if perhaps != nil {
			suggestion = " (" + federated.ShortList(perhaps) + "?)"
		}
		if p.files > 1 {
			suggestion += fmt.Sprintf(", or file if each of the %d files is a client's", p.files)
		}
		p.add("client", "null", "no column called client, user or the like has a value in several rows: name "+
			"one%s, or deal the rows with fedpace data partition", suggestion)
	}
	split := pick((*profile).isParts)
	if label == nil {
		label, grounds = findLabel(free, columns[len(columns)-1])
	}
	free = slices.DeleteFunc(free, func(c *profile) bool { return c == label })
	p.guessFeatures(free)
	p.addLabel(label, grounds)
	if split != nil {
		p.Table.Split = split.name
		p.add("split", quoted(split.name), "its values are %s", split.exampleValues())
	}
	for _, c := range free {
		if c.name != p.Table.Label &&
			!slices.Contains(p.Table.Target, c.name) &&
			!c.feature &&
			c.name != p.Table.Text {
			p.unused = append(p.unused, shown(c.name)+" ("+c.unused()+")")
		}
	}
	p.guessMissing(columns)
	return nil
}

// add gives an option its value, and the reason.
func (p *Proposal) add(option, value, format string, args ...any) {
	p.reasons = append(p.reasons, reason{option, value, fmt.Sprintf(format, args...)})
}

// findLabel finds what is to be predicted: a column of such a name, the last one, or the last of few
// words.
func findLabel(free []*profile, last *profile) (label *profile, grounds string) {
	find := func(reason string, fits func(c *profile) bool) {
		if i := slices.IndexFunc(free, fits); label == nil && i >= 0 {
			label = free[i]
			grounds = reason
		}
	}
	byName := func(words []string) {
		for _, word := range words {
			if word == "y" && last.words() && last.classes(maxDistinct) {
				continue // it is beside x
			}
			find("its name", func(c *profile) bool {
				return hasWord(c.name, []string{word}) && (c.classes(maxDistinct) || c.numbers())
			})
		}
	}
	find("its metadata", func(c *profile) bool { return c.noted != nil && !c.list })
	byName(labelWords)
	find("the last column", func(c *profile) bool {
		return c == last &&
			(c.words() && c.classes(maxDistinct) || c.classes(20))
	})
	find("the last column", func(c *profile) bool { return c == last && c.numbers() && !c.rowNumber() })
	byName(maybeLabel)
	for _, c := range slices.Backward(free) {
		if label == nil && c.words() && c.classes(100) {
			label = c
			grounds = "the last column of few words"
		}
	}
	return label, grounds
}

// addLabel makes the column that was found a label or a target.
func (p *Proposal) addLabel(label *profile, grounds string) {
	classes := label != nil &&
		label.classes(maxDistinct) &&
		(label.words() || label.lowest >= 0 || len(label.distinct) == 2)
	switch {
	case label != nil && label.noted != nil:
		p.Table.Label = label.name
		p.add(
			"label",
			quoted(label.name),
			"%d classes that the file's metadata names (%s); %s",
			len(label.noted),
			federated.ShortList(names.Of(label.noted, shown)),
			grounds,
		)
	case !classes && p.Table.Text != "":
		p.add("label", "null", "none: a model learns the next token")
	case label == nil:
		p.add("label", "null", "no column looks like classes: name one, or target: a column of numbers")
	case classes:
		p.Table.Label = label.name
		kind := "words"
		if !label.words() {
			kind = "whole numbers"
		}
		p.add(
			"label",
			quoted(label.name),
			"%d different %s (%s); %s",
			len(label.distinct),
			kind,
			label.exampleValues(),
			grounds,
		)
		if !label.words() &&
			label.lowest >= 0 &&
			label.highest >= float64(len(label.distinct)) &&
			p.All {
			p.Table.Classes = label.inOrder()
			p.add("classes", listed(p.Table.Classes), "else all numbers from 0 to %.0f are classes", label.highest)
		}
	default:
		p.Table.Target = []string{label.name}
		if max(label.highest, -label.lowest) > 100 {
			grounds += "; for numbers that large take another unit, or a small schedule.eta0"
		}
		p.add(
			"target",
			quoted(label.name),
			"numbers from %.4g to %.4g, so this is a regression; %s",
			label.lowest,
			label.highest,
			grounds,
		)
	}
}

// guessFeatures takes one column of lists or images, else one of sentences, else all columns
// of numbers and of few words.
func (p *Proposal) guessFeatures(free []*profile) {
	for _, c := range free {
		if c.unusable == "" && (c.list || c.bytes > 0) {
			p.Table.Features = []string{c.name}
			c.feature = true
			kind := "lists of numbers"
			if c.bytes > 0 {
				kind = "bytes, each a number from 0 to 1"
			}
			if c.images > 0 {
				kind = "images"
			}
			p.add("features", quoted(c.name), "%s", kind)
			p.guessShape(c)
			return
		}
	}
	var wide, few []*profile
	var text *profile
	for _, c := range free {
		if c.features() {
			few = append(few, c)
		}
		if text == nil &&
			c.unusable == "" &&
			c.dates == 0 &&
			c.texts > 0 &&
			(c.length >= 20*c.texts || c.manyDistinct || c.sentences()) {
			text = c
		}
		if c.numbers() &&
			!c.rowNumber() &&
			(len(c.distinct) > 1 || c.manyDistinct) {
			wide = append(wide, c)
		}
	}
	if text != nil &&
		len(wide) < 2 &&
		(text.sentences() || len(wide)+len(few) == 0) {
		p.Table.Text = text.name
		p.Table.Window = 80
		mean := text.length / text.texts
		window := "tokens of a sample"
		if mean > p.Table.Window {
			window += "; with a label, the rest of a text is not read"
		}
		p.add("text", quoted(text.name), "texts of %d bytes on average", mean)
		p.add("window", "80", "%s", window)
		return
	}
	if len(wide)+len(few) == 0 {
		p.add("features", "null", "no column has numbers, lists, images, few words or long texts: name the inputs")
	}
	for _, c := range wide {
		p.Table.Features = append(p.Table.Features, c.name)
	}
	if len(wide) > 0 {
		if p.shorten(free) {
			pattern := p.Table.Features[0]
			wide = slices.DeleteFunc(
				slices.Clone(free),
				func(c *profile) bool { return !matches(pattern, c.name) && !slices.Contains(wide, c) },
			)
		} else if len(wide) == len(free) && len(wide) > manyNames {
			p.Table.Features = []string{"*"}
		}
		for _, c := range wide {
			c.feature = true
		}
		kind := "a column"
		if len(wide) > 1 {
			kind = fmt.Sprint(len(wide), " columns")
		}
		p.add("features", listed(p.Table.Features), "%s of numbers", kind)
		p.guessScale(wide)
	}
	if len(few) > 0 && p.Table.Shape == nil && p.Table.Scale != scalePixels {
		n := 0
		for _, c := range few {
			p.Table.Words = append(p.Table.Words, c.name)
			c.feature = true
			n = n + len(c.distinct)
		}
		p.add("words", listed(p.Table.Words), "each of %d words becomes a feature of 0 or 1", n)
	}
}

// guessShape proposes the shape of images that are lists nested three deep: NumPy and most
// libraries of Python have the channels last.
func (p *Proposal) guessShape(c *profile) {
	if len(c.lengths) != 3 {
		return
	}
	first := c.lengths[0]
	middle := c.lengths[1]
	last := c.lengths[2]
	grounds := fmt.Sprintf("the lists of the first row have %d, %d and %d values", first, middle, last)
	switch {
	case last == 1 || last == 3:
		p.Table.Shape = []int{last, first, middle}
		p.Table.Channels = channelsLast
		p.add("shape", fmt.Sprintf("[%d, %d, %d]", last, first, middle), "%s", grounds)
		p.add("channels", channelsLast, "the innermost lists are the colours of a pixel")
	case first == 1 || first == 3:
		p.Table.Shape = slices.Clone(c.lengths)
		p.add("shape", fmt.Sprintf("[%d, %d, %d]", first, middle, last), "%s", grounds)
	}
}

// manyNames is how many columns are rather called * than by their names.
const manyNames = 100

// numbered is a name that ends with a number.
var numbered = regexp.MustCompile(`^(.*?)[0-9]+$`)

// shorten puts a pattern in the place of many features, x1, x2, ..., that numbers alone
// match.
func (p *Proposal) shorten(columns []*profile) bool {
	parts := numbered.FindStringSubmatch(p.Table.Features[0])
	if parts == nil ||
		strings.ContainsAny(parts[1], `*?[\`) ||
		parts[1] == "" ||
		len(p.Table.Features) < 8 {
		return false
	}
	sameStem := func(name string) bool {
		found := numbered.FindStringSubmatch(name)
		return found != nil && found[1] == parts[1]
	}
	others := slices.DeleteFunc(slices.Clone(p.Table.Features), sameStem)
	for _, c := range columns {
		if strings.HasPrefix(c.name, parts[1]) && (slices.Contains(others, c.name) || !c.numbers()) {
			return false
		}
	}
	p.Table.Features = append([]string{parts[1] + "*"}, others...)
	return true
}

// listed writes texts as a list in YAML.
func listed(texts []string) string {
	return "[" + strings.Join(names.Of(texts, quoted), ", ") + "]"
}

// guessScale proposes a scale for features that are far from 1.
func (p *Proposal) guessScale(wide []*profile) {
	lowest := math.Inf(1)
	highest := math.Inf(-1)
	allWhole := true
	for _, c := range wide {
		lowest = min(lowest, c.lowest)
		highest = max(highest, c.highest)
		allWhole = allWhole && c.wholes == c.real
	}
	switch side := int(math.Sqrt(float64(len(wide)))); {
	case allWhole &&
		lowest >= 0 &&
		highest > 1 &&
		highest <= 255 &&
		len(wide) >= 64:
		p.Table.Scale = scalePixels
		p.add("scale", scalePixels, "all are whole numbers from 0 to 255")
		if side*side == len(wide) {
			p.Table.Shape = []int{1, side, side}
			p.add(
				"shape",
				fmt.Sprintf("[1, %d, %d]", side, side),
				"as many columns as an image of %d×%d has pixels",
				side,
				side,
			)
		}
	case highest > 10 || lowest < -10:
		p.Table.Scale = scaleStandard
		p.add("scale", scaleStandard, "values reach from %.4g to %.4g", lowest, highest)
	}
}

// guessMissing says what becomes of values that are missing: the mean of a feature that
// mostly has one; anything else leaves the row out.
func (p *Proposal) guessMissing(columns []*profile) {
	var lacks *profile
	for _, c := range columns {
		if c.missing == 0 ||
			c.missing == c.rows ||
			!c.feature &&
				!slices.Contains(append(p.Table.Target, p.Table.Label, p.Table.Client, p.Table.Split), c.name) {
			continue
		}
		if !c.feature ||
			c.missing >= c.rows/2 ||
			c.bytes > 0 ||
			p.Table.Scale == scalePixels {
			lacks = c
			p.Table.Missing = missingDrop
			break
		}
		if lacks == nil {
			lacks = c
			p.Table.Missing = missingMean
		}
	}
	if lacks != nil {
		p.add(
			"missing",
			p.Table.Missing,
			"column %s lacks a value in %d of %d rows",
			shown(lacks.name),
			lacks.missing,
			lacks.rows,
		)
	}
}

var plainWord = regexp.MustCompile(`^[A-Za-z_/][A-Za-z0-9_./ -]*$`)

// quoted writes a text as YAML.
func quoted(s string) string {
	switch strings.ToLower(s) {
	case "true", "false", "yes", "no", "on", "off", "y", "n", "null":
	default:
		if plainWord.MatchString(s) && !strings.HasSuffix(s, " ") {
			return s
		}
	}
	// The error can be ignored, because a text can always be encoded.
	b, _ := json.Marshal(s)
	return string(b)
}

// YAML is the key data of a configuration, each line with its reason. path is that of
// the table.
func (p *Proposal) YAML(path string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "data:\n  path: %s\n", quoted(path))
	for _, r := range p.reasons {
		fmt.Fprintf(&b, "  %-28s # %s\n", r.option+": "+r.value, r.text)
	}
	if len(p.unused) > 0 {
		fmt.Fprintf(&b, "  # without a meaning: %s\n", federated.ShortList(p.unused))
	}
	return b.String()
}

// Answer says what is to be predicted, and why; "" where nothing is.
func (p *Proposal) Answer() string {
	for _, r := range p.reasons {
		if (r.option == "label" || r.option == "target") && r.value != "null" {
			return fmt.Sprintf("%-6s %s: %s", r.option, r.value, r.text)
		}
	}
	return ""
}

// Complete reports whether the proposal can be opened.
func (p *Proposal) Complete() bool { return !p.Table.unmapped() && p.Table.Validate() == nil }
