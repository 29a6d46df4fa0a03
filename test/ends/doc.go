// Package ends holds one test: drover keeps nothing in memory of Machines, deployments, credentials, projects and Secrets that
// were deleted. The real controllers run in one process and in virtual time, between test/kube/memory and the in-process door of
// test/openstack.
package ends
