package embedded_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/nats-io/jwt/v2"

	"fedpace/bus/auth"
	"fedpace/bus/bustest"
	"fedpace/bus/embedded"
)

// A device that subscribes while others' credentials are revoked hears its tasks.
func TestRevoke_OthersStillHear(t *testing.T) {
	g := bustest.NewGuarded(t)
	run := g.Admin()
	device, _ := g.Raw(g.Creds(auth.Grant{Role: auth.RoleDevice, ID: "pi"}))
	update := func(c *jwt.AccountClaims, token string) error { return embedded.Update(g.Server, c, token) }
	if err := g.Authority.Revocations(update); err != nil || g.Server.Renewed() {
		t.Errorf("an enrolment makes the imports anew; error: %v", err)
	}
	var updating sync.Mutex
	var revoking sync.WaitGroup
	over, end := context.WithCancel(t.Context())
	revoking.Go(func() {
		for n := 0; over.Err() == nil; n++ {
			err := g.Authority.Revocations(func(c *jwt.AccountClaims, token string) error {
				updating.Lock()
				defer updating.Unlock()
				c.Revocations = jwt.RevocationList{fmt.Sprint("U", n): 1} // which the token has not: all are others
				return update(c, token)
			})
			if err != nil {
				t.Error(err)
				return
			}
		}
	})
	defer revoking.Wait()
	defer end()
	deaf := 0
	for i := range 150 {
		sub, err := device.SubscribeSync(fmt.Sprintf("fedpace.r%d.client.pi.task", i))
		if err == nil {
			err = device.Flush()
		}
		updating.Lock()
		if err == nil {
			err = run.Publish(sub.Subject, []byte("a task"))
		}
		if err == nil {
			err = run.Flush()
		}
		if err == nil {
			err = device.Flush() // its answer comes behind the task
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
	if deaf > 0 {
		t.Errorf("%d of 150 subscriptions hear nothing", deaf)
	}
}
