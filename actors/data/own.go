package data

import (
	"errors"
	"fmt"
	"slices"

	"fedpace/actors/data/federated"
	"fedpace/actors/data/table"
)

// OpenOwn opens the table of one client, by a mapping for the tables of many with
// changes. A column of clients or of parts that it does not have it can do without. A
// path that a reader recognises needs no mapping.
func OpenOwn(r federated.Reader, path string, changes []string) (federated.Set, error) {
	if len(changes) == 0 {
		if set, err := Open(path, federated.Options{}); !errors.Is(err, table.ErrUnmapped) {
			return set, err
		}
	}
	t, ok := r.(table.Table)
	if r != nil && !ok {
		r = nil // of another kind of data
	}
	if ok {
		columns, err := table.Columns(path)
		if err != nil {
			return nil, fmt.Errorf("data: %s: %w", path, err)
		}
		for _, name := range []*string{&t.Client, &t.Split} {
			if !slices.Contains(columns, *name) {
				*name = ""
			}
		}
		r = t
	}
	r, err := table.Map(r, changes)
	if err != nil {
		return nil, fmt.Errorf("data: %s: %w", path, err)
	}
	return OpenWith(r, path, federated.Options{})
}
