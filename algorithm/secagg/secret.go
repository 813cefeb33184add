package secagg

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/ecdh"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
	"math/big"
	"slices"

	"github.com/cloudflare/circl/group"
	"github.com/cloudflare/circl/math/polynomial"
	"github.com/cloudflare/circl/secretsharing"
)

// field is the field over which secrets are shared: the integers modulo the order of Ristretto255,
// 2^252 + 27742317777372353535851937790883648493. A number is 32 bytes, the lowest first.
var field = group.Ristretto255

// secret is a number of the field that is drawn at random and shared.
type secret [keyBytes]byte

// drawScalar draws a number of the field from random: 64 bytes, the lowest first, modulo the order, whose
// distribution is uniform but for 2^-256. circl's RandomScalar ignores the reader that it is given.
func drawScalar(random io.Reader) (group.Scalar, error) {
	var b [64]byte
	if _, err := io.ReadFull(random, b[:]); err != nil {
		return nil, fmt.Errorf("secagg: draw a number: %w", err)
	}
	slices.Reverse(b[:])
	return field.NewScalar().SetBigInt(new(big.Int).SetBytes(b[:])), nil
}

// newSecret draws a secret.
func newSecret(random io.Reader) (secret, error) {
	x, err := drawScalar(random)
	if err != nil {
		return secret{}, err
	}
	return bytesOf(x), nil
}

// bytesOf returns the number x of the field as the 32 bytes in which secrets and shares are kept
// and sent.
func bytesOf(x group.Scalar) (s secret) {
	b, err := x.MarshalBinary()
	if err != nil {
		panic("secagg: a number of the field cannot be encoded")
	}
	copy(s[:], b)
	return s
}

// scalarOf returns the number of 32 bytes, or an error if they are no number below the order.
func scalarOf(s secret) (group.Scalar, error) {
	x := field.NewScalar()
	if err := x.UnmarshalBinary(s[:]); err != nil {
		return nil, fmt.Errorf("secagg: a share that is no number of the field: %w", err)
	}
	return x, nil
}

// split returns one share of the secret for each of these members, any threshold of which recover it: the
// values, at i+1 for member i, of a random polynomial of degree threshold-1 with the secret as its constant
// term (Shamir's scheme). random has the bits for its coefficients.
func (s secret) split(random io.Reader, threshold int, members []int) ([]secret, error) {
	x, err := scalarOf(s)
	if err != nil {
		return nil, err
	}
	coefficients := []group.Scalar{x}
	for len(coefficients) < threshold {
		c, err := drawScalar(random)
		if err != nil {
			return nil, err
		}
		coefficients = append(coefficients, c)
	}
	p := polynomial.New(coefficients)
	shares := make([]secret, len(members))
	for i, member := range members {
		at := field.NewScalar().SetUint64(uint64(member + 1))
		shares[i] = bytesOf(p.Evaluate(at))
	}
	return shares, nil
}

// share is one share of a secret, held by a member.
type share struct {
	// holder is the index of the member in the roster.
	holder int
	// value is the polynomial's value at the point holder + 1.
	value secret
}

// recoverSecret returns the secret that threshold of the shares give and that matches accepts, which
// compares it with what is known of the secret: false shares give a false secret without an error. If the
// first shares give no match and there are more than needed, each of the first is left out in turn, so that
// one false share does no harm.
func recoverSecret(shares []share, threshold int, matches func(secret) bool) (secret, error) {
	if len(shares) < threshold {
		return secret{}, fmt.Errorf("%d shares, want %d", len(shares), threshold)
	}
	s, err := interpolate(shares[:threshold], threshold)
	if err == nil && matches(s) {
		return s, nil
	}
	// Each turn leaves out one of the first shares, and the next one takes its place.
	for omitted := range min(threshold, len(shares)-1) {
		remaining := make([]share, 0, len(shares)-1)
		remaining = append(remaining, shares[:omitted]...)
		remaining = append(remaining, shares[omitted+1:]...)
		if len(remaining) < threshold {
			break
		}
		s, err := interpolate(remaining[:threshold], threshold)
		if err == nil && matches(s) {
			return s, nil
		}
	}
	return secret{}, fmt.Errorf("%d shares do not give the secret: some are false", len(shares))
}

// interpolate returns the secret that exactly threshold shares give, each at the point of its holder's
// index plus 1. It is an error if the value of a share is no number of the field. False shares give a false
// secret, not an error.
func interpolate(shares []share, threshold int) (secret, error) {
	list := make([]secretsharing.Share, len(shares))
	for i, x := range shares {
		value, err := scalarOf(x.value)
		if err != nil {
			return secret{}, err
		}
		list[i] = secretsharing.Share{
			ID:    field.NewScalar().SetUint64(uint64(x.holder + 1)),
			Value: value,
		}
	}
	// Shares are values of a polynomial, which as many as its degree do not give away.
	degree := uint(threshold - 1)
	x, err := secretsharing.Recover(degree, list)
	if err != nil {
		return secret{}, err
	}
	return bytesOf(x), nil
}

// commitment returns what a member publishes of its seed, with which a recovered seed is compared.
func (s secret) commitment() [digestBytes]byte { return sha256.Sum256(s[:]) }

// maskKey derives the X25519 key of a secret. Members share the secret among their neighbours instead of the key
// itself: secret sharing works on the numbers below the order of a field, and the bytes of an X25519 key need not be
// one.
func (s secret) maskKey() *ecdh.PrivateKey {
	key, err := ecdh.X25519().NewPrivateKey(deriveKey(s[:], nil, keyText))
	if err != nil {
		panic("secagg: 32 bytes are no X25519 key")
	}
	return key
}

// deriveKey returns a key of 32 bytes by HKDF-SHA-256 from a secret. salt and info separate the keys
// of different rosters and of different uses.
func deriveKey(secret, salt []byte, info string) []byte {
	b, err := hkdf.Key(sha256.New, secret, salt, info, keyBytes)
	if err != nil {
		panic("secagg: HKDF of 32 bytes fails")
	}
	return b
}

// agreeOnSecret returns the secret that two members share by X25519: each computes it from its own private
// key and the public key of the other. A public key that is not valid, or of low order, is an error.
func agreeOnSecret(private *ecdh.PrivateKey, public [keyBytes]byte) ([]byte, error) {
	key, err := ecdh.X25519().NewPublicKey(public[:])
	if err != nil {
		return nil, fmt.Errorf("secagg: a key of X25519: %w", err)
	}
	shared, err := private.ECDH(key)
	if err != nil {
		return nil, fmt.Errorf("secagg: a key of X25519: %w", err)
	}
	return shared, nil
}

// shareCipher returns the cipher for the shares that member from sends to member to, and the data, these
// two indices, that it authenticates. private is the share key of one of the two, and peer the index of the
// other. Each key encrypts one message, so the nonce is zero.
func (r *Roster) shareCipher(private *ecdh.PrivateKey, peer, from, to int) (cipher.AEAD, []byte, error) {
	shared, err := agreeOnSecret(private, r.Entries[peer].ShareKey)
	if err != nil {
		return nil, nil, err
	}
	direction := binary.LittleEndian.AppendUint32(nil, uint32(from))
	direction = binary.LittleEndian.AppendUint32(direction, uint32(to))
	block, err := aes.NewCipher(deriveKey(shared, r.digest[:], sealText+string(direction)))
	if err != nil {
		return nil, nil, err
	}
	aead, err := cipher.NewGCM(block)
	return aead, direction, err
}
