// Package boot tests drover's user data on virtual machines. They have a kernel, systemd, cloud-init or Ignition,
// containerd and a kubelet, and join a real control plane with exactly the user data that drover generated. The servers
// are those of the simulated OpenStack, or of the real one that test/openstack/real runs, whose hypervisor boots
// nothing.
//
// The tests have the build tag boot and a separate make target, make test-boot. They need root and QEMU, and name
// missing packages.
package boot
