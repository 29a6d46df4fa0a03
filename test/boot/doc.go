// Package boot boots what drover hands to a server: real virtual machines with a kernel, systemd, cloud-init or Ignition, containerd
// and a kubelet join a real control plane with drover's user data, unchanged. The servers are those of the simulated OpenStack, or
// of the real one that test/openstack/real runs, whose hypervisor boots nothing.
//
// The tests have the build tag boot and a target of their own, make test-boot. They need root and QEMU; what is missing is named.
package boot
