package data

import (
	"archive/zip"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"fedpace/data/federated"
	"fedpace/data/table"
)

// wantTable is the remedy for a file of another kind.
const wantTable = "a table with a row for each sample, as CSV or Parquet"

// kinds are the kinds of files that are taken for data by mistake, beside those that net/http
// knows.
var kinds = []struct{ sign, kind, want string }{
	{"SQLite format 3\x00", "an SQLite database", " (sqlite3 -header -csv FILE 'select * from TABLE')"},
	{"\x93NUMPY", "an array of NumPy", scriptOnPage},
	{"/.npy", "arrays of NumPy", scriptOnPage},
	{"\x89HDF", "an HDF5 file", scriptOnPage},
	{"ARROW1", "an Arrow file, which Feather is, too", ` (pandas.read_feather(FILE).to_parquet("own.parquet"))`},
	{"FEA1", "a file of the old Feather", ` (pandas.read_feather(FILE).to_parquet("own.parquet"))`},
	{"\xff\xff\xff\xff", "a stream of Arrow, as Hugging Face's datasets keeps data", savedSet},
	{"ORC", "an ORC file", ` (pandas.read_orc(FILE).to_parquet("own.parquet"))`},
	{"Obj\x01", "an Avro file", ""},
	{"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "an old Office document", " (save the sheet as CSV in UTF-8)"},
	{"/data.pkl", "a file of PyTorch", "; a model goes into a trainer's script"},
	{"\x80\x02", "a pickle of Python (or an old file of PyTorch)", ""},
	{"\x80\x03", "a pickle of Python", pickledTable},
	{"\x80\x04", "a pickle of Python", pickledTable},
	{"\x80\x05", "a pickle of Python", pickledTable},
	{"\x00\x00\x08\x01", "labels of MNIST's layout IDX", mnistOnHub},
	{"\x00\x00\x08\x03", "images of MNIST's layout IDX", mnistOnHub},
	{"MATLAB 5.0 MAT-file", "a file of MATLAB", " (scipy.io.loadmat(FILE) has its arrays)"},
	{"X\n\x00\x00\x00", "an object of R", ` (write.csv(readRDS(FILE), "own.csv", row.names = FALSE))`},
	{"RDX2\n", "objects of R", " (load(FILE), then write.csv)"},
	{"RDX3\n", "objects of R", " (load(FILE), then write.csv)"},
	{"@RELATION ", "an ARFF file of Weka", " (scipy.io.arff.loadarff(FILE) has its rows)"},
	{"@relation ", "an ARFF file of Weka", " (scipy.io.arff.loadarff(FILE) has its rows)"},
	{duckDBSign, "a DuckDB database", ` (duckdb FILE "copy TABLE to 'own.parquet'")`},
	{libSVMSign, "text of LIBSVM", " (sklearn.datasets.load_svmlight_file(FILE) has its features and labels)"},
	{"/[Content_Types].xml", "an Office document", " (save the sheet as CSV in UTF-8)"},
	{"\xfd7zXZ", "an xz archive", ", unpacked"},
	{bzip2Sign, "a bzip2 archive", ", unpacked"},
	{"\x28\xb5\x2f\xfd", "a zstd archive", ", unpacked"},
	{"text/html", "an HTML page", " (a download may have been answered with a page)"},
}

// The remedies for other kinds of files that have data.
const (
	scriptOnPage = ` (examples/convert has a script that makes one)`
	pickledTable = ` (pandas.read_pickle(FILE).to_parquet("own.parquet") if it holds a table)`
	mnistOnHub   = " (Hugging Face has MNIST as Parquet: ylecun/mnist)"
	savedSet     = ` (datasets.load_from_disk(FOLDER).to_parquet("own.parquet"))`
	savedParts   = ` (of each part in datasets.load_from_disk(FOLDER), such as ["train"], ` +
		`.to_parquet("own/train.parquet"))`
	wantBinary = "CIFAR-100's binary version (fedpace data fetch cifar100)"
)

// checkKind returns an error if s is surely no set: a file of another kind, or the folder of a run.
// The error says what the file is and what to do with it.
func checkKind(s *federated.Source) error {
	if s.Folder {
		return checkFolder(s.Path)
	}
	if err := checkCIFAR(s); err != nil {
		return err
	}
	// A failure to read shows again when the reader reads.
	head, _ := io.ReadAll(io.NewSectionReader(s.File, 0, headBytes))
	mime, _, _ := strings.Cut(http.DetectContentType(head), ";")
	signs := append(signsOf(string(head)), mime)
	if z, err := zip.NewReader(s.File, s.Size); err == nil {
		// Office documents and PyTorch's files are zip archives, known by the names and extensions of entries.
		for _, entry := range z.File {
			signs = append(signs, "/"+path.Base(entry.Name), "/"+path.Ext(entry.Name))
		}
	}
	if isSafetensors(string(head)) {
		return fmt.Errorf("is a model or tensors in safetensors; want %s (a model to start from is init)", wantTable)
	}
	if err := errKind(signs, ""); err != nil {
		return err
	}
	if s.IsGzip() {
		// Without an unpacked head there is no sign, and the reader reports the damage.
		if z, err := gzip.NewReader(io.NewSectionReader(s.File, 0, s.Size)); err == nil {
			unpacked, _ := io.ReadAll(io.LimitReader(z, headBytes))
			if err := errKind(signsOf(string(unpacked)), " in gzip"); err != nil {
				return err
			}
		}
	}
	// A table may begin with what looks like the sign of another type, as BMI,age looks like a bitmap. With a
	// letter before it no sign is found, and text is detected as text.
	mimeWithoutSign := http.DetectContentType(append([]byte("x"), head...))
	isText := strings.HasPrefix(mimeWithoutSign, "text/") || strings.HasPrefix(mime, "text/")
	switch {
	// A tar archive has its sign at byte 257.
	case len(head) > 262 && string(head[257:262]) == "ustar":
		return fmt.Errorf("is a tar archive; want %s, unpacked", wantTable)
	case isText, slices.Contains(readableTypes, mime):
		return nil
	}
	return fmt.Errorf("is a file of the kind %s; want %s", mime, wantTable)
}

// headBytes is the number of bytes by which a file's kind is known.
const headBytes = 512

// These signs stand for beginnings that are no fixed text. No file begins with one of them.
const (
	duckDBSign = "\x00DuckDB"
	bzip2Sign  = "\x00bzip2"
	libSVMSign = "\x00LIBSVM"
)

// patternSigns are the beginnings of files for which the signs that are no fixed text stand.
var patternSigns = []struct {
	pattern *regexp.Regexp
	sign    string
}{
	// The sign of a block follows the header, in which the digit is the size of blocks.
	{regexp.MustCompile(`^BZh[1-9]1AY&SY`), bzip2Sign},
	// A line of LIBSVM is a label, and pairs of a feature's number and its value.
	{regexp.MustCompile(`^[+-]?[0-9.]+(?: [0-9]+:[-+.0-9eE]+)+ ?\r?\n`), libSVMSign},
}

// signsOf returns what is to be compared with the signs of the list kinds, for a file that begins with head: head
// itself, and the made-up sign of each kind that is known by a pattern which head matches, as [duckDBSign].
func signsOf(head string) []string {
	signs := []string{head}
	for _, p := range patternSigns {
		if p.pattern.MatchString(head) {
			signs = append(signs, p.sign)
		}
	}
	// A DuckDB database begins with a checksum of eight bytes, its sign, and a version in eight bytes.
	if len(head) >= 20 && head[8:12] == "DUCK" && head[16:20] == "\x00\x00\x00\x00" {
		signs = append(signs, duckDBSign)
	}
	return signs
}

// errKind returns an error that says what a file is, if it is of one of the kinds in the list kinds; else nil. signs
// are those of the file, as signsOf returns them: it is of a kind if one of them begins with the kind's sign. form is
// added to the kind, such as " in gzip".
func errKind(signs []string, form string) error {
	for _, kind := range kinds {
		if slices.ContainsFunc(signs, func(sign string) bool { return strings.HasPrefix(sign, kind.sign) }) {
			return fmt.Errorf("is %s%s; want %s%s", kind.kind, form, wantTable, kind.want)
		}
	}
	return nil
}

// checkFolder returns an error if dir is the folder of a run, of a data set that Hugging Face's
// datasets has saved, or of CIFAR in Python's version or with ten classes.
func checkFolder(dir string) error {
	// has reports whether dir contains a regular file of this name.
	has := func(name string) bool {
		info, err := os.Stat(filepath.Join(dir, name))
		return err == nil && info.Mode().IsRegular()
	}
	isRun := has("config.yaml") && has("rounds.csv")
	isSaved := has("dataset_info.json") && has("state.json")
	isPython100 := has("train") && has("test") && has("meta")
	switch {
	case isRun:
		return fmt.Errorf("is the folder of a run, which fedpace report draws; want %s", wantTable)
	case has("dataset_dict.json"):
		return fmt.Errorf(
			"is a data set that Hugging Face's datasets saved to disk in parts; want %s%s",
			wantTable,
			savedParts,
		)
	case isSaved:
		return fmt.Errorf("is a data set that Hugging Face's datasets saved to disk; want %s%s", wantTable, savedSet)
	case has("data_batch_1.bin"):
		return errCIFAR10("binary")
	case has("data_batch_1"):
		return errCIFAR10("Python")
	case isPython100:
		return fmt.Errorf("is CIFAR-100's Python version; want %s", wantBinary)
	}
	return nil
}

// readableNames are the endings of the names of files that a folder is read for.
var readableNames = []string{".csv", ".csv.gz", ".tsv", ".tsv.gz", ".parquet", ".json", ".bin", ".txt"}

// maxFilesNamed bounds the files of a folder of which one is named in an error.
const maxFilesNamed = 1000

// explainFolder returns err, the error with which a folder failed to be read. If the folder and those below
// hold nothing that is read, but a file or folder of a kind that is known, the error names that instead.
func explainFolder(dir string, err error) error {
	// The folder itself is of a known kind, and err says so already.
	if checkFolder(dir) != nil {
		return err
	}
	// found is the first error about a file or folder of a known kind.
	var found error
	seen := 0
	enough := errors.New("enough files")
	takes := func(name string) bool { return seen < maxFilesNamed && !strings.HasPrefix(name, ".") }
	// note keeps kindErr, an error that says of what kind the file or folder at path is; nil stands for no such kind.
	note := func(path string, kindErr error) {
		if kindErr != nil && found == nil {
			name, _ := filepath.Rel(dir, path)
			found = fmt.Errorf("holds no table; %s %w", name, kindErr)
		}
	}
	failed := federated.Below(dir, takes, func(path string) error {
		seen++
		isReadable := slices.ContainsFunc(readableNames, func(suffix string) bool {
			return strings.HasSuffix(path, suffix)
		})
		// Data sets of Hugging Face have descriptions in JSON beside them.
		isSavedSet := checkFolder(filepath.Dir(path)) != nil
		switch {
		case isSavedSet:
			note(filepath.Dir(path), checkFolder(filepath.Dir(path)))
		case isReadable:
			// The folder holds data, so that err stays.
			return enough
		}
		s, err := federated.OpenSource(path)
		if err != nil {
			return err
		}
		defer s.File.Close()
		note(path, checkKind(s))
		return nil
	})
	if found == nil || failed != nil {
		return err
	}
	return found
}

// errCIFAR10 returns the error for CIFAR-10, which is not read. version is "binary" or "Python".
func errCIFAR10(version string) error {
	return fmt.Errorf("is CIFAR-10's %s version, which is not read; want %s%s", version, wantTable, scriptOnPage)
}

// cifarName is how the files of CIFAR-10 and of CIFAR-100's Python version are called: its batches, and
// the folders in their archives.
var cifarName = regexp.MustCompile(
	`^(?:(data_batch_[1-5]|test_batch)(\.bin)?|(cifar-10-batches-(?:py|bin))|(cifar-100-python))$`,
)

// checkCIFAR returns an error if s is a file or an archive of CIFAR-10, or of CIFAR-100's Python
// version, judged by its name or that of the first entry.
func checkCIFAR(s *federated.Source) error {
	name := s.Name()
	if s.IsGzip() {
		name, _, _ = strings.Cut(s.ArchiveEntry(), "/")
	}
	found := cifarName.FindStringSubmatch(name)
	if found == nil {
		return nil
	}
	// These are the groups of the expression.
	binaryExtension := found[2]
	folderOf10 := found[3]
	folderOf100 := found[4]
	switch {
	case folderOf100 != "":
		return fmt.Errorf("is CIFAR-100's Python version; want %s", wantBinary)
	case binaryExtension != "" || strings.HasSuffix(folderOf10, "bin"):
		return errCIFAR10("binary")
	}
	return errCIFAR10("Python")
}

// isSafetensors reports whether a file that begins with head is one of safetensors: the length of a
// header in eight bytes, and the header, an object of JSON.
func isSafetensors(head string) bool {
	if len(head) < 10 || head[8] != '{' {
		return false
	}
	// maxHeader is the bound that the format itself defines.
	const maxHeader = 100_000_000
	length := binary.LittleEndian.Uint64([]byte(head[:8]))
	return length >= 2 && length <= maxHeader
}

// readableTypes are the kinds of files that the readers look into.
var readableTypes = []string{"application/octet-stream", "application/zip", "application/x-gzip"}

// explainArchive returns err, the error with which reader r failed to read s. If s is an archive or JSON, of
// which the reader was only a guess, it adds a hint that a table must be unpacked, or be CSV or Parquet.
func explainArchive(s *federated.Source, r federated.Reader, err error) error {
	_, isTable := r.(table.Table)
	// A table in gzip is read as it is, so the hint would mislead.
	isPackedOther := s.IsGzip() && !isTable && (r.Recognises(s) == federated.ByName || s.IsArchive())
	switch {
	case s.IsZip() || isPackedOther:
		return fmt.Errorf("is an archive (want a table of your own unpacked): %w", err)
	case strings.HasPrefix(s.Head, "{"):
		return fmt.Errorf("is JSON (want a table of your own as CSV or Parquet): %w", err)
	}
	return err
}
