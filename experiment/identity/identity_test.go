package identity

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"fedpace/config"
	"fedpace/experiment/folder"
	_ "fedpace/internal/testkit/testseed"
	_ "fedpace/metrics/openmetrics" // the output remote_write
	"fedpace/registry"
)

// change is a value of options and the same with one key changed.
type change struct {
	key           string
	inert         bool
	before, after reflect.Value
}

// wrap applies a function to both values of changes, as to put an element into its list.
func wrap(changes []change, into func(reflect.Value) reflect.Value) []change {
	for i := range changes {
		changes[i].before = into(changes[i].before)
		changes[i].after = into(changes[i].after)
	}
	return changes
}

// changesOf lists changes of a value: one at least for each key in it, and in each entry of each choice.
func changesOf(t *testing.T, v reflect.Value, key string, inert bool) (list []change) {
	one := func(after any) {
		list = append(list, change{key, inert, v, reflect.ValueOf(after).Convert(v.Type())})
	}
	switch v.Kind() {
	case reflect.Bool:
		one(!v.Bool())
	case reflect.Int, reflect.Int32, reflect.Int64:
		one(v.Int() + 1)
	case reflect.Uint, reflect.Uint32, reflect.Uint64, reflect.Uint8:
		one(v.Uint() + 1)
	case reflect.Float32, reflect.Float64:
		one(v.Float() + 1)
	case reflect.String:
		one(v.String() + "x")
		one("http://me:secret@host/" + v.String())
	case reflect.Pointer:
		element := reflect.New(v.Type().Elem())
		if v.IsNil() {
			list = append(list, change{key, inert, v, element})
		}
		list = append(list, wrap(changesOf(t, element.Elem(), key, inert), func(e reflect.Value) reflect.Value {
			p := reflect.New(e.Type())
			p.Elem().Set(e)
			return p
		})...)
	case reflect.Slice:
		element := reflect.New(v.Type().Elem()).Elem()
		longer := reflect.Append(reflect.MakeSlice(v.Type(), 0, 1), element)
		list = append(list, change{key, inert, reflect.Zero(v.Type()), longer})
		if element.Kind() == reflect.Interface {
			break // its entries are compared as text, and a nil one has none
		}
		list = append(list, wrap(changesOf(t, element, key+"[0]", inert), func(e reflect.Value) reflect.Value {
			return reflect.Append(reflect.MakeSlice(v.Type(), 0, 1), e)
		})...)
	case reflect.Interface:
		list = entryChanges(t, v, key, inert)
	case reflect.Struct:
		list = optionChanges(t, v, key, inert)
	default:
		t.Fatalf("%s: the test has no change for a %v", key, v.Kind())
	}
	return list
}

// choices are those whose entries are being listed.
var choices = map[reflect.Type]bool{}

// entryChanges lists the changes of a choice: from each entry to none, and of each key of an entry.
func entryChanges(t *testing.T, v reflect.Value, key string, inert bool) (list []change) {
	into := func(e reflect.Value) reflect.Value {
		choice := reflect.New(v.Type()).Elem()
		choice.Set(e)
		return choice
	}
	point := registry.For(v.Type())
	if point == nil {
		t.Fatalf("%s: %v is no choice", key, v.Type())
	}
	if choices[v.Type()] {
		return nil // a choice within itself, such as a mixture of distributions
	}
	choices[v.Type()] = true
	defer delete(choices, v.Type())
	for _, name := range point.Names() {
		value, _, _ := point.Entry(name)
		entry := reflect.New(reflect.TypeOf(value)).Elem()
		entry.Set(reflect.ValueOf(value))
		if v.IsNil() || point.NameOf(v.Interface()) != name {
			list = append(list, change{key + "=" + name, inert, v, into(entry)})
		}
		list = append(list, wrap(changesOf(t, entry, key+"="+name, inert), into)...)
	}
	return list
}

// fromData are fields of models that follow from the data, which count by their digest.
var fromData = map[string]bool{"learn.Linear.Features": true, "learn.Linear.Classes": true}

// optionChanges lists the changes of a struct of options, one of which is changed at a time. An
// exported field without a key would be an input that the identity forgets.
func optionChanges(t *testing.T, v reflect.Value, key string, inert bool) (list []change) {
	for _, f := range reflect.VisibleFields(v.Type()) {
		_, hasKey := f.Tag.Lookup("key")
		if !hasKey && f.IsExported() && !f.Anonymous && !fromData[v.Type().String()+"."+f.Name] {
			t.Errorf("%s: field %v.%s has no key", key, v.Type(), f.Name)
		}
	}
	for _, o := range registry.Options(v.Type()) {
		list = append(list, wrap(
			changesOf(t, v.FieldByIndex(o.Index), key+"."+o.Key, inert || o.Inert),
			func(f reflect.Value) reflect.Value {
				whole := reflect.New(v.Type()).Elem()
				whole.Set(v)
				whole.FieldByIndex(o.Index).Set(f)
				return whole
			},
		)...)
	}
	return list
}

// TestDifference_EveryKey changes each key of the configuration by itself, those of all entries
// of all choices too: each that is not inert changes the identity, and no inert one does.
func TestDifference_EveryKey(t *testing.T) {
	c := config.Demonstration()
	list := changesOf(t, reflect.ValueOf(&c).Elem(), "", false)
	for _, x := range list {
		begun := Identity{Config: x.before.Interface().(config.Config)}
		now := Identity{Config: x.after.Interface().(config.Config)}
		d := begun.Difference(&now)
		if (d == nil) != x.inert {
			t.Errorf("%s (inert: %t): %v", x.key, x.inert, d)
		}
	}
	if len(list) < 300 {
		t.Errorf("only %d changes", len(list))
	}
}

// TestDifference_EveryInput changes what is not in the configuration.
func TestDifference_EveryInput(t *testing.T) {
	begun := Identity{
		Config:  config.Demonstration(),
		Files:   []folder.InputFile{{Key: "network.links", Path: "links.csv", SHA256: "a"}},
		Data:    "a",
		Kernel:  "go",
		Trainer: "",
	}
	for name, x := range map[string]struct {
		change func(*Identity)
		part   registry.Part
	}{
		"a file's content": {func(i *Identity) { i.Files = []folder.InputFile{{Key: "network.links", SHA256: "b"}} }, File},
		"another file":     {func(i *Identity) { i.Files = append(i.Files, folder.InputFile{Key: "init"}) }, File},
		"the data":         {func(i *Identity) { i.Data = "b" }, Data},
		"the trainer":      {func(i *Identity) { i.Trainer = "trainer:t@1@2" }, Trainer},
		"the kernel":       {func(i *Identity) { i.Kernel = "avx" }, Kernel},
	} {
		t.Run(name, func(t *testing.T) {
			now := begun
			x.change(&now)
			d := begun.Difference(&now)
			if d == nil || d.Part != x.part {
				t.Errorf("%v", d)
			}
		})
	}
	fields := reflect.TypeFor[Identity]().NumField()
	if parts := int(Kernel) + 1; fields != parts {
		t.Errorf("an identity has %d fields, and %d parts are compared", fields, parts)
	}
}

// TestCheckSecrets_EveryKey puts a URL with a password into each key of the configuration that
// holds text: none would be written to a folder.
func TestCheckSecrets_EveryKey(t *testing.T) {
	c := config.Demonstration()
	tried := 0
	for _, x := range changesOf(t, reflect.ValueOf(&c).Elem(), "", false) {
		changed := x.after.Interface().(config.Config)
		if !strings.Contains(string(changed.YAML()), "secret@host") {
			continue
		}
		tried++
		err := folder.CheckSecrets(changed)
		if err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", x.key, err)
		}
	}
	if tried < 40 {
		t.Errorf("only %d keys", tried)
	}
}

// pathChanges are the changes of keys that name a file which decides bits.
func pathChanges(t *testing.T) []change {
	c := config.Demonstration()
	return slices.DeleteFunc(changesOf(t, reflect.ValueOf(&c).Elem(), "", false), func(x change) bool {
		named := 0
		_ = walkPaths(x.after, "", func(key, path string) error {
			if key != "data" && !strings.Contains(path, "://") {
				named++
			}
			return nil
		})
		return x.inert || named == 0
	})
}

// TestFiles_CredentialsAreNone has an output with a file of credentials: whoever may push metrics changes
// no result, so that the file neither counts nor has to be there.
func TestFiles_CredentialsAreNone(t *testing.T) {
	const output = "{sink: remote_write, url: http://localhost/, epoch: 2026-01-01T00:00:00Z, " +
		"credentials_file: none/there}"
	c, err := config.LoadFiles(nil, []string{"outputs=[" + output + "]"})
	if err != nil {
		t.Fatal(err)
	}
	files, err := Files(&c)
	if err != nil || len(files) != 0 {
		t.Errorf("%v, %v", files, err)
	}
	other := c
	other.Outputs = nil
	begun := Identity{Config: c}
	if d := begun.Difference(&Identity{Config: other}); d != nil {
		t.Errorf("a run without the output: %v", d)
	}
}

// TestFiles_EveryContent gives each key that names a file a file, and changes its content.
func TestFiles_EveryContent(t *testing.T) {
	t.Chdir(t.TempDir())
	list := pathChanges(t)
	if len(list) < 5 {
		t.Fatalf("only %d keys name a file", len(list))
	}
	rapid.Check(t, func(t *rapid.T) {
		x := rapid.SampledFrom(list).Draw(t, "key")
		c := x.after.Interface().(config.Config)
		path := ""
		_ = walkPaths(x.after, "", func(key, p string) error {
			if key != "data" {
				path = p
			}
			return nil
		})
		digests := func(content []byte) Identity {
			if err := os.WriteFile(filepath.FromSlash(path), content, 0o666); err != nil {
				t.Fatal(err)
			}
			files, err := Files(&c)
			if err != nil {
				t.Fatal(err)
			}
			return Identity{Config: c, Files: files}
		}
		content := rapid.SliceOf(rapid.Byte()).Draw(t, "content")
		other := rapid.SliceOf(rapid.Byte()).Draw(t, "other")
		begun := digests(content)
		again := digests(content)
		if d := begun.Difference(&again); d != nil {
			t.Errorf("%s: unchanged: %v", x.key, d)
		}
		now := digests(other)
		if d := begun.Difference(&now); (d == nil) != slices.Equal(content, other) {
			t.Errorf("%s: %v", x.key, d)
		}
	})
}

// TestFiles_PathsAreTagged looks for keys that name a file by their help and not by their tag:
// their content would not count.
func TestFiles_PathsAreTagged(t *testing.T) {
	named := regexp.MustCompile(`(?i)\b(file of|CSV file|path of|\.safetensors)\b`)
	seen := map[reflect.Type]bool{}
	var look func(typ reflect.Type)
	look = func(typ reflect.Type) {
		if seen[typ] {
			return
		}
		seen[typ] = true
		switch typ.Kind() {
		case reflect.Pointer, reflect.Slice:
			look(typ.Elem())
		case reflect.Interface:
			if point := registry.For(typ); point != nil {
				for _, name := range point.Names() {
					value, _, _ := point.Entry(name)
					look(reflect.TypeOf(value))
				}
			}
		case reflect.Struct:
			for _, o := range registry.Options(typ) {
				if o.Path && o.Type.Kind() != reflect.String {
					t.Errorf("%v: %s is a path and no string", typ, o.Key)
				}
				if o.Type.Kind() == reflect.String && named.MatchString(o.Help) && !o.Path && !o.Inert {
					t.Errorf("%v: %s names a file (%s) and is not tagged as a path", typ, o.Key, o.Help)
				}
				look(o.Type)
			}
		}
	}
	look(reflect.TypeFor[config.Config]())
	if len(seen) < 30 {
		t.Error(fmt.Sprint("only ", len(seen), " types of options"))
	}
}

// The code of a Flower app counts, file by file and by its place in the app, wherever the app lies.
func TestFiles_App(t *testing.T) {
	files := func(dir string) (list []string) {
		c := config.Demonstration()
		c.Flower.App = dir
		found, err := Files(&c)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range found {
			list = append(list, f.Path+" "+f.SHA256[:8])
		}
		return list
	}
	dir := t.TempDir()
	for name, text := range map[string]string{
		"pyproject.toml": "[project]\n", "app/client.py": "x = 1\n", "README.md": "text", ".venv/lib.py": "y = 2\n", "app/data.csv": "1\n",
	} {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o777), os.WriteFile(path, []byte(text), 0o666)); err != nil {
			t.Fatal(err)
		}
	}
	// printf 'x = 1\n' | sha256sum; printf '[project]\n' | sha256sum
	want := []string{"flower.app/app/client.py 9e26bf36", "flower.app/pyproject.toml 702a81c3"}
	if got := files(dir); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	// Through a link, and with a folder that is one.
	link := filepath.Join(t.TempDir(), "link")
	err := errors.Join(os.Symlink(dir, link), os.Rename(filepath.Join(dir, "app"), filepath.Join(dir, ".app")),
		os.Symlink(".app", filepath.Join(dir, "app")))
	if err != nil {
		t.Fatal(err)
	}
	if got := files(link); !slices.Equal(got, want) {
		t.Errorf("through links %q, want %q", got, want)
	}
	err = errors.Join(os.Remove(filepath.Join(dir, "app")), os.Rename(filepath.Join(dir, ".app"), filepath.Join(dir, "app")))
	if err != nil {
		t.Fatal(err)
	}
	again := filepath.Join(t.TempDir(), "elsewhere")
	if err := os.CopyFS(again, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	if got := files(again); !slices.Equal(got, want) {
		t.Errorf("elsewhere %q, want %q", got, want)
	}
}
