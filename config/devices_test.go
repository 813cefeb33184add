package config

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

const boards = "fleet: [{name: pi4, seconds_per_step: 0.2}, {name: phone}, {name: pi5}]\n"

// Devices stand in a list, or in a map that gives each its class; either is written in a
// form that reads back, in the same order.
func TestDevices_Classes(t *testing.T) {
	for _, test := range []struct {
		file    string
		sets    []string
		want    []Device
		written string
	}{
		{"devices: {names: [pi2, pi1]}", nil, []Device{{"pi2", ""}, {"pi1", ""}}, "names: [pi2, pi1]"},
		{boards + "devices:\n  names:\n    pi2: pi4\n    on: pi5\n    pi1:\n", nil, []Device{{"pi2", "pi4"}, {"on", "pi5"}, {"pi1", ""}}, `names: {pi2: pi4, "on": pi5, pi1: null}`},
		{boards + "devices: {names: [pi2, {id: pi1, class: pi5}, {id: pi3}]}", nil, []Device{{"pi2", ""}, {"pi1", "pi5"}, {"pi3", ""}}, "names: {pi2: null, pi1: pi5, pi3: null}"},
		{boards, []string{"fleet=[{name: a}, {name: b}]", "devices.names={pi1: b, pi2: a}"}, []Device{{"pi1", "b"}, {"pi2", "a"}}, "names: {pi1: b, pi2: a}"},
		{boards + "devices: {names: {pi1: pi4}}", []string{"devices.names=[pi3]", "fleet=[]"}, []Device{{"pi3", ""}}, "names: [pi3]"},
		{boards + "devices: {names: {pi1: pi4}}", []string{"devices.names=[]", "fleet=[]"}, nil, "names: []"},
		{"devices: {names: {}}", nil, nil, "names: []"},
	} {
		c, err := fromText(t, test.file, test.sets...)
		if err != nil {
			t.Errorf("%s with %v: %v", test.file, test.sets, err)
			continue
		}
		if !reflect.DeepEqual(c.Devices.Names, test.want) || !slices.Equal(c.Devices.IDs(), ids(test.want)) {
			t.Errorf("%s with %v: the devices are %+v, want %+v", test.file, test.sets, c.Devices.Names, test.want)
		}
		if text := string(c.YAML()); !strings.Contains(text, "  "+test.written+"\n") {
			t.Errorf("%s: it is not written as %s:\n%s", test.file, test.written, text)
		}
		if again, err := Parse("again", c.YAML()); err != nil || !reflect.DeepEqual(again, c) {
			t.Errorf("%s: it reads back as %+v, %v", test.file, again.Devices, err)
		}
	}
}

func ids(list []Device) []string {
	d := Devices{Names: list}
	return d.IDs()
}

func TestDevices_MistakesWithClasses(t *testing.T) {
	for _, test := range []struct{ file, want string }{
		{"devices:\n  names:\n    pi1: pi4\n", `config.yaml:3: devices.names.pi1: "pi4" is no class of devices: fleet has none`},
		{boards + "devices:\n  names:\n    pi1: pi4\n    pi2: p5\n", `config.yaml:5: devices.names.pi2: "p5" is not a class in fleet (did you mean "pi5"?)`},
		{boards + "devices: {names: {pi1: pi4, pi1: pi5}}\n", `config.yaml:2: not YAML: mapping key "pi1" already defined at [2:19]`},
		{boards + "devices: {names: {pi1: {name: pi4}}}\n", `config.yaml:2: devices.names.pi1.class: a map stands where text is wanted`},
		{boards + "devices: {names: {7: pi4, pi5: pi5}}\n", `config.yaml:2: devices.names[0]: device "7" starts with '7', want a letter: numbers are simulated clients`},
		{"batch: 8\nfleet: [{name: pi4, batch: 16}]\ndevices: {names: {pi1: pi4}}\n", `config.yaml:3: devices.names.pi1: class pi4 gives the time of minibatches of 16 samples, and real devices have those of batch, 8 (set batch to 16, or measure the class with 8)`},
		{boards + "devices: {names: pi1}\n", `config.yaml:2: devices.names: "pi1" stands where a list or a map is wanted`},
		{"fleet: [{name: pi4}, {name: a, weight: 1}, {name: b}]\ndevices: {names: {pi1: pi4}}\n", `config.yaml:1: fleet[2].weight: is not set (more than 0 where others have a weight)`},
	} {
		_, err := fromText(t, test.file)
		if err == nil || err.Error() != test.want {
			t.Errorf("%s\n got %v\nwant %s", test.file, err, test.want)
		}
	}
}

// A later file changes an earlier one: its keys count, its lists stand in their place, and
// what it does not set stays.
func TestLoad_SeveralFiles(t *testing.T) {
	write := func(name, text string) string {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		return path
	}
	first := write("exp.yaml", "task: sent140\nclients: 70\ndevices: {names: [pi1, pi2], liveness_seconds: 9}\nfleet: [{name: a}, {name: b}]\nclose: {rule: deadline, seconds: 4}\n")
	second := write("fleet.yaml", "fleet: [{name: pi4}]\ndevices.names: {pi1: pi4}\nclose.seconds: 5\n")
	c, err := LoadFiles([]string{first, second}, []string{"clients=80"})
	if err != nil {
		t.Fatal(err)
	}
	want, err := fromText(t, "task: sent140\nclients: 80\ndevices: {names: {pi1: pi4}, liveness_seconds: 9}\nfleet: [{name: pi4}]\nclose: {rule: deadline, seconds: 5}\n")
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(c, want) {
		t.Errorf("it comes to\n%s\nwant\n%s", c.YAML(), want.YAML())
	}
	if _, err := LoadFiles([]string{first, write("b.yaml", "seed: 1\n\ndevices.names: {pi1: pi4}\n")}, nil); err == nil || !strings.HasSuffix(err.Error(), `b.yaml:3: devices.names.pi1: "pi4" is not a class in fleet (a or b)`) {
		t.Errorf("a class that the other file does not have: %v", err)
	}
	if _, err := Load("own.csv", nil); err == nil || err.Error() != "configuration: own.csv is data; fedpace init own.csv writes a configuration for it" {
		t.Errorf("%v", err)
	}
	if _, err := LoadFiles(slices.Repeat([]string{first}, maxFiles+1), nil); err == nil || !strings.Contains(err.Error(), "17 files (at most 16)") {
		t.Errorf("too many files: %v", err)
	}
}
