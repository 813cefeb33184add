package cli

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"fedpace/actors/real"
)

// secureKeys are the files of keys by which devices know each other in secure aggregation, so that a
// coordinator cannot invent members.
type secureKeys struct {
	// identity holds the device's private key as 64 hexadecimal digits, and peers the public keys of all
	// devices, one a line.
	identity string
	peers    string
}

// read gives the device its key and the keys that it trusts. Its own public key is told, for the files of
// the others.
func (k *secureKeys) read(device *real.Config) (err error) {
	if k.identity != "" {
		device.Identity, err = readIdentity(k.identity)
		if err != nil {
			return err
		}
		device.Notice(fmt.Sprintf("Key of %s in secure aggregation: %x", device.ID, device.Identity.Public()))
	}
	if k.peers == "" {
		return nil
	}
	if device.Identity == nil {
		return errors.New("--peers needs --identity: a key that is drawn anew is in nobody's file")
	}
	known, err := readPeers(k.peers)
	if err != nil {
		return err
	}
	device.Trust = func(_ uint32, identity []byte) bool { return known[string(identity)] }
	return nil
}

// mostKeys is the largest size of a file of keys in bytes: a million lines.
const mostKeys = 70 << 20

// readKeys reads a file of keys. A pipe or a device, which may never end, is refused.
func readKeys(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > mostKeys {
		return nil, fmt.Errorf("%s is no file of at most %d bytes", path, mostKeys)
	}
	return os.ReadFile(path)
}

// readIdentity reads a private key, or makes one in a file that only its owner can read.
func readIdentity(path string) (ed25519.PrivateKey, error) {
	text, err := readKeys(path)
	if errors.Is(err, fs.ErrNotExist) {
		seed := make([]byte, ed25519.SeedSize)
		rand.Read(seed) // it never fails
		const owner = 0o600
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, owner)
		if err != nil {
			return nil, fmt.Errorf("--identity: %w", err)
		}
		_, err = fmt.Fprintf(f, "%x\n", seed)
		err = errors.Join(err, f.Close())
		if err != nil {
			return nil, fmt.Errorf("--identity: %w", err)
		}
		return ed25519.NewKeyFromSeed(seed), nil
	}
	if err != nil {
		return nil, fmt.Errorf("--identity: %w", err)
	}
	seed, err := hex.DecodeString(strings.TrimSpace(string(text)))
	if err != nil || len(seed) != ed25519.SeedSize {
		return nil, fmt.Errorf("--identity: %s holds no key: want 64 hexadecimal digits", path)
	}
	return ed25519.NewKeyFromSeed(seed), nil
}

// readPeers reads public keys of 64 hexadecimal digits, one a line. What follows a key on its line, such as
// the device's name, is for people, and so are lines that begin with #.
func readPeers(path string) (map[string]bool, error) {
	text, err := readKeys(path)
	if err != nil {
		return nil, fmt.Errorf("--peers: %w", err)
	}
	known := map[string]bool{}
	number := 0
	for line := range strings.Lines(string(text)) {
		number++
		word, _, _ := strings.Cut(strings.TrimSpace(line), " ")
		if word == "" || strings.HasPrefix(word, "#") {
			continue
		}
		key, err := hex.DecodeString(word)
		if err != nil || len(key) != ed25519.PublicKeySize {
			return nil, fmt.Errorf("--peers: %s:%d: no key: want 64 hexadecimal digits", path, number)
		}
		known[string(key)] = true
	}
	return known, nil
}
