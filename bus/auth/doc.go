// Package auth issues the credentials of a NATS server's users, limits what each
// may do, and takes credentials back.
//
// What it promises: a device can reach its own subjects and nothing else, a site
// those of its devices; a client without credentials can do nothing; credentials expire at the
// time that they state, and a revocation ends connections that are open. It knows neither a server
// nor a connection: package embedded gives a server its accounts, and an external server gets them
// as a configuration file.
package auth
