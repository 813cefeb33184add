package data

import (
	"archive/zip"
	"encoding/binary"
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
	{"\x80\x02", "a pickle of Python, as PyTorch's old files are", ""},
	{"\x80\x04", "a pickle of Python", ""},
	{"/[Content_Types].xml", "an Office document", " (save the sheet as CSV in UTF-8)"},
	{"\xfd7zXZ", "an xz archive", ", unpacked"},
	{"\x28\xb5\x2f\xfd", "a zstd archive", ", unpacked"},
	{"text/html", "an HTML page", " (a download may have been answered with a page)"},
}

// The remedies for other kinds of files that have data.
const (
	scriptOnPage = ` (docs/data.md, "Other formats", has a script that makes one)`
	savedSet     = ` (datasets.load_from_disk(FOLDER).to_parquet("own.parquet"))`
	wantBinary   = "CIFAR-100's binary version (fedpace data fetch cifar100)"
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
	head, _ := io.ReadAll(io.NewSectionReader(s.File, 0, 512))
	mime, _, _ := strings.Cut(http.DetectContentType(head), ";")
	// signs are the texts of which one may begin with a sign of the list kinds: the beginning of the file,
	// its media type, and the names and extensions of the entries of a zip archive, as Office documents and
	// PyTorch's files are zip archives.
	signs := []string{string(head), mime}
	if z, err := zip.NewReader(s.File, s.Size); err == nil {
		for _, entry := range z.File {
			signs = append(signs, "/"+path.Base(entry.Name), "/"+path.Ext(entry.Name))
		}
	}
	if isSafetensors(string(head)) {
		return fmt.Errorf("is a model or tensors in safetensors; want %s (a model to start from is init)", wantTable)
	}
	for _, kind := range kinds {
		if slices.ContainsFunc(signs, func(sign string) bool { return strings.HasPrefix(sign, kind.sign) }) {
			return fmt.Errorf("is %s; want %s%s", kind.kind, wantTable, kind.want)
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

// checkFolder returns an error if dir is the folder of a run, of a data set that Hugging Face's
// datasets has saved, or of CIFAR in Python's version or with ten classes.
func checkFolder(dir string) error {
	// has reports whether dir contains a regular file of this name.
	has := func(name string) bool {
		info, err := os.Stat(filepath.Join(dir, name))
		return err == nil && info.Mode().IsRegular()
	}
	isRun := has("config.yaml") && has("rounds.csv")
	isSaved := has("dataset_dict.json") || has("dataset_info.json") && has("state.json")
	isPython100 := has("train") && has("test") && has("meta")
	switch {
	case isRun:
		return fmt.Errorf("is the folder of a run, which fedpace report draws; want %s", wantTable)
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
