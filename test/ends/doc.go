// Package ends holds one test. It checks that drover keeps nothing in memory about deleted Machines, deployments,
// credentials, projects and Secrets. The real controllers run in one process and in virtual time. Their API server is
// test/kube/memory, and their cloud is test/openstack, called within the process.
package ends
