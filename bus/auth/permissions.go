package auth

import (
	"errors"
	"strings"
	"time"

	"github.com/nats-io/jwt/v2"

	"fedpace/bus"
	"fedpace/bus/internal/subject"
)

// Limits of a device's connection.
const (
	deviceSubscriptions = 8
	deviceMessage       = bus.ChunkBytes + 1<<14 // a chunk of its update with what is around it
)

// InboxPrefix is the private prefix of the subjects on which a holder of
// credentials receives answers: those of one cannot be read by another.
func InboxPrefix(id string) string { return inboxStart + id }

const inboxStart = "_INBOX_"

// Holder is whom credentials are of.
type Holder struct {
	Role    Role
	ID      string
	Expires time.Time // zero: never
	inbox   string
}

// ReadHolder reads of credentials whom they are of. It checks neither who signed them
// nor whether they are revoked, which a server does.
func ReadHolder(creds []byte) (Holder, error) {
	token, err := jwt.ParseDecoratedJWT(creds)
	if err != nil {
		return Holder{}, err
	}
	c, err := jwt.DecodeUserClaims(token)
	if err != nil {
		return Holder{}, err
	}
	role, id, _ := strings.Cut(c.Name, " ")
	h := Holder{Role: Role(role), ID: id}
	if c.Expires != 0 {
		h.Expires = time.Unix(c.Expires, 0)
	}
	for _, s := range c.Sub.Allow {
		if prefix, ok := strings.CutSuffix(s, ".>"); ok && strings.HasPrefix(prefix, inboxStart) && prefix != inboxStart {
			h.inbox = prefix
			break
		}
	}
	return h, nil
}

// InboxOf is the prefix that credentials allow; "" if they do not limit it.
func InboxOf(creds []byte) (string, error) {
	h, err := ReadHolder(creds)
	if err == nil && !h.Expires.IsZero() && h.Expires.Before(time.Now()) {
		err = errors.New("they have expired")
	}
	return h.inbox, err
}

const anyModel = subject.DirectGet + "*." + subject.Root + ".*.model.*.*"

// siteModel is what a site's server makes of a request for a model, since no
// request to JetStream goes through a leaf node.
const siteModel = subject.Root + ".$2.get.$1.$3.$4"

// gates are all that devices reach of the account in which runs happen.
var gates = []struct {
	name    string
	subject string
	kind    jwt.ExportType
}{
	{"tasks", subject.Root + ".*.client.*." + subject.Task, jwt.Stream},
	{"updates", subject.Root + ".*.client.*." + subject.Update + ".*", jwt.Service},
	{"joins", subject.Root + ".*.client.*." + subject.Join, jwt.Service},
	{"heartbeats", subject.Root + ".*.client.*." + subject.Heartbeat, jwt.Service},
	{"models", anyModel, jwt.Service},
}

// permissions are the subjects that a user may publish on and subscribe to
// (docs/protocol.md, "Permissions").
func permissions(g Grant) (publish, subscribe jwt.StringList) {
	inbox := InboxPrefix(g.ID) + ".>"
	switch g.Role {
	case RoleDevice:
		run, models, stream := "*", anyModel, "*"
		if g.Run != "" {
			run, models, stream = g.Run, subject.DirectGet+subject.ModelsStream(g.Run)+"."+subject.AnyModel(g.Run), subject.ModelsStream(g.Run)
		}
		client := subject.Root + "." + run + ".client." + g.ID + "."
		publish = jwt.StringList{
			client + subject.Update + ".*", client + subject.Join, client + subject.Heartbeat, models,
			subject.Root + "." + run + ".get." + stream + ".*.*",
		}
		return publish, jwt.StringList{client + subject.Task, inbox}
	case RoleHost:
		publish = jwt.StringList{
			subject.AnyClient("*", subject.Plan), subject.Sums("*"), subject.Info("*"), anyModel,
			"$JS.API.CONSUMER.INFO.*.*", "$JS.API.CONSUMER.MSG.NEXT.*.*", "$JS.ACK.>",
		}
		return publish, jwt.StringList{subject.AnyClient("*", subject.Task), subject.AnyClient("*", subject.TaskFor("*")), subject.Announce, inbox}
	case RoleSite:
		publish = jwt.StringList{subject.Root + ".*.get.*.*.*"}
		for _, gate := range gates {
			if gate.kind == jwt.Service && gate.subject != anyModel {
				publish = append(publish, gate.subject)
			}
		}
		return publish, jwt.StringList{">"} // answers to its devices come on inboxes of theirs
	default: // a coordinator answers on everybody's inbox and makes streams
		return jwt.StringList{">"}, jwt.StringList{subject.Root + ".>", "$JS.EVENT.ADVISORY.CONSUMER.>", inbox}
	}
}
