package embedded

import (
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats.go"

	"fedpace/bus/auth"
)

// guarded is a server with an authority.
func guarded(t *testing.T) *Embedded {
	t.Helper()
	a, err := auth.New(filepath.Join(t.TempDir(), "keys"))
	if err != nil {
		t.Fatal(err)
	}
	s, err := Start(t.Context(), Config{Listen: "127.0.0.1:0", Authority: a})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// device connects with new credentials.
func (s *Embedded) device(t *testing.T, id string) *nats.Conn {
	t.Helper()
	creds, err := s.config.Authority.Issue(auth.Grant{Role: auth.RoleDevice, ID: id})
	if err != nil {
		t.Fatal(err)
	}
	c, err := nats.Connect(s.URL(), nats.UserCredentialBytes(creds), nats.CustomInboxPrefix(auth.InboxPrefix(id)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// A device that subscribes while others' credentials are revoked hears its tasks.
func TestRevocationsDeafenNobody(t *testing.T) {
	s := guarded(t)
	inside, err := s.Credentials()
	if err != nil {
		t.Fatal(err)
	}
	run, err := nats.Connect("", append(inside, nats.InProcessServer(s))...)
	if err != nil {
		t.Fatal(err)
	}
	defer run.Close()
	c := s.device(t, "pi")
	if err := s.config.Authority.Revocations(s.update); err != nil || s.odd {
		t.Errorf("an enrolment makes the imports anew, or: %v", err)
	}
	var updating sync.Mutex
	var over atomic.Bool
	ended := make(chan error, 1)
	go func() {
		var err error
		for n := 0; err == nil && !over.Load(); n++ {
			err = s.config.Authority.Revocations(func(c *jwt.AccountClaims, token string) error {
				updating.Lock()
				defer updating.Unlock()
				c.Revocations = jwt.RevocationList{fmt.Sprint("U", n): 1}
				return s.update(c, token)
			})
		}
		ended <- err
	}()
	deaf := 0
	for i := range 150 {
		sub, err := c.SubscribeSync(fmt.Sprintf("fedpace.r%d.client.pi.task", i))
		if err == nil {
			err = c.Flush()
		}
		updating.Lock()
		if err == nil {
			err = run.Publish(sub.Subject, []byte("a task"))
		}
		if err == nil {
			err = run.Flush()
		}
		if err == nil {
			err = c.Flush() // its answer comes behind the task
		}
		updating.Unlock()
		if err != nil {
			t.Fatal(err)
		}
		if n, _, err := sub.Pending(); err != nil || n == 0 {
			deaf++
		}
		if err := sub.Unsubscribe(); err != nil {
			t.Fatal(err)
		}
	}
	over.Store(true)
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if deaf > 0 {
		t.Errorf("%d of 150 subscriptions hear nothing", deaf)
	}
}
