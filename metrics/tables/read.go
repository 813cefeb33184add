package tables

import (
	"bytes"
	"fmt"

	"github.com/parquet-go/parquet-go"

	"fedpace/internal/regular"
)

// ReadUpdates reads from the clients.parquet at path how often each client trained: updates[i] is
// the number of accepted updates of client i. The list ends at the last client that had a task, and
// clients before it without a task have 0.
func ReadUpdates(path string) (updates []uint32, err error) {
	text, err := regular.ReadFile(path)
	if err != nil {
		return nil, err
	}
	// Only the two columns that are needed are read.
	type row struct {
		Client   int32 `parquet:"client"`
		Accepted int32 `parquet:"accepted"`
	}
	rows, err := parquet.Read[row](bytes.NewReader(text), int64(len(text)))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	for _, r := range rows {
		if r.Client < 0 || r.Accepted < 0 {
			return nil, fmt.Errorf("%s: client %d has %d accepted updates", path, r.Client, r.Accepted)
		}
		// Clients without a task have no row.
		for int(r.Client) >= len(updates) {
			updates = append(updates, 0)
		}
		updates[r.Client] = uint32(r.Accepted)
	}
	return updates, nil
}
