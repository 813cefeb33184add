package data

import "fedpace/actors/data/federated"

// What sets are, see package federated.
type (
	Set       = federated.Set
	Info      = federated.Info
	Options   = federated.Options
	Partition = federated.Partition
)
