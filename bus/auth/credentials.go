package auth

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats.go"
)

// Issued tells one state of the users' files from another.
func (a *Authority) Issued() (state string) {
	for _, path := range a.userFiles() {
		if info, err := os.Stat(path); err == nil {
			state += fmt.Sprintln(path, info.Size(), info.ModTime().UnixNano())
		}
	}
	return state
}

// Inside are the credentials of a connection within the server's process; its
// key never leaves memory.
func (a *Authority) Inside() ([]nats.Option, error) {
	_, creds, err := a.newUser(Grant{Role: RoleCoordinator, ID: "inside"})
	return []nats.Option{nats.UserCredentialBytes(creds), nats.CustomInboxPrefix(InboxPrefix("inside"))}, err
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
		if prefix, ok := strings.CutSuffix(s, ".>"); ok && strings.HasPrefix(prefix, inboxStart) && prefix != inboxStart {
			return prefix, nil
		}
	}
	return "", nil
}
