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

	"fedpace/config/tree"
	"fedpace/internal/regular"
	"fedpace/registry"
)

// MaxFile bounds a configuration file, in bytes: the parser's time grows with
// the square of the number of keys.
const MaxFile = 128 << 10

const maxFiles = 16

// Load is [LoadFiles] of one file, or of none where the path is empty.
func Load(path string, sets []string) (Config, error) {
	if path == "" {
		return LoadFiles(nil, sets)
	}
	return LoadFiles([]string{path}, sets)
}

// LoadFiles reads a configuration: a base, changed by one file after the other, changed by
// the sets, each of which is "key=value" with the value in YAML's flow syntax. A list
// of a later file stands in the place of an earlier one's.
//
// The base is [Demonstration]; where a file or a set names a task, it is that
// task's [Defaults]. Setting any stop key clears the base's stop. Four values
// follow from others unless they are set themselves: out is runs/<name>,
// clients is all once data is a path, cohort is fit once clients is 0, and
// network.model_megabits is exact once the model is not the task's (a trainer's is not).
//
// The result is valid. An error names the key, and the line where there is one.
func LoadFiles(paths, sets []string) (Config, error) {
	if len(paths) > maxFiles {
		return Config{}, fmt.Errorf("configuration: %d files (at most %d)", len(paths), maxFiles)
	}
	var files []source
	for _, path := range paths {
		text, err := readFile(path)
		if err != nil {
			return Config{}, err
		}
		files = append(files, source{path, text})
	}
	return resolve(files, sets)
}

// source is the text of a file; name is how messages call it.
type source struct {
	name string
	text []byte
}

// readFile reads a configuration of at most MaxFile bytes; one byte more is read so that a
// longer file is noticed. A pipe is refused unless the user gave it as /dev/...
func readFile(path string) ([]byte, error) {
	switch filepath.Ext(path) {
	case ".csv", ".tsv", ".parquet":
		return nil, fmt.Errorf("configuration: %[1]s is data; fedpace init %[1]s writes a configuration for it", path)
	}
	open := os.Open
	if !strings.HasPrefix(path, "/dev/") { // as in --config /dev/stdin: the user's own pipe
		open = func(path string) (*os.File, error) { return regular.OpenFile(path, os.O_RDONLY, 0) }
	}
	f, err := open(path)
	if err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	defer f.Close() // read only
	text, err := io.ReadAll(io.LimitReader(f, MaxFile+1))
	if err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	return text, nil
}

// LoadData reads the key data of a configuration file, whatever the others hold.
func LoadData(path string) (d Data, err error) {
	text, err := readFile(path)
	if err != nil {
		return d, err
	}
	root, err := parseFile(path, text)
	if err != nil {
		return d, err
	}
	n := root.Fields["data"]
	if n == nil {
		return d, &KeyError{Place: path, Key: "data", Problem: "is not set"}
	}
	return d, set(&d, n, "data")
}

// Parse reads a configuration from the text of a file, changed by the sets; name is how
// messages call it.
func Parse(name string, text []byte, sets ...string) (Config, error) {
	return resolve([]source{{name, text}}, sets)
}

// resolve applies files and sets to the base that they choose.
func resolve(files []source, sets []string) (Config, error) {
	var all []*tree.Node
	for _, f := range files {
		n, err := parseFile(f.name, f.text)
		if err != nil {
			return Config{}, err
		}
		all = append(all, n)
	}
	for _, s := range inOrder(sets) {
		n, err := parseSet(s)
		if err != nil {
			return Config{}, err
		}
		all = append(all, n)
	}
	places := map[string]string{}
	for _, n := range all {
		n.Places(places, "")
	}
	given := func(path string) bool {
		_, ok := places[path]
		return ok
	}
	place := func(err error) error {
		var k *KeyError
		if errors.As(err, &k) && k.Place == "" {
			for _, name := range append([]string{k.Key}, k.RelatedKeys...) {
				k.Place = tree.PlaceOf(places, name)
				if k.Place != "" {
					break
				}
			}
		}
		return err
	}

	c := Demonstration()
	for _, source := range all {
		n := source.Fields["task"]
		if n == nil {
			continue
		}
		task := &tree.Node{Kind: tree.Map}
		task.Set("task", n)
		if err := new(reader).options(nil, reflect.ValueOf(&c).Elem(), task, ""); err != nil {
			return Config{}, err
		}
		var err error
		if c, err = Defaults(c.Task); err != nil {
			return Config{}, place(err)
		}
	}
	for path := range places {
		if strings.HasPrefix(path, "stop.") {
			c.Stop = Stop{}
		}
	}
	var r reader
	for _, source := range all {
		if err := r.options(nil, reflect.ValueOf(&c).Elem(), source, ""); err != nil {
			return Config{}, err
		}
	}
	if !given("out") {
		c.Out = OutFolder(c.Name)
	}
	if !given("clients") && !c.IsSynthetic() {
		c.Clients = AllClients
	}
	if c.DevicesAlone() && !given("cohort") {
		c.Cohort = 0
	}
	// they measure theirs; the paper's only foretell a device without a class
	if c.DevicesAlone() && c.Devices.Link != ModelledLink {
		c.Network.DownloadMbps = cmp.Or(c.Network.DownloadMbps, paperDownload)
		c.Network.UploadMbps = cmp.Or(c.Network.UploadMbps, paperUpload)
	}
	// Link traces replace the speeds: none need be given beside them.
	if c.Network.Links.File != "" {
		c.Network.DownloadMbps = cmp.Or(c.Network.DownloadMbps, paperDownload)
		c.Network.UploadMbps = cmp.Or(c.Network.UploadMbps, paperUpload)
	}
	if c.IsSynthetic() { // all clients are alike
		c.Fit(nil)
	}
	if !given("network.model_megabits") && (!c.UsesTaskModel() || c.Personal.Names != nil) {
		c.Network.ModelMegabits = 0
	}
	if len(r.missing) > 0 {
		return Config{}, place(r.missing[0])
	}
	if given("clients") &&
		!given("cohort") &&
		c.drawn() > 0 &&
		c.Cohort > c.drawn() {
		return Config{}, place(problem(
			"clients",
			nil,
			"%d are fewer than the cohort, %d (set cohort, too)",
			c.Clients,
			c.Cohort,
		))
	}
	if err := c.Validate(); err != nil {
		return Config{}, place(err)
	}
	return c, nil
}

// parseFile reads what a YAML file sets; name is how messages call it.
func parseFile(name string, text []byte) (*tree.Node, error) {
	if len(text) > MaxFile {
		return nil, fmt.Errorf("configuration: %s is larger than %d bytes", name, MaxFile)
	}
	return tree.Parse(name, text)
}

// inOrder puts the first set that names an entry, as close=first does, before those of its
// options, such as close.n=3.
func inOrder(sets []string) (list []string) {
	named := map[string]bool{}
	for _, s := range sets {
		key, _, _ := strings.Cut(s, "=")
		position := -1
		for _, k := range KnownKeys() {
			if choice := k.optionsPath(); k.Point != nil &&
				k.Entries == nil &&
				(choice == key || k.HasName(key)) &&
				!named[choice] {
				named[choice] = true
				position = slices.IndexFunc(list, func(before string) bool { return strings.HasPrefix(before, choice+".") })
			}
		}
		if position < 0 {
			position = len(list)
		}
		list = slices.Insert(list, position, s)
	}
	return list
}

// parseSet reads KEY=VALUE as a tree with one path. A key that takes text needs no YAML
// quotes.
func parseSet(s string) (*tree.Node, error) {
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
	root := &tree.Node{Kind: tree.Map}
	n := &tree.Node{
		Place:  tree.SetFlag,
		Kind:   tree.Scalar,
		Text:   value,
		IsText: true,
	}
	// Text stands as it is, so that paths and addresses need no YAML quotes.
	if !takesText(path) ||
		value == "null" ||
		value != "" && strings.ContainsAny(value[:1], `"'{`) {
		var err error
		if n, err = tree.Value(tree.SetFlag+" "+path, tree.SetFlag, []byte(value)); err != nil {
			return nil, err
		}
	}
	return root, root.Insert("", path, n)
}

// takesText says whether the key at a path holds text of any kind.
func takesText(path string) bool {
	isText := func(o registry.Option) bool { return o.Type.Kind() == reflect.String && o.Words == nil }
	return slices.ContainsFunc(KnownKeys(), func(k Key) bool {
		return k.Name == path &&
			(isText(k.Option) || k.Type.Kind() == reflect.Struct && slices.ContainsFunc(registry.Short(k.Type), isText))
	})
}

// structsOf lists the structs whose options a value of a type may have: a
// struct, or the entries of a choice.
func structsOf(t reflect.Type) (list []reflect.Type) {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice:
		return structsOf(t.Elem())
	case reflect.Struct:
		return []reflect.Type{t}
	case reflect.Interface:
		for _, e := range registry.For(t).Entries {
			list = append(list, e.Type())
		}
	}
	return list
}
