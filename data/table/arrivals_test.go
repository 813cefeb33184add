package table_test

import (
	"slices"
	"strings"
	"testing"

	"fedpace/data/federated"
	. "fedpace/data/table"
)

// Rows with times are in the order of their times; texts that are no numbers are refused, and so are
// samples that are no rows and options without a column.
func TestTable_Arrivals(t *testing.T) {
	const content = "who,at,x,y,part\na,30,1,0,train\na,10,2,1,train\na,20,3,0,train\nb,5,4,1,test\nb,1,5,1,test\n"
	mapping := Table{Client: "who", Features: []string{"x"}, Label: "y", Split: "part", Arrival: "at", Missing: "refuse"}
	set, err := openMapped(t, content, "rows.csv", mapping)
	if err != nil {
		t.Fatal(err)
	}
	s := set.(*federated.Grouped)
	if !slices.Equal(s.Train, []int32{1, 2, 0}) || !slices.Equal(s.Held, []int32{4, 3}) {
		t.Errorf("rows %v train and %v are held out, want them by time", s.Train, s.Held)
	}
	if _, err := s.Partitioned(federated.Partition{Kind: "iid", Clients: 2}, nil, 1); err == nil {
		t.Error("samples that arrive were dealt to made clients")
	}
	for name, x := range map[string]struct {
		content string
		change  func(*Table)
		want    string
	}{
		"dates":           {strings.Replace(content, "a,30", "a,2024-01-31", 1), func(*Table) {}, "at"},
		"no column":       {content, func(m *Table) { m.Arrival, m.ArrivalWindow = "", 3 }, "arrival: is not set"},
		"windows of text": {content, func(m *Table) { m.Features, m.Label, m.Text, m.Window = nil, "", "x", 4 }, "needs samples that are rows"},
		"all gone":        {content, func(m *Table) { m.ArrivalStart, m.ArrivalWindow = 100, 1 }, "no held-out sample"},
	} {
		other := mapping
		x.change(&other)
		if _, err := openMapped(t, x.content, "rows.csv", other); err == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%s: %v, want %q", name, err, x.want)
		}
	}
}
