// Package contract is a test suite that runs against the simulated cloud (in `make test`) and against a real one (`make
// test-openstack`). It covers every behaviour of OpenStack that drover's driver relies on. Where the two clouds differ,
// the simulation is wrong. The README lists the behaviours that surprise, and the release against which the suite was last run.
package contract
