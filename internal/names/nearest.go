package names

import "strings"

// Nearest returns the known word that a mistyped one most likely meant, or "" when none
// is near. Ties go to the first.
func Nearest(mistyped string, known []string) string {
	mistyped = strings.ToLower(mistyped)
	best, bestDistance := "", 1+max(1, len(mistyped)/3)
	for _, k := range known {
		d := editDistance(mistyped, strings.ToLower(k))
		if d < bestDistance {
			best, bestDistance = k, d
		}
	}
	return best
}

// editDistance is the number of letters to insert, delete, replace or swap
// with their neighbour (optimal string alignment).
func editDistance(a, b string) int {
	if len(a) > 64 || len(b) > 64 {
		return 64 // no key is as long, so nothing is near
	}
	var d [65][65]int // of the first letters of each
	for i := range len(a) + 1 {
		for j := range len(b) + 1 {
			if i == 0 || j == 0 {
				d[i][j] = i + j
				continue
			}
			d[i][j] = min(d[i-1][j]+1, d[i][j-1]+1, d[i-1][j-1]+1)
			if a[i-1] == b[j-1] {
				d[i][j] = d[i-1][j-1]
			}
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				d[i][j] = min(d[i][j], d[i-2][j-2]+1)
			}
		}
	}
	return d[len(a)][len(b)]
}
