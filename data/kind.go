package data

import (
	"archive/zip"
	"fmt"
	"io"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"fedpace/data/federated"
	"fedpace/data/table"
)

// wantTable is the remedy for a file of another kind.
const wantTable = "a table with a row for each sample, as CSV or Parquet"

// kinds are files that are taken for data, beside those that net/http knows: what they begin with, or, behind a slash,
// how a name in a zip archive ends.
var kinds = []struct{ sign, kind, want string }{
	{"SQLite format 3\x00", "an SQLite database", " (sqlite3 -header -csv FILE 'select * from TABLE')"},
	{"\x93NUMPY", "an array of NumPy", ""},
	{"/.npy", "arrays of NumPy", ""},
	{"\x89HDF", "an HDF5 file", ""},
	{"/data.pkl", "a file of PyTorch", "; a model goes into a trainer's script"},
	{"\x80\x02", "a pickle of Python, as PyTorch's old files are", ""},
	{"\x80\x04", "a pickle of Python", ""},
	{"/[Content_Types].xml", "an Office document", " (save the sheet as CSV in UTF-8)"},
	{"\xfd7zXZ", "an xz archive", ", unpacked"},
	{"\x28\xb5\x2f\xfd", "a zstd archive", ", unpacked"},
	{"text/html", "an HTML page", " (a download may have been answered with a page)"},
}

// checkKind refuses what is surely no set: a file of another kind, or the folder of a run.
func checkKind(s *federated.Source) error {
	if s.Folder {
		_, err := os.Stat(filepath.Join(s.Path, "config.yaml"))
		if _, none := os.Stat(filepath.Join(s.Path, "rounds.csv")); err != nil || none != nil {
			return nil
		}
		return fmt.Errorf("is the folder of a run, which fedpace report draws; want %s", wantTable)
	}
	head, _ := io.ReadAll(io.NewSectionReader(s.File, 0, 512)) // an error shows again
	mime, _, _ := strings.Cut(http.DetectContentType(head), ";")
	signs := []string{string(head), mime}
	if z, err := zip.NewReader(s.File, s.Size); err == nil {
		for _, entry := range z.File {
			signs = append(signs, "/"+path.Base(entry.Name), "/"+path.Ext(entry.Name))
		}
	}
	for _, k := range kinds {
		if slices.ContainsFunc(signs, func(sign string) bool { return strings.HasPrefix(sign, k.sign) }) {
			return fmt.Errorf("is %s; want %s%s", k.kind, wantTable, k.want)
		}
	}
	switch plain := http.DetectContentType(append([]byte("x"), head...)); {
	case len(head) > 262 && string(head[257:262]) == "ustar":
		return fmt.Errorf("is a tar archive; want %s, unpacked", wantTable)
	case strings.HasPrefix(plain, "text/"), strings.HasPrefix(mime, "text/"), slices.Contains(readableTypes, mime):
		return nil // a header such as BMI,age is no bitmap
	}
	return fmt.Errorf("is a file of the kind %s; want %s", mime, wantTable)
}

// readableTypes are the kinds of files that the readers look into.
var readableTypes = []string{"application/octet-stream", "application/zip", "application/x-gzip"}

// explainArchive says of an error that the source is an archive or JSON, which may hold something else than was tried.
func explainArchive(s *federated.Source, r federated.Reader, err error) error {
	switch _, isTable := r.(table.Table); {
	case s.IsZip(), s.IsGzip() &&
		!isTable &&
		(r.Recognises(s) == federated.ByName || s.IsArchive()):
		return fmt.Errorf("is an archive (want a table of your own unpacked): %w", err)
	case strings.HasPrefix(s.Head, "{"):
		return fmt.Errorf("is JSON (want a table of your own as CSV or Parquet): %w", err)
	}
	return err
}
