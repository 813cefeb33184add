package config

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"fedpace/internal/registry"
)

// maxText bounds every string of a configuration, in bytes.
const maxText = 4096

// checkTags holds every option of the configuration to its tags, whatever set
// it: limits, words, and texts that can be printed.
func (c *Config) checkTags() error { return checkStruct(reflect.ValueOf(c).Elem(), "") }

func checkStruct(v reflect.Value, path string) error {
	for _, o := range registry.Options(v.Type()) {
		at := join(path, o.Key)
		if o.Flat {
			at = path
		}
		if err := checkOption(&o, v.FieldByIndex(o.Index), at); err != nil {
			return err
		}
	}
	return nil
}

func checkOption(o *registry.Option, v reflect.Value, path string) error {
	for v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface {
		if v.IsNil() {
			if o.Null {
				return nil
			}
			return &KeyError{Key: path, Problem: "is not set (" + o.Help + ")"}
		}
		v = v.Elem()
	}
	switch v.Kind() {
	case reflect.Struct:
		if o.Null && v.IsZero() {
			return nil
		}
		return checkStruct(v, path)
	case reflect.Slice:
		element := *o
		element.Null = false
		for i := range v.Len() {
			if err := checkOption(&element, v.Index(i), fmt.Sprintf("%s[%d]", path, i)); err != nil {
				return err
			}
		}
		return nil
	}
	var wrong *registry.OptionError
	if err := checkValue(o, v); errors.As(err, &wrong) {
		return &KeyError{Key: path, Problem: wrong.Problem}
	}
	return nil
}

// checkValue holds one value to its option's tags.
func checkValue(o *registry.Option, v reflect.Value) error {
	if o.Null && v.IsZero() || o.Word != "" && v.Equal(reflect.ValueOf(o.WordIs).Convert(v.Type())) {
		return nil
	}
	if v.Kind() == reflect.String {
		s := v.String()
		switch {
		case o.Words != nil && !slices.Contains(o.Words, s):
			return registry.Errorf(o.Key, "%s", notA(s, strings.ReplaceAll(o.Key, "_", " "), o.Words))
		case s == "" && o.Path && !o.Null:
			return registry.Errorf(o.Key, "is empty (a path is wanted)")
		case len(s) > maxText:
			return registry.Errorf(o.Key, "a text of %d bytes is too long (at most %d)", len(s), maxText)
		case strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == '\x7f' || r == '\ufffd' }):
			return registry.Errorf(o.Key, "%q holds a character that cannot be printed", s)
		}
		return nil
	}
	own := *o
	own.Null = false
	return own.Check(v)
}
