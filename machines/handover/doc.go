// Package handover prevents drover and machine-controller from acting on the same Machines at the same time, and finds leftover parts
// of machine-controller that block drover.
//
//   - A Lock joins drover's own lease with that of machine-controller: drover leads only while it holds both.
//   - A Watch finds admission webhooks that intercept writes of Machines, sets or deployments and do not answer.
//
// The package reads and writes Leases, and reads webhook configurations, Services and EndpointSlices. It does not use Machines or the
// cloud.
package handover
