// Package images makes what the guests of test/boot boot: disks, a kernel, an initrd with Ignition, kubelets, and the downloads
// that an image without them asks for. All of it is made once and stored in drover/boot of the user's cache folder, in folders
// that are named after a hash of their inputs. Folders of old hashes may be removed.
//
// It needs root, Ubuntu's and Debian's archives and the Go module proxy; nothing outside of the cache folder is changed.
package images
