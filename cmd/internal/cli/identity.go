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
	// identity is the path of the file with the device's private key, 64 hexadecimal digits; empty: the
	// device draws a key at its first task.
	identity string
	// peers is the path of the file with the public keys of all devices, one a line; empty: the device
	// trusts every key.
	peers string
}

// read reads the files of keys and puts the device's private key and its check of the other devices' keys
// into its configuration. It prints the device's public key, which belongs into the other devices' files of
// peers.
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

// maxKeysBytes is the largest size of a file of keys in bytes: a million lines.
const maxKeysBytes = 70 << 20

// readKeys reads a file of keys. A pipe or a device, which may never end, is refused.
func readKeys(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxKeysBytes {
		return nil, fmt.Errorf("%s is no file of at most %d bytes", path, maxKeysBytes)
	}
	return os.ReadFile(path)
}

// readIdentity reads a private key from the file at path. If there is no such file, it draws a key and
// writes the file, which only its owner can read.
func readIdentity(path string) (ed25519.PrivateKey, error) {
	text, err := readKeys(path)
	if errors.Is(err, fs.ErrNotExist) {
		seed := make([]byte, ed25519.SeedSize)
		// Read of crypto/rand never fails.
		rand.Read(seed)
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

// readPeers reads the public keys in the file at path, one a line, and returns them as the keys of a map:
// 32 bytes each, where the file has 64 hexadecimal digits. What follows a key on its line, such as the
// device's name, is for people, and so are lines that begin with #.
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
