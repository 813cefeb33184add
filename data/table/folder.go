package table

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"

	"fedpace/data/federated"
	"fedpace/internal/names"
)

// fileClient, as the name of the column of clients, says that each file of a folder holds the rows
// of one client, unless the files have a column of this name.
const fileClient = "file"

// jsonSuffixes are how names of LEAF's files end, and parquetSuffixes how those of Parquet do.
var (
	jsonSuffixes    = []string{".json"}
	parquetSuffixes = []string{".parquet"}
)

// listTable returns the files of the table at s: the file itself, or the CSV or Parquet files of a
// folder. It is an error if a folder has both formats, or no table. LEAF's JSON counts only where
// no other format is there, because folders often hold a description in JSON beside their data.
func listTable(s *federated.Source) ([]federated.TableFile, error) {
	if !s.Folder {
		return []federated.TableFile{{Path: s.Path}}, nil
	}
	parquet, err := federated.TableFiles(s.Path, parquetSuffixes...)
	if err != nil {
		return nil, err
	}
	csv, err := federated.TableFiles(s.Path, csvSuffixes...)
	if err != nil {
		return nil, err
	}
	if len(parquet) > 0 && len(csv) > 0 {
		return nil, fmt.Errorf(
			"%d .csv and %d .parquet files in the folder; want files of one kind",
			len(csv),
			len(parquet),
		)
	}
	// One of the two lists is empty.
	files := append(parquet, csv...)
	if len(files) == 0 {
		files, err = federated.TableFiles(s.Path, jsonSuffixes...)
		if err != nil {
			return nil, err
		}
	}
	if len(files) == 0 {
		return nil, noTable(s.Path)
	}
	return files, nil
}

// noTable returns the error for a folder without a table. If folders within it have tables, the
// error lists them and says how they could be read as one table.
func noTable(dir string) error {
	others := federated.OtherFolders(dir, slices.Concat(csvSuffixes, parquetSuffixes)...)
	if others == nil {
		return errors.New("0 .csv and 0 .parquet files in the folder; want files of one kind")
	}
	return fmt.Errorf(
		"no .csv and no .parquet file in the folder, but in its folders %s; want one of these, or all in folders "+
			"that are called column=value (client=%s), or train and test",
		federated.ShortList(others),
		others[0],
	)
}

// constant is a column that has the same value in all rows of a file, because the path of the file
// gives it, such as site=north.
type constant struct {
	// name is the name of the column.
	name string
	// value is the text of the column in every row, or a missing value.
	value cell
}

// placedTable is a file with further columns that its path gives, each with one value for all rows.
type placedTable struct {
	tableFile
	// constants are the columns that the path gives; there is at least one.
	constants []constant
}

// withFolderColumns returns the table of a file with one more column for each of keys, which the names of
// the folders around the file give: the key's value in every row. A column of the file itself with the same
// name has priority. Without any further column, the result is the file as it was.
func withFolderColumns(file tableFile, keys []federated.FolderKey) tableFile {
	var constants []constant
	fileColumns := file.columns()
	for _, key := range keys {
		if slices.Contains(fileColumns, key.Name) {
			continue
		}
		// An empty value of a folder, as in site=, is a missing one.
		value := cell{kind: textCell, text: key.Value}
		if key.Value == "" {
			value = cell{}
		}
		constants = append(constants, constant{key.Name, value})
	}
	if constants == nil {
		return file
	}
	return &placedTable{file, constants}
}

// columns returns the names of the columns of the file, followed by those that its path gives.
func (p *placedTable) columns() []string {
	return slices.Concat(p.tableFile.columns(), names.Of(p.constants, func(c constant) string { return c.name }))
}

// read hands the wanted columns of the file itself to their takers first, since only the file knows the
// number of its rows. Then the value of each column that the path gives is handed over once for each of
// these rows.
func (p *placedTable) read(wanted []column, r *reading) error {
	var fromFile, fromPath []column
	for _, c := range wanted {
		if p.constantOf(c.name) != nil {
			fromPath = append(fromPath, c)
		} else {
			fromFile = append(fromFile, c)
		}
	}
	// The file has the rows from first to r.rows once it is read.
	first := r.rows
	if err := p.tableFile.read(fromFile, r); err != nil {
		return err
	}
	for _, c := range fromPath {
		value := p.constantOf(c.name).value
		for row := first; row < r.rows; row++ {
			err := c.take(row, value)
			if errors.Is(err, errStop) {
				break
			}
			if err != nil {
				return fmt.Errorf("column %s, of the folder's name: %w", c.name, err)
			}
		}
	}
	return nil
}

// constantOf returns the column of this name that the path of the file gives, or nil if the path
// gives none.
func (p *placedTable) constantOf(name string) *constant {
	i := slices.IndexFunc(p.constants, func(c constant) bool { return c.name == name })
	if i < 0 {
		return nil
	}
	return &p.constants[i]
}

// withFileClients adds to each file a column with the name of its client, if the mapping's client is the
// word "file" and no column has that name. Otherwise it returns files as they are. A single file is
// an error, since all rows would be one client's.
func (t *Table) withFileClients(files []tableFile) ([]tableFile, error) {
	if t.Client != fileClient || slices.Contains(files[0].columns(), fileClient) {
		return files, nil
	}
	if len(files) == 1 {
		return nil, errors.New("client: file is for a folder in which each file is a client's, and there is one file " +
			"(want the column of clients)")
	}
	// Where names mark test files, as in test_anna.csv, the mark is no part of the client's name.
	partsByName := slices.ContainsFunc(files, tableFile.heldOut)
	suffixes := slices.Concat(csvSuffixes, parquetSuffixes, jsonSuffixes)
	placedFiles := make([]tableFile, len(files))
	// trained has the file that a client trains on. A client may have several files that are held out, one
	// for validation and one for the test.
	trained := map[string]string{}
	for i, f := range files {
		name := federated.FileClient(f.path(), partsByName, suffixes)
		if other := trained[name]; other != "" && !f.heldOut() {
			return nil, fmt.Errorf(
				"client: file: %s and %s would both be client %q (want a name of its own for each file, or the "+
					"column that tells clients apart, which the name of a folder may give)",
				other,
				f.path(),
				name,
			)
		}
		if !f.heldOut() {
			trained[name] = f.path()
		}
		placedFiles[i] = withFolderColumns(f, []federated.FolderKey{{Name: fileClient, Value: name}})
	}
	return placedFiles, nil
}

// fileNames returns the names of the clients if the names of the files say that each file is a
// client's, and nil otherwise. Each name must be a word for a client with a number behind it, such
// as client_07 or hospital3, and there must be two clients or more.
func fileNames(files []tableFile) (clients []string) {
	if len(files) < 2 {
		return nil
	}
	partsByName := slices.ContainsFunc(files, tableFile.heldOut)
	for _, f := range files {
		name := federated.FileClient(f.path(), partsByName, slices.Concat(csvSuffixes, parquetSuffixes))
		// A name without a number is left as it was, so that stem equals it.
		stem := strings.ToLower(strings.TrimRight(name, "0123456789-_. "))
		if stem == name || !slices.Contains(clientWords, stem) {
			return nil
		}
		if !slices.Contains(clients, name) {
			clients = append(clients, name)
		}
	}
	if len(clients) < 2 {
		return nil
	}
	return clients
}

// hashPlace returns a digest of the file's content and of the columns that its path gives. sum is
// the digest of the content alone. The columns take part because they change the rows of the table.
func (p *placedTable) hashPlace(sum [sha256.Size]byte) [sha256.Size]byte {
	text := ""
	for _, c := range p.constants {
		text += fmt.Sprintf("%q=%q %t\n", c.name, c.value.text, c.value.kind == missingCell)
	}
	return sha256.Sum256(append([]byte(text), sum[:]...))
}
