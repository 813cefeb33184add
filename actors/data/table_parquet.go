package data

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/parquet-go/parquet-go"

	"fedpace/actors/data/federated"
)

// parquetTable is one Parquet file as a table, whose columns are read one by one.
type parquetTable struct {
	place
	*sheet
	source *federated.Source
	fields []field
	names  []string
}

// newParquetTable makes a table of a sheet. The source belongs to the table; nil: the
// sheet's files are somebody else's.
func newParquetTable(of place, t *sheet, s *federated.Source) (*parquetTable, error) {
	p := &parquetTable{place: of, sheet: t, source: s}
	var err error
	if p.fields, err = t.fields(); err != nil {
		return nil, err
	}
	for _, f := range p.fields {
		p.names = append(p.names, f.name)
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
	if p.rows == 0 {
		return nil
	}
	if err := p.check(max(1, len(wanted)/4)); err != nil {
		return err
	}
	if err := to.reserve(p.rows); err != nil {
		return err
	}
	first, errs := to.rows, make([]error, len(wanted))
	_ = each(len(wanted), func(i int) error { // which returns what it has stored
		defer damaged(&errs[i])
		errs[i] = p.each(wanted[i].name, first, wanted[i].take)
		return nil
	})
	to.rows += p.rows
	return cmp.Or(errs...)
}

// each hands the values of one column to their taker.
func (p *parquetTable) each(name string, first int, take taker) error {
	f := &p.fields[slices.Index(p.names, name)]
	if f.kind == kindOther {
		return fmt.Errorf("column %s holds %s; want numbers, text or bytes", name, f.words())
	}
	row := first - 1
	for g, group := range p.groups {
		until := first + group.start + group.rows
		err := p.values(g, name, func(v parquet.Value) error {
			if v.RepetitionLevel() == 0 {
				row++
			}
			if row >= until || row < first {
				return fmt.Errorf("more than the row group's %d rows", group.rows)
			}
			c, err := f.cell(v)
			if err != nil {
				return err
			}
			return take(row, c)
		})
		if err == nil && row != until-1 {
			err = fmt.Errorf("%s: %d rows, want %d", group.where(name), row-first-group.start+1, group.rows)
		}
		if errors.Is(err, errEnough) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// cell is a value without its type of Parquet.
func (f *field) cell(v parquet.Value) (c cell, err error) {
	switch {
	case v.IsNull():
	case f.kind == kindBytes:
		c = cell{kind: bytesCell, bytes: v.Bytes()}
	case f.kind == kindText && !f.uuid:
		c = cell{kind: textCell, text: string(v.Bytes())}
	case f.kind == kindText:
		c.kind = textCell
		c.text, err = f.text(v)
	case f.whole:
		c.kind = wholeCell
		c.whole, err = f.integer(v)
	default:
		c.kind = realCell
		c.real, err = f.number(v)
	}
	return c, err
}
