package data

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/parquet-go/parquet-go"
	"golang.org/x/sync/errgroup"

	"fedpace/actors/data/federated"
)

// damaged turns a panic of the Parquet library into an error.
func damaged(err *error) {
	if p := recover(); p != nil {
		if fault, ok := p.(runtime.Error); ok && strings.Contains(fault.Error(), "nil pointer") {
			*err = errors.New("damaged Parquet file: a part that its footer names is absent")
			return
		}
		*err = fmt.Errorf("damaged Parquet file: %v", p)
	}
}

// openSheets opens the Parquet files at a path: one, or all of a folder (or of
// its data folder) in lexical order. Files whose names begin with test are the
// held-out part. close closes them.
func openSheets(path string) (train, test *sheet, close func(), err error) {
	files := []string{path}
	if stat, err := os.Stat(path); err != nil {
		return nil, nil, nil, err
	} else if stat.IsDir() {
		if files = parquetFiles(path); len(files) == 0 {
			return nil, nil, nil, fmt.Errorf("%s: no .parquet file", path)
		}
	}
	var open []*os.File
	closeAll := func() {
		for _, f := range open {
			f.Close()
		}
	}
	defer func() {
		if err != nil {
			closeAll()
		}
	}()
	var parts [2][]*table
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			return nil, nil, nil, err
		}
		open = append(open, f)
		stat, err := f.Stat()
		if err != nil {
			return nil, nil, nil, err
		}
		one, err := openTable(f, stat.Size())
		if err != nil {
			return nil, nil, nil, fmt.Errorf("%s: %w", name, err)
		}
		part := 0
		if len(files) > 1 {
			one.name = filepath.Base(name)
			if strings.HasPrefix(one.name, "test") {
				part = 1
			}
		}
		parts[part] = append(parts[part], one)
	}
	if len(parts[0]) == 0 {
		return nil, nil, nil, fmt.Errorf("%s: only test files", path)
	}
	return newSheet(parts[0]...), newSheet(parts[1]...), closeAll, nil
}

// parquetFiles lists a folder's Parquet files, those of data/ where it has none.
func parquetFiles(dir string) []string {
	for _, below := range []string{"", "data"} {
		// Glob fails on a bad pattern only, and this one is escaped.
		if files, _ := filepath.Glob(filepath.Join(EscapeGlob(dir), below, "*.parquet")); len(files) > 0 {
			return files
		}
	}
	return nil
}

// sums identifies the files by their content.
func (t *sheet) sums() ([][sha256.Size]byte, error) {
	sums := make([][sha256.Size]byte, len(t.tables))
	var workers errgroup.Group
	workers.SetLimit(runtime.GOMAXPROCS(0))
	for i, one := range t.tables {
		workers.Go(func() (err error) {
			sums[i], err = federated.HashAll(io.NewSectionReader(one.f, 0, one.size))
			return err
		})
	}
	return sums, workers.Wait()
}

// table is one Parquet file.
type table struct {
	name string // of the file, where a set has several
	file *parquet.File
	f    io.ReaderAt
	size int64
}

// sheet is one or several Parquet files with the same columns, one after the
// other. It is read column by column and, within a column, by row group.
type sheet struct {
	tables []*table
	groups []rowGroup
}

type rowGroup struct {
	*table
	group int
}

// newSheet joins tables, at least one.
func newSheet(tables ...*table) *sheet {
	t := &sheet{tables: tables}
	for _, one := range tables {
		for g := range one.file.RowGroups() {
			t.groups = append(t.groups, rowGroup{one, g})
		}
	}
	return t
}

// has tells whether every file has the columns.
func (t *sheet) has(names ...string) bool {
	for _, one := range t.tables {
		for _, n := range names {
			if one.file.Root().Column(n) == nil {
				return false
			}
		}
	}
	return true
}

// leaf finds the one leaf below a column; image and lists nest theirs, and an
// image's struct has a path beside its bytes.
func (t *table) leaf(name string) (*parquet.Column, error) {
	c := t.file.Root().Column(name)
	for !c.Leaf() {
		below := c.Columns()
		next := c.Column("bytes")
		if next == nil && len(below) == 1 {
			next = below[0]
		}
		if next == nil {
			return nil, fmt.Errorf("found a group of %d columns, want one column, a list, or an image with its bytes", len(below))
		}
		c = next
	}
	return c, nil
}

// rows gives the first row of each group and, last, how many there are. Nothing
// real compresses a row of width bytes to less than a thousandth of them.
func (t *sheet) rows(width int) ([]int, error) {
	starts := []int{0}
	total := 0
	var size int64
	for _, one := range t.tables {
		size += one.size
	}
	for _, g := range t.groups {
		n := g.file.RowGroups()[g.group].NumRows()
		if n < 0 || n > federated.MaxSamples || total+int(n) > federated.MaxSamples {
			return nil, fmt.Errorf("damaged: %d rows in one group", n)
		}
		total += int(n)
		starts = append(starts, total)
	}
	if total == 0 {
		return nil, errors.New("no row; want at least one sample")
	}
	if int64(total) > size*expansion/int64(width) {
		return nil, fmt.Errorf("damaged: a file of %d bytes claims %d rows of %d bytes", size, total, width)
	}
	return starts, nil
}

// each runs do for every row group on all processors.
func (t *sheet) each(do func(group int) error) error {
	var workers errgroup.Group
	workers.SetLimit(runtime.GOMAXPROCS(0))
	for g := range t.groups {
		workers.Go(func() (err error) {
			defer damaged(&err)
			return do(g)
		})
	}
	return workers.Wait()
}

// values calls f with the values of one column in one row group, in order.
// They are valid during the call only.
func (t *sheet) values(group int, column string, f func(v parquet.Value) error) error {
	g := t.groups[group]
	where := fmt.Sprintf("column %s, row group %d", column, g.group)
	if g.name != "" {
		where = g.name + ": " + where
	}
	c, err := g.leaf(column)
	if err == nil {
		err = g.checkPages(g.group, c.Index())
	}
	if err != nil {
		return fmt.Errorf("%s: %w", where, err)
	}
	pages := g.file.RowGroups()[g.group].ColumnChunks()[c.Index()].Pages()
	defer pages.Close()
	row := 0
	fail := func(err error) error { return fmt.Errorf("%s, value %d: %w", where, row, err) }
	var buffer [512]parquet.Value
	for {
		page, err := pages.ReadPage()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fail(err)
		}
		reader := page.Values()
		for {
			n, err := reader.ReadValues(buffer[:])
			for _, v := range buffer[:n] {
				if err := f(v); err != nil {
					parquet.Release(page)
					return fail(err)
				}
				row++
			}
			if err == io.EOF {
				break
			}
			if err == nil && n == 0 {
				err = io.ErrNoProgress
			}
			if err != nil {
				parquet.Release(page)
				return fail(err)
			}
		}
		parquet.Release(page)
	}
}

// column reads a column of one value per row to dst.
func column[T any](t *sheet, group int, name string, dst []T, value func(v parquet.Value, dst *T) error) error {
	i := 0
	err := t.values(group, name, func(v parquet.Value) error {
		if i == len(dst) {
			return fmt.Errorf("more than the row group's %d rows", len(dst))
		}
		i++
		if v.IsNull() {
			return errors.New("no value (null)")
		}
		return value(v, &dst[i-1])
	})
	if err == nil && i < len(dst) {
		err = fmt.Errorf("column %s, row group %d: %d values for %d rows", name, group, i, len(dst))
	}
	return err
}

// footerSize reads the length field at the end of a Parquet file.
func footerSize(f io.ReaderAt, size int64) (int64, error) {
	var tail [8]byte
	if size < 12 {
		return 0, fmt.Errorf("%d bytes are no Parquet file", size)
	}
	if _, err := f.ReadAt(tail[:], size-8); err != nil {
		return 0, err
	}
	if string(tail[4:]) != "PAR1" {
		return 0, errors.New("truncated Parquet file: it does not end in PAR1")
	}
	n := int64(binary.LittleEndian.Uint32(tail[:4]))
	if n > size-12 {
		return 0, fmt.Errorf("truncated Parquet file: %d bytes cannot hold its footer of %d", size, n)
	}
	return n, nil
}
