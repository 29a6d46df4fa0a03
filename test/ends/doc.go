// Package ends holds one test: of Machines, deployments, credentials, projects and Secrets that came and went nothing stays
// in drover. The real controllers run in one process and in virtual time, between test/kube/memory and the in-process door of
// test/openstack.
package ends
