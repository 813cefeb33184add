// Package cputime is the time that cores have worked for this process.
package cputime
