package natsbus_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"fedpace/bus"
	"fedpace/bus/auth"
	"fedpace/bus/bustest/conformance"
	"fedpace/bus/natsbus"

	"fedpace/bus/bustest"
)

func TestRun_WithCredentials(t *testing.T) {
	t.Parallel()
	g := bustest.NewGuarded(t)
	inside := g.Inside()
	outside := g.Connect(g.Creds(auth.Grant{Role: auth.RoleCoordinator, ID: "lab"}))
	host := g.Connect(g.Creds(auth.Grant{Role: auth.RoleHost, ID: "box"}))
	for run, conn := range map[string]*natsbus.Conn{"inside": inside, "outside": outside} {
		c, err := conn.OpenCoordinator(t.Context(), run, bus.CoordinatorConfig{Kernel: "go", PublishModels: true})
		if err != nil {
			t.Fatal(err)
		}
		h, err := host.OpenHost(t.Context(), run, bus.HostConfig{})
		if err != nil {
			t.Fatal(err)
		}
		if err := h.ServeTasks(t.Context(), answerAtOnce); err != nil {
			t.Fatal(err)
		}
		if err := c.SendTask(3, someTask(1)); err != nil {
			t.Fatal(err)
		}
		if _, err := c.TakePlans(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		d := &conformance.Ends{T: t, C: c, H: h, Digest: bus.DigestOf(model)}
		d.OK(c.PutModel(t.Context(), d.Digest, model))
		d.Send(1)
		x := d.Next()
		if _, err := h.Model(t.Context(), d.Digest); err != nil {
			t.Fatal(err)
		}
		done := d.Post(d.Sum(1))
		d.Take().Accept()
		d.OK(<-done)
		d.OK(x.Done(t.Context()))
		d.OK(h.Close())
		d.OK(c.Close(t.Context()))
	}
}

// A device with its credentials can do what it is there for, and none of the
// rest: not even by having the server answer to somebody else's subject.
func TestPermissions_Device(t *testing.T) {
	t.Parallel()
	g := bustest.NewGuarded(t)
	inside := g.Inside()
	// What is heard below is the device's doing: the coordinator renews its lease later.
	c, err := inside.OpenCoordinator(t.Context(), "r", bus.CoordinatorConfig{Kernel: "go", PublishModels: true, Lease: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	digest := bus.DigestOf(model)
	if err := c.PutModel(t.Context(), digest, model); err != nil {
		t.Fatal(err)
	}
	admin := g.Admin()
	heard, err := admin.SubscribeSync(">")
	if err != nil {
		t.Fatal(err)
	}
	if err := admin.Flush(); err != nil {
		t.Fatal(err)
	}
	pi, refused := g.Raw(g.Creds(auth.Grant{Role: auth.RoleDevice, ID: "pi"}))

	t.Run("models", func(t *testing.T) {
		get := "$JS.API.DIRECT.GET.fedpace_r_models.fedpace.r.model." + digest.String() + "."
		m, err := pi.Request(get+"0", nil, patience)
		if err != nil || len(m.Data) == 0 {
			t.Fatalf("the model: %v, %v", m, err)
		}
		m, err = pi.Request(get+"1", nil, patience)
		if err != nil || m.Header.Get("Status") != "404" {
			t.Fatalf("a chunk that is not there: %v, %v", m, err)
		}
	})
	t.Run("tasks", func(t *testing.T) {
		tasks, err := pi.SubscribeSync("fedpace.r.client.pi.task")
		if err != nil {
			t.Fatal(err)
		}
		if err := pi.Flush(); err != nil {
			t.Fatal(err)
		}
		for end := time.Now().Add(patience); ; {
			if err := admin.Publish("fedpace.r.client.pi.task", []byte("x")); err != nil {
				t.Fatal(err)
			}
			if _, err := tasks.NextMsg(100 * time.Millisecond); err == nil {
				break
			} else if time.Now().After(end) {
				t.Fatal("its task does not arrive: ", err)
			}
		}
	})
	t.Run("own subjects", func(t *testing.T) {
		for len(drain(heard, 50*time.Millisecond)) > 0 {
		}
		for _, s := range []string{"join", "heartbeat", "update.0"} {
			if err := pi.Publish("fedpace.r.client.pi."+s, []byte("x")); err != nil {
				t.Fatal(err)
			}
		}
		got := map[string]int{}
		for n := 0; n < 3; {
			m, err := heard.NextMsg(patience)
			if err != nil {
				t.Fatalf("%v after %v", err, got)
			}
			if !strings.HasSuffix(m.Subject, ".task") { // which may have been under way
				got[m.Subject]++
				n++
			}
		}
		for _, s := range []string{"join", "heartbeat", "update.0"} {
			if got["fedpace.r.client.pi."+s] != 1 {
				t.Errorf("%s arrives %d times: %v", s, got["fedpace.r.client.pi."+s], got)
			}
		}
	})
	t.Run("publish", func(t *testing.T) {
		for _, s := range foreign {
			expectRefusal(t, refused, "publish "+s, func() error { return pi.Publish(s, nil) }, pi)
		}
		if got := drain(heard, 200*time.Millisecond); len(got) > 0 {
			t.Errorf("in the runs' account arrived %v", got)
		}
	})
	t.Run("subscribe", func(t *testing.T) {
		for _, s := range append(foreign, ">", "*", "fedpace.>", "fedpace.r.client.*.task", "fedpace.r.client.pi.*", "_INBOX.>", "_INBOX_*.>", "_R_.>", "$SYS.>", "$JS.>") {
			expectRefusal(t, refused, "subscribe to "+s, func() error { _, err := pi.SubscribeSync(s); return err }, pi)
		}
	})
	// The server answers a direct get of what is not there with an empty message
	// on the reply subject, whatever that is: an empty request to JetStream, say.
	t.Run("answers to others", func(t *testing.T) {
		get := "$JS.API.DIRECT.GET.fedpace_r_models.fedpace.r.model." + digest.String() + "."
		n := 0
		for _, request := range []string{get + "0", get + "7", "join", "heartbeat", "update.0"} {
			// Of a device two requests at a time go on, and one that names a subject twice is sent away.
			for targets := range slices.Chunk(append(foreign, "fedpace.r.client.pi.join"), 2) {
				id := fmt.Sprint("pi", n)
				n++
				evil, _ := g.Raw(g.Creds(auth.Grant{Role: auth.RoleDevice, ID: id}))
				subject := request
				if !strings.HasPrefix(request, "$JS") {
					subject = "fedpace.r.client." + id + "." + request
				}
				for _, to := range targets {
					if err := evil.PublishRequest(subject, to, nil); err != nil {
						t.Fatal(err)
					}
				}
				if err := evil.Flush(); err != nil {
					t.Fatal(err)
				}
			}
		}
		for s := range drain(heard, 500*time.Millisecond) {
			own := strings.HasPrefix(s, "fedpace.r.client.pi") || strings.HasPrefix(s, "$JS.API.DIRECT.GET.") || strings.HasPrefix(s, "_R_.")
			if !own {
				t.Errorf("%s is reached", s)
			}
		}
		if _, err := pi.Request(get+"0", nil, patience); err != nil {
			t.Errorf("the models are gone: %v", err)
		}
		over, end := context.WithCancel(t.Context())
		end()
		if _, err := c.TakePlans(over, nil); !errors.Is(err, context.Canceled) {
			t.Errorf("the run failed: %v", err)
		}
	})
	t.Run("limits", func(t *testing.T) {
		large, gone := g.Raw(g.Creds(auth.Grant{Role: auth.RoleDevice, ID: "large"}))
		// The server says what it takes, so that the client may refuse by itself.
		if err := large.Publish("fedpace.r.client.large.update.0", make([]byte, 1<<20)); err != nil {
			gone <- err
		}
		select {
		case err := <-gone:
			ended := errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) // before it could be read why
			if !ended && !errors.Is(err, nats.ErrMaxPayload) && !strings.Contains(strings.ToLower(err.Error()), "maximum payload") {
				t.Error(err)
			}
		case <-time.After(patience):
			t.Error("a device may send a megabyte at once")
		}
		many, gone := g.Raw(g.Creds(auth.Grant{Role: auth.RoleDevice, ID: "many"}), nats.CustomInboxPrefix("_INBOX_many"))
		for range 20 {
			if _, err := many.SubscribeSync(many.NewInbox()); err != nil {
				break
			}
		}
		select {
		case <-gone:
		case <-time.After(patience):
			t.Error("100 subscriptions are taken")
		}
	})
}

// foreign are subjects that are no device's to publish on or to subscribe to.
var foreign = []string{
	"fedpace.r.client.17.task", "fedpace.r.client.17.plan", "fedpace.r.client.pj.task", "fedpace.r.client.pj.update.0",
	"fedpace.r.client.pj.join", "fedpace.r.client.pj.heartbeat", "fedpace.r.client.pi.plan",
	"fedpace.r.model.ab.0", "fedpace.r.jobs.go", "fedpace.r.sums", "fedpace.r.info", "fedpace.runs",
	"$JS.API.INFO", "$JS.API.STREAM.NAMES", "$JS.API.STREAM.INFO.fedpace_r_jobs", "$JS.API.STREAM.DELETE.fedpace_r_jobs",
	"$JS.API.STREAM.DELETE.fedpace_r_models", "$JS.API.STREAM.PURGE.fedpace_r_models", "$JS.API.STREAM.CREATE.mine",
	"$JS.API.STREAM.MSG.GET.fedpace_r_jobs", "$JS.API.CONSUMER.CREATE.fedpace_r_models", "$JS.API.CONSUMER.DELETE.fedpace_r_jobs.go",
	"$JS.API.CONSUMER.MSG.NEXT.fedpace_r_jobs.go", "$JS.API.DIRECT.GET.fedpace_r_jobs", "$JS.API.DIRECT.GET.fedpace_r_jobs.fedpace.r.jobs.go",
	"$SYS.REQ.SERVER.PING", "$SYS.REQ.USER.INFO", "$SYS.REQ.ACCOUNT.PING.CONNZ", "_INBOX_pj.x", "_INBOX_inside.x", "$KV.x.y", "$KV.fedpace_r_lease.coordinator", "$O.x.C.y", "anything",
}

// drain takes messages until none has arrived for the time quiet, and returns how many there were on each subject.
func drain(s *nats.Subscription, quiet time.Duration) map[string]int {
	got := map[string]int{}
	for {
		m, err := s.NextMsg(quiet)
		if err != nil {
			return got
		}
		if !ofCoordinator(m) {
			got[m.Subject]++
		}
	}
}

// ofCoordinator reports whether a message belongs to the coordinator's look at its own streams, which it takes
// every two seconds: a request with its inbox as the reply subject, the answer, or JetStream's note of it.
func ofCoordinator(m *nats.Msg) bool {
	const inbox = "_INBOX_inside."
	isAnswer := strings.HasPrefix(m.Subject, inbox) && strings.Count(m.Subject, ".") == 2
	return isAnswer || strings.HasPrefix(m.Reply, inbox) || m.Subject == "$JS.EVENT.ADVISORY.API"
}

// expectRefusal does something that the server must refuse, by the client's library or by an error on refused.
func expectRefusal(t *testing.T, refused <-chan error, what string, do func() error, c *nats.Conn) {
	t.Helper()
	if err := do(); err != nil {
		return // by the client already
	}
	if err := c.Flush(); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-refused:
		if !errors.Is(err, nats.ErrPermissionViolation) {
			t.Errorf("%s: %v, want a violation of permissions", what, err)
		}
	case <-time.After(patience):
		t.Errorf("%s is allowed", what)
	}
}
