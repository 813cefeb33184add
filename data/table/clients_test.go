package table

import (
	"fmt"
	"testing"

	"fedpace/data/datatest"
)

// visit is a row of a table whose names say twice whose it is.
type visit struct {
	Patient  int64   `parquet:"patient_id"`
	Hospital string  `parquet:"hospital"`
	X        float64 `parquet:"x"`
	Outcome  string  `parquet:"outcome"`
}

// visits are n rows, of which each patient has some one behind the other.
func visits(n, rowsOfPatient int) (list []visit) {
	for i := range n {
		list = append(list, visit{
			Patient:  int64(100_000 + 7*(i/rowsOfPatient)),
			Hospital: fmt.Sprintf("hospital %d", i%12),
			X:        float64(i%17) / 4,
			Outcome:  []string{"home", "ward"}[i%5%2],
		})
	}
	return list
}

// inCSV is the text of the rows.
func inCSV(rows []visit) string {
	text := "patient_id,hospital,x,outcome\n"
	for _, r := range rows {
		text += fmt.Sprintf("%d,%s,%g,%s\n", r.Patient, r.Hospital, r.X, r.Outcome)
	}
	return text
}

// More than a thousand names are clients if these have several rows each; a name for each row is none, and a
// column of few names is taken.
func TestPropose_ClientsHaveRows(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name          string
		rowsOfPatient int
		want          string
	}{
		{"a row each", 1, "hospital"},
		{"three rows each", 3, "patient_id"},
	} {
		t.Run(c.name, func(t *testing.T) {
			rows := visits(6000, c.rowsOfPatient)
			dir := t.TempDir()
			for _, file := range []string{
				datatest.Put(t, dir, "visits.csv", []byte(inCSV(rows))),
				datatest.Put(t, dir, "visits.parquet", datatest.Parquet(t, rows)),
			} {
				p, err := Propose(file, "")
				if err != nil {
					t.Fatal(err)
				}
				if p.Table.Client != c.want {
					t.Errorf("of %s the client is %q, want %q", file, p.Table.Client, c.want)
				}
				if err := opens(p, file); err != nil {
					t.Errorf("%s: %v", file, err)
				}
			}
		})
	}
}
