package data

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"fedpace/data/datatest"
	"fedpace/data/federated"
	"fedpace/data/table"
)

// numbersLEAF writes users in LEAF's layout as FedProx's generators do: y and x by user, in this order,
// and classes as 3.0. It returns the inputs by user, too.
func numbersLEAF(t *testing.T, users, samples, features int) (text []byte, inputs map[string][][]float64) {
	t.Helper()
	random := rand.New(rand.NewPCG(1, 2))
	inputs = map[string][][]float64{}
	var names, data []string
	for u := range users {
		name := fmt.Sprintf("f_%05d", u)
		names = append(names, name)
		var labels []string
		for i := range samples {
			var x []float64
			for range features {
				x = append(x, random.NormFloat64())
			}
			inputs[name] = append(inputs[name], x)
			labels = append(labels, fmt.Sprintf("%d.0", (u+i)%5))
		}
		x, err := json.Marshal(inputs[name])
		if err != nil {
			t.Fatal(err)
		}
		data = append(data, fmt.Sprintf(`%q: {"y": [%s], "x": %s}`, name, strings.Join(labels, ", "), x))
	}
	list, err := json.Marshal(names)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Appendf(nil, `{"users": %s, "num_samples": null, "user_data": {%s}}`, list, strings.Join(data, ", ")), inputs
}

// TestLEAF_Numbers reads FedProx's synthetic set and MNIST in LEAF's layout: of no task, they are tables
// with a mapping proposed, and its set has the numbers of the file.
func TestLEAF_Numbers(t *testing.T) {
	for _, features := range []int{60, 784, 3072} {
		t.Run(fmt.Sprint(features, " features"), func(t *testing.T) {
			dir := t.TempDir()
			train, inputs := numbersLEAF(t, 4, 10, features)
			test, _ := numbersLEAF(t, 4, 3, features)
			datatest.Put(t, dir, "train/mytrain.json", train)
			datatest.Put(t, dir, "test/mytest.json", test)
			if !IsTable(dir) {
				t.Error("it is no table of one's own")
			}
			_, err := Open(dir, federated.Options{})
			if err == nil || !strings.Contains(err.Error(), "as a table of numbers it has the columns user, x, y: nothing says what its columns mean") {
				t.Fatal(err)
			}
			p, err := table.Propose(dir, "")
			if err != nil {
				t.Fatal(err)
			}
			if p.Table.Client != "user" || fmt.Sprint(p.Table.Features) != "[x]" || p.Table.Label != "y" {
				t.Fatalf("proposed %+v", p.Table)
			}
			s, err := OpenWith(p.Table, dir, federated.Options{})
			if err != nil {
				t.Fatal(err)
			}
			info := s.Info()
			if s.Clients() != 4 || s.HeldOut() != 12 || info.Features != features || info.Classes != 5 {
				t.Fatalf("%d clients, %d held out, %d features, %d classes", s.Clients(), s.HeldOut(), info.Features, info.Classes)
			}
			for c := range s.Clients() {
				b := datatest.All(t, s, c)
				for i, x := range inputs[s.Client(c)] {
					if int(b.Labels[i]) != (c+i)%5 {
						t.Errorf("client %d, sample %d is of class %d", c, i, b.Labels[i])
					}
					for j, v := range x {
						if got := b.X[i*features+j]; got != float32(v) {
							t.Fatalf("client %d, sample %d: feature %d is %v, want %v", c, i, j, got, v)
						}
					}
				}
			}
		})
	}
}

// TestLEAF_NumbersOfOtherForms has scalars, nested lists and texts.
func TestLEAF_NumbersOfOtherForms(t *testing.T) {
	object := func(x, y string) []byte {
		users := []string{}
		for u := range 3 {
			users = append(users, fmt.Sprintf(`"u%d": {"x": [%s, %s], "y": [%s, %s]}`, u, x, x, y, y))
		}
		return []byte(`{"users": ["u0", "u1", "u2"], "num_samples": [2, 2, 2], "user_data": {` + strings.Join(users, ", ") + `}}`)
	}
	mapping := table.Table{Client: "user", Features: []string{"x"}, Target: []string{"y"}}
	for name, c := range map[string]struct {
		x     string
		shape []int
		want  []float32
	}{
		"one number":   {"2.5", nil, []float32{2.5}},
		"nested lists": {"[[[1, 2], [3, 4]], [[5, 6], [7, 8]], [[9, 10], [11, 12]]]", []int{3, 2, 2}, []float32{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}},
	} {
		t.Run(name, func(t *testing.T) {
			m := mapping
			m.Shape = c.shape
			path := datatest.Put(t, t.TempDir(), "all.json", object(c.x, "0.25"))
			if !IsTable(path) {
				t.Error("it is no table of one's own")
			}
			s, err := OpenWith(m, path, federated.Options{})
			if err != nil {
				t.Fatal(err)
			}
			b := datatest.All(t, s, 0)
			if fmt.Sprint(b.X) != fmt.Sprint(c.want) || b.Targets[0] != 0.25 {
				t.Errorf("%v -> %v", b.X, b.Targets)
			}
		})
	}
	for name, c := range map[string]struct{ content, want string }{
		"lengths that contradict the shape": {string(object("[[1, 2, 3], [4, 5, 6]]", "0.5")), "and the shape wants"},
		"lists of different lengths":        {string(object("[[1, 2], [4]]", "0.5")), "in one list; want equal ones"},
		"a label more":                      {`{"user_data": {"a": {"x": [[1, 2]], "y": [1, 2]}}}`, "x and y have different lengths: one of them ends after 1 samples"},
		"a list as a label":                 {string(object("[1, 2]", "[1, 2]")), "y[0]: a list of 2 values; want one"},
		"no labels":                         {`{"user_data": {"a": {"x": [[1, 2]]}}}`, "has no x or no y"},
		"no list":                           {`{"user_data": {"a": {"x": 3, "y": [1]}}}`, "found 'number', want a list of samples"},
		"truncated":                         {string(object("[1, 2]", "3"))[:100], "truncated"},
		"no users":                          {`{"a": 1}`, `no "user_data"`},
	} {
		t.Run(name, func(t *testing.T) {
			m := mapping
			if strings.Contains(name, "shape") {
				m.Shape = []int{3, 1, 2}
			}
			_, err := OpenWith(m, datatest.Put(t, t.TempDir(), "all.json", []byte(c.content)), federated.Options{})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %s", err, c.want)
			}
		})
	}
}

// TestLEAF_TasksAreNoTables opens FEMNIST's layout as before, and says of a damaged one what is wrong.
func TestLEAF_TasksAreNoTables(t *testing.T) {
	pixels := make([]string, federated.FEMNISTPixels)
	for i := range pixels {
		pixels[i] = fmt.Sprint(float64(i%256) / 255)
	}
	image := "[" + strings.Join(pixels, ",") + "]"
	images := strings.Repeat(image+",", 4) + image
	content := `{"users": ["a"], "num_samples": [5], "user_data": {"a": {"x": [` + images + `], "y": [0, 1, 2, 3, 61]}}}`
	path := datatest.Put(t, t.TempDir(), "all.json", []byte(content))
	s, err := Open(path, federated.Options{})
	if err != nil || s.Info().Name != "femnist (leaf)" || IsTable(path) {
		t.Errorf("%v", err)
	}
	damaged := strings.Replace(content, "[0,", fmt.Sprintf("[%v,", math.Pi), 1)
	path = datatest.Put(t, t.TempDir(), "all.json", []byte(damaged))
	_, err = Open(path, federated.Options{Task: "femnist"})
	if err == nil || !strings.Contains(err.Error(), "pixel 3.14159") || strings.Contains(err.Error(), "columns") {
		t.Errorf("%v", err)
	}
}
