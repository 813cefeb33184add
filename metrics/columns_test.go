package metrics

import (
	"slices"
	"strings"
	"testing"

	"fedpace/coordinator/round"
)

// A value that is calculated says of what kind it is, before a run begins.
func TestColumns_WithoutKind(t *testing.T) {
	defer func(all []Column) { Columns = all }(Columns)
	Columns = append(slices.Clone(Columns), Column{Name: "twice", Help: "twice the cohort", Get: func(r *round.Report) Number { return Number{Int: int64(2 * r.Cohort)} }})
	defer func() {
		if said, _ := recover().(string); !strings.Contains(said, "the column twice has no Field, and not both Get and Kind") {
			t.Errorf("%q", said)
		}
	}()
	ColumnsOf()
}
