// Package carbon reads what electricity emits and costs, hour by hour and zone by zone, as grid operators
// and their publishers write it, and says what energy that was drawn at a time comes to.
//
// Nothing is filled in: a zone that the file does not have, an hour that is missing, and a time after the
// last hour are errors.
package carbon
