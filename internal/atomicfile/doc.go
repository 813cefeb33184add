// Package atomicfile writes a file whole or not at all.
//
// [Write] fills a temporary file beside the path, brings it to the disk and
// renames it. A reader sees the old content or the new one, never a part, even
// if the process or the machine dies in between. The package knows nothing of
// what the files hold.
package atomicfile
