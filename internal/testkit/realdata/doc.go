// Package realdata knows where the real data are that some tests read: in the folder that
// FEDPACE_DATA names, else in shared/data beside the project.
package realdata
