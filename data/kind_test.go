package data

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fedpace/data/datatest"
	"fedpace/data/federated"
)

// What is no set is called what it is, whatever its name; and no table is taken for anything else.
func TestFilesOfOtherKinds(t *testing.T) {
	dir := t.TempDir()
	for name, c := range map[string]struct{ content, want string }{
		"a.csv":     {"\x89PNG\r\n\x1a\n\x00\x00", "is a file of the kind image/png; want a table with a row for each sample"},
		"a.sqlite":  {"SQLite format 3\x00\x10", "is an SQLite database; want a table"},
		"a.npy":     {"\x93NUMPY\x01\x00v\x00", "is an array of NumPy; want a table"},
		"old.pt":    {"\x80\x02\x8a\nl", "is a pickle of Python, as PyTorch's old files are"},
		"page.csv":  {"<!DOCTYPE html>\n<p>Not, found\n", "is an HTML page; want a table with a row for each sample, as CSV or Parquet (a download"},
		"a.tar":     {strings.Repeat("\x00", 257) + "ustar\x00\x00\x00", "is a tar archive; want a table"},
		"a.xz":      {"\xfd7zXZ\x00\x00", "is an xz archive; want a table"},
		"new.pt":    {string(zipHolding(t, "m/data.pkl", "", "m/data/0", "")), "is a file of PyTorch; want a table"},
		"a.xlsx":    {string(zipHolding(t, "[Content_Types].xml", "", "xl/workbook.xml", "")), "is an Office document; want a table"},
		"a.npz":     {string(zipHolding(t, "x.npy", "")), "is arrays of NumPy; want a table"},
		"a.zip":     {string(zipHolding(t, "x.md", "a,b\n1,2\n")), `is an archive (want a table of your own unpacked): the zip holds ["x.md"]`},
		"a.gz":      {string(datatest.Gzip(t, []byte("hello\n"))), "is an archive (want a table of your own unpacked): line 1: found 1 columns"},
		"bmi.csv":   {"BMI,user\n1,a\n", "columns BMI, user: nothing says what its columns mean"},
		"euro.csv":  {"\x80uro,user\n1,a\n", "is not UTF-8 (iconv"},
		"noise.bin": {"\x01\x02\x03\x04", `begins with "\x01\x02\x03\x04", in no layout known here; want CIFAR-100`},
	} {
		_, err := Open(datatest.Put(t, dir, name, []byte(c.content)), federated.Options{})
		if err == nil || !strings.Contains(err.Error(), name+": ") || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error\n%v\nwant\n%s: %s", err, name, c.want)
		}
	}
	run := filepath.Join(dir, "run")
	for _, name := range []string{"config.yaml", "rounds.csv"} {
		if err := os.MkdirAll(run, 0o777); err != nil {
			t.Fatal(err)
		}
		datatest.Put(t, run, name, []byte("a,b\n1,2\n"))
	}
	if _, err := Open(run, federated.Options{}); err == nil || !strings.Contains(err.Error(), "run: is the folder of a run") {
		t.Error(err)
	}
}
