// Package handover keeps drover and machine-controller from acting on the same Machines at the same time, and finds what is left
// of machine-controller that stands in the way.
//
//   - A Lock joins drover's own lease with that of machine-controller: drover leads only while it holds both.
//   - A Watch looks for admission webhooks that intercept writes of Machines, sets or deployments and that nobody answers.
//
// The package reads and writes Leases, and reads webhook configurations, Services and EndpointSlices. It knows no Machine and no
// cloud.
package handover
