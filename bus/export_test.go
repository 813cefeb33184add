package bus

import "github.com/nats-io/nats.go"

// Bare connects without anything of this package, in process.
func (s *Server) Bare() (*nats.Conn, error) { return nats.Connect("", nats.InProcessServer(s.server)) }
