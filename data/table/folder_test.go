package table_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"fedpace/data"
	"fedpace/data/datatest"
	"fedpace/data/federated"
	. "fedpace/data/table"
)

// folderOf writes files below a new folder.
func folderOf(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		datatest.Put(t, dir, name, []byte(content))
	}
	return dir
}

// clientNames are the names of a set's clients, in order.
func clientNames(s federated.Set) (list []string) {
	for c := range s.Clients() {
		list = append(list, s.Client(c))
	}
	return list
}

// samples is a table of n rows with a feature from first on and the label 0 or 1.
func samples(first, n int) string {
	text := "x,y\n"
	for i := range n {
		text += fmt.Sprintf("%d,%d\n", first+i, i%2)
	}
	return text
}

// TestFolder_Hive has folders as DuckDB, Spark, pandas and Polars name partitions. Names are texts: 007
// and 7 are two clients, and %2F is a slash.
func TestFolder_Hive(t *testing.T) {
	dir := folderOf(t, map[string]string{
		"client=007/a.csv":                             samples(0, 10),
		"client=7/part-0.csv":                          samples(100, 5),
		"client=7/part-1.csv":                          samples(105, 5),
		"client=a%2Fb/x.csv":                           samples(200, 10),
		"client=__HIVE_DEFAULT_PARTITION__/x.csv":      samples(300, 3),
		"_temporary/client=1/x.csv":                    samples(400, 3),
		".ipynb_checkpoints/client=2/x-checkpoint.csv": samples(500, 3),
		"_SUCCESS": "",
	})
	mapping := Table{Client: "client", Features: []string{"x"}, Label: "y", Missing: "drop"}
	s, err := data.OpenWith(mapping, dir, federated.Options{Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	// Folders come in the order of their names, as they are written.
	if got := clientNames(s); !slices.Equal(got, []string{"007", "7", "a/b"}) {
		t.Fatalf("clients %q", got)
	}
	for c, first := range []float32{0, 100, 200} {
		for _, x := range datatest.All(t, s, c).X {
			if x < first || x >= first+10 {
				t.Errorf("client %q has the feature %v", s.Client(c), x)
			}
		}
		if s.Samples(c) != 8 {
			t.Errorf("client %q trains on %d samples, want 8 of 10", s.Client(c), s.Samples(c))
		}
	}
	if !strings.Contains(s.Info().Note, "3 rows without a value left out") {
		t.Errorf("a null: %q", s.Info().Note)
	}
	p, err := Propose(dir, "")
	if err != nil || p.Table.Client != "client" || p.Rows != 33 {
		t.Errorf("proposed %+v, %v", p, err)
	}
	// Another name of a folder is another set.
	other := folderOf(t, map[string]string{"client=007/a.csv": samples(0, 10), "client=8/a.csv": samples(100, 10)})
	same := folderOf(t, map[string]string{"client=007/a.csv": samples(0, 10), "client=9/a.csv": samples(100, 10)})
	digest := func(dir string) string {
		s, err := data.OpenWith(mapping, dir, federated.Options{Seed: 1})
		if err != nil {
			t.Fatal(err)
		}
		return s.Info().Digest
	}
	if digest(other) == digest(same) {
		t.Error("clients 8 and 9 have one digest")
	}
}

// TestFolder_Nested has two columns in the names of folders, one of which is the split.
func TestFolder_Nested(t *testing.T) {
	files := map[string]string{}
	for _, client := range []string{"a", "b"} {
		files["split=train/client="+client+"/0.csv"] = samples(0, 4)
		files["split=test/client="+client+"/0.csv"] = samples(100, 2)
	}
	s, err := data.OpenWith(
		Table{Client: "client", Features: []string{"x"}, Label: "y", Split: "split"},
		folderOf(t, files),
		federated.Options{},
	)
	if err != nil {
		t.Fatal(err)
	}
	if s.Clients() != 2 || s.Samples(0) != 4 || s.HeldOut() != 4 {
		t.Errorf("%d clients, %d samples, %d held out", s.Clients(), s.Samples(0), s.HeldOut())
	}
	for _, x := range datatest.HeldOut(t, s, 0, 4).X {
		if x < 100 {
			t.Errorf("the training row %v is held out", x)
		}
	}
}

// TestFolder_Parts has folders called by parts, with one file for each client.
func TestFolder_Parts(t *testing.T) {
	for _, words := range [][2]string{{"train", "test"}, {"training", "validation"}, {"Train", "Valid"}} {
		dir := folderOf(t, map[string]string{
			words[0] + "/client_0.csv": samples(0, 6),
			words[0] + "/client_1.csv": samples(10, 6),
			words[1] + "/client_0.csv": samples(100, 2),
			words[1] + "/client_1.csv": samples(110, 2),
		})
		s, err := data.OpenWith(Table{Client: "file", Features: []string{"x"}, Label: "y"}, dir, federated.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if got := clientNames(s); !slices.Equal(got, []string{"client_0", "client_1"}) || s.Samples(0) != 6 || s.HeldOut() != 4 {
			t.Errorf("%v: clients %q, %d samples, %d held out", words, got, s.Samples(0), s.HeldOut())
		}
		for _, x := range datatest.HeldOut(t, s, 0, 4).X {
			if x < 100 {
				t.Errorf("%v: the training row %v is held out", words, x)
			}
		}
	}
}

// TestFolder_FileOfEachClient has one file for each client, alone and with the parts in the names.
func TestFolder_FileOfEachClient(t *testing.T) {
	mapping := Table{Client: "file", Features: []string{"x"}, Label: "y"}
	dir := folderOf(t, map[string]string{"client_0.csv": samples(0, 10), "client_1.csv": samples(10, 10)})
	s, err := data.OpenWith(mapping, dir, federated.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if got := clientNames(s); !slices.Equal(got, []string{"client_0", "client_1"}) {
		t.Errorf("clients %q", got)
	}
	if p, err := Propose(dir, ""); err != nil || p.Table.Client != "file" {
		t.Errorf("proposed %+v, %v", p, err)
	}
	parts := folderOf(t, map[string]string{
		"client_0_train.csv": samples(0, 8), "client_0_test.csv": samples(100, 2),
		"client_1_train.csv": samples(10, 8), "client_1_test.csv": samples(110, 2),
	})
	s, err = data.OpenWith(mapping, parts, federated.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if got := clientNames(s); !slices.Equal(got, []string{"client_0", "client_1"}) || s.HeldOut() != 4 {
		t.Errorf("clients %q, %d held out", got, s.HeldOut())
	}
	// One file has no others beside it, and a column called file goes before.
	if _, err := openMapped(t, samples(0, 10), "own.csv", mapping); err == nil || !strings.Contains(err.Error(), "there is one file") {
		t.Error(err)
	}
	s = mustOpenMapped(t, "file,x,y\n"+strings.Repeat("a,1,0\nb,2,1\n", 5), "own.csv", mapping)
	if got := clientNames(s); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("clients %q", got)
	}
	// Shards of one table are no clients.
	shards := folderOf(t, map[string]string{"part-0.csv": samples(0, 10), "part-1.csv": samples(10, 10)})
	if p, err := Propose(shards, ""); err != nil || p.Table.Client != "" || !strings.Contains(p.YAML(shards), "or file if each of the 2 files is a client's") {
		t.Errorf("proposed %+v, %v", p, err)
	}
}

// TestFolder_Parquet has a partitioned folder of Parquet files whose columns need no mapping.
func TestFolder_Parquet(t *testing.T) {
	type row struct {
		X []float32 `parquet:"x,list"`
		Y int32     `parquet:"y"`
	}
	rows := func(first float32) string {
		var list []row
		for i := range 10 {
			list = append(list, row{[]float32{first, float32(i)}, int32(i % 2)})
		}
		return string(datatest.Parquet(t, list))
	}
	dir := folderOf(t, map[string]string{"client=01/0.parquet": rows(1), "client=02/0.parquet": rows(2)})
	s, err := data.Open(dir, federated.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if got := clientNames(s); !slices.Equal(got, []string{"01", "02"}) {
		t.Errorf("clients %q", got)
	}
	for c := range s.Clients() {
		if b := datatest.All(t, s, c); b.X[0] != float32(c+1) {
			t.Errorf("client %s: %v", s.Client(c), b.X)
		}
	}
}

// TestFolder_Refused has folders of which something cannot be read, each with a message that names it.
func TestFolder_Refused(t *testing.T) {
	mapping := Table{Client: "client", Features: []string{"x"}, Label: "y"}
	for name, c := range map[string]struct {
		files map[string]string
		want  string
	}{
		"folders of clients": {
			map[string]string{"ann/0.csv": samples(0, 10), "bob/0.csv": samples(0, 10)},
			"in its folders ann, bob; want one of these, or all in folders that are called column=value (client=ann)",
		},
		"one folder called otherwise": {
			map[string]string{"client=a/0.csv": samples(0, 10), "more/0.csv": samples(0, 10)},
			"the folders more are called otherwise than those that are read",
		},
		"other columns": {
			map[string]string{"client=a/0.csv": samples(0, 10), "site=b/0.csv": samples(0, 10)},
			"give the columns site, and those of",
		},
		"no value": {
			map[string]string{"client=a/0.csv": samples(0, 10), "client=__HIVE_DEFAULT_PARTITION__/0.csv": samples(0, 10)},
			"client=__HIVE_DEFAULT_PARTITION__/0.csv: column client, of the folder's name: no value",
		},
		"test alone": {map[string]string{"test/a.csv": samples(0, 10), "test/b.csv": samples(0, 10)}, "only test files"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := data.OpenWith(mapping, folderOf(t, c.files), federated.Options{})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %s", err, c.want)
			}
		})
	}
	// DuckDB calls the file in each folder data_0.
	dir := folderOf(t, map[string]string{"client=a/data_0.csv": samples(0, 10), "client=b/data_0.csv": samples(0, 10)})
	byFile := Table{Client: "file", Features: []string{"x"}, Label: "y"}
	_, err := data.OpenWith(byFile, dir, federated.Options{})
	if err == nil || !strings.Contains(err.Error(), `client=b/data_0.csv would both be client "data_0"`) {
		t.Error(err)
	}
	dir = folderOf(t, map[string]string{"ann/0.csv": samples(0, 10)})
	if _, err := data.Open(dir, federated.Options{}); err == nil || !strings.Contains(err.Error(), "tables in the folders ann") {
		t.Error(err)
	}
}

// TestSplit_FlagsByName has columns of 0 and 1, or of false and true, whose names say which of them trains: of 40
// rows the last 10 are held out. All but train, which may be a way to travel, are proposed as splits.
func TestSplit_FlagsByName(t *testing.T) {
	for _, c := range []struct {
		column       string
		train, held  string
		isNotPlanned bool
	}{
		{"is_test", "0", "1", false},
		{"is_train", "1", "0", false},
		{"Is Train", "True", "False", false},
		{"is_validation", "False", "True", false},
		{"held-out", "0.0", "1.0", false},
		{"split", "0", "1", false},
		{"split", "train", "test", false},
		{"is_train", "train", "test", false},
		{"train", "1", "0", true},
		{"train", "train", "val", false},
	} {
		text := "client,x,y," + c.column + "\n"
		for i := range 40 {
			part := c.train
			if i >= 30 {
				part = c.held
			}
			text += fmt.Sprintf("c%d,%d.5,%d,%s\n", i%2, i, i%3, part)
		}
		mapping := Table{Client: "client", Features: []string{"x"}, Label: "y", Split: c.column}
		s := mustOpenMapped(t, text, "own.csv", mapping)
		held := datatest.HeldOut(t, s, 0, s.HeldOut())
		if s.HeldOut() != 10 || slices.Min(held.X) != 30.5 {
			t.Errorf("%s: %s, %s: held out %v", c.column, c.train, c.held, held.X)
		}
		p, err := Propose(datatest.Put(t, t.TempDir(), "own.csv", []byte(text)), "")
		if err != nil {
			t.Fatal(err)
		}
		if isProposed := p.Table.Split == c.column; isProposed == c.isNotPlanned {
			t.Errorf("%s: %s, %s: split %q and features %v are proposed", c.column, c.train, c.held, p.Table.Split, p.Table.Features)
		}
	}
}

// TestSplit_UnusedNamesAreTold has names that look like a split and hold nothing out.
func TestSplit_UnusedNamesAreTold(t *testing.T) {
	mapping := Table{Features: []string{"x"}, Label: "y"}
	for name, c := range map[string]struct {
		files map[string]string
		note  string
	}{
		"a word for a test": {map[string]string{"digits.csv": samples(0, 10), "new_test.csv": samples(0, 10)}, "new_test.csv: read like all other files"},
		"used":              {map[string]string{"a_train.csv": samples(0, 10), "a_test.csv": samples(0, 10)}, ""},
		"no word":           {map[string]string{"a.csv": samples(0, 10), "latest.csv": samples(0, 10)}, ""},
		"a column":          {map[string]string{"a.csv": strings.ReplaceAll(strings.ReplaceAll(samples(0, 10), "\n", ",0\n"), "y,0", "y,is_test")}, "column is_test is not used to hold rows out"},
		"a single file":     {map[string]string{"test.csv": samples(0, 10)}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir := folderOf(t, c.files)
			if len(c.files) == 1 {
				for file := range c.files {
					dir = filepath.Join(dir, file)
				}
			}
			s, err := data.OpenWith(mapping, dir, federated.Options{})
			if err != nil {
				t.Fatal(err)
			}
			note := s.Info().Note
			if !strings.Contains(note, c.note) || c.note == "" && strings.Contains(note, "split") {
				t.Errorf("%q, want %q", note, c.note)
			}
		})
	}
	s := mustOpenMapped(t, "x,y,split\n"+strings.Repeat("1,0,train\n2,1,test\n", 5), "own.csv", Table{Features: []string{"x"}, Label: "y", Split: "split"})
	if note := s.Info().Note; strings.Contains(note, "looks like a split") {
		t.Errorf("%q of a column that is used", note)
	}
}

// TestHeldOut_NoClassOfTraining says before a run that nothing that is held out can be right.
func TestHeldOut_NoClassOfTraining(t *testing.T) {
	const note = "no held-out sample has a class that a training sample has"
	for rows, told := range map[string]bool{
		"1,p,train\n2,q,train\n3,r,test\n4,s,test\n": true,
		"1,p,train\n2,q,train\n3,r,test\n4,q,test\n": false,
	} {
		s := mustOpenMapped(t, "x,y,split\n"+rows, "own.csv", Table{Features: []string{"x"}, Label: "y", Split: "split"})
		if strings.Contains(s.Info().Note, note) != told {
			t.Errorf("%q of\n%s", s.Info().Note, rows)
		}
	}
	// A partition of such a set says it once.
	dealt, err := data.OpenWith(
		Table{Features: []string{"x"}, Label: "y", Split: "split"},
		datatest.Put(t, t.TempDir(), "own.csv", []byte("x,y,split\n1,p,train\n2,q,train\n3,r,test\n4,s,test\n")),
		federated.Options{Partition: federated.Partition{Kind: "iid", Clients: 2}},
	)
	if err != nil || strings.Count(dealt.Info().Note, note) != 1 || len(dealt.Info().Warnings) != 1 {
		t.Errorf("%+v, %v", dealt.Info(), err)
	}
	s := mustOpenMapped(t, "x,y,split\n1,2,train\n2,3,test\n", "own.csv", Table{Features: []string{"x"}, Target: []string{"y"}, Split: "split"})
	if strings.Contains(s.Info().Note, note) {
		t.Errorf("%q of targets", s.Info().Note)
	}
}

// TestFolder_HiddenFiles has beside the data what macOS and editors leave there.
func TestFolder_HiddenFiles(t *testing.T) {
	dir := t.TempDir()
	datatest.Put(t, dir, "own.csv", []byte("c,x,y\na,1,0\na,2,1\na,3,1\n"))
	datatest.Put(t, dir, "._own.csv", []byte("\x00\x05\x16\x07"))
	datatest.Put(t, dir, ".~own.csv", []byte("c,x,y\na,9,0\n"))
	s, err := data.OpenWith(Table{Client: "c", Features: []string{"x"}, Label: "y"}, dir, federated.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if n := everything(t, s).N; n != 3 {
		t.Errorf("%d samples, want 3", n)
	}
}
