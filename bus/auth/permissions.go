package auth

import (
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/jwt/v2"

	"fedpace/bus"
	"fedpace/bus/internal/subject"
	"fedpace/internal/names"
)

// Limits of a device's connection, which the server enforces.
const (
	deviceSubscriptions = 8
	// deviceMessage bounds a device's message in bytes: a chunk of its update and the other fields.
	deviceMessage = bus.ChunkBytes + 1<<14
)

// InboxPrefix returns the prefix of the subjects on which the holder of credentials with this id receives
// answers. Each holder has its own, so that no other can read its answers.
func InboxPrefix(id string) string { return inboxStart + id }

// inboxStart begins the prefix of every holder.
const inboxStart = "_INBOX_"

// Holder is the user to which credentials belong, and what they allow, as the credentials themselves say.
type Holder struct {
	Role Role
	ID   string
	// Expires is when the credentials end. The zero time means never.
	Expires time.Time
	// Samples is the largest number of training samples that a device may report, 0 for any number.
	Samples uint64
	// Inbox is the prefix of the subjects on which the holder may receive answers, empty for any.
	Inbox string
}

// Soon is how long before credentials expire their holder is warned.
const Soon = 14 * 24 * time.Hour

// RenewalDue returns when the credentials expire and the command that renews them, both as text for
// people. Both are empty unless the credentials expire within Soon or have expired.
func (h *Holder) RenewalDue(now time.Time) (expiry, renewal string) {
	if h.Expires.IsZero() || h.Expires.Sub(now) > Soon {
		return "", ""
	}
	flag := map[Role]string{RoleHost: "--host ", RoleSite: "--site ", RoleCoordinator: "--coordinator "}[h.Role]
	return h.expiryText(), "fedpace enroll --renew " + flag + h.ID
}

// Until returns in words how long the credentials are good.
func (h *Holder) Until() string {
	if h.Expires.IsZero() {
		return "until they are revoked"
	}
	return "until " + h.expiryText()
}

// expiryText returns the time at which the credentials expire as text, in local time.
func (h *Holder) expiryText() string { return h.Expires.Local().Format(minutes) }

// minutes is the format of times in messages to people.
const minutes = "2006-01-02 15:04"

// ReadHolder reads a file of credentials. It checks neither their signature nor whether they were
// revoked: a server does.
func ReadHolder(creds []byte) (Holder, error) {
	token, err := jwt.ParseDecoratedJWT(creds)
	if err != nil {
		return Holder{}, err
	}
	return ReadToken(token)
}

// ReadToken reads the token in credentials, which is all that a server sees of them, and returns
// whom it belongs to. Whether the issuer of the token may be trusted is for the server to decide.
func ReadToken(token string) (Holder, error) {
	c, err := jwt.DecodeUserClaims(token)
	if err != nil {
		return Holder{}, err
	}
	role, id, _ := strings.Cut(c.Name, " ")
	h := Holder{Role: Role(role), ID: id}
	if c.Expires != 0 {
		h.Expires = time.Unix(c.Expires, 0)
	}
	// The subject of joins that a device may use has its number of samples.
	for _, s := range c.Pub.Allow {
		if samples, ok := subject.JoinLimit(s); ok && h.Role == RoleDevice {
			h.Samples = samples
		}
	}
	// The first inbox with a prefix of its own is the one for answers.
	for _, s := range c.Sub.Allow {
		prefix, matchesAll := strings.CutSuffix(s, ".>")
		isInbox := strings.HasPrefix(prefix, inboxStart) && prefix != inboxStart
		if matchesAll && isInbox {
			h.Inbox = prefix
			break
		}
	}
	return h, nil
}

// CheckExpiry returns an error if the credentials have expired by now, with the command that renews
// them. Credentials without an end never expire.
func (h *Holder) CheckExpiry(now time.Time) error {
	if h.Expires.IsZero() || now.Before(h.Expires) {
		return nil
	}
	expiry, renewal := h.RenewalDue(now)
	return fmt.Errorf(
		"they have ended on %s by this machine's clock, which says %s: set the clock if it is wrong, else renew "+
			"them (%s)",
		expiry,
		now.Local().Format(minutes),
		renewal,
	)
}

// anyModel is the subject of requests for any model of any run.
const anyModel = subject.DirectGet + "*." + subject.Root + ".*.model.*.*"

// siteModel is the subject to which a site's server changes a device's request for a model, because no
// request to JetStream passes through a leaf node. The coordinator's account maps it back.
const siteModel = subject.Root + ".$2.get.$1.$3.$4"

// gates are the subjects of the account of runs that the account of devices can reach: all others do not
// exist for devices, whatever their permissions say.
var gates = []struct {
	name    string
	subject string
	kind    jwt.ExportType
}{
	{"tasks", subject.Root + ".*.client.*." + subject.Task, jwt.Stream},
	{"updates", subject.Root + ".*.client.*." + subject.Update + ".*", jwt.Service},
	{"joins", subject.Root + ".*.client.*." + subject.Join, jwt.Service},
	{"limited joins", subject.Root + ".*.client.*." + subject.Join + ".*", jwt.Service},
	{"heartbeats", subject.Root + ".*.client.*." + subject.Heartbeat, jwt.Service},
	{"models", anyModel, jwt.Service},
}

// permissions returns the subjects that the user of grant g may publish on and subscribe to
// (docs/protocol.md, "Permissions"). devices are the grants of a site's devices: a site may do what they
// may.
func permissions(g Grant, devices []Grant) (publish, subscribe jwt.StringList) {
	inbox := InboxPrefix(g.ID) + ".>"
	switch g.Role {
	case RoleDevice:
		publish, subscribe = devicePermissions(g)
		models := anyModel
		if g.Run != "" {
			models = subject.DirectGet + subject.ModelsStream(g.Run) + "." + subject.AnyModel(g.Run)
		}
		return append(publish, models), subscribe
	case RoleHost:
		publish = jwt.StringList{
			subject.AnyClient("*", subject.Plan),
			subject.Sums("*"),
			subject.Info("*"),
			anyModel,
			// A host takes jobs from the work queue of a run and acknowledges them.
			"$JS.API.CONSUMER.INFO.*.*",
			"$JS.API.CONSUMER.MSG.NEXT.*.*",
			"$JS.ACK.>",
			subject.AnyClient("*", subject.Fetch),
			subject.AnyClient("*", subject.Reply),
		}
		return publish, jwt.StringList{
			subject.AnyClient("*", subject.Task),
			subject.AnyClient("*", subject.TaskFor("*")),
			subject.AnyClient("*", subject.MessageFor("*")),
			subject.Announce,
			inbox,
		}
	case RoleSite:
		for _, device := range devices {
			mayPublish, maySubscribe := devicePermissions(device)
			publish.Add(names.Of(mayPublish, openEnded)...)
			subscribe.Add(maySubscribe...)
		}
		return publish, subscribe
	// A coordinator answers on every user's inbox and makes streams.
	default:
		return jwt.StringList{">"}, jwt.StringList{subject.Root + ".>", "$JS.EVENT.ADVISORY.CONSUMER.>", inbox}
	}
}

// openEnded returns a subject of a device in the form in which its site gets the permission to publish on it: the "*"
// at its end becomes ">". For the subjects that devices use the two forms allow the same. The form with "*" fails
// when the accounts of the hub, to which a site's server connects as a leaf node, are reloaded. The hub then
// withdraws the gates (see gates) and offers those again that overlap with the site's permissions. It looks for them
// with Sublist.ReverseMatch, which in nats-server 2.15.3 does not find a permission that ends with "*" for a gate
// that ends with "*", too.
func openEnded(s string) string {
	for {
		start, found := strings.CutSuffix(s, ".*")
		if !found {
			return s
		}
		// Of several "*" at the end the first begins what ">" stands for.
		if !strings.HasSuffix(start, ".*") {
			return start + ".>"
		}
		s = start
	}
}

// devicePermissions returns the subjects that a device may publish on and subscribe to, whether it connects
// directly or through a site. The number of samples that it may report is part of the subject on which it may
// join, so the server checks it.
func devicePermissions(g Grant) (publish, subscribe jwt.StringList) {
	run := "*"
	stream := "*"
	if g.Run != "" {
		run = g.Run
		stream = subject.ModelsStream(g.Run)
	}
	deviceSubject := func(verb string) string { return subject.Device(run, g.ID, verb) }
	publish = jwt.StringList{
		deviceSubject(subject.Update + ".*"),
		deviceSubject(subject.JoinAs(g.Samples)),
		deviceSubject(subject.Heartbeat),
		// A site's server changes requests for models to this subject and passes them on.
		subject.Root + "." + run + ".get." + stream + ".*.*",
	}
	return publish, jwt.StringList{deviceSubject(subject.Task), InboxPrefix(g.ID) + ".>"}
}
