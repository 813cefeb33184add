package table

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"

	"fedpace/data/federated"
	"fedpace/data/parquetfile"
	"fedpace/internal/names"
)

// Proposal is a guess at what the columns of a table mean, with a reason for each option of the
// mapping.
type Proposal struct {
	// Table is the proposed mapping. It may lack what no column seems to give.
	Table Table
	// Rows is the number of rows that were looked at.
	Rows int
	// All says that these are all rows of the table.
	All bool
	// Columns is the number of columns of the table.
	Columns int
	// Doubt says which numbers may be read in two ways, for the user to decide; empty: none.
	Doubt string
	// hasClasses says that the column to predict has classes.
	hasClasses bool
	// reasons says why each option has its value, in the order of the options.
	reasons []reason
	// unused lists the columns without a meaning, each with the reason.
	unused []string
	// files is how many files the table has, and fileClients the clients that they belong to, if their
	// names say so.
	files       int
	fileClients []string
}

// reason is one option of the proposal with its value, as YAML, and the text that says why it has
// this value.
type reason struct{ option, value, text string }

// profiledRows is the largest number of rows of a table that are looked at for a proposal.
const profiledRows = 100_000

// Named are the columns whose meaning the user gives. An empty name leaves the column to the proposal.
type Named struct {
	// Label is the column to predict.
	Label string
	// Client is the column that says whose a row is.
	Client string
}

// Propose reads the first rows of the table at path file and guesses what its columns mean. label
// is the name of the column to predict; with "" it is guessed, too. The error is one of reading the
// table, or says that label cannot be predicted. A proposal may be incomplete even without an
// error: Complete tells.
func Propose(file, label string) (*Proposal, error) {
	return ProposeNamed(file, Named{Label: label})
}

// ProposeNamed is Propose for a table of which the user has named some columns.
func ProposeNamed(file string, named Named) (*Proposal, error) {
	p, err := propose(file, named, Table{})
	// Commas separate the fields of the file, but its numbers have points between thousands.
	if errors.Is(err, errGroups) {
		p, err = propose(file, named, Table{Decimal: decimalComma})
	}
	return p, err
}

// errGroups reports numbers with points between thousands where commas were not read as decimal signs.
var errGroups = errors.New("points between thousands; want decimal: comma")

// propose is Propose for a table whose numbers are written as the option decimal of t says. If the option is
// set, the proposal has it, too. Other options of t do not count.
func propose(file string, named Named, t Table) (_ *Proposal, err error) {
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
	profiles, wanted, err := profilesOf(files)
	if err != nil {
		return nil, err
	}
	columns := names.Of(profiles, func(p *profile) string { return p.name })
	// The signs of decimals must be known before numbers are told from texts.
	decimals, err := t.decimalColumns(files, columns, nil)
	if err != nil {
		return nil, err
	}
	for i := range wanted {
		if decimals.commas[wanted[i].name] {
			wanted[i].take = withPoint(wanted[i].take)
		}
	}
	r := &reading{}
	readFiles := 0
	for _, f := range files {
		// A row number counts across files, so later files are not needed.
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
		if err := p.checkCommas(); err != nil {
			return nil, err
		}
	}
	if proposal.Rows == 0 {
		return nil, fmt.Errorf("no row; want at least one sample")
	}
	// The last file may have ended exactly at the limit, so All is said only below it.
	proposal.All = proposal.Rows < profiledRows && readFiles == len(files)
	err = proposal.guess(profiles, named)
	proposal.guessDecimal(profiles, decimals)
	if t.Decimal != "" {
		proposal.Table.Decimal = t.Decimal
		proposal.add("decimal", t.Decimal, "points separate thousands")
	}
	// One column often means that the separator was not recognised.
	if len(profiles) == 1 && proposal.Table.Features == nil && proposal.Table.Text == "" {
		err = fmt.Errorf("has one column, %s; want one for each feature and one for what is to be predicted, with "+
			"commas, semicolons or tabs between them", shown(profiles[0].name))
	}
	return proposal, err
}

// profilesOf returns an empty profile for each column of the files, and the columns that are to be read into their
// profiles. A column of a type that no model can use is listed, but not read. It is an error if the files name the
// classes of a column differently.
func profilesOf(files []tableFile) (profiles []*profile, wanted []column, err error) {
	for _, name := range files[0].columns() {
		metadataClasses, err := namedClasses(files, name)
		if err != nil {
			return nil, nil, err
		}
		p := &profile{
			name:            name,
			metadataClasses: metadataClasses,
			lastRow:         -1,
			lastMissingRow:  -1,
			distinct:        map[string]bool{},
			namedNumbers:    map[float64]bool{},

			isCalledClient: hasWord(name, clientWords),
			lowest:         math.Inf(1),
			highest:        math.Inf(-1),
		}
		profiles = append(profiles, p)
		if field := fieldOf(files[0], name); field != nil && field.Kind == parquetfile.KindOther {
			p.unusable = field.TypeName()
			continue
		}
		profiled := column{
			name:         name,
			mayHaveLists: true,
			hasNames:     true,
			take:         p.take,
			takeLengths:  p.takeLengths,
		}
		// Where the file's metadata names the classes, -1 is a class that is missing. Only the method take treats it
		// so, which gets the numbers one by one.
		if metadataClasses == nil {
			profiled.takeRun = p.takeRun
		}
		wanted = append(wanted, profiled)
	}
	return profiles, wanted, nil
}

// checkCommas returns an error if the column has numbers with commas that were not read as decimal signs. It
// wraps errGroups where such a number also has points between thousands (1.052,95), so that its comma can only be a
// decimal sign: Propose then reads the table again with decimal commas.
func (p *profile) checkCommas() error {
	switch {
	case p.groupPointText != "":
		return fmt.Errorf("column %s has numbers such as %s with %w", shown(p.name), p.groupPointText, errGroups)
	case p.groupCommaText != "":
		return fmt.Errorf(
			"column %s has numbers such as %s, with commas between thousands; want numbers without these",
			shown(p.name),
			p.groupCommaText,
		)
	case p.commas > 0:
		return fmt.Errorf("column %s has numbers with a comma, as in 2,34; want decimal: comma if it is the "+
			"decimal sign, or a decimal point, or blanks between the numbers of a list", shown(p.name))
	}
	return nil
}

// fieldOf returns the field of the column of this name if the file is a Parquet file, and nil
// otherwise. It is also nil for a column that the path of the file gives.
func fieldOf(file tableFile, name string) *parquetfile.Field {
	if p, ok := file.(*placedTable); ok {
		file = p.tableFile
	}
	if p, ok := file.(*parquetTable); ok {
		return p.Field(name)
	}
	return nil
}

// splitNames are names of columns that can only mean a split into training and held-out rows.
var splitNames = slices.Concat(
	[]string{"split", "train_test"},
	heldOutFlags,
	[]string{"is_train", "is_training", "istrain"},
)

// heldOutFlags are names of columns whose value says that a row is held out.
var heldOutFlags = []string{
	"is_test", "is_testing", "istest", "is_validation", "is_valid_set", "is_val", "is_eval", "held_out", "heldout",
	"holdout", "hold_out", "is_held_out", "is_heldout", "is_holdout",
}

// trainFlags are names of columns whose value says that a row is for training, where 1 and 0 are the values.
var trainFlags = []string{
	"is_train", "is_training", "istrain", "train", "training", "in_train", "train_set", "trainset",
}

// The words that columns are called by.
var (
	clientWords = []string{
		"client", "partition_id", "cid", "user", "writer", "site", "device", "subject", "patient",
		"hospital", "owner", "author", "person", "player", "customer", "household", "station", "school",
		"garden", "town", "city", "region", "district", "county", "state", "country", "store", "shop",
		"branch", "bank", "company", "team", "group", "reviewer", "speaker", "driver", "vehicle", "machine",
		"sensor", "plant", "node", "phone", "account", "member", "student", "employee",
		// German and Dutch.
		"kunde", "kunden", "kundennummer", "kundennr", "nutzer", "benutzer", "patientin", "filiale", "filialnummer",
		"filialnr", "standort", "gerät", "geraet", "klinik", "schule", "klant", "klantnummer", "gebruiker", "filiaal",
		"apparaat", "ziekenhuis",
		// French, Spanish, Portuguese and Italian.
		"utilisateur", "magasin", "appareil", "hôpital", "hopital", "boutique", "succursale", "cliente", "clientes",
		"usuario", "usuário", "tienda", "sucursal", "dispositivo", "paciente", "loja", "utente", "negozio", "filial",
		"paziente", "ospedale",
	}
	classWords = []string{
		"label", "class", "y", "target", "species", "outcome", "diagnosis", "sentiment", "digit", "variety",
		"cultivar", "genus", "breed",
	}
	labelWords = append(slices.Clip(classWords), "price")
	maybeLabel = []string{
		"category", "character", "kind", "type", "grade", "status", "quality", "score", "rating", "stars",
		"result",
	}
	splitWords = append([]string{"part", "subset", "partition", "test"}, splitNames...)
)

// wordBreaks replaces the signs between the words of a column's name by underscores.
var wordBreaks = strings.NewReplacer(" ", "_", "-", "_", ".", "_")

// hasWord reports whether the name of a column is one of the words in list, in any case, perhaps
// with an ending such as _id, id, _name or _nr, or behind id_ or code_.
func hasWord(name string, list []string) bool {
	name = strings.Trim(wordBreaks.Replace(strings.ToLower(name)), "_")
	for _, end := range []string{"_id", "id", "_name", "_no", "_nr", "_number", "_nummer", "_num"} {
		if cut, ok := strings.CutSuffix(name, end); ok && slices.Contains(list, strings.TrimSuffix(cut, "_")) {
			return true
		}
	}
	for _, beginning := range []string{"id_", "code_"} {
		if cut, ok := strings.CutPrefix(name, beginning); ok && slices.Contains(list, cut) {
			return true
		}
	}
	return slices.Contains(list, name)
}

// fewClients is the number of values below which a column is rather a group of clients, as a region
// is, than the clients.
const fewClients = 5

// isClient reports whether the column may have the clients, by its name and its values. A client has
// several rows, so that there are at most half as many values as rows. Where values are too many to be counted,
// the first of them tell.
func (p *profile) isClient() bool {
	isName := p.bytes == 0 && !p.hasLists
	values := len(p.distinct)
	hasSeveralRows := values > 1 && values <= max(2, p.rows/2)
	if p.manyDistinct {
		hasSeveralRows = p.repeats >= values
	}
	return p.isCalledClient && isName && hasSeveralRows
}

// guess fills the proposal: it gives each of columns its meaning, and each option its reason. named
// are the columns whose meaning the user gives. The order of the steps matters, because a column that
// has a meaning is not considered again. The only errors are those of a named column that does not
// exist, has two meanings or cannot be predicted.
func (p *Proposal) guess(columns []*profile, named Named) error {
	// free are the columns without a meaning so far; pick takes the first that fits from them.
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
	// A named label is taken first, so that it becomes neither client nor split.
	label := pick(func(c *profile) bool { return named.Label != "" && c.name == named.Label })
	client := pick(func(c *profile) bool { return named.Client != "" && c.name == named.Client })
	grounds := "as asked"
	missing := func(option, name string) error {
		known := federated.ShortList(names.Of(columns, func(c *profile) string { return c.name }))
		return fmt.Errorf("%s: there is no column %q; the columns are %s", option, name, known)
	}
	// A column that the user names must exist, and a label be something that can be predicted.
	switch {
	case named.Label != "" && named.Label == named.Client:
		return fmt.Errorf("column %s cannot be both label and client", shown(named.Label))
	case named.Client != "" && client == nil:
		return missing("client", named.Client)
	case named.Label == "":
	case label == nil:
		return missing("label", named.Label)
	case !label.mayBeClasses(maxDistinct) && !label.areNumbers():
		reason := label.reasonUnused()
		return fmt.Errorf("label: column %s is neither classes nor numbers: %s", shown(named.Label), reason)
	}
	clientGrounds := ", as asked"
	hint := ""
	if client == nil {
		clientGrounds = ", and its name"
		// Of two columns of such names, that of few values is rather a group of clients.
		client = pick(func(c *profile) bool { return c.isClient() && len(c.distinct) >= fewClients })
	}
	if client == nil {
		client = pick((*profile).isClient)
		hint = "; a guess, as so few may be groups of clients"
	}
	p.addClient(client, clientGrounds+hint, free)
	// The split is found before the label, as its words could be classes, too.
	split := pick((*profile).isParts)
	if label == nil {
		label, grounds = findLabel(free, columns[len(columns)-1])
	}
	free = slices.DeleteFunc(free, func(c *profile) bool { return c == label })
	p.hasClasses = label != nil && label.mayBeClasses(maxDistinct)
	// The features are chosen without the label, and before it is entered: a text decides its kind.
	p.guessFeatures(free)
	p.addLabel(label, grounds)
	if split != nil {
		p.Table.Split = split.name
		p.add("split", quoted(split.name), "its values are %s", split.exampleValues())
	}
	// What has no meaning now is listed for the user, with the reason.
	for _, c := range free {
		isPredicted := c.name == p.Table.Label || slices.Contains(p.Table.Target, c.name)
		isInput := c.isFeature || c.name == p.Table.Text
		if !isPredicted && !isInput {
			p.unused = append(p.unused, shown(c.name)+" ("+c.reasonUnused()+")")
		}
	}
	p.guessMissing(columns)
	return nil
}

// add notes that an option has this value, as YAML, and why. format and args make the text of the
// reason as fmt.Sprintf does.
func (p *Proposal) add(option, value, format string, args ...any) {
	p.reasons = append(p.reasons, reason{option, value, fmt.Sprintf(format, args...)})
}

// addClient enters the column of the clients, with grounds, what speaks for and against it. Without such a column
// (nil) the files are the clients if their names say so. Otherwise nothing is entered, and the user is told which
// of the columns without a meaning, free, could be that of the clients.
func (p *Proposal) addClient(client *profile, grounds string, free []*profile) {
	switch {
	case client != nil:
		p.Table.Client = client.name
		p.add(
			"client",
			quoted(client.name),
			"%s different values (%s)%s",
			distinctCount(client),
			client.exampleValues(),
			grounds,
		)
		return
	case p.fileClients != nil:
		p.Table.Client = fileClient
		p.add(
			"client",
			fileClient,
			"each file is a client's, by their names: %s",
			federated.ShortList(names.Of(p.fileClients, shown)),
		)
		return
	}
	// Words with eight values or more may be the names of clients.
	var perhaps []string
	for _, c := range free {
		if c.areWords() && c.mayBeClasses(maxDistinct) && len(c.distinct) >= 8 {
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

// findLabel chooses the column to predict from the columns without a meaning, free. last is the
// last column of the table, where labels often stand. It returns the column and, in grounds, what
// spoke for it; nil if no column looks like a label. What is certain is tried first: the metadata
// of the file, then the name, then the position, then names that labels sometimes have, and last any
// column of few words.
func findLabel(free []*profile, last *profile) (label *profile, grounds string) {
	// find takes the first column that fits, unless an earlier ground has found one.
	find := func(reason string, fits func(c *profile) bool) {
		if i := slices.IndexFunc(free, fits); label == nil && i >= 0 {
			label = free[i]
			grounds = reason
		}
	}
	// lastHasClasses says that the last column has classes in words. Words that name clients or parts are none.
	lastHasClasses := slices.Contains(free, last) && last.areWords() && last.mayBeClasses(maxDistinct)
	byName := func(words []string) {
		for _, word := range words {
			// Beside a last column of classes, y is rather a coordinate, as in x and y.
			if word == "y" && lastHasClasses {
				continue
			}
			find("its name", func(c *profile) bool {
				canBeLearned := c.mayBeClasses(maxDistinct) || c.areNumbers()
				return hasWord(c.name, []string{word}) && c.instants() == "" && canBeLearned
			})
		}
	}
	find("its metadata", func(c *profile) bool { return c.metadataClasses != nil && !c.hasLists })
	byName(labelWords)
	find("the last column", func(c *profile) bool {
		areClasses := c.mayBeClasses(fewClasses) || c.areWords() && c.mayBeClasses(maxDistinct)
		return c == last && c.instants() == "" && areClasses
	})
	find("the last column", func(c *profile) bool {
		areTargets := c.areNumbers() && !c.isRowNumber() && c.instants() == ""
		return c == last && areTargets
	})
	byName(maybeLabel)
	// As the last resort, words of at most 100 kinds may be classes.
	for _, c := range slices.Backward(free) {
		if label == nil && c.areWords() && c.mayBeClasses(100) {
			label = c
			grounds = "the last column of few words"
		}
	}
	return label, grounds
}

// addLabel enters label, the column to predict, as a label if it has classes, or as a target if it
// has numbers. grounds says what spoke for this column. A nil label means that none was found; then
// a text predicts its next token, or the user has to name a column.
func (p *Proposal) addLabel(label *profile, grounds string) {
	isLabel := label != nil && label.isLabel()
	switch {
	case label != nil && label.metadataClasses != nil:
		p.Table.Label = label.name
		p.add(
			"label",
			quoted(label.name),
			"%d classes that the file's metadata names (%s); %s",
			len(label.metadataClasses),
			federated.ShortList(names.Of(label.metadataClasses, shown)),
			grounds,
		)
	case !isLabel && p.Table.Text != "":
		p.add("label", "null", "none: a model learns the next token")
	case label == nil:
		p.add("label", "null", "no column looks like classes: name one, or target: a column of numbers")
	case isLabel:
		p.Table.Label = label.name
		kind := "words"
		if !label.areWords() {
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
		// Classes with gaps between their numbers are listed, so that no output of the model stays
		// unused.
		hasGaps := !label.areWords() && label.lowest >= 0 && label.highest >= float64(len(label.distinct))
		if hasGaps && p.All {
			p.Table.Classes = label.inOrder()
			p.add("classes", listed(p.Table.Classes), "else all numbers from 0 to %.0f are classes", label.highest)
		}
	default:
		p.Table.Target = []string{label.name}
		p.add(
			"target",
			quoted(label.name),
			"numbers from %.4g to %.4g, so this is a regression; %s",
			label.lowest,
			label.highest,
			grounds,
		)
		// Large targets make large gradients, as large features do.
		if label.highest > 10 || label.lowest < -10 {
			p.Table.TargetScale = scaleStandard
			p.add(targetScale, scaleStandard, "a model learns deviations from the mean; errors keep the table's unit")
		}
	}
}

// fewClasses is how many whole numbers are taken for classes whatever the name of their column.
const fewClasses = 20

// targetScale is the option that scales targets.
const targetScale = "target_scale"

// textWindow is the window that is proposed for a text: that of LEAF's Shakespeare task.
const textWindow = 80

// windowReason says what the window of a labelled text is.
const windowReason = "tokens of a sample; with a label, the rest of a text is not read"

// ScaleTargets proposes that targets, if there are any, are scaled, whatever values they reach.
func (p *Proposal) ScaleTargets() {
	if p.Table.Target != nil {
		p.Table.TargetScale = scaleStandard
	}
}

// KeepTargets proposes that targets stay as they are: a trainer reports errors in the unit of what it is
// given.
func (p *Proposal) KeepTargets() {
	p.Table.TargetScale = ""
	p.reasons = slices.DeleteFunc(p.reasons, func(r reason) bool { return r.option == targetScale })
}

// isLabel reports whether a column to predict has classes rather than numbers. Negative numbers are classes
// only if there are two of them, such as -1 and 1. Many whole numbers are rather counts, unless their name is
// that of classes.
func (p *profile) isLabel() bool {
	if !p.mayBeClasses(maxDistinct) {
		return false
	}
	isCalledClass := hasWord(p.name, slices.Concat(classWords, maybeLabel))
	areClassNumbers := p.lowest >= 0 && (len(p.distinct) <= fewClasses || isCalledClass)
	return p.areWords() || len(p.distinct) == 2 || areClassNumbers
}

// guessFeatures chooses the inputs of the model from the columns without a meaning, free. The first
// column of lists, bytes or images is the only input; otherwise a column of sentences is the text.
// Else all columns of numbers are features, and columns of few words become one feature for each
// word.
func (p *Proposal) guessFeatures(free []*profile) {
	for _, c := range free {
		if c.unusable == "" && (c.hasLists || c.bytes > 0) {
			p.takeWhole(c)
			return
		}
	}
	// numeric are the columns of numbers, wordy those of few words, and text is the first of long texts.
	var numeric, wordy []*profile
	var text *profile
	for _, c := range free {
		// A column of few words may become features of 0 and 1.
		if c.mayBeFeatures() {
			wordy = append(wordy, c)
		}
		if text == nil && c.areLongTexts() {
			text = c
		}
		// Constant columns and row numbers teach a model nothing, and an instant does not come back.
		isConstant := len(c.distinct) <= 1 && !c.manyDistinct
		if c.areNumbers() && !isConstant && !c.isRowNumber() && c.instants() == "" {
			numeric = append(numeric, c)
		}
	}
	// A text beside several numbers is rather a remark than the input.
	isOnlyText := len(numeric)+len(wordy) == 0
	if text != nil && len(numeric) < 2 && (isOnlyText || text.areSentences()) {
		p.takeText(text)
		return
	}
	if len(numeric)+len(wordy) == 0 {
		p.add("features", "null", "no column has numbers, lists, images, few words or long texts: name the inputs")
	}
	if len(numeric) > 0 {
		p.takeNumbers(numeric, free)
	}
	// Words do not go with images.
	if len(wordy) > 0 && p.Table.Shape == nil && p.Table.Scale != scalePixels {
		p.takeWords(wordy)
	}
}

// areLongTexts reports whether the column has texts that may be the model's input: they are long or of many
// kinds, or are sentences, and none is a date.
func (p *profile) areLongTexts() bool {
	areTexts := p.unusable == "" && p.dates == 0 && p.texts > 0
	areLong := p.textBytes >= 20*p.texts
	return areTexts && (areLong || p.manyDistinct || p.areSentences())
}

// takeWhole proposes the column c of lists, bytes or images as the only input.
func (p *Proposal) takeWhole(c *profile) {
	p.Table.Features = []string{c.name}
	c.isFeature = true
	kind := "lists of numbers"
	if c.bytes > 0 {
		kind = "bytes, each a number from 0 to 1"
	}
	if c.images > 0 {
		kind = "images"
	}
	p.add("features", quoted(c.name), "%s", kind)
	p.guessShape(c)
}

// takeText proposes the column text as the only input, by its words or by its first tokens.
func (p *Proposal) takeText(text *profile) {
	p.Table.Text = text.name
	mean := text.textBytes / text.texts
	// Sentences of a class are told apart by their words.
	if p.hasClasses && text.areSentences() {
		p.Table.Tokens = wordTokens
		p.add("text", quoted(text.name), "sentences of %d bytes on average", mean)
		p.add("tokens", wordTokens, "a model reads which words a text has and how often, not their order")
		return
	}
	p.Table.Window = textWindow
	reason := "tokens of a sample"
	if mean > textWindow {
		reason = windowReason
	}
	p.add("text", quoted(text.name), "texts of %d bytes on average", mean)
	p.add("window", fmt.Sprint(textWindow), "%s", reason)
}

// takeNumbers proposes the columns of numbers, numeric, as features. free has all columns whose meaning is not known
// yet, those of numeric included. The proposal lists the columns by their names, by a pattern such as x* if they are
// numbered, or by "*" if they are all of free.
func (p *Proposal) takeNumbers(numeric, free []*profile) {
	for _, c := range numeric {
		p.Table.Features = append(p.Table.Features, c.name)
	}
	// shorten may have put a pattern in the place of the names, which matches further columns of free.
	if p.shorten(free) {
		pattern := p.Table.Features[0]
		numeric = slices.DeleteFunc(
			slices.Clone(free),
			func(c *profile) bool { return !matches(pattern, c.name) && !slices.Contains(numeric, c) },
		)
	} else if len(numeric) == len(free) && len(numeric) > manyNames {
		p.Table.Features = []string{"*"}
	}
	for _, c := range numeric {
		c.isFeature = true
	}
	kind := "a column"
	if len(numeric) > 1 {
		kind = fmt.Sprint(len(numeric), " columns")
	}
	p.add("features", listed(p.Table.Features), "%s of numbers", kind)
	p.guessScale(numeric)
}

// takeWords proposes the columns few, which have few different words, as features: one for each word.
func (p *Proposal) takeWords(few []*profile) {
	n := 0
	for _, c := range few {
		p.Table.Words = append(p.Table.Words, c.name)
		c.isFeature = true
		n += len(c.distinct)
	}
	p.add("words", listed(p.Table.Words), "each of %d words becomes a feature of 0 or 1", n)
}

// guessShape proposes the shape of the images in column c if its lists are nested three deep. The
// level with 1 or 3 values is that of the channels: the innermost, as in NumPy and most libraries
// of Python, or the outermost. Other lists get no shape.
func (p *Proposal) guessShape(c *profile) {
	if len(c.lengths) != 3 {
		return
	}
	first := c.lengths[0]
	middle := c.lengths[1]
	last := c.lengths[2]
	grounds := fmt.Sprintf("the lists of the first row have %d, %d and %d values", first, middle, last)
	switch {
	// One or three innermost values are the colours of a pixel.
	case last == 1 || last == 3:
		p.Table.Shape = []int{last, first, middle}
		p.Table.Channels = channelsLast
		p.add("shape", fmt.Sprintf("[%d, %d, %d]", last, first, middle), "%s", grounds)
		p.add("channels", channelsLast, "the innermost lists are the colours of a pixel")
	// One or three outermost lists are the planes of colour, which is the standard order.
	case first == 1 || first == 3:
		p.Table.Shape = slices.Clone(c.lengths)
		p.add("shape", fmt.Sprintf("[%d, %d, %d]", first, middle, last), "%s", grounds)
	}
}

// manyNames is the number of features above which the proposal writes * in place of their names.
const manyNames = 100

// numbered is a name that ends with a number.
var numbered = regexp.MustCompile(`^(.*?)[0-9]+$`)

// shorten replaces eight or more features with numbered names, x1, x2 and so on, by one pattern
// such as x*. It reports false and changes nothing if the pattern would match a column of columns
// that is no number or belongs to another stem.
func (p *Proposal) shorten(columns []*profile) bool {
	const minShortened = 8
	first := numbered.FindStringSubmatch(p.Table.Features[0])
	if first == nil || len(p.Table.Features) < minShortened {
		return false
	}
	// A stem with characters that mean something in a pattern would match other columns.
	stem := first[1]
	if stem == "" || strings.ContainsAny(stem, `*?[\`) {
		return false
	}
	sameStem := func(name string) bool {
		found := numbered.FindStringSubmatch(name)
		return found != nil && found[1] == stem
	}
	// Features with another stem stay behind the pattern.
	others := slices.DeleteFunc(slices.Clone(p.Table.Features), sameStem)
	for _, c := range columns {
		matchesOther := slices.Contains(others, c.name) || !c.areNumbers()
		if strings.HasPrefix(c.name, stem) && matchesOther {
			return false
		}
	}
	p.Table.Features = append([]string{stem + "*"}, others...)
	return true
}

// listed returns texts as a list in YAML, such as [a, b], quoted where YAML needs it.
func listed(texts []string) string {
	return "[" + strings.Join(names.Of(texts, quoted), ", ") + "]"
}

// guessScale proposes a scale for the columns of numbers, numeric. Many whole numbers from 0 to 255
// are pixels, which become 0 to 1, and an image if their number is a square. Otherwise numbers
// beyond -10 to 10 are standardised.
func (p *Proposal) guessScale(numeric []*profile) {
	lowest := math.Inf(1)
	highest := math.Inf(-1)
	allWhole := true
	for _, c := range numeric {
		lowest = min(lowest, c.lowest)
		highest = max(highest, c.highest)
		allWhole = allWhole && c.wholeNumbers == c.numbers
	}
	// side would be the width and height of a square image.
	side := int(math.Sqrt(float64(len(numeric))))
	areBytes := allWhole && lowest >= 0 && highest > 1 && highest <= 255
	switch {
	case areBytes && len(numeric) >= 64:
		p.Table.Scale = scalePixels
		p.add("scale", scalePixels, "all are whole numbers from 0 to 255")
		if side*side == len(numeric) {
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

// guessMissing proposes what happens to missing values. A feature that mostly has a value gets the
// mean of the training rows. If a label, client or split lacks one, or a feature lacks one in half
// of the rows, such rows are left out.
func (p *Proposal) guessMissing(columns []*profile) {
	var lacks *profile
	for _, c := range columns {
		// Columns without a meaning may lack what they like.
		others := append(slices.Clip(p.Table.Target), p.Table.Label, p.Table.Client, p.Table.Split)
		hasMeaning := c.isFeature || slices.Contains(others, c.name)
		lacksSome := c.missing > 0 && c.missing < c.rows
		if !hasMeaning || !lacksSome {
			continue
		}
		// Bytes and pixels are whole numbers, which a mean is not.
		hasMean := c.isFeature && c.bytes == 0 && p.Table.Scale != scalePixels
		// One column that needs rows left out decides for all.
		if !hasMean || c.missing >= c.rows/2 {
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

// guessDecimal proposes decimal commas where points separate thousands, unless another column has
// decimal points. It warns of columns of numbers whose points may be either sign.
func (p *Proposal) guessDecimal(columns []*profile, found decimals) {
	if found.thousands != nil && !found.hasCertainPoint {
		p.Table.Decimal = decimalComma
		examples := names.Of(found.thousands, exampleOfThousands)
		p.add("decimal", decimalComma, "points separate thousands, as in %s", federated.ShortList(examples))
	}
	found.keepDoubts(func(name string) bool {
		isUsed := slices.ContainsFunc(columns, func(c *profile) bool { return c.name == name && c.isFeature })
		return isUsed || slices.Contains(p.Table.Target, name)
	})
	p.Doubt = found.doubt()
	if p.Doubt != "" {
		p.add("decimal", "null", "WARNING: %s", p.Doubt)
	}
}

// plainWord matches a text that YAML reads as the same text without quotes.
var plainWord = regexp.MustCompile(`^[A-Za-z_/][A-Za-z0-9_./ -]*$`)

// quoted returns the text s as a value in YAML: as it is if YAML reads it as that text, else in
// double quotes. Words such as yes and null need quotes.
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

// YAML returns the section data of a configuration with the proposed mapping. Each line has the
// reason of its option as a comment. path is the path of the table.
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

// Answer returns a line that says which column is predicted, as a label or target, and why. It is
// "" if nothing is predicted but the next token of a text.
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
