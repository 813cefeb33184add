package data

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"fedpace/data/datatest"
	"fedpace/data/federated"
	"fedpace/data/table"
	"fedpace/internal/testkit/slow"
)

// pageScripts are the scripts in Python on the page of data, in their order, and those that it leads to.
func pageScripts(t *testing.T) (scripts []string) {
	t.Helper()
	parts := strings.Split(string(datatest.Read(t, "../docs/data.md")), "```python\n")
	for _, part := range parts[1:] {
		script, _, _ := strings.Cut(part, "```\n")
		scripts = append(scripts, script)
	}
	files, err := filepath.Glob("../examples/convert/*.py")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		scripts = append(scripts, string(datatest.Read(t, file)))
	}
	return scripts
}

// pageScript is the only script on the page with a text in it.
func pageScript(t *testing.T, text string) string {
	t.Helper()
	found := slices.DeleteFunc(pageScripts(t), func(s string) bool { return !strings.Contains(s, text) })
	if len(found) != 1 {
		t.Fatalf("%d scripts on the page have %q", len(found), text)
	}
	return found[0]
}

// TestPageScripts_AreShort holds the scripts on the page to ten lines or so, also where none is played.
func TestPageScripts_AreShort(t *testing.T) {
	scripts := pageScripts(t)
	if len(scripts) != 5 {
		t.Errorf("%d scripts", len(scripts))
	}
	for _, script := range scripts {
		if n := strings.Count(script, "\n"); n > 13 {
			t.Errorf("%d lines:\n%s", n, script)
		}
	}
}

// TestPageScripts_MakeReadableFiles plays each script on the page with the real packages, on small inputs
// that they are made for. What fedpace reads of the result is what was put in.
func TestPageScripts_MakeReadableFiles(t *testing.T) {
	slow.Test(t, "it installs packages from PyPI")
	for name, c := range map[string]struct {
		// inputs makes the script's inputs, and in want.json the samples: client, features and label of
		// each, first those to train on.
		inputs string
		// text is in the script alone.
		text string
		// refused is what fedpace says of the inputs themselves, by their path.
		refused map[string]string
		result  string
		mapping table.Table
		needs   []string
	}{
		"save_to_disk": {
			inputs: `
from datasets import ClassLabel, Dataset, Features, Image, Value
import io
import PIL.Image
pixels = np.random.default_rng(1).integers(0, 256, (40, 2, 3, 3), dtype=np.uint8)
features = Features({"client": Value("string"), "image": Image(), "label": ClassLabel(names=["cat", "dog", "eel"])})
rows = {"client": [f"c{i % 2}" for i in range(40)], "image": [PIL.Image.fromarray(p) for p in pixels], "label": [i % 3 for i in range(40)]}
Dataset.from_dict(rows, features=features).save_to_disk("saved")
want = [[rows["client"][i], (pixels[i].transpose(2, 0, 1) / 255).ravel().tolist(), rows["label"][i]] for i in range(40)]
`,
			text:    "load_from_disk",
			refused: map[string]string{"saved": "is a data set that Hugging Face's datasets saved to disk", "saved/data-00000-of-00001.arrow": "is a stream of Arrow"},
			result:  "own.parquet",
			mapping: table.Table{Client: "client", Features: []string{"image.bytes"}, Label: "label"},
		},
		"flwr-datasets": {
			inputs: `
from datasets import Dataset
import os
x = np.random.default_rng(1).normal(size=(120, 2)).astype(np.float32)
rows = {"x": x.tolist(), "label": [i % 4 for i in range(120)]}
os.makedirs("digits")
Dataset.from_dict({k: v[:100] for k, v in rows.items()}).to_parquet("digits/train-00000-of-00001.parquet")
Dataset.from_dict({k: v[100:] for k, v in rows.items()}).to_parquet("digits/test-00000-of-00001.parquet")
want = [["", x[i].tolist(), i % 4] for i in range(120)]
`,
			text:    "flwr_datasets",
			result:  "clients",
			mapping: table.Table{Client: "file", Features: []string{"x"}, Label: "label"},
			needs:   datatest.FlowerPackages,
		},
		"HDF5": {
			inputs: `
import h5py
want = []
for part, n in (("train", 3), ("test", 2)):
    with h5py.File(f"fed_emnist_{part}.h5", "w") as file:
        for client in ("f0000_14", "f0001_41"):
            pixels = np.random.default_rng(n).random((n, 28, 28)).astype(np.float32)
            group = file.create_group(f"examples/{client}")
            group.create_dataset("pixels", data=pixels, compression="gzip")
            group.create_dataset("label", data=np.arange(n, dtype=np.int32))
            want += [[client, p.ravel().tolist(), i] for i, p in enumerate(pixels)]
`,
			text:    "h5py",
			refused: map[string]string{"fed_emnist_train.h5": "is an HDF5 file"},
			result:  "emnist",
			mapping: table.Table{Client: "client", Features: []string{"x"}, Label: "y", Shape: []int{1, 28, 28}},
		},
		"npz": {
			inputs: `
x = np.random.default_rng(1).normal(size=(20, 2, 2))
np.savez("own.npz", client=np.array([f"c{i % 2}" for i in range(20)]), x=x, y=np.arange(20) % 2)
want = [[f"c{i % 2}", x[i].astype(np.float32).ravel().tolist(), i % 2] for i in range(20)]
`,
			text:    "np.load",
			refused: map[string]string{"own.npz": "is arrays of NumPy"},
			result:  "own.parquet",
			mapping: table.Table{Client: "client", Features: []string{"x"}, Label: "y"},
		},
		"CIFAR-10": {
			inputs: `
import os, pickle
os.makedirs("cifar-10-batches-py")
want = []
for name in ("data_batch_1", "data_batch_2", "test_batch"):
    x = np.random.default_rng(len(want)).integers(0, 256, (4, 3072), dtype=np.uint8)
    pickle.dump({b"data": x, b"labels": list(range(4))}, open(f"cifar-10-batches-py/{name}", "wb"))
    want += [["all", (row / 255).tolist(), i] for i, row in enumerate(x)]
`,
			text:    "cifar-10-batches-py",
			refused: map[string]string{"cifar-10-batches-py": "is CIFAR-10's Python version", "cifar-10-batches-py/data_batch_1": "is CIFAR-10's Python version"},
			result:  "cifar10",
			mapping: table.Table{Features: []string{"x"}, Label: "y", Shape: []int{3, 32, 32}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			inputs := "import json\nimport numpy as np\n" + c.inputs + "json.dump(want, open('want.json', 'w'))\n"
			datatest.Put(t, folder, "inputs.py", []byte(inputs))
			datatest.Put(t, folder, "page.py", []byte(pageScript(t, c.text)))
			datatest.Python(t, folder, c.needs, "inputs.py")
			for path, want := range c.refused {
				_, err := Open(filepath.Join(folder, path), federated.Options{})
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("%s: %v, want %s", path, err, want)
				}
			}
			datatest.Python(t, folder, c.needs, "page.py")
			s, err := OpenWith(c.mapping, filepath.Join(folder, c.result), federated.Options{Seed: 1})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			comparePage(t, s, filepath.Join(folder, "want.json"))
		})
	}
}

// comparePage compares the samples of a set with those that a script was given, whatever their order.
// Values that were bytes are compared to the precision of float32. A client that was given without a name
// counts for any.
func comparePage(t *testing.T, s federated.Set, path string) {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var want [][3]any
	if err := json.Unmarshal(content, &want); err != nil {
		t.Fatal(err)
	}
	said := func(client string, x []float32, label int) string {
		if want[0][0] == "" {
			client = ""
		}
		return fmt.Sprintf("%s %.5f %d", client, x, label)
	}
	var wanted, held, found []string
	for _, sample := range want {
		var x []float32
		for _, v := range sample[1].([]any) {
			x = append(x, float32(v.(float64)))
		}
		wanted = append(wanted, said(sample[0].(string), x, int(sample[2].(float64))))
	}
	width := s.Info().Features
	for c := range s.Clients() {
		b := datatest.All(t, s, c)
		for i, label := range b.Labels {
			found = append(found, said(s.Client(c), b.X[i*width:(i+1)*width], int(label)))
		}
	}
	b := datatest.HeldOut(t, s, 0, s.HeldOut())
	for i, label := range b.Labels {
		held = append(held, said("", b.X[i*width:(i+1)*width], int(label)))
	}
	// Which client a held-out sample belongs to is not known to a set.
	for _, sample := range held {
		i := slices.IndexFunc(wanted, func(w string) bool { return strings.HasSuffix(" "+w, sample) })
		if i < 0 {
			t.Errorf("held out: %.80s is none of the samples", sample)
			continue
		}
		wanted = slices.Delete(wanted, i, i+1)
	}
	slices.Sort(wanted)
	slices.Sort(found)
	if !slices.Equal(wanted, found) {
		t.Errorf("%d samples to train on and %d held out are not the %d that were written", len(found), len(held), len(want))
	}
}
