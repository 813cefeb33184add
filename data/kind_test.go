package data

import (
	"archive/tar"
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"fedpace/data/datatest"
	"fedpace/data/federated"
	"fedpace/data/table"
)

// archiveWith is a tar archive in gzip whose first entry has this name, in the given form of tar.
func archiveWith(t *testing.T, name string, format tar.Format) string {
	t.Helper()
	var b bytes.Buffer
	archive := tar.NewWriter(&b)
	// Python's tarfile writes parts of seconds, which a block of its own has in the form PAX.
	modified := time.Unix(1, int64(time.Second/2))
	if err := archive.WriteHeader(&tar.Header{Name: name, Format: format, ModTime: modified}); err != nil {
		t.Fatal(err)
	}
	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}
	return string(datatest.Gzip(t, b.Bytes()))
}

// What is no set is called what it is, whatever its name; and no table is taken for anything else.
func TestOpen_OtherKinds(t *testing.T) {
	dir := t.TempDir()
	for name, c := range map[string]struct{ content, want string }{
		"a.csv":                     {"\x89PNG\r\n\x1a\n\x00\x00", "is a file of the kind image/png; want a table with a row for each sample"},
		"a.sqlite":                  {"SQLite format 3\x00\x10", "is an SQLite database; want a table"},
		"a.arrow":                   {"ARROW1\x00\x00\xff\xff\xff\xff", `is an Arrow file, which Feather is, too; want a table with a row for each sample, as CSV or Parquet (pandas.read_feather(FILE).to_parquet("own.parquet"))`},
		"a.feather":                 {"FEA1\x00\x00", "is a file of the old Feather"},
		"data-00000-of-00001.arrow": {"\xff\xff\xff\xff\x10\x02\x00\x00", "is a stream of Arrow, as Hugging Face's datasets keeps data; want a table with a row for each sample, as CSV or Parquet (datasets.load_from_disk(FOLDER)"},
		"a.safetensors":             {"\x50\x00\x00\x00\x00\x00\x00\x00{\"w\":{}}", "is a model or tensors in safetensors; want a table"},
		"a.h5":                      {"\x89HDF\r\n\x1a\n", `is an HDF5 file; want a table with a row for each sample, as CSV or Parquet (examples/convert has a script`},
		"a.orc":                     {"ORC\x0a", "is an ORC file; want a table"},
		"a.avro":                    {"Obj\x01\x04", "is an Avro file; want a table"},
		"a.xls":                     {"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "is an old Office document; want a table"},
		"data_batch_1.bin":          {"\x06\x3b\x2b\x32", "is CIFAR-10's binary version, which is not read; want a table"},
		"data_batch_1":              {"\x80\x04\x95", "is CIFAR-10's Python version, which is not read; want a table"},
		"test_batch":                {"\x80\x02}q", "is CIFAR-10's Python version"},
		"cifar-10-python.tar.gz":    {archiveWith(t, "cifar-10-batches-py/data_batch_4", tar.FormatUSTAR), "is CIFAR-10's Python version"},
		"cifar-10-binary.tar.gz":    {archiveWith(t, "./cifar-10-batches-bin/", tar.FormatPAX), "is CIFAR-10's binary version"},
		"cifar-100-python.tar.gz":   {archiveWith(t, "cifar-100-python/file.txt~", tar.FormatPAX), "is CIFAR-100's Python version; want CIFAR-100's binary version (fedpace data fetch cifar100)"},
		"a.npy":                     {"\x93NUMPY\x01\x00v\x00", "is an array of NumPy; want a table"},
		"old.pt":                    {"\x80\x02\x8a\nl", "is a pickle of Python (or an old file of PyTorch)"},
		"page.csv":                  {"<!DOCTYPE html>\n<p>Not, found\n", "is an HTML page; want a table with a row for each sample, as CSV or Parquet (a download"},
		"table.pkl":                 {"\x80\x05\x95|1", `is a pickle of Python; want a table with a row for each sample, as CSV or Parquet (pandas.read_pickle(FILE)`},
		"mnist.pkl.gz":              {string(datatest.Gzip(t, []byte("\x80\x03}q"))), "is a pickle of Python in gzip"},
		"train-images-idx3-ubyte":   {"\x00\x00\x08\x03\x00\x00\xea\x60", "is images of MNIST's layout IDX; want a table"},
		"t10k-labels-idx1-ubyte.gz": {string(datatest.Gzip(t, []byte("\x00\x00\x08\x01\x00\x00\x27\x10"))), "is labels of MNIST's layout IDX in gzip; want a table"},
		"a.mat":                     {"MATLAB 5.0 MAT-file Platform: posix", "is a file of MATLAB; want a table"},
		"a.rds":                     {string(datatest.Gzip(t, []byte("X\n\x00\x00\x00\x03"))), "is an object of R in gzip; want a table"},
		"a.arff":                    {"@relation iris\n@attribute width numeric\n", "is an ARFF file of Weka; want a table"},
		"a9a":                       {"-1 3:1 11:1 14:0.5\n+1 5:1\n", "is text of LIBSVM; want a table"},
		"a.duckdb":                  {"\xe0\xb9\x97\xbcM\x92\xae\xb9DUCK\xe7\x03" + strings.Repeat("\x00", 6), "is a DuckDB database; want a table"},
		"a.csv.bz2":                 {"BZh91AY&SYya\"c", "is a bzip2 archive; want a table"},
		"bzh.csv":                   {"BZh,user\n1,a\n", "columns BZh, user: nothing says what its columns mean"},
		"a.tar":                     {strings.Repeat("\x00", 257) + "ustar\x00\x00\x00", "is a tar archive; want a table"},
		"a.xz":                      {"\xfd7zXZ\x00\x00", "is an xz archive; want a table"},
		"new.pt":                    {string(zipHolding(t, "m/data.pkl", "", "m/data/0", "")), "is a file of PyTorch; want a table"},
		"a.xlsx":                    {string(zipHolding(t, "[Content_Types].xml", "", "xl/workbook.xml", "")), "is an Office document; want a table"},
		"a.npz":                     {string(zipHolding(t, "x.npy", "")), "is arrays of NumPy; want a table"},
		"a.zip":                     {string(zipHolding(t, "x.md", "a,b\n1,2\n")), `is an archive (want a table of your own unpacked): the zip holds ["x.md"]`},
		"a.gz":                      {string(datatest.Gzip(t, []byte("hello\n"))), "is an archive (want a table of your own unpacked): line 1: found 1 columns"},
		"bmi.csv":                   {"BMI,user\n1,a\n", "columns BMI, user: nothing says what its columns mean"},
		"euro.csv":                  {"\x80uro,user\n1,a\n", "is not UTF-8 (iconv"},
		"noise.bin":                 {"\x01\x02\x03\x04", `begins with "\x01\x02\x03\x04", in no layout known here; want CIFAR-100`},
	} {
		_, err := Open(datatest.Put(t, dir, name, []byte(c.content)), federated.Options{})
		if err == nil || !strings.Contains(err.Error(), name+": ") || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error\n%v\nwant\n%s: %s", err, name, c.want)
		}
	}
	for name, c := range map[string]struct {
		files []string
		want  string
	}{
		"saved":           {[]string{"dataset_info.json", "state.json", "data-00000-of-00001.arrow"}, "is a data set that Hugging Face's datasets saved to disk; want a table"},
		"saved in parts":  {[]string{"dataset_dict.json", "train/state.json"}, `is a data set that Hugging Face's datasets saved to disk in parts; want a table with a row for each sample, as CSV or Parquet (of each part in datasets.load_from_disk(FOLDER), such as ["train"], .to_parquet("own/train.parquet"))`},
		"cifar-10 binary": {[]string{"batches.meta.txt", "data_batch_1.bin", "test_batch.bin"}, "is CIFAR-10's binary version"},
		"cifar-10 Python": {[]string{"batches.meta", "data_batch_1", "test_batch"}, "is CIFAR-10's Python version"},
		"cifar-100":       {[]string{"meta", "train", "test"}, "is CIFAR-100's Python version; want CIFAR-100's binary version"},
	} {
		folder := filepath.Join(dir, name)
		for _, file := range c.files {
			datatest.Put(t, folder, file, []byte("{}"))
		}
		mapping := table.Table{Client: "c", Features: []string{"x"}, Label: "y"}
		for _, reader := range []federated.Reader{nil, mapping} {
			if _, err := OpenWith(reader, folder, federated.Options{}); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v, want %s", name, err, c.want)
			}
		}
	}
	checkOtherFolders(t)
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

// checkOtherFolders opens folders that hold nothing to read, but files or folders of kinds that are known, also
// with a mapping. A folder with a table beside such files is no such folder.
func checkOtherFolders(t *testing.T) {
	t.Helper()
	const arrow = "ARROW1\x00\x00"
	for name, c := range map[string]struct {
		files map[string]string
		want  string
	}{
		"Feather":          {map[string]string{"client_1.feather": arrow}, "holds no table; client_1.feather is an Arrow file"},
		"arrays by client": {map[string]string{"train/0.npy": "\x93NUMPY", "test/0.npy": "\x93NUMPY"}, "holds no table; test/0.npy is an array of NumPy; want a table"},
		"saved by client":  {map[string]string{"c1/dataset_info.json": "{}", "c1/state.json": "{}", "c1/data-0.arrow": arrow}, "holds no table; c1 is a data set that Hugging Face's datasets saved to disk; want a table"},
		"beside a table":   {map[string]string{"a.feather": arrow, "b.csv": "q,r\n1,2\n"}, `client: there is no column "c"`},
	} {
		folder := t.TempDir()
		for file, content := range c.files {
			datatest.Put(t, folder, file, []byte(content))
		}
		_, err := OpenWith(table.Table{Client: "c", Features: []string{"x"}, Label: "y"}, folder, federated.Options{})
		if err == nil || !strings.Contains(err.Error(), folder+": "+c.want) {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
		_, err = Open(folder, federated.Options{})
		if name != "beside a table" && (err == nil || !strings.Contains(err.Error(), folder+": "+c.want)) {
			t.Errorf("%s, without a mapping: %v, want %s", name, err, c.want)
		}
	}
}
