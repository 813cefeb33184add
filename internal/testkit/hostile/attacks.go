package hostile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"time"
)

// Target is the server that is attacked, and what the attacker has and knows.
type Target struct {
	// Address is the server's address, such as 127.0.0.1:4222.
	Address string
	// From is the attacker's address on this machine; "": any.
	From string
	// Run is the run's name.
	Run string
	// Devices are the ids of the devices whose credentials the attacker has, and Creds those
	// credentials in the same order.
	Devices []string
	Creds   [][]byte
	// Model is the digest of a model that the server has; "": the newest.
	Model string
	// Count is the number of connections, for the attacks that open several.
	Count int
}

// Attack is one way to attack a server. Run attacks until the context ends, or until the attack
// is complete.
type Attack struct {
	Name string
	Help string
	Run  func(context.Context, *Target) error
}

// Attacks lists the attacks on the server that carries a run's messages.
var Attacks = []Attack{
	{"silent", "Opens connections and says nothing.", silent},
	{"half", "Opens connections and sends half of its credentials.", half},
	{"connects", "Opens connections one after the other and closes them.", connects},
	{"unread", "Opens connections with credentials, asks for models without end, and reads nothing.", unread},
	{"slow", "Does the same and reads a byte now and then.", slow},
	{"oversize", "Sends messages that are larger than it may send.", oversize},
	{"unfinished", "Announces messages and sends half of each.", unfinished},
	{"flood", "Sends messages that nobody asked for as fast as it can.", flood},
	{"hidden", "Hides pings from a program that counts them, within one message, by a carriage return.", hidden},
	{"pings", "Sends nothing but pings, as fast as it can, and reads nothing.", pings},
}

// Named returns the attack with this name. The error for an unknown name lists all attacks.
func Named(name string) (*Attack, error) {
	var all []string
	for i := range Attacks {
		if Attacks[i].Name == name {
			return &Attacks[i], nil
		}
		all = append(all, Attacks[i].Name)
	}
	return nil, fmt.Errorf("hostile: %q is not an attack (%s)", name, strings.Join(all, ", "))
}

// pause is how long an attacker waits before it connects again to a server that has turned it away.
const pause = time.Millisecond

// rest waits for the pause, or for the context, whose error it returns.
func rest(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(pause):
		return nil
	}
}

// persist calls use in n goroutines, at least one, again and again until ctx ends. use opens one connection
// and uses it until that fails; turn is the number of the goroutine, from 0.
func persist(ctx context.Context, n int, use func(ctx context.Context, turn int) error) error {
	var all sync.WaitGroup
	for turn := range max(1, n) {
		all.Go(func() {
			for ctx.Err() == nil {
				// Errors are expected: the server should turn an attacker away.
				_ = use(ctx, turn)
				_ = rest(ctx)
			}
		})
	}
	all.Wait()
	return nil
}

// hold keeps a connection until the other end closes it or ctx ends, and drops what it reads from it. It
// returns the error that ended it.
func hold(ctx context.Context, c net.Conn) error {
	stop := context.AfterFunc(ctx, func() { _ = c.Close() })
	defer stop()
	b := make([]byte, 4096)
	for {
		if _, err := c.Read(b); err != nil {
			return errors.Join(err, c.Close())
		}
	}
}

// silent keeps t.Count connections open and sends nothing.
func silent(ctx context.Context, t *Target) error {
	return persist(ctx, t.Count, func(ctx context.Context, _ int) error {
		c, err := open(ctx, t.Address, t.From)
		if err != nil {
			return err
		}
		return hold(ctx, c)
	})
}

// half keeps t.Count connections open and sends on each only the beginning of a CONNECT.
func half(ctx context.Context, t *Target) error {
	return persist(ctx, t.Count, func(ctx context.Context, _ int) error {
		c, err := open(ctx, t.Address, t.From)
		if err != nil {
			return err
		}
		// A failed write needs no check: hold returns as soon as the connection is closed.
		_, _ = c.Write([]byte(`CONNECT {"verbose":false,"jwt":"ey`))
		return hold(ctx, c)
	})
}

// connects is the attack that opens t.Count connections one after the other and closes each at once. One that is
// refused counts as one of them.
func connects(ctx context.Context, t *Target) error {
	for range t.Count {
		if ctx.Err() != nil {
			return nil
		}
		if c, err := open(ctx, t.Address, t.From); err == nil {
			// Without lingering, a closed connection gives its port back at once, or the machine would
			// run out of ports.
			_ = c.(*net.TCPConn).SetLinger(0)
			_ = c.Close()
		} else if err := rest(ctx); err != nil {
			return nil
		}
	}
	return nil
}

// enter opens a connection with the credentials of one of the target's devices, whose id it returns. The
// devices take turns: turn chooses one.
func (t *Target) enter(ctx context.Context, turn int) (client *Client, device string, err error) {
	if len(t.Creds) == 0 {
		return nil, "", errors.New("hostile: this attack needs credentials")
	}
	i := turn % len(t.Creds)
	client, err = Dial(ctx, t.Address, t.From)
	if err != nil {
		return nil, "", err
	}
	err = client.Connect(ctx, t.Creds[i])
	if err != nil {
		return nil, "", errors.Join(err, client.Close())
	}
	return client, t.Devices[i], nil
}

// within keeps t.Count connections with credentials, at least one, until ctx ends. It calls use for each
// new one, with the id of the device whose credentials it has, and closes it afterwards. When a connection ends,
// another one with the credentials of the same device takes its place.
func (t *Target) within(ctx context.Context, use func(ctx context.Context, c *Client, device string) error) error {
	return persist(ctx, t.Count, func(ctx context.Context, turn int) error {
		c, device, err := t.enter(ctx, turn)
		if err != nil {
			return err
		}
		defer c.Close()
		stop := context.AfterFunc(ctx, func() { _ = c.Close() })
		defer stop()
		return use(ctx, c, device)
	})
}

// subject returns one of a device's subjects in the target's run; verb is its end, such as heartbeat.
func (t *Target) subject(device, verb string) string {
	return "fedpace." + t.Run + ".client." + device + "." + verb
}

// reply returns the subject of a device's inbox for the answer to its nth request.
func reply(device string, n int) string {
	return fmt.Sprint("_INBOX_", device, ".", rand.Uint64(), ".", n)
}

// fetch sends a device's nth request for a model. It does not wait for the answer.
func (t *Target) fetch(c *Client, device string, n int) error {
	// The server takes * for the newest model.
	model := cmp.Or(t.Model, "*")
	subject := fmt.Sprintf("$JS.API.DIRECT.GET.fedpace_%s_models.fedpace.%s.model.%s.0", t.Run, t.Run, model)
	return c.Publish(subject, reply(device, n), nil)
}

// unread asks for models without end and reads no answer, so that answers pile up in the server.
func unread(ctx context.Context, t *Target) error {
	return t.within(ctx, func(ctx context.Context, c *Client, device string) error {
		if err := c.Subscribe("_INBOX_"+device+".>", 1); err != nil {
			return err
		}
		for n := 0; ; n++ {
			if err := t.fetch(c, device, n); err != nil {
				return err
			}
		}
	})
}

// slow asks for models without end and reads one byte for each request.
func slow(ctx context.Context, t *Target) error {
	return t.within(ctx, func(ctx context.Context, client *Client, device string) error {
		if err := client.Subscribe("_INBOX_"+device+".>", 1); err != nil {
			return err
		}
		one := make([]byte, 1)
		for n := 0; ; n++ {
			err := t.fetch(client, device, n)
			if err == nil {
				_, err = client.Read(one)
			}
			if err != nil {
				return err
			}
		}
	})
}

// oversize sends updates of 1 MiB, which is more than a device may send in one message.
func oversize(ctx context.Context, t *Target) error {
	payload := make([]byte, 1<<20)
	return t.within(ctx, func(ctx context.Context, c *Client, device string) error {
		for {
			if err := c.Publish(t.subject(device, "update.0"), "", payload); err != nil {
				return err
			}
		}
	})
}

// unfinished announces an update of 512 KiB, sends half of it, and waits until the server closes the
// connection.
func unfinished(ctx context.Context, t *Target) error {
	return t.within(ctx, func(ctx context.Context, c *Client, device string) error {
		half := strings.Repeat("x", 256<<10)
		if err := c.Say("PUB %s %d\r\n%s", t.subject(device, "update.0"), 2*len(half), half); err != nil {
			return err
		}
		return hold(ctx, c)
	})
}

// flood sends heartbeats as fast as it can, and with every sixteenth an update that nobody asked for.
func flood(ctx context.Context, t *Target) error {
	payload := make([]byte, 64<<10)
	return t.within(ctx, func(ctx context.Context, c *Client, device string) error {
		for i := 0; ; i++ {
			err := c.Publish(t.subject(device, "heartbeat"), "", nil)
			if err == nil && i%16 == 0 {
				err = c.Publish(t.subject(device, "update.0"), reply(device, i), payload)
			}
			if err != nil {
				return err
			}
		}
	})
}

// pings sends pings as fast as it can and reads no answer.
func pings(ctx context.Context, t *Target) error {
	many := strings.Repeat("PING\r\n", 1000)
	return t.within(ctx, func(ctx context.Context, c *Client, _ string) error {
		for {
			if err := c.Say("%s", many); err != nil {
				return err
			}
		}
	})
}

// hidden sends pings in such a way that a program between it and the server takes them for the payload of a
// message. The PUB line has a carriage return in its middle and ends with a newline alone. The server
// leaves out the last byte of such a line and reads the size n. A program that takes the carriage return
// for a space reads the size 10*n. So the pings behind the first n bytes are commands for the server alone.
func hidden(ctx context.Context, t *Target) error {
	const ping = "PING\r\n"
	const fewestPings = 1000
	n := fewestPings*len(ping)/9 + 10
	payload := strings.Repeat("x", n) + "\r\n"
	// The program takes 10n+2 bytes for the payload with its end, and the server n+2, so 9n bytes are left.
	pings := strings.Repeat(ping, 9*n/len(ping)+1)
	return t.within(ctx, func(ctx context.Context, c *Client, device string) error {
		text := fmt.Sprintf("PUB %s _INBOX_%s.\rx %d0\n%s%s", t.subject(device, "heartbeat"), device, n, payload, pings)
		for {
			if err := c.Say("%s", text); err != nil {
				return err
			}
		}
	})
}
