package embedded

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"

	"fedpace/bus/auth"
)

// secure makes a server's options ask for the authority's credentials.
func secure(o *server.Options, a *auth.Authority) error {
	c, err := a.Accounts()
	if err != nil {
		return err
	}
	resolver := &server.MemAccResolver{}
	for _, x := range []auth.Account{c.System, c.Runs, c.Devices} {
		if err := resolver.Store(x.Subject, x.Token); err != nil {
			return fmt.Errorf("bus: accounts: %w", err)
		}
	}
	o.TrustedOperators = []*jwt.OperatorClaims{c.Operator}
	o.SystemAccount, o.NoSystemAccount = c.System.Subject, false
	o.AccountResolver = resolver
	return nil
}

// revocationEvery is how often a running server looks for revocations.
const revocationEvery = time.Second

// watchRevocations ends what the authority has revoked, connections that are
// open included, until ctx ends.
func (s *Server) watchRevocations(ctx context.Context, resolver server.AccountResolver) {
	tick := time.NewTicker(revocationEvery)
	defer tick.Stop()
	seen := s.authority.Issued()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := s.authority.Issued()
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
	c, err := s.authority.Accounts()
	if err != nil {
		return err
	}
	for _, x := range []auth.Account{c.Runs, c.Devices} {
		if err := resolver.Store(x.Subject, x.Token); err != nil {
			return err
		}
		account, err := s.server.LookupAccount(x.Subject)
		if err != nil {
			return err
		}
		s.server.UpdateAccountClaims(account, x.AccountClaims)
	}
	return nil
}
