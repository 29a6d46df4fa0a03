// Package limits holds one test. It checks that drover's binary works within 512 MiB of memory, in a memory cgroup, while clients
// without credentials, a client with the autoscaler's certificate, and authors of Machines try to exhaust its memory.
package limits
