package table

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/parquet-go/parquet-go"

	"fedpace/actors/data/federated"
	"fedpace/actors/data/internal/source"
	"fedpace/actors/data/parquetfile"
)

// parquetTable is one Parquet file as a table, whose columns are read one by one.
type parquetTable struct {
	place
	*parquetfile.Sheet
	source *federated.Source
	fields []parquetfile.Field
	names  []string
}

// newParquetTable makes a table of a sheet. The source belongs to the table; nil: the
// sheet's files are somebody else's.
func newParquetTable(of place, t *parquetfile.Sheet, s *federated.Source) (*parquetTable, error) {
	p := &parquetTable{place: of, Sheet: t, source: s}
	var err error
	if p.fields, err = t.Fields(); err != nil {
		return nil, err
	}
	for _, f := range p.fields {
		p.names = append(p.names, f.Name)
	}
	if len(p.names) > maxColumns {
		return nil, fmt.Errorf("%d columns, want at most %d", len(p.names), maxColumns)
	}
	return p, nil
}

func (p *parquetTable) columns() []string { return p.names }

func (p *parquetTable) Close() error {
	if p.source == nil {
		return nil
	}
	return p.source.File.Close()
}

// read goes through the columns, as many at a time as there are processors. Of
// several errors it returns that of the first column.
func (p *parquetTable) read(wanted []column, to *reading) error {
	if p.Rows == 0 {
		return nil
	}
	if err := p.Check(max(1, len(wanted)/4)); err != nil {
		return err
	}
	if err := to.reserve(p.Rows); err != nil {
		return err
	}
	first, errs := to.rows, make([]error, len(wanted))
	_ = source.Each(len(wanted), func(i int) error { // which returns what it has stored
		defer parquetfile.Damaged(&errs[i])
		errs[i] = p.each(wanted[i].name, first, wanted[i].take)
		return nil
	})
	to.rows += p.Rows
	return cmp.Or(errs...)
}

// each hands the values of one column to their taker.
func (p *parquetTable) each(name string, first int, take taker) error {
	f := &p.fields[slices.Index(p.names, name)]
	if f.Kind == parquetfile.KindOther {
		return fmt.Errorf("column %s holds %s; want numbers, text or bytes", name, f.Words())
	}
	err := p.Values(name, func(row int, v parquet.Value) error {
		c, err := cellOf(f, v)
		if err != nil {
			return err
		}
		return take(first+row, c)
	})
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

// cellOf is a value without its type of Parquet.
func cellOf(f *parquetfile.Field, v parquet.Value) (c cell, err error) {
	switch {
	case v.IsNull():
	case f.Kind == parquetfile.KindBytes:
		c = cell{kind: bytesCell, bytes: v.Bytes()}
	case f.Kind == parquetfile.KindText && !f.UUID:
		c = cell{kind: textCell, text: string(v.Bytes())}
	case f.Kind == parquetfile.KindText:
		c.kind = textCell
		c.text, err = f.Text(v)
	case f.Whole:
		c.kind = wholeCell
		c.whole, err = f.Integer(v)
	default:
		c.kind = realCell
		c.real, err = f.Number(v)
	}
	return c, err
}

// ReadPlain reads the columns client, x and y, whose labels are whole numbers.
func ReadPlain(t *parquetfile.Sheet, opt federated.Options) (*federated.Grouped, error) {
	file, err := newParquetTable(place{one: true}, t, nil)
	if err != nil {
		return nil, err
	}
	own := Table{Client: "client", Features: []string{"x"}, Label: "y", plain: true}
	return own.read([]tableFile{file}, opt)
}
