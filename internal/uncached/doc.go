// Package uncached writes files that are long and hardly ever read again, without filling the system's memory with
// them.
//
// What a program writes usually stays in memory long after it is on the disk, so a long log takes new memory for each
// record. A new page costs several times the copy of its bytes, above all on a virtual machine whose host has taken
// the memory back. Linux since version 6.14 can take the pages back as soon as they are on the disk, so that the next
// record uses them. Elsewhere a write is an ordinary one.
package uncached
