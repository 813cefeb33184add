package parquetfile

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"fedpace/data/datatest"
	"fedpace/data/federated"
	"fedpace/internal/testkit/slow"
)

// writtenColumns is the least number of columns that the packages write, of which every value is
// compared.
const writtenColumns = 2000

// TestPackages_SameValues has PyArrow, pandas, Polars, DuckDB, fastparquet, Hugging Face's datasets
// and Spark write columns of every type that they have, in every encoding and version of pages that they
// write, drawn with runs, wide ranges, few values and nulls. All values are those that the writer itself
// reads back.
func TestPackages_SameValues(t *testing.T) {
	slow.Test(t, "it installs packages from PyPI")
	folder := datatest.PythonPackages(t)
	files := federated.Files(folder, ".parquet")
	columns := 0
	byWriter := map[string][2]int{}
	for _, path := range files {
		n := comparePackage(t, path)
		columns += n
		writer, _, _ := strings.Cut(filepath.Base(path), "-")
		count := byWriter[writer]
		byWriter[writer] = [2]int{count[0] + 1, count[1] + n}
	}
	for writer, count := range byWriter {
		t.Logf("%s: %d files, %d columns", writer, count[0], count[1])
	}
	if columns < writtenColumns || len(byWriter) < 7 {
		t.Errorf("%d columns of %d writers, want at least %d of 7", columns, len(byWriter), writtenColumns)
	}
}

// comparePackage compares all columns of a file with what stands beside it, and returns how many there
// are.
func comparePackage(t *testing.T, path string) int {
	t.Helper()
	var want map[string][]any
	if err := json.Unmarshal(datatest.Read(t, strings.TrimSuffix(path, ".parquet")+".json"), &want); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	file, err := Open(f, info.Size())
	if err != nil {
		t.Errorf("%s: %v", filepath.Base(path), err)
		return 0
	}
	sheet := Join(file)
	for name, values := range want {
		got, err := packageColumn(sheet, name)
		if err != nil {
			t.Errorf("%s: column %s: %v", filepath.Base(path), name, err)
			continue
		}
		for row := range values {
			if row >= len(got) || !sameValue(got[row], values[row]) {
				t.Errorf("%s: column %s, row %d of %d: %v, and the writer reads %v", filepath.Base(path), name, row, len(got), got[min(row, len(got)-1)], values[row])
				break
			}
		}
		if len(got) != len(values) {
			t.Errorf("%s: column %s: %d rows, want %d", filepath.Base(path), name, len(got), len(values))
		}
	}
	return len(want)
}

// packageColumn reads a column into texts as write.py makes them of values, and into lists of such.
func packageColumn(sheet *Sheet, name string) (_ []any, err error) {
	defer Damaged(&err)
	field := sheet.Field(name)
	if field == nil {
		return nil, fmt.Errorf("is absent: %v", sheet.Names())
	}
	rows := make([]any, 0, sheet.Rows)
	err = sheet.Values(name, AnyValues, func(row int, v parquet.Value) error {
		text, err := packageValue(field, v)
		if err != nil {
			return err
		}
		if field.Lists() == 0 {
			rows = append(rows, text)
			return nil
		}
		// Lists in lists are compared by their innermost elements, in order.
		if row == len(rows) {
			rows = append(rows, []any(nil))
		}
		if field.IsElement(v) {
			rows[row] = append(rows[row].([]any), text)
		}
		return nil
	})
	return rows, err
}

// packageValue is a value as write.py says it.
func packageValue(field *Field, v parquet.Value) (any, error) {
	switch {
	case v.IsNull():
		return nil, nil
	case field.IsInteger:
		if n, ok := field.Integer(v); ok {
			return strconv.FormatInt(n, 10), nil
		}
		return strconv.FormatUint(v.Uint64(), 10), nil
	case field.Kind == KindNumber:
		x, err := field.Number(v)
		if math.IsNaN(x) {
			return nil, err
		}
		return fmt.Sprintf("%016x", math.Float64bits(x)), err
	case field.Kind == KindText:
		return "t" + field.Text(v), nil
	case field.Kind == KindBytes:
		return "b" + hex.EncodeToString(v.Bytes()), nil
	}
	return nil, fmt.Errorf("holds %s", field.TypeName())
}

// flat lists the innermost elements of nested lists, in order. An absent list has none.
func flat(value any) (list []any) {
	if value == nil {
		return nil
	}
	elements, isList := value.([]any)
	if !isList {
		return []any{value}
	}
	for _, element := range elements {
		if element == nil {
			list = append(list, nil)
			continue
		}
		list = append(list, flat(element)...)
	}
	return list
}

// sameValue compares a value with what the writer reads. An absent list and an empty one are the same, as
// they are to whoever reads features.
func sameValue(got, want any) bool {
	if _, isList := got.([]any); isList {
		return slices.Equal(flat(got), flat(want))
	}
	return got == want
}
