package data

import (
	"errors"
	"fmt"

	"github.com/parquet-go/parquet-go"

	"fedpace/actors/data/federated"
)

// parquetTable is one Parquet file as a table, whose columns are read one by one.
type parquetTable struct {
	place
	*sheet
	source *federated.Source
	names  []string
}

// newParquetTable opens a Parquet file. The source belongs to the table.
func newParquetTable(of place, s *federated.Source) (*parquetTable, error) {
	one, err := openTable(s.File, s.Size)
	if err != nil {
		return nil, err
	}
	p := &parquetTable{place: of, sheet: newSheet(one), source: s}
	for _, c := range one.Root().Columns() {
		p.names = append(p.names, c.Name())
	}
	if len(p.names) > maxColumns {
		return nil, fmt.Errorf("%d columns, want at most %d", len(p.names), maxColumns)
	}
	return p, nil
}

func (p *parquetTable) columns() []string { return p.names }
func (p *parquetTable) Close() error      { return p.source.File.Close() }

// read goes through the columns, as many at a time as there are processors.
func (p *parquetTable) read(takers map[string]taker, to *reading) error {
	if p.rows == 0 {
		return nil
	}
	if err := p.check(1); err != nil {
		return err
	}
	if err := to.reserve(p.rows); err != nil {
		return err
	}
	var wanted []string
	for _, name := range p.names {
		if takers[name] != nil {
			wanted = append(wanted, name)
		}
	}
	first := to.rows
	err := each(len(wanted), func(i int) (err error) {
		defer damaged(&err)
		return p.each(wanted[i], first, takers[wanted[i]])
	})
	if err == nil {
		to.rows += p.rows
	}
	return err
}

// each hands the values of one column to their taker.
func (p *parquetTable) each(name string, first int, take taker) error {
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
			return take(row, cellOf(v))
		})
		if err == nil && row != until-1 {
			err = fmt.Errorf("column %s, row group %d: %d rows, want %d", name, group.group, row-first-group.start+1, group.rows)
		}
		if err != nil {
			if errors.Is(err, errEnough) {
				return nil
			}
			return err
		}
	}
	return nil
}

// cellOf is a value without its type of Parquet.
func cellOf(v parquet.Value) cell {
	if v.IsNull() {
		return cell{kind: missingCell}
	}
	switch v.Kind() {
	case parquet.Boolean, parquet.Int32, parquet.Int64:
		i, _ := integer(v)
		return cell{kind: wholeCell, whole: i}
	case parquet.Float:
		return cell{kind: realCell, real: float64(v.Float())}
	case parquet.Double:
		return cell{kind: realCell, real: v.Double()}
	case parquet.ByteArray, parquet.FixedLenByteArray:
		return cell{kind: bytesCell, bytes: v.Bytes()}
	}
	return cell{kind: textCell, text: v.String()}
}
