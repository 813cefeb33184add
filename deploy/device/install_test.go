//go:build unix

package device

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// board is a folder in the place of a machine, and an unpacked archive whose program
// only knows its version.
type board struct {
	*testing.T
	root, unpacked, creds string
}

func newBoard(t *testing.T) *board {
	b := &board{t, t.TempDir(), t.TempDir(), ""}
	for _, name := range []string{"install.sh", "fedpace-actor@.service"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		b.put(filepath.Join(b.unpacked, name), string(text))
	}
	b.put(filepath.Join(b.unpacked, "fedpace-device"), "#!/bin/sh\n[ \"$1\" = version ]\n")
	b.creds = filepath.Join(b.unpacked, "pi.creds")
	b.put(b.creds, "secret")
	return b
}

func (b *board) put(path, text string) {
	b.Helper()
	if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
		b.Fatal(err)
	}
}

func (b *board) install(args ...string) (string, error) {
	c := exec.CommandContext(b.Context(), filepath.Join(b.unpacked, "install.sh"), args...)
	c.Env = append(os.Environ(), "DESTDIR="+b.root)
	said, err := c.CombinedOutput()
	return string(said), err
}

func (b *board) must(args ...string) {
	b.Helper()
	if said, err := b.install(args...); err != nil {
		b.Fatalf("%v: %s", err, said)
	}
}

// files are those below the root, with their permissions.
func (b *board) files() map[string]os.FileMode {
	b.Helper()
	files := map[string]os.FileMode{}
	err := filepath.WalkDir(b.root, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		files[strings.TrimPrefix(path, b.root)] = info.Mode().Perm()
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
	return files
}

func (b *board) settings() string {
	b.Helper()
	text, err := os.ReadFile(filepath.Join(b.root, "etc/fedpace/pi.env"))
	if err != nil {
		b.Fatal(err)
	}
	return string(text)
}

func TestInstall_AndRemove(t *testing.T) {
	b := newBoard(t)
	b.must(b.creds, "nats://lab:4222", "synthetic")
	want := map[string]os.FileMode{
		"/etc/fedpace/pi.creds": 0o600, "/etc/fedpace/pi.env": 0o644,
		"/etc/systemd/system/fedpace-actor@.service": 0o644, "/usr/local/bin/fedpace-device": 0o755,
	}
	got := b.files()
	for path, mode := range want {
		if got[path] != mode {
			t.Errorf("%s has mode %#o, want %#o", path, got[path], mode)
		}
	}
	if len(got) != len(want) {
		t.Errorf("it leaves %v", got)
	}
	before := b.settings()
	if want := "FEDPACE_NATS=nats://lab:4222\nFEDPACE_DATA=synthetic\nFEDPACE_WITHHOLD=\nFEDPACE_CA=\n"; before != want {
		t.Errorf("settings %q, want %q", before, want)
	}

	b.must(b.creds) // an upgrade
	if after := b.settings(); after != before {
		t.Errorf("an upgrade makes the settings %q", after)
	}
	b.must("--withhold", "loss", b.creds, "nats://lab:4222")
	if after := b.settings(); !strings.Contains(after, "FEDPACE_WITHHOLD=loss\n") {
		t.Errorf("what is withheld is not in the settings %q", after)
	}
	b.put(filepath.Join(b.unpacked, "ca.pem"), "public")
	b.must(b.creds, "tls://lab:4222") // it encrypts from now on, and withholds as before
	if after := b.settings(); !strings.Contains(after, "FEDPACE_WITHHOLD=loss\n") {
		t.Errorf("another URL makes the settings %q", after)
	}
	b.must("--withhold", "nothing", b.creds, "tls://lab:4222")
	if want := "FEDPACE_NATS=tls://lab:4222\nFEDPACE_DATA=synthetic\nFEDPACE_WITHHOLD=\nFEDPACE_CA=/etc/fedpace/pi.ca.pem\n"; b.settings() != want || b.files()["/etc/fedpace/pi.ca.pem"] != 0o644 {
		t.Errorf("settings %q of files %v, want %q", b.settings(), b.files(), want)
	}
	b.must("--remove", "pi")
	if left := b.files(); len(left) != 0 {
		t.Errorf("%v stay behind", left)
	}
}

// Another device's files stay, and so does the program that it needs.
func TestRemove_LeavesOthers(t *testing.T) {
	b := newBoard(t)
	other := filepath.Join(b.unpacked, "other.creds")
	b.put(other, "secret")
	b.must(b.creds, "nats://lab:4222")
	b.must(other, "nats://lab:4222")
	b.must("--remove", "pi")
	if got := b.files(); len(got) != 4 || got["/etc/fedpace/other.creds"] == 0 || got["/usr/local/bin/fedpace-device"] == 0 {
		t.Errorf("left are %v", got)
	}
}

func TestInstall_MistakesChangeNothing(t *testing.T) {
	b := newBoard(t)
	named := filepath.Join(b.unpacked, "9.creds")
	b.put(named, "secret")
	for want, args := range map[string][]string{
		"want a file of credentials":  nil,
		"none.creds cannot be read":   {"none.creds", "nats://lab:4222"},
		"9 is no device's name":       {named, "nats://lab:4222"},
		"the server's URL is missing": {b.creds},
		"cannot see /home/me/x.csv":   {b.creds, "nats://lab:4222", "/home/me/x.csv"},
		"/nowhere.csv does not exist": {b.creds, "nats://lab:4222", "/nowhere.csv"},
		"give the whole path":         {b.creds, "nats://lab:4222", "x.csv"},
		"want samples, loss":          {"--withhold", "labels", b.creds, "nats://lab:4222"},
		"--withhold belongs to":       {"--withhold", "loss", b.creds},
		"no device typo is installed": {"--remove", "typo"},
		"../x is no device's name":    {"--remove", "../x"},
		"want --remove and the name":  {"--remove"},
	} {
		if said, err := b.install(args...); err == nil || !strings.Contains(said, want) {
			t.Errorf("%v: %v, %s, want %q", args, err, said, want)
		}
	}
	b.put(filepath.Join(b.unpacked, "fedpace-device"), "#!/bin/sh\nexit 126\n")
	if said, err := b.install(b.creds, "nats://lab:4222"); err == nil || !strings.Contains(said, "another architecture") {
		t.Errorf("a program that does not run: %v, %s", err, said)
	}
	if left := b.files(); len(left) != 0 {
		t.Errorf("they leave %v", left)
	}
}

// The service reads what install.sh writes.
func TestInstall_ServiceSettings(t *testing.T) {
	unit, err := os.ReadFile("fedpace-actor@.service")
	if err != nil {
		t.Fatal(err)
	}
	script, err := os.ReadFile("install.sh")
	if err != nil {
		t.Fatal(err)
	}
	used := regexp.MustCompile(`\$\{(FEDPACE_\w+)\}`).FindAllStringSubmatch(string(unit), -1)
	if len(used) != 4 {
		t.Errorf("the service uses %v", used)
	}
	for _, m := range used {
		if !strings.Contains(string(script), m[1]+"=%s") {
			t.Errorf("install.sh does not write %s", m[1])
		}
	}
	for _, path := range []string{"/etc/fedpace/%i.env", "/etc/fedpace/%i.creds", "/usr/local/bin/fedpace-device"} {
		if !strings.Contains(string(unit), path) {
			t.Errorf("the service does not name %s", path)
		}
	}
}
