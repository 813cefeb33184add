package cli

import (
	"crypto/ed25519"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fedpace/actors/real"
)

// The first start makes a key that its owner alone can read, the next one has the same, and the device
// trusts the keys of the file of peers alone.
func TestSecureKeys_Read(t *testing.T) {
	dir := t.TempDir()
	keys := secureKeys{identity: filepath.Join(dir, "identity")}
	var said []string
	device := real.Config{ID: "d1", Notice: func(line string) { said = append(said, line) }}
	if err := keys.read(&device); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(keys.identity)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file of the key has the mode %v (%v), want 0600", info.Mode(), err)
	}
	again := device
	if err := keys.read(&again); err != nil || !again.Identity.Equal(device.Identity) {
		t.Errorf("the second start has another key (%v)", err)
	}
	public := device.Identity.Public().(ed25519.PublicKey)
	if len(said) != 2 || !strings.Contains(said[0], fmt.Sprintf("%x", public)) {
		t.Errorf("it says %q", said)
	}
	if device.Trust != nil {
		t.Error("without a file of peers it trusts some keys alone")
	}
	keys.peers = filepath.Join(dir, "peers")
	text := fmt.Sprintf("# devices\n\n%x d1\n%064x\n", public, 5)
	if err := os.WriteFile(keys.peers, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := keys.read(&device); err != nil {
		t.Fatal(err)
	}
	stranger := make([]byte, ed25519.PublicKeySize)
	if !device.Trust(1, public) || device.Trust(1, stranger) {
		t.Error("it does not trust its file's keys, or a stranger's")
	}
}

// Files that hold no keys are refused by the name of the flag, with the line.
func TestSecureKeys_Refused(t *testing.T) {
	dir := t.TempDir()
	good := filepath.Join(dir, "good")
	bad := filepath.Join(dir, "bad")
	if err := os.WriteFile(bad, []byte("\nxyz\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, keys := range map[string]secureKeys{
		"--identity: " + bad:       {identity: bad},
		"--peers: " + bad + ":2":   {identity: good, peers: bad},
		"--peers needs --identity": {peers: bad},
		"--peers: stat":            {identity: good, peers: filepath.Join(dir, "none")},
	} {
		err := keys.read(&real.Config{Notice: func(string) {}})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", keys, err, want)
		}
	}
}
