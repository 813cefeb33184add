package python

import (
	"embed"
	"fmt"
	"io/fs"
)

//go:embed fedpace/*.py
var source embed.FS

// Module is a file of the package.
type Module struct {
	Path   string // below a folder of PYTHONPATH, with slashes
	Source []byte
}

// Modules returns the files of the package, in the order of their paths.
func Modules() (list []Module) {
	err := fs.WalkDir(source, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := source.ReadFile(path)
		list = append(list, Module{path, text})
		return err
	})
	if err != nil {
		panic(fmt.Sprintf("python: an embedded file: %v", err))
	}
	return list
}
