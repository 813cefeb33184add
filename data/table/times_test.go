package table

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"fedpace/data/datatest"
)

// Columns of instants in any usual form are no features of a proposal, whose reason names the form.
// Other numbers, such as years, stay features.
func TestPropose_LeavesTimesOut(t *testing.T) {
	start := time.Date(2023, 11, 14, 22, 13, 20, 0, time.UTC)
	for name, c := range map[string]struct {
		column string
		of     func(time.Time) string
		reason string // empty: the column is a feature
	}{
		"seconds":            {"reading", func(x time.Time) string { return fmt.Sprint(x.Unix()) }, "Unix time in seconds, 2023-11-14 to "},
		"milliseconds":       {"reading", func(x time.Time) string { return fmt.Sprint(x.UnixMilli()) }, "Unix time in milliseconds, 2023-11-14 to "},
		"microseconds":       {"reading", func(x time.Time) string { return fmt.Sprint(x.UnixMicro()) }, "Unix time in microseconds, 2023-11-14 to "},
		"nanoseconds":        {"reading", func(x time.Time) string { return fmt.Sprint(x.UnixNano()) }, "Unix time in nanoseconds, 2023-11-14 to "},
		"fractions":          {"reading", func(x time.Time) string { return fmt.Sprintf("%d.25", x.Unix()) }, "Unix time in seconds, "},
		"before 2000, named": {"created_at", func(x time.Time) string { return fmt.Sprint(x.AddDate(-45, 0, 0).Unix()) }, "Unix time in seconds, 1978-11-14 to "},
		"before 2000":        {"reading", func(x time.Time) string { return fmt.Sprint(x.AddDate(-45, 0, 0).Unix()) }, ""},
		"ISO 8601":           {"reading", func(x time.Time) string { return x.Format(time.RFC3339) }, "dates or times such as 20"},
		"ISO 8601, basic":    {"reading", func(x time.Time) string { return x.Format("20060102T150405Z") }, "dates or times such as 20"},
		"months":             {"reading", func(x time.Time) string { return x.Format("2006-01") }, "dates or times such as 20"},
		"time of day":        {"reading", func(x time.Time) string { return x.Format("15:04:05") }, "dates or times such as "},
		"12 hours":           {"reading", func(x time.Time) string { return x.Format(time.Kitchen) }, "dates or times such as "},
		"month by name":      {"reading", func(x time.Time) string { return x.Format("2 January 2006") }, "dates or times such as "},
		"Internet":           {"reading", func(x time.Time) string { return `"` + x.Format(time.RFC1123) + `"` }, "dates or times such as "},
		"C":                  {"reading", func(x time.Time) string { return x.Format(time.ANSIC) }, "dates or times such as "},
		"as a number":        {"reading", func(x time.Time) string { return x.Format("20060102") }, "dates as numbers, such as 20231114"},
		"years":              {"reading", func(x time.Time) string { return fmt.Sprint(x.Unix() % 86400 / 7) }, ""},
	} {
		text := "user," + c.column + ",x,label\n"
		for i := range 300 {
			text += fmt.Sprintf("u%d,%s,%d.5,%s\n", i%3, c.of(start.Add(time.Duration(i*i)*time.Hour)), i%7, []string{"a", "b"}[i%2])
		}
		p, err := Propose(datatest.Put(t, t.TempDir(), "t.csv", []byte(text)), "")
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		want := []string{"x"}
		if c.reason == "" {
			want = []string{c.column, "x"}
		}
		if diff := cmp.Diff(want, p.Table.Features); diff != "" {
			t.Errorf("%s: features (-want +got):\n%s", name, diff)
		}
		if yaml := p.YAML("t.csv"); !strings.Contains(yaml, c.reason) {
			t.Errorf("%s: want the reason %q:\n%s", name, c.reason, yaml)
		}
	}
}

// An instant is no label by its place, but one that is named is a target.
func TestPropose_TimeAsTarget(t *testing.T) {
	text := "user,x,ends\n"
	for i := range 300 {
		text += fmt.Sprintf("u%d,%d.5,%d\n", i%3, i%7, 1_700_000_000+3600*i)
	}
	path := datatest.Put(t, t.TempDir(), "t.csv", []byte(text))
	p, err := Propose(path, "")
	if err != nil || p.Table.Target != nil || p.Table.Label != "" {
		t.Errorf("guessed: %+v, %v; want no label", p, err)
	}
	p, err = Propose(path, "ends")
	if err != nil || !cmp.Equal(p.Table.Target, []string{"ends"}) {
		t.Errorf("asked: %+v, %v; want the target ends", p, err)
	}
}
