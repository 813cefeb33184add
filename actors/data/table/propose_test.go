package table

import (
	"strings"
	"testing"

	"fedpace/actors/data/internal/datatest"
)

// rows repeats lines below a header, so that a column of few words is one of classes.
func rows(header string, lines ...string) string {
	return header + "\n" + strings.Repeat(strings.Join(lines, "\n")+"\n", 10)
}

func TestProposals(t *testing.T) {
	for name, x := range map[string]struct{ file, want, err string }{
		"a column called label before one called y": {
			file: rows("user,x,y,label", "a,1.5,2.5,rose", "b,2.5,3.5,lily"), want: "label: label",
		},
		"minus one and one are classes": {
			file: rows("user,x,label", "a,1.5,-1", "b,2.5,1"), want: "label: label",
		},
		"numbers are a target": {
			file: rows("user,x,price", "a,1.5,-1.25", "b,2.5,1.5", "b,3.5,2.5"), want: "target: price",
		},
		"numbers with a decimal comma": {
			file: rows("user;x;label", "a;2,34;rose", "b;-0,66;lily"),
			err:  "column x has numbers with a comma, as in 2,34; want a decimal point",
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := datatest.Put(t, t.TempDir(), "own.csv", []byte(x.file))
			p, err := Propose(path)
			if x.err != "" {
				if err == nil || !strings.Contains(err.Error(), x.err) {
					t.Errorf("%v, want %s", err, x.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := p.YAML(path); !strings.Contains(got, x.want) || !p.Complete() {
				t.Errorf("want %s in\n%s", x.want, got)
			}
		})
	}
}

// A table that is compressed is told from Sentiment140's by the names of its columns.
func TestACompressedTableIsProposedFor(t *testing.T) {
	file := datatest.Gzip(t, []byte(rows("user,x,label", "a,1.5,rose", "b,2.5,lily")))
	path := datatest.Put(t, t.TempDir(), "own.csv.gz", file)
	p, err := Propose(path)
	if err != nil || p.Table.Label != "label" || p.Rows != 20 {
		t.Errorf("%+v, %v", p, err)
	}
}
