package federated

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"fedpace/internal/names"
)

// TableFile is one file of a table that lies in a folder, with what its place says of its rows.
type TableFile struct {
	// Path is where the file lies.
	Path string
	// Keys are the columns that the names of the folders around the file give all its rows, the outermost
	// first. They are nil where no folder is called so.
	Keys []FolderKey
	// HeldOut says that all rows are held out: by the name of a folder around the file, or by that of the
	// file among the others ([HeldOutFiles]).
	HeldOut bool
	// partNamed says that the name of a folder, such as train, says which part the file belongs to.
	partNamed bool
}

// FolderKey is what the name of a folder says of all rows below it: column=value, as Hive names
// partitions.
type FolderKey struct {
	Name string
	// Value is text. It is empty where the column has no value.
	Value string
}

// hiveMissing is the value that Hive, Spark and others write for a null.
const hiveMissing = "__HIVE_DEFAULT_PARTITION__"

// maxFolderDepth bounds the folders in folders that are looked into.
const maxFolderDepth = 8

// TableFiles returns the files of the folder dir with names that end in one of the suffixes, in lexical
// order of their paths; nil if there is none. These are the files in dir itself. If it has none, they are
// those in its folder data, and if that has none, those further below, where all folders on the way are
// called column=value, or by a word for a part, as train and test. If such files are found there, it is an
// error that other folders hold files with these suffixes, too.
func TableFiles(dir string, suffixes ...string) ([]TableFile, error) {
	for _, folder := range []string{dir, filepath.Join(dir, "data")} {
		if files := filesWith(folder, suffixes); files != nil {
			list := make([]TableFile, len(files))
			for i, path := range files {
				list[i].Path = path
			}
			return withHeldOut(list)
		}
	}
	w := folderWalk{suffixes: suffixes}
	if err := w.walk(dir, TableFile{}, maxFolderDepth); err != nil {
		return nil, err
	}
	switch {
	case len(w.files) == 0:
		return nil, nil
	case len(w.others) > 0:
		return nil, fmt.Errorf(
			"the folders %s are called otherwise than those that are read (want column=value, train or test)",
			ShortList(w.others),
		)
	}
	// All files must have the same columns, so their folders must give the same ones.
	keysOf := func(f *TableFile) []string { return names.Of(f.Keys, func(k FolderKey) string { return k.Name }) }
	first := keysOf(&w.files[0])
	for i := range w.files {
		if keys := keysOf(&w.files[i]); !slices.Equal(keys, first) {
			return nil, fmt.Errorf(
				"the folders of %s give the columns %s, and those of %s give %s",
				w.files[i].Path,
				ShortList(keys),
				w.files[0].Path,
				ShortList(first),
			)
		}
	}
	return withHeldOut(w.files)
}

// OtherFolders lists the folders in a folder that hold files with such names and are neither called
// column=value nor by a word for a part.
func OtherFolders(dir string, suffixes ...string) []string {
	w := folderWalk{suffixes: suffixes}
	// What cannot be read is left out: the list is for a message about something else.
	_ = w.walk(dir, TableFile{}, maxFolderDepth)
	return w.others
}

// folderWalk gathers the files below a folder.
type folderWalk struct {
	// suffixes are the endings of the names of the files that are wanted.
	suffixes []string
	// files are the files that were found, with what their folders say of them.
	files []TableFile
	// others are the names of folders with such files that say nothing of their rows.
	others []string
}

// walk looks for files in the folders within dir and collects them in w. around holds the columns and the
// part that the names of dir and of the folders around it give to rows. depth is how many folders deeper it
// may go.
func (w *folderWalk) walk(dir string, around TableFile, depth int) error {
	entries, err := os.ReadDir(dir)
	if err != nil || depth == 0 {
		return err
	}
	for _, entry := range entries {
		name := entry.Name()
		path := filepath.Join(dir, name)
		// Programs keep what is no data, as _temporary or .ipynb_checkpoints, under such names.
		isHidden := strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_")
		if info, err := os.Stat(path); isHidden || err != nil || !info.IsDir() {
			continue
		}
		// The keys are copied, because the folders within dir share those around it.
		place := around
		place.Keys = slices.Clone(around.Keys)
		key, value, isKey := strings.Cut(name, "=")
		trains, heldOut := PartOf(name)
		switch {
		// A folder called column=value gives its rows this column.
		case isKey && key != "":
			place.Keys = append(place.Keys, FolderKey{Name: unescaped(key), Value: unescaped(value)})
		case trains:
			place.partNamed = true
			place.HeldOut = false
		case heldOut:
			place.partNamed = true
			place.HeldOut = true
		default:
			if filesWith(path, w.suffixes) != nil && !slices.Contains(w.others, name) {
				w.others = append(w.others, name)
			}
			continue
		}
		for _, file := range filesWith(path, w.suffixes) {
			found := place
			found.Path = file
			w.files = append(w.files, found)
		}
		if err := w.walk(path, place, depth-1); err != nil {
			return err
		}
	}
	return nil
}

// unescaped returns a part of a folder's name without the escapes of URLs, which writers use for slashes and
// the like. It is empty for a null.
func unescaped(text string) string {
	if text == hiveMissing {
		return ""
	}
	if plain, err := url.PathUnescape(text); err == nil {
		return plain
	}
	return text
}

// withHeldOut marks the files that are held out by their names, where no folder says to which part they
// belong. Beside files that train, those of a part that is neither trained on nor held out are an error.
func withHeldOut(files []TableFile) ([]TableFile, error) {
	paths := names.Of(files, func(f TableFile) string { return f.Path })
	if without := filesWithoutPart(paths); without != nil {
		return nil, fmt.Errorf(
			"%s: the name says that the samples have no label, and are neither for training nor for a test "+
				"(move such files elsewhere, or give others' path)",
			ShortList(without),
		)
	}
	if slices.ContainsFunc(files, func(f TableFile) bool { return f.partNamed }) {
		return files, nil
	}
	for i, heldOut := range HeldOutFiles(paths) {
		files[i].HeldOut = heldOut
	}
	return files, nil
}

// filesWith lists a folder's files with names that end in one of the suffixes, in lexical order; nil if
// there is none.
func filesWith(dir string, suffixes []string) (files []string) {
	for _, suffix := range suffixes {
		files = append(files, Files(dir, suffix)...)
	}
	slices.Sort(files)
	return files
}

// FileClient returns the name of the client that the file at path belongs to: the name of the file
// without its ending, one of suffixes. With partsByName, words for a part are left out as well:
// client_7_test.csv and client_7_train.csv are both client_7.
func FileClient(path string, partsByName bool, suffixes []string) string {
	name := filepath.Base(path)
	for _, suffix := range suffixes {
		if trimmed, found := strings.CutSuffix(name, suffix); found {
			name = trimmed
			break
		}
	}
	if !partsByName {
		return name
	}
	// The words that are left are joined by underscores.
	const separators = "_-. "
	var left []string
	for _, word := range strings.FieldsFunc(name, func(r rune) bool { return strings.ContainsRune(separators, r) }) {
		trains, heldOut := PartOf(word)
		if !trains && !heldOut {
			left = append(left, word)
		}
	}
	return strings.Join(left, "_")
}
