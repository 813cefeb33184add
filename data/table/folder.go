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

// fileClient, as the column of clients, says that each file of a folder belongs to a client of its own,
// unless the files have a column of this name.
const fileClient = "file"

// jsonSuffixes are how names of LEAF's files end, and parquetSuffixes how those of Parquet do.
var (
	jsonSuffixes    = []string{".json"}
	parquetSuffixes = []string{".parquet"}
)

// listTable lists the files of a table: the file itself, or those of a folder, which are of one format.
// LEAF's JSON counts where there is no file of another format, because folders often hold a description
// in JSON beside their data.
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
	files := append(parquet, csv...)
	if len(files) == 0 {
		if files, err = federated.TableFiles(s.Path, jsonSuffixes...); err != nil {
			return nil, err
		}
	}
	if len(files) == 0 {
		return nil, noTable(s.Path)
	}
	return files, nil
}

// noTable is the error of a folder without a table. It names the folders in it that have one each.
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

// constant is a column that has one value in all rows of a file.
type constant struct {
	name  string
	value cell
}

// placedTable is a file of which the place gives columns, beside those that it has itself.
type placedTable struct {
	tableFile
	constants []constant
}

// placed adds the columns that the folders around a file give. A column that the file has itself goes
// before.
func placed(file tableFile, keys []federated.FolderKey) tableFile {
	var constants []constant
	own := file.columns()
	for _, key := range keys {
		if slices.Contains(own, key.Name) {
			continue
		}
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

// columns are those of the file, with those of its place behind them.
func (p *placedTable) columns() []string {
	return slices.Concat(p.tableFile.columns(), names.Of(p.constants, func(c constant) string { return c.name }))
}

// read hands out the columns of the file, then those of its place.
func (p *placedTable) read(wanted []column, r *reading) error {
	var own, given []column
	for _, c := range wanted {
		if p.constantOf(c.name) != nil {
			given = append(given, c)
		} else {
			own = append(own, c)
		}
	}
	first := r.rows
	if err := p.tableFile.read(own, r); err != nil {
		return err
	}
	for _, c := range given {
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

// constantOf is the column of a name that the place gives; nil if it gives none.
func (p *placedTable) constantOf(name string) *constant {
	i := slices.IndexFunc(p.constants, func(c constant) bool { return c.name == name })
	if i < 0 {
		return nil
	}
	return &p.constants[i]
}

// byFile gives each file the column of its client, if the mapping says that a file is a client's and no
// column has that name.
func (t *Table) byFile(files []tableFile) ([]tableFile, error) {
	if t.Client != fileClient || slices.Contains(files[0].columns(), fileClient) {
		return files, nil
	}
	if len(files) == 1 {
		return nil, errors.New("client: file is for a folder in which each file is a client's, and there is one file " +
			"(want the column of clients)")
	}
	partsByName := slices.ContainsFunc(files, tableFile.heldOut)
	suffixes := slices.Concat(csvSuffixes, parquetSuffixes, jsonSuffixes)
	placedFiles := make([]tableFile, len(files))
	for i, f := range files {
		name := federated.FileClient(f.path(), partsByName, suffixes)
		placedFiles[i] = placed(f, []federated.FolderKey{{Name: fileClient, Value: name}})
	}
	return placedFiles, nil
}

// fileNames says that a table has one file for each client, by their names: as many files as clients,
// each with a word for a client and something that tells it from the others.
func fileNames(files []tableFile) (clients []string) {
	if len(files) < 2 {
		return nil
	}
	partsByName := slices.ContainsFunc(files, tableFile.heldOut)
	for _, f := range files {
		name := federated.FileClient(f.path(), partsByName, slices.Concat(csvSuffixes, parquetSuffixes))
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

// hashPlace adds to the sum of a file's content what its place says of its rows.
func (p *placedTable) hashPlace(sum [sha256.Size]byte) [sha256.Size]byte {
	text := ""
	for _, c := range p.constants {
		text += fmt.Sprintf("%q=%q %t\n", c.name, c.value.text, c.value.kind == missingCell)
	}
	return sha256.Sum256(append([]byte(text), sum[:]...))
}
