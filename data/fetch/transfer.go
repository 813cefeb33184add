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
	permanent bool          // final for this URL
	disk      bool          // final
	sum       bool          // the file is not what its publisher says
	wait      time.Duration // before another attempt, as the server asks
}

// Unwrap gives the failure itself.
func (r reason) Unwrap() error { return r.error }

// reasonIn is the reason in an error's tree, or none.
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

// maxArchive bounds a file whose size is not published.
const maxArchive = 1 << 36

// transfer makes one request and appends what comes to p, which is whole when
// the error is nil.
func (f *Fetcher) transfer(ctx context.Context, a Archive, address string, p *partial) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stall := cmp.Or(f.Stall, 30*time.Second)
	alarm := time.AfterFunc(stall, func() { cancel(fmt.Errorf("nothing came for %v", stall)) })
	defer alarm.Stop()

	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return permanent("%w", err)
	}
	request.Header.Set("User-Agent", "fedpace")
	request.Header.Set("Accept-Encoding", "identity") // else the client unpacks what is to be stored
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

// failure is why a request ended: what cancelled it, or else err. A name that
// is unknown and a certificate that is wrong stay so.
func failure(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if e := (*url.Error)(nil); errors.As(err, &e) {
		err = e.Err // the caller names the URL
	}
	if e := (*net.DNSError)(nil); errors.As(err, &e) && e.IsNotFound ||
		errors.As(err, new(*tls.CertificateVerificationError)) {
		return permanent("%w", err)
	}
	return err
}

// begin makes p ready for the body of a response, or says that p is whole.
// RFC 9110, section 14.
func (p *partial) begin(r *http.Response) (done bool, err error) {
	switch r.StatusCode {
	case http.StatusOK:
		err := p.restart()
		p.total = r.ContentLength
		return false, diskFailure(err)
	case http.StatusPartialContent:
		contentRange := r.Header.Get("Content-Range")
		first := int64(0)
		if _, err := fmt.Sscanf(contentRange, "bytes %d-", &first); err != nil || first != p.size {
			return false, p.discard(fmt.Errorf("sends %.60q, not the bytes from %d on", contentRange, p.size))
		}
		p.pieces = true // whether they are of one version shows in the checksum
		if r.ContentLength >= 0 {
			p.total = p.size + r.ContentLength
		}
		return false, nil
	case http.StatusRequestedRangeNotSatisfiable:
		if p.size > 0 && r.Header.Get("Content-Range") == fmt.Sprintf("bytes */%d", p.size) {
			return true, nil
		}
		return false, p.discard(fmt.Errorf("has no bytes from %d on", p.size))
	}
	later := []int{http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests}
	if r.StatusCode >= 500 || slices.Contains(later, r.StatusCode) {
		seconds, _ := strconv.ParseUint(r.Header.Get("Retry-After"), 10, 16) // 0 for a date
		return false, reason{
			error: errors.New("answers " + r.Status),
			wait:  min(time.Duration(seconds)*time.Second, maxWait),
		}
	}
	return false, permanent("answers %s", r.Status)
}

// discard drops what is there, so that the next attempt starts anew.
func (p *partial) discard(cause error) error {
	return cmp.Or(diskFailure(p.restart()), cause)
}

// maxWait bounds what a server may ask for.
const maxWait = time.Minute

// partial is a download that is not finished: the bytes so far in NAME.part. It is
// locked, so that two processes do not write to one file. Of which version of the archive
// the bytes are shows in its checksum.
type partial struct {
	file    *os.File
	size    int64 // bytes so far
	resumed int64 // of those, from an earlier call
	total   int64 // -1 where no server has said
	pieces  bool  // the bytes came by several requests
}

// openPartial opens or makes a partial file and locks it.
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

// restart empties the file for a download from the beginning, as where the server cannot
// continue one.
func (p *partial) restart() error {
	if err := p.file.Truncate(0); err != nil {
		return err
	}
	_, err := p.file.Seek(0, io.SeekStart)
	p.size = 0
	p.resumed = 0
	p.total = -1
	p.pieces = false
	return err
}
