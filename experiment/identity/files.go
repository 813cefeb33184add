package identity

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"fedpace/config"
	"fedpace/data/federated"
	"fedpace/experiment/folder"
	"fedpace/internal/child"
	"fedpace/internal/regular"
	"fedpace/registry"
)

// Files returns the digest of every file that a configuration names by a key that decides bits: each option
// that is tagged as a path and not as inert, at any depth, with the modules beside a script in Python
// that it imports. The data are not among them: they may be a folder, and have a digest of their own that also covers
// the split. The start model and the files that the trainer's command names count only where the run trains. Errors
// name the key.
func Files(c *config.Config) ([]folder.InputFile, error) {
	var list []folder.InputFile
	err := walkPaths(reflect.ValueOf(c).Elem(), "", func(key, path string) error {
		unused := key == "init" && !c.Train
		if key == "data" || unused {
			return nil
		}
		// An app is a folder, of which the code counts.
		if info, err := os.Stat(path); key == appKey && err == nil && info.IsDir() {
			files, err := appFiles(path)
			list = append(list, files...)
			return err
		}
		digest, err := digestFile(path)
		if err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
		list = append(list, folder.InputFile{Key: key, Path: path, SHA256: digest})
		if filepath.Ext(path) != ".py" {
			return nil
		}
		modules, err := moduleFiles(key, path)
		list = append(list, modules...)
		return err
	})
	if err != nil || !c.Train || !c.Trainer.NamesCommand() {
		return list, err
	}
	words, err := child.Words(c.Trainer.Command)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", trainerKey, err)
	}
	arguments, err := argumentFiles(words[1:])
	return append(list, arguments...), err
}

// trainerKey is the key of a trainer's command.
const trainerKey = "trainer"

// argumentFiles digests the files that the arguments of a trainer's command name, also behind the sign = of an
// option. The first script in Python is left out, since the trainer tells its digest with its modules', and so
// are logs, which change as they are written. Keys hold the places of the arguments behind the script.
func argumentFiles(arguments []string) (list []folder.InputFile, err error) {
	isScript := func(word string) bool { return filepath.Ext(word) == ".py" }
	// Without a script, of which the index is -1, all arguments are looked at.
	arguments = arguments[slices.IndexFunc(arguments, isScript)+1:]
	for i, argument := range arguments {
		path := argument
		if _, value, isOption := strings.Cut(argument, "="); isOption {
			path = value
		}
		info, err := os.Stat(path)
		if err != nil || !info.Mode().IsRegular() || filepath.Ext(path) == ".log" {
			continue
		}
		digest, err := digestFile(path)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", trainerKey, err)
		}
		list = append(list, folder.InputFile{
			Key:    fmt.Sprintf("%s[%d]", trainerKey, i),
			Path:   path,
			SHA256: digest,
		})
	}
	return list, nil
}

// appKey is the key that names the folder of a Flower app.
const appKey = "flower.app"

// maxAppFiles bounds the files with code of an app.
const maxAppFiles = 2048

// appCode are the endings of the files of an app that count: those that flwr takes for code.
var appCode = []string{".py", ".toml"}

// isShown reports whether a name does not begin with a dot. Environments, caches and the locks of editors have such
// names, and no module of Python has.
func isShown(name string) bool { return !strings.HasPrefix(name, ".") }

// appFiles digests the code of the Flower app in a folder: its files of Python and TOML, without those whose
// names, or those of their folders, begin with a dot. Keys and paths of the result are relative to the app,
// since it may lie elsewhere on another machine.
func appFiles(dir string) (list []folder.InputFile, err error) {
	err = federated.Below(dir, isShown, func(path string) error {
		name, err := filepath.Rel(dir, path)
		if err != nil || !slices.Contains(appCode, filepath.Ext(name)) {
			return err
		}
		if len(list) == maxAppFiles {
			return fmt.Errorf(
				"%s: %s has more than %d files of code, want a folder with an app alone",
				appKey,
				dir,
				maxAppFiles,
			)
		}
		digest, err := digestFile(path)
		if err != nil {
			return fmt.Errorf("%s: %w", appKey, err)
		}
		key := appKey + "/" + filepath.ToSlash(name)
		list = append(list, folder.InputFile{Key: key, Path: key, SHA256: digest})
		return nil
	})
	return list, err
}

// maxScript bounds the text of a script that is searched for what it imports.
const maxScript = 1 << 20

// imports matches a statement of Python that imports modules by their names, at the beginning of a line or
// behind another statement, or a call that does, and captures the names.
var imports = regexp.MustCompile(`(?m)(?:^|[;:])[ \t]*(?:from[ \t]+([\w.]+)[ \t]+import\b|import[ \t]+([\w., \t]+))` +
	`|\b(?:import_module|__import__)[ \t]*\([ \t]*["']([\w.]+)`)

// lineJoiner joins lines of Python that a backslash continues.
var lineJoiner = strings.NewReplacer("\\\n", " ", "\\\r\n", " ")

// moduleFiles digests the modules that a script in Python imports and that lie beside it, as its folder
// is the first place where Python looks for them: files of their name, and folders with all Python that
// they hold. What those import counts, too. key is the key of the script. The key of a file is that key, a slash and
// the file's path from the script's folder on.
func moduleFiles(key, script string) (list []folder.InputFile, err error) {
	dir := filepath.Dir(script)
	// A module that is looked at is not looked at again, so that modules may import each other.
	seen := map[string]bool{filepath.Base(script): true}
	pending := []string{filepath.Base(script)}
	for len(pending) > 0 {
		name := pending[0]
		pending = pending[1:]
		text, err := readScript(filepath.Join(dir, name))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", key, err)
		}
		for _, module := range importedModules(text) {
			for _, file := range modulesBeside(dir, module) {
				if seen[file] {
					continue
				}
				if len(list) == maxAppFiles {
					return nil, fmt.Errorf("%s: %s imports more than %d files", key, script, maxAppFiles)
				}
				digest, err := digestFile(filepath.Join(dir, file))
				if err != nil {
					return nil, fmt.Errorf("%s: %w", key, err)
				}
				seen[file] = true
				pending = append(pending, file)
				list = append(list, folder.InputFile{
					Key:    key + "/" + filepath.ToSlash(file),
					Path:   filepath.Join(dir, file),
					SHA256: digest,
				})
			}
		}
	}
	return list, nil
}

// readScript returns the first maxScript bytes of a script.
func readScript(path string) (string, error) {
	f, _, err := regular.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close() // read only
	text, err := io.ReadAll(io.LimitReader(f, maxScript))
	return string(text), err
}

// importedModules lists the first parts of the names of the modules that a text in Python imports, in the
// order of the text. A name in a comment or a string may be among them.
func importedModules(text string) (modules []string) {
	for _, match := range imports.FindAllStringSubmatch(lineJoiner.Replace(text), -1) {
		// The names stand in one of three groups, by the form of the statement; the others are empty.
		names := match[1] + match[2] + match[3]
		for name := range strings.SplitSeq(names, ",") {
			// The name may have another one behind it ("import numpy as np").
			fields := strings.Fields(name)
			if len(fields) == 0 {
				continue
			}
			module, _, _ := strings.Cut(strings.TrimLeft(fields[0], "."), ".")
			if module != "" && !slices.Contains(modules, module) {
				modules = append(modules, module)
			}
		}
	}
	return modules
}

// modulesBeside lists the files of a module that lie in a folder, by their paths in it: the file of its
// name, or all Python below the folder of its name. It is empty if there is neither.
func modulesBeside(dir, module string) (files []string) {
	if info, err := os.Stat(filepath.Join(dir, module+".py")); err == nil && info.Mode().IsRegular() {
		files = append(files, module+".py")
	}
	// What cannot be read cannot be imported, either.
	_ = federated.Below(filepath.Join(dir, module), isShown, func(path string) error {
		name, err := filepath.Rel(dir, path)
		if err == nil && filepath.Ext(path) == ".py" && len(files) <= maxAppFiles {
			files = append(files, name)
		}
		return err
	})
	return files
}

// digestFile is the SHA-256 of a regular file's bytes in hexadecimal.
func digestFile(path string) (string, error) {
	f, _, err := regular.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close() // read only
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// walkPaths visits the paths in a value of options, in the order of the fields: those of
// groups, of entries of choices and of lists too. prefix is the key of the value itself.
func walkPaths(v reflect.Value, prefix string, visit func(key, path string) error) error {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			return nil
		}
		return walkPaths(v.Elem(), prefix, visit)
	case reflect.Slice:
		for i := range v.Len() {
			if err := walkPaths(v.Index(i), fmt.Sprintf("%s[%d]", prefix, i), visit); err != nil {
				return err
			}
		}
	case reflect.Struct:
		for _, o := range registry.Options(v.Type()) {
			if err := walkOption(v, &o, prefix, visit); err != nil {
				return err
			}
		}
	}
	return nil
}

// walkOption visits the paths of one option of the struct of options v. prefix is the struct's own key, "" for the
// whole configuration. An inert option, which changes no result, is left out with all that is below it.
func walkOption(v reflect.Value, o *registry.Option, prefix string, visit func(key, path string) error) error {
	if o.Inert {
		return nil
	}
	key := o.Key
	switch {
	case o.Short || o.Flat && prefix != "":
		// A short option may be written in place of the map of all options, and a flat one beside the options of its
		// own struct. Neither is named by a key of its own.
		key = prefix
	case prefix != "":
		key = prefix + "." + o.Key
	}
	// Only a path ends the descent; other options may hold paths further down.
	f := v.FieldByIndex(o.Index)
	if !o.Path {
		return walkPaths(f, key, visit)
	}
	if f.String() == "" {
		return nil
	}
	return visit(key, f.String())
}
