package main

import (
	"archive/zip"
	"bytes"
	"cmp"
	"compress/flate"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// tags are the platforms of wheels, by that of a binary (PEP 600, PEP 656). A static binary needs
// no C library, so one wheel is for glibc and for musl. Go 1.26 needs macOS 12.
var tags = map[string][]string{
	"linux-amd64":   {"manylinux_2_17_x86_64", "manylinux2014_x86_64", "musllinux_1_1_x86_64"},
	"linux-arm64":   {"manylinux_2_17_aarch64", "manylinux2014_aarch64", "musllinux_1_1_aarch64"},
	"linux-armv7":   {"manylinux_2_17_armv7l", "manylinux2014_armv7l", "musllinux_1_1_armv7l"},
	"darwin-arm64":  {"macosx_12_0_arm64"},
	"darwin-amd64":  {"macosx_12_0_x86_64"},
	"windows-amd64": {"win_amd64"},
}

// described is what git describe gives: a tag, perhaps commits since then with a hash; or a hash
// alone.
var described = regexp.MustCompile(`^(?:v?(\d+(?:\.\d+)*)(?:-(\d+)-g([0-9a-f]+))?|([0-9a-f]{7,40}))(-dirty)?$`)

// pep440 turns a version of git describe into one by PEP 440: commits after a tag are a
// post-release with the hash as its local part, and a hash alone is a development version of 0.
// What is neither, such as "development", is 0.dev0. Uncommitted changes are marked as dirty in the
// local part.
func pep440(version string) string {
	m := described.FindStringSubmatch(version)
	if m == nil {
		return "0.dev0"
	}
	// Groups of the expression that matched nothing are empty.
	tag, commits, hash, bare, dirty := m[1], m[2], m[3], m[4], m[5]
	local := ""
	switch {
	case bare != "":
		tag = "0.dev0"
		local = "+g" + bare
	case commits != "":
		tag += ".post" + commits
		local = "+g" + hash
	}
	// A local part begins with a plus sign, and its further words follow points.
	if dirty != "" && local == "" {
		local = "+dirty"
	} else if dirty != "" {
		local += ".dirty"
	}
	return tag + local
}

// builder makes the wheels of one version, one for each binary, from the same Python package and
// licence.
type builder struct {
	// version is by PEP 440.
	version string
	// python is the folder of the package, and licence the file of the licence.
	python, licence string
	// out is the folder for the wheels.
	out string
}

// file is an entry of a wheel, which is a zip archive: its name with slashes, its permissions, and
// its content.
type file struct {
	name string
	mode os.FileMode
	data []byte
}

// build makes the wheel of the binary at a path, whose name ends with its platform (such as
// fedpace-linux-amd64), and returns the path of the wheel. A platform that has no tags is an error.
func (b *builder) build(binary string) (string, error) {
	// The name of the binary tells its platform, such as linux-amd64.
	platform, _ := strings.CutPrefix(strings.TrimSuffix(filepath.Base(binary), ".exe"), "fedpace-")
	platforms, known := tags[platform]
	if !known {
		return "", fmt.Errorf("%s: no wheel is for the platform %q", binary, platform)
	}
	files, err := b.files(binary, platforms)
	if err != nil {
		return "", err
	}
	archive, err := zipped(files)
	if err != nil {
		return "", err
	}
	// PEP 427 gives the form of the name: version, Python, ABI and platforms.
	name := fmt.Sprintf("fedpace-%s-py3-none-%s.whl", b.version, strings.Join(platforms, "."))
	path := filepath.Join(b.out, name)
	if err := os.MkdirAll(b.out, 0o755); err != nil {
		return "", err
	}
	return path, os.WriteFile(path, archive, 0o644)
}

// files returns the entries of a wheel in their order: the Python package, the binary as a script,
// then what describes them. RECORD is the last one and has the digests of the others (PEP 427).
// platforms are the tags of the platforms on which the binary runs.
func (b *builder) files(binary string, platforms []string) (files []file, err error) {
	about := "fedpace-" + b.version + ".dist-info/"
	// What lies in this folder is installed on the user's path, with the permission to execute.
	script := "fedpace-" + b.version + ".data/scripts/fedpace"
	if strings.HasSuffix(binary, ".exe") {
		script += ".exe"
	}
	// An empty folder would make a wheel without its package.
	modules, err := filepath.Glob(filepath.Join(b.python, "fedpace", "*.py"))
	if err == nil && len(modules) == 0 {
		err = fmt.Errorf("%s: no package fedpace is there", b.python)
	}
	if err != nil {
		return nil, err
	}
	// After the first error nothing more is read; err is looked at after the last.
	add := func(name string, mode os.FileMode, path string) {
		if err != nil {
			return
		}
		var data []byte
		data, err = os.ReadFile(path)
		files = append(files, file{name, mode, data})
	}
	for _, path := range modules {
		add("fedpace/"+filepath.Base(path), 0o644, path)
	}
	add(script, 0o755, binary)
	add(about+"licenses/LICENSE", 0o644, b.licence)
	// The list of what is in the binary goes with it, where it has been made (PEP 770).
	if bill := binary + ".cdx.json"; exists(bill) {
		add(about+"sboms/fedpace.cdx.json", 0o644, bill)
	}
	readme, readErr := os.ReadFile(filepath.Join(b.python, "README.md"))
	err = cmp.Or(err, readErr)
	if err != nil {
		return nil, err
	}
	// These are written here, as they depend on the version and the platform.
	files = append(files,
		file{about + "METADATA", 0o644, fmt.Appendf(nil, metadata, b.version, readme)},
		file{about + "WHEEL", 0o644, wheelFile(platforms)},
	)
	// RECORD cannot have its own digest, so its line is left open.
	var record strings.Builder
	for _, f := range files {
		sum := sha256.Sum256(f.data)
		fmt.Fprintf(&record, "%s,sha256=%s,%d\n", f.name, base64.RawURLEncoding.EncodeToString(sum[:]), len(f.data))
	}
	fmt.Fprintf(&record, "%sRECORD,,\n", about)
	return append(files, file{about + "RECORD", 0o644, []byte(record.String())}), nil
}

// wheelFile returns the text of WHEEL, the entry that tells an installer on which platforms the
// wheel may be installed. The tag none says that any ABI of Python 3 will do.
func wheelFile(platforms []string) []byte {
	text := []byte("Wheel-Version: 1.0\nGenerator: fedpace\nRoot-Is-Purelib: false\n")
	for _, p := range platforms {
		text = fmt.Appendf(text, "Tag: py3-none-%s\n", p)
	}
	return text
}

// metadata is the text of METADATA, which describes the package to installers, with places for the
// version and for the description in Markdown.
const metadata = `Metadata-Version: 2.4
Name: fedpace
Version: %s
Summary: fedpace, the simulator of federated learning: the program, trainers and policies, results of runs
License-Expression: Apache-2.0
License-File: LICENSE
Requires-Python: >=3.9
Requires-Dist: numpy
Provides-Extra: results
Requires-Dist: pandas; extra == "results"
Requires-Dist: pyarrow; extra == "results"
Requires-Dist: pyyaml; extra == "results"
Provides-Extra: torch
Requires-Dist: torch>=1.13; extra == "torch"
Description-Content-Type: text/markdown

%s`

// exists reports whether there is a file at this path that can be looked at.
func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// earliest is the first time that a zip archive can hold, the beginning of 1980, in seconds since
// 1970.
const earliest = 315532800

// zipped returns a zip archive of the files in their order. All of them get the time of
// SOURCE_DATE_EPOCH, or 1980 if it is not set, so that the same files always make the same bytes.
func zipped(files []file) ([]byte, error) {
	// A variable that is not set counts as 0 seconds.
	seconds, _ := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64)
	var archive bytes.Buffer
	z := zip.NewWriter(&archive)
	// The binary is large, and a wheel is made once and downloaded often.
	z.RegisterCompressor(zip.Deflate, func(w io.Writer) (io.WriteCloser, error) {
		return flate.NewWriter(w, flate.BestCompression)
	})
	for _, f := range files {
		header := &zip.FileHeader{
			Name:     f.name,
			Method:   zip.Deflate,
			Modified: time.Unix(max(seconds, earliest), 0).UTC(),
		}
		header.SetMode(f.mode)
		w, err := z.CreateHeader(header)
		if err != nil {
			return nil, err
		}
		if _, err := w.Write(f.data); err != nil {
			return nil, err
		}
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	return archive.Bytes(), nil
}
