package auth

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"
)

// Issued tells one state of the users' files from another.
func (a *Authority) Issued() [sha256.Size]byte {
	h := sha256.New()
	files, _ := filepath.Glob(filepath.Join(a.dir, "users", "*.json")) // the pattern is well formed
	for _, path := range files {
		if info, err := os.Stat(path); err == nil {
			fmt.Fprintln(h, path, info.Size(), info.ModTime().UnixNano())
		}
	}
	return [sha256.Size]byte(h.Sum(nil))
}

// Inside are the credentials of a connection within the server's process; its
// key never leaves memory.
func (a *Authority) Inside() ([]nats.Option, error) {
	pair, err := nkeys.CreateUser()
	if err != nil {
		return nil, fmt.Errorf("bus: make a key: %w", err)
	}
	token, err := a.token(pair, Grant{Role: RoleCoordinator, ID: "inside"})
	if err != nil {
		return nil, err
	}
	return []nats.Option{
		nats.UserJWT(func() (string, error) { return token, nil }, pair.Sign),
		nats.CustomInboxPrefix(InboxPrefix("inside")),
	}, nil
}

// InboxOf is the prefix that credentials allow; "" if they do not limit it.
func InboxOf(creds []byte) (string, error) {
	token, err := jwt.ParseDecoratedJWT(creds)
	if err != nil {
		return "", err
	}
	c, err := jwt.DecodeUserClaims(token)
	if err != nil {
		return "", err
	}
	if exp := c.Expires; exp != 0 && exp < time.Now().Unix() {
		return "", errors.New("they have expired")
	}
	for _, s := range c.Sub.Allow {
		if n := len(s) - len(".>"); n > len(inboxStart) && s[:len(inboxStart)] == inboxStart && s[n:] == ".>" {
			return s[:n], nil
		}
	}
	return "", nil
}
