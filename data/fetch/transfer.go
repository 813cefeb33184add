package fetch

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"time"

	"fedpace/internal/filelock"
)

// reason says what a failed attempt means; the zero value is worth another one.
type reason struct {
	error
	// permanent says that no further attempt at the same URL can succeed.
	permanent bool
	// disk says that the file could not be written, so that no URL can help.
	disk bool
	// sum says that the file does not have the checksum that its publisher states.
	sum bool
	// wait is how long the server asks to wait before another attempt; 0 where it does not say.
	wait time.Duration
}

// Unwrap returns the failure itself.
func (r reason) Unwrap() error { return r.error }

// reasonIn returns the first reason in the tree of err, and the zero value if there is none.
func reasonIn(err error) (r reason) {
	errors.As(err, &r)
	return r
}

// diskFailure marks a failure to write, which another attempt over the network would not cure.
func diskFailure(err error) error {
	if err == nil {
		return nil
	}
	return reason{error: err, disk: true}
}

// permanent makes a failure that another attempt would not cure.
func permanent(format string, args ...any) error {
	return reason{error: fmt.Errorf(format, args...), permanent: true}
}

// maxArchive bounds a file with no published size, in bytes (64 GiB).
const maxArchive = 1 << 36

// transfer makes one request for the archive a to the URL address and appends what comes to p, which is whole when
// the error is nil. It ends the request if no byte comes for f.Stall.
func (f *Fetcher) transfer(ctx context.Context, a Archive, address string, p *partial) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	// The alarm ends a request that brings no byte for the length of stall; each piece resets it.
	stall := cmp.Or(f.Stall, 30*time.Second)
	alarm := time.AfterFunc(stall, func() { cancel(fmt.Errorf("nothing came for %v", stall)) })
	defer alarm.Stop()

	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return permanent("%w", err)
	}
	request.Header.Set("User-Agent", "fedpace")
	// Without this header the client would unpack bytes that are to be stored as they are.
	request.Header.Set("Accept-Encoding", "identity")
	// A download that has begun goes on after the bytes that are there.
	if p.size > 0 {
		request.Header.Set("Range", fmt.Sprintf("bytes=%d-", p.size))
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return failure(ctx, err)
	}
	defer response.Body.Close()
	done, err := p.begin(response)
	if err != nil || done {
		return err
	}
	report := f.reporter(a, p)
	report()
	limit := cmp.Or(a.Size, maxArchive)
	_, err = io.Copy(writer(func(b []byte) (int, error) {
		alarm.Reset(stall)
		if p.size+int64(len(b)) > limit {
			return 0, permanent("sends more than %d bytes", limit)
		}
		n, err := p.file.Write(b)
		p.size += int64(n)
		report()
		return n, diskFailure(err)
	}), response.Body)
	switch {
	case err != nil:
		return failure(ctx, err)
	case p.size < p.total:
		return fmt.Errorf("broke off at %d of %d bytes", p.size, p.total)
	}
	return nil
}

// writer is a function as an io.Writer.
type writer func(b []byte) (int, error)

// Write calls the function.
func (w writer) Write(b []byte) (int, error) { return w(b) }

// failure returns why a request ended with err: the cause for which its context was cancelled, if it was, or
// else err. An unknown host and a wrong certificate are permanent failures.
func failure(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if e := (*url.Error)(nil); errors.As(err, &e) {
		// The caller names the URL, so that the message need not.
		err = e.Err
	}
	dnsError := (*net.DNSError)(nil)
	isUnknownHost := errors.As(err, &dnsError) && dnsError.IsNotFound
	if isUnknownHost || errors.As(err, new(*tls.CertificateVerificationError)) {
		return permanent("%w", err)
	}
	return err
}

// begin prepares p for the body of a response, which continues the file or replaces it (RFC 9110, section 14).
// done reports that p is whole already and no body needs to be read. For any other response it returns an
// error.
func (p *partial) begin(r *http.Response) (done bool, err error) {
	switch r.StatusCode {
	case http.StatusOK:
		// The server sends the whole file, even if only a part was asked for.
		err := p.restart()
		p.total = r.ContentLength
		return false, diskFailure(err)
	case http.StatusPartialContent:
		contentRange := r.Header.Get("Content-Range")
		first := int64(0)
		if _, err := fmt.Sscanf(contentRange, "bytes %d-", &first); err != nil || first != p.size {
			return false, p.discard(fmt.Errorf("sends %.60q, not the bytes from %d on", contentRange, p.size))
		}
		// Pieces may be of different versions of the file; only the checksum can show that.
		p.inPieces = true
		if r.ContentLength >= 0 {
			p.total = p.size + r.ContentLength
		}
		return false, nil
	case http.StatusRequestedRangeNotSatisfiable:
		// There is no byte after the last: the file was whole already.
		if p.size > 0 && r.Header.Get("Content-Range") == fmt.Sprintf("bytes */%d", p.size) {
			return true, nil
		}
		return false, p.discard(fmt.Errorf("has no bytes from %d on", p.size))
	}
	later := []int{http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests}
	if r.StatusCode >= 500 || slices.Contains(later, r.StatusCode) {
		// A header that gives a date instead of seconds counts as 0.
		seconds, _ := strconv.ParseUint(r.Header.Get("Retry-After"), 10, 16)
		return false, reason{
			error: errors.New("answers " + r.Status),
			wait:  min(time.Duration(seconds)*time.Second, maxWait),
		}
	}
	return false, permanent("answers %s", r.Status)
}

// discard empties the partial file, so that the next attempt starts from the beginning. It returns
// cause, or the failure to empty the file.
func (p *partial) discard(cause error) error {
	return cmp.Or(diskFailure(p.restart()), cause)
}

// maxWait bounds the time that a server may ask to wait before another attempt.
const maxWait = time.Minute

// partial is a download that is not finished: the bytes so far in NAME.part. It is
// locked, so that two processes do not write to one file. Of which version of the archive
// the bytes are shows in its checksum.
type partial struct {
	// file is NAME.part, at its end and locked.
	file *os.File
	// size is the number of bytes so far.
	size int64
	// resumed is the number of those bytes that an earlier call of Fetch has left.
	resumed int64
	// total is the size of the whole file in bytes, -1 while no server has said it.
	total int64
	// inPieces says that a server has continued the file rather than sent it whole, so that its pieces may be of
	// different versions of the archive.
	inPieces bool
}

// openPartial opens or makes the partial file of a download and locks it, so that no other process appends
// to it. It is an error if another process has locked it, or has just completed it.
func openPartial(name string) (p *partial, err error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close())
		}
	}()
	if err := filelock.Lock(f); err != nil {
		return nil, fmt.Errorf("%s: another process is fetching it (%w)", name, err)
	}
	opened, err := f.Stat()
	if err != nil {
		return nil, err
	}
	// Another process may have renamed the file between its opening and its locking.
	if current, err := os.Stat(name); err != nil || !os.SameFile(opened, current) {
		return nil, fmt.Errorf("%s: another process has just finished with it", name)
	}
	_, err = f.Seek(0, io.SeekEnd)
	return &partial{
		file:    f,
		size:    opened.Size(),
		resumed: opened.Size(),
		total:   -1,
	}, err
}

// restart empties the file for a download from the beginning: because the server sends the whole file, or because
// what it has cannot be continued.
func (p *partial) restart() error {
	if err := p.file.Truncate(0); err != nil {
		return err
	}
	_, err := p.file.Seek(0, io.SeekStart)
	p.size = 0
	p.resumed = 0
	p.total = -1
	p.inPieces = false
	return err
}
