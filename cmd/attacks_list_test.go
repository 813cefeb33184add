//go:build unix && !race

package cmd

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"fedpace/bus"
	"fedpace/bus/auth"
)

// attackSuite is the suite that docs/security.md counts.
var attackSuite = []attack{
	// Who has no credentials.
	{
		name: "silent connections", does: "opens 600 connections and says nothing", holds: "a limit in all, below the descriptors",
		do: besiege("silent", 600),
	},
	{
		name: "half a greeting", does: "opens 100 connections and says half of what shows credentials", holds: "ten seconds to show them",
		do: besiege("half", 100),
	},
	{
		name: "endless connecting", does: "connects 2,000 times, one after the other", holds: "rates by address and in all",
		do: besiege("connects", 2000),
	},
	{
		name: "no credentials", does: "connects without any", holds: "the server refuses it",
		do: during(func(a *attacker) {
			c := a.dial()
			_ = c.Hello(nil) // the server may have closed
			a.refused(c, "Authorization Violation")
		}),
	},
	{
		name: "forged credentials", does: "shows credentials that keys of its own have signed", holds: "the authority's signature",
		do: during(func(a *attacker) {
			own, err := auth.New(filepath.Join(a.TempDir(), "keys"))
			if err != nil {
				a.Fatal(err)
			}
			forged, err := own.Issue(auth.Grant{Role: auth.RoleDevice, ID: "evil"})
			if err != nil {
				a.Fatal(err)
			}
			c := a.dial()
			_ = c.Hello(forged)
			a.refused(c, "Authorization Violation")
		}),
	},
	{
		name: "another's token", does: "shows the token of another device, without its key", holds: "a signature by the key at each connection",
		do: during(func(a *attacker) {
			token, _, _ := bytes.Cut(a.read(a.suite.path("good")), []byte("-----BEGIN USER NKEY SEED-----"))
			_, seed, _ := bytes.Cut(a.read(a.creds), []byte("-----BEGIN USER NKEY SEED-----"))
			c := a.dial()
			_ = c.Hello(append(append(token, "-----BEGIN USER NKEY SEED-----"...), seed...))
			a.refused(c, "Authorization Violation")
		}),
	},
	{
		name: "ended credentials", does: "shows credentials that have ended", holds: "the end stands in the token",
		do: during(func(a *attacker) {
			creds := a.read(a.suite.path("brief"))
			for h, err := auth.ReadHolder(creds); ; time.Sleep(50 * time.Millisecond) {
				if err != nil {
					a.Fatal(err)
				}
				if h.CheckExpiry(time.Now()) != nil {
					break
				}
			}
			c := a.dial()
			_ = c.Hello(creds)
			a.refused(c, "Authorization Violation")
		}),
	},
	{
		name: "revoked credentials", does: "stays connected when its credentials are taken back", holds: "the server ends the connection within seconds",
		do: during(func(a *attacker) {
			c := a.dial()
			if err := c.Connect(a.over, a.read(a.suite.path("leaver"))); err != nil {
				a.Fatal(err)
			}
			if err := a.suite.authority.Revoke(auth.RoleDevice, "leaver"); err != nil {
				a.Fatal(err)
			}
			a.refused(c, "Revoked")
		}),
	},
	{
		name: "no NATS at all", does: "speaks HTTP, and noise", holds: "the first line is CONNECT, or the connection ends",
		do: during(func(a *attacker) {
			for _, text := range []string{"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "\x16\x03\x01\x02\x00\x01\x00\n", strings.Repeat("\x00\xff", 4096) + "\n"} {
				c := a.dial()
				_ = c.Say("%s", text)
				a.refused(c, "")
			}
		}),
	},
	{
		name: "a line without end", does: "sends 4 MB without the end of a line", holds: "lines of 8 KiB at most",
		do: during(func(a *attacker) {
			c := a.dial()
			_ = c.Say("CONNECT %s", strings.Repeat("x", 4<<20))
			a.refused(c, "")
		}),
	},

	// What a device's connection may do.
	{
		name: "many connections", does: "opens 40 connections with its credentials", holds: "`devices.quota.connections`",
		do: during(func(a *attacker) {
			full := 0
			for range 40 {
				if c := a.dial(); c.Connect(a.over, a.read(a.creds)) != nil {
					full++
				}
			}
			if full != 37 { // 4, of which it has one
				a.Errorf("%d of 40 connections are refused, want 37", full)
			}
		}),
	},
	{
		name: "reading nothing", does: "asks for models without end and reads none", holds: "`devices.quota.pending_mb`, and two requests at a time",
		do: besiege("unread", 3),
	},
	{
		name: "reading slowly", does: "does the same and reads a byte now and then", holds: "the same, and ten seconds for a part",
		do: besiege("slow", 3),
	},
	{
		name: "large messages", does: "sends messages of 1 MiB", holds: "the largest message in its credentials",
		do: during(func(a *attacker) {
			c := a.enter()
			_ = c.Publish(a.subject("update.0"), "", make([]byte, 1<<20))
			a.refused(c, "Maximum Payload Violation")
		}),
	},
	{
		name: "half messages", does: "announces messages and sends half of each", holds: "a quota of its own for each device",
		do: besiege("unfinished", 3),
	},
	{
		name: "a flood of pings", does: "sends pings as fast as it can and reads nothing", holds: "`devices.quota.messages_per_second`",
		do: besiege("pings", 3),
	},
	{
		name: "hidden pings", does: "hides commands in a message whose size the server reads otherwise", holds: "lines are read as it reads them",
		do: besiege("hidden", 3),
	},
	{
		name: "a flood of messages", does: "sends heartbeats and chunks as fast as it can", holds: "a budget of messages that nobody asked for",
		do: func(a *attacker) {
			a.next()
			for a.nats.IsConnected() && a.over.Err() == nil {
				_ = a.nats.Publish(a.subject("heartbeat"), nil)
				_ = a.nats.Publish(a.subject("update.0"), make([]byte, 1<<16))
			}
		},
		banned: "messages",
	},
	{
		name: "many subscriptions", does: "subscribes 100 times", holds: "eight subscriptions in its credentials",
		do: during(func(a *attacker) {
			c := a.enter()
			for i := range 100 {
				_ = c.Subscribe(fmt.Sprint("_INBOX_evil.", i), i+1)
			}
			a.refused(c, "maximum subscriptions exceeded")
		}),
	},
	{
		name: "listening to all", does: "subscribes to everything, by wildcards", holds: "its credentials name its subjects",
		do: forbidden("SUB > 1\r\n", "SUB fedpace.> 1\r\n", "SUB fedpace.*.client.*.task 1\r\n", "SUB $SYS.> 1\r\n"),
	},
	{
		name: "another's tasks", does: "subscribes to the tasks and the answers of another device", holds: "the same",
		do: forbidden("SUB "+suiteSubjects+"good.task 1\r\n", "SUB _INBOX_good.> 1\r\n"),
	},
	{
		name: "another's update", does: "sends an update and a heartbeat for another device", holds: "the same",
		do: forbidden(publish(suiteSubjects+"good.update.0"), publish(suiteSubjects+"good.heartbeat")),
	},
	{
		name: "another's join", does: "joins as another device", holds: "the same",
		do: forbidden(publish(suiteSubjects + "good.join")),
	},
	{
		name: "a larger device's join", does: "joins with more samples than its credentials let it have", holds: "the number is part of the subject",
		do: forbidden(publish(suiteSubjects + "evil.join.1000000")),
	},
	{
		name: "a simulated client's work", does: "sends sums and plans in place of a host", holds: "only hosts may",
		do: forbidden(publish("fedpace.suite.sums"), publish(suiteSubjects+"3.plan")),
	},
	{
		name: "a model of its own", does: "publishes a chunk of a model", holds: "only coordinators may",
		do: forbidden(publish("fedpace.suite.model." + strings.Repeat("0", 32) + ".0")),
	},
	{
		name: "deleting the models", does: "deletes, empties and changes the stream of models", holds: "it may only read models",
		do: forbidden(publish("$JS.API.STREAM.DELETE.fedpace_suite_models"), publish("$JS.API.STREAM.PURGE.fedpace_suite_models"), publish("$JS.API.STREAM.UPDATE.fedpace_suite_models")),
	},
	{
		name: "streams of its own", does: "makes a stream and a consumer", holds: "the same",
		do: forbidden(publish("$JS.API.STREAM.CREATE.x"), publish("$JS.API.CONSUMER.CREATE.fedpace_suite_models.x"), publish("$JS.API.STREAM.NAMES")),
	},
	{
		name: "the server's own subjects", does: "asks the server to reload and to drain", holds: "devices have an account of their own",
		do: forbidden(publish("$SYS.REQ.SERVER.X.RELOAD"), publish("$SYS.REQ.SERVER.X.LDM")),
	},
	{
		name: "an answer as a task", does: "has a join and a model answered onto another device's tasks", holds: "answers stay in the account",
		do: during(func(a *attacker) {
			c := a.enter()
			_ = c.Publish(a.subject("join"), suiteSubjects+"good.task", nil)
			_ = c.Publish(fmt.Sprintf("$JS.API.DIRECT.GET.fedpace_suite_models.fedpace.suite.model.%x.0", a.open.ModelDigest), suiteSubjects+"good.task", nil)
			a.want(a.ask("join", &bus.Join{Name: a.id, Protocol: bus.DeviceProtocol, Process: 1}), bus.Status_STATUS_ACCEPTED, "") // the others are answered before it
		}),
	},
	{
		name: "a device of no run", does: "joins a run that does not name it", holds: "nobody listens",
		do: during(func(a *attacker) {
			if _, err := a.nats.Request("fedpace.other.client.evil.join", nil, time.Second); !errors.Is(err, nats.ErrNoResponders) {
				a.Errorf("a join of another run is answered: %v", err)
			}
		}),
	},
	{
		name: "fetching without end", does: "fetches models again and again, and reads them", holds: "`devices.quota.fetches`",
		do: func(a *attacker) {
			t := a.next()
			for a.nats.IsConnected() && a.over.Err() == nil {
				_, _ = a.nats.Request(fmt.Sprintf("$JS.API.DIRECT.GET.fedpace_suite_models.fedpace.suite.model.%x.0", t.ModelDigest), nil, time.Second)
			}
		},
		banned: "it has fetched",
		sets:   "logistic.features=10000 logistic.samples=4",
	},

	// What it says.
	{
		name: "messages that are none", does: "sends noise, padding and nested groups as every kind of message", holds: "they are counted and ignored",
		do: during(func(a *attacker) {
			for _, noise := range [][]byte{[]byte("\xff\xff\xff noise \x00"), bytes.Repeat([]byte{0x0b}, 100_000), append([]byte{0xfa, 0x07, 0x80, 0x80, 0x04}, make([]byte, 1<<16)...)} {
				_ = a.nats.Publish(a.subject("heartbeat"), noise)
				a.want(a.askBytes("update.0", noise), bus.Status_STATUS_REFUSED, "")
			}
			a.want(a.askBytes("join", []byte{0xff}), bus.Status_STATUS_REFUSED, "Join")
		}),
	},
	{
		name: "names that write on screens", does: "joins with control characters, line ends and 64 kB in its name", holds: "names are printable and short",
		do: during(func(a *attacker) {
			for _, name := range []string{"\x1b[2J\x1b]0;evil\x07", "evil\nDevice good has left", strings.Repeat("x", 1<<16)} {
				a.want(a.ask("join", &bus.Join{Name: name, Process: 1}), bus.Status_STATUS_REFUSED, "name")
				a.want(a.ask("join", &bus.Join{Kernel: name, Process: 1}), bus.Status_STATUS_REFUSED, "kernel")
			}
			if said := a.lines.String(); strings.ContainsAny(said, "\x1b\x07") || strings.Contains(said, "\nDevice good has left") {
				a.Errorf("the run says\n%q", said)
			}
		}),
	},
	{
		name: "joining without end", does: "joins 2,000 times", holds: "the budget of messages",
		do: func(a *attacker) {
			a.next()
			for i := range 2000 {
				a.ask("join", &bus.Join{Name: a.id, Protocol: bus.DeviceProtocol, Process: 1, Samples: uint64(i)})
				if a.over.Err() != nil || strings.Contains(a.lines.String(), "Device evil has no place") {
					return
				}
			}
		},
		banned: "messages that nobody asked for",
	},
	{
		name: "coming and going", does: "leaves its connection and joins anew in each round", holds: "its place is given back",
		do: func(a *attacker) {
			for range 3 {
				if a.next() == nil {
					return
				}
				a.nats.Close()
				a.join()
				a.spoil()
			}
		},
	},
	{
		name: "a copy of credentials", does: "joins as a device at work, with its credentials, and answers its task", holds: "one process for a device",
		do: during(func(a *attacker) {
			copied := &attacker{besieged: a.besieged, id: "good", creds: a.suite.path("good")}
			copied.connect()
			copied.want(copied.ask("join", &bus.Join{Name: "good", Protocol: bus.DeviceProtocol, Process: 2}), bus.Status_STATUS_REFUSED, "another process")
			copied.want(copied.ask("update.0", &bus.Update{Task: a.open.Task - 1, Chunks: 1, Values: make([]byte, 40), Process: 2}), bus.Status_STATUS_REFUSED, "another process")
		}),
	},

	// Updates that are not what was asked for.
	{
		name: "another's task", does: "answers the task of another device", holds: "a task is one device's",
		task: func(a *attacker, t *bus.Task, values []float32) {
			a.want(a.send(&bus.Task{Task: t.Task - 1}, values, nil), bus.Status_STATUS_REFUSED, "is not open")
			a.spoil()
		},
	},
	{
		name: "a task of tomorrow", does: "answers tasks before they are given", holds: "the same",
		task: func(a *attacker, t *bus.Task, values []float32) {
			for i := range uint64(4) {
				a.want(a.send(&bus.Task{Task: t.Task + 1 + i}, values, nil), bus.Status_STATUS_REFUSED, "is not open")
			}
			a.spoil()
		},
	},
	{
		name: "a task of yesterday", does: "answers the task of the round before", holds: "the same",
		task: func(a *attacker, t *bus.Task, values []float32) {
			if a.before != nil {
				a.want(a.send(a.before, values, nil), bus.Status_STATUS_REFUSED, "is not open")
			}
			a.spoil()
		},
	},
	{
		name: "another run's task", does: "answers the task with the digest of another", holds: "the digest of the task",
		task: func(a *attacker, t *bus.Task, values []float32) {
			a.want(a.send(&bus.Task{Task: t.Task, Digest: make([]byte, len(t.Digest))}, values, nil), bus.Status_STATUS_REFUSED, "another digest")
			a.spoil()
		},
	},
	{
		name: "an update twice", does: "sends an update, then the same and another for the task", holds: "the first counts, once",
		task: func(a *attacker, t *bus.Task, values []float32) {
			a.want(a.send(t, honestly(values), nil), bus.Status_STATUS_ACCEPTED, "")
			a.never(a.send(t, values, nil))
			a.never(a.send(t, one(3, 7)(values), nil))
		},
		comes: honest,
	},
	{
		name: "a second thought", does: "sends a refused update, then an honest one for the task", holds: "the first decides",
		task: func(a *attacker, t *bus.Task, values []float32) {
			a.spoil()
			a.never(a.send(t, honestly(values), nil))
		},
	},
	{
		name: "a chunk on another's subject", does: "sends the chunk 3 on the subject of the chunk 0", holds: "they must agree",
		task: func(a *attacker, _ *bus.Task, _ []float32) {
			a.want(a.chunk(0, 3, 4, make([]byte, 8)), bus.Status_STATUS_REFUSED, "chunk 3 on")
		},
	},
	{
		name: "chunks out of order", does: "sends the chunk 0, then the chunk 2, then the end", holds: "one after the other, from 0",
		task: func(a *attacker, _ *bus.Task, _ []float32) {
			a.want(a.chunk(0, 0, 3, make([]byte, 8)), bus.Status_STATUS_CONTINUE, "")
			a.want(a.chunk(2, 2, 3, make([]byte, 8)), bus.Status_STATUS_SEND_VALUES, "one after the other")
			a.want(a.chunk(3, 3, 3, nil), bus.Status_STATUS_SEND_VALUES, "1 of 3 chunks are here")
			a.spoil()
		},
	},
	{
		name: "the same chunk without end", does: "sends the first chunk 2,000 times", holds: "the budget of messages",
		do: func(a *attacker) {
			a.next()
			for range 2000 {
				if r := a.chunk(0, 0, 2, make([]byte, 8)); r == nil || r.Status == bus.Status_STATUS_REFUSED || a.over.Err() != nil {
					return
				}
			}
		},
		banned: "messages that nobody asked for",
	},
	{
		name: "chunks without number", does: "announces four billion chunks", holds: "a limit of chunks",
		task: func(a *attacker, _ *bus.Task, _ []float32) {
			a.want(a.chunk(0, 0, math.MaxUint32, make([]byte, 8)), bus.Status_STATUS_REFUSED, "chunks is 4294967295")
		},
	},
	{
		name: "half a number", does: "sends a chunk of seven bytes, and an empty one", holds: "chunks are whole values",
		task: func(a *attacker, t *bus.Task, _ []float32) {
			a.want(a.chunk(0, 0, 1, make([]byte, int(t.Task%2)*7)), bus.Status_STATUS_REFUSED, "values")
		},
	},
	{
		name: "too many values", does: "sends 100,000 values for a model of 10", holds: "the model's size",
		task: refusedUpdate("more than the 10 values", func([]float32) []float32 { return make([]float32, 100_000) }, nil),
	},
	{
		name: "too few values", does: "sends three values for a model of 10", holds: "the same",
		task: refusedUpdate("3 values", func(v []float32) []float32 { return v[:3] }, nil),
	},

	// Updates that are made to harm.
	{
		name: "not a number", does: "sends NaN among the values", holds: "updates are finite",
		task: refusedUpdate("parameter 7 is NaN", one(7, math.NaN()), nil),
	},
	{
		name: "infinity", does: "sends an infinite value", holds: "the same",
		task: refusedUpdate("parameter 0 is -Inf", one(0, math.Inf(-1)), nil),
	},
	{
		name: "the largest numbers", does: "sends values of 3e38, whose sum would overflow", holds: "a bound on the difference from the model",
		task: refusedUpdate("want a difference below 131072", all(func(int, float32) float32 { return 3e38 }), nil),
	},
	{
		name: "a long update", does: "adds 100,000 to some parameters", holds: "`devices.clip`",
		task: acceptedUpdate(all(func(i int, x float32) float32 { return x + 1e5*float32(i%2) }), nil), comes: clipped,
	},
	{
		name: "the other way", does: "sends the model times -1,000", holds: "`devices.clip`",
		task: acceptedUpdate(all(func(_ int, x float32) float32 { return -1000*x - 1 }), nil), comes: clipped,
	},
	{
		name: "noise", does: "sends numbers of another model", holds: "`devices.clip`",
		task: acceptedUpdate(all(func(i int, _ float32) float32 { return float32(1000 * math.Sin(float64(7*i))) }), nil), comes: clipped,
	},

	// What it tells of its work.
	{
		name: "hours of work", does: "says that its task took nearly the ten minutes that it may", holds: "the coordinator's clock",
		task: acceptedUpdate(honestly, func(u *bus.Update) { u.DownloadNs, u.ComputeNs, u.UploadNs = 1e11, 2e11, 1e11 }), comes: honest,
	},
	{
		name: "nine years of work", does: "says that each part of its task took nine years", holds: "`devices.task_seconds`",
		task: refusedUpdate("took 240191h", nil, func(u *bus.Update) { u.DownloadNs, u.ComputeNs, u.UploadNs = 1<<58, 1<<58, 1<<58 }),
	},
	{
		name: "time that overflows", does: "says durations whose sum is negative", holds: "a limit of each",
		task: refusedUpdate("download_ns is 9223372036854775807", nil, func(u *bus.Update) { u.DownloadNs, u.ComputeNs = math.MaxInt64, math.MaxInt64 }),
	},
	{
		name: "time that runs back", does: "says that its task took less than nothing", holds: "durations are not negative",
		task: refusedUpdate("compute_ns is -1", nil, func(u *bus.Update) { u.ComputeNs = -1 }),
	},
	{
		name: "all samples of the world", does: "says that it has learned from 16 million samples", holds: "`devices.max_samples`, if samples weigh",
		task: acceptedUpdate(honestly, func(u *bus.Update) { u.Samples = 1 << 24 }), comes: honest,
	},
	{
		name: "more than all samples", does: "says that it has 2⁶⁰ samples, in joins and in updates", holds: "a limit of a device's samples",
		task: func(a *attacker, t *bus.Task, values []float32) {
			a.want(a.ask("join", &bus.Join{Name: "evil", Samples: 1 << 60, Process: 1}), bus.Status_STATUS_REFUSED, "samples")
			a.want(a.send(t, values, func(u *bus.Update) { u.Samples = 1 << 60 }), bus.Status_STATUS_REFUSED, "samples")
		},
	},
	{
		name: "a large loss", does: "says that its loss is a million", holds: "four times the coordinator's own",
		task: acceptedUpdate(honestly, func(u *bus.Update) { u.FirstStepLoss = 1e6 }), comes: honest,
	},
	{
		name: "no loss at all", does: "says losses that are no number, infinite or negative", holds: "a loss is finite and not negative",
		task: func(a *attacker, t *bus.Task, values []float32) {
			loss := []float64{math.NaN(), math.Inf(1), -2, 1e300}[t.Round%4]
			a.want(a.send(t, values, func(u *bus.Update) { u.FirstStepLoss = loss }), bus.Status_STATUS_REFUSED, "first_step_loss")
		},
	},

	// What it does not do.
	{
		name: "silence", does: "takes a task and is heard of no more", holds: "`devices.liveness_seconds`",
		do: func(a *attacker) {
			a.next()
			a.nats.Close()
		},
		sets: "devices.liveness_seconds=3",
	},
	{
		name: "idling", does: "takes a task, shows that it lives, and never answers", holds: "`devices.task_seconds`",
		do: func(a *attacker) {
			a.next()
			for a.over.Err() == nil && !strings.Contains(a.lines.String(), "Device evil has no place") {
				_ = a.nats.Publish(a.subject("heartbeat"), nil)
				time.Sleep(100 * time.Millisecond)
			}
		},
		banned: "it has worked on one task for more than 2s", sets: "devices.task_seconds=2",
	},
	{
		name: "dripping", does: "sends a value now and then", holds: "`devices.task_seconds`",
		do: func(a *attacker) {
			a.next()
			for i := 0; a.over.Err() == nil && !strings.Contains(a.lines.String(), "Device evil has no place"); i++ {
				if i < 9 {
					a.chunk(i, i, 10, make([]byte, 4))
				}
				time.Sleep(300 * time.Millisecond)
			}
		},
		banned: "it has worked on one task for more than 2s", sets: "devices.task_seconds=2",
	},
	{
		name: "refused without end", does: "sends updates that cannot count, task after task", holds: "`devices.quota.refused_tasks`",
		task: refusedUpdate("", one(0, math.NaN()), nil), banned: "its updates of 10 tasks in a row were refused", sets: "stop.rounds=12",
	},
}
