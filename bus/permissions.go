package bus

import "github.com/nats-io/jwt/v2"

// Limits of a device's connection.
const (
	deviceSubscriptions = 8
	deviceMessage       = chunkBytes + 1<<14 // a chunk of its update with what is around it
)

// rights are the subjects that a user may publish on and subscribe to.
type rights struct{ publish, subscribe jwt.StringList }

// InboxPrefix is the private prefix of the subjects on which a holder of
// credentials receives answers: those of one cannot be read by another.
func InboxPrefix(id string) string { return inboxStart + id }

const inboxStart = "_INBOX_"

const anyModel = directGet + "*." + root + ".*.model.*.*"

// siteModel is what a site's server makes of a request for a model, since no
// request to JetStream goes through a leaf node.
const siteModel = root + ".$2.get.$1.$3.$4"

// gates are all that devices reach of the account in which runs happen.
var gates = []struct {
	name    string
	subject string
	kind    jwt.ExportType
}{
	{"tasks", root + ".*.client.*." + verbTask, jwt.Stream},
	{"updates", root + ".*.client.*." + verbUpdate + ".*", jwt.Service},
	{"joins", root + ".*.client.*." + verbJoin, jwt.Service},
	{"heartbeats", root + ".*.client.*." + verbHeartbeat, jwt.Service},
	{"models", anyModel, jwt.Service},
}

// permissions of a role (docs/protocol.md, "Permissions").
func permissions(g Grant) rights {
	inbox := InboxPrefix(g.ID) + ".>"
	switch g.Role {
	case RoleDevice:
		run, models, stream := "*", anyModel, "*"
		if g.Run != "" {
			run, models, stream = g.Run, directGet+modelsStream(g.Run)+"."+anyModelSubject(g.Run), modelsStream(g.Run)
		}
		client := root + "." + run + ".client." + g.ID + "."
		return rights{
			publish:   jwt.StringList{client + verbUpdate + ".*", client + verbJoin, client + verbHeartbeat, models, root + "." + run + ".get." + stream + ".*.*"},
			subscribe: jwt.StringList{client + verbTask, inbox},
		}
	case RoleHost:
		return rights{
			publish: jwt.StringList{
				anyClientSubject("*", verbPlan), sumsSubject("*"), infoSubject("*"), anyModel,
				"$JS.API.CONSUMER.INFO.*.*", "$JS.API.CONSUMER.MSG.NEXT.*.*", "$JS.ACK.>",
			},
			subscribe: jwt.StringList{anyClientSubject("*", verbTask), announceSubject, inbox},
		}
	case RoleSite:
		p := rights{subscribe: jwt.StringList{">"}} // answers to its devices come on inboxes of theirs
		p.publish = jwt.StringList{root + ".*.get.*.*.*"}
		for _, gate := range gates {
			if gate.kind == jwt.Service && gate.subject != anyModel {
				p.publish = append(p.publish, gate.subject)
			}
		}
		return p
	default: // a coordinator answers on everybody's inbox and makes streams
		return rights{
			publish:   jwt.StringList{">"},
			subscribe: jwt.StringList{root + ".>", "$JS.EVENT.ADVISORY.CONSUMER.>", inbox},
		}
	}
}
