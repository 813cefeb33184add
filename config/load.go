package config

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"fedpace/actors/fleet"
	"fedpace/config/tree"
	"fedpace/internal/regular"
	"fedpace/registry"
)

// MaxFile is the largest size of a configuration file, in bytes. The time of the YAML parser grows
// with the square of the number of keys.
const MaxFile = 128 << 10

// maxFiles is how many configuration files one command may combine.
const maxFiles = 16

// Load reads the configuration of one file, changed by sets of the form "key=value"; see
// [LoadFiles]. An empty path is no file: the sets then change the demonstration.
func Load(path string, sets []string) (Config, error) {
	if path == "" {
		return LoadFiles(nil, sets)
	}
	return LoadFiles([]string{path}, sets)
}

// LoadFiles reads a configuration. It starts from a base, which the files change in their order and
// the sets after them. A set is "key=value" with the value in YAML's flow syntax. A list of a later
// file replaces that of an earlier one; a group of keys is merged with it.
//
// The base is [Demonstration]. Where a file or a set names a task, it is the [Defaults] of that
// task. Setting any key of stop clears the whole stop of the base. Four values follow from others
// unless they are set themselves: out is runs/<name>, clients is all once data is a path, cohort is
// fit once clients is 0, and network.model_megabits is exact once the model is not the task's (a
// trainer's is not).
//
// The result is valid. An error names the key, and the line where there is one.
func LoadFiles(paths, sets []string) (Config, error) {
	if len(paths) > maxFiles {
		return Config{}, fmt.Errorf("configuration: %d files (at most %d)", len(paths), maxFiles)
	}
	var files []source
	// All files are read before any is parsed, so that a missing one is found first.
	for _, path := range paths {
		text, err := readFile(path)
		if err != nil {
			return Config{}, err
		}
		files = append(files, source{path, text})
	}
	return resolve(files, sets)
}

// source is the text of a configuration file, with the name by which messages call the file.
type source struct {
	name string
	text []byte
}

// readFile returns the text of a configuration file. It reads at most one byte more than MaxFile,
// by which the caller notices that a file is too large. Pipes are refused, since they could wait
// for ever, unless the user names one below /dev.
func readFile(path string) ([]byte, error) {
	// A data set in place of a configuration is a common mistake, for which a command helps.
	switch filepath.Ext(path) {
	case ".csv", ".tsv", ".parquet":
		return nil, fmt.Errorf("configuration: %[1]s is data; fedpace init %[1]s writes a configuration for it", path)
	}
	open := os.Open
	// In --config /dev/stdin the pipe is the user's own; any other file must be a regular one.
	if !strings.HasPrefix(path, "/dev/") {
		open = func(path string) (*os.File, error) { return regular.OpenFile(path, os.O_RDONLY, 0) }
	}
	f, err := open(path)
	if err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	// The file is only read, so an error on closing loses nothing.
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, MaxFile+1))
	if err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	return text, nil
}

// LoadData returns the value of the key data in a configuration file. The other keys are not
// checked, so the file may be unfinished. An error is returned if the key is not set.
func LoadData(path string) (d Data, err error) {
	text, err := readFile(path)
	if err != nil {
		return d, err
	}
	root, err := parseFile(path, text)
	if err != nil {
		return d, err
	}
	// A file without data has nothing to tell here, whatever else it holds.
	n := root.Fields["data"]
	if n == nil {
		return d, &KeyError{Place: path, Key: "data", Problem: "is not set"}
	}
	return d, readInto(&d, n, "data")
}

// Parse reads a configuration from the text of one file, changed by sets as in [LoadFiles]. name is
// what messages call the file. No file is opened.
func Parse(name string, text []byte, sets ...string) (Config, error) {
	return resolve([]source{{name, text}}, sets)
}

// resolve makes the configuration of files and sets: it chooses the base, applies each source in
// its order, derives the values that follow from others, and validates the result.
func resolve(files []source, sets []string) (Config, error) {
	sources, err := parseSources(files, sets)
	if err != nil {
		return Config{}, err
	}
	// A later source overwrites the places of an earlier one, as its values do.
	given := places{}
	for _, n := range sources {
		n.Places(given, "")
	}
	c, err := baseOf(sources)
	if err != nil {
		return Config{}, given.locate(err)
	}
	// An end that the user sets takes the place of the task's own, rather than stand beside it.
	for path := range given {
		if strings.HasPrefix(path, "stop.") {
			c.Stop = Stop{}
		}
	}
	// All sources share one reader: a later source may set what an earlier one left out.
	var r reader
	for _, n := range sources {
		if err := r.readOptions(nil, reflect.ValueOf(&c).Elem(), n, ""); err != nil {
			return Config{}, err
		}
	}
	c.derive(given)
	// Only now can no source set an option any more that is required.
	if len(r.missing) > 0 {
		return Config{}, given.locate(r.missing[0])
	}
	// The message is about the number of clients, which the user chose, and not about the cohort,
	// which the task did.
	choseClientsAlone := given.has("clients") && !given.has("cohort")
	// drawnFrom is 0 while the number is not known.
	isTooFew := c.drawnFrom() > 0 && c.Cohort > c.drawnFrom()
	if choseClientsAlone && isTooFew {
		return Config{}, given.locate(problem(
			"clients",
			nil,
			"%d are fewer than the cohort, %d (set cohort, too)",
			c.Clients,
			c.Cohort,
		))
	}
	if err := c.Validate(); err != nil {
		return Config{}, given.locate(err)
	}
	return c, nil
}

// parseSources parses the files and then the sets, which change what the files say, into one tree each,
// in the order in which they apply.
func parseSources(files []source, sets []string) ([]*tree.Node, error) {
	var sources []*tree.Node
	for _, f := range files {
		n, err := parseFile(f.name, f.text)
		if err != nil {
			return nil, err
		}
		sources = append(sources, n)
	}
	for _, s := range orderSets(sets) {
		n, err := parseAssignment(s)
		if err != nil {
			return nil, err
		}
		sources = append(sources, n)
	}
	return sources, nil
}

// baseOf returns the configuration that the sources change: the defaults of the task that the last of
// them names, or the demonstration where none names one. The task must be known before anything else is
// applied, because it decides the base.
func baseOf(sources []*tree.Node) (Config, error) {
	c := Demonstration()
	for _, source := range sources {
		n := source.Fields["task"]
		if n == nil {
			continue
		}
		task := &tree.Node{Kind: tree.Map}
		task.Set("task", n)
		if err := new(reader).readOptions(nil, reflect.ValueOf(&c).Elem(), task, ""); err != nil {
			return Config{}, err
		}
		var err error
		c, err = Defaults(c.Task)
		if err != nil {
			return Config{}, err
		}
	}
	return c, nil
}

// places holds where each key is set, as file and line, by the key's path.
type places map[string]string

// has reports whether some source sets the key at a path.
func (p places) has(path string) bool {
	_, ok := p[path]
	return ok
}

// locate adds to an error the place of its key, or of the first key related to it that some source
// sets. Errors that have a place, or no key, stay as they are.
func (p places) locate(err error) error {
	var k *KeyError
	if !errors.As(err, &k) || k.Place != "" {
		return err
	}
	for _, name := range append([]string{k.Key}, k.RelatedKeys...) {
		k.Place = tree.PlaceOf(p, name)
		if k.Place != "" {
			break
		}
	}
	return err
}

// derive sets the values that follow from others where no source has given them.
func (c *Config) derive(given places) {
	if !given.has("out") {
		c.Out = OutFolder(c.Name)
	}
	// Data that is read has clients of its own, and all of them take part.
	if !given.has("clients") && !c.IsSynthetic() {
		c.Clients = AllClients
	}
	if c.DevicesAlone() && !given.has("cohort") {
		c.Cohort = 0
	}
	// Real devices measure their own transfers. The paper's speeds then only foretell the times of
	// a device without a class.
	if c.DevicesAlone() && c.Devices.Link != ModelledLink {
		c.Network.DownloadMbps = cmp.Or(c.Network.DownloadMbps, paperDownload)
		c.Network.UploadMbps = cmp.Or(c.Network.UploadMbps, paperUpload)
	}
	// Link traces replace the speeds, so none need be given beside them.
	if c.Network.Links.File != "" {
		c.Network.DownloadMbps = cmp.Or(c.Network.DownloadMbps, paperDownload)
		c.Network.UploadMbps = cmp.Or(c.Network.UploadMbps, paperUpload)
	}
	// So do those of a fleet whose classes all have their own, unless a device without a class is modelled.
	if len(c.Fleet) > 0 && c.Devices.Link != ModelledLink {
		lacksDownload := func(k fleet.Class) bool { return k.DownloadMbps == nil && k.Links.File == "" }
		lacksUpload := func(k fleet.Class) bool { return k.UploadMbps == nil && k.Links.File == "" }
		if !slices.ContainsFunc(c.Fleet, lacksDownload) {
			c.Network.DownloadMbps = cmp.Or(c.Network.DownloadMbps, paperDownload)
		}
		if !slices.ContainsFunc(c.Fleet, lacksUpload) {
			c.Network.UploadMbps = cmp.Or(c.Network.UploadMbps, paperUpload)
		}
	}
	// Clients of made data are alike, so the sizes that follow from them need no data.
	if c.IsSynthetic() {
		c.Fit(nil)
	}
	// The task's size is that of its own whole model, and no other.
	if !given.has("network.model_megabits") && (!c.UsesTaskModel() || c.Personal.Names != nil) {
		c.Network.ModelMegabits = 0
	}
}

// parseFile parses the YAML text of a file into a tree of what it sets. name is what messages call
// the file. Texts of more than MaxFile bytes are refused.
func parseFile(name string, text []byte) (*tree.Node, error) {
	if len(text) > MaxFile {
		return nil, fmt.Errorf("configuration: %s is larger than %d bytes", name, MaxFile)
	}
	return tree.Parse(name, text)
}

// orderSets returns the sets of a command line ("key=value") in the order in which they can be applied. The
// first set that chooses an entry, such as close=first, goes before those of its options, such as close.n=3,
// wherever the user has put it, because choosing an entry gives all its options their defaults. Otherwise
// the order stays.
func orderSets(sets []string) (list []string) {
	named := map[string]bool{}
	for _, s := range sets {
		key, _, _ := strings.Cut(s, "=")
		// position is where the set goes: before the first set of an option of the entry that it names, or last.
		position := -1
		for _, k := range KnownKeys() {
			// A key with a plug point chooses an entry. One that is itself an option of an entry (Entries)
			// keeps its place among the options.
			isChoice := k.Point != nil && k.Entries == nil
			// choice is the path below which the options of the chosen entry stand.
			choice := k.optionsPath()
			namesEntry := choice == key || k.HasName(key)
			// Only the first naming of each choice moves; a later one overrides it in its own
			// place.
			if !isChoice || !namesEntry || named[choice] {
				continue
			}
			named[choice] = true
			position = slices.IndexFunc(list, func(before string) bool { return strings.HasPrefix(before, choice+".") })
		}
		if position < 0 {
			position = len(list)
		}
		list = slices.Insert(list, position, s)
	}
	return list
}

// parseAssignment parses a set, KEY=VALUE, into a tree with this one key. A value is YAML, except that a
// key which takes any text takes it as it stands. Too long values, and sets without a key, are
// refused.
func parseAssignment(s string) (*tree.Node, error) {
	path, value, ok := strings.Cut(s, "=")
	path = strings.TrimSpace(path)
	if !ok || path == "" {
		return nil, fmt.Errorf("--set %q: want key=value, e.g. schedule.k=error", s)
	}
	if len(value) > registry.MaxText {
		return nil, &KeyError{
			Place:   tree.SetFlag,
			Key:     path,
			Problem: fmt.Sprintf("a value of %d bytes is too long (at most %d)", len(value), registry.MaxText),
		}
	}
	// The tree has the same form as that of a file, so both are applied alike.
	root := &tree.Node{Kind: tree.Map}
	n := &tree.Node{
		Place:  tree.SetFlag,
		Kind:   tree.Scalar,
		Text:   value,
		IsText: true,
	}
	// Text stands as it is, so that paths and addresses need no YAML quotes. It is YAML only where
	// it begins like quoted text or a map, or is null.
	looksLikeYAML := value == "null" || value != "" && strings.ContainsAny(value[:1], `"'{`)
	if looksLikeYAML || !takesFreeText(path) {
		var err error
		n, err = tree.Value(tree.SetFlag+" "+path, tree.SetFlag, []byte(value))
		if err != nil {
			return nil, err
		}
	}
	return root, root.Insert("", path, n)
}

// takesFreeText reports whether the key at a path holds text that is not limited to given words, by
// itself or as the scalar in place of its map.
func takesFreeText(path string) bool {
	isText := func(o registry.Option) bool { return o.Type.Kind() == reflect.String && o.Words == nil }
	for _, k := range KnownKeys() {
		if k.Name != path {
			continue
		}
		hasTextForm := k.Type.Kind() == reflect.Struct && slices.ContainsFunc(registry.Short(k.Type), isText)
		if isText(k.Option) || hasTextForm {
			return true
		}
	}
	return false
}

// structsOf lists the structs whose options a value of type t may have: the struct itself, or those
// of all entries of a choice. For pointers and lists they are those of the type below. Other types
// have none.
func structsOf(t reflect.Type) (list []reflect.Type) {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice:
		return structsOf(t.Elem())
	case reflect.Struct:
		return []reflect.Type{t}
	// Any entry of the plug point may be chosen.
	case reflect.Interface:
		for _, e := range registry.For(t).Entries {
			list = append(list, e.Type())
		}
	}
	return list
}
