package data

import (
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/go-json-experiment/json/jsontext"
)

// jsonReader reads JSON as a stream, for files of many megabytes of numbers:
// nothing is kept that the caller does not keep.
type jsonReader struct{ *jsontext.Decoder }

func newJSON(r io.Reader) *jsonReader { return &jsonReader{jsontext.NewDecoder(r)} }

// fail is an error at the place reached.
func (d *jsonReader) fail(format string, args ...any) error {
	return fmt.Errorf("byte %d: %w", d.InputOffset(), fmt.Errorf(format, args...))
}

// next reads a token, which is valid until the next call.
func (d *jsonReader) next(want jsontext.Kind) (jsontext.Token, error) {
	t, err := d.ReadToken()
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return t, fmt.Errorf("byte %d: the file ends in the middle: it is truncated", d.InputOffset()+int64(len(d.UnreadBuffer())))
	case err != nil:
		return t, err
	case t.Kind() != want:
		return t, d.fail("found '%v', want '%v'", t.Kind(), want)
	}
	return t, nil
}

// object calls member for each key; member takes the value.
func (d *jsonReader) object(member func(key string) error) error {
	_, err := d.next('{')
	for err == nil && d.PeekKind() != '}' {
		var key string
		if key, err = d.text(maxName); err == nil {
			err = member(key)
		}
	}
	if err == nil {
		_, err = d.next('}')
	}
	return err
}

// array calls element for each element, which takes it.
func (d *jsonReader) array(element func(i int) error) error {
	_, err := d.next('[')
	for i := 0; err == nil && d.PeekKind() != ']'; i++ {
		err = element(i)
	}
	if err == nil {
		_, err = d.next(']')
	}
	return err
}

func (d *jsonReader) text(limit int) (string, error) {
	t, err := d.next('"')
	if err != nil {
		return "", err
	}
	text := t.String()
	if len(text) > limit {
		return "", d.fail("a string of more than %d bytes", limit)
	}
	return text, nil
}

func (d *jsonReader) number() (float64, error) {
	t, err := d.next('0')
	if err != nil {
		return 0, err
	}
	return t.Float(), nil
}

func (d *jsonReader) integer() (int64, error) {
	v, err := d.number()
	if err == nil && (v != math.Trunc(v) || math.Abs(v) > 1<<53) {
		err = d.fail("found %v, want an integer", v)
	}
	return int64(v), err
}

// end checks that nothing follows.
func (d *jsonReader) end() error {
	if t, err := d.ReadToken(); err == nil {
		return d.fail("found '%v' after the end", t.Kind())
	} else if err != io.EOF {
		return err
	}
	return nil
}
