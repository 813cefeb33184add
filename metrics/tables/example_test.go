package tables_test

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/parquet-go/parquet-go"

	"fedpace/coordinator/round"
	"fedpace/metrics"
	"fedpace/metrics/tables"
)

// A task counts for its client once its round has closed. The table is read as any Parquet file.
func ExampleTables_WriteClients() {
	run := &metrics.Run{Name: "demo", Clients: 2}
	t := tables.New(run)
	t.Task(&round.TaskReport{Task: 1, Client: 1, LocalSteps: 80, Outcome: round.Accepted})
	t.Task(&round.TaskReport{Task: 2, Client: 1, LocalSteps: 80, Outcome: round.Late})
	if err := t.Round(&metrics.Round{}); err != nil {
		fmt.Println(err)
		return
	}

	var file bytes.Buffer
	if err := t.WriteClients(&file); err != nil {
		fmt.Println(err)
		return
	}
	rows, err := parquet.Read[tables.Client](bytes.NewReader(file.Bytes()), int64(file.Len()))
	if err != nil {
		fmt.Println(err)
		return
	}
	for row := range slices.Values(rows) {
		fmt.Printf("client %d: %d tasks, %d accepted, %d late\n", row.Client, row.Tasks, row.Accepted, row.Late)
	}
	// Output: client 1: 2 tasks, 1 accepted, 1 late
}
