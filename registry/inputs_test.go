package registry

import (
	"reflect"
	"slices"
	"testing"
)

// TestInputs_EveryField changes each field by itself, and those that a later version adds, too: the work is
// another one, and the difference is of that part.
func TestInputs_EveryField(t *testing.T) {
	before := Inputs{
		Settings: []Setting{{"seed", "1"}},
		Files:    []InputFile{{Key: "links", Path: "links.csv", SHA256: "a"}},
		Data:     "a",
		Trainer:  "a",
		Kernel:   "a",
	}
	if d := before.Difference(&before); d != nil {
		t.Errorf("the same work differs: %+v", d)
	}
	for i := range reflect.TypeFor[Inputs]().NumField() {
		name := reflect.TypeFor[Inputs]().Field(i).Name
		now := before
		switch field := reflect.ValueOf(&now).Elem().Field(i); field.Kind() {
		case reflect.String:
			field.SetString("b")
		case reflect.Slice:
			field.SetZero()
		default:
			t.Fatalf("field %s is of a kind that this test does not change", name)
		}
		if d := before.Difference(&now); d == nil || d.Part != Part(i) || len(d.Changes) != 1 {
			t.Errorf("%s changed: %+v, want part %d", name, d, i)
		}
		if d := now.Difference(&before); d == nil || d.Part != Part(i) {
			t.Errorf("%s changed back: %+v", name, d)
		}
	}
}

func TestInputs_Files(t *testing.T) {
	file := func(key, path, digest string) InputFile { return InputFile{key, path, digest} }
	before := Inputs{Files: []InputFile{file("a", "a.csv", "1"), file("b", "b.csv", "2"), file("b", "c.csv", "3")}}
	for _, x := range []struct {
		name string
		now  []InputFile
		want []Change
	}{
		{"moved", []InputFile{file("b", "x.csv", "2"), file("a", "y.csv", "1"), file("b", "z.csv", "3")}, nil},
		{"content", []InputFile{file("a", "a.csv", "9"), file("b", "b.csv", "2"), file("b", "c.csv", "3")}, []Change{{Key: "a", Path: "a.csv", Before: "1", Now: "9"}}},
		{"gone", []InputFile{file("a", "a.csv", "1"), file("b", "b.csv", "2")}, []Change{{Key: "b", Path: "c.csv", Before: "3", HasNone: true}}},
		{"new", append(slices.Clone(before.Files), file("d", "d.csv", "4")), []Change{{Key: "d", Path: "d.csv", Now: "4", HadNone: true}}},
		{"swapped", []InputFile{file("a", "a.csv", "1"), file("b", "b.csv", "3"), file("b", "c.csv", "2")}, []Change{{Key: "b", Path: "b.csv", Before: "2", Now: "3"}, {Key: "b", Path: "c.csv", Before: "3", Now: "2"}}},
	} {
		var got []Change
		if d := before.Difference(&Inputs{Files: x.now}); d != nil {
			got = d.Changes
		}
		if !slices.Equal(got, x.want) {
			t.Errorf("%s: %+v, want %+v", x.name, got, x.want)
		}
	}
}

// own tells its own text, in which one field does not count.
type own struct{ Name, Comment string }

func (o own) Identity() string { return o.Name }

func TestSettingsOf_EveryField(t *testing.T) {
	type inner struct {
		Deep  float64
		Seen  bool
		Inert *int `is:"inert"`
		Out   *int `is:"null,inert,path"`
	}
	type options struct {
		Seed  uint64
		Inner inner
		Own   own
	}
	got := SettingsOf(options{Seed: 7, Inner: inner{Deep: 0.1, Inert: new(int)}, Own: own{"me", "unseen"}})
	want := []Setting{{"Seed", "7"}, {"Inner.Deep", "0.1"}, {"Inner.Seen", "false"}, {"Own", "me"}}
	if !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	for name, value := range map[string]any{
		"not exported": struct{ hidden int }{1},
		"a pointer":    struct{ P *int }{new(int)},
		"a function":   struct{ F func() }{func() {}},
		"a map":        struct{ M map[int]int }{nil},
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: it has a text", name)
				}
			}()
			SettingsOf(value)
		}()
	}
}
