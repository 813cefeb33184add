package auth_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"

	"fedpace/bus/auth"
)

func TestKeysAreKept(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "keys")
	if _, err := auth.Open(dir); !errors.Is(err, auth.ErrNoAuthority) {
		t.Errorf("got %v", err)
	}
	a, err := auth.New(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"17", "", "a.b", "a b", "é", "_x", strings.Repeat("x", 65)} {
		if _, err := a.Issue(auth.Grant{Role: auth.RoleDevice, ID: id}); err == nil {
			t.Errorf("%q is enrolled", id)
		}
	}
	if _, err := a.Issue(auth.Grant{Role: auth.RoleDevice, ID: "pi"}); err != nil {
		t.Fatal(err)
	}
	err = filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("others may use %s (%v)", path, info.Mode())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	// A server that is running refuses another operator when it reloads.
	operator := func() string {
		text, err := a.ServerConfiguration()
		if err != nil {
			t.Fatal(err)
		}
		_, text, _ = strings.Cut(text, "operator: ")
		line, _, _ := strings.Cut(text, "\n")
		return line
	}
	claims, err := jwt.DecodeOperatorClaims(operator())
	if err != nil {
		t.Fatal(err)
	}
	seed, err := os.ReadFile(filepath.Join(dir, "operator.nk"))
	if err != nil {
		t.Fatal(err)
	}
	key, err := nkeys.FromSeed(bytes.TrimSpace(seed))
	if err != nil {
		t.Fatal(err)
	}
	claims.Tags.Add("earlier")
	earlier, err := claims.Encode(key)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "operator.jwt"), []byte(earlier+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if now := operator(); now != earlier {
		t.Errorf("the operator was %q, is %q", earlier, now)
	}
	if err := os.Chmod(filepath.Join(dir, "runs.nk"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := auth.Open(dir); err == nil || !strings.Contains(err.Error(), "make it 0600") {
		t.Errorf("a seed that others may read: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "operator.nk"), []byte("SUAOOPS\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := auth.Open(dir); err == nil || !strings.Contains(err.Error(), "operator.nk holds no seed") {
		t.Errorf("a broken seed: %v", err)
	}
}
