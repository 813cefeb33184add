package table

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"fedpace/data/federated"
)

// The columns of LEAF's JSON as a table: whose a sample is, its input and its label.
const (
	leafUser  = "user"
	leafInput = "x"
	leafLabel = "y"
)

// leafTable is a file of LEAF's JSON as a table with a row for each sample: an object whose user_data
// has, for each user, the lists x and y. An input is a number, a text, or a list of numbers, which may
// be nested. The lists users and num_samples are not needed, and are not compared.
type leafTable struct{ place }

// format is the word for files of this kind.
func (l *leafTable) format() string { return "leaf" }

// columns are the same in every file.
func (l *leafTable) columns() []string { return []string{leafUser, leafInput, leafLabel} }

// read goes through the file once, user by user.
func (l *leafTable) read(wanted []column, result *reading) error {
	d := jsontext.NewDecoder(bufio.NewReaderSize(l.source.Content(l.reading), 1<<20))
	found := false
	err := eachMember(d, func(name string) error {
		if name != "user_data" {
			return d.SkipValue()
		}
		found = true
		return eachMember(d, func(user string) error {
			rows, err := readLeafUser(d)
			if err == nil {
				err = rows.handOut(user, wanted, result)
			}
			if err != nil && !errors.Is(err, errStop) {
				return fmt.Errorf("user %.40q: %w", user, err)
			}
			return err
		})
	})
	switch {
	case errors.Is(err, errStop):
		return nil
	case errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("the file ends in the middle: it is truncated")
	case err == nil && !found:
		return errors.New(`no "user_data"; want LEAF's JSON: users, num_samples, user_data.<user>.{x, y}`)
	}
	return err
}

// leafRows are the samples of one user: for each the cells of its input and of its label.
type leafRows struct {
	inputs, labels [][]cell
	// lengths are those of the nested lists of each input, the outermost first.
	lengths [][]int
}

// handOut gives the takers of the wanted columns the rows of a user.
func (l *leafRows) handOut(user string, wanted []column, result *reading) error {
	if len(l.inputs) != len(l.labels) {
		return fmt.Errorf("%d samples in x and %d labels in y", len(l.inputs), len(l.labels))
	}
	for i := range l.inputs {
		if result.rows == federated.MaxSamples {
			return fmt.Errorf("more than %d rows", federated.MaxSamples)
		}
		for _, c := range wanted {
			if err := l.handOutCell(i, user, &c, result.rows); err != nil {
				return err
			}
		}
		result.rows++
	}
	return nil
}

// handOutCell gives a taker its column of sample i, which is a row of the table.
func (l *leafRows) handOutCell(i int, user string, wanted *column, row int) error {
	var cells []cell
	switch wanted.name {
	case leafUser:
		cells = []cell{{kind: textCell, text: user}}
	case leafInput:
		cells = l.inputs[i]
		if wanted.nested != nil && len(l.lengths[i]) > 1 {
			if err := wanted.nested(l.lengths[i]); err != nil {
				return fmt.Errorf("x[%d]: %w", i, err)
			}
		}
	case leafLabel:
		cells = l.labels[i]
	}
	if len(cells) != 1 && !wanted.lists {
		return fmt.Errorf("%s[%d]: a list of %d values; want one (a list may be the only column of features)", wanted.name, i, len(cells))
	}
	for _, c := range cells {
		if err := wanted.take(row, c); err != nil {
			if errors.Is(err, errStop) {
				return err
			}
			return fmt.Errorf("%s[%d]: %w", wanted.name, i, err)
		}
	}
	return nil
}

// readLeafUser decodes the object of one user. x and y may come in any order.
func readLeafUser(d *jsontext.Decoder) (*leafRows, error) {
	rows := new(leafRows)
	err := eachMember(d, func(name string) error {
		switch name {
		case leafInput:
			return eachElement(d, func() error {
				cells, lengths, err := readLeafValue(d)
				rows.inputs = append(rows.inputs, cells)
				rows.lengths = append(rows.lengths, lengths)
				return err
			})
		case leafLabel:
			return eachElement(d, func() error {
				cells, _, err := readLeafValue(d)
				rows.labels = append(rows.labels, cells)
				return err
			})
		}
		return d.SkipValue()
	})
	return rows, err
}

// readLeafValue decodes a number, a text, a null, or a list of these, with the lengths of nested lists.
// Lists in a list have to have equal lengths.
func readLeafValue(d *jsontext.Decoder) (cells []cell, lengths []int, err error) {
	if d.PeekKind() != '[' {
		token, err := d.ReadToken()
		if err != nil {
			return nil, nil, err
		}
		c, err := leafCell(token)
		return []cell{c}, nil, err
	}
	count := 0
	var inner []int
	err = eachElement(d, func() error {
		elements, below, err := readLeafValue(d)
		if err != nil {
			return err
		}
		if count > 0 && fmt.Sprint(below) != fmt.Sprint(inner) {
			return fmt.Errorf("lists of lengths %v and %v in one list; want equal ones", inner, below)
		}
		inner = below
		cells = append(cells, elements...)
		count++
		if len(cells) > maxFeatures {
			return fmt.Errorf("a list of more than %d numbers", maxFeatures)
		}
		return nil
	})
	return cells, append([]int{count}, inner...), err
}

// leafCell is a value of JSON as a cell. A number without a point and an exponent is a whole one.
func leafCell(token jsontext.Token) (cell, error) {
	switch token.Kind() {
	case 'n':
		return cell{}, nil
	case '"':
		return cell{kind: textCell, text: strings.Clone(token.String())}, nil
	case 't':
		return cell{kind: wholeCell, integer: 1}, nil
	case 'f':
		return cell{kind: wholeCell}, nil
	case '0':
		text := token.String()
		if n, err := strconv.ParseInt(text, 10, 64); err == nil {
			return cell{kind: wholeCell, integer: n}, nil
		}
		return cell{kind: realCell, real: token.Float()}, nil
	}
	return cell{}, fmt.Errorf("found '%v', want a number, a text or a list", token.Kind())
}

// eachMember calls member for each member of an object, which decodes its value.
func eachMember(d *jsontext.Decoder, member func(name string) error) error {
	token, err := d.ReadToken()
	if err == nil && token.Kind() != '{' {
		err = fmt.Errorf("byte %d: found '%v', want '{'", d.InputOffset(), token.Kind())
	}
	for err == nil && d.PeekKind() != '}' {
		if token, err = d.ReadToken(); err == nil {
			err = member(strings.Clone(token.String()))
		}
	}
	if err == nil {
		_, err = d.ReadToken()
	}
	return err
}

// eachElement calls element for each element of an array, which decodes it.
func eachElement(d *jsontext.Decoder, element func() error) error {
	token, err := d.ReadToken()
	if err == nil && token.Kind() != '[' {
		err = fmt.Errorf("byte %d: found '%v', want '['", d.InputOffset(), token.Kind())
	}
	for err == nil && d.PeekKind() != ']' {
		err = element()
	}
	if err == nil {
		_, err = d.ReadToken()
	}
	return err
}
