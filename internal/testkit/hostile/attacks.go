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

// Target is what is attacked, and what the attacker has.
type Target struct {
	Address string   // of the server
	From    string   // the attacker's address on this machine; "": any
	Run     string   // the run's name
	Devices []string // ids for which it has credentials
	Creds   [][]byte // of the devices
	Model   string   // the digest of a model that there is; "": the newest
	Count   int      // connections, where the attack opens a number of them
}

// Attack is one thing that a hostile device does until the context ends, or until it
// is done.
type Attack struct {
	Name string
	Help string
	Run  func(context.Context, *Target) error
}

// Attacks are those on the server that carries a run.
var Attacks = []Attack{
	{"silent", "Opens connections and says nothing.", silent},
	{"half", "Opens connections and says half of what shows its credentials.", half},
	{"connects", "Opens connections one after the other and closes them.", connects},
	{"unread", "Opens connections with credentials, asks for models without end, and reads nothing.", unread},
	{"slow", "Does the same and reads a byte now and then.", slow},
	{"oversize", "Sends messages that are larger than it may send.", oversize},
	{"unfinished", "Announces messages and sends half of each.", unfinished},
	{"flood", "Sends messages that nobody asked for as fast as it can.", flood},
	{"hidden", "Hides pings from who counts them, within one message, by a carriage return.", hidden},
	{"pings", "Sends nothing but pings, as fast as it can, and reads nothing.", pings},
}

// Named is the attack of a name.
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

// pause is how long an attacker waits that the server has turned away.
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

// persist keeps up so many connections at a time: each is used until that fails, and
// opened again. turn is the connection's number.
func persist(ctx context.Context, n int, use func(ctx context.Context, turn int) error) error {
	var all sync.WaitGroup
	for turn := range max(1, n) {
		all.Go(func() {
			for ctx.Err() == nil {
				_ = use(ctx, turn) // the server turns it away, which is what it should do
				_ = rest(ctx)
			}
		})
	}
	all.Wait()
	return nil
}

// hold keeps a connection until the other end closes it.
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

func silent(ctx context.Context, t *Target) error {
	return persist(ctx, t.Count, func(ctx context.Context, _ int) error {
		c, err := open(ctx, t.Address, t.From)
		if err != nil {
			return err
		}
		return hold(ctx, c)
	})
}

func half(ctx context.Context, t *Target) error {
	return persist(ctx, t.Count, func(ctx context.Context, _ int) error {
		c, err := open(ctx, t.Address, t.From)
		if err != nil {
			return err
		}
		_, _ = c.Write([]byte(`CONNECT {"verbose":false,"jwt":"ey`)) // hold finds out whether it is closed
		return hold(ctx, c)
	})
}

func connects(ctx context.Context, t *Target) error {
	for range t.Count {
		if ctx.Err() != nil {
			return nil
		}
		if c, err := open(ctx, t.Address, t.From); err == nil {
			_ = c.(*net.TCPConn).SetLinger(0) // or the machine runs out of ports
			_ = c.Close()
		} else if err := rest(ctx); err != nil {
			return nil
		}
	}
	return nil
}

// enter opens a connection with the credentials of one of the target's devices.
func (t *Target) enter(ctx context.Context, turn int) (c *Client, device string, err error) {
	if len(t.Creds) == 0 {
		return nil, "", errors.New("hostile: this attack needs credentials")
	}
	i := turn % len(t.Creds)
	if c, err = Dial(ctx, t.Address, t.From); err != nil {
		return nil, "", err
	}
	if err = c.Connect(ctx, t.Creds[i]); err != nil {
		return nil, "", errors.Join(err, c.Close())
	}
	return c, t.Devices[i], nil
}

// within uses a connection with credentials, again and again on each of so many.
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

// subject is one of a device's subjects in the target's run.
func (t *Target) subject(device, verb string) string {
	return "fedpace." + t.Run + ".client." + device + "." + verb
}

// reply is the subject of a device's inbox for the answer to its nth request.
func reply(device string, n int) string {
	return fmt.Sprint("_INBOX_", device, ".", rand.Uint64(), ".", n)
}

// fetch asks for a model.
func (t *Target) fetch(c *Client, device string, n int) error {
	model := cmp.Or(t.Model, "*") // the server takes it for whichever is the newest
	return c.Publish("$JS.API.DIRECT.GET.fedpace_"+t.Run+"_models.fedpace."+t.Run+".model."+model+".0", reply(device, n), nil)
}

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

func slow(ctx context.Context, t *Target) error {
	return t.within(ctx, func(ctx context.Context, c *Client, device string) error {
		if err := c.Subscribe("_INBOX_"+device+".>", 1); err != nil {
			return err
		}
		one := make([]byte, 1)
		for n := 0; ; n++ {
			err := t.fetch(c, device, n)
			if err == nil {
				_, err = c.Read(one)
			}
			if err != nil {
				return err
			}
		}
	})
}

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

func unfinished(ctx context.Context, t *Target) error {
	return t.within(ctx, func(ctx context.Context, c *Client, device string) error {
		if err := c.Say("PUB %s %d\r\n%s", t.subject(device, "update.0"), 512<<10, strings.Repeat("x", 256<<10)); err != nil {
			return err
		}
		return hold(ctx, c)
	})
}

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

// hidden says a size that who takes a carriage return for a space reads as ten times of what
// the server reads, which leaves out the last byte of a line with one. The rest of the
// message is commands to the server.
func hidden(ctx context.Context, t *Target) error {
	pings := strings.Repeat("PING\r\n", 1000)
	n := len(pings)/9 + 10
	return t.within(ctx, func(ctx context.Context, c *Client, device string) error {
		text := fmt.Sprintf("PUB %s _INBOX_%s.\rx %d0\n%s\r\n%s", t.subject(device, "heartbeat"), device, n, strings.Repeat("x", n), pings)
		text += strings.Repeat("PING\r\n", (10*n+2-(n+2)-len(pings))/6+1)
		for {
			if err := c.Say("%s", text); err != nil {
				return err
			}
		}
	})
}
