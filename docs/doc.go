// Package docs holds the pages for users and contributors. Its tests check them:
// links lead somewhere, lines end by column 100, and Go code is that of a file
// that is compiled. Tests of other packages compare tables and figures with the
// programs that make them, and package cmd types the commands. docs/screenshots
// makes their pictures, and make site a website of them.
package docs
