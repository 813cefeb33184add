package bus

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"
)

// revocationEvery is how often a running server looks for revocations.
const revocationEvery = time.Second

// watchRevocations ends what the authority has revoked, connections that are
// open included, until ctx ends.
func (s *Server) watchRevocations(ctx context.Context, resolver server.AccountResolver) {
	tick := time.NewTicker(revocationEvery)
	defer tick.Stop()
	seen := s.authority.issued()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := s.authority.issued()
		if now == seen {
			continue
		}
		if err := s.revoke(resolver); err != nil {
			s.log.Errorf("revocations: %v", err)
			continue
		}
		seen = now
	}
}

// revoke gives the server the accounts as they are now.
func (s *Server) revoke(resolver server.AccountResolver) error {
	c, err := s.authority.accounts()
	if err != nil {
		return err
	}
	_, _, runs, devices, err := s.authority.tokens(c)
	if err != nil {
		return err
	}
	for _, x := range []struct {
		claims *jwt.AccountClaims
		token  string
	}{{c.runs, runs}, {c.devices, devices}} {
		if err := resolver.Store(x.claims.Subject, x.token); err != nil {
			return err
		}
		account, err := s.server.LookupAccount(x.claims.Subject)
		if err != nil {
			return err
		}
		s.server.UpdateAccountClaims(account, x.claims)
	}
	return nil
}

// issued tells one state of the users' files from another.
func (a *Authority) issued() [sha256.Size]byte {
	h := sha256.New()
	files, _ := filepath.Glob(filepath.Join(a.dir, "users", "*.json")) // the pattern is well formed
	for _, path := range files {
		if info, err := os.Stat(path); err == nil {
			fmt.Fprintln(h, path, info.Size(), info.ModTime().UnixNano())
		}
	}
	return [sha256.Size]byte(h.Sum(nil))
}

// inside are the credentials of a connection within the server's process; its
// key never leaves memory.
func (a *Authority) inside(name string) ([]nats.Option, error) {
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

// inboxOf is the prefix that credentials allow; "" if they do not limit it.
func inboxOf(creds []byte) (string, error) {
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
