package table

import (
	"bufio"
	"bytes"
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

// leafTable is a JSON file of the LEAF benchmark, read as a table with one row for each sample. The
// file is an object whose user_data has, for each user, the lists x and y. An input is a number, a
// text, or a list of numbers that may be nested. The lists users and num_samples are neither needed
// nor checked.
type leafTable struct{ openFile }

// format returns the word for files of this kind.
func (l *leafTable) format() string { return "leaf" }

// columns returns the names of the columns, which are the same in every file.
func (l *leafTable) columns() []string { return []string{leafUser, leafInput, leafLabel} }

// read goes through the file once, user by user, and hands the wanted columns of each sample to
// their takers. It advances result.rows by the number of samples. A taker's errStop ends the
// reading without an error. A file without user_data is an error.
func (l *leafTable) read(wanted []column, result *reading) error {
	d := jsontext.NewDecoder(bufio.NewReaderSize(l.source.Content(l.reading), 1<<20))
	found := false
	err := eachMember(d, func(name string) error {
		// Members may come in any order, and only one of them has samples.
		if name != "user_data" {
			return d.SkipValue()
		}
		found = true
		return eachMember(d, func(user string) error {
			rows, err := readLeafUser(d)
			if err == nil {
				// Only the samples of one user are in memory at a time.
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
	// An interrupted download often ends in the middle.
	case errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("the file ends in the middle: it is truncated")
	case err == nil && !found:
		return errors.New(`no "user_data"; want LEAF's JSON: users, num_samples, user_data.<user>.{x, y}`)
	}
	return err
}

// leafRows are the lists x and y of one user, still encoded as JSON. Decoded cells of a user with
// many samples would take many times the memory.
type leafRows struct{ inputs, labels jsontext.Value }

// readLeafUser reads the object of one user and returns its lists x and y, which may come in any
// order. Other members are skipped; it is an error if one of the lists is missing.
func readLeafUser(d *jsontext.Decoder) (*leafRows, error) {
	rows := new(leafRows)
	err := eachMember(d, func(name string) error {
		switch name {
		case leafInput:
			return keepValue(d, &rows.inputs)
		case leafLabel:
			return keepValue(d, &rows.labels)
		}
		return d.SkipValue()
	})
	if err == nil && (rows.inputs == nil || rows.labels == nil) {
		err = errors.New("has no x or no y")
	}
	return rows, err
}

// keepValue copies the next JSON value, which must be a list, to value. The copy stays valid when
// the decoder reads on.
func keepValue(d *jsontext.Decoder, value *jsontext.Value) error {
	if kind := d.PeekKind(); kind != '[' && kind != 0 {
		return fmt.Errorf("byte %d: found '%v', want a list of samples", d.InputOffset(), kind)
	}
	read, err := d.ReadValue()
	*value = read.Clone()
	return err
}

// handOut decodes the samples of the user one after another and hands the wanted columns of each to
// their takers. Each sample is the row result.rows, which then grows by one. It is an error if x
// and y have different lengths.
func (l *leafRows) handOut(user string, wanted []column, result *reading) error {
	inputs := jsontext.NewDecoder(bytes.NewReader(l.inputs))
	labels := jsontext.NewDecoder(bytes.NewReader(l.labels))
	// The beginnings of both lists are known to be there.
	_, err := inputs.ReadToken()
	_, labelErr := labels.ReadToken()
	if err := errors.Join(err, labelErr); err != nil {
		return err
	}
	// Both lists are read in step, until both end.
	for i := 0; ; i++ {
		inputsEnd := inputs.PeekKind() == ']'
		labelsEnd := labels.PeekKind() == ']'
		if inputsEnd && labelsEnd {
			return nil
		}
		if inputsEnd || labelsEnd {
			return fmt.Errorf("x and y have different lengths: one of them ends after %d samples", i)
		}
		if result.rows == federated.MaxSamples {
			return fmt.Errorf("more than %d rows", federated.MaxSamples)
		}
		sample := leafSample{user: user, number: i}
		sample.input, sample.lengths, err = readLeafValue(inputs)
		if err != nil {
			return fmt.Errorf("x[%d]: %w", i, err)
		}
		sample.label, _, err = readLeafValue(labels)
		if err != nil {
			return fmt.Errorf("y[%d]: %w", i, err)
		}
		for _, c := range wanted {
			if err := sample.handOut(&c, result.rows); err != nil {
				return err
			}
		}
		result.rows++
	}
}

// leafSample is one sample of a user, which is one row of the table.
type leafSample struct {
	// user is the name of the client that owns the sample.
	user string
	// number counts the user's samples from 0.
	number int
	// input and label have the values of x and y, with nested lists flattened.
	input, label []cell
	// lengths are those of the input's nested lists, the outermost first.
	lengths []int
}

// handOut hands the values of the wanted column to its taker, as those of the given row. A list is
// an error where the column may not have lists. Errors name the sample by its position, as in x[3];
// errStop is returned as it is.
func (s *leafSample) handOut(wanted *column, row int) error {
	var cells []cell
	switch wanted.name {
	case leafUser:
		cells = []cell{{kind: textCell, text: s.user}}
	case leafInput:
		cells = s.input
		// The lengths of nested lists are checked against the shape of an image.
		if wanted.takeLengths != nil && len(s.lengths) > 1 {
			if err := wanted.takeLengths(s.lengths); err != nil {
				return fmt.Errorf("x[%d]: %w", s.number, err)
			}
		}
	case leafLabel:
		cells = s.label
	}
	if len(cells) != 1 && !wanted.mayHaveLists {
		return fmt.Errorf(
			"%s[%d]: a list of %d values; want one (a list may be the only column of features)",
			wanted.name,
			s.number,
			len(cells),
		)
	}
	for _, c := range cells {
		err := wanted.take(row, c)
		if errors.Is(err, errStop) {
			return err
		}
		if err != nil {
			return fmt.Errorf("%s[%d]: %w", wanted.name, s.number, err)
		}
	}
	return nil
}

// readLeafValue decodes the next number, text, null or list, and returns its values in order, with
// nested lists flattened. lengths has the lengths of the nested lists, the outermost first; it is
// nil for a value that is no list. Lists within one list must have equal lengths.
func readLeafValue(d *jsontext.Decoder) (cells []cell, lengths []int, err error) {
	if d.PeekKind() != '[' {
		token, err := d.ReadToken()
		if err != nil {
			return nil, nil, err
		}
		c, err := leafCell(token)
		return []cell{c}, nil, err
	}
	// A list: its elements are read by the same function, which returns the lengths below.
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

// leafCell converts a JSON value that is no list to a cell. null is a missing value, true and false
// are 1 and 0, and a number without a point and an exponent is a whole one.
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
	// The decoder's kind of all numbers is '0'.
	case '0':
		text := token.String()
		if n, err := strconv.ParseInt(text, 10, 64); err == nil {
			return cell{kind: wholeCell, integer: n}, nil
		}
		n, err := token.Float()
		return cell{kind: realCell, real: n}, err
	}
	return cell{}, fmt.Errorf("found '%v', want a number, a text or a list", token.Kind())
}

// eachMember reads the next value of d, which must be an object. It calls member with the name of
// each member, whose value member must decode or skip. It stops at the first error.
func eachMember(d *jsontext.Decoder, member func(name string) error) error {
	token, err := d.ReadToken()
	if err == nil && token.Kind() != '{' {
		err = fmt.Errorf("byte %d: found '%v', want '{'", d.InputOffset(), token.Kind())
	}
	for err == nil && d.PeekKind() != '}' {
		token, err = d.ReadToken()
		if err == nil {
			err = member(strings.Clone(token.String()))
		}
	}
	if err == nil {
		_, err = d.ReadToken()
	}
	return err
}

// eachElement reads the next value of d, which must be an array. It calls element once for each
// element, which element must decode. It stops at the first error.
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
