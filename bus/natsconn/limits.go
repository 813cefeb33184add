package natsconn

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// WithHint adds to an error what to do where a limit of the server, or somebody who answers
// in its place, is why.
func WithHint(err error) error {
	if errors.As(err, new(*json.SyntaxError)) || errors.As(err, new(*json.UnmarshalTypeError)) {
		return fmt.Errorf("somebody else answers on this server what only the server should (%w): let nobody in without credentials (fedpace enroll), or give the run a server of its own", err)
	}
	if hint := limitHint(err); hint != "" {
		return fmt.Errorf("%w: %s", err, hint)
	}
	return err
}

// NoMemory tells whether an error is that JetStream has no memory left.
func NoMemory(err error) bool { return limitHint(err) == memoryHint }

// limitHint is what to do where the server refuses something since a limit of its
// own is reached; "" for every other error.
func limitHint(err error) string {
	var api *jetstream.APIError
	switch {
	case errors.Is(err, nats.ErrMaxPayload):
		return "raise the server's max_payload to 1MB, NATS's default"
	case !errors.As(err, &api):
		return ""
	}
	if api.ErrorCode == storeFailed && !strings.Contains(api.Description, "maximum") {
		return ""
	}
	return limits[api.ErrorCode]
}

// storeFailed says in words why; it may be a limit.
const storeFailed = 10077

// limits are the server's limits by the error codes of JetStream, with the way out.
var limits = map[jetstream.ErrorCode]string{
	10002:       memoryHint,
	10023:       memoryHint,
	10028:       memoryHint,
	10047:       memoryHint,
	storeFailed: memoryHint,
	10026:       "raise the account's limit of consumers: a run needs one",
	10027:       "raise the account's limit of streams (max_streams): a run needs three; or let other runs on the server end first",
	10054:       "raise the limit of a message (max_payload, and the account's) to 1MB, NATS's default",
	10113:       "the account asks streams for a limit of their bytes: set max_bytes_required to false for it",
	10120:       "give the account JetStream memory for this number of replicas, or set nats.replicas to one that it has",
	10122:       "raise the account's limit of a stream (mem_max_stream_bytes)",
}

const memoryHint = "give JetStream more memory (max_mem of the server's jetstream block, mem of the account's limits), or let other runs on the server end first; " +
	"a run holds every model that a task may start from"
