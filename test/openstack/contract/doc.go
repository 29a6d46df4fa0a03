// Package contract is one suite that runs against the simulated cloud (in `make test`) and against a real one
// (`make test-openstack`). It holds each behaviour that drover's driver relies on; where the two differ, the simulation is
// wrong. The README says what is held, and against which release it was last run.
package contract
