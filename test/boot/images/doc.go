// Package images creates what the guests of test/boot boot: disks, a kernel, an initrd with Ignition, kubelets, and the
// files that a bare image downloads. Each is created once and stored in drover/boot in the user's cache folder, in a
// folder that is named after a hash of its inputs. Folders of old hashes may be removed.
//
// It needs root, Ubuntu's and Debian's archives and the Go module proxy. It changes nothing outside of the cache
// folder.
package images
