// Package browsertest drives a page in a real browser, Chromium, for tests: it opens tabs of
// a size and a colour scheme, waits, reads, presses keys, and takes pictures. A test is
// skipped where no Chromium is installed, except in CI.
//
// A test's package calls [Main] from its TestMain, which ends the browser.
package browsertest
