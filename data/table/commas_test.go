package table_test

import (
	"crypto/sha256"
	"slices"
	"strings"
	"testing"

	"fedpace/data/datatest"
	"fedpace/data/federated"
	. "fedpace/data/table"
)

// A number with a comma in a file whose fields are separated by commas is no list, whatever the mapping:
// it is an error with its row and column. So are, in any file, commas that a decimal sign cannot be.
func TestNumbers_Commas(t *testing.T) {
	one := Table{Client: "who", Features: []string{"sp"}, Label: "lab"}
	for _, c := range []struct {
		cell      string
		separator string
		table     Table
	}{
		{"3,25", ",", one},
		{"-3,25", ",", one},
		{",5", ",", one},
		{"3,", ",", one},
		{"3,25", ",", Table{Client: "who", Features: []string{"sp"}, Label: "lab", Missing: "mean"}},
		{"3,25", ",", Table{Client: "who", Features: []string{"sp"}, Label: "lab", Missing: "drop"}},
		{"3,25", ",", Table{Client: "who", Features: []string{"sp", "a"}, Label: "lab"}},
		{"3,25", ",", Table{Client: "who", Features: []string{"a"}, Target: []string{"sp"}}},
		{"3,25", ";", Table{Client: "who", Features: []string{"sp"}, Label: "lab", Decimal: "point"}},
		{"1,000,000", ";", one},
		{"1,234.5", ";", one},
		{"3,25 1,5", ";", one},
		{"[3,25; 1,5]", ";", one},
		{"[3,25, 1,5]", ";", one},
	} {
		text := strings.ReplaceAll("who;sp;a;lab\nu;1;1;p\nu;\"@\";1;q\n", ";", c.separator)
		text = strings.ReplaceAll(text, "@", c.cell)
		_, err := openMapped(t, text, "own.csv", c.table)
		if err == nil || !strings.Contains(err.Error(), "line 3, byte 3, column sp: ") || !strings.Contains(err.Error(), "has a comma; want a number with a decimal point") {
			t.Errorf("%s by %+v: %v", c.cell, c.table, err)
		}
	}
	type row struct {
		X []string `parquet:"x,list"`
		Y string   `parquet:"y"`
	}
	file := string(datatest.Parquet(t, []row{{[]string{"1", "2"}, "p"}, {[]string{"3,25"}, "q"}}))
	if _, err := openMapped(t, file, "own.parquet", Table{Features: []string{"x"}, Label: "y"}); err == nil || !strings.Contains(err.Error(), `"3,25" has a comma`) {
		t.Error(err)
	}
	// Lists are what can be nothing else.
	for _, cell := range []string{"3 25", "3, 25", "[3,25]", "(3, 25)", "[3; 25]", "3;25"} {
		text := "who,sp,lab\n" + strings.Repeat(`u,"`+cell+"\",p\n", 5)
		s := mustOpenMapped(t, text, "own.csv", one)
		if b := datatest.All(t, s, 0); !slices.Equal(b.X[:2], []float32{3, 25}) || s.Info().Features != 2 {
			t.Errorf("%s: %v", cell, b.X)
		}
	}
}

// Go's own notation is none of a table's.
func TestNumbers_Underscores(t *testing.T) {
	for _, features := range [][]string{{"x"}, {"x", "z"}} {
		_, err := openMapped(t, "x,z,y\n1,1,p\n1_000,1,q\n", "own.csv", Table{Features: features, Label: "y"})
		if err == nil || !strings.Contains(err.Error(), `line 3, byte 1, column x: "1_000" is not a number`) {
			t.Errorf("%s: %v", features, err)
		}
	}
	mustOpenMapped(t, "1_0,1_1,y\n"+strings.Repeat("1,2,p\n", 5), "own.csv", Table{Features: []string{"1_*"}, Label: "y"})
}

// Rows that are called a validation's are held out like those of a test, and the set says so.
func TestValidation_Reported(t *testing.T) {
	for name, told := range map[string]bool{"test": false, "val": true, "valid": true, "validation": true} {
		s := mustOpenMapped(t, "x,y,part\n1,p,train\n2,q,"+name+"\n3,q,test\n", "own.csv", Table{Features: []string{"x"}, Label: "y", Split: "part"})
		note := "rows called " + name + " in column part are held out, as those called test are"
		if s.HeldOut() != 2 || strings.Contains(s.Info().Note, note) != told {
			t.Errorf("%s: %d held out, %q", name, s.HeldOut(), s.Info().Note)
		}
	}
}

// Of users whose rows are all marked as test these are held out, as LEAF's are; they are no
// clients.
func TestUsers_HeldOut(t *testing.T) {
	const header = "who,x,y,part\n"
	const some = "a,1,p,train\nb,2,q,train\na,3,p,test\nc,4,q,test\nb,5,p,test\nd,6,q,test\nc,7,p,test\n"
	table := Table{Client: "who", Features: []string{"x"}, Label: "y", Split: "part", Scale: "standard"}
	s := mustOpenMapped(t, header+some, "own.csv", table)
	if s.Clients() != 2 || s.HeldOut() != 5 || !strings.Contains(s.Info().Note, "3 of 5 held-out samples are of 2 clients without a training sample") {
		t.Fatalf("%d clients, %d held out, %q", s.Clients(), s.HeldOut(), s.Info().Note)
	}
	// Scaled by the training rows, 1 and 2: mean 1.5 and deviation 0.5.
	if b := datatest.HeldOut(t, s, 0, 5); !slices.Equal(b.X, []float32{3, 7, 5, 11, 9}) || !slices.Equal(b.Labels, []int32{0, 0, 1, 0, 1}) {
		t.Errorf("%v, %v", b.X, b.Labels)
	}
	// All of them are of others: not a row is of a client with two.
	s = mustOpenMapped(t, header+"a,1,p,train\nb,2,q,train\nc,3,q,test\n", "own.csv", table)
	if s.Clients() != 2 || s.HeldOut() != 1 {
		t.Errorf("%d clients, %d held out, %q", s.Clients(), s.HeldOut(), s.Info().Note)
	}
	// Nothing is held out, or everything.
	for rows, want := range map[string]string{
		"a,1,p,train\na,1,p,train\nb,2,q,train\n": "no sample is held out for validation beside 3 to train on; want rows that are marked as test",
		"a,1,p,test\na,1,p,test\nb,2,q,test\n":    "no client has a sample to train on, of 3 samples",
	} {
		if _, err := openMapped(t, header+rows, "own.csv", table); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	// Texts, as windows and with a label.
	const texts = "who,x,part\na,abcabc,train\nb,cabcab,test\n"
	for _, table := range []Table{{Client: "who", Text: "x", Window: 3, Split: "part"}, {Client: "who", Text: "x", Window: 3, Label: "part", Split: "part"}} {
		if table.Label != "" {
			table.Split = "part2"
		}
		text := strings.NewReplacer("part\n", "part,part2\n", "train\n", "train,0\n", "test\n", "test,1\n").Replace(texts)
		s := mustOpenMapped(t, text, "own.csv", table)
		if s.Clients() != 1 || s.Client(0) != "a" || s.HeldOut() != s.Samples(0) {
			t.Errorf("%+v: %d clients, %d held out of %d", table, s.Clients(), s.HeldOut(), s.Samples(0))
		}
	}
	// The digest tells a set that keeps such rows from one that lost them; others keep theirs.
	for user, kept := range map[string]bool{"a": true, "c": false} {
		text := header + "a,1,p,train\nb,2,q,train\n" + user + ",3,q,test\n"
		s := mustOpenMapped(t, text, "own.csv", table)
		before := federated.Options{Seed: 1}.Digest("table "+federated.Readers.Text(table), sha256.Sum256([]byte(text)))
		if (s.Info().Digest == before) != kept {
			t.Errorf("%s: digest %s, it was %s", user, s.Info().Digest, before)
		}
	}
	// Without a mark a single row is not held out: its user could not be asked for it.
	s = mustOpenMapped(t, "who,x,y\na,1,p\n"+strings.Repeat("b,2,q\n", 5), "own.csv", Table{Client: "who", Features: []string{"x"}, Label: "y"})
	if s.Clients() != 1 || s.HeldOut() != 1 || !strings.Contains(s.Info().Note, "1 clients without a training sample left out, with 1 samples") {
		t.Errorf("%d clients, %d held out, %q", s.Clients(), s.HeldOut(), s.Info().Note)
	}
}

// A description says how many features there are, and the first row as it was read.
func TestTable_FirstRowIsShown(t *testing.T) {
	for _, c := range []struct {
		text  string
		table Table
		want  string
	}{
		{"x,z,y,part\n3.25,7,p,train\n5,9,q,train\n1,1,p,test\n", Table{Features: []string{"x", "z"}, Label: "y", Split: "part"}, "features   2\nfirst row  [3.25 7] -> \"p\"\n"},
		{"x,z,y,part\n3.25,7,p,train\n5,9,q,train\n1,1,p,test\n", Table{Features: []string{"x", "z"}, Label: "y", Split: "part", Scale: "standard"}, "features   2\nfirst row  [3.25 7] -> \"p\"\n"},
		{"x,y,part\n3 25,1.5,0\n4 26,2,1\n", Table{Features: []string{"x"}, Target: []string{"y"}, Split: "part"}, "features   2\nfirst row  [3 25] -> [1.5]\n"},
		{"x,part\nabab,0\nabab,1\n", Table{Text: "x", Window: 2, Split: "part"}, "features   2\nfirst row  tokens [2 3] -> \"a\"\n"},
	} {
		d, err := federated.Describe(t.Context(), mustOpenMapped(t, c.text, "own.csv", c.table))
		if err != nil || !strings.Contains(d.String(), c.want) {
			t.Errorf("%v, want %s in\n%s", err, c.want, d)
		}
	}
}
